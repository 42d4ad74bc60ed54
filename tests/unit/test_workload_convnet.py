"""A small convolutional network: what was counted by hand, the network by hand, keys."""

import numpy as np
import pytest
from by_hand import check_gradients

from traintime.errors import InputError
from traintime.measuring import stacks
from traintime.point import make_point

# By hand: a window of 2 x 2 on 5 x 5 pixels has 4 x 4 places, 2 x 2 after pooling; 3 filters, 2 classes, five images.
SMALL = {"side": 5, "window": 2, "filters": 3, "outputs": 2, "batch": 5}
WAYS = ["at-once", "blocks", "one-by-one"]


def work(**changes):
    return make_point("convnet", **changes).work


# Closed form


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (SMALL, (4 + 1) * 3 + (4 * 3 + 1) * 2),
        # 24 x 24 places, 12 x 12 after pooling
        ({}, (25 + 1) * 8 + (144 * 8 + 1) * 10),
    ],
)
def test_parameters_are_counted_as_by_hand(changes, expected):
    assert work(**changes).parameters == work(**changes).trained == expected


def test_the_operations_of_the_products():
    """Five images: 16 places by 4 x 3 weights twice, 12 numbers by 2 classes thrice, 2 operations each."""
    assert work(**SMALL).flops == 5 * 2 * (2 * 16 * 12 + 3 * 24)


def test_activations_are_what_the_layers_hand_on_the_image_included():
    assert work(**SMALL).activation_bytes == 4 * 5 * (25 + 16 * 3 + 12 + 2)


@pytest.mark.parametrize("images", WAYS)
def test_going_through_a_batch_otherwise_changes_no_arithmetic(images):
    assert work(**SMALL, images=images) == work(**SMALL)


# Keys, and what is refused


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({}, "convnet-s28-w5-f8-o10-b256-adam"),
        ({**SMALL, "images": "one-by-one", "optimizer": "sgd"}, "convnet-s5-w2-f3-o2-b5-sgd-one-by-one"),
    ],
)
def test_the_key_names_every_size(changes, key):
    assert make_point("convnet", **changes).key == key


def test_a_window_that_leaves_nothing_to_pool_is_refused():
    with pytest.raises(InputError) as caught:
        make_point("convnet", window=28)
    assert str(caught.value).startswith("window: 28 leaves no two places on 28 pixels. Give less.")


@pytest.mark.parametrize("images", WAYS[1:])
def test_only_numpy_goes_through_a_batch_in_parts(images):
    point = make_point("convnet", images=images)
    stacks.refuse_impossible(point, stacks.get("numpy"))
    with pytest.raises(InputError, match=f"^images: '{images}' is nothing that keras3 has. Take the stack numpy"):
        stacks.refuse_impossible(point, stacks.get("2026-jax"))


# The network by hand


@pytest.fixture(scope="module")
def module(worker_module):
    return worker_module("train_numpy", "convnet")


@pytest.fixture
def trainer(module):
    """Build a trainer of the small point with these changes."""

    def build(**changes):
        point = make_point("convnet", **(SMALL | changes))
        return module.Trainer(point.sizes.model_dump(), point.run.model_dump(), 2)

    return build


def test_images_and_classes_have_the_shapes_and_types_that_the_models_expect(trainer):
    images, classes = next(trainer().batches)
    assert (images.shape, images.dtype) == ((5, 5, 5, 1), np.float32)
    assert (classes.shape, classes.dtype) == ((5, 2), np.float32)
    assert (classes.sum(axis=1) == 1).all()


def test_the_shapes_hold_as_many_numbers_as_there_are_parameters(module):
    sizes = make_point("convnet", **SMALL).sizes.model_dump()
    assert module.samples.data.shapes(sizes) == [(2, 2, 1, 3), (3,), (12, 2), (2,)]


@pytest.mark.parametrize("images", WAYS)
@pytest.mark.parametrize("side", [5, 6])
def test_gradients_agree_with_finite_differences(trainer, images, side):
    trainer = trainer(images=images, side=side)
    check_gradients(trainer.network, *next(trainer.batches))


def test_every_way_through_a_batch_is_the_same_mathematics(trainer):
    losses = [trainer(images=images, batch=40).losses(10) for images in WAYS]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0] == pytest.approx(losses[2], rel=1e-5)


def test_the_window_slides_over_each_place(trainer):
    """One filter that picks the pixel under its upper left corner."""
    network = trainer().network
    image = np.arange(25, dtype="float32").reshape(1, 5, 5, 1)
    assert network.patches(image)[:2].tolist() == [[0, 1, 5, 6], [1, 2, 6, 7]]
    assert len(network.patches(image)) == 16
