"""What can be trained: closed forms against numbers counted by hand, networks written by hand."""

import numpy as np
import pytest
from by_hand import check_gradient

from traintime import workloads
from traintime.point import Run, make_point
from traintime.store import code
from traintime.workloads.base import APIS

each = pytest.mark.parametrize("name", workloads.ALL)


def apis(name):
    return [api for api in APIS if (workloads.get(name).folder / f"on_{api}.py").exists()]


@each
def test_a_workload_has_a_usual_value_for_each_field_and_none_of_how_it_is_run(name):
    of_workload = workloads.get(name)
    assert (of_workload.name, of_workload.folder.name, of_workload().optimizer) == (name, name, "adam")
    # A point is built from one flat list of values.
    assert not set(of_workload.model_fields) & {*Run.model_fields, "workload"}


@each
def test_twice_the_batch_is_twice_the_products_and_no_more_parameters(name):
    sizes = workloads.get(name)()
    one, two = sizes.work(), sizes.model_copy(update={"batch": 2 * sizes.batch}).work()
    assert (two.flops, two.activation_bytes) == (2 * one.flops, 2 * one.activation_bytes)
    assert (two.parameters, two.launches) == (one.parameters, one.launches)
    assert {type(value) for value in vars(one).values()} == {int}


@each
def test_the_shapes_hold_as_many_numbers_as_there_are_parameters(name, worker_module):
    data = worker_module("samples", name).data
    ways = {"rnn": [{}, {"factor": 2}], "blocks": [{"structure": each} for each in WEIGHTS]}
    ways["blocks"] += [{"relu": False}, {"structure": "plain", "shared": True}]
    for changes in ways.get(name, [{}]):
        point = make_point(name, **workloads.get(name).small | changes)
        shapes = data.shapes(point.sizes.model_dump())
        assert sum(int(np.prod(shape)) for shape in shapes) == point.work.parameters, changes


@each
def test_the_code_that_measures_now_is_listed(name):
    """code.csv: records name the hash of what measured them; one that is not listed is accepted nowhere."""
    known = code.known()
    for api in apis(name):
        row = known.get(code.current(name, api))
        assert row, f"{name} on {api}: {code.current(name, api)} is not in its code.csv"
        assert row["api"] == api and row["since"] and row["note"]


def test_an_older_version_that_does_the_same_is_listed_and_of_the_same_api():
    known = code.known()
    for version, row in known.items():
        if row["same_as"]:
            assert known[row["same_as"]]["api"] == row["api"]
            assert code.same(version) == code.same(row["same_as"]) != version


def test_the_hash_is_of_every_file_that_a_worker_runs_and_of_their_names(tmp_path, monkeypatch):
    sources, found = [tmp_path / name for name in ("a.py", "b.py")], []
    monkeypatch.setattr(code, "sources", lambda workload, api: sources)
    for texts in (("1", "1"), ("12", "1"), ("1", "12"), ("1", "1")):
        for path, text in zip(sources, texts, strict=True):
            path.write_text(text)
        found.append(code.current("rnn", "numpy"))  # read anew, in the midst of a sweep
    sources[1] = sources[1].rename(tmp_path / "c.py")
    found.append(code.current("rnn", "numpy"))
    assert found[3] == found[0]
    assert len(set(found)) == 4


# The work of a step, counted by hand: 2 operations a multiplication, 4 bytes a number; a product is done once forward
# and twice backward, or once where data feed it.

# 11 rows of 3 numbers, 4 units: each gate has 3 x 4 + 4 x 4 + 4 weights.
RNN = {"vocabulary": 11, "embedding": 3, "units": 4}
ONE = {"vocabulary": 1, "embedding": 1, "units": 1, "batch": 1}
FACTORS = {"vocabulary": 11, "embedding": 6, "units": 4, "factor": 2, "batch": 1, "length": 5}
# 3 numbers to 4 units, 4 units to 4 units, 4 units to 2 classes; five samples.
DENSE = {"inputs": 3, "hidden": 4, "layers": 2, "outputs": 2, "batch": 5}
# 3 numbers at each of 4 positions, 2 units, five samples.
LSTM = {"inputs": 3, "units": 2, "length": 4, "batch": 5}
# 2 tokens of 4 numbers, 2 heads, 3 classes, five samples.
ENCODER = {"layers": 1, "embedding": 4, "heads": 2, "length": 2, "outputs": 3, "batch": 5}
# A window of 2 x 2 on 5 x 5 pixels has 4 x 4 places, 2 x 2 after pooling; 3 filters, 2 classes, five images.
CONVNET = {"side": 5, "window": 2, "filters": 3, "outputs": 2, "batch": 5}
# 4 x 4 pixels, 2 maps, two convolutions after the first, 3 classes, five images.
BLOCKS = {"side": 4, "width": 2, "depth": 2, "outputs": 3, "batch": 5}
FIRST, SAME = 9 * 3 * 2, 9 * 2 * 2  # weights of the first convolution, and of one that reads two maps
WEIGHTS = {
    "plain": FIRST + 2 * SAME,
    "residual": FIRST + 2 * SAME,
    "dense": FIRST + SAME + 2 * SAME,  # the last reads four maps
    "aggregated": FIRST + 2 * SAME + 6 * 2,  # and a window of one pixel over all six maps
}


