"""Chapter 03, vocabulary: which points it shows, what a row costs, what the interventions show, what it claims."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import stored
from traintime.book.plots import short
from traintime.book.stored import Measurements
from traintime.explain import formula, statistics
from traintime.explain.statistics import Interval
from traintime.point import fields
from traintime.workloads.base import UPDATE_BYTES

VOCABULARIES = [5_000, 20_000, 80_000, 280_000, 800_000, 2_000_000]  # rows, of the full-size sweep
PRICED = (80_000, 280_000)  # rows between which the price of a row is taken
WAYS = ["adam", "sgd", "frozen"]
REPEATED = 3  # invocations that a point needs for a comparison of the ways of training
SENTENCES = 1_000_000  # of an epoch
DRAWS = 4000
Name = tuple[str, str]  # stack, how
Drawn = tuple[float, np.ndarray]  # a value, and draws of it


def by_vocabulary(book: Measurements) -> pd.DataFrame:
    """The sweep over the vocabulary as the model stands: the table trained with Adam."""
    return book.points(vocabulary=VOCABULARIES)


# The floor


def bytes_a_row() -> int:
    """Bytes that Adam must move for each row of the table at every step."""
    return UPDATE_BYTES["adam"] * fields()["embedding"].default


def floor_s(book: Measurements) -> float:
    """Seconds that moving them takes at the memory's speed. Raises KeyError where nobody measured that speed."""
    return bytes_a_row() / book.rates["bandwidth_bytes_per_s"]


# The price of a row


def price_of_a_row(book: Measurements, found: pd.DataFrame, between: tuple[int, int] = PRICED) -> dict[Name, Interval]:
    """Seconds a step that each further row costs, by stack and way of training (`how`).

    The book's one definition: the step at the larger of two vocabularies less the step at the smaller, over the rows
    between them; 80,000 and 280,000 rows unless the page names others. Both are above glibc's mapping threshold, every
    machine and stack has them, and no line has to fit. A stack without both has no price. The interval holds the
    run-to-run error of both steps, pooled over the stack's points; without repeats there is none.
    """
    return {
        name: _interval(*price)
        for name, price in drawn_prices(book, found, dict.fromkeys(_names(found), between)).items()
    }


def top_end(book: Measurements, found: pd.DataFrame, low: int = PRICED[1]) -> dict[Name, Interval]:
    """The same between `low` rows and the largest vocabulary that ran."""
    ran = found.dropna(subset="step_s").groupby(["stack", "how"], sort=False)["vocabulary"].max()
    ends = {name: (low, int(largest)) for name, largest in ran.items() if largest > low}
    return {name: _interval(*price) for name, price in drawn_prices(book, found, ends).items()}


def cheapest_and_dearest(prices: Mapping[Name, Interval]) -> tuple[Name, Name]:
    """Of which stack a row costs least, and of which most. Raises KeyError without two."""
    if len(prices) < 2:
        raise KeyError("fewer than two stacks have a price")
    order = sorted(prices, key=lambda name: prices[name].value)
    return order[0], order[-1]


def ratio_of_prices(
    book: Measurements, found: pd.DataFrame, above: Name, below: Name, between: tuple[int, int] = PRICED
) -> Interval:
    """How many times as much a row costs in one (stack, how) as in another. Raises KeyError where one has no price."""
    prices = drawn_prices(book, found, {above: between, below: between})
    return _interval(*(one / two for one, two in zip(prices[above], prices[below], strict=True)))


def _names(found: pd.DataFrame) -> list[Name]:
    return list(found[["stack", "how"]].drop_duplicates().itertuples(index=False, name=None))


def drawn_prices(book: Measurements, found: pd.DataFrame, ends: Mapping[Name, tuple[int, int]]) -> dict[Name, Drawn]:
    """Price of a row between two sizes, and DRAWS draws of it (NaN without repeats), of what has a time at both."""
    prices = {}
    for seed, ((stack, how), between) in enumerate(ends.items()):
        rows = found[(found["stack"] == stack) & (found["how"] == how)].dropna(subset="step_s").set_index("vocabulary")
        if set(between) <= set(rows.index):
            rows = rows.loc[list(between)]
            seconds, numbers = (np.tile(rows[name].to_numpy(float), DRAWS) for name in ("step_s", "invocations"))
            redraw = formula.repeated(seconds, numbers, book.spread(stack, "step_s"))
            drawn = redraw(np.random.default_rng(seed)).reshape(DRAWS, 2)
            width = between[1] - between[0]
            prices[stack, how] = float(seconds[1] - seconds[0]) / width, (drawn[:, 1] - drawn[:, 0]) / width
    return prices


def _interval(value: float, drawn: np.ndarray) -> Interval:
    return formula.interval(pd.Series(drawn), float(value))


