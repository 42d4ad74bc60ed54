"""`traintime estimate`: what it prints, and its exit status as an answer."""

import json
import sys

import pytest

from traintime import cli
from traintime.measuring import stacks
from traintime.predict import here
from traintime.predict.prices import Rates


@pytest.fixture
def traintime(monkeypatch, capsys):
    """Type a command, `estimate` if nothing else is said; return its exit status and what it printed."""

    def run(*words, command="estimate"):
        monkeypatch.setattr(sys, "argv", ["traintime", command, *map(str, words)])
        monkeypatch.setattr(here, "rates", lambda: Rates(1e11, 2e10))
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = end.code or 0
        return status, *capsys.readouterr()

    return run


SIZES = ("--vocabulary", 2_000_000, "--samples", 1_000_000, "--stack", "2026-jax")


@pytest.mark.parametrize(
    ("limits", "status", "said"),
    [
        (("--deadline", "30d"), 0, "yes"),
        (("--deadline", "1m"), 1, "no"),
        (("--memory", "1GB"), 1, "no"),
        (("--deadline", "30d", "--memory", "1TB"), 0, "yes"),
        (("--deadline", "30d", "--memory", "1GB"), 1, "no"),
    ],
)
def test_the_exit_status_is_the_answer(traintime, limits, status, said):
    found, out, _ = traintime(*SIZES, *limits)
    assert found == status
    assert out.startswith(f"answer       {said}: ")


def test_a_deadline_inside_the_interval_is_too_close_to_call(traintime):
    _, out, _ = traintime(*SIZES, "--json")
    middle = json.loads(out)["total"]["value"]
    status, out, _ = traintime(*SIZES, "--json", "--deadline", f"{middle:.0f}s")
    assert status == 3
    assert json.loads(out)["answer"] == "too close to call"


def test_without_a_limit_it_answers_and_ends_well(traintime):
    status, out, _ = traintime(*SIZES)
    assert status == 0
    assert "limited by" in out
    assert "formula" in out


def test_machines_stand_side_by_side(traintime):
    status, out, _ = traintime("--vocabulary", 20_000, "--compare", "--json")
    assert status == 0
    assert len(json.loads(out)) > 8
    status, out, _ = traintime("--vocabulary", 20_000, "--compare")
    assert "K40m" in out


def test_a_short_name_is_answered_for_each_device_that_it_may_mean(traintime):
    status, out, _ = traintime("--vocabulary", 20_000, "--on", "a100", "--json")
    assert status == 0
    assert {one["of"].split()[-1] for one in json.loads(out)} == {"A100-40GB", "A100-80GB-PCIe", "A100-80GB-SXM"}
    status, out, _ = traintime("--vocabulary", 20_000, "--on", "h200", "--json")
    assert json.loads(out)["of"].endswith("H200-SXM"), "the only one of this name needs no more"


def test_what_an_hour_costs_gives_what_the_training_costs(traintime):
    status, out, _ = traintime(*SIZES, "--per-hour", 7.2, "--json")
    found = json.loads(out)
    assert status == 0
    assert {name: found["total"][name] * 7.2 / 3600 for name in ("value", "low", "high")} == pytest.approx(
        found["cost"]
    )
    status, out, _ = traintime(*SIZES, "--per-hour", 7.2)
    assert "at 7.2 per hour" in out


