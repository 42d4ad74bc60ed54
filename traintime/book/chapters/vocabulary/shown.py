"""What the page of vocabulary shows: tables, and the numbers of its prose."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters.vocabulary.analysis import (
    SENTENCES,
    WAYS,
    Name,
    by_vocabulary,
    bytes_a_row,
    cheapest_and_dearest,
    floor_s,
    growth,
    intervened,
    misses,
    percent,
    price_of_a_row,
    ratio_of_prices,
    top_end,
)
from traintime.book.claims import below
from traintime.book.plots import short
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval


def per_row_table(book: Measurements, found: pd.DataFrame, prices: Mapping[Name, Interval]) -> HTML:
    """What each stack pays per row, in units of the floor, and how far a straight line carries."""
    floor, tops, missed = floor_s(book), top_end(book, found), misses(book, found)
    rows = []
    for (stack, how), price in prices.items():
        largest = found[found["stack"] == stack].dropna(subset="step_s").nlargest(1, "vocabulary").iloc[0]
        top = tops.get((stack, how))
        epoch_s = largest["step_s"] * np.ceil(SENTENCES / largest["batch"])
        rows.append([
            stack,
            price.text(",.0f", 1e9).replace(" (", "<br>("),
            f"{price.value / floor:.1f}",
            f"{top.value * 1e9:,.0f}" if top else "",
            f"{missed[stack].value:+.0%}" if stack in missed else "",
            f"{epoch_s / 3600:.1f} at {short(largest['vocabulary'])}",
        ])  # fmt: skip
    heads = ["stack", "a row (ns)", "times the floor", "a row at the top (ns)", "line at the top", "epoch (h)"]
    return page.table(heads, rows)


def growth_table(grown: pd.DataFrame) -> HTML:
    """`growth` as a reader sees it."""
    heads = ["stack, trained with", "from, to (rows)", "times the step", "a row (ns)", "of Adam's"]
    rows = [
        [
            f"{row.stack}, {row.how}",
            f"{short(row['from'])}, {short(row['to'])}",
            row.times.text(".2f"),
            row.price.text("z,.0f", 1e9),
            {"adam": "", "sgd": percent(row.share)}.get(row.how, percent(row.share, 1)),
        ]
        for _, row in grown.iterrows()
    ]
    return page.table(heads, rows)


def values(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that this machine cannot give says so."""
    found, points = by_vocabulary(book), intervened(book)
    description, grown = book.description, growth(book, points)
    floor, prices, missed = floor_s(book), price_of_a_row(book, found), misses(book, found)
    ran = found[found["status"] == "ok"]
    given = {
        "row-bytes": f"{bytes_a_row():,}",
        "machine": description["cpu"],
        "cores": str(description["cores"]),
        "bandwidth": f"{book.rates['bandwidth_bytes_per_s'] / 1e9:.0f} GB/s",
        "floor": f"{floor * 1e9:.0f} ns",
        "floor-2m": f"{floor * 2e6 * 1e3:.0f} ms",
        "holes": page.holes(found[found["status"] != "ok"]),
        "stacks": str(ran["stack"].nunique()),
        "least-processes": str(ran["invocations"].min()),
        "smallest": f"{ran['vocabulary'].min():,}",
        "largest": f"{ran['vocabulary'].max():,}",
        "shape": _shape(missed),
        "voc-top": _top(prices, top_end(book, found)),
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
    shares = ", ".join(f"{percent(row.share)} on {row.stack}" for row in of["sgd"].itertuples())
    given = [grew.times.text(".1f"), grew.stack, percent(largest_share, 1)]
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
            ways.append(f"on {other.title} {sgd} with SGD and {percent(frozen, 1)} at most frozen")
    return {
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
