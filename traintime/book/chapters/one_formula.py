"""Chapter 14, one formula: a sum of four costs on every stack, and what they are in units of their floors.

Where the sum bends is in formula_bend.py.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import bench_formula, external, original, page, stored
from traintime.book.bench_formula import GOAL, Sharpness, by_stack, enough
from traintime.book.chapters import fused_published
from traintime.book.chapters.vocabulary import floor_s
from traintime.book.claims import Finding, above, claim, every_stack
from traintime.book.page import Prose
from traintime.book.stored import Measurements
from traintime.explain import formula
from traintime.explain.formula import Array, Fit, Formula
from traintime.explain.statistics import Interval, central
from traintime.point import make_point
from traintime.workloads.base import UPDATES

DOCUMENT = {"vocabulary": 280_000, "batch": 100, "length": 25}
DRAWS = 1000  # behind each interval of a fit
MNIST = 60_000  # images of the training set; S3 does not say how many of them it used


# The fits


def token_flops() -> float:
    """Operations of the LSTM's matmuls for a token, forwards and backwards."""
    point = make_point()
    return point.work.flops / (point.sizes.batch * point.sizes.length)


def cost_floors(book: Measurements) -> dict[str, float]:
    """The least seconds that a row (b) and a token (c) can cost. Raises KeyError where no rates were measured."""
    return {"b": floor_s(book), "c": token_flops() / book.rates["matmul_flop_per_s"]}


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

    @property
    def a_token(self) -> float:
        """What part of the cost c is a token's: without lengths it is a sentence's."""
        return 1.0 if "l" in self.fit.coefficients else 1 / DOCUMENT["length"]


def usual(book: Measurements) -> dict[str, pd.DataFrame]:
    """Under the usual allocator: the points of each stack that has enough of them for the formula's terms."""
    stacks = by_stack(bench_formula.points(book))
    return {stack: rows for stack, rows in stacks.items() if enough(rows, formula.shape(rows))}


def fitted(book: Measurements, rows: pd.DataFrame, shape: Formula) -> Fitted:
    """The formula fitted to points of one stack; its draws repeat the measurements (formula.repeated)."""
    seconds, numbers = rows["step_s"].to_numpy(), np.array([len(values) for values in book.values(rows)])
    redraw = formula.repeated(seconds, numbers, book.spread(rows["stack"].iloc[0], "step_s"))
    repeat, _ = bench_formula.repeat_error(book, rows)
    fit = formula.fit(shape, rows, seconds, redraw, DRAWS)
    return Fitted(rows, fit, formula.leave_one_out(shape, rows, seconds), repeat)


@functools.cache
def straight(book: Measurements) -> dict[str, Fitted]:
    """The formula on every stack of a machine that has enough points."""
    return {stack: fitted(book, rows, formula.shape(rows)) for stack, rows in usual(book).items()}


def fit_summary(book: Measurements) -> pd.DataFrame:
    """Each stack's costs in units of their floors (b, c; c missing without batches), and the errors of its fit."""
    floor, rows = cost_floors(book), {}
    for stack, one in straight(book).items():
        token = one.fit.coefficients.get("c", np.nan) * one.a_token
        costs = {"b": one.fit.coefficients["b"] / floor["b"], "c": token / floor["c"], "points": len(one.rows)}
        rows[stack] = costs | {"error": one.fit.mean_error, "left_out": one.mean_left_out, "repeat": one.repeat}
    return pd.DataFrame.from_dict(rows, orient="index")


def fitted_points(book: Measurements) -> pd.DataFrame:
    """Every point with what the formula says of it (s), and its relative error. Raises KeyError without a fit."""
    if not straight(book):
        raise KeyError("not measured")
    columns = ["stack", *DOCUMENT, "step_s", "low_s", "high_s"]
    parts = [one.rows[columns].assign(predicted_s=one.fit.predict(one.rows)) for one in straight(book).values()]
    points = pd.concat(parts, ignore_index=True)
    return points.assign(error=points["predicted_s"] / points["step_s"] - 1)


def term_seconds(book: Measurements) -> pd.DataFrame:
    """Seconds that each term contributes at the 2017 post's configuration, a row a stack."""
    at = pd.DataFrame([DOCUMENT])
    return pd.DataFrame({stack: one.fit.parts(at).iloc[0] for stack, one in straight(book).items()}).T.fillna(0)


def rows_share(one: Fitted) -> Interval:
    """The share of the rows in a step at the 2017 post's configuration."""
    at = pd.DataFrame([DOCUMENT])
    drawn, value = one.fit.draws * one.fit.formula.design(at)[0], one.fit.parts(at).iloc[0]
    return central((drawn["b"] / drawn.sum(axis=1)).to_numpy(), float(value["b"] / value.sum()))


