"""Chapter 12, parameters are not time: four structures of one size, and what predicts the time of a step."""

import functools
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import claims, original, page, predictions, stored
from traintime.book.claims import Finding, above, any_stack, below, every, every_stack, higher, judged_together
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements
from traintime.errors import InputError
from traintime.explain import formula
from traintime.explain.formula import Formula
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.workloads.base import FLOAT, Work

STACKS = ["2026-tensorflow", "2026-jax", "2026-torch"]
STRUCTURES = ["plain", "residual", "dense", "aggregated"]
PAIRS = [("dense", "residual"), ("dense", "aggregated"), ("residual", "plain")]  # to compare
SIZES: dict[str, Any] = {"workload": "blocks", "structure": ANY, "width": ANY, "depth": ANY}
DEPTHS = [4, 8, 16]
DEEP, MIDDLE = DEPTHS[-1], 8  # MIDDLE: the depth at which single things are changed
# Maps a convolution gives, so that all structures of a depth have the same parameters and the same arithmetic.
WIDTHS = {"plain": dict.fromkeys(DEPTHS, 32), "residual": dict.fromkeys(DEPTHS, 32)}
WIDTHS |= {"aggregated": dict.fromkeys(DEPTHS, 30), "dense": {4: 20, 8: 15, 16: 11}}
# Half of the parameters and the arithmetic, as many bytes.
FEW, MANY = {"structure": "dense", "width": 11}, {"structure": "residual", "width": 32}
SAME = 0.05  # sizes that differ by less are the same
PREDICTORS: dict[str, Formula] = {
    "parameters": formula.BY_PARAMETERS,
    "operations": formula.BY_OPERATIONS,
    "bytes of activations": formula.BY_BYTES,
    "operations and bytes": formula.BY_BOTH,
}
ALONE = list(PREDICTORS)[:3]
FEWEST = 6  # networks of a stack, for a line to be judged by those it leaves out


# The networks and their steps


def sizes(structure: str, depth: int) -> dict[str, Any]:
    """The fields of a network with as many parameters and operations as the others of its depth.

    Raises InputError for a structure or a depth whose width was not worked out.
    """
    if structure not in WIDTHS:
        raise InputError("structures", structure, "is not known", f"Choose from: {', '.join(WIDTHS)}.")
    if depth not in DEPTHS:
        raise InputError("depths", depth, "has no matched widths", f"Choose from: {', '.join(map(str, DEPTHS))}.")
    return {"structure": structure, "depth": depth, "width": WIDTHS[structure][depth]}


def step_work(structure: str, depth: int = DEEP) -> Work:
    """What a step of this network has to do: parameters, flops, activation_bytes."""
    return make_point("blocks", **sizes(structure, depth)).work


@functools.cache
def points(book: Measurements) -> pd.DataFrame:
    """Every network of the sweep with its ReLUs and its stack's usual compiler.

    Columns in addition to those of Measurements.points: `how`, its structure, and what a step of it has to do:
    parameters, flops, activation_bytes.
    """
    networks = _with_columns(book.points(**SIZES, side=ANY))
    names = ["structure", "side", "width", "depth", "outputs", "batch", "optimizer", "relu"]
    works = [make_point("blocks", **{name: row[name] for name in names}).work for _, row in networks.iterrows()]
    for column in ("parameters", "flops", "activation_bytes"):
        networks[column] = [float(getattr(each, column)) for each in works]
    return networks.assign(how=networks["structure"])


def _with_columns(networks: pd.DataFrame) -> pd.DataFrame:
    """The same; where nobody ran one, no rows that have the columns of a network."""
    return networks if len(networks) else networks.assign(structure="", width=0, depth=0, side=0, relu=True, jit="")


def measured() -> Measurements:
    """The machine that the page shows: the first that ran the sweep."""
    return stored.having(stored.of(), points)


claim = functools.partial(claims.claim, on=measured)


def matched(networks: pd.DataFrame) -> pd.DataFrame:
    """Those of the sizes at which all structures of a depth have the same parameters and arithmetic."""
    same = [WIDTHS[row.structure].get(row.depth) == row.width for row in networks.itertuples()]
    chosen = networks[np.array(same, dtype=bool)]
    return chosen[chosen["side"] == chosen["side"].max()].reset_index(drop=True)


def invocations(book: Measurements, **wanted: Any) -> pd.DataFrame:
    """The sweep's invocations, chosen by fields."""
    return _with_columns(book.invocations(**SIZES | wanted))


