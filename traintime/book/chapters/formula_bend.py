"""Chapter 14, the second question: where the sum bends, the second cost of a row, and whose it is."""

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import bench_formula, page, predictions, stored
from traintime.book.bench_formula import GOAL, Sharpness, mapped_rows
from traintime.book.chapters.one_formula import (
    DOCUMENT,
    Fitted,
    cost_floors,
    enumerated,
    fitted,
    percent,
    sharp_stacks,
    straight,
)
from traintime.book.claims import Finding, above, any_stack, below, claim, every_stack
from traintime.book.page import Prose
from traintime.book.stored import Measurements
from traintime.explain import formula, statistics
from traintime.explain.formula import Array
from traintime.explain.statistics import Interval, central
from traintime.measuring.allocators import MAPPED_FROM

AT = DOCUMENT | {"vocabulary": 200_000}  # where every stack was measured under both allocators
BENT = ["2020-tensorflow", "2026-torch", "numpy"]  # stacks that ask the system for blocks of the table's size
OWN_ALLOCATOR = "2017-tensorflow"  # TensorFlow 1.1 brings one along


# The bend


@functools.cache
def bent_fits(book: Measurements) -> dict[str, Fitted]:
    """The formula on the same points with a second cost, for rows beyond glibc's mapping threshold."""
    return {
        stack: fitted(book, one.rows, formula.bent(one.fit.formula, mapped_rows(one.rows)))
        for stack, one in straight(book).items()
    }


def gained(book: Measurements) -> pd.DataFrame:
    """Mean error for points left out, straight and bent, a row a stack. Raises KeyError without a fit."""
    if not bent_fits(book):
        raise KeyError("not measured")
    fits = {"straight": straight(book), "bent": bent_fits(book)}
    return pd.DataFrame({name: {stack: one.mean_left_out for stack, one in by.items()} for name, by in fits.items()})


@claim(
    "14.3",
    "On TensorFlow 1.15 a second cost for rows beyond 32 MiB at least halves the error for configurations left out.",
    says="inconclusive",
)
def bend_halves_the_error(book: Measurements) -> Finding:
    line, bend = straight(book)[BENT[0]], bent_fits(book)[BENT[0]]
    errors = np.abs(np.column_stack([bend.left_out, line.left_out]))
    # Which points a sweep has is chance: they are drawn again, and both errors are of the same ones.
    random = np.random.default_rng(0)
    means = errors[random.integers(len(errors), size=(2000, len(errors)))].mean(axis=1)
    share = central(means[:, 0] / means[:, 1], bend.mean_left_out / line.mean_left_out)
    figure = f"{line.mean_left_out:.0%} to {bend.mean_left_out:.0%}, {share.text()} times, {len(errors)} points"
    return Finding(below(0.5)(share), figure)


@claim(
    "14.4",
    "Under glibc a row beyond 32 MiB costs more than one before on TensorFlow 1.15, torch and NumPy.",
    says="inconclusive",
)
def rows_beyond_cost_more(book: Measurements) -> Finding:
    return every_stack({stack: bent_fits(book)[stack].fit.interval("m") for stack in BENT}, above(0), ",.0f", 1e9, "ns")


# The same fits under another allocator


@functools.cache
def errors_under_tcmalloc(book: Measurements) -> pd.DataFrame:
    """Points under tcmalloc beyond the bend, with the errors of the formula that was fitted under glibc.

    Columns stack, sizes, step_s; with m, without m (relative errors).
    """
    points = bench_formula.points(book, "tcmalloc").sort_values(["stack", "vocabulary"], kind="stable")
    points = points.assign(**{"with m": np.nan, "without m": np.nan})
    for stack, rows in points.groupby("stack"):
        if stack in bent_fits(book):
            one = bent_fits(book)[stack]
            beyond = rows[rows["vocabulary"] > mapped_rows(one.rows)]
            for column, without in (("with m", ""), ("without m", "m")):
                predicted = one.fit.parts(beyond).drop(columns=list(without)).sum(axis=1)
                points.loc[beyond.index, column] = predicted / beyond["step_s"] - 1
    return points.dropna(subset="with m").reset_index(drop=True)


def predicted_again(one: Fitted, rows: pd.DataFrame, without: str = "") -> Array:
    """Seconds that the fit's draws predict, without some of its terms, shape (draws, points)."""
    used = [name not in without for name in one.fit.formula.terms]
    return one.fit.draws.to_numpy()[:, used] @ one.fit.formula.design(rows)[:, used].T


