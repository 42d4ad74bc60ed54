"""Chapter 3, vocabulary: what a row of the embedding table costs per step, what a frozen table costs, and a GPU."""

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import claims, external, page, stored
from traintime.book.plots import short
from traintime.book.stored import Measurements
from traintime.book.values import Values, quantity
from traintime.explain.statistics import Interval
from traintime.point import fields
from traintime.workloads.base import UPDATES

VOCABULARIES = [5_000, 20_000, 80_000, 280_000, 800_000, 2_000_000]  # rows, of the full-size sweep
PRICED = (80_000, 280_000)  # rows between which the price of a row is taken
WAYS = ["adam", "sgd", "frozen"]
REPEATED = 3  # invocations that a point needs for a comparison of the ways of training
LARGE = 800_000  # rows of a table at which a straight line is tried
Name = tuple[str, str]  # stack, how
claim = claims.of_chapter("03")


@functools.cache
def by_vocabulary(book: Measurements) -> pd.DataFrame:
    """The sweep over the vocabulary as the model stands: the table trained with Adam."""
    return book.points(vocabulary=VOCABULARIES)


# The price of a row


def bytes_a_row() -> int:
    """Bytes that Adam must move for each row of the table at every step."""
    return UPDATES["adam"].bytes * fields()["embedding"].default


def floor_s(book: Measurements) -> float:
    """Seconds that moving them takes at the memory's speed. Raises KeyError where nobody measured that speed."""
    return bytes_a_row() / book.rates["bandwidth_bytes_per_s"]


def price_of_a_row(book: Measurements, found: pd.DataFrame, between: tuple[int, int] = PRICED) -> dict[Name, Interval]:
    """Seconds a step that each further row costs, by stack and way of training (`how`).

    The book's one definition: the step at the larger of two vocabularies less the step at the smaller, over the rows
    between them; 80,000 and 280,000 rows unless the page names others. Both are above glibc's mapping threshold, every
    machine and stack has them, and no line has to fit. Both steps are of the same rounds where some measured both. A
    stack without both has no cost.
    """
    names = list(found[["stack", "how"]].drop_duplicates().itertuples(index=False, name=None))
    pairs = {name: pair_of(found, name, between) for name in names}
    return {
        name: book.interval(lambda s: (s[1] - s[0]) / (between[1] - between[0]), pair)
        for name, pair in pairs.items()
        if len(pair) == 2
    }


def pair_of(found: pd.DataFrame, name: Name, between: tuple[int, int]) -> pd.DataFrame:
    """The points of a stack and way of training at two vocabularies, the smaller first; fewer where one has no time."""
    rows = stored.chosen(found, stack=name[0], how=name[1]).dropna(subset="step_s")
    return rows[rows["vocabulary"].isin(between)].sort_values("vocabulary")


@quantity
def with_adam(book: Measurements) -> Values:
    """Seconds a step that a further row costs with Adam, by stack; written as ms for 100,000 rows."""
    prices = price_of_a_row(book, by_vocabulary(book))
    return Values({stack: price for (stack, _), price in prices.items()}, ".0f", 1e8, "ms")


@quantity
def floors(book: Measurements) -> Values:
    """The same in units of the machine's floor."""
    return Values({stack: price.scaled(1 / floor_s(book)) for stack, price in with_adam(book).by_name.items()}, ".1f")


def ratio_of_prices(
    book: Measurements, found: pd.DataFrame, above: Name, below: Name, between: tuple[int, int] = PRICED
) -> Interval:
    """How many times as much a row costs in one (stack, how) as in another. Raises KeyError where one has no cost."""
    pairs = [pair_of(found, name, between) for name in (above, below)]
    if any(len(pair) < 2 for pair in pairs):
        raise KeyError("a row has no known cost")
    # The rows between the two steps of each are the same.
    return book.interval(lambda s: (s[1] - s[0]) / (s[3] - s[2]), pd.concat(pairs))


@quantity
def dearest_over_cheapest(book: Measurements) -> Values:
    """How many times as much a row costs on the slowest stack as on the fastest. Raises KeyError without two."""
    least, most = (number.name for number in floors(book).extremes)
    ratio = ratio_of_prices(book, by_vocabulary(book), (most, "adam"), (least, "adam"))
    return Values({f"{most} over {least}": ratio}, ".1f")


