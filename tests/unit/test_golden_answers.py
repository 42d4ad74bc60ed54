"""What `traintime estimate` answers by the formula, at fixed rates, is what somebody reviewed, and what it refuses.

tests/golden/answers.json holds each command with what it prints; a new one is added with an empty list. `pytest
tests/unit/test_golden_answers.py --golden` writes all answers anew: read the difference.
"""

import json
import sys
from pathlib import Path

import pytest

from traintime import cli
from traintime.predict import process
from traintime.predict.costs import Rates

GOLDEN = Path(__file__).parents[1] / "golden" / "answers.json"


def answered(words: str, capsys) -> list[str]:
    """Exit status, and the lines that it printed."""
    status = 0
    sys.argv[1:] = words.split()
    try:
        cli.main()
    except SystemExit as end:
        status = end.code or 0
    out, err = capsys.readouterr()
    lines = [line.rstrip() for line in (out + err).splitlines()]
    return [f"status {status}", *(line for line in lines if not line.startswith(("Usage: ", "Try ")))]


@pytest.mark.parametrize("words", json.loads(GOLDEN.read_text()))
def test_it_answers_what_was_reviewed(words, capsys, monkeypatch, request, tmp_path):
    monkeypatch.setattr(process, "rates", lambda: Rates(1e11, 2e10))
    monkeypatch.setattr(sys, "argv", ["traintime"])
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    found, kept = answered(words, capsys), json.loads(GOLDEN.read_text())
    if request.config.getoption("golden"):
        kept[words] = found
        GOLDEN.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n")
    assert found == kept[words]