def measured_again(book: Measurements, one: Fitted, rows: pd.DataFrame) -> Array:
    """Seconds as they might have been measured, one draw for each of the fit's, shape (draws, points)."""
    spreads = [book.spread(stack, "step_s") for stack in rows["stack"]]
    # The fit's own draws start at 0.
    return statistics.redrawn(book.values(rows), spreads, draws=len(one.fit.draws), seed=1)[1].T


def nearer(book: Measurements) -> dict[str, Interval]:
    """By how much the error under tcmalloc is larger with m than without, in mean absolute errors, by stack."""
    margins = {}
    for stack, rows in errors_under_tcmalloc(book).groupby("stack"):
        one = bent_fits(book)[stack]
        measured = measured_again(book, one, rows)
        errors = [np.abs(predicted_again(one, rows, terms) / measured - 1).mean(axis=1) for terms in ("", "m")]
        margins[stack] = central(errors[0] - errors[1], (rows["with m"].abs() - rows["without m"].abs()).mean())
    return margins


def too_much(book: Measurements) -> dict[str, Interval]:
    """What the formula without m predicts at AT over what was measured there under tcmalloc, by stack."""
    ratios = {}
    for stack, rows in stored.chosen(errors_under_tcmalloc(book), **AT).groupby("stack"):
        one = bent_fits(book)[stack]
        drawn = predicted_again(one, rows, "m") / measured_again(book, one, rows)
        ratios[stack] = central(drawn[:, 0], rows["without m"].iloc[0] + 1)
    return ratios


def over_floor(book: Measurements) -> dict[str, Interval]:
    """Cost of a row under tcmalloc at AT in units of its floor, by stack.

    The step there without what the formula says of all but the rows. TensorFlow 1.1, whose own allocator answers
    under either name, is left out.
    """
    floor, costs = cost_floors(book)["b"] * AT["vocabulary"], {}
    for stack, rows in stored.chosen(errors_under_tcmalloc(book), **AT).groupby("stack"):
        one = bent_fits(book)[stack]
        rest = one.fit.parts(rows).drop(columns=["b", "m"]).sum(axis=1).iloc[0]
        drawn = measured_again(book, one, rows) - predicted_again(one, rows, "bm")
        costs[stack] = central(drawn[:, 0] / floor, (rows["step_s"].iloc[0] - rest) / floor)
    costs.pop(OWN_ALLOCATOR, None)
    return costs


@claim(
    "14.5",
    "On these three the formula that was fitted under glibc is closer to the steps under tcmalloc without that "
    "surcharge than with it.",
    says="inconclusive",
)
def surcharge_is_the_allocators(book: Measurements) -> Finding:
    margins = nearer(book)
    return every_stack({stack: margins[stack] for stack in BENT}, above(0), ".0%")


@claim(
    "14.6",
    "On Keras 3 with TensorFlow and with JAX even the formula without the surcharge predicts more than 1.25 times "
    "what a step at 200,000 rows takes under tcmalloc.",
    says="does not hold",
)
def predicted_too_much(book: Measurements) -> Finding:
    ratios = too_much(book)
    return every_stack({stack: ratios[stack] for stack in ("2026-tensorflow", "2026-jax")}, above(1.25))


@claim(
    "14.7",
    "Under tcmalloc a row costs less than twice its floor on at least one stack, at 200,000 rows.",
    says="inconclusive",
)
def near_the_floor(book: Measurements) -> Finding:
    return any_stack(over_floor(book), below(2), ".1f")


@claim(
    "14.8",
    f"Under tcmalloc the formula's leave-one-out error is within {GOAL:g} times the repeat error on at least three of "
    "four stacks.",
    says="inconclusive",
)
def sharp_under_tcmalloc(book: Measurements) -> Finding:
    stacks = sharp_stacks(book, "tcmalloc")
    if len(stacks) < 4:
        raise KeyError("fewer than four stacks have enough configurations")
    within = [one.within for one in stacks]
    holds = True if within.count(True) >= 3 else False if len(within) - within.count(False) < 3 else None
    return Finding(holds, _sharp(stacks))


def _sharp(stacks: Sequence[Sharpness]) -> str:
    return "; ".join(f"{one.stack} {one.ratio.text()}" for one in stacks)


