"""Chapter 03, vocabulary: which points it shows, what a row costs, what the interventions show, what it claims."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import Markdown

from traintime.book import page, stored
from traintime.book.claims import Claim, Finding, above, below, every, judge
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
    return bytes_a_row() / book.description["rates"]["bandwidth_bytes_per_s"]


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


def per_row_table(
    book: Measurements, found: pd.DataFrame, lines: Mapping[Name, formula.Fit], prices: Mapping[Name, Interval]
) -> Markdown:
    """What each stack pays per step and per row, in units of the floor, and how far a straight line carries."""
    floor, tops, missed = floor_s(book), top_end(book, found), misses(book, found)
    rows = []
    for (stack, how), price in prices.items():
        largest = found[found["stack"] == stack].dropna(subset="step_s").nlargest(1, "vocabulary").iloc[0]
        line, top = lines.get((stack, how)), tops.get((stack, how))
        epoch_s = largest["step_s"] * np.ceil(SENTENCES / largest["batch"])
        rows.append([
            stack,
            f"{line.coefficients['a'] * 1e3:.0f}" if line else "",
            price.text(",.0f", 1e9).replace(" (", "<br>("),
            f"{price.value / floor:.1f}",
            f"{top.value * 1e9:,.0f}" if top else "",
            f"{missed[stack].value:+.0%}" if stack in missed else "",
            f"{epoch_s / 3600:.1f} at {short(largest['vocabulary'])}",
        ])  # fmt: skip
    heads = ["stack", "fixed part (ms)", "a row (ns)", "times the floor", "a row at the top (ns)", "line at the top"]
    return page.table([*heads, "epoch (h)"], rows)


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


def growth_table(grown: pd.DataFrame) -> Markdown:
    """`growth` as a reader sees it."""
    heads = ["stack, trained with", "from, to (rows)", "times the step", "a row (ns)", "of Adam's"]
    rows = [
        [
            f"{row.stack}, {row.how}",
            f"{short(row['from'])}, {short(row['to'])}",
            row.times.text(".2f"),
            row.price.text("z,.0f", 1e9),
            {"adam": "", "sgd": _percent(row.share)}.get(row.how, _percent(row.share, 1)),
        ]
        for _, row in grown.iterrows()
    ]
    return page.table(heads, rows)


def _percent(share: Interval, digits: int = 0) -> str:
    return share.text(f"z.{digits}%")


# For the prose


def values(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that this machine cannot give says so."""
    found, points = by_vocabulary(book), intervened(book)
    description, grown = book.description, growth(book, points)
    floor, prices, missed = floor_s(book), price_of_a_row(book, found), misses(book, found)
    ran = found[found["status"] == "ok"]
    noise = book.noise().set_index("stack")[REPEATED]
    lone = singles(points)
    given = {
        "row-bytes": f"{bytes_a_row():,}",
        "machine": description["cpu"],
        "cores": str(description["cores"]),
        "bandwidth": f"{description['rates']['bandwidth_bytes_per_s'] / 1e9:.0f} GB/s",
        "floor": f"{floor * 1e9:.0f} ns",
        "floor-2m": f"{floor * 2e6 * 1e3:.0f} ms",
        "voc-noise-least": f"{noise.min():.0%} ({noise.idxmin()})",
        "voc-noise-most": f"{noise.max():.0%} ({noise.idxmax()})",
        "holes": page.holes(found[found["status"] != "ok"]),
        "stacks": str(ran["stack"].nunique()),
        "least-processes": str(ran["invocations"].min()),
        "smallest": f"{ran['vocabulary'].min():,}",
        "largest": f"{ran['vocabulary'].max():,}",
        "shape": _shape(missed),
        "voc-top": _top(prices, top_end(book, found)),
        "voc-singles": str(len(lone)),
    }
    return given | _of_prices(book, found, floor) | _of_ways(grown) | _elsewhere(book)


NOT_MEASURED = "(not measured)"


def _of_prices(book: Measurements, found: pd.DataFrame, floor: float) -> dict[str, str]:
    names = ("least-stack", "least-over", "most-stack", "most-over", "spread")
    prices = price_of_a_row(book, found)
    if len(prices) < 2:
        return dict.fromkeys(names, NOT_MEASURED)
    least, most = cheapest_and_dearest(prices)
    over = [f"{prices[name].value / floor:.{digits}f}" for name, digits in ((least, 1), (most, 0))]
    ratio = ratio_of_prices(book, found, most, least).text(".1f")
    return dict(zip(names, [least[0], over[0], most[0], over[1], ratio], strict=True))


