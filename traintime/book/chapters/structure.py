"""Chapter 12, parameters are not time: four structures of one size, what predicts a step, deep against wide."""

import functools
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import claims, original, page, stored
from traintime.book.claims import Finding, every, higher
from traintime.book.stored import ANY, Measurements
from traintime.book.values import Values, exact, quantity
from traintime.errors import InputError
from traintime.explain import formula, statistics
from traintime.explain.formula import Formula
from traintime.point import make_point
from traintime.workloads.base import Work

STACKS = list(stored.TODAY)
STRUCTURES = ["plain", "residual", "dense", "aggregated"]
PAIRS = [("dense", "residual"), ("dense", "aggregated"), ("residual", "plain")]  # to compare
DEPTHS = [4, 8, 16]
# The networks of the four structures, by their sizes: other networks of the machine are none of these.
SIZES: dict[str, Any] = {"workload": "blocks", "structure": ANY, "width": [8, 11, 15, 16, 20, 30, 32], "depth": DEPTHS}
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
}
ALONE = list(PREDICTORS)
FEWEST = 6  # networks of a stack, for a line to be judged by those it leaves out
# From shallow and wide to deep and narrow, at the same parameters; the operations of the dense layers differ by 15 %.
CONVOLUTIONS, DENSE_LAYERS = "{depth} convolutions of {width} maps", "{layers} dense layers of {hidden:,} units"
PLAIN: dict[str, Any] = {"workload": "blocks", "structure": "plain"}
SHAPES: dict[str, list[dict[str, Any]]] = {
    CONVOLUTIONS: [PLAIN | {"depth": depth, "width": width} for depth, width in ((2, 90), (4, 64), (16, 32), (64, 16))],
    DENSE_LAYERS: [{"workload": "dense", "layers": n, "hidden": wide} for n, wide in ((2, 1024), (8, 478), (32, 243))],
}
shapes_machine = functools.partial(stored.of, "amd-epyc-family25-model17-2-cores-24-gib")  # that trained them
claim = functools.partial(claims.of_chapter("12"), source="S1")


# The networks, what a step of them has to do, and what it takes


def sizes(structure: str, depth: int) -> dict[str, Any]:
    """The fields of a network with as many parameters and operations as the others of its depth.

    Raises InputError for a structure or a depth whose width was not worked out.
    """
    if structure not in WIDTHS:
        raise InputError("structures", structure, "is not known", f"Choose from: {', '.join(WIDTHS)}.")
    if depth not in DEPTHS:
        raise InputError("depths", depth, "has no matched widths", f"Choose from: {', '.join(map(str, DEPTHS))}.")
    return {"structure": structure, "depth": depth, "width": WIDTHS[structure][depth]}


def work(**fields: Any) -> Work:
    """What a step of a network with these fields has to do: parameters, flops, activation_bytes."""
    return make_point("blocks", **fields).work


@functools.cache
def points(book: Measurements) -> pd.DataFrame:
    """Every network of the four structures with its ReLUs and its stack's usual compiler.

    Columns in addition to those of Measurements.points: `how`, its structure, and what a step of it has to do:
    parameters, flops, activation_bytes.
    """
    networks = _with_columns(book.points(**SIZES, side=ANY))
    names = ["structure", "side", "width", "depth", "outputs", "batch", "optimizer", "relu"]
    works = [work(**{name: row[name] for name in names}) for _, row in networks.iterrows()]
    for column in ("parameters", "flops", "activation_bytes"):
        networks[column] = [float(getattr(each, column)) for each in works]
    return networks.assign(how=networks["structure"])


def _with_columns(networks: pd.DataFrame) -> pd.DataFrame:
    """The same; where nobody ran one, no rows that have the columns of a network."""
    return networks if len(networks) else networks.assign(structure="", width=0, depth=0, side=0, relu=True)


def machines() -> Iterator[Measurements]:
    """The machines that compared the structures, in the book's order."""
    return (book for book in map(stored.of, stored.named()) if structure_ratio(book, "dense", "residual"))


def measured() -> Measurements:
    """The machine that the page shows: the first that compared the structures."""
    return next(machines(), stored.of())


def matched(networks: pd.DataFrame) -> pd.DataFrame:
    """Those of the sizes at which all structures of a depth have the same parameters and arithmetic."""
    same = [WIDTHS[row.structure].get(row.depth) == row.width for row in networks.itertuples()]
    chosen = networks[np.array(same, dtype=bool)]
    return chosen[chosen["side"] == chosen["side"].max()].reset_index(drop=True)


