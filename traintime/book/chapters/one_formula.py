"""Chapter 14, one formula: a sum of four costs on every stack, next to floors; how sharp it is, where it bends."""

import functools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import bench_formula, claims, external, original, page, stored
from traintime.book.bench_formula import GOAL, Sharpness, mapped_rows
from traintime.book.chapters.vocabulary import floor_s
from traintime.book.claims import Finding, below
from traintime.book.prose import joined
from traintime.book.stored import Measurements
from traintime.book.values import Values, exact, quantity
from traintime.explain import formula, statistics
from traintime.explain.formula import Fit, Formula
from traintime.point import make_point

DOCUMENT = {"vocabulary": 280_000, "batch": 100, "length": 25}
AT = DOCUMENT | {"vocabulary": 200_000}  # where every stack was measured under both allocators
BENT = ("2020-tensorflow", "2026-torch", "numpy")  # where a row of a large table costs more under glibc (chapter 4)
claim = claims.of_chapter("14")


# The fits


@functools.cache
def usual(book: Measurements) -> dict[str, pd.DataFrame]:
    """Under the usual allocator: the points of each stack that has enough of them for the formula's terms."""
    stacks = bench_formula.by_stack(bench_formula.points(book))
    return {stack: rows for stack, rows in stacks.items() if bench_formula.enough(rows, formula.shape(rows))}


def fitted(book: Measurements, rows: pd.DataFrame, shape: Formula) -> Fit:
    """The formula fitted to points of one stack (Measurements.lines)."""
    (fit,) = book.lines(rows, shape).values()
    return fit


@functools.cache
def straight(book: Measurements) -> dict[str, Fit]:
    """The formula on every stack of a machine that has enough points."""
    return {stack: fitted(book, rows, formula.shape(rows)) for stack, rows in usual(book).items()}


def coefficients(book: Measurements) -> int:
    """How many coefficients the fits of all stacks have together."""
    return sum(len(fit.coefficients) for fit in straight(book).values())


def fitted_points(book: Measurements) -> pd.DataFrame:
    """Every point with the formula's seconds (predicted_s) and relative error. Raises KeyError without a fit."""
    columns = ["stack", *DOCUMENT, "step_s", "low_s", "high_s"]
    stacks = stored.measured(usual(book)).items()
    parts = [rows[columns].assign(predicted_s=straight(book)[stack].predict(rows)) for stack, rows in stacks]
    points = pd.concat(parts, ignore_index=True)
    return points.assign(error=points["predicted_s"] / points["step_s"] - 1)


def term_seconds(book: Measurements) -> pd.DataFrame:
    """Seconds that each term contributes at the 2017 post's configuration, a row a stack."""
    at = pd.DataFrame([DOCUMENT])
    return pd.DataFrame({stack: fit.parts(at).iloc[0] for stack, fit in straight(book).items()}).T.fillna(0)


@quantity
def rows_shares(book: Measurements) -> Values:
    """The share of the rows in such a step, by stack."""
    parts = term_seconds(book)
    return exact((parts["b"] / parts.sum(axis=1)).to_dict(), ".0%")


@quantity
def row_costs(book: Measurements) -> Values:
    """What a row costs in units of its floor, by stack."""
    floor = floor_s(book)
    return Values({stack: fit.interval("b").scaled(1 / floor) for stack, fit in straight(book).items()}, ".1f")


def token_floor_s(book: Measurements) -> float:
    """The least seconds for a token: its operations, forward and backward, at the rate of a large matmul.

    Raises KeyError where nobody measured that rate.
    """
    point = make_point()
    flops = point.work.flops / (point.sizes.batch * point.sizes.length)
    return flops / book.rates["matmul_flop_per_s"]


def of_a_token(fit: Fit) -> float:
    """What part of the cost c is a token's: without lengths it is a sentence's."""
    return 1.0 if "l" in fit.coefficients else 1 / DOCUMENT["length"]


@quantity
def token_costs(book: Measurements) -> Values:
    """What a token costs in units of its floor, by stack on which the batch was varied."""
    floor, fits = token_floor_s(book), straight(book).items()
    costs = {stack: fit.interval("c").scaled(of_a_token(fit) / floor) for stack, fit in fits if "c" in fit.coefficients}
    return Values(costs, ".1f")


claim(
    1,
    "Under glibc a row costs more than twice its floor on every stack, by a line through all sizes.",
    lambda book: row_costs(book) > 2,
)


# How sharp it is


