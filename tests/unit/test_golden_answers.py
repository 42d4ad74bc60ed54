"""What `traintime estimate` answers by the formula, at fixed rates, is what somebody reviewed, and what it refuses.

`pytest tests/unit/test_golden_answers.py --golden` writes tests/golden/answers.json anew: read the difference.
"""

import json
import sys
from pathlib import Path

import pytest

from traintime import cli
from traintime.predict import process
from traintime.predict.costs import Rates

GOLDEN = Path(__file__).parents[1] / "golden" / "answers.json"
MILLION = "--samples 1000000"
ANSWERS = [
    f"estimate --stack 2026-jax --vocabulary 2000000 {MILLION}",
    f"estimate --stack 2026-tensorflow --vocabulary 20000 --epochs 5 --validation 10000 --saves 5 {MILLION} --details",
    f"estimate --stack 2026-torch --vocabulary 280000 --frozen {MILLION} --details",
    f"estimate --stack 2017-theano --vocabulary 80000 --length 100 --optimizer sgd {MILLION} --json",
    f"estimate --stack 2020-tensorflow --batch 1000 {MILLION}",
    f"estimate --stack numpy --workload dense {MILLION}",
    f"estimate --stack 2026-jax --workload convnet {MILLION} --details",
    f"estimate --stack 2026-torch --workload lstm --length 50 {MILLION}",
    f"estimate --stack 2026-tensorflow --workload blocks {MILLION}",
    f"estimate --on T4 --vocabulary 280000 {MILLION} --details",
    f"estimate --on H200 --vocabulary 280000 {MILLION} --deadline 8h --per-hour 4",
    f"estimate --stack 2026-jax --vocabulary 280000 {MILLION} --deadline 90m --memory 16GB",
    f"estimate --stack 2026-jax --vocabulary 280000 {MILLION} --memory 1GB",
]
REFUSED = [
    "estimate --vocabulary 0",
    "estimate --samples 0",
    "estimate --batch 100 --samples 10",
    "estimate --stack 2026-jaxx",
    "estimate --on K41",
    "estimate --on A100 --deadline 8h",
    "estimate --deadline soon",
    "estimate --memory much",
    "estimate --memory 16",
    "estimate --per-hour 0",
    "estimate --tier guess",
    "estimate --tier probed",
    "estimate nowhere.py:build",
    "estimate nowhere.py",
    "estimate --optimizer lion",
    "estimate --kernel cudnn --stack 2026-jax",
    "estimate --data nowhere.py:data",
    "estimate --probe small.py:build",
    "measure --stack nump",
    "measure --stack numpy --steps 0",
    "sweep --profile nowhere",
    "sweep --only nowhere",
    "check nowhere",
    "table nowhere",
    "stacks add nowhere",
    "learn --profile nowhere",
    "nonsense",
]


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


@pytest.mark.parametrize("words", [*ANSWERS, *REFUSED])
def test_it_answers_what_was_reviewed(words, capsys, monkeypatch, request, tmp_path):
    monkeypatch.setattr(process, "rates", lambda: Rates(1e11, 2e10))
    monkeypatch.setattr(sys, "argv", ["traintime"])
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    found, kept = answered(words, capsys), json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if request.config.getoption("golden"):
        GOLDEN.parent.mkdir(exist_ok=True)
        kept = {each: kept[each] for each in [*ANSWERS, *REFUSED] if each in kept} | {words: found}
        GOLDEN.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n")
    assert found == kept[words]
