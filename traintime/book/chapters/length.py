"""Chapter 6, sentence length: how a step grows with it, and what keeps it from growing in proportion.

padding.py has what padding costs.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import markup, page, plots, predictions, stored
from traintime.book.chapters import padding, question  # noqa: F401 (padding's claims are the chapter's, too)
from traintime.book.claims import Finding, above, below, claim, every, every_stack, higher, within
from traintime.book.page import Prose
from traintime.book.plots import short
from traintime.book.stored import ANY, Measurements, largest, smallest
from traintime.explain import statistics
from traintime.explain.statistics import Interval

TABLE = 280_000  # rows, the 2017 post's
SMALLER = [20_000, 1_000]  # rows
LENGTHS = [3, 10, 25, 100, 400]  # tokens
AT = 25  # tokens, where the prediction is made from
SHORT, LONG = 3, 100  # tokens between which a step's growth is told; from the longer on the exponent is taken again
UNDER_BOTH = [3, 25, 100]  # tokens that ran under two allocators
Exponents = Mapping[str, Interval]  # by stack


# How a step grows with the length


def by_length(book: Measurements, table: int = TABLE) -> pd.DataFrame:
    """The sweeps over sentence length, with `how` saying what differs; only lines of three lengths or more.

    The table of `table` rows in every way of training, and smaller ones (20,000 and 1,000 rows) with Adam.
    """
    points = book.points(
        vocabulary=sorted({table, *SMALLER}), length=ANY, optimizer=["adam", "sgd", "adam-rows"], frozen=[False, True]
    )
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


@functools.cache
def slopes(book: Measurements, table: int = TABLE) -> pd.DataFrame:
    """Apparent exponents in the length of the lines of `by_length` (columns: Measurements.exponents)."""
    return book.exponents(by_length(book, table), "length")


def intervals(rows: pd.DataFrame) -> dict[str, Interval]:
    """Exponents of a table by stack. Raises KeyError without any."""
    if rows.empty:
        raise KeyError("not measured")
    return {row["stack"]: stored.interval(row, "exponent") for _, row in rows.iterrows()}


def length_exponents(book: Measurements, way: str, table: int = TABLE, whole: bool = False) -> dict[str, Interval]:
    """Exponents of one way of training, or of a smaller table ("20K rows"), by stack. Raises KeyError without any.

    whole: of the stacks alone that were measured from 3 to 400 tokens.
    """
    rows = stored.chosen(slopes(book, table), how=way)
    return intervals(rows[(rows["from"] <= LENGTHS[0]) & (rows["to"] >= LENGTHS[-1])] if whole else rows)


def rising(lines: Mapping[str, Exponents]) -> Finding:
    """Whether each line's exponent lies above that of the line before, by their intervals, on every stack of both."""
    parts = {
        (stack, larger): higher(lines[larger][stack], lines[smaller][stack])
        for smaller, larger in pairwise(lines)
        for stack in lines[smaller]
        if stack in lines[larger]
    }
    hidden = dict.fromkeys(stack for (stack, _), holds in parts.items() if holds is None)
    ranges = [f"{name} {_lowest(line)} to {_highest(line)}" for name, line in lines.items()]
    overlap = [f"intervals overlap on {_joined(hidden)}"] if hidden else []
    return Finding(every(*parts.values()), "; ".join(ranges + overlap))


def on_table(table: int, finding: Finding) -> Finding:
    """The finding with the table's size in its figure."""
    return Finding(finding.holds, f"{table:,} rows: {finding.figure}")


def _lowest(values: Mapping[str, Interval]) -> str:
    return f"{values[smallest(values)].value:.2f}"


def _highest(values: Mapping[str, Interval]) -> str:
    return f"{values[largest(values)].value:.2f}"


def _joined(stacks: Sequence[str] | Mapping[str, None]) -> str:
    """Names as a sentence has them: "numpy", "numpy and 2017-theano"."""
    *others, last = stacks
    return f"{', '.join(others)} and {last}" if others else last


