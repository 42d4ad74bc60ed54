"""Losses from the same weights on the same sentences, step by step: whether two ways of training are one.

`python -m traintime.measuring.equal_losses` trains again on every stack here and writes data/derived/losses.csv.
"""

import itertools

import pandas as pd

from traintime import paths
from traintime.measuring import stacks
from traintime.measuring.measure import measure
from traintime.measuring.protocol import Protocol
from traintime.point import make_point
from traintime.store import derived

STEPS = 200
# Words as frequent as real ones: some stand in a batch many times, most in few of the batches.
SIZES = {"vocabulary": 5_000, "embedding": 32, "units": 32, "tokens": "zipf", "dropout": 0.0}
# NumPy, where every operation can be read, is Adam as published; it is what the others are held to.
REFERENCE = ("numpy", "adam")
WAYS = [
    REFERENCE,
    ("numpy", "adam-rows"),
    *itertools.product(("2026-tensorflow", "2026-jax", "2026-torch"), ("adam", "adam-deferred")),
]
COLUMNS = ["stack", "optimizer", "step", "loss"]


def table(ways: list[tuple[str, str]], steps: int = STEPS, **changes: object) -> pd.DataFrame:
    """The loss before the first step and after each, a row each: stack, optimizer, step, loss.

    ways: stacks and optimizers; those whose stack is not here are left out; changes: of SIZES. Raises RuntimeError
    where a worker fails.
    """
    rows = []
    for name, optimizer in ways:
        stack = stacks.get(name)
        if not stack.present:
            continue
        point = make_point(**SIZES | {"optimizer": optimizer} | changes)
        record = measure(point, stack, Protocol(), task="check", steps=steps)
        if record["status"] != "ok":
            raise RuntimeError(f"{name} {point.key}: {record['error']}")
        rows += [(name, optimizer, step, loss) for step, loss in enumerate(record["result"]["losses"])]
    return pd.DataFrame(rows, columns=COLUMNS)


def stored() -> pd.DataFrame:
    """What was trained last."""
    return derived.read("losses")


if __name__ == "__main__":
    table(WAYS).to_csv(paths.DERIVED / "losses.csv", index=False)
