"""Chapter 3, vocabulary: what a row of the embedding table costs per step, and what a frozen table costs."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, predictions, stored
from traintime.book.claims import Finding, above, any_stack, below, claim, every_stack
from traintime.book.page import Prose
from traintime.book.plots import short
from traintime.book.stored import Measurements, largest, smallest
from traintime.explain import statistics
from traintime.explain.statistics import Interval
from traintime.point import fields
from traintime.workloads.base import UPDATES

VOCABULARIES = [5_000, 20_000, 80_000, 280_000, 800_000, 2_000_000]  # rows, of the full-size sweep
PRICED = (80_000, 280_000)  # rows between which the price of a row is taken
WAYS = ["adam", "sgd", "frozen"]
REPEATED = 3  # invocations that a point needs for a comparison of the ways of training
LARGE = 800_000  # rows of a table at which a straight line is tried
SENTENCES = 1_000_000  # of an epoch
Name = tuple[str, str]  # stack, how


@functools.cache
def by_vocabulary(book: Measurements) -> pd.DataFrame:
    """The sweep over the vocabulary as the model stands: the table trained with Adam."""
    return book.points(vocabulary=VOCABULARIES)


# The floor: what must move


def bytes_a_row() -> int:
    """Bytes that Adam must move for each row of the table at every step."""
    return UPDATES["adam"].bytes * fields()["embedding"].default


def floor_s(book: Measurements) -> float:
    """Seconds that moving them takes at the memory's speed. Raises KeyError where nobody measured that speed."""
    return bytes_a_row() / book.rates["bandwidth_bytes_per_s"]


# The price of a row


def price_of_a_row(book: Measurements, found: pd.DataFrame, between: tuple[int, int] = PRICED) -> dict[Name, Interval]:
    """Seconds a step that each further row costs, by stack and way of training (`how`).

    The book's one definition: the step at the larger of two vocabularies less the step at the smaller, over the rows
    between them; 80,000 and 280,000 rows unless the page names others. Both are above glibc's mapping threshold, every
    machine and stack has them, and no line has to fit. A stack without both has no cost.
    """
    width = between[1] - between[0]
    pairs = {name: pair_of(found, name, between) for name in _names(found)}
    return {
        name: book.interval(lambda s: (s[1] - s[0]) / width, pair) for name, pair in pairs.items() if len(pair) == 2
    }


def pair_of(found: pd.DataFrame, name: Name, between: tuple[int, int]) -> pd.DataFrame:
    """The points of a stack and way of training at two vocabularies, the smaller first; fewer where one has no time."""
    rows = stored.chosen(found, stack=name[0], how=name[1]).dropna(subset="step_s")
    return rows[rows["vocabulary"].isin(between)].sort_values("vocabulary")


def _names(found: pd.DataFrame) -> list[Name]:
    return list(found[["stack", "how"]].drop_duplicates().itertuples(index=False, name=None))


def in_floors(book: Measurements) -> dict[str, Interval]:
    """The cost of a row with Adam by stack, in units of the machine's floor."""
    prices = price_of_a_row(book, by_vocabulary(book))
    return {stack: price.scaled(1 / floor_s(book)) for (stack, _), price in prices.items()}


def cheapest_and_dearest(prices: Mapping[str, Interval]) -> tuple[str, str]:
    """On which stack a row costs least, and on which most. Raises KeyError without two."""
    if len(prices) < 2:
        raise KeyError("fewer than two stacks have a cost per row")
    return smallest(prices), largest(prices)


def ratio_of_prices(book: Measurements, found: pd.DataFrame, above: Name, below: Name) -> Interval:
    """How many times as much a row costs in one (stack, how) as in another. Raises KeyError where one has no cost."""
    pairs = [pair_of(found, name, PRICED) for name in (above, below)]
    if any(len(pair) < 2 for pair in pairs):
        raise KeyError("a row has no known cost")
    return book.interval(over, pd.concat(pairs))


