"""Chapter 05, sentence length: the points it shows, what it foretells from one length, and what it claims."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pandas as pd

from traintime.book import page, stored
from traintime.book.claims import Claim, Finding, every
from traintime.book.plots import short
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula
from traintime.explain.statistics import Interval

TABLE = 280_000  # rows, the document's
SMALLER = [20_000, 1_000]  # rows
LENGTHS = [3, 10, 25, 100, 400]  # tokens
AT = 25  # tokens, where the prediction is made from
PADDED, WORDS = 100, 25  # tokens of a padded sentence, and how many of them are words


# The points


def ways(found: pd.DataFrame, table: int = TABLE) -> pd.Series:
    """What differs from Adam on a table of `table` rows: how it is trained, or how many rows it has."""
    rows = found["vocabulary"].map(lambda value: f"{short(value)} rows")
    return stored.how(found).where(found["vocabulary"] == table, rows)


def by_length(book: Measurements, batch: int = 100, table: int = TABLE) -> pd.DataFrame:
    """The sweeps over sentence length, with `how` saying what differs; only lines of three lengths or more.

    The table of `table` rows in every way of training, and smaller ones (20,000 and 1,000 rows) with Adam.
    """
    found = book.points(
        vocabulary=sorted({table, *SMALLER}),
        length=ANY,
        batch=batch,
        optimizer=["adam", "sgd", "adam-rows"],
        frozen=[False, True],
    )
    found = found[(found["vocabulary"] == table) | (found["how"] == "adam")]
    found = found.assign(how=ways(found, table))
    lengths = found.dropna(subset="step_s").groupby(["stack", "how"])["length"].nunique()
    several = [lengths.get((row.stack, row.how), 0) > 2 for row in found.itertuples()]
    return found[np.array(several, dtype=bool)]


def table_of(book: Measurements) -> int:
    """The largest table that was measured frozen at three lengths or more, rows. Raises IndexError where none was."""
    found = book.points(vocabulary=ANY, length=ANY, frozen=True).dropna(subset="step_s")
    lengths = found.groupby(["stack", "vocabulary"])["length"].nunique()
    return sorted(vocabulary for (_, vocabulary), number in lengths.items() if number > 2)[-1]


def exponents(book: Measurements, table: int = TABLE) -> pd.DataFrame:
    """Apparent exponents in the sentence length, a row a way of training and stack (index `how`, `stack`)."""
    return book.exponents(by_length(book, table=table), "length").set_index(["how", "stack"]).sort_index()


def tail(book: Measurements) -> pd.DataFrame:
    """The frozen model's exponent between its longest sentences, 100 tokens and more, by stack."""
    found = by_length(book)
    found = found[(found["how"] == "frozen") & (found["length"] >= 100)]
    return book.exponents(found, "length").set_index("stack")


# Our prediction


def predicted(book: Measurements, lengths: list[int] = LENGTHS, draws: int = 2000) -> pd.DataFrame:
    """The exponent over these lengths that two measurements at 25 tokens foretell: 280,000 rows, and 5,000.

    What does not grow with the length is the table's share, the difference of the two. Columns share, exponent, low,
    high (95 %, by the run-to-run error of the two), index stack; stacks that lack one of the two are left out.
    """
    found = book.points(vocabulary=[5_000, TABLE]).dropna(subset="step_s")
    x = np.log(lengths) - np.log(lengths).mean()
    rows = {}
    for seed, (stack, pair) in enumerate(found.groupby("stack", sort=False)):
        if len(pair) == 2:
            pair = pair.sort_values("vocabulary")
            seconds = pair["step_s"].to_numpy()
            again = formula.repeated(seconds, pair["invocations"].to_numpy(), book.spread(stack, "step_s"))
            random = np.random.default_rng(seed)
            small, large = np.array([seconds, *(again(random) for _ in range(draws))]).T[..., None]
            curves = np.log(np.maximum(large - small, 0) + small * np.array(lengths) / AT)
            slopes = curves @ x / (x @ x)
            guess = formula.interval(pd.Series(slopes[1:]), float(slopes[0]))
            share = 1 - seconds[0] / seconds[1]
            rows[stack] = {"share": share, "exponent": guess.value, "low": guess.low, "high": guess.high}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["share", "exponent", "low", "high"])


def missed(book: Measurements) -> dict[str, Interval]:
    """How far the measured exponent with Adam lies above the predicted one, for each stack that has both."""
    found = by_length(book)
    found = found[found["how"] == "adam"]
    measured = book.exponents(found, "length").set_index("stack")
    off = {}
    for stack, row in measured.iterrows():
        guesses = predicted(book, sorted(found.loc[found["stack"] == stack, "length"].unique()))
        if stack in guesses.index:
            guess = stored.interval(guesses.loc[stack], "exponent")
            value = row["exponent"] - guess.value
            low = value - float(np.hypot(row["exponent"] - row["low"], guess.high - guess.value))
            high = value + float(np.hypot(row["high"] - row["exponent"], guess.value - guess.low))
            off[stack] = Interval(value, low, high)
    return off


