"""Chapter 14, one formula: the fits of every stack, their prices beside the floors, the bend, and what it claims."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from traintime.book import bench_formula, external, original, stored
from traintime.book.bench_formula import by_stack, enough
from traintime.book.stored import Measurements
from traintime.explain import formula
from traintime.explain.formula import Fit, Formula
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.workloads.base import UPDATE_BYTES

DOCUMENT = {"vocabulary": 280_000, "batch": 100, "length": 25}
AT = 200_000  # rows at which every stack was measured under both allocators
DRAWS = 300  # behind the intervals of claims
BENT = ["2020-tensorflow", "2026-torch", "numpy"]  # stacks that ask the system for blocks of the table's size
OWN_ALLOCATOR = "2017-tensorflow"  # TensorFlow 1.1 brings one along
MNIST = 60_000  # images of the training set; S3 does not say how many of them it used
Array = formula.Array


# The floors


def row_bytes() -> int:
    """Bytes that Adam must move for a row of the table."""
    return UPDATE_BYTES["adam"] * make_point().sizes.embedding


def token_flops() -> float:
    """Operations of the LSTM's matrix products for a token, forwards and backwards."""
    point = make_point()
    return point.work.flops / (point.sizes.batch * point.sizes.length)


def floors(book: Measurements) -> dict[str, float]:
    """The least seconds that a row (b) and a token (c) can cost. Raises KeyError where no rates were measured."""
    return {
        "b": row_bytes() / book.rates["bandwidth_bytes_per_s"],
        "c": token_flops() / book.rates["matmul_flop_per_s"],
    }


# The fits


@dataclass(frozen=True)
class Fitted:
    """A stack's points with the formula fitted to them.

    left_out: relative error of each point for a fit to all the others; repeat: error of measuring the points again.
    """

    rows: pd.DataFrame
    fit: Fit
    left_out: Array
    repeat: float

    @property
    def mean_left_out(self) -> float:
        """Mean absolute relative error for a point that the fit has not seen."""
        return float(np.abs(self.left_out).mean())


def usual(book: Measurements) -> dict[str, pd.DataFrame]:
    """Under the usual allocator: the points of each stack that has enough of them for the formula's terms."""
    found = by_stack(bench_formula.points(book))
    return {stack: rows for stack, rows in found.items() if enough(rows, formula.shape(rows))}


def fitted(book: Measurements, rows: pd.DataFrame, shape: Formula, draws: int = DRAWS) -> Fitted:
    """The formula fitted to points of one stack; its draws repeat the measurements (formula.repeated)."""
    seconds, stack = rows["step_s"].to_numpy(), rows["stack"].iloc[0]
    numbers = np.array([len(values) for values in book.values(rows)])
    redraw = formula.repeated(seconds, numbers, book.spread(stack, "step_s"))
    repeat, _ = bench_formula.repeat_error(book, rows)
    fit = formula.fit(shape, rows, seconds, redraw, draws)
    return Fitted(rows, fit, formula.leave_one_out(shape, rows, seconds), repeat)


@functools.cache
def straight(book: Measurements, draws: int = DRAWS) -> dict[str, Fitted]:
    """The formula on every stack of a machine that has enough points."""
    return {stack: fitted(book, rows, formula.shape(rows), draws) for stack, rows in usual(book).items()}


@functools.cache
def bent(book: Measurements, draws: int = DRAWS) -> dict[str, Fitted]:
    """The same with a price of its own for rows beyond glibc's mapping threshold."""
    found = straight(book, draws)
    return {stack: fitted(book, one.rows, with_bend(one), draws) for stack, one in found.items()}


def with_bend(one: Fitted) -> Formula:
    """The stack's formula with a second price for rows beyond glibc's mapping threshold."""
    return formula.bent(one.fit.formula, bench_formula.mapped_rows(one.rows))


def per_token(fit: Fit) -> float:
    """What part of the price c is a token's: without lengths it is a sentence's."""
    return 1.0 if "l" in fit.coefficients else 1 / DOCUMENT["length"]


def prices(ours: Mapping[str, Fitted], floor: Mapping[str, float]) -> pd.DataFrame:
    """Each stack's prices in units of their floors (b, c; c missing without batches), and the errors of its fit."""
    rows = {}
    for stack, one in ours.items():
        token = one.fit.coefficients.get("c", np.nan) * per_token(one.fit)
        rows[stack] = {
            "b": one.fit.coefficients["b"] / floor["b"],
            "c": token / floor["c"],
            "error": one.fit.mean_error,
            "left_out": one.mean_left_out,
            "repeat": one.repeat,
        }
    return pd.DataFrame(rows).T


