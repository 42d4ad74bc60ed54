"""The rings of tests: nothing is in none, and what a commit runs in turn is decided by its hash."""

import re
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
import rings

from traintime import paths


def test_every_test_of_every_file_is_in_a_ring(request):
    """Of what was collected now. Files that hold tests are collected, or run by one that is (tests/backends)."""
    counted = request.config.stash[rings.COUNTED]
    assert set(counted) <= {rings.PUSH, *rings.PARTS}
    assert sum(counted.values()) >= request.session.testscollected
    for path in (paths.ROOT / "tests").rglob("*.py"):
        if re.search(r"^def test_", path.read_text(), flags=re.MULTILINE):
            assert path.name.startswith("test_") or path.parent.name == "backends", path


@pytest.mark.parametrize(
    ("name", "stacks", "is_rest", "expected"),
    [
        ("tests/unit/test_point.py::test_a_key", [], False, ["push"]),
        ("tests/unit/test_predict_torch.py::test_a_module", [], False, ["push", "torch"]),
        ("tests/backends/test_backends.py::test_ten[torch]", ["2026-torch"], False, ["push", "torch"]),
        ("tests/workers/test_workers.py::test_loss[rnn-2017-theano]", ["2017-theano"], True, ["2017"]),
        ("tests/backends/test_backends.py::test_whole[tensorflow-eta]", ["2026-tensorflow"], True, ["2020"]),
        ("tests/book/test_interrupted.py::test_ctrl_c", [], True, ["2017"]),
        ("tests/colab/test_on_colab.py::test_it_runs[01]", [], True, ["readers"]),
    ],
)
def test_a_test_is_of_the_part_that_installs_what_it_needs(name, stacks, is_rest, expected):
    assert rings.rings_of(name, stacks, is_rest) == expected


def test_each_part_has_its_turn_by_the_commits_hash():
    turns = Counter(rings.turn(f"{number:040x}") for number in range(400))
    assert turns == dict.fromkeys(rings.PARTS, 100)
    said = subprocess.run([sys.executable, rings.__file__, "ff"], capture_output=True, text=True, check=True).stdout
    assert said.strip() in rings.PARTS
    cases = re.findall(r"^  ([\w |]+)\)", (paths.ROOT / ".ci" / "run").read_text(), flags=re.MULTILINE)
    assert sorted(part for case in cases for part in case.split(" | ")) == sorted(rings.PARTS), "what each installs"


@pytest.mark.parametrize(("ring", "ends"), [("push", pytest.skip.Exception), ("torch", pytest.fail.Exception)])
def test_what_is_missing_is_skipped_by_name_at_a_push_and_an_error_where_it_was_asked_for(ring, ends):
    config = SimpleNamespace(getoption={"ring": ring}.get)
    with pytest.raises(ends, match="no Chromium"):
        rings.lacks(config, "no Chromium")