@claim(
    "06.1",
    "Time grows sub-linearly with sentence length: with a large trained table the exponent is below 1 on every stack.",
    source="S0, C4",
)
def sub_linear(book: Measurements) -> Finding:
    table = table_of(book, frozen=False)
    return on_table(table, every_stack(length_exponents(book, "adam", table), below(1)))


@claim("06.2", "With Adam on 280,000 rows the exponent from 3 to 400 tokens is below 0.5.")
def adam_below_a_half(book: Measurements) -> Finding:
    return every_stack(length_exponents(book, "adam", whole=True), below(0.5))


@claim("06.3", "The table's update is the cause: with the table frozen the exponent is higher, on every stack.")
def frozen_is_steeper(book: Measurements) -> Finding:
    table = table_of(book)
    return on_table(table, rising({way: length_exponents(book, way, table) for way in ("adam", "frozen")}))


@claim("06.4", "With 280,000 rows frozen the exponent from 3 to 400 tokens is above 0.85.", says="inconclusive")
def frozen_is_steep(book: Measurements) -> Finding:
    return every_stack(length_exponents(book, "frozen", whole=True), above(0.85))


@claim("06.5", "With fewer rows in the table the exponent is higher, on every stack.")
def smaller_tables_are_steeper(book: Measurements) -> Finding:
    sizes = {"280K rows": "adam", "20K rows": "20K rows", "1K rows": "1K rows"}
    measured = set(slopes(book)["how"])
    return rising({name: length_exponents(book, way) for name, way in sizes.items() if way in measured})


@claim(
    "06.6",
    "With plain SGD the exponent lies between those with Adam and with the frozen table, on every stack.",
    says="not measured",
)
def sgd_lies_between(book: Measurements) -> Finding:
    table = table_of(book)
    lines = {way: length_exponents(book, way, table) for way in ("adam", "sgd", "frozen")}
    both = [stack for stack in lines["sgd"] if stack in lines["adam"] and stack in lines["frozen"]]
    return on_table(table, rising({way: {stack: line[stack] for stack in both} for way, line in lines.items()}))


@claim(
    "06.7", "Adam that updates only the batch's rows has an exponent above 0.85 on NumPy, and above that of dense Adam."
)
def row_wise_is_steep(book: Measurements) -> Finding:
    table = table_of(book)
    dense, rows = (length_exponents(book, way, table)["numpy"] for way in ("adam", "adam-rows"))
    holds = every(higher(rows, dense), above(0.85)(rows))
    return on_table(table, Finding(holds, f"{rows.text()} against {dense.text()}"))


@functools.cache
def growths(book: Measurements, frozen: bool = False) -> dict[str, Interval]:
    """How many times as long a step of LONG tokens takes as one of SHORT, by stack."""
    ends = [{"length": tokens, "frozen": frozen} for tokens in (SHORT, LONG)]
    stacks = length_exponents(book, "frozen" if frozen else "adam")
    sides = {stack: book.sides(*ends, stack=stack, vocabulary=TABLE) for stack in stacks}
    return {stack: side.interval(lambda s: s[1] / s[0]) for stack, side in sides.items()}


@functools.cache
def trained_less_frozen(book: Measurements) -> pd.DataFrame:
    """Seconds that training the table adds to a step of SHORT and of LONG tokens, a row a stack (short, long)."""
    points = stored.chosen(by_length(book).dropna(subset="step_s"), vocabulary=TABLE)
    steps = points.pivot_table("step_s", "stack", ["how", "length"], sort=False)
    ends = {"short": SHORT, "long": LONG}
    added = {name: steps.loc[:, ("adam", at)] - steps.loc[:, ("frozen", at)] for name, at in ends.items()}
    return pd.DataFrame(added).dropna()


# What two measurements predict


