"""Keras takes one backend a process: what runs inside `fit` is checked in a process of each, many checks in one.

The whole contract holds on JAX at every push, smoke tests of it on TensorFlow and on torch; the rest has its turn.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rings

HERE = Path(__file__).parent
CHECKS = sorted(HERE.glob("checks_*.py"))


def on(name, *marks):
    return pytest.param(name, marks=[pytest.mark.stack(f"2026-{name}"), *marks])


BACKENDS = [on("tensorflow"), on("jax"), on("torch")]
pytestmark = pytest.mark.timeout(1800)  # on a busy machine a quarter of an hour is too little


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Run Python on a backend, and return how it ended."""
    compiled = tmp_path_factory.mktemp("compiled")

    def run(backend, *command):
        given = {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
        given["OMP_NUM_THREADS"] = "1"  # threads that wait for each other in a loop make a busy machine slow
        # What XLA compiles for a test runs for milliseconds: to make it fast would take longer.
        given["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
        given |= {"JAX_COMPILATION_CACHE_DIR": str(compiled), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.02"}
        command = [sys.executable, *map(str, command)]
        return subprocess.run(command, env=os.environ | given, capture_output=True, text=True, check=False)

    return run


def check(run, backend, *chosen):
    """Run checks on a backend, all in one process; one at least has to be chosen, and all have to pass."""
    done = run(backend, "-m", "pytest", *chosen, "-q", "-p", "no:cacheprovider", "--tb=short")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.parametrize("file", CHECKS, ids=lambda file: file.stem)
@pytest.mark.parametrize("backend", [on("tensorflow", pytest.mark.rest), on("jax"), on("torch", pytest.mark.rest)])
def test_the_whole_contract_holds(backend, file, run):
    check(run, backend, file)


@pytest.mark.parametrize("backend", BACKENDS)
def test_to_build_a_deferred_table_takes_it_and_its_moments_and_little_more(backend, run):
    """In a process of its own, whose peak is that of building; five tables and more if what is drawn is kept."""
    source = "from traintime.deferred import Embedding; from traintime.measuring.worker.process import peak_memory\n"
    source += "Embedding(9, 5).build(); before = peak_memory(); Embedding(100_000, 300).build()\n"
    assert float(run(backend, "-c", source + "print((peak_memory() - before) / 1.2e8)").stdout) < 3.6


@pytest.mark.parametrize("backend", [on("tensorflow"), on("torch")])
def test_smoke_tests_pass_at_every_push_on_the_others(backend, run):
    check(run, backend, *CHECKS, "-m", "smoke")


@pytest.mark.rest
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_thousand_sequences_of_deeds_train_a_deferred_table_as_dense_adam_does(request, backend, run, monkeypatch):
    """A push runs fifty, a part of the rest a quarter of these, by the commit's hash, and `all` runs all.

    This alone protects against a training that is another one and says nothing.
    """
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=True)
    whole = request.config.getoption("ring") == rings.ALL
    monkeypatch.setenv("SEQUENCES", "1000" if whole else "250")
    monkeypatch.setenv("FIRST", "0" if whole else str(int(head.stdout, 16) // len(rings.PARTS) % 4 * 250))
    check(run, backend, HERE / "checks_deferred.py", "-k", "no_sequence", "--timeout=0")


@pytest.mark.fault(
    "kill -9 of a training with a deferred embedding, between two epochs",
    "resumed from its last save it ends with the losses and the table of an undisturbed training",
)
@pytest.mark.rest
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_training_that_is_killed_and_resumed_ends_where_it_would_have_ended(backend, run, tmp_path):
    killed = run(backend, HERE / "resumed.py", tmp_path, "killed", "kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    assert not (tmp_path / "killed" / "end.npz").exists()
    done = run(backend, HERE / "resumed.py", tmp_path, "killed", "straight")
    assert done.returncode == 0, done.stderr[-2000:]
    resumed, straight = (np.load(tmp_path / folder / "end.npz") for folder in ("killed", "straight"))
    assert (int(resumed["epochs"]), int(straight["epochs"])) == (2, 4)  # the two before the kill were kept
    assert np.abs(resumed["loss"] / straight["loss"][-2:] - 1).max() < 1e-5
    assert np.abs(resumed["table"] - straight["table"]).max() < 1e-5 * np.abs(straight["table"]).max()


def test_a_backend_that_has_no_deferred_embedding_is_refused_by_name(run):
    done = run("numpy", "-c", "from traintime.deferred import Embedding; Embedding(5, 2)")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "InputError: backend: 'numpy' has no deferred embedding yet. Set KERAS_BACKEND to one of: " in last