# What the page shows


def second_cost_table(book: Measurements, fold: str = "") -> HTML:
    """The two costs of a row, and what the second one does to the errors (straight → bent)."""
    rows = []
    for stack, one in bent_fits(book).items():
        line = straight(book)[stack]
        costs = {name: one.fit.interval(name) for name in ("b", "m")}
        errors = {"left_out": f"{line.mean_left_out * 100:.0f} → {one.mean_left_out * 100:.0f}", "repeat": one.repeat}
        rows.append({"stack": stack} | costs | errors)
    return page.columns(
        pd.DataFrame(rows),
        fold=fold,
        stack="stack",
        b=("*b* (ns per row)", 1e9, ",.0f"),
        m=("*m*, more beyond 32 MiB (ns)", 1e9, ",.0f"),
        left_out="error, unseen (%)",
        repeat=("error, measured again (%)", 100, ".0f"),
    )


def elsewhere(book: Measurements) -> Measurements:
    """The second of the machines that every chapter shows, or the first for another one."""
    return stored.of(next(name for name in stored.listed() if name != book.machine))


def _left_out(fits: Callable[[Measurements], Mapping[str, Fitted]]) -> Callable[[Measurements], str]:
    """Mean error for configurations left out, of the stack whose bend is judged."""
    return lambda book: percent(fits(book)[BENT[0]].mean_left_out)


def _significant(
    values: Callable[[Measurements], Mapping[str, Interval]], sure: bool = True
) -> Callable[[Measurements], str]:
    """The stacks that bend on which a value is significantly above 0, or on which it is not."""

    def text(book: Measurements) -> str:
        found = values(book)
        return enumerated([stack for stack in BENT if (above(0)(found[stack]) is True) == sure])

    return text


def _surcharges(book: Measurements) -> dict[str, Interval]:
    return {stack: bent_fits(book)[stack].fit.interval("m") for stack in BENT}


def _besides(book: Measurements) -> str:
    """The other stacks, on which no bend was predicted, with a significant second cost of a row. KeyError without."""
    found = {stack: one.fit.interval("m") for stack, one in bent_fits(book).items() if stack not in BENT}
    return enumerated(stored.measured([stack for stack, m in found.items() if above(0)(m) is True]))


def _times_too_much(stack: str) -> Callable[[Measurements], str]:
    return lambda book: f"{too_much(book)[stack].value:.2f}"


def _ratios(book: Measurements) -> list[float]:
    """The error of the formula under tcmalloc over that of measuring again. Raises KeyError without any."""
    return [one.ratio.value for one in stored.measured(sharp_stacks(book, "tcmalloc"))]


def _nearest(book: Measurements) -> str:
    return over_floor(book)[stored.smallest(over_floor(book))].text(".1f")


HERE_AND_THERE: dict[str, Callable[[Measurements], str]] = {
    "bent_from": _left_out(straight),
    "bent_to": _left_out(bent_fits),
    "more": _significant(_surcharges),
    "more_open": _significant(_surcharges, sure=False),
    "closer": _significant(nearer),
    "closer_open": _significant(nearer, sure=False),
    "over_tensorflow": _times_too_much("2026-tensorflow"),
    "over_jax": _times_too_much("2026-jax"),
    "near": _nearest,
}


PROSE = Prose(
    "one",
    mapped=lambda _: f"{MAPPED_FROM / 2**20:.0f} MiB",
    mapped_rows=lambda book: f"{mapped_rows(bent_fits(book)[BENT[0]].rows):,}",
    bent_repeat=lambda book: percent(bent_fits(book)[BENT[0]].repeat),
    more_besides=_besides,
    near_stack=lambda book: stored.smallest(over_floor(book)),
    there=lambda book: elsewhere(book).title,
    **HERE_AND_THERE,
    **{f"{name}_there": lambda book, give=give: give(elsewhere(book)) for name, give in HERE_AND_THERE.items()},
    sharp_low=lambda book: f"{min(_ratios(book)):.2f}",
    sharp_high=lambda book: f"{max(_ratios(book)):.2f}",
    sharp_all=lambda book: str(len(_ratios(book))),
    sharp_open=lambda book: str(sum(one.within is None for one in sharp_stacks(book, "tcmalloc"))),
    sharp_came=lambda _: predictions.told("14", "1"),
    kept_came=lambda _: predictions.told("14", "m"),
)
