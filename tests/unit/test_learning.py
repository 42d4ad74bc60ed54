"""Trials: their keys, which seeds are missing, how results are kept, the tasks, and that a real one learns."""

import keras
import numpy as np
import pytest

from traintime.errors import InputError
from traintime.learning import results, run, tasks
from traintime.learning.trial import Trial, make_trial


def fake(trial, seeds):
    """Results without any training: the accuracy tells the seed."""
    for seed in seeds:
        yield {"seed": seed, "accuracy": seed / 100, "loss": 1.0, "training_loss": [1.0], "seconds": 0.0}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({}, "mnist1d-u64-b100-n40"),
        ({"gates": "hard", "recurrent_dropout": 0.2}, "mnist1d-u64-b100-n40-hard-gates-rd0.2"),
        ({"task": "padded", "mask": True, "forget_bias": 0.0}, "padded-u64-b100-n40-mask-fb0"),
        ({"task": "moods", "table": "cut", "steps": 400, "rate": 1.0}, "moods-u64-b100-n40-s400-r1-cut"),
    ],
)
def test_the_key_names_what_differs(changes, key):
    assert make_trial(**changes).key == key


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"units": 0}, "units: 0 is refused"),
        ({"gate": "hard"}, "field of a trial: 'gate' is not a known"),
        ({"mask": True}, "mask: True finds no padding in mnist1d"),
        ({"recurrent_dropout": 1.0}, "recurrent_dropout: 1.0 is refused"),
        ({"table": "hashed"}, "table: 'hashed' finds no words in mnist1d"),
        ({"task": "moods", "table": "deferred", "optimizer": "sgd"}, "table: 'deferred' is no way of sgd"),
    ],
)
def test_bad_settings_are_refused(changes, refused):
    with pytest.raises(InputError, match=f"^{refused}"):
        make_trial(**changes)


def test_changing_any_one_field_changes_the_key():
    other = {"task": "padded", "units": 8, "batch": 7, "epochs": 3, "steps": 5, "rate": 0.1, "gates": "hard"}
    other |= {"recurrent_dropout": 0.5, "mask": True, "forget_bias": 0.0}
    other |= {"optimizer": "sgd", "table": "factors", "backend": "tensorflow", "precision": "mixed-float16"}
    assert set(other) == set(Trial.model_fields)
    base = make_trial(task="imdb")
    keys = {base.model_copy(update={name: value}).key for name, value in other.items()}
    assert len(keys | {base.key}) == len(other) + 1


def test_a_plan_is_every_combination_and_what_is_added():
    plan = run.planned("x", {"batch": [16, 64], "seeds": 3, "also": [{"gates": "hard", "batch": 16}]})
    trials = make_trial(batch=16), make_trial(batch=64), make_trial(batch=16, gates="hard")
    assert plan == [(trial, 3) for trial in trials]


@pytest.mark.parametrize("fields", [{"seeds": 0}, {"seeds": "many"}, {"also": 3}, {"also": [3]}], ids=str)
def test_what_no_plan_can_have_is_refused_by_its_field(fields):
    with pytest.raises(InputError, match=f"^{next(iter(fields))}: "):
        run.planned("x", fields)


def test_only_missing_seeds_are_trained_and_a_shared_trial_once(tmp_path):
    few, more = [(make_trial(), 2)], [(make_trial(), 4)]
    assert run.run(run.outstanding(few, tmp_path), tmp_path, jobs=2, train=fake) == 2
    assert run.outstanding([*more, *few], tmp_path) == [(make_trial(), [2, 3])]
    seen, todo = [], run.outstanding(more, tmp_path)
    assert run.run(todo, tmp_path, jobs=1, report=lambda trial, one: seen.append(one["seed"]), train=fake) == 2
    assert sorted(seen) == [2, 3]
    assert run.outstanding([*few, *more], tmp_path) == []


def test_lazy_adam_is_read_and_trained_no_more(tmp_path):
    from traintime.learning import train

    lazy = make_trial(task="moods", table="lazy-adam")
    for start in (lambda: run.outstanding([(lazy, 1)], tmp_path), lambda: train.model(lazy, None)):
        with pytest.raises(InputError, match=r"^table: 'lazy-adam' is trained no more. Take deferred"):
            start()
    for trial in (make_trial(), lazy):
        results.append(tmp_path, trial, *fake(trial, [0]))
    assert results.table(tmp_path)["table"].tolist() == ["dense", "lazy-adam"]
    assert run.outstanding([(lazy, 1)], tmp_path) == []


def test_what_came_before_a_failure_is_kept(tmp_path):
    def breaks(trial, seeds):
        yield from fake(trial, seeds[:1])
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        run.run([(make_trial(), [0, 1, 2])], tmp_path, jobs=1, train=breaks)
    assert results.seeds(tmp_path, make_trial()) == {0}