@quantity
def too_short(book: Measurements) -> Values:
    """Share of the step at the largest vocabulary by which a straight line through all of a stack's is too short.

    Of the stacks on which a LARGE table or a larger one ran. The interval is that of the largest step.
    """
    missed, found = {}, by_vocabulary(book)
    for (stack, how), line in book.lines(found).items():
        last = stored.chosen(found, stack=stack, how=how).dropna(subset="step_s").nlargest(1, "vocabulary")
        row, predicted = last.iloc[0], float(line.predict(last)[0])
        if row["vocabulary"] >= LARGE:
            missed[stack] = Interval(*(1 - predicted / row[name] for name in ("step_s", "low_s", "high_s")))
    return Values(missed, ".0%")


claim(
    1,
    "From 80,000 to 280,000 rows each further row costs more than moving Adam's bytes for it at the memory's speed "
    "(the floor), on every stack.",
    lambda book: floors(book) > 1,
)
claim(
    3,
    "From 80,000 to 280,000 rows each further row costs more than 3 times as much on one stack as on another.",
    lambda book: dearest_over_cheapest(book) > 3,
)


# The interventions


@functools.cache
def by_way(book: Measurements) -> pd.DataFrame:
    """The points of the sweep over the vocabulary in each way of training the table."""
    return book.points(vocabulary=VOCABULARIES, optimizer=["adam", "sgd"], frozen=[False, True])


def intervened(book: Measurements) -> pd.DataFrame:
    """The points of those stacks on which every way of training was tried at two vocabularies or more."""
    points = by_way(book)
    points = points[points["how"].isin(WAYS)]
    sizes = points.groupby(["stack", "how"])["vocabulary"].nunique().unstack(fill_value=0)
    return points[points["stack"].isin(sizes.index[(sizes.reindex(columns=WAYS, fill_value=0) > 1).all(axis=1)])]


@functools.cache
def growth(book: Measurements) -> pd.DataFrame:
    """What the table's size costs in each way of training, a row a stack and `how`.

    Over the vocabularies, from 20,000 rows on, that ran three times or more in every way on that stack (where nothing
    was repeated, that ran), so that they can be compared and no single run decides. Columns: from, to (rows), times
    (Interval: step at the largest over step at the smallest, geometric means of medians), share (Interval: what a row
    costs between the two in units of Adam's).
    """
    rows = []
    often = intervened(book).dropna(subset="step_s")
    often = often[often["invocations"] >= min(REPEATED, often["invocations"].max())] if len(often) else often
    for stack, group in often.groupby("stack", sort=False):
        tried = group.groupby("vocabulary")["how"].nunique()
        shared = sorted(tried.index[(tried == len(WAYS)) & (tried.index >= min(VOCABULARIES[1], tried.index.max()))])
        if len(shared) < 2:
            continue
        ends = int(shared[0]), int(shared[-1])
        for how in WAYS:
            times = book.interval(lambda s: s[1] / s[0], pair_of(group, (stack, how), ends))
            names = (stack, how), (stack, "adam")
            share = Interval(1.0) if how == "adam" else ratio_of_prices(book, group, *names, ends)
            row = {"stack": stack, "how": how, "from": ends[0], "to": ends[1]}
            rows.append(row | {"times": times, "share": share})
    return pd.DataFrame(rows, columns=["stack", "how", "from", "to", "times", "share"])


@quantity
def shares(book: Measurements, how: str, of: str = "share") -> Values:
    """What a row costs in a way of training, as a share of Adam's, by stack; or the `times` of growth."""
    found = stored.chosen(growth(book), how=how).set_index("stack")[of]
    return Values(found.to_dict(), "z.0%" if how == "sgd" else "z.1%")


claim(
    5,
    "With the table frozen, a row costs less than 5 % of what it costs with Adam, on every stack that was measured.",
    lambda book: shares(book, "frozen") < 0.05,
    says="inconclusive",
)
claim(6, "With plain SGD a row costs less than with Adam, on every such stack.", lambda book: shares(book, "sgd") < 1)


# On a card, next to its data sheet's bandwidth


SMALL, MIDDLE, MOST = 20_000, 280_000, 2_000_000  # rows
ON_CARD = {"device": "gpu", "kernel": "cudnn"}
SHEETS = {"NVIDIA H200": "H200-SXM"}  # what a card calls itself -> data/external/hardware.csv