def test_the_largest_that_fits_is_found(traintime):
    status, out, _ = traintime("--largest", "rows", "--memory", "4GB", "--on", "T4", "--json")
    assert status == 0
    assert json.loads(out)["surely"] > 1000
    status, out, _ = traintime("--largest", "batch", "--memory", "1MB", "--on", "T4")
    assert status == 1
    status, _, said = traintime("--largest", "batch")
    assert status == 2
    assert "Add --memory" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--per-hour", 0), "per_hour: 0"),
        (("--per-hour", "1e999"), "per_hour: inf"),
        (("--per-hour", "nan"), "per_hour: nan"),
        (("--per-hour", 2, "--compare"), "per_hour: 2"),
        (("--on", "A100", "--deadline", "8h"), "device: 'A100' may be A100-40GB, A100-80GB-PCIe or A100-80GB-SXM"),
        (("--deadline", "soon"), "deadline: 'soon' is no duration"),
        (("--memory", "much"), "memory: 'much' is not an amount"),
        (("--vocabulary", 0), "vocabulary"),
        (("--on", "K41"), "device: 'K41'"),
        (("nowhere.py:build",), "target: 'nowhere.py' is no file"),
        (("--probe", "small.py:build"), "probe: 'small.py:build' is for Keras models"),
        (("--probe-batch", 10), "probe_batch: 10 is for Keras models"),
        ((__file__ + ":build", "--probe", "nowhere.py:build"), "probe: 'nowhere.py' is no file"),
        ((__file__ + ":build", "--data", "nowhere.py:data"), "data: 'nowhere.py' is no file"),
        (("--data", __file__ + ":data"), "is for a file's model"),
        ((__file__ + ":build", "--probe", cli.__file__ + ":build"), "is not in test_predict_cli.py"),
        (("--tier", "guess"), "tier: 'guess'"),
        (("model.py:build", "--compare"), "compare"),
        ((__file__ + ":build", "--vocabulary", 10), "vocabulary: 10 is what the file says itself"),
        ((__file__ + ":build", "--stack", "numpy"), "runs no Keras 3"),
    ],
)
def test_bad_input_is_one_line_and_status_2(traintime, words, said):
    status, out, err = traintime(*words)
    assert status == 2
    assert said in " ".join(err.split())
    assert out == ""


# What a reader's file does wrong: the real process, what it prints, and its exit status


@pytest.fixture
def file(tmp_path):
    """Write a file that defines `build` or `step`, and name it as one types it."""

    def write(text, name="build"):
        path = tmp_path / "reader.py"
        path.write_text(text)
        return f"{path}:{name}"

    return write


LOUD = """
print("before")
import keras
def build():
    print("building")
    model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(5)])
    model.compile("adam", "mse")
    return model
"""
FULL = """
import keras
class Large(keras.Sequential):
    def fit(self, *data, **how):
        raise MemoryError("16 TB")
def build():
    model = Large([keras.Input((10,)), keras.layers.Dense(5)])
    model.compile("adam", "mse")
    return model
"""
BROKEN = """
import keras
def build():
    model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(5)])
    model.compile("adam", lambda truth, guess: 1 / 0)
    return model
"""
# A fault of ours, of the kind that reads a graph wrongly.
OURS = (
    """
from traintime.predict import keras_trainer
keras_trainer._rows = lambda model, tensor: tensor.weights
"""
    + LOUD
)
KILLED = "import os, signal\ndef {}:\n    os.kill(os.getpid(), signal.SIGKILL)\n"
WITHOUT = "import sys\nsys.modules['jax'] = None\ndef build():\n    import keras\n"
WITH_DATA = (
    LOUD
    + """
import numpy as np
pair = np.ones((40, 10)), np.ones((40, 5))
def data():
    return pair
def wrong():
    return np.ones((40, 3)), pair[1]
def many(n):
    return pair
"""
)
FEW = ("--samples", 1000, "--batch", 10, "--seconds", 1)


@pytest.mark.stack("2026-torch")
def test_what_a_build_function_prints_is_none_of_the_answer(traintime, file):
    status, out, _ = traintime(file(LOUD), *FEW, "--stack", "2026-torch", "--on", "T4", "--json")
    assert status == 0
    assert json.loads(out)["tier"] == "formula"


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (
            "def build():\n    raise KeyError('x')",
            "build",
            "target: 'build' raised KeyError: 'x'. Call build() by itself",
        ),
        ("def step(n):\n    raise ValueError('no data')", "step", "step: 'step(10)' raised ValueError: no data"),
        (
            KILLED.format("build()"),
            "build",
            "was killed while it was built: memory ran out, most likely. Ask by its sizes",
        ),
        (
            KILLED.format("step(n)"),
            "step",
            "was killed while it trained: memory ran out, most likely. Take a smaller batch",
        ),
        ("def build():\n    raise MemoryError('16 TB')", "build", "raised MemoryError: 16 TB. Ask by its sizes"),
        ("def step(n):\n    raise MemoryError('16 TB')", "step", "raised MemoryError: 16 TB. Take a smaller batch"),
    ],
)
def test_a_file_that_fails_is_one_line_and_status_2(traintime, file, text, name, said):
    status, out, err = traintime(file(text, name), *FEW)
    assert status == 2
    assert said in " ".join(err.split())
    assert out == ""


