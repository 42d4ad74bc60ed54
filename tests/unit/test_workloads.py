"""What can be trained: closed forms against numbers counted by hand, and what every workload has to have."""

import ast

import numpy as np
import pytest
from by_hand import check_training

from traintime import paths, workloads
from traintime.errors import InputError
from traintime.point import Run, make_point
from traintime.store import code
from traintime.workloads.base import APIS, BY_ROW, UPDATES, InKey, Sizes, Work, matmul

each = pytest.mark.parametrize("name", workloads.ALL)


def work(**changes) -> Work:
    return make_point(**changes).work


def apis(name):
    return [api for api in APIS if (workloads.get(name).folder / f"on_{api}.py").exists()]


# Every workload


@each
def test_a_workload_says_its_name_and_has_a_batch_and_an_optimizer(name):
    of_workload = workloads.get(name)
    assert (of_workload.name, of_workload.folder.name) == (name, name)
    assert {"batch", "optimizer"} <= set(of_workload.model_fields)
    assert of_workload().optimizer == "adam"


@each
def test_every_field_says_what_it_is_and_how_it_stands_in_the_key(name):
    for fields in (workloads.get(name), Run):
        for field, info in fields.model_fields.items():
            assert info.description, field
            assert isinstance(fields.in_key(field), InKey), field
            assert not info.is_required(), f"{field}: the default is the usual value"


@each
def test_no_size_has_the_name_of_a_way_of_running(name):
    """A point is built from one flat list of values."""
    assert not set(workloads.get(name).model_fields) & {*Run.model_fields, "workload"}


@each
def test_the_work_of_a_step_is_whole_and_positive(name):
    done = workloads.get(name)().work()
    recurrent = name in ("rnn", "lstm")  # else nothing is read position by position
    of_positions = ("recurrent_bytes", "slice_bytes")
    least = {field: int(field not in of_positions or recurrent) for field in vars(done)}
    assert all(type(value) is int and value >= least[field] for field, value in vars(done).items()), done
    assert done.trained <= done.parameters
    assert done.recurrent_bytes <= done.activation_bytes


@each
def test_twice_the_batch_is_twice_the_products_and_no_more_parameters(name):
    one = workloads.get(name)()
    two = one.model_copy(update={"batch": 2 * one.batch})
    assert two.work().flops == 2 * one.work().flops
    assert two.work().activation_bytes == 2 * one.work().activation_bytes
    assert (two.work().parameters, two.work().launches) == (one.work().parameters, one.work().launches)


@each
def test_a_workload_has_data_and_a_model_for_an_api_at_least(name):
    folder = workloads.get(name).folder
    names = {
        node.name for node in ast.parse((folder / "data.py").read_text()).body if isinstance(node, ast.FunctionDef)
    }
    assert {"samples", "shapes"} <= names
    assert apis(name)


@each
def test_an_api_without_a_model_file_is_refused_and_the_others_are_named(name, tmp_path, monkeypatch):
    of_workload = workloads.get(name)
    (tmp_path / "on_numpy.py").touch()
    monkeypatch.setattr(of_workload, "folder", tmp_path)
    of_workload().refuse_impossible("numpy")
    with pytest.raises(InputError, match=f"^workload: '{name}' has no model for keras3. It has one for numpy"):
        of_workload().refuse_impossible("keras3")


@each
def test_the_code_that_measures_now_is_listed(name):
    """code.csv: records name the hash of what measured them; one that is not listed is accepted nowhere."""
    known = code.known()
    for api in apis(name):
        row = known.get(code.current(name, api))
        assert row, f"{name} on {api}: {code.current(name, api)} is not in its code.csv"
        assert row["api"] == api
        assert row["since"]
        assert row["note"]


def test_an_older_version_that_does_the_same_is_listed_and_of_the_same_api():
    known = code.known()
    for version, row in known.items():
        if row["same_as"]:
            assert known[row["same_as"]]["api"] == row["api"]
            assert code.same(version) == code.same(row["same_as"]) != version


def test_versions_that_do_the_same_are_one_and_others_stay_what_they_are(monkeypatch):
    monkeypatch.setattr(code, "_older", lambda: {"c": "b", "b": "a"})
    assert [code.same(version) for version in ("a", "b", "c", "d", None)] == ["a", "a", "a", "d", None]


