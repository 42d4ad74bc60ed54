"""Chapter 3, vocabulary: what a row of the embedding table costs a step, and what happens when nothing updates it."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.claims import Finding, above, any_stack, below, claim, every_stack
from traintime.book.page import Prose
from traintime.book.plots import short
from traintime.book.stored import Measurements, largest, smallest
from traintime.explain import statistics
from traintime.explain.statistics import Interval
from traintime.point import fields
from traintime.workloads.base import UPDATE_BYTES

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
    return UPDATE_BYTES["adam"] * fields()["embedding"].default


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


def top_end(book: Measurements, found: pd.DataFrame, low: int = PRICED[1]) -> dict[Name, Interval]:
    """The same between `low` rows and the largest vocabulary that ran."""
    ran = found.dropna(subset="step_s").groupby(["stack", "how"], sort=False)["vocabulary"].max()
    prices: dict[Name, Interval] = {}
    for name, rows in ran[ran > low].items():
        prices |= price_of_a_row(book, stored.chosen(found, stack=name[0], how=name[1]), (low, int(rows)))
    return prices


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
    says="cannot be told",
)
def below_twenty_floors(book: Measurements) -> Finding:
    return every_stack(in_floors(book), below(20), ".1f")


@claim("03.3", "The price of a row, between 80,000 and 280,000 rows, differs by more than 3 times between the stacks.")
def software_decides(book: Measurements) -> Finding:
    least, most = cheapest_and_dearest(in_floors(book))
    return every_stack({f"{most} over {least}": dearest_over_cheapest(book)}, above(3), ".1f")


@claim(
    "03.4",
    "On at least one stack the straight line through all vocabularies is more than a tenth too low at the largest.",
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
    "03.5", "With the table frozen, a row costs less than 5 % of what it costs with Adam, on every stack that tried it."
)
def frozen_is_free(book: Measurements) -> Finding:
    return every_stack(shares(book, "frozen"), below(0.05), "z.1%")


@claim("03.6", "With plain SGD a row costs less than with Adam, on every such stack.")
def sgd_is_cheaper(book: Measurements) -> Finding:
    return every_stack(shares(book, "sgd"), below(1), "z.0%")


@claim("03.7", "With plain SGD a row costs more than a tenth of what it costs with Adam: every row is still paid for.")
def sgd_pays_for_every_row(book: Measurements) -> Finding:
    return every_stack(shares(book, "sgd"), above(0.1), "z.0%")


@claim(
    "03.8",
    "On the stacks of Keras 2 a row costs with plain SGD less than three quarters of what it costs with Adam, the "
    "share of the bytes if the velocity that it keeps were read and written.",
    says="cannot be told",
)
def no_three_quarters(book: Measurements) -> Finding:
    keras2 = {stack: share for stack, share in shares(book, "sgd").items() if stack.startswith(("2017", "2020"))}
    return every_stack(keras2, below(0.75), "z.0%")


@claim("03.9", "With plain SGD a row costs half or less of what it costs with Adam.", says="cannot be told")
def sgd_costs_half(book: Measurements) -> Finding:
    return every_stack(shares(book, "sgd"), below(0.5), "z.0%")


# What the page shows


def per_row_table(book: Measurements) -> HTML:
    """What each stack pays per row, in units of the floor, and how far a straight line carries."""
    found = by_vocabulary(book)
    tops, missed, floors = top_end(book, found), misses(book, found), in_floors(book)

    def at_the_top(row: pd.Series) -> str:
        top = tops.get((row["stack"], "adam"))
        return f"{top.value * 1e9:,.0f}" if top else ""

    def epoch(row: pd.Series) -> str:
        largest = stored.chosen(found, stack=row["stack"]).dropna(subset="step_s").nlargest(1, "vocabulary").iloc[0]
        hours = largest["step_s"] * np.ceil(SENTENCES / largest["batch"]) / 3600
        return f"{hours:.1f} at {short(largest['vocabulary'])}"

    return page.columns(
        pd.DataFrame({"stack": list(floors), "price": list(price_of_a_row(book, found).values())}),
        stack="stack",
        price=("a row (ns)", 1e9, ",.0f"),
        floors=("times the floor", lambda row: f"{floors[row['stack']].value:.1f}"),
        top=("a row at the top (ns)", at_the_top),
        line=("line at the top", lambda row: f"{missed[row['stack']].value:+.0%}" if row["stack"] in missed else ""),
        epoch=("epoch (h)", epoch),
    )


def growth_table(book: Measurements) -> HTML:
    """`growth` as a reader sees it."""
    digits = {"adam": None, "sgd": "z.0%", "frozen": "z.1%"}
    return page.columns(
        growth(book),
        way=("stack, trained with", lambda row: f"{row['stack']}, {row['how']}"),
        ends=("from, to (rows)", lambda row: f"{short(row['from'])}, {short(row['to'])}"),
        times=("times the step", 1, ".2f"),
        price=("a row (ns)", 1e9, "z,.0f"),
        share=("of Adam's", lambda row: row["share"].text(digits[row["how"]]) if digits[row["how"]] else ""),
    )


def growth_of(book: Measurements, how: str) -> dict[str, Interval]:
    """How many times as long the step at the largest vocabulary is as at the smallest, by stack."""
    return stored.chosen(growth(book), how=how).set_index("stack")["times"].to_dict()


def _shape(book: Measurements) -> str:
    missed = misses(book, by_vocabulary(book))
    low = [f"{stack} ({miss.value:+.0%})" for stack, miss in missed.items() if below(-0.1)(miss)]
    if not low:
        return "within a tenth of the step at the top, as far as noise lets us tell, on every stack"
    return f"too low at the top, by more than a tenth, for {', '.join(low)}: there a row costs more in a large table"


def _dearer_at_the_top(book: Measurements) -> str:
    found = by_vocabulary(book)
    prices, tops = price_of_a_row(book, found), top_end(book, found)
    dearer = [name for name in tops if name in prices and tops[name].low > prices[name].high]
    times = [f"{tops[name].value / prices[name].value:.1f} times as much on {name[0]}" for name in dearer]
    return " and ".join(times) or "no stack's row costs more than that, as far as noise lets us tell"


def _range_elsewhere(book: Measurements) -> str:
    floors = in_floors(book)
    least, most = (f"{floors[stack].value:.1f} ({stack})" for stack in cheapest_and_dearest(floors))
    return f"on {book.title} between {least} and {most} times its floor of {floor_s(book) * 1e9:.0f} ns"


def _ways_elsewhere(book: Measurements) -> str:
    sgd = [share.value for share in shares(book, "sgd").values()]
    frozen = shares(book, "frozen")[largest(shares(book, "frozen"))]
    return f"on {book.title} {min(sgd):.0%} to {max(sgd):.0%} with SGD and {frozen.text('z.1%')} at most frozen"


def _tensorflow(book: Measurements) -> str:
    return f"{in_floors(book)['2026-tensorflow'].text('.1f')} on {book.title}"


def _ran(book: Measurements) -> pd.DataFrame:
    return by_vocabulary(book).query("status == 'ok'")


def _end(place: int, spec: str) -> dict[str, Callable[[Measurements], str]]:
    return {
        "stack": lambda book: cheapest_and_dearest(in_floors(book))[place],
        "over": lambda book: f"{in_floors(book)[cheapest_and_dearest(in_floors(book))[place]].value:{spec}}",
    }


PROSE = Prose(
    "",
    row_bytes=lambda book: f"{bytes_a_row():,}",
    machine=lambda book: book.description["cpu"],
    cores=lambda book: str(book.description["cores"]),
    bandwidth=lambda book: f"{book.rates['bandwidth_bytes_per_s'] / 1e9:.0f} GB/s",
    floor=lambda book: f"{floor_s(book) * 1e9:.0f} ns",
    floor_2m=lambda book: f"{floor_s(book) * 2e6 * 1e3:.0f} ms",
    holes=lambda book: page.holes(by_vocabulary(book).query("status != 'ok'")),
    stacks=lambda book: str(_ran(book)["stack"].nunique()),
    least_processes=lambda book: str(_ran(book)["invocations"].min()),
    smallest=lambda book: f"{_ran(book)['vocabulary'].min():,}",
    largest=lambda book: f"{_ran(book)['vocabulary'].max():,}",
    shape=_shape,
    voc_top=_dearer_at_the_top,
    least_stack=_end(0, ".1f")["stack"],
    least_over=_end(0, ".1f")["over"],
    most_stack=_end(1, ".0f")["stack"],
    most_over=_end(1, ".0f")["over"],
    spread=lambda book: dearest_over_cheapest(book).text(".1f"),
    frozen_most=lambda book: growth_of(book, "frozen")[largest(growth_of(book, "frozen"))].text(".1f"),
    frozen_stack=lambda book: largest(growth_of(book, "frozen")),
    frozen_row=lambda book: shares(book, "frozen")[largest(shares(book, "frozen"))].text("z.1%"),
    adam_least=lambda book: f"{growth_of(book, 'adam')[smallest(growth_of(book, 'adam'))].value:.0f}",
    shares=lambda book: ", ".join(f"{share.text('z.0%')} on {stack}" for stack, share in shares(book, "sgd").items()),
    voc_from=lambda book: short(growth(book)["from"].min()),
    voc_to=lambda book: short(growth(book)["to"].max()),
    voc_onednn=lambda book: " and ".join(page.on_each_machine(_tensorflow)),
    voc_elsewhere=lambda book: (
        "; ".join(page.on_each_machine(_range_elsewhere, book.machine)) or "on no other machine yet"
    ),
    voc_ways_elsewhere=lambda book: (
        "; ".join(page.on_each_machine(_ways_elsewhere, book.machine)) or "not measured on another machine yet"
    ),
)