def median_errors(points: pd.DataFrame, size: str) -> pd.Series:
    """Median error over the stacks against one size, while the other two have the 2017 post's value."""
    others = pd.Series(DOCUMENT).drop(size)
    return points[points[list(others.index)].eq(others).all(axis=1)].groupby(size)["error"].median()


@claim("14.1", "Under glibc a row costs more than twice its floor on every stack, by a line through all sizes.")
def row_above_twice_its_floor(book: Measurements) -> Finding:
    floor = cost_floors(book)["b"]
    costs = {stack: one.fit.interval("b").scaled(1 / floor) for stack, one in straight(book).items()}
    return every_stack(costs, above(2), ".1f")


@claim(
    "14.2",
    "Under glibc the rows take more than half of a step at 280,000 rows, batch 100 and length 25, on every stack.",
)
def rows_are_most_of_a_step(book: Measurements) -> Finding:
    return every_stack({stack: rows_share(one) for stack, one in straight(book).items()}, above(0.5), ".0%")


@functools.cache
def sharp_stacks(book: Measurements, allocator: str) -> list[Sharpness]:
    """How sharp the formula is under an allocator, of the stacks with enough points (bench_formula)."""
    return [one for one in bench_formula.sharpness(book, allocator) if not np.isnan(one.left_out)]


# Other people's figures


def s3_steps() -> pd.DataFrame:
    """S3's six batch sizes with seconds a step, had it used all of MNIST."""
    rows = original.read("s3-batch")
    return rows.assign(step_s=rows["total_s"] / rows["epochs"] / MNIST * rows["batch"])


def line_of_batches(rows: pd.DataFrame) -> tuple[dict[str, float], Array]:
    """A cost per step (F) and one per sample (c) of rows with columns batch and step_s; and their relative errors."""
    seconds = rows["step_s"].to_numpy(float)
    solution = formula.solve(formula.BATCH_LINE.design(rows), seconds)
    errors = formula.BATCH_LINE.design(rows) @ solution / seconds - 1
    return dict(zip(formula.BATCH_LINE.terms, solution.tolist(), strict=True)), errors


@functools.cache
def pairs() -> pd.DataFrame:
    """Published times at two batch sizes read as a cost per step and one per example, by framework and units."""
    published = stored.chosen(external.benchmarks(), name="rnn-benchmarks")
    rows = []
    for (framework, units), two in published.groupby(["framework", "units"], sort=False):
        price, errors = line_of_batches(two.assign(step_s=two["seconds_per_sample"] * two["batch"]))
        name = {"framework": framework, "units": int(units)}
        costs = {"ms a step": price["F"] * 1e3, "µs an example": price["c"] * 1e6}
        rows.append(name | costs | {"worst error": np.abs(errors).max()})
    return pd.DataFrame(rows).set_index(["framework", "units"])


def fitting() -> pd.Series:
    """Which of the pairs two costs reproduce, neither of them negative."""
    return pairs()["worst error"] <= 0.01


def k40m_row_s(embedding: int) -> float:
    """The least seconds that Adam's update of a row of so many numbers takes the 2017 post's card."""
    return UPDATES["adam"].bytes * embedding / external.hardware("K40m")["bandwidth measured"]


ISSUE = ("seen", "rows", "all", "floor")


def bug_report() -> dict[str, float]:
    """A bug report's seconds a step (seen); what the 2017 post's costs predict for the rows and all, and the floor."""
    issue, price = stored.row(external.benchmarks(), name="tensorflow-14075"), original.s0_fits()["GPU"].coefficients
    rows = issue["vocabulary"] * issue["embedding"] * price["b"] / make_point().sizes.embedding
    floor = issue["vocabulary"] * k40m_row_s(issue["embedding"])
    return dict(zip(ISSUE, (issue["seconds_per_step"], rows, rows + price["a"], floor), strict=True))


# What the page shows


def parts_table(book: Measurements) -> HTML:
    """The two parts of a step at the 2017 post's configuration, a row a stack, and the errors of the fit."""
    seconds, summary = term_seconds(book), fit_summary(book)
    fixed = seconds[[name for name in seconds if name != "c"]].sum(axis=1)
    rows = pd.DataFrame({"fixed": fixed, "rows": seconds.get("b"), "sample": seconds.get("c")})
    rows["sample"] = rows["sample"] / DOCUMENT["batch"]
    return page.columns(
        rows.join(summary[["points", "left_out", "repeat"]]).rename_axis("stack").reset_index(),
        stack=("stack (configurations)", lambda row: f"{row['stack']} ({row['points']:.0f})"),
        fixed=("fixed (ms)", 1e3, ",.0f"),
        rows=("rows' part (ms)", 1e3, ",.0f"),
        sample=("per sample (ms)", 1e3, ",.2f"),
        left_out=("error, unseen (%)", 100, ".0f"),
        repeat=("error, measured again (%)", 100, ".0f"),
    )