def invocations(book: Measurements, **wanted: Any) -> pd.DataFrame:
    """Invocations of those networks, chosen by fields."""
    return _with_columns(book.invocations(**SIZES | wanted))


# Equal parameters, equal time?


@functools.cache
def ratios(book: Measurements) -> pd.DataFrame:
    """Ratio of the steps of two structures, PAIRS, of equal parameters and arithmetic (Measurements.ratios)."""
    return book.ratios(matched(invocations(book)).assign(width=0), PAIRS, of="structure", against="depth")


@quantity
def structure_ratio(book: Measurements, above: str, below: str, depth: int = DEEP) -> Values:
    """One structure's step over another's of as many parameters, by stack."""
    return Values(stored.ratio_by_stack(ratios(book), STACKS, above=above, below=below, depth=depth))


@quantity
def depth_exponents(book: Measurements, structure: str) -> Values:
    """Exponent of a step in the depth, at equal parameters and arithmetic, by stack."""
    table = stored.chosen(book.exponents(matched(points(book)), "depth"), how=structure)
    return Values({stack: stored.interval(stored.row(table, stack=stack), "exponent") for stack in STACKS})


@quantity
def with_smaller(book: Measurements) -> Values:
    """The dense network of 11 maps over the one with shortcuts and 32: half of the parameters, as many bytes."""
    runs = invocations(book, depth=MIDDLE)
    runs = pd.concat([stored.chosen(runs, **FEW), stored.chosen(runs, **MANY)]).assign(width=0)
    return Values(stored.ratio_by_stack(book.ratios(runs, PAIRS[:1], of="structure", against="depth"), STACKS))


def dense_grows_more(book: Measurements) -> Finding:
    """Whether each stack's exponent of the dense network lies above that of the one with shortcuts."""
    dense, residual = depth_exponents(book, "dense"), depth_exponents(book, "residual")
    figures = (f"{stack} {dense[stack]} against {residual[stack]}" for stack in STACKS)
    return Finding(every(*(higher(dense[stack], residual[stack]) for stack in STACKS)), "; ".join(figures))


def dense_is_quadratic(_: Measurements) -> Finding:
    """By counting: second differences over the depth that are constant, and not those of a line."""
    depths = (4, 8, 12, 16, 20)
    dense, residual = ([work(depth=depth, **one).activation_bytes for depth in depths] for one in (FEW, MANY))
    square = set(np.diff(dense, 2)) == {dense[2] - 2 * dense[1] + dense[0]} != {0}
    figures = f"dense {dense[3] / dense[0]:.1f} times, residual {residual[3] / residual[0]:.1f} times"
    return Finding(square and not np.diff(residual, 2).any(), f"from depth 4 to 16: {figures}")


def relus_and_shortcuts_compute(_: Measurements) -> Finding:
    """By counting: what is left of the values without either."""
    without = {"ReLUs": MANY | {"relu": False}, "shortcuts": MANY | {"structure": "plain"}}
    whole = work(depth=MIDDLE, **MANY).activation_bytes
    left = {name: work(depth=MIDDLE, **fields).activation_bytes / whole for name, fields in without.items()}
    return Finding(max(left.values()) < 1, ", ".join(f"without {name} {of:.0%} of them" for name, of in left.items()))


claim(
    1,
    "At equal parameters and equal arithmetic the densely joined network of depth 16 takes longer than the one with "
    "shortcuts, on all three stacks.",
    lambda book: structure_ratio(book, "dense", "residual") > 1,
    on=measured,
)
claim(
    2,
    "From depth 4 to 16, at equal parameters and arithmetic, the densely joined network's time grows by more than that "
    "of the one with shortcuts, on all three stacks.",
    dense_grows_more,
    says="inconclusive",
    on=measured,
)
claim(
    3,
    "At depth 16 the network that joins its maps once is faster than the densely joined one, on all three stacks.",
    lambda book: structure_ratio(book, "dense", "aggregated") > 1,
    says="does not hold",
    on=measured,
)
claim(
    4,
    "With half of the parameters and of the arithmetic, and as many bytes of activations, the densely joined network "
    "takes longer than the one with shortcuts, on at least one stack.",
    lambda book: with_smaller(book).some > 1,
    on=measured,
)
claim(
    11,
    "At a fixed number of maps the activations of the densely joined network grow along a parabola in the depth, those "
    "of the one with shortcuts along a line.",
    dense_is_quadratic,
    without=original.ARITHMETIC,
)
claim(
    12,
    "With its ReLUs, and with its shortcuts, the network with shortcuts computes more values in a step.",
    relus_and_shortcuts_compute,
    without=original.ARITHMETIC,
)


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
            errors = {f"{n} error": formula.leave_one_out(line, ran, seconds) for n, line in PREDICTORS.items()}
            parts.append(ran.assign(**errors))
    return pd.concat(parts[1:] or parts, ignore_index=True)


