"""Keras takes one backend a process: the checks of what runs inside `fit` are run once on each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Minutes each: one with `make test`, all with `make test-all`.
BACKENDS = [
    pytest.param(name, marks=[pytest.mark.stack(f"2026-{name}")] + [pytest.mark.everything] * (name != "tensorflow"))
    for name in ("tensorflow", "jax", "torch")
]
CHECKS = Path(__file__).parent


@pytest.mark.timeout(1800)  # some hundred graphs are compiled: on a busy machine a quarter of an hour is too little
@pytest.mark.parametrize("checks", ["eta", "estimate", "models"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_it_holds_inside_fit_on_this_backend(backend, checks):
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(CHECKS / f"checks_{checks}.py"),
        "-q",
        "-p",
        "no:cacheprovider",
        "-x",
    ]
    environment = dict(os.environ, KERAS_BACKEND=backend, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="")
    environment["OMP_NUM_THREADS"] = "1"  # threads that wait for each other in a loop make a busy machine slow
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
