"""What the chapter on memory claims, and how each claim is judged on a machine."""

from collections.abc import Callable

import numpy as np

from traintime.book import stored
from traintime.book.chapters.memory.analysis import (
    NEW,
    by_hand,
    copies,
    documented,
    example,
    holdings,
    of_the_example,
    points,
)
from traintime.book.claims import Claim, Finding
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
]
