"""The software stacks: found, missing, added, and the environment that their workers get."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from traintime import paths
from traintime.errors import InputError
from traintime.measuring import stacks
from traintime.point import Run, make_point


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Folders for stacks and locks that are nobody else's, on a machine with a compiler."""
    real = stacks.shutil.which
    monkeypatch.setattr(stacks.shutil, "which", lambda name: name if name == "g++" else real(name))
    monkeypatch.setattr(paths, "STACKS", tmp_path / "stacks")
    monkeypatch.setattr(paths, "LOCKS", tmp_path / "env")
    paths.LOCKS.mkdir()
    for name in ("2017.txt", "2020.txt", "torch.txt"):
        (paths.LOCKS / name).write_text("numpy==1.18.5\n")
    return tmp_path


def script(path, body):
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


# What a stack has no way to run

TODAY = {"2026-tensorflow", "2026-jax", "2026-torch"}
KERAS_2 = {name for name, stack in stacks.ALL.items() if stack.api == "keras2"}
ALGORITHMS = {
    "combined": ("keras2", KERAS_2),
    "cell": ("keras3", TODAY),
    "apart": ("keras3 on torch", {"2026-torch"}),
    "native": ("keras2 on tensorflow, keras3 on torch", {"2017-tensorflow", "2020-tensorflow", "2026-torch"}),
}
JIT, POOLED = {"2026-tensorflow", "2026-jax"}, {"2026-torch", "2026-jax"}
ONLY_TODAY = {"device": "gpu", "precision": "mixed-float16", "jit": "on", "save_every": 10}


@pytest.mark.parametrize(
    ("changes", "field", "remedy", "able"),
    [
        ({"optimizer": "adam-rows"}, "optimizer", "Take the stack numpy.", {"numpy"}),
        ({"mask": True, "words": 5}, "mask", "Take a Keras stack.", KERAS_2 | TODAY),
        ({"factor": 30}, "factor", "Take a stack of keras3.", TODAY),
        ({"accumulated": 8}, "accumulated", "Take a stack of keras3.", TODAY),
        ({"workload": "lstm"}, None, None, set(stacks.ALL)),
        ({"workload": "lstm", "algorithm": "per-gate"}, None, None, set(stacks.ALL)),
        *[
            ({"workload": "lstm", "algorithm": name}, "algorithm", f"Take default, or one of: {of}.", able)
            for name, (of, able) in ALGORITHMS.items()
        ],
        ({"workload": "convnet", "images": "blocks"}, "images", "Take the stack numpy.", {"numpy"}),
        ({"workload": "blocks"}, "workload", "It has one for keras3.", TODAY),
        ({"workload": "dense", "optimizer": "adam-rows"}, "optimizer", "Take adam or sgd.", set()),
        ({"workload": "blocks", "feed": "decoded"}, "feed", "Take 2026-tensorflow.", {"2026-tensorflow"}),
        ({"onednn": "off"}, "onednn", "Take 2026-tensorflow.", {"2026-tensorflow"}),
        ({"allocator": "no-pool", "device": "gpu"}, "allocator", "Take 2026-torch or 2026-jax.", POOLED),
        ({"loop": "fit", "steps_per_execution": 16}, "steps_per_execution", "Take 2026-tensorflow or 2026-jax.", JIT),
        *[({field: value}, field, "Take a stack of 2026.", TODAY) for field, value in ONLY_TODAY.items()],
        ({"workload": "dense", "recompute": True}, "recompute", "Take a stack of 2026.", TODAY),
        ({"replicas": 2}, "replicas", "Take 2026-torch.", {"2026-torch"}),
    ],
)
def test_what_a_stack_cannot_do_is_refused_there_and_only_there(changes, field, remedy, able):
    found, refused = set(), set()
    for stack in stacks.ALL.values():
        try:
            stacks.refuse_impossible(make_point(**changes), stack)
            found.add(stack.name)
        except InputError as error:
            refused.add((error.field, error.value, error.remedy))
    assert found == able
    without_a_model = {each for each in refused if each[0] == "workload" != field}
    assert refused - without_a_model == ({(field, changes[field], remedy)} if field else set())


# Added, and present


