"""Convolutions in four structures: what was counted by hand, keys, what is refused."""

import numpy as np
import pytest

from traintime.errors import InputError
from traintime.measuring import stacks
from traintime.point import make_point

# By hand: 4 x 4 pixels, 2 maps, two convolutions after the first, 3 classes, five images.
SMALL = {"side": 4, "width": 2, "depth": 2, "outputs": 3, "batch": 5}
STRUCTURES = ["plain", "residual", "dense", "aggregated"]
FIRST, SAME = 9 * 3 * 2, 9 * 2 * 2  # weights of the first convolution, and of one that reads two maps
WEIGHTS = {
    "plain": FIRST + 2 * SAME,
    "residual": FIRST + 2 * SAME,
    "dense": FIRST + SAME + 2 * SAME,  # the last reads four maps
    "aggregated": FIRST + 2 * SAME + 6 * 2,  # and a window of one pixel over all six maps
}
HEAD = {"plain": 2 * 3, "residual": 2 * 3, "dense": 6 * 3, "aggregated": 2 * 3}
BIASES = {"plain": 6 + 3, "residual": 6 + 3, "dense": 6 + 3, "aggregated": 8 + 3}
each = pytest.mark.parametrize("structure", STRUCTURES)


def work(**changes):
    return make_point("blocks", **changes).work


@each
def test_parameters_are_counted_as_by_hand(structure):
    expected = WEIGHTS[structure] + HEAD[structure] + BIASES[structure]
    assert work(**SMALL, structure=structure).parameters == expected


@each
def test_each_weight_of_a_convolution_works_at_every_pixel(structure):
    """Thrice, the first convolution twice, since the data need no gradient; 2 operations, 16 pixels, five images."""
    convolutions = 3 * WEIGHTS[structure] - FIRST
    assert work(**SMALL, structure=structure).flops == 2 * 5 * (16 * convolutions + 3 * HEAD[structure])


@pytest.mark.parametrize(
    ("structure", "maps", "means"),
    [
        # image, three convolutions with their ReLU
        ("plain", 3 + 3 * 4, 2),
        # and a sum
        ("residual", 3 + 3 * 4 + 2, 2),
        # and what is joined: four maps, then six
        ("dense", 3 + 3 * 4 + 4 + 6, 6),
        # and six maps joined once, and a fourth convolution with its ReLU
        ("aggregated", 3 + 4 * 4 + 6, 2),
    ],
)
def test_activations_are_what_the_operations_hand_on(structure, maps, means):
    assert work(**SMALL, structure=structure).activation_bytes == 4 * 5 * (16 * maps + means + 3)


def test_without_relus_half_of_the_convolutions_arrays_are_gone():
    assert work(**SMALL, structure="plain", relu=False).activation_bytes == 4 * 5 * (16 * (3 + 3 * 2) + 2 + 3)


def test_densely_joined_activations_grow_with_the_square_of_the_depth():
    def slope(structure):
        at = [work(structure=structure, depth=depth).activation_bytes for depth in (32, 64)]
        return np.log2(at[1] / at[0])

    assert slope("dense") > 1.8
    assert all(slope(name) < 1.05 for name in STRUCTURES if name != "dense")


@each
def test_the_shapes_hold_as_many_numbers_as_there_are_parameters(structure, worker_module):
    data = worker_module("samples", "blocks").data
    for relu in (True, False):
        point = make_point("blocks", **SMALL, structure=structure, relu=relu)
        shapes = data.shapes(point.sizes.model_dump())
        assert sum(int(np.prod(shape)) for shape in shapes) == point.work.parameters


def test_images_and_classes_have_the_shapes_and_types_that_the_models_expect(worker_module):
    data = worker_module("samples", "blocks").data
    images, classes = data.samples(make_point("blocks", **SMALL).sizes.model_dump(), 7, np.random.RandomState(0))
    assert (images.shape, images.dtype) == ((7, 4, 4, 3), np.float32)
    assert (classes.shape, classes.dtype, classes.sum()) == ((7, 3), np.float32, 7)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({}, "blocks-residual-s32-w16-n8-o10-b32-adam"),
        ({**SMALL, "structure": "dense", "relu": False}, "blocks-dense-s4-w2-n2-o3-b5-adam-linear"),
    ],
)
def test_the_key_names_every_size(changes, key):
    assert make_point("blocks", **changes).key == key


def test_one_set_of_weights_leaves_the_work_as_it_is(worker_module):
    """By hand: the first convolution and one of the two others, their biases, and the dense layer."""
    own, shared = (make_point("blocks", **SMALL, structure="plain", shared=shared) for shared in (False, True))
    assert shared.work.parameters == FIRST + SAME + 2 + 2 + HEAD["plain"] + 3
    assert (shared.work.flops, shared.work.activation_bytes) == (own.work.flops, own.work.activation_bytes)
    shapes = worker_module("samples", "blocks").data.shapes(shared.sizes.model_dump())
    assert sum(int(np.prod(shape)) for shape in shapes) == shared.work.parameters
    assert shared.key == own.key + "-shared"


@pytest.mark.parametrize("structure", ["residual", "dense", "aggregated"])
def test_weights_for_different_shapes_are_not_shared(structure):
    with pytest.raises(InputError, match=f"^shared: True is for the structure plain, not {structure}"):
        make_point("blocks", structure=structure, shared=True)


@pytest.mark.parametrize("name", ["2026-jax", "2026-torch", "numpy"])
def test_feeds_are_tensorflows(name):
    with pytest.raises(InputError) as caught:
        stacks.refuse_impossible(make_point("blocks", feed="decoded"), stacks.get(name))
    assert caught.value.field in ("feed", "workload")


def test_a_shortcut_over_one_convolution_is_refused():
    with pytest.raises(InputError, match=r"^depth: 3 leaves a convolution without a shortcut") as caught:
        make_point("blocks", depth=3)
    assert caught.value.remedy == "Make it larger or smaller by one."
    assert make_point("blocks", depth=3, structure="plain").work.parameters


def test_it_has_a_model_for_keras_3_alone():
    with pytest.raises(InputError, match=r"^workload: 'blocks' has no model for numpy. It has one for keras3"):
        stacks.refuse_impossible(make_point("blocks"), stacks.get("numpy"))