# Equal parameters, equal time?


@functools.cache
def ratios(book: Measurements) -> pd.DataFrame:
    """Ratio of the steps of two structures, PAIRS, of equal parameters and arithmetic (Measurements.ratios)."""
    table = book.ratios(matched(invocations(book)).assign(width=0), PAIRS, of="structure", against="depth")
    return table.sort_values(["above", "below", "stack", "depth"], ignore_index=True)


def structure_ratio(book: Measurements, above: str, below: str, depth: int = DEEP) -> dict[str, Interval]:
    """One structure's step over another's of as many parameters, by stack. Raises KeyError without one of STACKS."""
    return stored.ratio_by_stack(ratios(book), STACKS, above=above, below=below, depth=depth)


def depth_exponents(book: Measurements, structure: str) -> dict[str, Interval]:
    """Exponent of a step in the depth, at equal parameters and arithmetic, by stack."""
    table = stored.chosen(book.exponents(matched(points(book)), "depth"), how=structure)
    return {row["stack"]: stored.interval(row, "exponent") for _, row in table.iterrows()}


def with_smaller(book: Measurements) -> dict[str, Interval]:
    """The dense network of 11 maps over the one with shortcuts and 32: half of the parameters, as many bytes."""
    runs = invocations(book, depth=MIDDLE)
    runs = pd.concat([stored.chosen(runs, **FEW), stored.chosen(runs, **MANY)]).assign(width=0)
    return stored.ratio_by_stack(book.ratios(runs, PAIRS[:1], of="structure", against="depth"), STACKS)


@claim(
    "12.1",
    "At equal parameters and equal arithmetic the densely joined network of depth 16 takes longer than the one with "
    "shortcuts, on all three stacks.",
    source="S1",
)
def dense_is_slower(book: Measurements) -> Finding:
    return every_stack(structure_ratio(book, "dense", "residual"), above(1))


@claim(
    "12.2",
    "From depth 4 to 16, at equal parameters and arithmetic, the densely joined network's time grows by more than that "
    "of the one with shortcuts, on all three stacks.",
    source="S1",
    says="inconclusive",
)
def dense_grows_faster(book: Measurements) -> Finding:
    dense, residual = depth_exponents(book, "dense"), depth_exponents(book, "residual")
    figures = (f"{stack} {dense[stack].text()} against {residual[stack].text()}" for stack in STACKS)
    return Finding(every(*(higher(dense[stack], residual[stack]) for stack in STACKS)), "; ".join(figures))


def _values(depth: int, **fields: Any) -> int:
    """Values that a network's forward pass computes: its activations."""
    return make_point("blocks", depth=depth, **fields).work.activation_bytes // FLOAT


@claims.claim_without_machine(
    "12.11",
    "At a fixed number of maps the activations of the densely joined network grow with the square of the depth, those "
    "of the one with shortcuts along a line.",
    "S1",
    original.ARITHMETIC,
)
def dense_is_quadratic() -> Finding:
    dense, residual = ([_values(depth, **one) for depth in (4, 8, 12, 16, 20)] for one in (FEW, MANY))
    square = set(np.diff(dense, 2)) == {dense[2] - 2 * dense[1] + dense[0]} != {0}  # constant, and not that of a line
    figures = (
        f"{name} {values[3] / values[0]:.1f} times" for name, values in {"dense": dense, "residual": residual}.items()
    )
    return Finding(square and not np.diff(residual, 2).any(), f"from depth 4 to 16: {', '.join(figures)}")


@claims.claim_without_machine(
    "12.12",
    "With its ReLUs, and with its shortcuts, the network with shortcuts computes more values in a step.",
    "S1",
    original.ARITHMETIC,
)
def relus_and_shortcuts_compute() -> Finding:
    whole = _values(MIDDLE, **MANY)
    less = {"ReLUs": _values(MIDDLE, **MANY, relu=False), "shortcuts": _values(MIDDLE, **MANY | {"structure": "plain"})}
    texts = (f"without {name} {values / whole:.0%} of them" for name, values in less.items())
    return Finding(max(less.values()) < whole, ", ".join(texts))


@claim(
    "12.3",
    "At depth 16 the network that joins its maps once is faster than the densely joined one, on all three stacks.",
    source="S1",
    says="does not hold",
)
def joined_once_is_faster(book: Measurements) -> Finding:
    return every_stack(structure_ratio(book, "dense", "aggregated"), above(1))