# Padding


def padding(book: Measurements) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ratios of padded to whole sentences, and of masked to padded ones, on 20,000 rows; a row a stack.

    25 words padded to 100 tokens, beside 100 words. Columns as Measurements.ratios gives them.
    """
    found = book.invocations(vocabulary=20_000, length=PADDED, words=[None, WORDS], mask=[False, True])
    found = found.assign(words=found["words"].fillna(PADDED).astype(int), mask=found["mask"].astype(bool))
    pads = book.ratios(found, [(WORDS, PADDED)], of="words", against="length")
    masks = book.ratios(found[found["words"] == WORDS], [(True, False)], of="mask", against="length")
    return pads, masks


def padded(book: Measurements) -> pd.DataFrame:
    """Steps (s) of 25 words, of the same padded to 100 tokens without and with a mask, and of 100 words, by stack."""
    cases = {
        "25 words": {"length": WORDS},
        "25 words padded to 100": {"length": PADDED, "words": WORDS},
        "25 words padded to 100, masked": {"length": PADDED, "words": WORDS, "mask": True},
        "100 words": {"length": PADDED},
    }
    found = {name: book.points(vocabulary=20_000, **case).set_index("stack")["step_s"] for name, case in cases.items()}
    return pd.DataFrame(found).reindex(found["25 words padded to 100, masked"].index)


# What is claimed


def _beyond(value: Interval, limit: float, side: Literal["below", "above"]) -> bool | None:
    """Whether a value lies on that side of a limit; None where its interval does not decide, or does not exist."""
    if side == "above":
        value, limit = Interval(-value.value, -value.high, -value.low), -limit
    return True if value.high < limit else False if value.low > limit else None


def _higher(one: Interval, other: Interval) -> bool | None:
    """Whether one interval lies above another; None where they overlap, or one does not exist."""
    return True if one.low > other.high else False if one.high < other.low else None


def _intervals(found: pd.DataFrame) -> dict[str, Interval]:
    return {stack: stored.interval(row, "exponent") for stack, row in found.iterrows()}


def _range(found: pd.DataFrame) -> str:
    """Exponents of several stacks: "0.11 to 0.43"."""
    low, high = f"{found['exponent'].min():.2f}", f"{found['exponent'].max():.2f}"
    return low if low == high else f"{low} to {high}"


def _on(stacks: list[str] | pd.Index) -> str:
    """Names as a sentence has them: "numpy", "numpy and 2017-theano"."""
    names = list(stacks)
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _whole(found: pd.DataFrame) -> pd.DataFrame:
    """The stacks that were measured from 3 to 400 tokens. Raises KeyError without any."""
    found = found[(found["from"] <= LENGTHS[0]) & (found["to"] >= LENGTHS[-1])]
    if found.empty:
        raise KeyError("no stack was measured from 3 to 400 tokens")
    return found


def _limited(way: str, limit: float, side: Literal["below", "above"]) -> Callable[[Measurements], Finding]:
    """Judge whether each stack's exponent from 3 to 400 tokens, on 280,000 rows, lies on that side of a limit."""

    def find(book: Measurements) -> Finding:
        found = _whole(exponents(book).loc[way])
        nearest = found["exponent"].idxmax() if side == "below" else found["exponent"].idxmin()
        holds = every(*(_beyond(value, limit, side) for value in _intervals(found).values()))
        return Finding(holds, f"{_range(found)}; nearest {nearest} {page.span(found.loc[nearest], 'exponent')}")

    return find


def _sub_linear(book: Measurements) -> Finding:
    table = table_of(book)
    found = exponents(book, table).loc["adam"]
    steepest = found["exponent"].idxmax()
    holds = every(*(_beyond(value, 1, "below") for value in _intervals(found).values()))
    shown = f"{table:,} rows: {_range(found)}; steepest {steepest} {page.span(found.loc[steepest], 'exponent')}"
    return Finding(holds, shown)


def _frozen_steeper(book: Measurements) -> Finding:
    table = table_of(book)
    found = exponents(book, table)
    still, free = _intervals(found.loc["adam"]), _intervals(found.loc["frozen"])
    both = [stack for stack in still if stack in free]
    holds = every(*(_higher(free[stack], still[stack]) for stack in both))
    ranges = [_range(found.loc[way].loc[both]) for way in ("adam", "frozen")]
    return Finding(holds, f"{table:,} rows: {ranges[0]}, frozen {ranges[1]}")


def _smaller_steeper(book: Measurements) -> Finding:
    found = exponents(book)
    sizes = [name for name in ("adam", "20K rows", "1K rows") if name in found.index.get_level_values("how")]
    verdicts = []
    for larger, smaller in zip(sizes, sizes[1:], strict=False):
        one, two = _intervals(found.loc[larger]), _intervals(found.loc[smaller])
        verdicts += [_higher(two[stack], one[stack]) for stack in one if stack in two]
    names = {"adam": "280K rows"}
    return Finding(every(*verdicts), "; ".join(f"{names.get(s, s)} {_range(found.loc[s])}" for s in sizes))


