"""`traintime estimate`: what it prints, and its exit status as an answer."""

import json
import sys

import pytest

from traintime import cli
from traintime.predict import tiers
from traintime.predict.prices import Rates


@pytest.fixture
def traintime(monkeypatch, capsys):
    """Type a command; return its exit status and what it printed."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["traintime", "estimate", *map(str, words)])
        monkeypatch.setattr(tiers, "rates_here", lambda: Rates(1e11, 2e10))
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
    assert out.split()[-1] == said


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--deadline", "soon"), "deadline: 'soon' is no duration"),
        (("--memory", "much"), "memory: 'much' is no amount"),
        (("--vocabulary", 0), "vocabulary"),
        (("--on", "K41"), "device: 'K41'"),
        (("nowhere.py:build",), "target: 'nowhere.py' is no file"),
        (("--probe", "small.py:build"), "probe: 'small.py:build' is for models"),
        (("--probe-batch", 10), "probe_batch: 10 is for models"),
        ((__file__ + ":build", "--probe", "nowhere.py:build"), "probe: 'nowhere.py' is no file"),
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