@claim(
    "12.4",
    "With half of the parameters and of the arithmetic, and as many bytes of activations, the densely joined network "
    "takes longer than the one with shortcuts, on at least one stack.",
    source="S1",
)
def smaller_is_slower(book: Measurements) -> Finding:
    return any_stack(with_smaller(book), above(1))


# What predicts a step?


@functools.cache
def left_out(book: Measurements) -> pd.DataFrame:
    """The networks that ran, with a column "… error" for each of PREDICTORS: the relative error of a network's step,
    predicted by a line through the stack's other networks.
    """
    parts = [points(book)[:0]]
    for _, ran in points(book).dropna(subset="step_s").groupby("stack", sort=False):
        if len(ran) >= FEWEST:
            seconds = ran["step_s"].to_numpy(float)
            parts.append(
                ran.assign(
                    **{f"{n} error": formula.leave_one_out(line, ran, seconds) for n, line in PREDICTORS.items()}
                )
            )
    return pd.concat(parts[1:] or parts, ignore_index=True)


@functools.cache
def prediction_errors(book: Measurements) -> pd.DataFrame:
    """How well each predictor predicts a network that its line has not seen: mean left-out error, a row a stack.

    Index stack; columns one for each of PREDICTORS, networks, repeat (error of measuring them again), all shares.
    """
    rows = []
    for stack, ran in left_out(book).groupby("stack", sort=False):
        repeat = formula.repeat_error(book.spread(str(stack), "step_s"), ran["runs"].to_numpy())
        errors = {name: ran[f"{name} error"].abs().mean() for name in PREDICTORS}
        rows.append({"stack": stack} | errors | {"networks": len(ran), "repeat": repeat})
    return pd.DataFrame(rows, columns=["stack", *PREDICTORS, "networks", "repeat"]).set_index("stack")


@claim(
    "12.5",
    "Of three predictors of a step, bytes of activations have the smallest error and parameters the largest, at least "
    "twice as large, on all three stacks.",
    source="S1",
)
def bytes_predict_best(book: Measurements) -> Finding:
    table = prediction_errors(book).loc[STACKS, ALONE]
    least, most = table.min(axis=1), table.max(axis=1)
    holds = (table[ALONE[2]] == least) & (table[ALONE[0]] == most) & (most >= 2 * least)
    figures = (f"{stack} {', '.join(f'{name} {row[name]:.0%}' for name in ALONE)}" for stack, row in table.iterrows())
    return Finding(bool(holds.all()), "; ".join(figures))


# One change at a time


def without_relu(book: Measurements) -> pd.DataFrame:
    """A step with a ReLU after each convolution over one without (Measurements.ratios; above is True)."""
    runs = invocations(book, depth=MIDDLE, width=MANY["width"], relu=[True, False])
    return book.ratios(runs, [(True, False)], of="relu", against="depth")


def without_xla(book: Measurements) -> pd.DataFrame:
    """A step of TensorFlow compiled by XLA, which is its default, over one without (Measurements.ratios)."""
    runs = matched(invocations(book, depth=MIDDLE, jit=["auto", "off"], stack=STACKS[0]))
    return book.ratios(runs.assign(width=0), [("auto", "off")], of="jit", against="depth")


def relu_ratios(book: Measurements) -> dict[str, Interval]:
    """The network with shortcuts with its ReLUs over the same without, by stack."""
    return stored.ratio_by_stack(without_relu(book), STACKS, structure="residual")


def xla_ratio(book: Measurements, structure: str) -> Interval:
    """TensorFlow's step of a structure with XLA over the one without."""
    return stored.ratio_by_stack(without_xla(book), STACKS[:1], structure=structure)[STACKS[0]]


@claim(
    "12.6",
    "Without its ReLUs the network with shortcuts takes less than 10 % less time, on all three stacks.",
    source="S1",
    says="inconclusive",
)
def relus_are_cheap(book: Measurements) -> Finding:
    return every_stack(relu_ratios(book), below(1 / 0.9))


@claim(
    "12.7",
    "Without its shortcuts it takes less than 10 % less time, on all three stacks.",
    source="S1",
    says="inconclusive",
)
def shortcuts_are_cheap(book: Measurements) -> Finding:
    return every_stack(structure_ratio(book, "residual", "plain", MIDDLE), below(1 / 0.9))


@claim(
    "12.8",
    "Without XLA a step on TensorFlow is faster than with it, in all four structures.",
    says="inconclusive",
)
def xla_is_slower(book: Measurements) -> Finding:
    return judged_together(*(every_stack({name: xla_ratio(book, name)}, above(1)) for name in STRUCTURES))


