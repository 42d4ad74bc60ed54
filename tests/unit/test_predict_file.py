"""A model or a step that a file defines, in a process of its own: what is asked of it, and what it may do wrong."""

import pytest

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
OURS = (
    "from traintime.predict import keras_trainer\nkeras_trainer._rows = lambda model, tensor: tensor.weights\n" + MODEL
)
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
    assert one.tier == "probed"
    assert one.step.value > 0.001


@pytest.mark.stack("2026-torch")
@pytest.mark.parametrize(("data", "tier"), [("pair", "formula"), ("data", "probed")])
def test_a_file_says_what_its_model_is_trained_on(answer, data, tier):
    one = answer(MODEL, data=data, backend="torch", samples=None, tier=tier)
    assert (one.tier, one.samples) == (tier, 40)


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("def step(n):\n    raise ValueError('no data')", "step", r"step: 'step\(10\)' raised ValueError: no data"),
        ("def step(n):\n    raise MemoryError('16 TB')", "step", "raised MemoryError: 16 TB. Take a smaller batch"),
        ("def build():\n    raise KeyError('x')", "build", r"raised KeyError: 'x'. Call build\(\) by itself"),
        ("def build():\n    raise MemoryError('16 TB')", "build", "raised MemoryError: 16 TB. Ask by its sizes"),
        ("def build():\n    return 3", "build", "returned int, no model"),
        ("def both(a, b):\n    pass", "both", "needs 2 arguments"),
        ("def other(n):\n    pass", "step", "'step' is not in reader.py. It has: other"),
        ("import no_such_module", "step", "raised ModuleNotFoundError"),
        (WITHOUT, "build", "Install jax, or take a backend that is here"),
        ("def step(n:\n", "step", "raised SyntaxError"),
        ("import os\ndef step(n):\n    os._exit(7)", "step", r"ended its process while it trained \(exit status 7\)"),
        (
            "import os\ndef build():\n    os._exit(3)",
            "build",
            r"ended its process while it was built \(exit status 3\)",
        ),
        ("import time\ndef step(n):\n    time.sleep(60)", "step", "gave no answer within 12 s. A step may take"),
        ("import time\ndef build():\n    time.sleep(60)", "build", "gave no answer within 2 s. Let it return sooner"),
        (KILLED.format("build()"), "build", "was killed while it was built: memory ran out, most likely. Ask by its"),
        (KILLED.format("step(n)"), "step", "was killed while it trained: memory ran out, most likely. Take a smaller"),
    ],
)
def test_what_a_file_does_wrong_is_said_and_nothing_is_left(answer, text, name, said):
    give_up_s = {"step": 12, "build": 2}[name] if "sleep(60)" in text else 60  # a busy machine starts a step in seconds
    with pytest.raises(InputError, match=said):
        answer(text, name, backend="jax" if text == WITHOUT else None, give_up_s=give_up_s)


@pytest.mark.stack("2026-torch")
@pytest.mark.parametrize(
    ("text", "data", "said"),
    [
        (FULL, None, r"'build' ran out of memory while it trained \(MemoryError\). Take a smaller batch or model"),
        (OURS, None, "traintime itself raised AttributeError: 'KerasTensor' .* no fault of the file's"),
        (KERAS_ERROR, None, "raised ValueError: [^•]*$"),
        (MODEL, "many", "data: 'many' needs 1 arguments"),
        (MODEL, "none", "data: 'none' is not in reader.py"),
    ],
)
def test_what_a_models_file_does_wrong_is_told_from_what_we_do(answer, text, data, said):
    with pytest.raises(InputError, match=said):
        answer(text, data=data, backend="torch")


def test_a_step_has_no_data(answer):
    with pytest.raises(InputError, match="is for models; a step makes batches of its own"):
        answer("def step(n):\n    pass\npair = 1, 2\n", "step", data="pair")


@pytest.mark.parametrize("target", ["model.py", "nowhere.py:build", "model.py:", ":build"])
def test_a_target_is_a_file_and_a_name(target):
    with pytest.raises(InputError, match="target"):
        file.split(target)


@pytest.mark.parametrize("field", ["probe", "data"])
def test_what_belongs_to_a_model_is_in_its_file(field):
    with pytest.raises(InputError, match=f"{field}: .* is not in test_predict_file.py. Let one file define both"):
        file.ask(f"{__file__}:build", **{field: f"{file.__file__}:build"})