def over(s: np.ndarray) -> np.ndarray:
    """A row's cost over another's, from the two steps of each; the rows between them are the same."""
    return (s[1] - s[0]) / (s[3] - s[2])


def dearest_over_cheapest(book: Measurements) -> Interval:
    """How many times as much a row costs on the slowest stack as on the fastest."""
    least, most = cheapest_and_dearest(in_floors(book))
    return ratio_of_prices(book, by_vocabulary(book), (most, "adam"), (least, "adam"))


def misses(book: Measurements, found: pd.DataFrame) -> dict[str, Interval]:
    """By how much a straight line through all of a stack's vocabularies misses the largest one's step, a share.

    Of the stacks on which a LARGE table or a larger one ran. The interval is that of the largest step.
    """
    missed = {}
    for (stack, how), line in book.lines(found).items():
        last = stored.chosen(found, stack=stack, how=how).dropna(subset="step_s").nlargest(1, "vocabulary")
        row, predicted = last.iloc[0], float(line.predict(last)[0])
        if row["vocabulary"] >= LARGE:
            missed[stack] = Interval(*(predicted / row[name] - 1 for name in ("step_s", "high_s", "low_s")))
    return missed


def large_tables() -> Measurements:
    """The machine on which LARGE tables ran: the reference, or else the first that has them."""
    return stored.having(stored.of(), lambda book: misses(book, by_vocabulary(book)))


@claim(
    "03.1",
    "From 80,000 to 280,000 rows each further row costs more than moving Adam's bytes for it at the memory's speed "
    "(the floor), on every stack.",
)
def above_the_floor(book: Measurements) -> Finding:
    return every_stack(in_floors(book), above(1), ".1f")


@claim(
    "03.2",
    "From 80,000 to 280,000 rows each further row costs less than 20 times the floor, on every stack.",
    says="inconclusive",
)
def below_twenty_floors(book: Measurements) -> Finding:
    return every_stack(in_floors(book), below(20), ".1f")


@claim(
    "03.3", "From 80,000 to 280,000 rows each further row costs more than 3 times as much on one stack as on another."
)
def software_decides(book: Measurements) -> Finding:
    least, most = cheapest_and_dearest(in_floors(book))
    return every_stack({f"{most} over {least}": dearest_over_cheapest(book)}, above(3), ".1f")


@claim(
    "03.4",
    "On at least one stack the straight line through all vocabularies predicts a step at the largest one that is more "
    "than a tenth too short.",
    on=large_tables,
)
def not_all_straight(book: Measurements) -> Finding:
    return any_stack(misses(book, by_vocabulary(book)), below(-0.1), "+.0%")


# The interventions


WANTED: dict[str, Any] = {"vocabulary": VOCABULARIES, "optimizer": ["adam", "sgd"], "frozen": [False, True]}


@functools.cache
def interleaved(book: Measurements) -> Measurements:
    """The machine with those sweeps alone that measured all ways of training in the same rounds, so that nothing lies
    between the sides of the comparison; the machine itself where none did.
    """
    together = sweeps_of_all_ways(book.invocations(**WANTED))
    return book.only(book.rows["sweep"].isin(together)) if together else book


def intervened(book: Measurements) -> pd.DataFrame:
    """The points of those stacks on which every way of training was tried at two vocabularies or more."""
    return in_every_way(interleaved(book).points(**WANTED))


def sweeps_of_all_ways(invocations: pd.DataFrame) -> list[str]:
    """Names of the sweeps that measured every way of training, so that what they measured is interleaved."""
    if invocations.empty:
        return []
    ways = invocations.assign(how=stored.how(invocations)).groupby("sweep")["how"].agg(set)
    return [str(name) for name in ways.index if set(WAYS) <= ways[name]]