def predicted(ours: Mapping[str, Fitted]) -> pd.DataFrame:
    """Every point with what the formula says of it (s), its error, and whether that lies outside the 95 % interval."""
    columns = ["stack", *DOCUMENT, "step_s", "low_s", "high_s"]
    found = pd.concat(
        [one.rows[columns].assign(predicted_s=one.fit.predict(one.rows)) for one in ours.values()], ignore_index=True
    )
    outside = (found["predicted_s"] < found["low_s"]) | (found["predicted_s"] > found["high_s"])
    return found.assign(error=found["predicted_s"] / found["step_s"] - 1, outside=outside)


def shares(ours: Mapping[str, Fitted]) -> pd.DataFrame:
    """Seconds that each term contributes at the document's point, a row a stack."""
    at = pd.DataFrame({name: [value] for name, value in DOCUMENT.items()})
    return pd.DataFrame({stack: one.fit.parts(at).iloc[0] for stack, one in ours.items()}).T.fillna(0)


def by_size(gap: pd.DataFrame) -> dict[str, pd.Series]:
    """Median error over the stacks against each size, while the other two have the document's value."""
    medians = {}
    for size in DOCUMENT:
        others = pd.Series(DOCUMENT).drop(size)
        medians[size] = gap[gap[list(others.index)].eq(others).all(axis=1)].groupby(size)["error"].median()
    return medians


def gained(ours: Mapping[str, Fitted], bends: Mapping[str, Fitted]) -> pd.DataFrame:
    """Mean error for points left out, straight and bent, a row a stack."""
    rows = {stack: {"straight": ours[stack].mean_left_out, "bent": one.mean_left_out} for stack, one in bends.items()}
    return pd.DataFrame(rows).T


def kept(book: Measurements, bends: Mapping[str, Fitted]) -> pd.DataFrame:
    """Points under tcmalloc beyond the bend, with the errors of the formula that was fitted under glibc.

    Columns stack, sizes, step_s; with m, without m (relative errors).
    """
    found = bench_formula.points(book, "tcmalloc")
    found = found[found["stack"].isin(list(bends))]
    found = found[found["vocabulary"] > [bench_formula.mapped_rows(bends[s].rows) for s in found["stack"]]]
    promised = [_promised(bends[row["stack"]], row.to_frame().T)[0] for _, row in found.iterrows()]
    with_m, without_m = np.array(promised).T if promised else np.empty((2, 0))
    found = found.assign(**{"with m": with_m / found["step_s"] - 1, "without m": without_m / found["step_s"] - 1})
    return found.sort_values(["stack", "vocabulary"], kind="stable").reset_index(drop=True)


def _promised(one: Fitted, rows: pd.DataFrame) -> Array:
    """Seconds a step with and without m, shape (rows, 2)."""
    parts = one.fit.parts(rows)
    return np.column_stack([parts.sum(axis=1), parts.drop(columns="m").sum(axis=1)])


@dataclass(frozen=True)
class Drawn:
    """Draws of what the bent formula promises under tcmalloc, and of what is measured there.

    Shape (draws, points), in seconds: with m, without m, without the rows (rest), and measured.
    """

    with_m: Array
    without_m: Array
    rest: Array
    measured: Array


def _drawn(book: Measurements, one: Fitted, rows: pd.DataFrame) -> Drawn:
    design, draws = one.fit.formula.design(rows), one.fit.draws.to_numpy()
    names = list(one.fit.formula.terms)
    seconds = rows["step_s"].to_numpy(float)
    numbers = np.array([len(values) for values in book.values(rows)])
    redraw = formula.repeated(seconds, numbers, book.spread(rows["stack"].iloc[0], "step_s"))
    random = np.random.default_rng(1)  # the fit's own draws start at 0
    measured = np.array([redraw(random) for _ in range(len(draws))])

    def total(without: str = "") -> Array:
        use = [place for place, name in enumerate(names) if name not in without]
        return draws[:, use] @ design[:, use].T

    return Drawn(total(), total("m"), total("bm"), measured)


