"""Keras takes one backend a process: the layer's checks are run once on each that can have it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from traintime.deferred.rules import BACKENDS as NAMES

HERE = Path(__file__).parent
# Minutes each: one with `make test`, all with `make test-all`.
BACKENDS = [
    pytest.param(name, marks=[pytest.mark.stack(f"2026-{name}")] + [pytest.mark.everything] * (name != "jax"))
    for name in NAMES
]


def environment(backend):
    return dict(os.environ, KERAS_BACKEND=backend, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="")


@pytest.mark.timeout(1800)  # some hundred graphs are compiled: on a busy machine a quarter of an hour is too little
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_layer_on_this_backend(backend):
    command = [sys.executable, "-m", "pytest", str(HERE / "checks.py"), "-q", "-p", "no:cacheprovider", "-x"]
    done = subprocess.run(command, env=environment(backend), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


@pytest.mark.fault(
    "kill -9 of a training with a deferred embedding, between two epochs",
    "resumed from its last save it ends with the losses and the table of an undisturbed training",
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_training_that_is_killed_and_resumed_ends_where_it_would_have_ended(backend, tmp_path):
    def train(*names):
        command = [sys.executable, str(HERE / "resumed.py"), str(tmp_path), *names]
        return subprocess.run(command, env=environment(backend), capture_output=True, text=True, check=False)

    killed = train("killed", "kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    assert not (tmp_path / "killed" / "end.npz").exists()
    done = train("killed", "straight")
    assert done.returncode == 0, done.stderr[-2000:]
    resumed, straight = (np.load(tmp_path / folder / "end.npz") for folder in ("killed", "straight"))
    assert (int(resumed["epochs"]), int(straight["epochs"])) == (2, 4)  # the two before the kill were kept
    assert np.abs(resumed["loss"] / straight["loss"][-2:] - 1).max() < 1e-5
    assert np.abs(resumed["table"] - straight["table"]).max() < 1e-5 * np.abs(straight["table"]).max()


def test_a_backend_that_has_no_deferred_embedding_is_refused_by_name():
    command = [sys.executable, "-c", "from traintime.deferred import Embedding; Embedding(5, 2)"]
    done = subprocess.run(command, env=environment("numpy"), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "InputError: backend: 'numpy' has no deferred embedding yet. Set KERAS_BACKEND to one of: " in last
