"""What the calculator's page carries, before a browser has seen it."""

import hashlib
import os
import re
import subprocess
import sys

import pytest

from traintime.book.calculator import page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0 µs"),
        (5e-7, "0.50 µs"),
        (0.0504, "50 ms"),
        (0.999, "1,000 ms"),
        (504.0, "8.4 min"),
        (86_400.0 * 365.25 * 12_345, "12,000 years"),
    ],
)
def test_a_duration_has_two_digits_that_count(value, text):
    assert page.shown(value) == text


def test_the_page_is_the_same_each_time_it_is_made():
    """In another process, whose sets and hashes have another order than this one's: seconds, for builds to agree."""
    made = "import hashlib\nfrom traintime.book.calculator import page\n"
    made += "print(hashlib.sha256(repr((page.fragments(), page.values())).encode()).hexdigest())"
    other = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    run = subprocess.run([sys.executable, "-c", made], env=other, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip() == hashlib.sha256(repr((page.fragments(), page.values())).encode()).hexdigest()


def test_the_front_pages_two_steps_begin_on_either_side_of_their_answer():
    form = page.fragments()[page.TWO_STEPS]
    values = {
        name: int(re.search(rf'name="{name}"[^>]*value="(\d+)"', form)[1]) for name in ("small", "batch", "large")
    }
    assert values["small"] < values["batch"] < values["large"]