@functools.cache
def sharp(book: Measurements, allocator: str = "glibc", bend: bool = False) -> dict[str, Sharpness]:
    """How sharp the formula is under an allocator, of the stacks with enough points (bench_formula.sharpness)."""
    found = bench_formula.sharpness(book, allocator, bend)
    return {one.stack: one for one in found if not np.isnan(one.left_out)}


@quantity
def errors(book: Measurements, kind: str, bend: bool = False) -> Values:
    """Mean error by stack: "left_out", for a point that the fit has not seen, or "repeat", of measuring it again."""
    return exact({stack: getattr(one, kind) for stack, one in sharp(book, bend=bend).items()}, ".0%")


@quantity
def over_repeat(book: Measurements, allocator: str) -> Values:
    """The error for points left out of the fit over that of measuring them again, by stack."""
    return Values({stack: one.ratio for stack, one in sharp(book, allocator).items()})


def of_goal(ratios: Values, within: bool | None) -> list[str]:
    """Stacks that meet the goal (True), miss it (False), or where the interval does not decide (None)."""
    return [stack for stack, ratio in ratios.items() if below(GOAL)(ratio) is within]


def sharp_under_tcmalloc(book: Measurements) -> Finding:
    """Whether the formula meets the goal on three stacks, where four have enough configurations."""
    ratios = over_repeat(book, "tcmalloc")
    if len(ratios) < 4:
        raise KeyError("fewer than four stacks have enough configurations")
    met, missed = (len(of_goal(ratios, within)) for within in (True, False))
    holds = True if met >= 3 else False if len(ratios) - missed < 3 else None
    return Finding(holds, "; ".join(f"{ratio.name} {ratio}" for ratio in ratios.values()))


claim(
    8,
    f"Under tcmalloc the formula's leave-one-out error is within {GOAL:g} times the repeat error on at least three of "
    "four stacks.",
    sharp_under_tcmalloc,
    says="inconclusive",
)


# Where it bends, and the same fits under another allocator


@functools.cache
def bent_fits(book: Measurements) -> dict[str, Fit]:
    """The formula on the same points with a second cost, for rows beyond glibc's mapping threshold."""
    return {
        stack: fitted(book, rows, formula.bent(formula.shape(rows), mapped_rows(rows)))
        for stack, rows in usual(book).items()
        if stack in sharp(book, bend=True)
    }


@functools.cache
def errors_under_tcmalloc(book: Measurements) -> pd.DataFrame:
    """Points under tcmalloc beyond the bend, with the errors of the formula that was fitted under glibc.

    Columns stack, sizes, step_s; with m, without m (relative errors).
    """
    points = bench_formula.points(book, "tcmalloc").sort_values(["stack", "vocabulary"], kind="stable")
    points = points.assign(**{"with m": np.nan, "without m": np.nan})
    for stack, fit in bent_fits(book).items():
        beyond = stored.chosen(points, stack=stack)
        beyond = beyond[beyond["vocabulary"] > mapped_rows(usual(book)[stack])]
        parts = fit.parts(beyond)
        points.loc[beyond.index, "with m"] = parts.sum(axis=1) / beyond["step_s"] - 1
        points.loc[beyond.index, "without m"] = parts.drop(columns="m").sum(axis=1) / beyond["step_s"] - 1
    return points.dropna(subset="with m").reset_index(drop=True)


@quantity
def nearer(book: Measurements) -> Values:
    """By how much the error under tcmalloc is larger with m than without, in mean absolute errors, by stack."""
    margins = {}
    for stack, rows in errors_under_tcmalloc(book).groupby("stack"):
        fit = bent_fits(book)[stack]
        steps = book.steps(rows["stack"], book.values(rows))
        measured = np.exp(steps.logs[:, None] + steps.drawn(len(fit.draws)))
        predicted = [draws.to_numpy() @ fit.formula.design(rows).T for draws in (fit.draws, fit.draws.assign(m=0.0))]
        missed = [np.abs(seconds / measured.T - 1).mean(axis=1) for seconds in predicted]
        margin = (rows["with m"].abs() - rows["without m"].abs()).mean()
        margins[stack] = statistics.central(missed[0] - missed[1], margin)
    return Values(margins, ".0%")


@quantity
def too_much(book: Measurements) -> Values:
    """What the formula without m predicts at AT over what was measured there under tcmalloc, by stack."""
    rows = stored.chosen(errors_under_tcmalloc(book), **AT).set_index("stack")
    return exact((rows["without m"] + 1).to_dict())


# Other people's figures