def term_table(book: Measurements, fold: str = "") -> HTML:
    """What each stack pays for the step, a time step, a row and a token."""
    rows = []
    for stack, one in straight(book).items():
        unit = {"c": one.a_token}
        rows.append({name: one.fit.interval(name).scaled(unit.get(name, 1)) for name in one.fit.coefficients})
        rows[-1]["stack"] = stack
    return page.columns(
        pd.DataFrame(rows, columns=["stack", "a", "l", "b", "c"]),
        fold=fold,
        stack="stack",
        a=("*a* (ms)", 1e3, ",.0f"),
        l=("*l* (ms per time step)", 1e3, ",.2f"),
        b=("*b* (ns per row)", 1e9, ",.0f"),
        c=("*c* (µs per token)", 1e6, ",.0f"),
    )


Text = Callable[[Measurements], str]


def enumerated(names: Sequence[str]) -> str:
    """Names of stacks in a sentence: "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "no stack"


def percent(share: float, sign: str = "") -> str:
    """A share as a sentence has it: "24 %"; sign "+" to show it always."""
    return f"{share * 100:{sign}.0f}\u00a0%".replace("-", "−")


def _ends(name: str, column: str, write: Callable[[float], str]) -> dict[str, Text]:
    """Least and greatest of a column of `fit_summary`, with their stacks."""

    def measured(book: Measurements) -> pd.Series:
        rows = fit_summary(book)[column].dropna()
        if rows.empty:
            raise KeyError(column)
        return rows

    return {
        f"{name}-low": lambda book: write(measured(book).min()),
        f"{name}-low-stack": lambda book: str(measured(book).idxmin()),
        f"{name}-high": lambda book: write(measured(book).max()),
        f"{name}-high-stack": lambda book: str(measured(book).idxmax()),
    }


def _goal(book: Measurements, within: bool | None) -> list[str]:
    """Stacks that meet the goal under glibc (True), miss it (False), or where its interval does not decide (None)."""
    return [one.stack for one in sharp_stacks(book, "glibc") if one.within is within]


def _share(book: Measurements) -> pd.Series:
    parts = term_seconds(book)
    return parts["b"] / parts.sum(axis=1)


def _leans(size: str) -> Text:
    """The largest median error against one size, and where it is: "−21 % at 400"."""

    def text(book: Measurements) -> str:
        medians = median_errors(fitted_points(book), size)
        if medians.empty:
            raise KeyError(size)
        at = medians.abs().idxmax()
        return f"{percent(medians.loc[at], '+')} at {at:,}"

    return text


def _s3() -> dict[str, float]:
    return line_of_batches(s3_steps())[0]


def _misfit(_: Measurements) -> str:
    worst = pairs().loc[~fitting(), "worst error"]
    texts = (f"{name} with {units} units, off by {percent(off)}" for (name, units), off in worst.items())
    return "; ".join(texts) or "none"


PROSE = Prose(
    "one",
    title=lambda book: page.title(book, fitted_points(book)),
    points=lambda book: str(len(fitted_points(book))),
    met=lambda book: enumerated(_goal(book, True)),
    missed=lambda book: enumerated(_goal(book, False)),
    open=lambda book: str(len(_goal(book, None))),
    share_low=lambda book: percent(_share(book).min()),
    share_low_stack=lambda book: str(_share(book).idxmin()),
    share_high=lambda book: percent(_share(book).max()),
    **_ends("left", "left_out", percent),
    **_ends("repeat", "repeat", percent),
    **_ends("row", "b", "{:.1f}".format),
    **_ends("token", "c", "{:.1f}".format),
    **{f"bend-{size}": _leans(size) for size in DOCUMENT},
    goal=lambda _: f"{GOAL:g}",
    s3_step=lambda _: f"{_s3()['F'] * 1e3:.1f} ms",
    s3_image=lambda _: f"{_s3()['c'] * 1e3:.1f} ms",
    s3_even=lambda _: f"{_s3()['F'] / _s3()['c']:.1f}",
    s3_worst=lambda _: f"{np.abs(line_of_batches(s3_steps())[1]).max() * 100:.1f}\u00a0%",
    s4_fixed=lambda _: f"{fused_published.fused_line()['F'] * 1e3:.0f} ms",
    s4_row=lambda _: f"{fused_published.fused_line()['c'] * 1e6:.0f} µs",
    s4_loop=lambda _: f"{fused_published.loop_line()['step_s']:.1f} s",
    s4_share=lambda _: percent(fused_published.loop_line()["fixed"]),
    misfit=_misfit,
    pairs=lambda _: str(len(pairs())),
    pairs_good=lambda _: str(fitting().sum()),
    **{f"issue-{name}": lambda _, name=name: f"{bug_report()[name] * 1e3:.0f} ms" for name in ISSUE},
)