def blocks(structure, head, biases, maps, means, launches):
    """A row of COUNTED: weights and biases of the dense layer, maps that are handed on, means of maps, launches.

    Each weight of a convolution works at 16 pixels of five images.
    """
    weights = WEIGHTS[structure]
    flops, kept = 2 * 5 * (16 * (3 * weights - FIRST) + 3 * head), 4 * 5 * (16 * maps + means + 3)
    expected = {"parameters": weights + head + biases, "flops": flops, "activation_bytes": kept}
    return "blocks", BLOCKS | {"structure": structure}, expected | {"launches": 2 * launches}


COUNTED = [
    # Four gates, each with an input weight and a recurrent weight: 8 weights, 2 products of 1 + 4 + 4 numbers.
    ("rnn", ONE | {"length": 1}, {"parameters": 1 + 12 + 2, "flops": 8 * 3 * 2, "product_bytes": 2 * 3 * 9 * 4}),
    # The weights of the state are fetched for every position, those of the input once.
    ("rnn", ONE | {"length": 2}, {"product_bytes": 3 * 4 * ((2 + 4 + 8) + 2 * 9), "flops": 2 * 8 * 3 * 2}),
    # Each position waits for the one before, forward and back; table and output layer as well.
    ("rnn", {}, {"parameters": 84_219_777, "launches": 2 * (1 + 25 + 1)}),
    # Eight float32 numbers a parameter: one zeroed, four read (gradient, parameter, two moments), three written.
    ("rnn", RNN, {"parameters": 33 + 128 + 5, "trained": 166, "update_bytes": 166 * 8 * 4, "update_flops": 166 * 12}),
    # Four of them: one zeroed, two read (gradient, parameter), one written.
    ("rnn", RNN | {"frozen": True}, {"parameters": 166, "trained": 133, "update_bytes": 133 * 8 * 4}),
    # Without moments, and with a velocity: read and written.
    ("rnn", RNN | {"optimizer": "sgd"}, {"update_bytes": 166 * 4 * 4}),
    ("rnn", RNN | {"optimizer": "momentum"}, {"update_bytes": 166 * 6 * 4}),
    # Of a table that is trained by row, no more rows than a batch has words: five.
    ("rnn", RNN | {"batch": 1, "length": 5, "optimizer": "adam-rows"}, {"trained": 148, "update_bytes": 148 * 32}),
    # Two factors of a table: trained by row or whole, the matrix always; five words by a matrix of 2 x 6.
    ("rnn", FACTORS, {"parameters": 11 * 2 + 2 * 6 + 176 + 5, "trained": 215}),
    ("rnn", FACTORS | {"optimizer": "adam-deferred"}, {"trained": 215 - 6 * 2}),
    ("rnn", FACTORS | {"frozen": True}, {"trained": 215 - 22}),
    # 12 weights used twice, 16 and 8 weights thrice. Inputs, weights and results of each product.
    (
        "dense",
        DENSE,
        {
            "parameters": (12 + 4) + (16 + 4) + (8 + 2),
            "flops": 5 * 2 * (2 * 12 + 3 * 16 + 3 * 8),
            "product_bytes": 4 * (2 * (15 + 12 + 20) + 3 * (20 + 16 + 20) + 3 * (20 + 8 + 10)),
            "activation_bytes": 4 * 5 * (3 + 4 + 4 + 2),
            "launches": 2 * 3,
            "slice_bytes": 0,
        },
    ),
    # Twenty positions by 3 x 8 twice; four times 5 by 2 x 8 thrice, 5 by 2 x 1 thrice.
    (
        "lstm",
        LSTM,
        {
            "parameters": 4 * 2 * (3 + 2 + 1) + 3,
            "flops": 2 * (2 * 20 * 24 + 3 * 4 * 5 * 16 + 3 * 5 * 2),
            "product_bytes": 4 * (2 * (60 + 24 + 160) + 3 * 4 * (10 + 16 + 40) + 3 * (10 + 2 + 5)),
            "activation_bytes": 4 * 20 * (3 + 18 * 2),
            "recurrent_bytes": 4 * 20 * 18 * 2,
            "slice_bytes": 4 * (4 * 20 * 8),
            "launches": 2 * (4 + 1),
        },
    ),
    # One operation does all positions.
    ("lstm", LSTM | {"algorithm": "native"}, {"launches": 2 * (1 + 1), "slice_bytes": 0}),
    # 80 places by 4 x 3 weights twice, five times 12 numbers by 2 classes thrice.
    (
        "convnet",
        CONVNET,
        {
            "parameters": (4 + 1) * 3 + (4 * 3 + 1) * 2,
            "flops": 5 * 2 * (2 * 16 * 12 + 3 * 24),
            "product_bytes": 4 * (2 * (320 + 12 + 240) + 3 * (60 + 24 + 10)),
            "activation_bytes": 4 * 5 * (25 + 16 * 3 + 12 + 2),
            "launches": 2 * 3,
        },
    ),
    # Two tokens of 4 numbers, two heads of 2 numbers: 8 samples' tokens by 4 x 4 weights of queries, keys and values,
    # which data feed, and of the output; a head's 2 x 2 scores of 2 numbers, twice; 4 to 16 numbers and back; classes.
    (
        "encoder",
        ENCODER,
        {
            "parameters": 4 * (16 + 4) + 2 * 8 + (64 + 16) + (64 + 4) + (4 + 1) * 3,
            "flops": 2 * (2 * 3 * 10 * 16 + 3 * (10 * 16 + 2 * 10 * 8 + 2 * 10 * 64 + 5 * 12)),
            "activation_bytes": 4 * (10 * 4 * (1 + 14) + 2 * 10 * 4),
        },
    ),
    # The image, three convolutions with their ReLU; and a sum; and what is joined: four maps, then six; and six maps
    # joined once, and a fourth convolution with its ReLU.
    blocks("plain", 2 * 3, 6 + 3, 3 + 3 * 4, 2, 3 * 2 + 2),
    blocks("residual", 2 * 3, 6 + 3, 3 + 3 * 4 + 2, 2, 3 * 2 + 2),
    blocks("dense", 6 * 3, 6 + 3, 3 + 3 * 4 + 4 + 6, 6, 3 * 2 + 2),
    blocks("aggregated", 2 * 3, 8 + 3, 3 + 4 * 4 + 6, 2, 4 * 2 + 2),
]