def _shape(missed: Mapping[str, Interval]) -> str:
    low = [f"{stack} ({miss.value:+.0%})" for stack, miss in missed.items() if below(miss, -0.1)]
    if low:
        return (
            f"too low at the top, by more than a tenth, for {', '.join(low)}: there a row costs more in a large table"
        )
    return "within a tenth of the step at the top, as far as noise lets us tell, on every stack"


def _top(prices: Mapping[Name, Interval], tops: Mapping[Name, Interval]) -> str:
    dearer = [name for name in tops if name in prices and tops[name].low > prices[name].high]
    if not dearer:
        return "no stack's row costs more than that, as far as noise lets us tell"
    return " and ".join(f"{tops[name].value / prices[name].value:.1f} times as much on {name[0]}" for name in dearer)


def _of_ways(grown: pd.DataFrame) -> dict[str, str]:
    names = ("frozen-most", "frozen-stack", "frozen-row", "adam-least", "shares", "voc-from", "voc-to")
    if grown.empty:
        return dict.fromkeys(names, NOT_MEASURED)
    of = {how: grown[grown["how"] == how] for how in WAYS}
    grew = max(of["frozen"].itertuples(), key=lambda row: row.times.value)
    largest_share = max(of["frozen"]["share"], key=lambda share: share.value)
    shares = ", ".join(f"{_percent(row.share)} on {row.stack}" for row in of["sgd"].itertuples())
    given = [grew.times.text(".1f"), grew.stack, _percent(largest_share, 1)]
    given += [f"{min(times.value for times in of['adam']['times']):.0f}", shares]
    return dict(zip(names, [*given, short(grown["from"].min()), short(grown["to"].max())], strict=True))


def _elsewhere(book: Measurements) -> dict[str, str]:
    """What other machines that the book shows say of the same."""
    said, ways = [], []
    for other in (stored.of(name) for name in stored.listed() if name != book.machine):
        found = by_vocabulary(other)
        prices, floor = price_of_a_row(other, found), floor_s(other)
        if len(prices) > 1:
            least, most = (f"{prices[name].value / floor:.1f} ({name[0]})" for name in cheapest_and_dearest(prices))
            said.append(f"on {other.title} between {least} and {most} times its floor of {floor * 1e9:.0f} ns")
        grown = growth(other, intervened(other))
        if len(grown):
            of = {how: grown.loc[grown["how"] == how, "share"] for how in ("sgd", "frozen")}
            sgd = " to ".join(f"{pick(share.value for share in of['sgd']):.0%}" for pick in (min, max))
            frozen = max(of["frozen"], key=lambda share: share.value)
            ways.append(f"on {other.title} {sgd} with SGD and {_percent(frozen, 1)} at most frozen")
    verdicts = [(stored.of(name), judge(TWENTY_FLOORS, stored.of(name)).verdict) for name in stored.listed()]
    return {
        "voc-twenty": "; ".join(f"{verdict} on {other.title}" for other, verdict in verdicts),
        "voc-onednn": " and ".join(_in_floors("2026-tensorflow")),
        "voc-elsewhere": "; ".join(said) or "on no other machine yet",
        "voc-ways-elsewhere": "; ".join(ways) or "not measured on another machine yet",
    }


def _in_floors(stack: str) -> list[str]:
    """What a row costs on each machine that the book shows, in units of the machine's floor."""
    said = []
    for book in map(stored.of, stored.listed()):
        price = price_of_a_row(book, by_vocabulary(book)).get((stack, "adam"))
        if price is not None:
            said.append(f"{price.text('.1f', 1 / floor_s(book))} on {book.title}")
    return said


# Claims


def _range(prices: Mapping[Name, Interval], unit: float, spec: str = ".1f") -> str:
    least, most = cheapest_and_dearest(prices)
    return f"{prices[least].text(spec, 1 / unit)} on {least[0]} to {prices[most].text(spec, 1 / unit)} on {most[0]}"


def _above_the_floor(book: Measurements) -> Finding:
    prices, floor = price_of_a_row(book, by_vocabulary(book)), floor_s(book)
    shown = f"{_range(prices, floor)} times, {len(prices)} stacks"
    return Finding(every(*(above(price, floor) for price in prices.values())), shown)


def _below_twenty_floors(book: Measurements) -> Finding:
    prices, floor = price_of_a_row(book, by_vocabulary(book)), floor_s(book)
    most = cheapest_and_dearest(prices)[1]
    shown = f"{prices[most].text('.1f', 1 / floor)} times on {most[0]}"
    return Finding(every(*(below(price, 20 * floor) for price in prices.values())), shown)