def test_the_hash_is_of_every_file_that_a_worker_runs_and_of_their_names(tmp_path, monkeypatch):
    sources = [tmp_path / name for name in ("a.py", "b.py")]
    for path in sources:
        path.write_text("1\n")
    monkeypatch.setattr(code, "sources", lambda workload, api: sources)
    before = code.current("rnn", "numpy")
    assert len(before) == 12
    for path in sources:
        path.write_text("12\n")
        assert code.current("rnn", "numpy") != before, "read anew, in the midst of a sweep"
        path.write_text("1\n")
        assert code.current("rnn", "numpy") == before
    sources[1] = sources[1].rename(tmp_path / "c.py")
    assert code.current("rnn", "numpy") != before


@pytest.mark.parametrize("api", APIS)
def test_the_sources_are_the_workers_that_this_api_runs_and_the_workloads(api):
    names = [path.name for path in code.sources("rnn", api)]
    common = ["__main__.py", "process.py", "samples.py", "timing.py"]
    of_the_api = ["feeds.py", "replicas.py", "saving.py"] if api == "keras3" else []
    deferred = [path.name for path in sorted(paths.DEFERRED.glob("*.py"))] if api == "keras3" else []
    assert names == [*common, *of_the_api, f"train_{api}.py", "data.py", f"on_{api}.py", *deferred]
    assert all(path.exists() for path in code.sources("rnn", api))


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("name", [name for name in workloads.ALL if "numpy" in apis(name) and name != "rnn"])
def test_a_network_by_hand_trains_every_array_in_place_in_single_precision(name, optimizer, worker_module):
    """The classifier's own, with its table and dropout: test_worker_numpy."""
    point = make_point(name, **workloads.get(name).small | {"optimizer": optimizer})
    trainer = worker_module("train_numpy", name).Trainer(point.sizes.model_dump(), point.run.model_dump(), 2)
    _, gradients = trainer.network.train(*next(trainer.batches), trainer.random)
    assert {gradient.dtype for gradient in gradients} == {np.dtype("float32")}
    assert trainer.facts()["parameters"] == point.work.parameters
    check_training(trainer)


@pytest.mark.parametrize("name", [name for name in workloads.ALL if not workloads.get(name).table])
def test_the_update_by_rows_is_refused_where_no_weight_has_rows(name):
    with pytest.raises(InputError) as caught:
        make_point(name, optimizer="adam-rows").sizes.refuse_impossible(apis(name)[0])
    assert (caught.value.field, caught.value.value) == ("optimizer", "adam-rows")


# What two optimizers have to do


def test_every_optimizer_has_its_operations_and_bytes():
    assert set(UPDATES) == {"adam", "sgd", "momentum", "rmsprop"} | set(BY_ROW)
    assert (UPDATES["adam"].bytes, UPDATES["sgd"].bytes, UPDATES["momentum"].bytes) == (32, 16, 24)


def test_a_product_is_done_once_forward_and_twice_backward():
    """2 x 3 by 3 x 5: thirty multiplications and as many additions, over 6, 15 and 10 numbers of four bytes."""
    assert matmul(2, 3, 5) == Work(flops=3 * 60, product_bytes=3 * 4 * (6 + 15 + 10))


def test_sizes_without_a_closed_form_say_so():
    with pytest.raises(NotImplementedError):
        Sizes().work()


# The classifier


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Four gates, each with one input weight, one recurrent weight, one bias.
        ({"vocabulary": 1, "embedding": 1, "units": 1}, 1 + 12 + 2),
        # Each gate: 3 x 4 + 4 x 4 + 4 = 32.
        ({"vocabulary": 11, "embedding": 3, "units": 4}, 33 + 128 + 5),
        ({"vocabulary": 5000, "embedding": 300, "units": 128}, 1_500_000 + 219_648 + 129),
        ({}, 84_219_777),
        ({"vocabulary": 11, "embedding": 6, "units": 4, "factor": 2}, 11 * 2 + 2 * 6 + 176 + 5),
    ],
)
def test_parameters_are_counted_as_by_hand(changes, expected):
    assert work(**changes).parameters == expected


@pytest.mark.parametrize("changes", [{"length": 7}, {"batch": 9}, {"optimizer": "sgd"}, {"frozen": True}])
def test_parameters_depend_on_the_model_alone(changes):
    assert work(**changes).parameters == work().parameters


def test_gradients_that_are_added_up_move_less_and_are_worked_on_less():
    """By hand, numbers of 4 bytes for a parameter in two steps: zero and read each gradient, read and write the sum
    each time; and once Adam's parameter and two means, read and written. 12 operations of Adam and 2 sums."""
    one, two = work(), work(accumulated=2)
    assert two.update_bytes == one.trained * 4 * (2 * 4 + 6) // 2
    assert two.update_flops == one.trained * (12 + 2) // 2
    assert two.update_bytes < one.update_bytes
    assert (two.parameters, two.flops) == (one.parameters, one.flops)


