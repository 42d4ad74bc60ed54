"""Keras takes one backend a process: the layer's checks are run once on each that can have it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from traintime.deferred.rules import BACKENDS

CHECKS = Path(__file__).parent / "checks.py"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_layer_on_this_backend(backend):
    command = [sys.executable, "-m", "pytest", str(CHECKS), "-q", "-p", "no:cacheprovider", "-x"]
    environment = dict(os.environ, KERAS_BACKEND=backend, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