@functools.cache
def on_card(book: Measurements) -> pd.DataFrame:
    """A machine's steps on its GPU over the vocabulary, with cuDNN's kernel for the LSTM; empty without one."""
    return book.points(vocabulary=[SMALL, MIDDLE, MOST], **ON_CARD)


def card() -> Measurements:
    """The first of the book's machines that ran the vocabulary on a GPU."""
    return stored.having(stored.of(), on_card)


@quantity
def card_growth(book: Measurements, rows: int) -> Values:
    """Times longer a step takes with so many rows than with the fewest, by stack."""
    sides = [{"vocabulary": each} | ON_CARD for each in (SMALL, rows)]
    stacks = stored.stack_order(on_card(book)["stack"])
    grown = {stack: book.sides(*sides, stack=stack).interval(lambda s: s[1] / s[0]) for stack in stacks}
    return Values(grown, unit="times")


def card_floor_s(book: Measurements) -> float:
    """Seconds that moving Adam's bytes of a row takes at the bandwidth of the card's data sheet."""
    return bytes_a_row() / external.hardware(SHEETS[book.card])["bandwidth peak"]


@quantity
def card_floors(book: Measurements) -> Values:
    """What a further row of a large table costs in units of that floor, by stack."""
    prices = price_of_a_row(book, on_card(book), (MIDDLE, MOST))
    return Values({stack: price.scaled(1 / card_floor_s(book)) for (stack, _), price in prices.items()}, ".1f")


claim(
    11,
    "On a GPU a step with 2,000,000 rows takes more than twice as long as one with 20,000, on torch and on JAX.",
    lambda book: card_growth(book, MOST) > 2,
    on=card,
)


# What the page shows


def per_row_table(book: Measurements) -> HTML:
    """What each stack pays per row, also in units of the floor."""
    over_floor = floors(book)
    return page.columns(
        pd.DataFrame({"stack": list(over_floor), "price": list(with_adam(book).by_name.values())}),
        fold="Every stack: cost per row",
        stack="stack",
        price=(f"ns per row, {short(PRICED[0])} to {short(PRICED[1])}", 1e9, ",.0f"),
        floors=("in units of the floor", lambda row: over_floor[row["stack"]].alone),
    )


def here_table(live: Measurements, book: Measurements, points: pd.DataFrame) -> HTML:
    """This run's steps at its smallest and largest table, and a row's cost between them next to the stored one.

    A cost is a difference of steps: where each was run once it may be noise, and is not shown.

    points: of this run, with Adam, with SGD and frozen; book: the machine whose stored cost is shown.
    """
    ran = points.dropna(subset="step_s")
    ends = (int(ran["vocabulary"].min()), int(ran["vocabulary"].max())) if len(ran) else PRICED
    here, known = price_of_a_row(live, ran, ends), price_of_a_row(book, by_way(book))

    def cost(row: pd.Series) -> str:
        return here[row["name"]].text("z,.0f", 1e9) if np.isfinite(here[row["name"]].low) else "one run"

    def step(rows: int) -> Callable[[pd.Series], str]:
        return lambda row: f"{pair_of(ran, row['name'], (rows, rows))['step_s'].mean() * 1e3:,.0f}"

    return page.columns(
        pd.DataFrame({"name": list(here)}),
        stack=("stack", lambda row: row["name"][0]),
        how=("table", lambda row: row["name"][1]),
        low=(f"ms per step, {short(ends[0])} rows", step(ends[0])),
        high=(f"{short(ends[1])} rows", step(ends[1])),
        here=("ns per row, this run", cost),
        known=(
            f"ns per row, {book.title}",
            lambda row: known[row["name"]].text("z,.0f", 1e9) if row["name"] in known else "",
        ),
    )


def growth_table(book: Measurements) -> HTML:
    """`growth` as a reader sees it."""
    return page.columns(
        growth(book),
        fold="Every stack, in each way of training the table",
        stack="stack",
        how="table",
        ends=("rows", lambda row: f"{short(row['from'])} to {short(row['to'])}"),
        times=("growth of the step", lambda row: f"{row['times'].value:.1f}×"),
        share=(
            "share of Adam's cost",
            lambda row: str(shares(book, row["how"])[row["stack"]]) if row["how"] != "adam" else "",
        ),
    )
