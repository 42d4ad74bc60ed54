"""The calculator's page, before a browser has seen it."""

import hashlib
import os
import subprocess
import sys

from traintime.book.calculator import page


def test_the_page_is_the_same_each_time_it_is_made():
    """In another process, whose sets and hashes have another order than this one's: seconds, for builds to agree."""
    made = "import hashlib\nfrom traintime.book.calculator import page\n"
    made += "print(hashlib.sha256(repr((page.fragments(), page.values())).encode()).hexdigest())"
    other = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    run = subprocess.run([sys.executable, "-c", made], env=other, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip() == hashlib.sha256(repr((page.fragments(), page.values())).encode()).hexdigest()