@pytest.mark.stack("2026-torch")
def test_a_training_that_runs_out_of_memory_is_told_what_to_do(traintime, file):
    status, out, err = traintime(file(FULL), *FEW, "--stack", "2026-torch")
    assert status == 2
    said = "target: 'build' ran out of memory while it trained (MemoryError). Take a smaller batch or model"
    assert said in " ".join(err.split())
    assert out == ""


@pytest.mark.stack("2026-torch")
def test_a_fault_of_ours_is_not_blamed_on_the_file(traintime, file):
    status, out, err = traintime(file(OURS), *FEW, "--stack", "2026-torch")
    assert status == 2
    said = "'build' got no answer, since traintime itself raised AttributeError: 'KerasTensor' object has no attribute"
    assert said in " ".join(err.split())
    assert "no fault of the file's" in " ".join(err.split())
    assert "by itself" not in err
    assert out == ""


@pytest.mark.stack("2026-torch")
def test_a_training_that_fails_is_told_to_be_run_by_itself(traintime, file):
    status, out, err = traintime(file(BROKEN), *FEW, "--stack", "2026-torch")
    assert status == 2
    said = (
        "raised ZeroDivisionError in `fit` of made-up samples: division by zero. Call fit by itself until it does not"
    )
    assert said in " ".join(err.split())
    assert "no fault" not in err
    assert out == ""


@pytest.mark.stack("2026-torch")
@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("pair", 0, "probed"),
        ("data", 0, "probed"),
        ("wrong", 2, "in `fit` of the given samples"),
        ("many", 2, "data: 'many' needs 1 arguments"),
        ("none", 2, "data: 'none' is not in reader.py"),
    ],
)
def test_a_file_says_what_its_model_is_trained_on(traintime, file, name, status, said):
    target = file(WITH_DATA)
    found, out, err = traintime(target, *FEW, "--stack", "2026-torch", "--data", f"{target.split(':')[0]}:{name}")
    assert found == status
    assert said in " ".join((out if status == 0 else err).split())


def test_a_step_has_no_data(traintime, file):
    target = file("def step(n):\n    pass\npair = 1, 2\n", "step")
    status, _, err = traintime(target, *FEW, "--data", target.replace(":step", ":pair"))
    assert status == 2
    assert "is for models; a step makes batches of its own" in " ".join(err.split())


@pytest.mark.stack("2026-torch")
def test_what_keras_writes_around_an_error_is_left_out(traintime, file):
    text = "import keras\ndef build():\n    return keras.layers.Dense(3)(keras.ops.ones((2,)))\n"
    status, _, err = traintime(file(text), *FEW, "--stack", "2026-torch")
    assert status == 2
    assert "raised ValueError: " in err
    assert "•" not in err
    assert len(err.splitlines()) == 1


def test_a_file_that_ends_its_process_is_said_to_have_done_so_while_it_was_built(traintime, file):
    status, _, err = traintime(file("def build():\n    import os\n    os._exit(3)\n"), *FEW)
    assert status == 2
    assert "ended its process while it was built (exit status 3)" in " ".join(err.split())


def test_a_build_function_that_hangs_is_given_up(traintime, file):
    target = file("import time\ndef build():\n    time.sleep(600)\n")
    status, out, err = traintime(target, *FEW, "--give-up", 2)
    assert status == 2
    assert "gave no answer within 2 s. Let it return sooner, or wait longer: --give-up." in " ".join(err.split())
    assert out == ""


def test_a_file_whose_backend_is_absent_is_told_what_to_do(traintime, file, monkeypatch):
    status, _, err = traintime(file(WITHOUT), *FEW, "--stack", "2026-jax")
    assert status == 2
    assert "raised ModuleNotFoundError" in err
    assert "Install jax, or take a backend that is here" in " ".join(err.split())
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: False))
    status, _, err = traintime(file(WITHOUT), *FEW, "--stack", "2026-jax")
    assert status == 2
    assert "stack: '2026-jax' is not here. Add it: traintime stacks add 2026-jax" in " ".join(err.split())