def in_every_way(points: pd.DataFrame, against: str = "vocabulary") -> pd.DataFrame:
    """The rows of those stacks on which every way of training was tried at two sizes or more."""
    points = points[points["how"].isin(WAYS)]
    sizes = points.groupby(["stack", "how"])[against].nunique().unstack(fill_value=0)
    return points[points["stack"].isin(sizes.index[(sizes.reindex(columns=WAYS, fill_value=0) > 1).all(axis=1)])]


def repeated(points: pd.DataFrame) -> pd.DataFrame:
    """The points that ran three times or more; where nothing was repeated, all that ran."""
    ran = points.dropna(subset="step_s")
    return ran[ran["invocations"] >= min(REPEATED, ran["invocations"].max())] if len(ran) else ran


@functools.cache
def growth(book: Measurements) -> pd.DataFrame:
    """What the table's size costs in each way of training, a row a stack and `how`.

    Over the vocabularies, from 20,000 rows on, that ran three times or more in every way on that stack, so that they
    can be compared and no single run decides. Columns: from, to (rows), times (Interval: step at the largest over
    step at the smallest, geometric means of medians), `price` (Interval, s a row between the two), share (Interval: the
    cost in units of Adam's).
    """
    rows, often, book = [], repeated(intervened(book)), interleaved(book)
    for stack, group in often.groupby("stack", sort=False):
        tried = group.groupby("vocabulary")["how"].nunique()
        shared = sorted(tried.index[(tried == len(WAYS)) & (tried.index >= min(VOCABULARIES[1], tried.index.max()))])
        if len(shared) < 2:
            continue
        ends = int(shared[0]), int(shared[-1])
        prices = price_of_a_row(book, group, ends)
        for how in WAYS:
            pair = pair_of(group, (stack, how), ends)
            small, large = book.values(pair, "median_s")
            times = statistics.ratio(large, small, book.spread(stack), book.spread(stack))
            both = pd.concat([pair, pair_of(group, (stack, "adam"), ends)])
            share = Interval(1.0) if how == "adam" else book.interval(over, both)
            row = {"stack": stack, "how": how, "from": ends[0], "to": ends[1]}
            rows.append(row | {"times": times, "price": prices[stack, how], "share": share})
    return pd.DataFrame(rows, columns=["stack", "how", "from", "to", "times", "price", "share"])


def shares(book: Measurements, how: str) -> dict[str, Interval]:
    """What a row costs in a way of training, as a share of Adam's, by stack."""
    return stored.chosen(growth(book), how=how).set_index("stack")["share"].to_dict()


@claim(
    "03.5",
    "With the table frozen, a row costs less than 5 % of what it costs with Adam, on every stack that was measured.",
    says="inconclusive",
)
def frozen_is_free(book: Measurements) -> Finding:
    return every_stack(shares(book, "frozen"), below(0.05), "z.1%")


@claim("03.6", "With plain SGD a row costs less than with Adam, on every such stack.")
def sgd_is_cheaper(book: Measurements) -> Finding:
    return every_stack(shares(book, "sgd"), below(1), "z.0%")


@claim("03.7", "With plain SGD each row of the table, used or not, costs more than a tenth of what it costs with Adam.")
def sgd_pays_for_every_row(book: Measurements) -> Finding:
    return every_stack(shares(book, "sgd"), above(0.1), "z.0%")


@claim(
    "03.8",
    "On the stacks of Keras 2 a row costs less with plain SGD than three quarters of what it costs with Adam: the "
    "share of the bytes if Keras 2 read and wrote the velocity that it keeps.",
)
def no_three_quarters(book: Measurements) -> Finding:
    keras2 = {stack: share for stack, share in shares(book, "sgd").items() if stack.startswith(("2017", "2020"))}
    return every_stack(keras2, below(0.75), "z.0%")


@claim("03.9", "With plain SGD a row costs half or less of what it costs with Adam.", says="inconclusive")
def sgd_costs_half(book: Measurements) -> Finding:
    return every_stack(shares(book, "sgd"), below(0.5), "z.0%")


# What the page shows