def _software_decides(book: Measurements) -> Finding:
    found = by_vocabulary(book)
    least, most = cheapest_and_dearest(price_of_a_row(book, found))
    ratio = ratio_of_prices(book, found, most, least)
    return Finding(above(ratio, 3), f"{ratio.text('.1f')} times, {most[0]} over {least[0]}")


def _not_all_straight(book: Measurements) -> Finding:
    missed = misses(book, by_vocabulary(book))
    verdicts = {stack: below(miss, -0.1) for stack, miss in missed.items()}
    worst = min(missed, key=lambda stack: missed[stack].value, default=None)
    if worst is None:
        raise KeyError("no large table ran")
    # It holds where one stack's line is too low, and fails where none is.
    holds = True if True in verdicts.values() else None if None in verdicts.values() else False
    return Finding(holds, f"{missed[worst].text('+.0%')} on {worst}")


def _shares(book: Measurements, how: str) -> dict[str, Interval]:
    grown = growth(book, intervened(book))
    return grown[grown["how"] == how].set_index("stack")["share"].to_dict()


def _frozen_is_free(book: Measurements) -> Finding:
    shares = _shares(book, "frozen")
    holds = every(*(below(share, 0.05) for share in shares.values()))
    worst = max(shares, key=lambda stack: shares[stack].high)
    return Finding(holds, f"{_percent(shares[worst], 1)} on {worst} at most, {len(shares)} stacks")


def _sgd_is_cheaper(book: Measurements) -> Finding:
    shares = _shares(book, "sgd")
    holds = every(*(below(share, 1) for share in shares.values()))
    return Finding(holds, "; ".join(f"{_percent(share)} on {stack}" for stack, share in shares.items()))


def _sgd_costs_half(book: Measurements) -> Finding:
    shares = _shares(book, "sgd")
    holds = every(*(below(share, 0.5) for share in shares.values()))
    most = max(shares, key=lambda stack: shares[stack].high)
    return Finding(holds, f"{_percent(shares[most])} on {most} at most")


def _sgd_pays_for_every_row(book: Measurements) -> Finding:
    shares = _shares(book, "sgd")
    holds = every(*(above(share, 0.1) for share in shares.values()))
    least = min(shares, key=lambda stack: shares[stack].low)
    return Finding(holds, f"{_percent(shares[least])} on {least} at least")


def _no_three_quarters(book: Measurements) -> Finding:
    shares = {stack: share for stack, share in _shares(book, "sgd").items() if stack.startswith(("2017", "2020"))}
    holds = every(*(below(share, 0.75) for share in shares.values()))
    return Finding(holds, "; ".join(f"{_percent(share)} on {stack}" for stack, share in shares.items()))


TWENTY_FLOORS = Claim(
    "03.2",
    "From 80,000 to 280,000 rows each further row costs less than 20 times the floor, on every stack.",
    "ours",
    _below_twenty_floors,
)
CLAIMS = [
    Claim(
        "03.1",
        "From 80,000 to 280,000 rows each further row costs more than moving Adam's bytes for it at the memory's speed "
        "(the floor), on every stack.",
        "ours",
        _above_the_floor,
    ),
    TWENTY_FLOORS,
    Claim(
        "03.3",
        "The price of a row, between 80,000 and 280,000 rows, differs by more than 3 times between the stacks.",
        "ours",
        _software_decides,
    ),
    Claim(
        "03.4",
        "On at least one stack the straight line through all vocabularies is more than a tenth too low at the largest.",
        "ours",
        _not_all_straight,
    ),
    Claim(
        "03.5",
        "With the table frozen, a row costs less than 5 % of what it costs with Adam, on every stack that tried it.",
        "ours",
        _frozen_is_free,
    ),
    Claim("03.6", "With plain SGD a row costs less than with Adam, on every such stack.", "ours", _sgd_is_cheaper),
    Claim(
        "03.7",
        "With plain SGD a row costs more than a tenth of what it costs with Adam: every row is still paid for.",
        "ours",
        _sgd_pays_for_every_row,
    ),
    Claim(
        "03.8",
        "On the stacks of Keras 2 a row costs with plain SGD less than three quarters of what it costs with Adam, the "
        "share of the bytes if the velocity that it keeps were read and written.",
        "ours",
        _no_three_quarters,
    ),
    Claim("03.9", "With plain SGD a row costs half or less of what it costs with Adam.", "ours", _sgd_costs_half),
]