def pairs() -> Values:
    """By how much a cost per step and one per example, neither negative, miss two published times, by network."""
    found, published = {}, stored.chosen(external.benchmarks(), name="rnn-benchmarks")
    for (framework, units), two in published.groupby(["framework", "units"], sort=False):
        seconds, design = (two["seconds_per_sample"] * two["batch"]).to_numpy(), formula.BATCH_LINE.design(two)
        missed = design @ formula.solve(design, seconds) / seconds - 1
        found[f"{framework} with {units:.0f} units"] = np.abs(missed).max()
    return exact(found, ".0%")


def bug_report() -> Values:
    """A bug report's seconds a step (seen), and what the 2017 post's costs predict for the rows and for all of it."""
    issue, price = stored.row(external.benchmarks(), name="tensorflow-14075"), original.s0_fits()["GPU"].coefficients
    rows = issue["vocabulary"] * issue["embedding"] * price["b"] / make_point().sizes.embedding
    return exact({"seen": issue["seconds_per_step"], "rows": rows, "all": rows + price["a"]}, ".0f", 1e3, "ms")


# What the page shows


def parts_table(book: Measurements) -> HTML:
    """The two parts of a step at the 2017 post's configuration, a row a stack, and the errors of the fit."""
    fits = sharp(book)
    return page.columns(
        term_seconds(book).rename_axis("stack").reset_index(),
        stack=("stack (configurations)", lambda row: f"{row['stack']} ({fits[row['stack']].points})"),
        fixed=("fixed (ms)", lambda row: f"{sum(row.get(name, 0) for name in 'alb') * 1e3:,.0f}"),
        b=("rows' part (ms)", 1e3, ",.0f"),
        sample=("per sample (ms)", lambda row: f"{row.get('c', 0) / DOCUMENT['batch'] * 1e3:,.2f}"),
        left_out=("error, unseen (%)", lambda row: f"{fits[row['stack']].left_out * 100:.0f}"),
        repeat=("error, measured again (%)", lambda row: f"{fits[row['stack']].repeat * 100:.0f}"),
    )


def term_table(book: Measurements) -> HTML:
    """What each stack pays for the step, a time step, a row and a token."""
    rows = []
    for stack, fit in straight(book).items():
        unit = {"c": of_a_token(fit)}
        costs = {name: fit.interval(name).scaled(unit.get(name, 1)) for name in fit.coefficients}
        rows.append({"stack": stack} | costs)
    return page.columns(
        pd.DataFrame(rows, columns=["stack", "a", "l", "b", "c"]),
        fold="The four costs of every stack",
        stack="stack",
        a=("*a* (ms)", 1e3, ",.0f"),
        l=("*l* (ms per time step)", 1e3, ",.2f"),
        b=("*b* (ns per row)", 1e9, ",.0f"),
        c=("*c* (µs per token)", 1e6, ",.0f"),
    )


def second_cost_table(book: Measurements) -> HTML:
    """The two costs of a row, and what the second one does to the errors (straight → bent)."""
    fits, line, bend = bent_fits(book), sharp(book), sharp(book, bend=True)

    def both(row: pd.Series) -> str:
        return " → ".join(f"{one[row['stack']].left_out * 100:.0f}" for one in (line, bend))

    return page.columns(
        pd.DataFrame({"stack": list(fits)}),
        fold="The second cost of a row on every stack",
        stack="stack",
        b=("*b* (ns per row)", lambda row: fits[row["stack"]].interval("b").text(",.0f", 1e9)),
        m=("*m*, more beyond 32 MiB (ns)", lambda row: fits[row["stack"]].interval("m").text(",.0f", 1e9)),
        left_out=("error, unseen (%)", both),
        repeat=("error, measured again (%)", lambda row: f"{bend[row['stack']].repeat * 100:.0f}"),
    )


def enumerated(names: Sequence[str]) -> str:
    """Names of stacks in a sentence: "a, b and c"."""
    return joined(names) if names else "no stack"


def significant(values: Values) -> str:
    """The stacks on which a value, one of so many, is significantly above 0, in a sentence."""
    return enumerated([stack for stack, one in stored.measured(values).items() if one.one_of(len(values)).low > 0])


def leans(points: pd.DataFrame, size: str) -> str:
    """The largest median error over the stacks against one size, and where it is: "−21 % at 400".

    points: of `fitted_points`; of them count those whose other two sizes are the 2017 post's.
    """
    others = pd.Series(DOCUMENT).drop(size)
    alike = points[list(others.index)].eq(others).all(axis=1)
    medians = stored.measured(points[alike].groupby(size)["error"].median(), size)
    at = medians.abs().idxmax()
    return f"{medians.loc[at]:+.0%} at {at:,}"