def per_row_table(book: Measurements) -> HTML:
    """What each stack pays per row, also in units of the floor, and an epoch with the largest table that it ran."""
    found, floors = by_vocabulary(book), in_floors(book)

    def epoch(row: pd.Series) -> str:
        largest = stored.chosen(found, stack=row["stack"]).dropna(subset="step_s").nlargest(1, "vocabulary").iloc[0]
        return f"{epoch_s(largest) / 3600:.2f} at {short(largest['vocabulary'])}"

    return page.columns(
        pd.DataFrame({"stack": list(floors), "price": list(price_of_a_row(book, found).values())}),
        fold="Every stack: cost per row, and an epoch of a million sentences",
        stack="stack",
        price=(f"ns per row, {short(PRICED[0])} to {short(PRICED[1])}", 1e9, ",.0f"),
        floors=("in units of the floor", lambda row: f"{floors[row['stack']].value:.1f}"),
        epoch=("hours per epoch, at rows", epoch),
    )


def epoch_s(point: pd.Series) -> float:
    """Seconds of an epoch of a million sentences at a point's step."""
    return float(point["step_s"] * np.ceil(SENTENCES / point["batch"]))


def here_table(live: Measurements, book: Measurements, points: pd.DataFrame) -> HTML:
    """This run's steps at its smallest and largest table, and a row's cost between them next to the stored one.

    A cost is a difference of steps: where each was run once it may be noise, and is not shown.

    points: of this run, with Adam, with SGD and frozen; book: the machine whose stored cost is shown.
    """
    ran = points.dropna(subset="step_s")
    ends = (int(ran["vocabulary"].min()), int(ran["vocabulary"].max())) if len(ran) else PRICED
    here, known = price_of_a_row(live, ran, ends), price_of_a_row(book, by_vocabulary(book))
    known |= {(row["stack"], row["how"]): row["price"] for _, row in growth(book).iterrows()}

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
    digits = {"adam": None, "sgd": "z.0%", "frozen": "z.1%"}
    return page.columns(
        growth(book),
        fold="Every stack, in each way of training the table",
        stack="stack",
        how="table",
        ends=("rows", lambda row: f"{short(row['from'])} to {short(row['to'])}"),
        times=("growth of the step", lambda row: f"{row['times'].value:.1f}×"),
        price=("ns per row", lambda row: f"{row['price'].value * 1e9:z,.0f}"),
        share=("share of Adam's cost", lambda row: row["share"].text(digits[row["how"]]) if digits[row["how"]] else ""),
    )


def growth_of(book: Measurements, how: str) -> dict[str, Interval]:
    """How many times as long the step at the largest vocabulary is as at the smallest, by stack."""
    return stored.chosen(growth(book), how=how).set_index("stack")["times"].to_dict()


def _shape(book: Measurements) -> str:
    missed = misses(book, by_vocabulary(book))
    low = {stack: miss for stack, miss in missed.items() if below(-0.1)(miss)}
    if not low:
        return "is within a tenth of the step at the largest table, as far as noise lets us say, on every stack"
    worst = smallest(low)
    return (
        f"is more than a tenth too short at the largest table on {len(low)} of {len(missed)} stacks, by as much as "
        f"{-low[worst].value:.0%} on {worst}"
    )


def _epochs(book: Measurements) -> str:
    """What the steps with the largest table add up to in an epoch, on the fastest and on the slowest stack."""
    found = by_vocabulary(book).dropna(subset="step_s")
    ran = found[found["vocabulary"] == found["vocabulary"].max()].sort_values("step_s")
    hours = [f"{epoch_s(row) / 3600:.1f} hours on {row['stack']}" for _, row in ran.iloc[[0, -1]].iterrows()]
    return " and ".join(hours)


def _range_elsewhere(book: Measurements) -> str:
    floors = in_floors(book)
    least, most = (f"{floors[stack].value:.1f} ({stack})" for stack in cheapest_and_dearest(floors))
    floor = f"that machine's floor of {floor_s(book) * 1e9:.0f} ns"
    return f"on {book.title} a row costs between {least} and {most} times {floor}"