def test_results_are_a_table_of_one_row_a_seed_with_the_code_that_made_them_and_stay(tmp_path):
    run.run([(make_trial(), [0, 1]), (make_trial(gates="hard"), [0, 1])], tmp_path, train=fake)
    found = results.table(tmp_path)
    assert found[["gates", "seed"]].to_numpy().tolist() == [["hard", 0], ["hard", 1], ["sigmoid", 0], ["sigmoid", 1]]
    assert found["code"].unique().tolist() == [run.code(make_trial())]
    assert results.table(tmp_path / "none").empty
    results.append(tmp_path, make_trial(), *({**one, "accuracy": 0.99} for one in fake(make_trial(), [1])))
    assert results.table(tmp_path).equals(found), "a result that is there is not written over"


def test_one_of_two_words_comes_first_and_the_rest_is_padding():
    task = tasks.padded(50, 10)
    assert (task.inputs.shape, len(task.test_inputs)) == ((50, tasks.LENGTH), 10)
    assert (task.outputs, task.words) == (2, 21)
    for row, answer in zip(task.inputs, task.classes, strict=True):
        words = row[row > 0]
        assert 5 <= len(words) <= 20
        assert (row[len(words) :] == 0).all()
        places = [int(np.flatnonzero(words == word)[0]) for word in (tasks.FIRST, tasks.SECOND)]
        assert (places[0] < places[1]) == bool(answer)
        assert sorted(words[words <= tasks.SECOND]) == [tasks.FIRST, tasks.SECOND]


def test_the_drawn_digits_are_always_the_same():
    task = tasks.mnist1d()
    assert (task.inputs.shape, task.test_inputs.shape, task.outputs) == ((4000, 40, 1), (1000, 40, 1), 10)
    assert np.array_equal(task.inputs, tasks.mnist1d().inputs)


def test_reviews_without_a_network_say_what_to_do(monkeypatch, tmp_path):
    path = tmp_path / "datasets" / "imdb.npz"
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))

    def unreachable(**given):
        """As Keras does with a file that it finds damaged and cannot fetch anew."""
        path.unlink(missing_ok=True)
        raise OSError("no route to host")

    monkeypatch.setattr(keras.datasets.imdb, "load_data", unreachable)
    with pytest.raises(InputError, match=r"^task: 'imdb' cannot be fetched .* Connect to the network, or take a task"):
        tasks.imdb()
    path.parent.mkdir()
    path.write_bytes(b"half of it")
    with pytest.raises(InputError, match=r"^task: 'imdb' .*imdb.npz was damaged.* Put a sound imdb.npz there, or take"):
        tasks.imdb()


@pytest.mark.parametrize(
    ("changes", "calls"),
    [
        ({"epochs": 3}, [(3, 1000)]),
        ({"steps": 25}, [(2, 1000), (1, 500)]),
        ({"batch": 300, "steps": 4}, [(1, 1000)]),
        ({"batch": 300, "steps": 5}, [(1, 1000), (1, 300)]),
    ],
)
def test_steps_are_whole_epochs_and_a_part_of_one(changes, calls):
    from traintime.learning import train

    assert train.plan(make_trial(**changes), 1000) == calls


@pytest.mark.rest
def test_a_real_trial_learns_and_its_seed_decides():
    """No other test trains a trial. This one takes forty seconds of a processor."""
    trial = make_trial(task="padded", units=8, epochs=2, batch=200, mask=True, recurrent_dropout=0.1, gates="hard")
    first, again = (list(run.in_a_process(trial, seeds)) for seeds in ([0, 1], [0]))
    assert [each["seed"] for each in first] == [0, 1]
    assert first[0]["training_loss"] == again[0]["training_loss"]
    assert first[0]["training_loss"] != first[1]["training_loss"]
    assert 0 <= first[0]["accuracy"] <= 1
    assert first[0]["training_loss"][-1] < first[0]["training_loss"][0]


def test_a_process_that_fails_says_why():
    trial = make_trial().model_copy(update={"task": "nothing"})
    with pytest.raises(RuntimeError, match="nothing"):
        list(run.in_a_process(trial, [0]))


def test_half_precision_is_the_arithmetics_and_the_output_stays_whole():
    from traintime.learning import train

    usual = keras.config.dtype_policy()
    try:
        keras.config.set_dtype_policy("mixed_bfloat16")
        _, lstm, output = train.model(make_trial(precision="mixed-bfloat16"), tasks.load("mnist1d")).layers
        assert (lstm.compute_dtype, lstm.variable_dtype) == ("bfloat16", "float32")
        assert output.compute_dtype == "float32"
    finally:
        keras.config.set_dtype_policy(usual)