@pytest.mark.parametrize(("name", "sizes", "expected"), COUNTED)
def test_the_work_of_a_step_is_what_was_counted_by_hand(name, sizes, expected):
    found = vars(make_point(name, **sizes).work)
    assert {field: found[field] for field in expected} == expected


# Networks written by hand; the classifier's own, with its table and dropout, is in test_worker_numpy.py. That their
# losses are the frameworks' is held in tests/workers.

SMALL = {"dense": DENSE, "lstm": LSTM, "convnet": CONVNET}


@pytest.fixture
def trainer(worker_module):
    """Build a trainer of a workload's small point with these changes."""

    def build(name, **changes):
        point = make_point(name, **SMALL[name] | changes)
        return worker_module("train_numpy", name).Trainer(point.sizes.model_dump(), point.run.model_dump(), 2)

    return build


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", [name for name in workloads.ALL if "numpy" in apis(name) and name != "rnn"])
def test_a_network_by_hand_trains_every_array_in_place_in_single_precision(name, optimizer, trainer):
    one = trainer(name, **workloads.get(name).small, optimizer=optimizer)
    before, batch = [weight.copy() for weight in one.weights], next(one.batches)
    _, gradients = one.network.train(*batch, one.random)
    start = one.network.test(*batch)
    for _ in range(20):
        one.train(*batch)
    assert one.network.test(*batch) < start
    assert not any(np.array_equal(new, old) for new, old in zip(one.weights, before, strict=True))
    assert {array.dtype for array in (*gradients, *one.weights)} == {np.dtype("float32")}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *[("dense", {"layers": layers, "outputs": 3}) for layers in (1, 2, 3)],
        *[("lstm", {"algorithm": algorithm}) for algorithm in ("default", "per-gate")],
        *[("convnet", {"images": way, "side": side}) for way in ("at-once", "blocks", "one-by-one") for side in (5, 6)],
    ],
)
def test_gradients_agree_with_finite_differences(name, changes, trainer):
    """With larger weights in float64: so finite differences are exact enough, and units are not at their bend."""
    one = trainer(name, **changes)
    network, batch = one.network, next(one.batches)
    network.weights = network.trained = [8 * weight.astype("float64") for weight in network.weights]
    loss, gradients = network.train(*batch, None)
    assert abs(loss - network.test(*batch)) < 1e-12 * max(1, abs(loss))
    for weight, gradient in zip(network.trained, gradients, strict=True):
        check_gradient(weight, gradient, lambda: network.test(*batch))


def test_large_numbers_do_not_overflow(worker_module):
    softmax = worker_module("train_numpy", "dense").on_numpy.softmax
    np.testing.assert_allclose(softmax(np.array([[1e4, 0.0], [0.0, -1e4]])), [[1, 0], [1, 0]])