# Fewer parameters, less time?


def fewer_is_faster(book: Measurements, count: str = "parameters") -> dict[str, float]:
    """Of all pairs of a stack's networks whose parameters differ: the share in which the one with less of a count
    (a column of `points`) is the faster.
    """
    shares = {}
    for stack, ran in points(book).dropna(subset="step_s").groupby("stack", sort=False):
        rows = zip(ran["parameters"], ran[count], ran["step_s"], strict=True)
        apart = [(a, b) for a, b in combinations(rows, 2) if abs(np.log(a[0] / b[0])) > SAME]
        if apart:
            shares[str(stack)] = float(np.mean([(a[1] < b[1]) == (a[2] < b[2]) for a, b in apart]))
    return shares


@claim(
    "12.9",
    "Of two networks the one with fewer parameters is the faster one in more than nine of ten pairs, on all three "
    "stacks.",
    source="S1",
    says="does not hold",
)
def fewer_are_faster(book: Measurements) -> Finding:
    shares = {stack: fewer_is_faster(book)[stack] for stack in STACKS}
    figure = "; ".join(f"{stack} {share:.0%} of pairs" for stack, share in shares.items())
    return Finding(min(shares.values()) > 0.9, figure)


@claim(
    "12.10",
    "Of two networks the one with fewer parameters is usually the faster one: in more than half of the pairs, on all "
    "three stacks.",
    source="S1",
)
def fewer_are_usually_faster(book: Measurements) -> Finding:
    return Finding(min(fewer_is_faster(book)[stack] for stack in STACKS) > 0.5, fewer_are_faster(book).figure)


# What the page shows


def work_table(depth: int = MIDDLE) -> HTML:
    """What a step of each structure has to do at this depth."""
    return page.columns(
        pd.DataFrame([sizes(name, depth) | vars(step_work(name, depth)) for name in STRUCTURES]),
        structure="",
        width="maps",
        parameters=("parameters", 1, ","),
        flops=("operations (10⁹)", 1e-9, ".1f"),
        activation_bytes=("activations (MB)", 1e-6, ".0f"),
    )


def comparison_table(book: Measurements) -> HTML:
    """Ratios of steps on every machine that ran the sweep, a column each: at equal parameters and operations, and at
    half of both.
    """
    if points(book).empty:
        return page.nothing()
    machines = [each for each in map(stored.of, stored.named()) if len(points(each))]
    compared: dict[str, Callable[[Measurements], dict[str, Interval]]] = {
        f"dense / residual, depth {DEEP}": lambda each: structure_ratio(each, "dense", "residual"),
        f"dense / joined once, depth {DEEP}": lambda each: structure_ratio(each, "dense", "aggregated"),
        f"small dense / residual, depth {MIDDLE}": with_smaller,
    }
    rows = []
    for name, ratios_of in compared.items():
        found = [stored.or_none(functools.partial(ratios_of, each)) or {} for each in machines]
        for stack in STACKS:
            rows.append([name, stack, *(each[stack].text() if stack in each else "" for each in found)])
    return page.table(["steps", "stack", *(each.title for each in machines)], rows)


def predicted_table(book: Measurements) -> HTML:
    """`prediction_errors` as a reader sees them."""
    errors = {name: (name, 1, ".0%") for name in PREDICTORS}
    return page.columns(
        prediction_errors(book).reset_index(), stack="mean error", **errors, repeat=("a repeat", 1, ".0%")
    )


def changed_table(book: Measurements) -> HTML:
    """What one change at a time takes off a step: ReLUs, shortcuts, XLA; folded."""
    bare = stored.chosen(ratios(book), above="residual", below="plain", depth=MIDDLE).assign(structure="residual")
    changes = {"without ReLUs": without_relu(book), "without shortcuts": bare, "without XLA": without_xla(book)}
    return page.columns(
        pd.concat([table.assign(change=change) for change, table in changes.items() if len(table)] or [bare]),
        fold="Each change, with its interval",
        change="",
        stack="stack",
        structure="network",
        ratio=("with / without", page.span),
    )


def here_table(book: Measurements) -> HTML:
    """The networks of a run: what they have to do, and what a step takes."""
    return page.columns(
        points(book).sort_values(["stack", "depth", "structure"]),
        stack="stack",
        network=("network, depth", lambda row: f"{row['structure']}, {row['depth']}"),
        parameters=("parameters", 1, ",.0f"),
        activation_bytes=("activations (MB)", 1e-6, ".0f"),
        step_s=("step here (ms)", lambda row: f"{row['step_s'] * 1e3:,.1f}" if row["step_s"] > 0 else row["status"]),
    )


