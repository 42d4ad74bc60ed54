"""The calculator's page, before a browser has seen it."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from traintime.book import original
from traintime.book.calculator import near, page
from traintime.explain.terms import by_part
from traintime.workloads.rnn import Rnn


def test_the_page_is_the_same_each_time_it_is_made():
    """In another process, whose sets and hashes have another order than this one's: seconds, for builds to agree."""
    made = "import hashlib\nfrom traintime.book.calculator import page\n"
    made += "print(hashlib.sha256(repr((page.fragments(), page.values())).encode()).hexdigest())"
    other = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    run = subprocess.run([sys.executable, "-c", made], env=other, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip() == hashlib.sha256(repr((page.fragments(), page.values())).encode()).hexdigest()


def test_next_to_a_measured_step_the_answer_is_that_step():
    measured, beside = page.answer()[1], page.answer(vocabulary=280_001)[1]
    assert beside.value == pytest.approx(measured.value, rel=1e-3)
    assert beside.high / beside.low < 1.5


def test_of_the_steps_that_were_left_out_nine_in_ten_lie_in_their_range():
    rows, known = near.left_out(), near.constants()
    variance = rows["stack"].map(known["repeat"]) ** 2 + rows["group"].map(known["spread"]) * rows["far"]
    assert (rows["carried"].abs() < 1.645 * variance**0.5).groupby(rows["group"]).mean().between(0.85, 0.95).all()


def test_the_posts_card_has_the_parts_of_the_posts_own_fit():
    parts = by_part(near.costs_of("K40m", "2017-theano")["glibc"].parts(Rnn().work()))
    fitted = original.s0_fits()["GPU"].parts(pd.DataFrame({"vocabulary": [280_000], "batch": [100]})).iloc[0]
    own = np.array([parts["overhead"], parts["update"], parts["arithmetic"] + parts["activations"]])
    assert own / own.sum() == pytest.approx(fitted.to_numpy() / fitted.sum(), abs=0.02)
