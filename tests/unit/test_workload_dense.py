"""Dense layers: what was counted by hand, the network by hand, keys."""

import numpy as np
import pytest
from by_hand import check_gradients

from traintime.measuring import stacks
from traintime.point import make_point

# By hand: 3 numbers to 4 units, 4 units to 4 units, 4 units to 2 classes; five samples.
SMALL = {"inputs": 3, "hidden": 4, "layers": 2, "outputs": 2, "batch": 5}


def work(**changes):
    return make_point("dense", **changes).work


# Closed form


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"inputs": 1, "hidden": 1, "layers": 1, "outputs": 1}, 2 + 2),
        (SMALL, (12 + 4) + (16 + 4) + (8 + 2)),
        # 1000 x 100 + 100, three times 100 x 100 + 100, 100 x 10 + 10
        ({}, 100_100 + 3 * 10_100 + 1_010),
        ({}, 131_410),
    ],
)
def test_parameters_are_counted_as_by_hand(changes, expected):
    assert work(**changes).parameters == work(**changes).trained == expected


@pytest.mark.parametrize("changes", [{"batch": 9}, {"optimizer": "sgd"}])
def test_parameters_depend_on_the_model_alone(changes):
    assert work(**changes).parameters == 131_410


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (SMALL, 5 * (3 + 4 + 4 + 2)),
        ({}, 256 * (1000 + 4 * 100 + 10)),
        ({"batch": 1}, 1_410),
    ],
)
def test_activations_are_what_the_layers_hand_on_the_input_included(changes, expected):
    assert work(**changes).activation_bytes == 4 * expected


def test_the_operations_of_the_layers_and_the_first_ones_two_products():
    """Five samples: 12 weights used twice (the data needs no gradient), 16 and 8 weights thrice, 2 operations each."""
    assert work(**SMALL).flops == 5 * 2 * (2 * 12 + 3 * 16 + 3 * 8)


def test_the_bytes_of_the_layers_products():
    """Inputs, weights and results of each product: 15 + 12 + 20 twice, 20 + 16 + 20 and 20 + 8 + 10 thrice."""
    assert work(**SMALL).product_bytes == 4 * (2 * 47 + 3 * 56 + 3 * 38)


@pytest.mark.parametrize(("layers", "expected"), [(1, 4), (2, 6), (4, 10)])
def test_each_layer_waits_for_the_one_before_forward_and_back(layers, expected):
    assert work(layers=layers).launches == expected


@pytest.mark.parametrize(("optimizer", "numbers", "operations"), [("adam", 8, 12), ("sgd", 4, 2)])
def test_the_update_touches_every_parameter(optimizer, numbers, operations):
    done = work(**SMALL, optimizer=optimizer)
    assert (done.update_bytes, done.update_flops) == (46 * numbers * 4, 46 * operations)


# Keys


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({}, "dense-i1000-h100-n4-o10-b256-adam"),
        ({"optimizer": "sgd"}, "dense-i1000-h100-n4-o10-b256-sgd"),
        (SMALL, "dense-i3-h4-n2-o2-b5-adam"),
        ({"allocator": "tcmalloc", "threads": 1}, "dense-i1000-h100-n4-o10-b256-adam-tcmalloc-t1"),
    ],
)
def test_the_key_names_every_size(changes, key):
    assert make_point("dense", **changes).key == key


# Who can train it


@pytest.mark.parametrize("name", stacks.ALL)
def test_every_stack_can_train_it(name):
    for optimizer in ("adam", "sgd"):
        stacks.refuse_impossible(make_point("dense", optimizer=optimizer), stacks.get(name))


# The network by hand


@pytest.fixture(scope="module")
def module(worker_module):
    return worker_module("train_numpy", "dense")


@pytest.fixture
def trainer(module):
    """Build a trainer of the small point with these changes."""

    def build(**changes):
        point = make_point("dense", **(SMALL | changes))
        return module.Trainer(point.sizes.model_dump(), point.run.model_dump(), 2)

    return build


@pytest.fixture
def data(module):
    return module.samples.data


def test_numbers_and_classes_have_the_shapes_and_types_that_the_models_expect(trainer):
    numbers, classes = next(trainer().batches)
    assert (numbers.shape, numbers.dtype) == ((5, 3), np.float32)
    assert (classes.shape, classes.dtype) == ((5, 2), np.float32)
    assert (classes.sum(axis=1) == 1).all()
    assert set(np.unique(classes)) <= {0, 1}


def test_every_class_occurs(data):
    _, classes = data.samples(make_point("dense").sizes.model_dump(), 1000, np.random.RandomState(0))
    assert (classes.sum(axis=0) > 50).all()


def test_the_shapes_hold_as_many_numbers_as_there_are_parameters(data):
    sizes = make_point("dense").sizes.model_dump()
    assert sum(int(np.prod(shape)) for shape in data.shapes(sizes)) == 131_410
    assert data.shapes(make_point("dense", **SMALL).sizes.model_dump()) == [(3, 4), (4,), (4, 4), (4,), (4, 2), (2,)]


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_gradients_agree_with_finite_differences(trainer, layers):
    trainer = trainer(layers=layers, outputs=3)
    assert len(trainer.weights) == 2 * (layers + 1)
    check_gradients(trainer.network, *next(trainer.batches))


def test_the_loss_of_equal_probabilities_is_the_logarithm_of_the_classes(trainer):
    trainer = trainer(outputs=3)
    for weight in trainer.weights:
        weight[...] = 0
    assert trainer.network.test(*next(trainer.batches)) == pytest.approx(np.log(3))


def test_large_numbers_do_not_overflow(module):
    np.testing.assert_allclose(module.on_numpy.softmax(np.array([[1e4, 0.0], [0.0, -1e4]])), [[1, 0], [1, 0]])