@functools.cache
def prediction_errors(book: Measurements) -> pd.DataFrame:
    """How well each predictor predicts a network that its line has not seen: mean left-out error, a row a stack.

    Index stack; columns one for each of PREDICTORS, networks, repeat (error of measuring them again), all shares.
    """
    rows = []
    for stack, ran in left_out(book).groupby("stack", sort=False):
        repeat = formula.repeat_error(book.spread(str(stack)), ran["runs"].to_numpy())
        errors = {name: ran[f"{name} error"].abs().mean() for name in PREDICTORS}
        rows.append({"stack": stack} | errors | {"networks": len(ran), "repeat": repeat})
    return pd.DataFrame(rows, columns=["stack", *PREDICTORS, "networks", "repeat"]).set_index("stack")


@quantity
def mean_errors(book: Measurements, name: str) -> Values:
    """One column of `prediction_errors`, in percent."""
    return exact(prediction_errors(book).loc[STACKS, name].to_dict(), ".0f", 100)


@quantity
def fewer_is_faster(book: Measurements, count: str = "parameters") -> Values:
    """Of all pairs of a stack's networks whose parameters differ: the share in which the one with less of a count
    (a column of `points`) is the faster, by stack.
    """
    shares = {}
    for stack, ran in points(book).dropna(subset="step_s").groupby("stack", sort=False):
        rows = zip(ran["parameters"], ran[count], ran["step_s"], strict=True)
        apart = [(a, b) for a, b in combinations(rows, 2) if abs(np.log(a[0] / b[0])) > SAME]
        if apart:
            shares[str(stack)] = float(np.mean([(a[1] < b[1]) == (a[2] < b[2]) for a, b in apart]))
    return exact(shares, ".0%", unit="of pairs").only(*STACKS)


def misranked(book: Measurements, count: str = "parameters") -> Values:
    """Of the same pairs, the share in which the one with less of a count is the slower, in percent, by stack."""
    return exact({name: 1 - share.value for name, share in fewer_is_faster(book, count).items()}, ".0f", 100)


@quantity
def error_ratio(book: Measurements, above: str, below: str) -> Values:
    """One predictor's mean error over another's, by stack; the interval is of networks drawn again (bootstrap)."""
    ratios, random = {}, np.random.default_rng(0)
    for stack, ran in left_out(book).groupby("stack", sort=False):
        errors = ran[[f"{above} error", f"{below} error"]].abs().to_numpy()
        over, under = errors[random.integers(len(errors), size=(statistics.DRAWS, len(errors)))].mean(axis=1).T
        ratios[str(stack)] = statistics.central(over / under, float(np.divide(*errors.mean(axis=0))))
    return Values(ratios).only(*STACKS)


claim(
    5,
    "Of three predictors of a step, bytes of activations have the smallest error and parameters the largest, at least "
    "twice as large, on all three stacks.",
    lambda book: (error_ratio(book, *ALONE[1:]) > 1) & (error_ratio(book, ALONE[0], ALONE[2]) > 2),
    says="inconclusive",
    on=measured,
)
claim(
    15,
    "Parameters predict a step with a larger error than operations do, and than bytes of activations do, on all three "
    "stacks.",
    lambda book: (error_ratio(book, *ALONE[:2]) > 1) & (error_ratio(book, ALONE[0], ALONE[2]) > 1),
    on=measured,
)
claim(
    9,
    "Of two networks the one with fewer parameters is the faster one in more than nine of ten pairs, on all three "
    "stacks.",
    lambda book: fewer_is_faster(book) > 0.9,
    says="does not hold",
    on=measured,
)
claim(
    10,
    "Of two networks the one with fewer parameters is usually the faster one: in more than half of the pairs, on all "
    "three stacks.",
    lambda book: fewer_is_faster(book) > 0.5,
    on=measured,
)