def misses(book: Measurements, found: pd.DataFrame, least: int = 800_000) -> dict[str, Interval]:
    """By how much a straight line through all of a stack's vocabularies misses the largest one's step, a share.

    Of the stacks on which a table of `least` rows or more ran. The interval is that of the largest step.
    """
    missed = {}
    for (stack, how), line in book.lines(found).items():
        rows = found[(found["stack"] == stack) & (found["how"] == how)].dropna(subset="step_s")
        last = rows.nlargest(1, "vocabulary")
        row, said = last.iloc[0], float(line.predict(last)[0])
        if row["vocabulary"] >= least:
            missed[stack] = Interval(*(said / row[name] - 1 for name in ("step_s", "high_s", "low_s")))
    return missed


# The interventions


def intervened(book: Measurements) -> pd.DataFrame:
    """The points of those stacks on which every way of training was tried at two vocabularies or more.

    Where one sweep measured all ways in the same rounds its invocations alone, so that nothing lies between the sides
    of the comparison; else all there are.
    """
    wanted: dict[str, Any] = {"vocabulary": VOCABULARIES, "optimizer": ["adam", "sgd"], "frozen": [False, True]}
    together = sweeps_of_all_ways(book.invocations(**wanted))
    if together:
        book = Measurements(book.rows[book.rows["sweep"].isin(together)], book.machine, book.root)
    return in_every_way(book.points(**wanted))


def sweeps_of_all_ways(invocations: pd.DataFrame) -> list[str]:
    """Names of the sweeps that measured every way of training, so that what they measured is interleaved."""
    if invocations.empty:
        return []
    ways = invocations.assign(how=stored.how(invocations)).groupby("sweep")["how"].agg(set)
    return [str(name) for name in ways.index if set(WAYS) <= ways[name]]


def in_every_way(points: pd.DataFrame, against: str = "vocabulary") -> pd.DataFrame:
    """The rows of those stacks on which every way of training was tried at two sizes or more."""
    points = points[points["how"].isin(WAYS)]
    sizes = (
        points.groupby(["stack", "how"])[against].nunique().unstack(fill_value=0).reindex(columns=WAYS, fill_value=0)
    )
    return points[points["stack"].isin(sizes.index[(sizes > 1).all(axis=1)])]


def repeated(points: pd.DataFrame) -> pd.DataFrame:
    """The points that ran three times or more; where nothing was repeated, all that ran."""
    ran = points.dropna(subset="step_s")
    return ran[ran["invocations"] >= min(REPEATED, ran["invocations"].max())] if len(ran) else ran


def singles(points: pd.DataFrame) -> list[str]:
    """Which points ran once only, while others were repeated: they are shown and enter no figure of the prose."""
    ran = points.dropna(subset="step_s")
    lone = ran[ran["invocations"] == 1] if len(ran) and ran["invocations"].max() > 1 else ran[:0]
    return [f"{row.how} on {row.stack} at {short(row.vocabulary)}" for row in lone.itertuples()]


def growth(book: Measurements, points: pd.DataFrame) -> pd.DataFrame:
    """What the table's size costs in each way of training, a row a stack and `how`.

    Over the vocabularies, from 20,000 rows on, that ran three times or more in every way on that stack, so that they
    can be compared and no single run decides. Columns: from, to (rows), times (Interval: step at the largest over
    step at the smallest, geometric means of medians), price (Interval, s a row between the two), share (Interval: the
    price in units of Adam's).
    """
    kept, rows = repeated(points), []
    for stack, group in kept.groupby("stack", sort=False):
        tried = group.groupby("vocabulary")["how"].nunique()
        shared = sorted(tried.index[(tried == len(WAYS)) & (tried.index >= min(VOCABULARIES[1], tried.index.max()))])
        if len(shared) < 2:
            continue
        ends = int(shared[0]), int(shared[-1])
        prices = drawn_prices(book, kept, {(stack, how): ends for how in WAYS})
        for how in WAYS:
            pair = group[group["how"] == how].set_index("vocabulary", drop=False).loc[list(ends)]
            small, large = book.values(pair, "median_s")
            times = statistics.ratio(large, small, book.spread(stack), book.spread(stack))
            price = prices[stack, how]
            share = [one / two for one, two in zip(price, prices[stack, "adam"], strict=True)]
            row = {"stack": stack, "how": how, "from": ends[0], "to": ends[1], "times": times}
            rows.append(row | {"price": _interval(*price), "share": _interval(*share)})
    return pd.DataFrame(rows, columns=["stack", "how", "from", "to", "times", "price", "share"])


def percent(share: Interval, digits: int = 0) -> str:
    return share.text(f"z.{digits}%")