@pytest.fixture
def commands(house, monkeypatch):
    """Record the commands instead of running them; in an older Python's environment pip lays down some packages."""
    seen = []

    def run(command, **kwargs):
        seen.append(command)
        if "venv" in command:
            script(Path(command[-1]) / "bin" / "python", "")
        if "-r" in command and command[0] != sys.executable:
            site = Path(command[0]).parents[1] / "lib" / "python3.6" / "site-packages"
            for name, version in (("Keras", "2.0.4"), ("Theano-PyMC", "1.0.11"), ("numpy", "1.16.6")):
                (folder := site / f"{name}-{version}.dist-info").mkdir(parents=True)
                (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        return subprocess.CompletedProcess(command, 0, stdout="", stderr="")

    monkeypatch.setattr(stacks.subprocess, "run", run)
    monkeypatch.setattr(stacks, "find_python", lambda version: house / f"python{version}")
    return seen


@pytest.mark.parametrize(
    "spoil",
    [
        lambda stack: (stack.home / "bin" / "python").unlink(),
        lambda stack: (stack.home / "installed-lock.sha256").unlink(),
        lambda stack: shutil.rmtree(next(stack.home.glob("lib/*/*/Theano*"))),
        lambda stack: (paths.LOCKS / stack.lock).write_text("numpy==1.16.5\n"),
    ],
    ids=["no Python", "no stamp", "no package", "another lock"],
)
def test_a_stack_is_added_whole_and_once_and_present_while_all_of_it_is_there(house, commands, spoil):
    stack = stacks.get("2017-theano")
    (stack.home / "from-before").mkdir(parents=True)
    assert not stack.present
    assert stacks.add(stack)
    assert not (stack.home / "from-before").exists()
    assert commands[0] == [str(house / "python3.6"), "-m", "venv", str(stack.home)]
    assert (commands[-1][0], commands[-1][-1]) == (str(stack.executable), str(paths.LOCKS / "2017.txt"))
    assert stack.present
    assert stack.versions() == {"keras": "2.0.4", "theano": "1.0.11", "numpy": "1.16.6"}
    assert not stacks.add(stack)
    spoil(stack)
    assert not stack.present


def test_a_failed_installation_repeats_pips_last_words_and_leaves_no_stack(house, commands, monkeypatch):
    def run(command, run=stacks.subprocess.run, **kwargs):
        done = run(command)
        done.returncode, done.stderr = int("-r" in command), "No matching distribution"
        return done

    monkeypatch.setattr(stacks.subprocess, "run", run)
    with pytest.raises(RuntimeError, match=r"(?s)2017.txt.*No matching distribution"):
        stacks.add(stacks.get("2017-theano"))
    assert not stacks.get("2017-theano").present


def test_theano_without_a_compiler_is_refused_before_anything_is_installed(commands, monkeypatch):
    monkeypatch.setattr(stacks.shutil, "which", lambda name: None)
    with pytest.raises(InputError, match="compiler: 'g\\+\\+'"):
        stacks.add(stacks.get("2017-theano"))
    assert commands == []
    assert stacks.add(stacks.get("2017-tensorflow"))


def test_of_todays_stacks_torch_has_a_lock_and_make_setup_installs_the_rest(commands, monkeypatch):
    monkeypatch.setattr(stacks, "distributions", lambda **kwargs: [])
    with pytest.raises(InputError, match="Run: make setup"):
        stacks.add(stacks.get("2026-jax"))
    assert commands == []
    assert stacks.add(stacks.get("2026-torch"))
    assert (commands[0][0], commands[0][-1]) == (sys.executable, str(paths.LOCKS / "torch.txt"))


# Which Python


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A machine without any Python; returns a function that puts a 3.6 into a named place."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))

    def put(place):
        folder = {"path": "bin/python3.6", "pyenv": "pyenv/versions/3.6.15/bin/python"}
        python = script(tmp_path / folder.get(place, f"{place}/bin/python"), "echo 3.6")
        if place == "conda":
            listing = json.dumps({"envs": [str(tmp_path / "no-such-env"), str(tmp_path / "conda")]})
            script(tmp_path / "bin" / "conda", f"echo '{listing}'")
        if place == "uv":
            script(tmp_path / "bin" / "uv", f"echo {python}")
        return python

    return put


def test_a_python_is_found_on_the_path_then_by_pyenv_then_conda_then_uv(places):
    assert stacks.find_python("3.6") is None
    uv, conda, pyenv, path = (places(place) for place in ("uv", "conda", "pyenv", "path"))
    for gone, next_one in ((path, pyenv), (pyenv, conda), (conda, uv)):
        assert stacks.find_python("3.6") == gone
        gone.unlink()
        assert stacks.find_python("3.6") == next_one


@pytest.mark.parametrize(
    ("body", "problem"),
    [("echo 3.9", "is Python 3.9"), ("echo 'pyenv: python3.6: command not found' >&2; exit 127", "does not run")],
)
def test_another_python_is_passed_over_or_refused_where_it_was_given(house, places, body, problem):
    stack, python = stacks.get("2017-theano"), script(house / "bin" / "python3.6", body)
    assert stacks.find_python("3.6") is None
    (stack.home / "theano").mkdir(parents=True)
    with pytest.raises(InputError, match=problem) as caught:
        stacks.add(stack, python=python)
    assert (caught.value.field, caught.value.value) == ("python", str(python))
    assert (stack.home / "theano").is_dir(), "nothing is removed"
    pyenv = places("pyenv")
    assert stacks.find_python("3.6") == pyenv


@pytest.mark.parametrize(("stack", "version"), [("2017-theano", "3.6"), ("2020-theano", "3.7")])
def test_a_missing_python_says_what_to_type(house, places, stack, version):
    with pytest.raises(InputError, match=f"needs Python {version}, which .* pyenv install {version}") as told:
        stacks.add(stacks.get(stack))
    assert ("uv python install" in told.value.remedy) == (version != "3.6"), "which uv does not have"


# The worker's environment

COMMON = {
    "PATH", "HOME", "LANG", "PYTHONNOUSERSITE", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_CPP_MIN_LOG_LEVEL", "CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS",
}  # fmt: skip


@pytest.mark.parametrize("stack", stacks.ALL.values(), ids=lambda stack: stack.name)
def test_a_workers_environment_has_only_names_from_the_list(house, monkeypatch, stack):
    for name in ("SECRET_TOKEN", "KERAS_HOME", "XLA_FLAGS", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH"):
        monkeypatch.setenv(name, "from outside")
    names = COMMON | ({"KERAS_BACKEND"} if stack.backend != "numpy" else set())
    if stack.backend == "theano":
        with pytest.raises(InputError, match=f"traintime stacks add {stack.name} --again"):
            stack.environment(7)
        blas = stack.home / "lib" / f"python{stack.python}" / "site-packages" / "numpy.libs" / "libopenblasp-r0.so"
        blas.parent.mkdir(parents=True)
        blas.touch()
        names |= {"LD_LIBRARY_PATH", "THEANO_FLAGS"}
        assert f"-L{blas.parent} -l:libopenblasp-r0.so" in stack.environment(7)["THEANO_FLAGS"]
        assert f"base_compiledir={stack.home}" in stack.environment(7)["THEANO_FLAGS"]
    environment = stack.environment(7)
    assert set(environment) == names
    assert "from outside" not in environment.values()
    assert {value for name, value in environment.items() if name.endswith("_NUM_THREADS")} == {"7"}
    assert Path(environment["HOME"]).is_relative_to(stack.home)


ON_GPU = {"CUDA_VISIBLE_DEVICES": "1", "LD_LIBRARY_PATH": "/cuda", "JAX_PLATFORMS": None}


@pytest.mark.parametrize(
    ("stack", "run", "changed"),
    [
        ("2026-tensorflow", {"onednn": "on"}, {"TF_ENABLE_ONEDNN_OPTS": "1"}),
        ("2026-tensorflow", {"onednn": "off"}, {"TF_ENABLE_ONEDNN_OPTS": "0"}),
        ("numpy", {"openblas": "Haswell"}, {"OPENBLAS_CORETYPE": "Haswell"}),
        ("2026-jax", {"device": "gpu"}, ON_GPU),
    ],
)
def test_kernels_and_the_gpu_are_chosen_by_their_variables_or_left_alone(monkeypatch, stack, run, changed):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/cuda")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    usual, found = (stacks.get(stack).environment(2, Run(**fields)) for fields in ({}, run))
    assert (usual["CUDA_VISIBLE_DEVICES"], usual["JAX_PLATFORMS"]) == ("", "cpu")
    assert found == {name: value for name, value in (usual | changed).items() if value is not None}
