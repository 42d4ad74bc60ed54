"""`traintime estimate` and `largest`: what they print.

What is answered by the formula, with its exit status, and what is refused, is in test_golden_answers.
"""

import json
import sys

import pytest

from traintime import __version__, cli
from traintime.measuring import stacks
from traintime.predict import process
from traintime.predict.costs import Rates


@pytest.fixture
def traintime(monkeypatch, capsys):
    """Type a command, `estimate` if nothing else is said; return its exit status and what it printed."""

    def run(*words, command="estimate"):
        monkeypatch.setattr(sys, "argv", ["traintime", command, *map(str, words)])
        monkeypatch.setattr(process, "rates", lambda: Rates(1e11, 2e10))
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = end.code or 0
        return status, *capsys.readouterr()

    return run


SIZES = ("--vocabulary", 2_000_000, "--samples", "1e6", "--stack", "2026-jax")


@pytest.mark.parametrize("command", ["estimate", "largest"])
def test_help_is_one_screen(traintime, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = traintime("--help", command=command)
    assert status == 0
    assert len(out.splitlines()) <= 40


def test_the_version_is_told(traintime):
    assert traintime(command="--version") == (0, f"traintime {__version__}\n", "")


def test_json_has_the_answer_and_what_the_training_costs(traintime):
    status, out, _ = traintime(*SIZES, "--deadline", "9h", "--per-hour", 7.2, "--json")
    found = json.loads(out)
    assert (status, found["answer"]) == (3, "too close to call")
    costs = {name: found["total"][name] * 7.2 / 3600 for name in ("value", "low", "high")}
    assert costs == pytest.approx(found["cost"])


def test_a_short_name_means_the_one_device_whose_name_begins_so(traintime):
    status, out, _ = traintime("--vocabulary", 20_000, "--on", "h200", "--json")
    assert json.loads(out)["of"].endswith("H200-SXM")
    status, _, said = traintime("--vocabulary", 20_000, "--on", "a100")
    assert status == 2
    assert "may be A100-40GB, A100-80GB-PCIe or A100-80GB-SXM" in " ".join(said.split())


def test_the_largest_that_fits_is_found(traintime):
    status, out, _ = traintime("rows", "--memory", "4GB", "--on", "T4", "--json", command="largest")
    assert status == 0
    assert json.loads(out)["surely"] > 1000
    status, out, _ = traintime("--memory", "1MB", "--on", "T4", command="largest")
    assert status == 1
    status, _, said = traintime("batch", command="largest")
    assert status == 2
    assert "Add --memory" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--per-hour", "nan"), "per_hour: nan"),
        ((__file__ + ":build", "--vocabulary", 10), "vocabulary: 10 is what the file says itself"),
        ((__file__ + ":build", "--workload", "lstm"), "workload: 'lstm' is what the file says itself"),
        ((__file__ + ":build", "--stack", "numpy"), "runs no Keras 3"),
        ((__file__ + ":build", "--give-up", 0), "give_up: 0"),
        ((__file__ + ":build", "--probe", "nowhere.py:build"), "probe: 'nowhere.py' is no file"),
    ],
)
def test_bad_input_is_one_line_and_status_2(traintime, words, said):
    status, out, err = traintime(*words)
    assert status == 2
    assert said in " ".join(err.split())
    assert out == ""


def test_a_file_whose_backend_is_absent_is_told_what_to_do(traintime, monkeypatch):
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: False))
    status, _, err = traintime(f"{__file__}:build", "--stack", "2026-jax")
    assert status == 2
    assert "stack: '2026-jax' is not here. Add it: traintime stacks add 2026-jax" in " ".join(err.split())


@pytest.mark.stack("2026-torch")
def test_what_a_build_function_prints_is_none_of_the_answer(traintime, tmp_path):
    (tmp_path / "reader.py").write_text("""
print("before")
import keras
def build():
    print("building")
    model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(5)])
    model.compile("adam", "mse")
    return model
""")
    words = ("--samples", 1000, "--batch", 10, "--stack", "2026-torch", "--on", "T4", "--json")
    status, out, _ = traintime(f"{tmp_path}/reader.py:build", *words)
    assert status == 0
    assert json.loads(out)["tier"] == "formula"
