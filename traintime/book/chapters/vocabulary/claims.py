"""What vocabulary claims, and how each claim is judged on a machine."""

from collections.abc import Mapping

from traintime.book.chapters.vocabulary.analysis import (
    Name,
    by_vocabulary,
    cheapest_and_dearest,
    floor_s,
    growth,
    intervened,
    misses,
    percent,
    price_of_a_row,
    ratio_of_prices,
)
from traintime.book.claims import Claim, Finding, above, below, every
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval


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
    return Finding(holds, f"{percent(shares[worst], 1)} on {worst} at most, {len(shares)} stacks")


def _sgd_is_cheaper(book: Measurements) -> Finding:
    shares = _shares(book, "sgd")
    holds = every(*(below(share, 1) for share in shares.values()))
    return Finding(holds, "; ".join(f"{percent(share)} on {stack}" for stack, share in shares.items()))


def _sgd_costs_half(book: Measurements) -> Finding:
    shares = _shares(book, "sgd")
    holds = every(*(below(share, 0.5) for share in shares.values()))
    most = max(shares, key=lambda stack: shares[stack].high)
    return Finding(holds, f"{percent(shares[most])} on {most} at most")


def _sgd_pays_for_every_row(book: Measurements) -> Finding:
    shares = _shares(book, "sgd")
    holds = every(*(above(share, 0.1) for share in shares.values()))
    least = min(shares, key=lambda stack: shares[stack].low)
    return Finding(holds, f"{percent(shares[least])} on {least} at least")


def _no_three_quarters(book: Measurements) -> Finding:
    shares = {stack: share for stack, share in _shares(book, "sgd").items() if stack.startswith(("2017", "2020"))}
    holds = every(*(below(share, 0.75) for share in shares.values()))
    return Finding(holds, "; ".join(f"{percent(share)} on {stack}" for stack, share in shares.items()))


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
