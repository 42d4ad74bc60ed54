"""What the chapter on memory claims, and how each claim is judged on a machine."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from traintime.book import stored
from traintime.book.chapters.memory.analysis import (
    ACCUMULATED,
    AGAIN,
    DEFERRED,
    NEW,
    before_training,
    by_hand,
    copies,
    documented,
    example,
    frees,
    holdings,
    of_the_example,
    of_the_table,
    points,
)
from traintime.book.claims import Claim, Finding, span
from traintime.book.stored import Measurements
from traintime.explain.memory import Holding
from traintime.workloads.base import FLOAT


def _document_adds_up(book: Measurements) -> Finding:
    if book.machine != stored.reference():
        raise KeyError(book.machine)  # arithmetic is of no machine: said once
    ours, theirs = by_hand(), documented()
    same = all(ours[name] == theirs[name] for name in ("forward", "backward", "sample", "batch"))
    batches = example() == ours["batch"] * ours["forward"] / ours["sample"]
    return Finding(bool(same and batches), f"{ours['sample']:,} and {ours['batch']:,}")


def _fits(book: Measurements) -> dict[str, Holding]:
    found = holdings(points(book))
    if not found:
        raise KeyError("no peaks were measured")
    return found


def _error(fit: Holding) -> float:
    return float(np.abs(fit.left_out).mean())


def _three_parts(book: Measurements) -> Finding:
    errors = {stack: _error(fit) for stack, fit in _fits(book).items()}
    new = {stack: error for stack, error in errors.items() if stack in NEW}
    old = {stack: error for stack, error in errors.items() if stack not in NEW}
    if not new or not old:
        raise KeyError("stacks of both kinds are needed")
    worst = [max(side, key=lambda stack: side[stack]) for side in (new, old)]
    shown = "; ".join(f"{errors[stack]:.0%} on {stack} at most" for stack in worst)
    return Finding(max(new.values()) <= 0.1 and max(old.values()) <= 0.2, shown)


def _of(book: Measurements, stacks: tuple[str, ...], decide: Callable[[float], bool], how: str = "adam") -> Finding:
    table = copies(points(book))
    held = table[how].dropna() if how in table else table.iloc[:0, 0]
    held = held[[stack for stack in stacks if stack in held.index]]
    if held.empty:
        raise KeyError("no large table was measured")
    shown = ", ".join(f"{stack} {value:.1f}" for stack, value in held.items())
    return Finding(all(decide(value) for value in held), shown)


def _least(book: Measurements) -> Finding:
    return _of(book, ("2017-theano", "2020-theano", "2026-jax"), lambda copies: 3.8 <= copies <= 4.5)


def _tensorflow_1(book: Measurements) -> Finding:
    return _of(book, ("2017-tensorflow", "2020-tensorflow"), lambda copies: copies > 8)


def _three_times(book: Measurements) -> Finding:
    stacks = tuple(copies(points(book)).index)
    return _of(book, stacks, lambda copies: 2.5 <= copies <= 3.5, "sgd")


def _twice(book: Measurements) -> Finding:
    return _of(book, tuple(copies(points(book)).index), lambda copies: 1.5 <= copies <= 2.5, "sgd")


def _four_and_a_half(book: Measurements) -> Finding:
    stacks = tuple(copies(points(book)).index)
    return _of(book, stacks, lambda copies: 4 <= copies <= 5)


def _grows_by_activations(book: Measurements) -> Finding:
    held = of_the_example(book).pivot_table("held", "stack", "batch", sort=False)
    if not {1, 4096} <= set(held):
        raise KeyError("the example was not measured")
    more = (held[4096] - held[1]).dropna() / (FLOAT * 4095 * by_hand()["forward"])
    if len(more) < 2:
        raise KeyError("the example was not measured")
    shown = ", ".join(f"{stack} {value:.2f}" for stack, value in more.items())
    return Finding(bool(more.between(0.5, 2.5).all()), f"times the forward pass: {shown}")


def _mostly_framework(book: Measurements) -> Finding:
    found = of_the_example(book)
    found = found[(found["batch"] == 256) & (found["stack"] != "numpy")].set_index("stack")
    if found.empty:
        raise KeyError("the example was not measured")
    share = found["idle"] / found["peak_bytes"]
    return Finding(bool((share > 0.9).all()), ", ".join(f"{stack} {value:.0%}" for stack, value in share.items()))


OF_KERAS2 = ("2017-theano", "2017-tensorflow", "2020-theano", "2020-tensorflow")
WITHIN = 0.25  # copies
HALVED = "bfloat16"


def _by_optimizer(book: Measurements, *ways: str) -> pd.DataFrame:
    """Copies of a large table in these ways, of the stacks that measured all of them."""
    table = copies(points(book)).reindex(columns=list(ways)).dropna()
    if table.empty:
        raise KeyError("the optimizers were not measured")
    return table


def _between(book: Measurements) -> Finding:
    table = _by_optimizer(book, "sgd", "momentum", "rmsprop", "adam")
    if len(table) < 2:
        raise KeyError("the optimizers were measured on one stack alone")
    low = table[["momentum", "rmsprop"]].min(axis=1) - table["sgd"]
    high = table["adam"] - table[["momentum", "rmsprop"]].max(axis=1)
    shown = "; ".join(f"{stack} {' '.join(f'{held:.1f}' for held in row)}" for stack, *row in table.itertuples())
    return Finding(bool((low > -WITHIN).all() and (high > -WITHIN).all()), f"SGD, momentum, RMSprop, Adam: {shown}")


def _velocity_of_keras2(book: Measurements) -> Finding:
    table = _by_optimizer(book, "sgd", "momentum")
    table = table[table.index.isin(OF_KERAS2)]
    if table.empty:
        raise KeyError("no stack of Keras 2 measured both")
    more = table["momentum"] - table["sgd"]
    return Finding(bool((more.abs() < WITHIN).all()), ", ".join(f"{stack} {held:+.2f}" for stack, held in more.items()))


def _jax_whatever_the_optimizer(book: Measurements) -> Finding:
    held = _by_optimizer(book, "sgd", "momentum", "rmsprop", "adam").loc["2026-jax"]
    return Finding(bool(held.between(3.5, 4.5).all()), ", ".join(f"{way} {value:.1f}" for way, value in held.items()))


def _before_the_first_step(book: Measurements) -> Finding:
    share = before_training(of_the_table(book))
    held = share.loc[share.index.isin(["2026-jax", "2026-torch"]), "sgd"].dropna()
    if len(held) < 2:
        raise KeyError("not measured on both")
    return Finding(bool((held > 0.98).all()), ", ".join(f"{stack} {value:.0%}" for stack, value in held.items()))


def _left(book: Measurements, larger: str, way: str, *stacks: str) -> pd.DataFrame:
    """What the way leaves of the usual peak, a row for each of these stacks (all three where none is named)."""
    found = frees(book)
    found = found[(found["larger"] == larger) & (found["way"] == way)].set_index("stack")
    if found.empty or not set(stacks) <= set(found.index):
        raise KeyError(way)
    return found.loc[list(stacks)] if stacks else found


def _shown(found: pd.DataFrame) -> str:
    shown = ", ".join(f"{stack} {span(row)}" for stack, row in found.iterrows())
    return shown if found["sweep"].all() else f"{shown}; not in the same rounds"


def _below_one(found: pd.DataFrame) -> bool | None:
    """Whether all are below 1; None where an interval holds it."""
    if (found["low"] > 1).any():
        return False
    return True if (found["high"] < 1).all() else None


def _again(book: Measurements) -> Finding:
    found = _left(book, "activations", AGAIN, "2026-tensorflow", "2026-jax")
    return Finding(_below_one(found), _shown(found))


def _again_on_torch(book: Measurements) -> Finding:
    glibc = _left(book, "activations", AGAIN, "2026-torch").iloc[0]
    keeping = _left(book, "activations", f"{AGAIN}, both under tcmalloc", "2026-torch").iloc[0]
    apart = keeping["high"] < glibc["low"] or keeping["low"] > glibc["high"]
    holds = bool(keeping["ratio"] < glibc["ratio"]) if apart else None
    return Finding(holds, f"{span(keeping)} under tcmalloc, {span(glibc)} under glibc")


def _half_a_table(book: Measurements) -> Finding:
    found = _left(book, "copies", HALVED)
    return Finding(bool(found["ratio"].between(0.9, 1.1).all()), _shown(found))


def _accumulated(book: Measurements) -> Finding:
    found = _left(book, "copies", ACCUMULATED)
    above = _below_one(found.assign(low=1 / found["high"], high=1 / found["low"]))
    return Finding(above, _shown(found))


def _deferred(book: Measurements) -> Finding:
    found = _left(book, "copies", DEFERRED)
    return Finding(_below_one(found), _shown(found))


CLAIMS = [
    Claim(
        "11.1",
        "The layers of the document's example give its 1,820 numbers a sample and 465,920 a batch exactly.",
        "S2",
        _document_adds_up,
    ),
    Claim(
        "11.2",
        "A runtime, copies of the parameters and kept activations give the held memory of a left-out point within "
        "10 % on average on today's stacks, within 20 % on the older ones.",
        "ours",
        _three_parts,
    ),
    Claim("11.3", "Both Theanos and JAX hold four copies of a large table with Adam, the least.", "ours", _least),
    Claim("11.4", "TensorFlow 1 holds more than eight copies with Adam.", "ours", _tensorflow_1),
    Claim("11.5", "Without momentum training holds three copies of the weights.", "S2", _three_times),
    Claim("11.6", "Training holds four and a half copies of the weights, with Adam.", "S2", _four_and_a_half),
    Claim(
        "11.7",
        "From a batch of 1 to 4,096 the example's memory grows by half to two and a half times its forward pass.",
        "ours",
        _grows_by_activations,
    ),
    Claim(
        "11.8",
        "At the example's size, batch 256, the framework itself is more than 90 % of the peak on every Keras stack.",
        "ours",
        _mostly_framework,
    ),
    Claim("11.9", "Training holds twice the weights, without momentum and with a large table.", "S2", _twice),
    Claim(
        "11.10",
        "Momentum and RMSprop hold no more copies of a large table than Adam and no fewer than SGD, within a quarter.",
        "ours",
        _between,
    ),
    Claim(
        "11.11",
        "In Keras 2 SGD holds as many copies as momentum, within a quarter: it keeps a velocity that it does not need.",
        "ours",
        _velocity_of_keras2,
    ),
    Claim(
        "11.12",
        "On JAX SGD, momentum and RMSprop hold four copies, within a half, as Adam does.",
        "ours",
        _jax_whatever_the_optimizer,
    ),
    Claim(
        "11.13",
        "With SGD and a large table JAX and torch hold 98 % of their peak before the first step.",
        "ours",
        _before_the_first_step,
    ),
    Claim(
        "11.14",
        "Computing activations again lowers the peak of dense layers on TensorFlow and JAX.",
        "ours",
        _again,
    ),
    Claim(
        "11.15",
        "On torch computing activations again leaves less of the peak under tcmalloc than under glibc.",
        "ours",
        _again_on_torch,
    ),
    Claim(
        "11.16",
        "bfloat16 changes the peak with a large table by less than a tenth on TensorFlow, JAX and torch.",
        "ours",
        _half_a_table,
    ),
    Claim(
        "11.17",
        "With a large table eight batches an update hold more than one batch eight times as large.",
        "ours",
        _accumulated,
    ),
    Claim("11.18", "With a large table deferred rows hold less than dense Adam.", "ours", _deferred),
]
