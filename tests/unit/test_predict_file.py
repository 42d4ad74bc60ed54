"""A model or a step that a file defines, in a process of its own: what is asked of it, and what it may do wrong."""

import json
import os
import subprocess
import sys

import pytest

from traintime import paths
from traintime.errors import InputError
from traintime.predict import file
from traintime.predict.answer import Estimate

MODEL = """
print("before")
import keras
import numpy as np
pair = np.ones((40, 10)), np.ones((40, 5))
def build():
    print("building")
    model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(5)])
    model.compile("adam", "mse")
    return model
def data():
    return pair
def many(n):
    return pair
"""
FULL = """
import keras
class Large(keras.Sequential):
    def fit(self, *data, **how):
        raise MemoryError("16 TB")
def build():
    model = Large([keras.Input((10,)), keras.layers.Dense(5)])
    model.compile("adam", "mse")
    return model
"""
# A fault of ours, of the kind that reads a graph wrongly.
OURS = "from traintime.predict import keras_trainer as ours\nours._rows = lambda model, tensor: tensor.weights" + MODEL
KERAS_ERROR = "import keras\ndef build():\n    return keras.layers.Dense(3)(keras.ops.ones((2,)))\n"
KILLED = "import os, signal\ndef {}:\n    os.kill(os.getpid(), signal.SIGKILL)\n"
WITHOUT = "import sys\nsys.modules['jax'] = None\ndef build():\n    import keras\n"


@pytest.fixture
def answer(tmp_path):
    """Write a file and ask about what it calls by this name; data: by another name."""

    def ask(text, name="build", data=None, **asked):
        path = tmp_path / "reader.py"
        path.write_text(text)
        asked |= {"data": f"{path}:{data}"} if data else {}
        how = {"samples": 1000, "batch_size": 10, "seconds": 1.0} | asked
        return Estimate.from_dict(file.ask(f"{path}:{name}", **how))

    return ask


def test_a_step_is_probed_whatever_the_file_prints(answer):
    text = "import time\nprint('hello')\ndef step(n):\n    print(n)\n    time.sleep(1e-4 * n)\n"
    one = answer(text, "step")
    assert one.tier == "probed" and one.step.value > 0.001


TORCH, KERAS = {"backend": "torch"}, pytest.mark.stack("2026-torch")


@KERAS
@pytest.mark.parametrize(("data", "tier"), [("pair", "formula"), ("data", "probed")])
def test_a_file_says_what_its_model_is_trained_on(answer, data, tier):
    one = answer(MODEL, **TORCH, data=data, samples=None, tier=tier)
    assert (one.tier, one.samples) == (tier, 40)


@pytest.mark.parametrize(
    ("text", "name", "asked", "said"),
    [
        ("def step(n):\n    raise ValueError('no data')", "step", {}, r"'step\(10\)' raised ValueError: no data"),
        ("def build():\n    raise MemoryError('16 TB')", "build", {}, "raised MemoryError: 16 TB. Ask by its sizes"),
        ("def build():\n    return 3", "build", {}, "returned int, no model"),
        ("def both(a, b):\n    pass", "both", {}, "needs 2 arguments"),
        ("def other(n):\n    pass", "step", {}, "'step' is not in reader.py. It has: other"),
        ("def step(n:\n", "step", {}, "raised SyntaxError"),
        ("def step(n):\n    pass\npair = 1, 2\n", "step", {"data": "pair"}, "a step makes batches of its own"),
        ("import os\ndef step(n):\n    os._exit(7)", "step", {}, r"process while it trained \(exit status 7\)"),
        ("import time\ndef build():\n    time.sleep(60)", "build", {"give_up_s": 2}, "gave no answer within 2 s. Let"),
        (KILLED.format("build()"), "build", {}, "killed while it was built: memory ran out, most likely. Ask by its"),
        (KILLED.format("step(n)"), "step", {}, "killed while it trained: memory ran out, most likely. Take a smaller"),
        (WITHOUT, "build", {"backend": "jax"}, "Install jax, or take a backend that is here"),
        pytest.param(FULL, "build", TORCH, r"ran out of memory while it trained \(MemoryError\). Take a", marks=KERAS),
        pytest.param(OURS, "build", TORCH, "traintime itself raised AttributeError: .* no fault", marks=KERAS),
        pytest.param(KERAS_ERROR, "build", TORCH, "raised ValueError: [^•]*$", marks=KERAS),
        pytest.param(MODEL, "build", TORCH | {"data": "many"}, "data: 'many' needs 1 arguments", marks=KERAS),
    ],
)
def test_what_a_file_does_wrong_is_said_and_told_from_what_we_do(answer, text, name, asked, said):
    with pytest.raises(InputError, match=said):
        answer(text, name, **asked)


@KERAS
def test_what_a_file_prints_is_none_of_the_answer(tmp_path):
    (tmp_path / "reader.py").write_text(MODEL)
    options = f"estimate {tmp_path}/reader.py:build --samples 1000 --batch 10 --stack 2026-torch --on T4 --json"
    command = [sys.executable, "-c", "from traintime.cli import main; main()", *options.split()]
    answer = subprocess.run(command, capture_output=True, env=os.environ | {"PYTHONPATH": str(paths.ROOT)}, check=True)
    assert json.loads(answer.stdout)["tier"] == "formula"


@pytest.mark.parametrize("target", ["model.py", "nowhere.py:build", "model.py:", ":build"])
def test_a_target_is_a_file_and_a_name(target):
    with pytest.raises(InputError, match="target"):
        file.split(target)


@pytest.mark.parametrize("field", ["probe", "data"])
def test_what_belongs_to_a_model_is_in_its_file(field):
    with pytest.raises(InputError, match=f"{field}: .* is not in test_predict_file.py. Let one file define both"):
        file.ask(f"{__file__}:build", **{field: f"{file.__file__}:build"})