def test_a_table_of_two_factors_is_trained_by_row_or_whole_and_its_matrix_always():
    sizes = {"vocabulary": 11, "embedding": 6, "units": 4, "factor": 2, "batch": 1, "length": 5}
    assert work(**sizes).trained == work(**sizes).parameters == 215
    assert work(**sizes, optimizer="adam-deferred").trained == 215 - 6 * 2
    assert work(**sizes, frozen=True).trained == 215 - 22
    assert work(**sizes).flops - work(**sizes | {"factor": None}).flops == 6 * 5 * 2 * 6


@pytest.mark.parametrize(
    ("changes", "how"),
    [({}, "adam"), ({"optimizer": "sgd"}, "sgd"), ({"frozen": True, "optimizer": "sgd"}, "frozen")],
)
def test_how_the_table_is_trained(changes, how):
    assert make_point(**changes).sizes.how == how


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ({"batch": 1, "length": 5}, 5),
        ({"batch": 2, "length": 5}, 10),
        ({"batch": 3, "length": 5}, 11),  # the whole table
        ({"batch": 1, "length": 5, "frozen": True}, 0),
    ],
)
def test_by_rows_no_more_rows_are_trained_than_a_batch_has_words(changes, rows):
    done, deferred = (work(vocabulary=11, embedding=3, units=4, optimizer=name, **changes) for name in BY_ROW)
    assert deferred.trained == done.trained
    assert done.trained == 133 + 3 * rows
    assert done.update_bytes == (133 + 3 * rows) * 8 * 4


@pytest.mark.parametrize(
    ("changes", "trained", "numbers", "operations"),
    [
        # Eight float32 numbers a parameter: one zeroed, four read (gradient, parameter, two moments), three written.
        ({}, 166, 8, 12),
        # Four of them: one zeroed, two read (gradient, parameter), one written.
        ({"optimizer": "sgd"}, 166, 4, 2),
        ({"frozen": True}, 133, 8, 12),
    ],
)
def test_an_update_is_of_what_is_trained(changes, trained, numbers, operations):
    done = work(vocabulary=11, embedding=3, units=4, **changes)
    assert (done.trained, done.update_bytes) == (trained, trained * numbers * 4)
    assert done.update_flops == trained * operations


SMALLEST = {"vocabulary": 1, "embedding": 1, "units": 1, "batch": 1}


def test_the_operations_of_the_smallest_step():
    """Four gates with an input and a recurrent weight: 8 weights, each 1 product forward and 2 back, 2 operations."""
    assert work(**SMALLEST, length=1).flops == 8 * 3 * 2


@pytest.mark.parametrize("field", ["length", "batch"])
def test_operations_grow_with_the_words_of_a_step_and_not_with_the_vocabulary(field):
    usual = getattr(make_point().sizes, field)
    assert work(**{field: 2 * usual}).flops == 2 * work().flops
    assert work(vocabulary=1).flops == work().flops


def test_the_bytes_of_the_smallest_steps_products():
    """One input and one state, each times four gates: 1 + 4 + 4 numbers a product, two products, three times each."""
    assert work(**SMALLEST, length=1).product_bytes == 2 * 3 * 9 * 4


def test_the_weights_of_the_state_are_fetched_for_every_position_and_those_of_the_input_once():
    """Two positions: inputs 2 x 1, weights 1 x 4, gates 2 x 4; and twice 1 + 4 + 4 for the state."""
    assert work(**SMALLEST, length=2).product_bytes == 3 * 4 * ((2 + 4 + 8) + 2 * 9)


def test_one_position_after_the_other_waits():
    """Each position forward and back; table and output layer as well."""
    assert [work(length=length).launches for length in (1, 2, 25)] == [6, 8, 54]


@pytest.mark.parametrize("api", APIS)
def test_what_an_api_cannot_do_is_refused(api):
    possible = {
        make_point(optimizer="adam-rows").sizes: api == "numpy",
        make_point(words=5, mask=True).sizes: api != "numpy",
        make_point(factor=30).sizes: api == "keras3",
        make_point(accumulated=8).sizes: api == "keras3",
    }
    for sizes, can in possible.items():
        if can:
            sizes.refuse_impossible(api)
        else:
            with pytest.raises(InputError, match=f"is nothing that {api} "):
                sizes.refuse_impossible(api)
