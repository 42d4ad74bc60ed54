"""Chapter 12, parameters are not time: four structures of one size, and what predicts the time of a step."""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import stored
from traintime.book.stored import ANY, Measurements
from traintime.errors import InputError
from traintime.explain import formula
from traintime.explain.formula import Formula
from traintime.explain.statistics import Interval
from traintime.point import make_point

STACKS = ["2026-tensorflow", "2026-jax", "2026-torch"]
STRUCTURES = ["plain", "residual", "dense", "aggregated"]
SIZES: dict[str, Any] = {"workload": "blocks", "structure": ANY, "width": ANY, "depth": ANY}
DEPTHS = [4, 8, 16]
# Maps a convolution gives, so that all structures of a depth have the same parameters and the same arithmetic.
WIDTHS = {"plain": dict.fromkeys(DEPTHS, 32), "residual": dict.fromkeys(DEPTHS, 32)}
WIDTHS |= {"aggregated": dict.fromkeys(DEPTHS, 30), "dense": {4: 20, 8: 15, 16: 11}}
FEW, MANY = ("dense", 11), ("residual", 32)  # half of the parameters and the arithmetic, as many bytes
MIDDLE = 8  # the depth at which single things are changed
SAME = 0.05  # sizes that differ by less are the same
PREDICTORS: dict[str, Formula] = {
    "parameters": formula.BY_PARAMETERS,
    "operations": formula.BY_OPERATIONS,
    "bytes of activations": formula.BY_BYTES,
    "operations and bytes": formula.BY_BOTH,
}
ALONE = list(PREDICTORS)[:3]


def sizes(structure: str, depth: int) -> dict[str, Any]:
    """The fields of a network with as many parameters and operations as the others of its depth.

    Raises InputError for a structure or a depth whose width was not worked out.
    """
    if structure not in WIDTHS:
        raise InputError("structures", structure, "is not known", f"Choose from: {', '.join(WIDTHS)}.")
    if depth not in DEPTHS:
        raise InputError("depths", depth, "has no matched widths", f"Choose from: {', '.join(map(str, DEPTHS))}.")
    return {"structure": structure, "depth": depth, "width": WIDTHS[structure][depth]}


def with_work(found: pd.DataFrame) -> pd.DataFrame:
    """Points with what a step of each has to do: parameters, flops, activation_bytes (a workload's Work)."""
    names = ["structure", "side", "width", "depth", "outputs", "batch", "optimizer", "relu"]
    works = [make_point("blocks", **{name: row[name] for name in names}).work for _, row in found.iterrows()]
    columns = ("parameters", "flops", "activation_bytes")
    return found.assign(**{name: [float(getattr(work, name)) for work in works] for name in columns})


def points(book: Measurements, **wanted: Any) -> pd.DataFrame:
    """Every network of the sweep with its ReLUs and its stack's usual compiler, with `how`, its structure, and work."""
    found = with_work(book.points(**SIZES | {"side": ANY} | wanted))
    return found.assign(how=found["structure"] if len(found) else pd.Series(dtype=object))


def matched(found: pd.DataFrame) -> pd.DataFrame:
    """Those of the sizes at which all structures of a depth have the same parameters and arithmetic."""
    if found.empty:
        return found
    same = [WIDTHS[row.structure].get(row.depth) == row.width for row in found.itertuples()]
    chosen = found[np.array(same, dtype=bool)]
    return chosen[chosen["side"] == chosen["side"].max()].reset_index(drop=True)


def invocations(book: Measurements, **wanted: Any) -> pd.DataFrame:
    """The sweep's invocations, chosen by fields; without any, no rows that have its columns."""
    found = book.invocations(**SIZES | wanted)
    return found if len(found) else found.assign(structure="", width=0, depth=0, side=0, relu=True, jit="")


def against(book: Measurements, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """Ratio of the steps of two structures of the same parameters and arithmetic (Measurements.ratios)."""
    found = matched(invocations(book))
    ratios = book.ratios(found.assign(width=0), pairs, of="structure", against="depth")
    return ratios.sort_values(["above", "below", "stack", "depth"], ignore_index=True)


def growth(book: Measurements, found: pd.DataFrame) -> pd.DataFrame:
    """Exponent of a step in the depth, at the same parameters and arithmetic (Measurements.exponents)."""
    return book.exponents(matched(found), "depth")


def with_smaller(book: Measurements) -> pd.DataFrame:
    """The dense network of 11 maps over the one with shortcuts and 32: half of the parameters, as many bytes."""
    found = invocations(book, depth=MIDDLE)
    few, many = ((found["structure"] == name) & (found["width"] == width) for name, width in (FEW, MANY))
    return book.ratios(found[few | many].assign(width=0), [(FEW[0], MANY[0])], of="structure", against="depth")


def without_relu(book: Measurements) -> pd.DataFrame:
    """A step with a ReLU after each convolution over one without (Measurements.ratios; above is True)."""
    found = invocations(book, depth=MIDDLE, width=MANY[1], relu=[True, False])
    return book.ratios(found, [(True, False)], of="relu", against="depth")


def without_xla(book: Measurements) -> pd.DataFrame:
    """A step of TensorFlow compiled by XLA, which is its default, over one without (Measurements.ratios)."""
    found = matched(invocations(book, depth=MIDDLE, jit=["auto", "off"], stack="2026-tensorflow"))
    return book.ratios(found.assign(width=0), [("auto", "off")], of="jit", against="depth")


def predicted(book: Measurements, found: pd.DataFrame) -> pd.DataFrame:
    """How well each predictor foretells a network that its line has not seen: mean left-out error, a row a stack.

    Columns: stack, one for each of PREDICTORS, networks, repeat (error of measuring them again), all shares.
    """
    rows = []
    for stack, ran in found.dropna(subset="step_s").groupby("stack", sort=False):
        if len(ran) < 6:
            continue
        seconds = ran["step_s"].to_numpy(float)
        errors = {
            name: float(np.abs(formula.leave_one_out(line, ran, seconds)).mean()) for name, line in PREDICTORS.items()
        }
        numbers = ran["invocations"].to_numpy()
        repeat = formula.repeat_error(book.spread(str(stack), "step_s"), numbers)
        rows.append({"stack": stack} | errors | {"networks": len(ran), "repeat": repeat})
    return pd.DataFrame(rows, columns=["stack", *PREDICTORS, "networks", "repeat"])


def fewer_is_faster(found: pd.DataFrame) -> dict[str, float]:
    """Of all pairs of a stack's networks whose parameters differ: the share in which the smaller one is the faster."""
    shares = {}
    for stack, ran in found.dropna(subset="step_s").groupby("stack", sort=False):
        rows = ran[["parameters", "step_s"]].itertuples(index=False)
        apart = [(a, b) for a, b in combinations(rows, 2) if abs(np.log(a.parameters / b.parameters)) > SAME]
        if apart:
            agree = [(a.parameters < b.parameters) == (a.step_s < b.step_s) for a, b in apart]
            shares[str(stack)] = float(np.mean(agree))
    return shares


def rate(found: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Operations a second that the slowest and the fastest network of each stack reach: stack -> low, high."""
    ran = found.dropna(subset="step_s")
    reached = ran["flops"] / ran["step_s"]
    return {str(stack): (float(each.min()), float(each.max())) for stack, each in reached.groupby(ran["stack"])}


def ratio(row: pd.Series) -> Interval | None:
    """The row's ratio; None where its sides were not measured in the same rounds."""
    return None if row["reason"] == "not interleaved" else stored.interval(row)
