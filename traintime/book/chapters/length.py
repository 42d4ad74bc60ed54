"""Chapter 05, sentence length: the points it shows, what it foretells from one length, and what it claims."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
import pandas as pd

from traintime.book import page, stored
from traintime.book.claims import Claim, Finding, above, below, every
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
    return found[np.array(several, dtype=bool)].reset_index(drop=True)


def table_of(book: Measurements, frozen: bool = True) -> int:
    """The largest table that was measured, frozen or with Adam, at three lengths or more, rows.

    Raises IndexError where none was.
    """
    found = book.points(vocabulary=ANY, length=ANY, frozen=frozen).dropna(subset="step_s")
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


# For the prose


def values(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that this machine cannot give says so."""

    found = exponents(book)

    def of(way: str) -> pd.DataFrame:
        return found.loc[way]

    def end(way: str, which: str) -> str:
        return f"{getattr(of(way)['exponent'], which)():.2f}"

    ways_in = {"adam": "adam", "frozen": "frozen", "tiny": "1K rows", "small": "20K rows", "sgd": "sgd"}
    asked: dict[str, Callable[[], str]] = {
        f"len-{name}-{word}": partial(end, way, which)
        for name, way in ways_in.items()
        for word, which in (("low", "min"), ("high", "max"))
    }
    asked |= {
        "len-apart": lambda: _apart(of("adam"), of("frozen")),
        "len-rows": lambda: page.span(of("adam-rows").loc["numpy"], "exponent"),
        "len-numpy": lambda: page.span(of("adam").loc["numpy"], "exponent"),
        "len-overlap": lambda: _overlap(of("adam"), of("sgd")),
        "len-off": lambda: f"{abs(_worst(book)[1].value):.2f}",
        "len-off-stack": lambda: _worst(book)[0],
        "len-off-beyond": lambda: _off_beyond(book),
        "len-tail-low": lambda: f"{_some(tail(book))['exponent'].min():.2f}",
        "len-tail-high": lambda: f"{_some(tail(book))['exponent'].max():.2f}",
        "len-tail-reach": lambda: _reach(_some(tail(book))),
        "len-tail-slow": lambda: _slowest(book),
        "len-pads-low": lambda: _end_of(padding(book)[0], "min"),
        "len-pads-high": lambda: _end_of(padding(book)[0], "max"),
        "len-pads-verdict": lambda: _verdict(padding(book)[0]),
        "len-masks-low": lambda: _end_of(padding(book)[1], "min"),
        "len-masks-high": lambda: _end_of(padding(book)[1], "max"),
        "len-masks-verdict": lambda: _verdict(padding(book)[1]),
        "len-runs": lambda: f"{_some(by_length(book))['invocations'].median():.0f}",
        "len-noise-low": lambda: f"{_noise(book).min():.0%}",
        "len-noise-high": lambda: f"{_noise(book).max():.0%}",
        "len-tilt": lambda: f"{_tilt(_noise(book).max()):.2f}",
    }
    return {name: page.or_not_measured(give) for name, give in asked.items()}


def _apart(adam: pd.DataFrame, frozen: pd.DataFrame) -> str:
    """On how many stacks frozen's interval lies above Adam's."""
    still, free = _intervals(adam), _intervals(frozen)
    both = [stack for stack in still if stack in free]
    apart = [stack for stack in both if _higher(free[stack], still[stack])]
    return f"on all {len(both)} stacks" if apart == both else f"on {len(apart)} of {len(both)} stacks"


def _overlap(adam: pd.DataFrame, sgd: pd.DataFrame) -> str:
    still, lighter = _intervals(adam), _intervals(sgd)
    shared = [stack for stack in lighter if stack in still and _higher(lighter[stack], still[stack]) is None]
    return f"on {_on(shared)} the two intervals overlap" if shared else "no two intervals overlap"


def _worst(book: Measurements) -> tuple[str, Interval]:
    """The stack whose exponent is farthest from the predicted one, and by how much. Raises KeyError without any."""
    off = missed(book)
    if not off:
        raise KeyError("nothing was predicted")
    worst = max(off, key=lambda stack: abs(off[stack].value))
    return worst, off[worst]


def _off_beyond(book: Measurements) -> str:
    """Where the prediction is off by more than the noise explains."""
    above_it = [stack for stack, value in missed(book).items() if above(value, 0)]
    below_it = [stack for stack, value in missed(book).items() if below(value, 0)]
    if not above_it and not below_it:
        return "on no stack is that more than noise explains"
    parts = [
        f"on {_on(stacks)} the exponent is {word} than predicted by more than noise explains"
        for stacks, word in ((above_it, "higher"), (below_it, "lower"))
        if stacks
    ]
    return "; ".join(parts)