def nearer(book: Measurements, bends: Mapping[str, Fitted]) -> dict[str, Interval]:
    """By how much the error under tcmalloc is larger with m than without, in mean absolute errors, by stack."""
    found = kept(book, bends)
    margins = {}
    for stack, rows in found.groupby("stack", sort=False):
        drawn = _drawn(book, bends[str(stack)], rows)
        errors = [np.abs(one / drawn.measured - 1).mean(axis=1) for one in (drawn.with_m, drawn.without_m)]
        value = float((rows["with m"].abs() - rows["without m"].abs()).mean())
        margins[str(stack)] = formula.interval(pd.Series(errors[0] - errors[1]), value)
    return margins


def too_much(book: Measurements, bends: Mapping[str, Fitted], at: int = AT) -> dict[str, Interval]:
    """What the formula without m promises at `at` rows over what was measured there under tcmalloc, by stack."""
    promises = {}
    for stack, rows in _at(kept(book, bends), at).groupby("stack", sort=False):
        drawn = _drawn(book, bends[str(stack)], rows)
        value = float(rows["without m"].iloc[0] + 1)
        promises[str(stack)] = formula.interval(pd.Series((drawn.without_m / drawn.measured)[:, 0]), value)
    return promises


def _at(found: pd.DataFrame, vocabulary: int) -> pd.DataFrame:
    """The rows with this vocabulary and the document's other sizes."""
    return found[found[list(DOCUMENT)].eq(pd.Series(DOCUMENT | {"vocabulary": vocabulary})).all(axis=1)]


def over_floor(
    book: Measurements, bends: Mapping[str, Fitted], floor: Mapping[str, float], at: int = AT
) -> dict[str, Interval]:
    """Price of a row under tcmalloc at `at` rows in units of its floor, by stack, the least first.

    The step there without what the formula says of all but the rows. TensorFlow 1.1, whose own allocator answers
    under either name, is left out.
    """
    found, over = _at(kept(book, bends), at), {}
    found = found[found["stack"] != OWN_ALLOCATOR]
    for stack, rows in found.groupby("stack", sort=False):
        one = bends[str(stack)]
        drawn = _drawn(book, one, rows)
        rest = one.fit.parts(rows).drop(columns=["b", "m"]).sum(axis=1).iloc[0]
        scale = 1 / at / floor["b"]
        value = float(rows["step_s"].iloc[0] - rest) * scale
        over[str(stack)] = formula.interval(pd.Series((drawn.measured - drawn.rest)[:, 0] * scale), value)
    return dict(sorted(over.items(), key=lambda item: item[1].value))


def others(book: Measurements) -> Measurements | None:
    """The other machine that the book shows, beside the one of the page; None where there is none."""
    return next((stored.of(name) for name in stored.listed() if name != book.machine), None)


# Other people's figures


def s3_steps() -> pd.DataFrame:
    """S3's six batch sizes with seconds a step, had it used all of MNIST."""
    rows = original.read("s3-batch")
    return rows.assign(step_s=rows["total_s"] / rows["epochs"] / MNIST * rows["batch"])


def line_of_batches(rows: pd.DataFrame) -> tuple[dict[str, float], Array]:
    """A price per step (F) and one per sample (c) of rows with columns batch and step_s; and their relative errors."""
    seconds = rows["step_s"].to_numpy(float)
    solution = formula.solve(formula.BATCH_LINE, rows, seconds)
    errors = formula.BATCH_LINE.design(rows) @ solution / seconds - 1
    return dict(zip(formula.BATCH_LINE.terms, solution.tolist(), strict=True)), errors


def pairs() -> pd.DataFrame:
    """Published times at two batch sizes read as a price per step and one per example, by framework and units."""
    published = external.benchmarks()
    published = published[published["name"] == "rnn-benchmarks"]
    rows = []
    for (framework, units), two in published.groupby(["framework", "units"], sort=False):
        price, errors = line_of_batches(two.assign(step_s=two["seconds_per_sample"] * two["batch"]))
        name = {"framework": framework, "units": int(units)}
        step, example = price["F"] * 1e3, price["c"] * 1e6
        worst = np.abs(errors).max()
        rows.append(name | {"ms a step": step, "µs an example": example, "worst error": worst})
    return pd.DataFrame(rows).set_index(["framework", "units"])


def sharp(book: Measurements) -> list[bench_formula.Sharpness]:
    """The stacks with enough points under tcmalloc."""
    return [one for one in bench_formula.sharpness(book, "tcmalloc") if not np.isnan(one.left_out)]


def percent(share: float) -> str:
    return f"{share:.0%}"


def ratios(ratios: Mapping[str, Interval], spec: str = ".2f") -> str:
    return "; ".join(f"{stack} {ratio.text(spec)}" for stack, ratio in ratios.items())
