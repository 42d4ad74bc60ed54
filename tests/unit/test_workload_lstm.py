"""One LSTM over numbers: what was counted by hand, its algorithms, the network by hand, keys."""

import numpy as np
import pytest
from by_hand import check_gradients

from traintime.errors import InputError
from traintime.measuring import stacks
from traintime.point import make_point

# By hand: 3 numbers at each of 4 positions, 2 units, five samples.
SMALL = {"inputs": 3, "units": 2, "length": 4, "batch": 5}
ALGORITHMS = ["default", "per-gate", "combined", "unrolled", "cell", "apart", "native"]


def work(**changes):
    return make_point("lstm", **changes).work


def can(algorithm):
    """The stacks that have the algorithm."""
    found = set()
    for name, stack in stacks.ALL.items():
        try:
            stacks.refuse_impossible(make_point("lstm", algorithm=algorithm), stack)
        except InputError:
            continue
        found.add(name)
    return found


# Closed form


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"inputs": 1, "units": 1}, 4 * 3 + 2),
        (SMALL, 4 * 2 * (3 + 2 + 1) + 3),
        ({}, 4 * 128 * (32 + 128 + 1) + 129),
    ],
)
def test_parameters_are_counted_as_by_hand(changes, expected):
    assert work(**changes).parameters == work(**changes).trained == expected


def test_the_operations_of_the_products():
    """Twenty positions by 3 x 8 twice, four times 5 by 2 x 8 thrice, 5 by 2 x 1 thrice; 2 operations each."""
    assert work(**SMALL).flops == 2 * (2 * 20 * 24 + 3 * 4 * 5 * 16 + 3 * 5 * 2)


def test_the_bytes_of_the_products():
    """Factors and results: 60 + 24 + 160 twice; four times 10 + 16 + 40, thrice; 10 + 2 + 5 thrice."""
    assert work(**SMALL).product_bytes == 4 * (2 * 244 + 3 * 4 * 66 + 3 * 17)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_position_waits_for_the_one_before_unless_one_operation_does_them_all(algorithm):
    assert work(**SMALL, algorithm=algorithm).launches == (4 if algorithm == "native" else 10)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_algorithm_changes_no_arithmetic(algorithm):
    assert work(**SMALL, algorithm=algorithm).flops == work(**SMALL).flops
    assert work(**SMALL, algorithm=algorithm).parameters == work(**SMALL).parameters


# Keys


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({}, "lstm-i32-u128-l25-b100-adam"),
        (SMALL, "lstm-i3-u2-l4-b5-adam"),
        ({"algorithm": "native", "threads": 1}, "lstm-i32-u128-l25-b100-adam-native-t1"),
    ],
)
def test_the_key_names_every_size(changes, key):
    assert make_point("lstm", **changes).key == key


# What is refused


def test_each_stack_has_the_algorithms_that_its_framework_has():
    keras2 = {name for name, stack in stacks.ALL.items() if stack.api == "keras2"}
    keras3 = {name for name, stack in stacks.ALL.items() if stack.api == "keras3"}
    assert can("default") == set(stacks.ALL)
    assert can("per-gate") == keras2 | keras3 | {"numpy"}
    assert can("combined") == keras2
    assert can("unrolled") == keras2 | keras3
    assert can("cell") == {"2026-tensorflow", "2026-jax", "2026-torch"}
    assert can("apart") == {"2026-torch"}
    assert can("native") == {"2017-tensorflow", "2020-tensorflow", "2026-torch"}


def test_an_algorithm_that_a_stack_lacks_is_refused_and_where_it_is_is_said():
    with pytest.raises(InputError) as told:
        stacks.refuse_impossible(make_point("lstm", algorithm="native"), stacks.get("2026-jax"))
    assert str(told.value).startswith("algorithm: 'native' is nothing of its own that keras3 on jax has")
    assert told.value.remedy == "Take default, or one of: keras2 on tensorflow, keras3 on torch."


# The network by hand


@pytest.fixture(scope="module")
def module(worker_module):
    return worker_module("train_numpy", "lstm")


@pytest.fixture
def trainer(module):
    """Build a trainer of the small point with these changes."""

    def build(**changes):
        point = make_point("lstm", **(SMALL | changes))
        return module.Trainer(point.sizes.model_dump(), point.run.model_dump(), 2)

    return build


def test_numbers_and_targets_have_the_shapes_and_types_that_the_models_expect(trainer):
    numbers, targets = next(trainer().batches)
    assert (numbers.shape, numbers.dtype) == ((5, 4, 3), np.float32)
    assert (targets.shape, targets.dtype) == ((5, 1), np.float32)


def test_the_shapes_hold_as_many_numbers_as_there_are_parameters(module):
    sizes = make_point("lstm", **SMALL).sizes.model_dump()
    assert module.samples.data.shapes(sizes) == [(3, 8), (2, 8), (8,), (2, 1), (1,)]


@pytest.mark.parametrize("algorithm", ["default", "per-gate"])
def test_gradients_agree_with_finite_differences(trainer, algorithm):
    trainer = trainer(algorithm=algorithm)
    check_gradients(trainer.network, *next(trainer.batches))


def test_both_algorithms_are_the_same_mathematics(trainer):
    losses = [trainer(algorithm=algorithm).losses(10) for algorithm in ("default", "per-gate")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_an_lstm_that_knows_nothing_foretells_its_bias(trainer):
    trainer = trainer()
    for weight in trainer.weights:
        weight[...] = 0
    trainer.weights[-1][...] = 2
    numbers, _ = next(trainer.batches)
    assert trainer.network.test(numbers, np.zeros((5, 1), "float32")) == pytest.approx(4)