def _by_stack(name: str, values: Callable[[Measurements], Mapping[str, Any]]) -> dict[str, Any]:
    """Numbers of the prose, one a stack: an Interval with its ends, a share in percent."""

    def text(stack: str, book: Measurements) -> str:
        value = values(book)[stack]
        return value.text() if isinstance(value, Interval) else f"{value:.0%}"

    return {f"{name}_{stack[5:]}": functools.partial(text, stack) for stack in STACKS}


def _ends(values: Mapping[str, Any], spec: str = ".1f", scale: float = 1.0) -> str:
    """The smallest and the largest of the stacks' values: "1.7 to 2.0"."""
    found = [scale * (one.value if isinstance(one, Interval) else one) for one in (values[stack] for stack in STACKS)]
    return f"{min(found):{spec}} to {max(found):{spec}}"


def _errors(name: str) -> Callable[[Measurements], str]:
    return lambda book: _ends(prediction_errors(book)[name].to_dict(), ".0f", 100) + "%"


def second(book: Measurements) -> Measurements:
    """The first other machine that ran the sweep. Raises KeyError where there is none."""
    others = (stored.of(name) for name in stored.named() if name != book.machine)
    return stored.measured([other for other in others if len(points(other))])[0]


def _bytes(structure: str, depth: int, width: int) -> int:
    return make_point("blocks", structure=structure, depth=depth, width=width).work.activation_bytes


def _growth(structure: str) -> float:
    """Bytes of activations at the largest depth over those at the smallest, at the widths of equal parameters."""
    small, large = (_bytes(structure, depth, WIDTHS[structure][depth]) for depth in (DEPTHS[0], DEEP))
    return large / small


PROSE = Prose(
    "str",
    there=lambda book: page.title(book, points(book)),
    second=lambda book: second(book).title,
    networks=lambda book: f"{prediction_errors(book)['networks'].max()}",
    dense=lambda book: _ends(structure_ratio(book, "dense", "residual")),
    dense_second=lambda book: _ends(structure_ratio(second(book), "dense", "residual")),
    smaller=lambda book: _ends(with_smaller(book), ".2f"),
    parameters=_errors("parameters"),
    bytes=_errors("bytes of activations"),
    repeat=_errors("repeat"),
    pairs=lambda book: _ends(fewer_is_faster(book), ".0f", 100) + "%",
    pairs_bytes=lambda book: _ends(fewer_is_faster(book, "activation_bytes"), ".0f", 100) + "%",
    pairs_operations=lambda book: _ends(fewer_is_faster(book, "flops"), ".0f", 100) + "%",
    **_by_stack("operations", lambda book: prediction_errors(book)["operations"]),
    **_by_stack("bytes", lambda book: prediction_errors(book)["bytes of activations"]),
    **_by_stack("once", lambda book: structure_ratio(book, "dense", "aggregated")),
    once_second=lambda book: _ends(structure_ratio(second(book), "dense", "aggregated")),
    grows_dense=lambda book: _ends(depth_exponents(book, "dense"), ".2f"),
    grows_residual=lambda book: _ends(depth_exponents(book, "residual"), ".2f"),
    wider=lambda _: f"{_bytes('dense', DEEP, FEW['width']) / _bytes('dense', DEPTHS[0], FEW['width']):.1f}",
    matched_dense=lambda _: f"{_growth('dense'):.1f}",
    matched_residual=lambda _: f"{_growth('residual'):.1f}",
    dense_mb=lambda _: f"{step_work('dense').activation_bytes / 1e6:.0f} MB",
    residual_mb=lambda _: f"{step_work('residual').activation_bytes / 1e6:.0f} MB",
    thin=lambda _: str(sizes("dense", DEEP)["width"]),
    wide=lambda _: str(sizes("residual", DEEP)["width"]),
    few=lambda _: f"{make_point('blocks', depth=MIDDLE, **FEW).work.parameters:,}",
    many=lambda _: f"{make_point('blocks', depth=MIDDLE, **MANY).work.parameters:,}",
    predicted_bytes=lambda _: predictions.told("12", "5"),
    predicted_once=lambda _: predictions.told("12", "3"),
    predicted_relu=lambda _: predictions.told("12", "6"),
)