# One change at a time; deep and narrow, or shallow and wide


def without_relu(book: Measurements) -> pd.DataFrame:
    """A step with a ReLU after each convolution over one without (Measurements.ratios; above is True)."""
    runs = invocations(book, depth=MIDDLE, width=MANY["width"], relu=[True, False])
    return book.ratios(runs, [(True, False)], of="relu", against="depth")


claim(
    6,
    "Without its ReLUs the network with shortcuts takes less than 10 % less time, on all three stacks.",
    lambda book: Values(stored.ratio_by_stack(without_relu(book), STACKS, structure="residual")) < 1 / 0.9,
    says="inconclusive",
    on=measured,
)
claim(
    7,
    "Without its shortcuts it takes less than 10 % less time, on all three stacks.",
    lambda book: structure_ratio(book, "residual", "plain", MIDDLE) < 1 / 0.9,
    says="inconclusive",
    on=measured,
)


@quantity
def deeper(book: Measurements, kind: str, shallow: int = 0, deep: int = -1) -> Values:
    """A deep and narrow network's step over a shallow and wide one's, by stack. shallow, deep: places in SHAPES."""
    pair = [SHAPES[kind][shallow], SHAPES[kind][deep]]
    return Values({stack: book.sides(*pair, stack=stack).interval(lambda s: s[1] / s[0]) for stack in STACKS})


claim(
    13,
    "64 convolutions of 16 maps take at least twice as long as 4 of 64 maps on all three stacks.",
    lambda book: deeper(book, CONVOLUTIONS, shallow=1) > 2,
    source="ours",
    says="does not hold",
    on=shapes_machine,
)
claim(
    14,
    "32 layers of 243 units take at least 1.2 times as long as 2 of 1,024 on all three stacks.",
    lambda book: deeper(book, DENSE_LAYERS) > 1.2,
    source="ours",
    says="inconclusive",
    on=shapes_machine,
)


# What the page shows


def work_table() -> HTML:
    """What a step of each structure has to do at the MIDDLE depth."""
    networks = [sizes(name, MIDDLE) for name in STRUCTURES]
    return page.columns(
        pd.DataFrame([fields | vars(work(**fields)) for fields in networks]),
        structure="",
        width="maps",
        parameters=("parameters", 1, ","),
        flops=("operations (10⁹)", 1e-9, ".1f"),
        activation_bytes=("activations (MB)", 1e-6, ".0f"),
    )


def comparison_table() -> HTML:
    """Ratios of steps on every machine that compared them: at equal parameters and operations, and at half of both."""
    compared = {f"{a} / {b}, depth {DEEP}": functools.partial(structure_ratio, above=a, below=b) for a, b in PAIRS[:2]}
    compared[f"small dense / residual, depth {MIDDLE}"] = with_smaller
    rows = [[f"{name}, {book.title}", *_cells(of(book))] for name, of in compared.items() for book in machines()]
    return page.table(["steps", *stored.TODAY.values()], rows) if rows else page.nothing()


def _cells(found: Values) -> list[str]:
    """A cell for each stack: its value with the interval, or that nobody measured it."""
    return [str(found[stack]) if stack in found else "not measured yet" for stack in STACKS]


def predicted_table(book: Measurements) -> HTML:
    """`prediction_errors` as a reader sees them."""
    errors = {name: (name, 1, ".0%") for name in PREDICTORS}
    return page.columns(
        prediction_errors(book).reset_index(), stack="mean error", **errors, repeat=("a repeat", 1, ".0%")
    )


def shapes_table(book: Measurements) -> HTML:
    """A step of each shape over that of the shallowest of its kind, by stack, next to what a step has to do; folded."""
    rows, found = [], deeper(book, CONVOLUTIONS) or deeper(book, DENSE_LAYERS)
    for kind, shapes in SHAPES.items():
        for place, fields in enumerate(shapes):
            of = make_point(**fields).work
            cells = _cells(deeper(book, kind, 0, place)) if place else ["1"] * len(STACKS)
            rows.append([kind.format(**fields), f"{of.flops / 1e9:.1f}", f"{of.activation_bytes / 1e6:.0f}", *cells])
    heads = ["step / the shallowest", "operations (10⁹)", "activations (MB)", *stored.TODAY.values()]
    return page.table(heads, rows, fold="Every shape: its work and its step") if found else page.nothing()
