"""On Colab: stacks of its own name, only what is lacking is installed, the sizes of a GPU where there is one."""

import os
import subprocess
import sys
from textwrap import dedent
from types import SimpleNamespace
from unittest import mock

import pytest

from traintime import paths
from traintime.book import VERDICTS, colab
from traintime.errors import InputError
from traintime.measuring import machine, stacks, sweep

CARD = {"name": "Tesla T4", "memory_mib": 15360, "driver": "550"}


def on_colab(code: str) -> str:
    """What the code prints in a process that takes itself for a Colab runtime."""
    environment = os.environ | {"COLAB_RELEASE_TAG": "release-colab_20261101-060000_RC00"}
    command = [sys.executable, "-c", dedent(code)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_runtime_has_stacks_of_its_own_name_and_no_locked_one():
    names = on_colab("""
        from traintime.measuring import stacks
        print(*stacks.ALL)
        print(*(name for name, stack in stacks.KNOWN.items() if stack.present))
    """).splitlines()
    assert names[0].split() == ["colab-tensorflow", "colab-jax", "colab-torch", "colab-numpy"]
    assert set(names[1].split()) <= set(names[0].split())
    assert "colab-numpy" in names[1].split()


def test_elsewhere_no_such_stack_is_there_or_can_be_added():
    assert not any(name.startswith("colab") for name in stacks.ALL)
    assert not stacks.get("colab-numpy").present
    with pytest.raises(InputError, match=r"colab-numpy.*Colab"):
        stacks.add(stacks.get("colab-numpy"))


def test_a_chapters_stacks_stand_for_the_runtimes():
    answer = on_colab("""
        from traintime.measuring import stacks
        for name in ("numpy", "2026-jax", "2026-tensorflow", "2017-theano"):
            print(stacks.counterpart(stacks.get(name)).name)
    """)
    assert answer.split() == ["colab-numpy", "colab-jax", "colab-tensorflow", "2017-theano"]
    assert stacks.counterpart(stacks.get("numpy")).name == "numpy"


@pytest.fixture
def pip(monkeypatch):
    """What stands for pip: it is called as colab.subprocess.run is, and does well."""
    monkeypatch.setenv(VERDICTS, "")  # so that what prepare() sets ends with the test
    run = mock.Mock(return_value=SimpleNamespace(returncode=0))
    monkeypatch.setattr(colab.subprocess, "run", run)
    return run


def test_what_is_there_is_not_installed_again(pip):
    assert colab.lacking() == []
    colab.prepare()
    pip.assert_not_called()


def test_what_is_lacking_is_installed_and_the_rest_held_and_a_failure_is_said(pip, monkeypatch, tmp_path):
    monkeypatch.setattr(colab, "lacking", lambda: ["filelock>=3.13"])
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    colab.prepare()
    ((command,), _), held = pip.call_args, tmp_path / "preinstalled.txt"
    assert command[command.index("-c") + 1 :] == [str(held), "filelock>=3.13"]
    assert "\nnumpy==" in held.read_text()
    pip.return_value = SimpleNamespace(returncode=1, stdout="", stderr="no network")
    with pytest.raises(RuntimeError, match=r"(?s)filelock.*no network"):
        colab.prepare()


@pytest.mark.parametrize(("here", "cards", "found"), [(False, [CARD], {}), (True, [], {}), (True, [CARD], None)])
def test_the_sizes_are_the_profiles_on_a_gpu_of_colab_alone(monkeypatch, capsys, here, cards, found):
    monkeypatch.setattr(stacks, "on_colab", lambda: here)
    monkeypatch.setattr(machine, "gpus", lambda: cards)
    wanted = sweep.load_profile("colab")["chapters"]["04-vocabulary"] if found is None else found
    assert colab.sizes("04-vocabulary") == wanted
    said = capsys.readouterr().out
    assert ("Tesla T4" in said, "T4 GPU" in said) == (here and bool(cards), here and not cards)