def _reach(found: pd.DataFrame) -> str:
    """On which stacks an exponent's interval holds 1."""
    inside = [stack for stack, value in _intervals(found).items() if 1 in value]
    over = [stack for stack, value in _intervals(found).items() if above(value, 1)]
    under = [stack for stack, value in _intervals(found).items() if below(value, 1)]
    if len(inside) == len(found):
        return "every interval holds 1"
    parts = [f"the interval holds 1 on {_on(inside)}"] if inside else []
    parts += [f"lies {word} 1 on {_on(stacks)}" for stacks, word in ((over, "above"), (under, "below")) if stacks]
    return ", and ".join(parts)


def _slowest(book: Measurements) -> str:
    """Of the largest exponent among the longest sentences: how far the runs of its last point lie apart."""
    steepest = _some(tail(book))["exponent"].idxmax()
    found = by_length(book)
    found = found[(found["how"] == "frozen") & (found["stack"] == steepest)]
    runs = book.values(found.nlargest(1, "length"), "median_s")[0]
    return f"{runs.max() / runs.min():.1f}"


def _end_of(found: pd.DataFrame, which: str) -> str:
    return f"{getattr(_some(found)['ratio'], which)():.2f}"


def _verdict(found: pd.DataFrame) -> str:
    """What may be said of ratios that a sentence calls about 1."""
    if (_some(found)["reason"] == "not interleaved").all():
        return "measured at other times, so that none of it is a verdict"
    told = [str(name) for name in found.loc[found["faster"].notna(), "stack"]]
    return f"a difference that can be told from none on {_on(told)}" if told else "none of which can be told from 1"


def _noise(book: Measurements, invocations: int = 3) -> pd.Series:
    """Noise floors of the stacks that the chapter shows."""
    return book.noise().set_index("stack")[invocations].loc[_some(by_length(book))["stack"].unique()]


def _tilt(share: float) -> float:
    """By how much the exponent over the chapter's lengths is off where the longest step is off by a share."""
    return float(np.polyfit(np.log(LENGTHS), [0] * (len(LENGTHS) - 1) + [np.log(1 + share)], 1)[0])


# What is claimed


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


def _some(found: pd.DataFrame) -> pd.DataFrame:
    """The rows. Raises KeyError where there are none."""
    if found.empty:
        raise KeyError("not measured")
    return found


def _whole(found: pd.DataFrame) -> pd.DataFrame:
    """The stacks that were measured from 3 to 400 tokens. Raises KeyError without any."""
    return _some(found[(found["from"] <= LENGTHS[0]) & (found["to"] >= LENGTHS[-1])])


def _limited(way: str, limit: float, side: Literal["below", "above"]) -> Callable[[Measurements], Finding]:
    """Judge whether each stack's exponent from 3 to 400 tokens, on 280,000 rows, lies on that side of a limit."""

    def find(book: Measurements) -> Finding:
        found = _whole(exponents(book).loc[way])
        nearest = found["exponent"].idxmax() if side == "below" else found["exponent"].idxmin()
        judge = below if side == "below" else above
        holds = every(*(judge(value, limit) for value in _intervals(found).values()))
        return Finding(holds, f"{_range(found)}; nearest {nearest} {page.span(found.loc[nearest], 'exponent')}")

    return find


def _sub_linear(book: Measurements) -> Finding:
    table = table_of(book, frozen=False)
    found = exponents(book, table).loc["adam"]
    steepest = found["exponent"].idxmax()
    holds = every(*(below(value, 1) for value in _intervals(found).values()))
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
    for larger, smaller in pairwise(sizes):
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
    holds = every(_higher(rows, dense), above(rows, 0.85))
    return Finding(holds, f"{table:,} rows: {rows.text()} against {dense.text()}")


def _foretold(book: Measurements) -> Finding:
    off = missed(book)
    worst = max(off, key=lambda stack: abs(off[stack].value), default="")
    parts = [verdict for value in off.values() for verdict in (below(value, 0.1), above(value, -0.1))]
    return Finding(every(*parts), f"worst {worst} {off[worst].text('+.2f')}")


def _proportional(book: Measurements) -> Finding:
    found = _some(tail(book))
    holds = every(*(above(value, 0.9) for value in _intervals(found).values()))
    lowest = found["low"].fillna(found["exponent"]).idxmin()
    return Finding(holds, f"{_range(found)}; lowest {lowest} {page.span(found.loc[lowest], 'exponent')}")


def _ratio_above(place: int, limit: float) -> Callable[[Measurements], Finding]:
    """Judge whether each ratio of a table of `padding` is above a limit; nothing is said of what ran at other times."""

    def find(book: Measurements) -> Finding:
        found = _some(padding(book)[place])
        apart = found["reason"] == "not interleaved"
        parts = [
            None if away else above(stored.interval(row), limit)
            for away, (_, row) in zip(apart, found.iterrows(), strict=True)
        ]
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
