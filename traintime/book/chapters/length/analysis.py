"""Chapter 06, sentence length: the points it shows, what it foretells from one length, and what it claims."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from traintime.book import original, stored
from traintime.book.plots import short
from traintime.book.stored import ANY, Measurements
from traintime.explain import formula
from traintime.explain.statistics import Interval

TABLE = 280_000  # rows, the document's
SMALLER = [20_000, 1_000]  # rows
LENGTHS = [3, 10, 25, 100, 400]  # tokens
AT = 25  # tokens, where the prediction is made from
KEPT = [3, 25, 100]  # tokens, under tcmalloc
LOST = [3, 6, 12, 25, 50, 100, 200, 400]  # tokens, of the document's lost table
STEPS = 10_000  # of the document's epoch at batch 100
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


def kept(book: Measurements) -> pd.DataFrame:
    """Exponents from 3 to 100 tokens by stack under an allocator that keeps its memory, and under glibc.

    Columns glibc and tcmalloc hold intervals, of the stacks that have both. Two sweeps at different times: no verdict.
    """
    sides = {}
    for name in ("glibc", "tcmalloc"):
        found = book.exponents(book.points(vocabulary=TABLE, length=KEPT, allocator=name), "length")
        sides[name] = pd.Series(intervals(found[found["points"] == len(KEPT)].set_index("stack")), dtype=object)
    return pd.DataFrame(sides).dropna().rename_axis("stack")


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


def intervals(found: pd.DataFrame) -> dict[str, Interval]:
    return {stack: stored.interval(row, "exponent") for stack, row in found.iterrows()}


def on(stacks: list[str] | pd.Index) -> str:
    """Names as a sentence has them: "numpy", "numpy and 2017-theano"."""
    names = list(stacks)
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def some(found: pd.DataFrame) -> pd.DataFrame:
    """The rows. Raises KeyError where there are none."""
    if found.empty:
        raise KeyError("not measured")
    return found


# The document's lost table


def lost(draws: int, lengths: Sequence[int] = LOST) -> pd.DataFrame:
    """Seconds of an epoch at each length on the document's devices, from its other two tables.

    What does not grow is the rows; what grows is the sentences' part. Of a GPU's fixed part, launching an LSTM's
    operations is paid for each word, and nobody knows how much of it there was: anything between none and all. Index
    device, length; columns low, middle, high: the middle and 95 % of the draws, over that and the figures' rounding.
    """
    found = {}
    for device, epoch in _epochs(draws).items():
        for tokens in lengths:
            low, middle, high = np.quantile(epoch(tokens), [0.025, 0.5, 0.975])
            found[device, tokens] = {"low": low, "middle": middle, "high": high}
    return pd.DataFrame(found).T.rename_axis(["device", "length"])


def doubled(draws: int) -> dict[str, tuple[float, float]]:
    """How many times as long an epoch of twice the document's length takes: the ends of 95 % of the draws, a device."""
    times = {device: epoch(2 * AT) / epoch(AT) for device, epoch in _epochs(draws).items()}
    return {device: tuple(np.quantile(drawn, [0.025, 0.975])) for device, drawn in times.items()}


def _epochs(draws: int) -> dict[str, Callable[[int], np.ndarray]]:
    """For each of the document's devices: draws of an epoch's seconds as a function of the length."""

    def of(fit: formula.Fit) -> Callable[[int], np.ndarray]:
        share = np.random.default_rng(0).uniform(0, 1, draws)  # of the fixed part that grows with the length
        a, b, c = (fit.draws[name].to_numpy() for name in "abc")

        def epoch(tokens: int) -> np.ndarray:
            grown = tokens / AT
            return (a * (1 - share + share * grown) + b * TABLE + c * 100 * grown) * STEPS

        return epoch

    return {device: of(fit) for device, fit in original.s0_fits(draws).items()}