def _sgd_between(book: Measurements) -> Finding:
    table = table_of(book)
    found = exponents(book, table)
    adam, sgd, frozen = (_intervals(found.loc[way]) for way in ("adam", "sgd", "frozen"))
    both = [stack for stack in sgd if stack in adam and stack in frozen]
    steps = [(_higher(sgd[stack], adam[stack]), _higher(frozen[stack], sgd[stack])) for stack in both]
    hidden = [stack for stack, parts in zip(both, steps, strict=True) if None in parts]
    tail = f"; intervals overlap on {_on(hidden)}" if hidden else ""
    return Finding(every(*(part for parts in steps for part in parts)), f"{_range(found.loc['sgd'])}{tail}")


def _rows_steeper(book: Measurements) -> Finding:
    table = table_of(book)
    found = exponents(book, table)
    dense = stored.interval(found.loc[("adam", "numpy")], "exponent")
    rows = stored.interval(found.loc[("adam-rows", "numpy")], "exponent")
    holds = every(_higher(rows, dense), _beyond(rows, 0.85, "above"))
    return Finding(holds, f"{table:,} rows: {rows.text()} against {dense.text()}")


def _foretold(book: Measurements) -> Finding:
    off = missed(book)
    worst = max(off, key=lambda stack: abs(off[stack].value), default="")
    parts = [_beyond(value, 0.1, "below") for value in off.values()]
    parts += [_beyond(value, -0.1, "above") for value in off.values()]
    return Finding(every(*parts), f"worst {worst} {off[worst].text('+.2f')}")


def _proportional(book: Measurements) -> Finding:
    found = tail(book)
    least = found["exponent"].idxmin()
    holds = every(*(_beyond(value, 0.9, "above") for value in _intervals(found).values()))
    return Finding(holds, f"{_range(found)}; least {least} {page.span(found.loc[least], 'exponent')}")


def _ratio_above(place: int, limit: float) -> Callable[[Measurements], Finding | None]:
    """Judge whether each ratio of a table of `padding` is above a limit; nothing is said of what ran at other times."""

    def find(book: Measurements) -> Finding | None:
        found = padding(book)[place]
        if found.empty:
            return None
        apart = found["reason"] == "not interleaved"
        parts = [None if away else _beyond(stored.interval(row), limit, "above")
                 for away, (_, row) in zip(apart, found.iterrows(), strict=True)]
        least = found.loc[found["ratio"].idxmin()]
        aside = ", not interleaved" if apart.any() else ""
        return Finding(every(*parts), f"least {least['stack']} {page.span(least)}{aside}")

    return find


CLAIMS = [
    Claim(
        "05.1",
        "Time is sub-linear in sentence length: with a large table in training, the exponent is below 1 on every "
        "stack.",
        "S0, C4",
        _sub_linear,
    ),
    Claim(
        "05.2",
        "With Adam on 280,000 rows, from 3 to 400 tokens, it is below 0.5.",
        "ours",
        _limited("adam", 0.5, "below"),
    ),
    Claim(
        "05.3",
        "The table's update is the cause: with the table frozen the exponent is higher, on every stack.",
        "ours",
        _frozen_steeper,
    ),
    Claim(
        "05.4",
        "With 280,000 rows frozen, from 3 to 400 tokens, it is above 0.85.",
        "ours",
        _limited("frozen", 0.85, "above"),
    ),
    Claim(
        "05.5",
        "The fewer rows the table has, the higher the exponent, on every stack.",
        "ours",
        _smaller_steeper,
    ),
    Claim(
        "05.6",
        "With plain SGD it lies between Adam's and the frozen table's, on every stack.",
        "ours",
        _sgd_between,
    ),
    Claim(
        "05.7",
        "Adam that writes only the batch's rows takes NumPy's exponent above 0.85, and above that of dense Adam.",
        "ours",
        _rows_steeper,
    ),
    Claim(
        "05.8",
        "Two measurements at 25 tokens, 280,000 rows and 5,000, foretell the exponent with Adam to within 0.1.",
        "ours",
        _foretold,
    ),
    Claim(
        "05.9",
        "Frozen, from 100 tokens on, it is above 0.9 on every stack.",
        "ours",
        _proportional,
    ),
    Claim(
        "05.10",
        "A padded token costs what a word costs: 25 words padded to 100 take at least 0.85 times as long as 100 words.",
        "ours",
        _ratio_above(0, 0.85),
    ),
    Claim(
        "05.11",
        "A mask gives no time back: with it a padded step takes at least 0.9 times as long as without.",
        "ours",
        _ratio_above(1, 0.9),
    ),
]
