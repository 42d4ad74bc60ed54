"""What the chapter on structures claims, and how each claim is judged on a machine."""

from collections.abc import Callable

from traintime.book import stored
from traintime.book.chapters.structure.analysis import (
    ALONE,
    DEPTHS,
    STACKS,
    STRUCTURES,
    against,
    fewer_is_faster,
    growth,
    points,
    predicted,
    ratio,
    with_smaller,
    without_relu,
    without_xla,
)
from traintime.book.claims import Claim, Finding, above, below, every, higher, on_each, span
from traintime.book.stored import Measurements, interval
from traintime.explain.statistics import Interval

Judge = Callable[[Interval], bool | None]


def _dense_is_slower(book: Measurements) -> Finding:
    table = against(book, [("dense", "residual")])
    return on_each(table, STACKS, lambda one: above(one, 1), depth=DEPTHS[-1])


def _dense_grows_faster(book: Measurements) -> Finding:
    found = growth(book, points(book))
    slopes = {(row["stack"], row["how"]): interval(row, "exponent") for _, row in found.iterrows()}
    parts = [higher(slopes[stack, "dense"], slopes[stack, "residual"]) for stack in STACKS]
    shown = (f"{stack} {slopes[stack, 'dense'].text()} against {slopes[stack, 'residual'].text()}" for stack in STACKS)
    return Finding(every(*parts), "; ".join(shown))


def _joined_once_is_faster(book: Measurements) -> Finding:
    table = against(book, [("dense", "aggregated")])
    return on_each(table, STACKS, lambda one: above(one, 1), depth=DEPTHS[-1])


def _smaller_is_slower(book: Measurements) -> Finding:
    rows = [stored.row(with_smaller(book), stack=stack) for stack in STACKS]
    parts = [None if (one := ratio(row)) is None else above(one, 1) for row in rows]
    shown = "; ".join(f"{row['stack']} {span(row)}" for row in rows)
    return Finding(True if True in parts else None if None in parts else False, shown)


def _bytes_predict_best(book: Measurements) -> Finding:
    table = predicted(book, points(book)).set_index("stack").loc[STACKS, ALONE]
    best, worst = table.idxmin(axis=1), table.idxmax(axis=1)
    twice = table.max(axis=1) >= 2 * table.min(axis=1)
    holds = bool(((best == ALONE[2]) & (worst == ALONE[0]) & twice).all())
    shown = (f"{stack} {', '.join(f'{name} {row[name]:.0%}' for name in ALONE)}" for stack, row in table.iterrows())
    return Finding(holds, "; ".join(shown))


def _relus_are_cheap(book: Measurements) -> Finding:
    return on_each(without_relu(book), STACKS, lambda one: below(one, 1 / 0.9), structure="residual")


def _shortcuts_are_cheap(book: Measurements) -> Finding:
    return on_each(against(book, [("residual", "plain")]), STACKS, lambda one: below(one, 1 / 0.9), depth=8)


def _xla_is_slower(book: Measurements) -> Finding:
    table = without_xla(book).set_index("structure").loc[STRUCTURES]
    parts = [None if (one := ratio(row)) is None else above(one, 1) for _, row in table.iterrows()]
    shown = "; ".join(f"{structure} {span(row)}" for structure, row in table.iterrows())
    return Finding(every(*parts), shown)


def _fewer_are_faster(book: Measurements) -> Finding:
    shares = {stack: fewer_is_faster(points(book))[stack] for stack in STACKS}
    shown = "; ".join(f"{stack} {share:.0%} of pairs" for stack, share in shares.items())
    return Finding(min(shares.values()) > 0.9, shown)


SENTENCES: list[tuple[str, str, Callable[[Measurements], Finding]]] = [
    (
        "At equal parameters and equal arithmetic the densely joined network of depth 16 takes longer than the one "
        "with shortcuts, on all three stacks.",
        "S1",
        _dense_is_slower,
    ),
    (
        "From depth 4 to 16, at equal parameters and arithmetic, the densely joined network's time grows by more than "
        "that of the one with shortcuts, on all three stacks.",
        "S1",
        _dense_grows_faster,
    ),
    (
        "At depth 16 the network that joins its maps once is faster than the densely joined one, on all three stacks.",
        "S1",
        _joined_once_is_faster,
    ),
    (
        "With half of the parameters and of the arithmetic, and as many bytes of activations, the densely joined "
        "network takes longer than the one with shortcuts, on at least one stack.",
        "S1",
        _smaller_is_slower,
    ),
    (
        "Of three predictors of a step bytes of activations err least and parameters most, at least twice as much, "
        "on all three stacks.",
        "S1",
        _bytes_predict_best,
    ),
    (
        "Without its ReLUs the network with shortcuts takes less than 10 % less time, on all three stacks.",
        "S1",
        _relus_are_cheap,
    ),
    ("Without its shortcuts it takes less than 10 % less time, on all three stacks.", "S1", _shortcuts_are_cheap),
    (
        "Without XLA a step on TensorFlow is faster than with it, in all four structures.",
        "ours",
        _xla_is_slower,
    ),
    (
        "Of two networks the one with fewer parameters is the faster one in more than nine of ten pairs, on all three "
        "stacks.",
        "S1",
        _fewer_are_faster,
    ),
]
CLAIMS = [Claim(f"12.{number}", *each) for number, each in enumerate(SENTENCES, 1)]