def log_slope(lengths: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Apparent exponent of steps of shape (lengths,) or (lengths, draws): the slope of their logarithms."""
    x = np.log(lengths) - np.log(lengths).mean()
    return x @ np.log(steps) / (x @ x)


def expected(lengths: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """The exponent that follows from the step at 25 tokens on 5,000 rows and on 280,000 (pair, of shape (2, ...)).

    What does not grow with the length is the table's share, the difference of the two; the rest is in proportion.
    """
    small, large = pair
    return log_slope(lengths, np.maximum(large - small, 0) + np.multiply.outer(lengths / AT, small))


def predicted_from(book: Measurements) -> dict[str, pd.DataFrame]:
    """The points that the prediction is made from, by stack: 5,000 rows, then 280,000."""
    points = book.points(vocabulary=[5_000, TABLE]).dropna(subset="step_s").sort_values("vocabulary", kind="stable")
    order = stored.stack_order(points["stack"])
    return {stack: pair for stack in order if len(pair := stored.chosen(points, stack=stack)) == 2}


@functools.cache
def predicted_exponents(book: Measurements) -> pd.DataFrame:
    """What two measurements at 25 tokens say of the exponent over LENGTHS, a row a stack that has both.

    Columns: share (the table's, of the step on 280,000 rows), exponent (Interval, by the error of the two).
    """
    rows = {}
    for stack, pair in predicted_from(book).items():
        small, large = pair["step_s"]
        rows[stack] = [1 - small / large, book.interval(functools.partial(expected, np.array(LENGTHS)), pair)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["share", "exponent"]).rename_axis("stack")


@functools.cache
def prediction_errors(book: Measurements) -> dict[str, Interval]:
    """How far the measured exponent with Adam lies above the predicted one, by stack. Raises KeyError without any."""
    off, lines = {}, stored.chosen(by_length(book), how="adam").dropna(subset="step_s")
    for stack, pair in predicted_from(book).items():
        line = stored.chosen(lines, stack=stack)
        if line.empty:
            continue
        lengths, spreads = line["length"].to_numpy(float), [book.spread(stack)] * len(line)
        # Another seed than the pair's, so that their errors are not alike.
        measured = statistics.redrawn(book.values(line, "median_s"), spreads, arithmetic=False, seed=1)
        before = book.redrawn([stack, stack], book.values(pair))
        value, drawn = (log_slope(lengths, s) - expected(lengths, p) for s, p in zip(measured, before, strict=True))
        off[stack] = statistics.central(drawn, float(value))
    if not off:
        raise KeyError("no stack has both")
    return off


@claim(
    "06.8",
    "Two measurements at 25 tokens, with 280,000 rows and with 5,000, predict the exponent with Adam to within 0.1.",
    says="inconclusive",
)
def prediction_is_near(book: Measurements) -> Finding:
    return every_stack(prediction_errors(book), within(-0.1, 0.1), "+.2f")


# Long sentences, and the allocator


def tail(book: Measurements) -> pd.DataFrame:
    """The frozen model's exponent between its longest sentences, 100 tokens and more, a row a stack."""
    points = stored.chosen(by_length(book), how="frozen")
    return book.exponents(points[points["length"] >= LONG], "length")


@claim(
    "06.9", "With the table frozen the exponent from 100 tokens on is above 0.9 on every stack.", says="inconclusive"
)
def long_sentences_are_in_proportion(book: Measurements) -> Finding:
    return every_stack(intervals(tail(book)), above(0.9))


def under_allocators(book: Measurements) -> pd.DataFrame:
    """Exponents from 3 to 100 tokens by stack under glibc, and under an allocator that keeps freed memory.

    Columns glibc and tcmalloc hold intervals, of the stacks that have both. Two sweeps at different times: no verdict.
    """
    columns = {}
    for name in ("glibc", "tcmalloc"):
        rows = book.exponents(book.points(vocabulary=TABLE, length=UNDER_BOTH, allocator=name), "length")
        rows = stored.chosen(rows, points=len(UNDER_BOTH))
        columns[name] = pd.Series(intervals(rows) if len(rows) else {}, dtype=object)
    return pd.DataFrame(columns).dropna().rename_axis("stack")


@claim(
    "06.12",
    "Under tcmalloc, too, the exponent from 3 to 100 tokens with Adam on 280,000 rows is below 1 on every stack.",
)
def not_the_allocators(book: Measurements) -> Finding:
    return every_stack(under_allocators(book)["tcmalloc"].to_dict(), below(1))


@claim("06.13", "With 280,000 rows frozen the exponent from 3 to 400 tokens is above 0.7.", source="ours, as predicted")
def frozen_as_predicted(book: Measurements) -> Finding:
    return every_stack(length_exponents(book, "frozen", whole=True), above(0.7))


# What the page shows


def exponent_table(book: Measurements) -> HTML:
    """Exponents by way and stack, below the predicted ones."""
    rows = slopes(book)
    rows = rows.assign(text=[page.span(row, "exponent", below=True) for _, row in rows.iterrows()])
    texts = rows.pivot_table("text", "how", "stack", aggfunc="first").reindex(list(plots.WAY)).dropna(how="all")
    guesses = {stack: one.text().replace(" (", "<br>(") for stack, one in predicted_exponents(book)["exponent"].items()}
    guessed = pd.DataFrame([guesses], index=["adam, predicted"]).reindex(columns=texts.columns)
    table = page.frame(pd.concat([guessed, texts]).rename_axis("exponent"))
    return HTML(markup.fold(f"The exponents on {book.title}", table.data))


def lost_table() -> HTML:
    """The 2017 post's lost table, an epoch by length and device, as far as its other two tables determine it."""
    return HTML(
        markup.fold("The lost table, reconstructed", question.reconstructed_table(question.reconstructed()).data)
    )


def _apart(book: Measurements) -> str:
    """On how many stacks frozen's interval lies above Adam's."""
    adam, frozen = length_exponents(book, "adam"), length_exponents(book, "frozen")
    both = [stack for stack in adam if stack in frozen]
    apart = [stack for stack in both if higher(frozen[stack], adam[stack])]
    return f"on all {len(both)} stacks" if apart == both else f"on {len(apart)} of {len(both)} stacks"


def _most_moved(book: Measurements) -> str:
    """Where the allocator changes the exponent most: "from 0.10 to 0.31 on 2020-tensorflow"."""
    pairs = {stack: (row["glibc"].value, row["tcmalloc"].value) for stack, row in under_allocators(book).iterrows()}
    stack = largest({stack: Interval(abs(new - old)) for stack, (old, new) in pairs.items()})
    return "from {:.2f} to {:.2f} on {}".format(*pairs[stack], stack)


def _under_tcmalloc(book: Measurements) -> str:
    """The exponents under tcmalloc, least and most, and of how many stacks."""
    exponents = under_allocators(book)["tcmalloc"].to_dict()
    return f"{_lowest(exponents)} to {_highest(exponents)} on {len(exponents)} stacks"


def _worst(book: Measurements) -> str:
    """The stack whose exponent is farthest from the predicted one. Raises KeyError without any."""
    return largest({stack: Interval(abs(value.value)) for stack, value in prediction_errors(book).items()})


def _reach(book: Measurements) -> str:
    """Where the interval of the longest sentences' exponent lies, stack by stack."""
    values = intervals(tail(book))
    sides = {"includes": lambda value: 1 in value, "lies above": above(1), "lies below": below(1)}
    stacks = {words: [stack for stack, value in values.items() if judge(value)] for words, judge in sides.items()}
    if len(stacks["includes"]) == len(values):
        return "every interval includes 1"
    said = [f"{words} 1 on {_joined(names)}" for words, names in stacks.items() if names]
    return f"the interval {', and '.join(said)}"


def _invocations(book: Measurements) -> str:
    """How many invocations a point has, the median. Raises KeyError without any."""
    if slopes(book).empty:
        raise KeyError("not measured")
    return f"{by_length(book)['invocations'].median():.0f}"


def _noise(book: Measurements) -> pd.Series:
    """Noise floors of three invocations, by stack, of those that the chapter shows. Raises KeyError without any."""
    return book.noise().set_index("stack")[3].loc[list(intervals(slopes(book)))]


def _tilt(share: float) -> float:
    """By how much the exponent over LENGTHS is off where the longest step is off by a share."""
    return float(log_slope(np.array(LENGTHS), np.array([1.0] * (len(LENGTHS) - 1) + [1 + share])))


def _growth(pick: Callable[[Exponents], str], frozen: bool = False) -> Callable[[Measurements], str]:
    """The smallest or largest growth of a step from SHORT to LONG tokens."""
    return lambda book: f"{growths(book, frozen)[pick(growths(book, frozen))].value:.{0 if frozen else 1}f}"


def _added(column: str, stack: str) -> Callable[[Measurements], str]:
    return lambda book: f"{trained_less_frozen(book).loc[stack, column] * 1e3:.0f} ms"


def _added_growth(book: Measurements) -> "pd.Series[float]":
    """How many times as much training the table adds at LONG tokens as at SHORT, by stack."""
    added = stored.measured(trained_less_frozen(book))
    return added["long"] / added["short"]


PROSE = Prose(
    "len",
    grow_low=_growth(smallest),
    grow_high=_growth(largest),
    frozen_grow_least=_growth(smallest, frozen=True),
    added_short=_added("short", "2026-tensorflow"),
    added_long=_added("long", "2026-tensorflow"),
    added_low=lambda book: f"{_added_growth(book).min():.1f}",
    added_high=lambda book: f"{_added_growth(book).max():.1f} ({_added_growth(book).idxmax()})",
    predicted_low=lambda book: _lowest(predicted_exponents(book)["exponent"].to_dict()),
    predicted_high=lambda book: _highest(predicted_exponents(book)["exponent"].to_dict()),
    adam_low=lambda book: _lowest(length_exponents(book, "adam")),
    adam_high=lambda book: _highest(length_exponents(book, "adam")),
    frozen_low=lambda book: _lowest(length_exponents(book, "frozen")),
    frozen_high=lambda book: _highest(length_exponents(book, "frozen")),
    frozen_end=lambda book: f"{max(one.high for one in length_exponents(book, 'frozen').values()):.2f}",
    tiny_low=lambda book: _lowest(length_exponents(book, "1K rows")),
    tiny_high=lambda book: _highest(length_exponents(book, "1K rows")),
    apart=_apart,
    rows=lambda book: length_exponents(book, "adam-rows")["numpy"].text(),
    numpy=lambda book: length_exponents(book, "adam")["numpy"].text(),
    rows_outcome=lambda _: predictions.told("06", "4"),
    off=lambda book: prediction_errors(book)[_worst(book)].text("+.2f"),
    off_stack=_worst,
    off_outcome=lambda _: predictions.told("06", "exponent"),
    tail_low=lambda book: _lowest(intervals(tail(book))),
    tail_high=lambda book: _highest(intervals(tail(book))),
    tail_reach=_reach,
    kept=lambda book: _most_moved(stored.having(book, under_allocators)),
    kept_range=lambda book: _under_tcmalloc(stored.having(book, under_allocators)),
    kept_where=lambda book: stored.having(book, under_allocators).title,
    runs=_invocations,
    noise_low=lambda book: f"{_noise(book).min():.0%}",
    noise_high=lambda book: f"{_noise(book).max():.0%}",
    tilt=lambda book: f"{_tilt(_noise(book).max()):.2f}",
    gpu_table=lambda _: question.PROSE.numbers["GPU-table-share"](question.document()),
    gpu_overhead=lambda _: question.PROSE.numbers["GPU-overhead-share"](question.document()),
    double_cpu=lambda _: question.doubled("CPU"),
    double_gpu=lambda _: question.doubled("GPU"),
)
