"""Chapter 6, sentence length: how a step grows with it, what keeps it from growing in proportion, and padding."""

from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import claims, page, stored
from traintime.book.chapters import vocabulary
from traintime.book.claims import Finding, above, every, higher
from traintime.book.plots import short
from traintime.book.prose import joined
from traintime.book.stored import ANY, Measurements
from traintime.book.values import Values, exact, quantity
from traintime.explain.statistics import Interval

TABLE = 280_000  # rows, the 2017 post's
SMALL_TABLE = 20_000  # rows
SHORT, LONG, LONGEST = 3, 100, 400  # tokens between which a step's growth is told
claim = claims.of_chapter("06")


# How a step grows with the length


def by_length(book: Measurements, table: int = TABLE) -> pd.DataFrame:
    """The sweeps over sentence length, with `how` saying what differs; only lines of three lengths or more.

    The table of `table` rows in every way of training, and smaller ones (20,000 and 1,000 rows) with Adam.
    """
    ways: dict[str, Any] = {"optimizer": ["adam", "sgd", "adam-rows"], "frozen": [False, True]}
    points = book.points(vocabulary=sorted({table, SMALL_TABLE, 1_000}), length=ANY, **ways)
    points = points[(points["vocabulary"] == table) | (points["how"] == "adam")]
    rows = points["vocabulary"].map(lambda vocabulary: f"{short(vocabulary)} rows")
    points = points.assign(how=points["how"].where(points["vocabulary"] == table, rows))
    lengths = points.dropna(subset="step_s").groupby(["stack", "how"])["length"].nunique()
    several = [lengths.get((row.stack, row.how), 0) > 2 for row in points.itertuples()]
    return points[np.array(several, dtype=bool)].reset_index(drop=True)


def table_of(book: Measurements, frozen: bool = True) -> int:
    """The largest table that was measured, frozen or with Adam, at three lengths or more, rows.

    Raises IndexError where none was.
    """
    points = book.points(vocabulary=ANY, length=ANY, frozen=frozen).dropna(subset="step_s")
    lengths = points.groupby(["stack", "vocabulary"])["length"].nunique()
    return sorted(vocabulary for (_, vocabulary), number in lengths.items() if number > 2)[-1]


@quantity
def length_exponents(book: Measurements, way: str, table: int = TABLE) -> Values:
    """Apparent exponents in the length of a line of `by_length`, its `how`, by stack."""
    rows = book.exponents(stored.chosen(by_length(book, table), how=way), "length")
    return Values({row["stack"]: stored.interval(row, "exponent") for _, row in rows.iterrows()})


def on_table(table: int, finding: Finding) -> Finding:
    """The finding with the table's size in its figure."""
    return Finding(finding.holds, f"{table:,} rows: {finding.figure}")


def sub_linear(book: Measurements) -> Finding:
    """Whether the exponents with Adam lie below 1, on the largest table that has them."""
    table = table_of(book, frozen=False)
    return on_table(table, length_exponents(book, "adam", table) < 1)


def frozen_is_steeper(book: Measurements) -> Finding:
    """Whether freezing the table raises the exponent, by the intervals, on every stack that has both."""
    table = table_of(book)
    adam, frozen = (length_exponents(book, way, table) for way in ("adam", "frozen"))
    steeper = {stack: higher(frozen[stack], adam[stack]) for stack in adam if stack in frozen}
    figures = [f"adam {adam.range}", f"frozen {frozen.range}"]
    if hidden := [stack for stack, holds in steeper.items() if holds is None]:
        figures.append(f"intervals overlap on {joined(hidden)}")
    return on_table(table, Finding(every(*steeper.values()), "; ".join(figures)))


def row_wise_is_steep(book: Measurements) -> Finding:
    """Whether NumPy's row-wise Adam is nearly in proportion, and more so than dense Adam."""
    table = table_of(book)
    dense, rows = (length_exponents(book, way, table)["numpy"] for way in ("adam", "adam-rows"))
    return on_table(table, Finding(every(higher(rows, dense), above(0.85)(rows)), f"{rows} against {dense}"))


claim(
    1,
    "Time grows sub-linearly with sentence length: with a large trained table the exponent is below 1 on every stack.",
    sub_linear,
    source="S0, C4",
)
claim(
    3,
    "The table's update is the cause: with the table frozen the exponent is higher, on every stack.",
    frozen_is_steeper,
)
claim(
    7,
    "Adam that updates only the batch's rows has an exponent above 0.85 on NumPy, and above that of dense Adam.",
    row_wise_is_steep,
)


@quantity
def growths(book: Measurements, start: int = SHORT, end: int = LONG, **asked: Any) -> Values:
    """How many times as long a step with `end` tokens takes as one with `start`, by stack that ran both.

    asked: the fields that differ from the usual ones.
    """
    ran = book.points(vocabulary=TABLE, length=[start, end], **asked).dropna(subset="step_s")
    lengths = ran.groupby("stack", sort=False)["length"].nunique()
    ends = [{"length": tokens} for tokens in (start, end)]
    sides = {stack: book.sides(*ends, stack=stack, vocabulary=TABLE, **asked) for stack in lengths.index[lengths == 2]}
    return Values({stack: side.interval(lambda s: s[1] / s[0]) for stack, side in sides.items()}, ".1f")