def _ways_elsewhere(book: Measurements) -> str:
    sgd = [share.value for share in shares(book, "sgd").values()]
    frozen = shares(book, "frozen")[largest(shares(book, "frozen"))]
    return f"{min(sgd):.0%} to {max(sgd):.0%} with SGD, and at most {frozen.value:z.1%} frozen, on {book.title}"


def _tensorflow(book: Measurements) -> str:
    return f"{in_floors(book)['2026-tensorflow'].value:.1f} times the floor on {book.title}"


def _ran(book: Measurements) -> pd.DataFrame:
    return by_vocabulary(book).query("status == 'ok'")


def _end(place: int, spec: str) -> dict[str, Callable[[Measurements], str]]:
    """Of the stack on which a row costs least (0) or most (1): name, cost in floors, ms for 100,000 rows."""

    def stack(book: Measurements) -> str:
        return cheapest_and_dearest(in_floors(book))[place]

    def floors(book: Measurements) -> float:
        return in_floors(book)[stack(book)].value

    return {
        "stack": stack,
        "over": lambda book: f"{floors(book):{spec}}",
        "100k": lambda book: f"{floors(book) * floor_s(book) * 1e5 * 1e3:.0f} ms",
    }


def _share(how: str, place: int) -> Callable[[Measurements], str]:
    """What a row costs in a way of training, of Adam's cost, on the stack of that place by share: "59% on numpy"."""

    def say(book: Measurements) -> str:
        stack, share = sorted(shares(book, how).items(), key=lambda item: item[1].value)[place]
        return f"{share.value:z.{0 if how == 'sgd' else 1}%} on {stack}"

    return say


def _came(number: str) -> str:
    return predictions.told("03", number)


LEAST, MOST = _end(0, ".1f"), _end(1, ".0f")
PROSE = Prose(
    "",
    voc_title=lambda book: book.title,
    stacks=lambda book: str(_ran(book)["stack"].nunique()),
    least_processes=lambda book: str(_ran(book)["invocations"].min()),
    smallest=lambda book: f"{_ran(book)['vocabulary'].min():,}",
    largest=lambda book: f"{_ran(book)['vocabulary'].max():,}",
    least_stack=LEAST["stack"],
    least_over=LEAST["over"],
    least_100k=LEAST["100k"],
    most_stack=MOST["stack"],
    most_over=MOST["over"],
    most_100k=MOST["100k"],
    spread=lambda book: dearest_over_cheapest(book).text(".1f"),
    frozen_most=lambda book: growth_of(book, "frozen")[largest(growth_of(book, "frozen"))].text(".1f"),
    frozen_row=lambda book: shares(book, "frozen")[largest(shares(book, "frozen"))].text("z.1%"),
    frozen_stack=lambda book: largest(shares(book, "frozen")),
    frozen_next=_share("frozen", -2),
    adam_least=lambda book: f"{growth_of(book, 'adam')[smallest(growth_of(book, 'adam'))].value:.1f}",
    sgd_least=_share("sgd", 0),
    sgd_most=_share("sgd", -1),
    voc_from=lambda book: short(growth(book)["from"].min()),
    voc_to=lambda book: short(growth(book)["to"].max()),
    voc_large=lambda _: large_tables().title,
    voc_shape=lambda _: _shape(large_tables()),
    voc_epochs=lambda _: _epochs(large_tables()),
    voc_onednn=lambda book: " and ".join(page.on_each_machine(_tensorflow)),
    voc_elsewhere=lambda book: "; ".join(page.on_each_machine(_range_elsewhere, book.machine)),
    voc_ways_elsewhere=lambda book: "; ".join(page.on_each_machine(_ways_elsewhere, book.machine)),
    voc_line_came=lambda _: _came("1"),
    voc_frozen_came=lambda _: _came("2"),
    voc_sgd_came=lambda _: _came("3"),
)