# The table and the overhead, whose cost does not grow with the length


@quantity
def added_growths(book: Measurements) -> Values:
    """How many times as much training the table adds to a step of LONG tokens as to one of SHORT, by stack."""
    points = stored.chosen(by_length(book).dropna(subset="step_s"), vocabulary=TABLE)
    steps = points.pivot_table("step_s", "stack", ["how", "length"], sort=False)
    short_s, long_s = (steps["adam", at] - steps["frozen", at] for at in (SHORT, LONG))
    return exact((long_s / short_s).dropna().to_dict(), ".1f")


def table_shares(book: Measurements) -> "pd.Series[float]":
    """The share of a step with 280,000 rows that one with 5,000 does not take, at 25 tokens, by stack."""
    points = book.points(vocabulary=[5_000, TABLE])
    steps = points.pivot_table("step_s", "stack", "vocabulary", sort=False)
    return (1 - steps[5_000] / steps[TABLE]).dropna()


ON_GPU: dict[str, Any] = {"device": "gpu", "kernel": "cudnn"}
CELLS: dict[str, Any] = {"device": "gpu", "kernel": "loop-of-cells"}
# The first process of its session, three times as long as with more tokens; doubtful while it is the only run.
DOUBTFUL = ("2026-torch", "cudnn", SHORT)


def on_gpu(book: Measurements) -> pd.DataFrame:
    """Steps on the machine's GPU by length, with cuDNN's kernel and as a loop of cells; empty without one."""
    kernels = [each["kernel"] for each in (ON_GPU, CELLS)]
    points = book.points(vocabulary=TABLE, length=[SHORT, 25, LONG], device="gpu", kernel=kernels)
    return points.dropna(subset="step_s").sort_values(["stack", "kernel", "length"])


@quantity
def gpu_table_shares(book: Measurements) -> Values:
    """The share of a step with 280,000 rows that one with 20,000 does not take, on the GPU, by stack."""
    smaller = vocabulary.card_growth(book, TABLE).inverse().by_name
    shares = {stack: Interval(1 - of.value, 1 - of.high, 1 - of.low) for stack, of in smaller.items()}
    return Values(shares, ".0f", 100, "%")


def gpu_table(book: Measurements) -> HTML:
    """Milliseconds a step on the GPU by length, a row a stack and kernel; of several runs how many they are."""
    texts: dict[str, dict[str, str]] = {}
    for row in on_gpu(book).itertuples():
        doubtful = row.runs == 1 and (row.stack, row.kernel, row.length) == DOUBTFUL
        remark = " (doubtful)" if doubtful else f" ({row.runs} runs)" if row.runs > 1 else ""
        way = f"{row.stack}, {'loop of cells' if row.kernel == CELLS['kernel'] else 'cuDNN'}"
        texts.setdefault(way, {})[f"{row.length} tokens"] = f"{row.step_s * 1e3:.1f}{remark}"
    table = pd.DataFrame(texts).T.rename_axis("way").reset_index()
    return page.columns(table, way="ms per step", **{name: name for name in table.columns[1:]})


# Padding: what it costs, and what a mask saves


PADDED, WORDS = 100, 25  # tokens of a padded sentence, and how many of them are words
ALONE, PADDING, MASKED, WHOLE = "25 words", "25 words padded to 100", "25 words padded to 100, masked", "100 words"
CASES: dict[str, dict[str, Any]] = {
    ALONE: {"length": WORDS},
    PADDING: {"length": PADDED, "words": WORDS},
    MASKED: {"length": PADDED, "words": WORDS, "mask": True},
    WHOLE: {"length": PADDED},
}


def padded_steps(book: Measurements) -> pd.DataFrame:
    """Typical step of CASES, s, a column each, a row for each stack on which a mask was measured."""
    points = {name: book.points(vocabulary=SMALL_TABLE, **case).dropna(subset="step_s") for name, case in CASES.items()}
    steps = pd.DataFrame({name: each.set_index("stack")["step_s"] for name, each in points.items()})
    return steps.reindex(points[MASKED]["stack"]).rename_axis("stack")


@quantity
def padding(book: Measurements, below: str, above: str) -> Values:
    """How many times as long a step of one of CASES takes as one of another, by stack on which a mask was measured."""
    ends = [CASES[below], CASES[above]]
    sides = {stack: book.sides(*ends, stack=stack, vocabulary=SMALL_TABLE) for stack in padded_steps(book).index}
    return Values({stack: each.interval(lambda s: s[1] / s[0]) for stack, each in sides.items()})


def padded_table(book: Measurements) -> HTML:
    """Milliseconds a step of 25 words, of the same padded to 100 tokens without and with a mask, and of 100 words."""
    rows = padded_steps(book)
    return page.columns(rows.reset_index(), stack="ms per step", **{name: (name, 1e3, ".0f") for name in rows})
