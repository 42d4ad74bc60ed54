"""What the chapter on deferred rows claims, and how each claim is judged on a machine."""

import pandas as pd

from traintime.book import stored
from traintime.book.chapters.rows.analysis import (
    ADDED_UP,
    DEFERRED,
    DENSE,
    FROZEN,
    LARGE,
    LEARNED,
    MANY,
    MOST,
    OTHERS,
    RATES,
    SMALL,
    STACKS,
    added_up,
    compared,
    epoch,
    growth,
    kerass,
    learned,
    others,
    peaks,
    points,
    ratios,
    trials,
    worst,
)
from traintime.book.claims import Claim, Finding, above, below, every, higher, on_each, power, span, within
from traintime.book.stored import Measurements, interval

FEWEST = 10  # seeds a side


def _flat(book: Measurements) -> Finding:
    return on_each(growth(book, DEFERRED), STACKS, lambda one: below(one, 1.2))


def _twenty_times(book: Measurements) -> Finding:
    return on_each(ratios(book, DENSE, DEFERRED), STACKS, lambda one: above(one, 20), vocabulary=LARGE)


def _small_tables(book: Measurements) -> Finding:
    return on_each(ratios(book, DEFERRED, DENSE), STACKS, lambda one: below(one, 1.1), vocabulary=SMALL)


def _dearer_than_frozen(book: Measurements) -> Finding:
    return on_each(ratios(book, DEFERRED, FROZEN), STACKS, lambda one: above(one, 1.3), vocabulary=LARGE)


def _memory(book: Measurements) -> Finding:
    table = peaks(book)
    shares = {
        stack: float(stored.row(table, stack=stack, vocabulary=LARGE)["share"]) for stack in (STACKS[0], STACKS[2])
    }
    shown = "; ".join(f"{stack} {share:.2f}" for stack, share in shares.items())
    return Finding(every(*(share <= 0.6 for share in shares.values())), shown)


def _flat_to_the_most(book: Measurements) -> Finding:
    one = stored.row(growth(book, DEFERRED, (MOST, SMALL), MANY), stack=STACKS[0])
    return Finding(below(interval(one), 1.2), span(one))


def _dense_does_not_fit(book: Measurements) -> Finding:
    found = stored.chosen(points(book, MANY), vocabulary=MOST).set_index("how")
    dense, deferred = found.loc[DENSE], found.loc[DEFERRED]
    ended = f"{float(dense['step_s']):.1f} s a step" if pd.notna(dense["step_s"]) else str(dense["status"])
    holds = bool(pd.notna(deferred["step_s"]) and pd.isna(dense["step_s"]) and dense["status"] == "oom")
    return Finding(holds, f"dense {ended}, deferred {float(deferred['step_s']) * 1e3:.0f} ms a step")


def _epoch(book: Measurements) -> Finding:
    ran = epoch(book)
    short, shown = bool(ran["epoch_s"] < 1000), f"{ran['epoch_s']:,.0f} s, {ran['sentences']:,.0f} sentences"
    # What disturbs a run makes it longer.
    return Finding(None, f"{shown}, disturbed") if ran["disturbed"] and not short else Finding(short, shown)


def _fastest_of_all(book: Measurements) -> Finding:
    table = others(book)
    ways = [way for way in OTHERS if way not in ("deferred", "table frozen")]
    parts, shown = [], []
    for stack in STACKS:
        mine = interval(stored.row(table, stack=stack, below="deferred"))
        rivals = {way: interval(stored.row(table, stack=stack, below=way)) for way in ways}
        best = max(rivals, key=lambda way: rivals[way].value)
        parts += [higher(mine, rival) for rival in rivals.values()]
        shown.append(f"{stack} deferred {mine.text()}, {best} {rivals[best].text()}")
    return Finding(every(*parts), "; ".join(shown))


def _adding_up(book: Measurements) -> Finding:
    table, way = added_up(book), list(ADDED_UP)[-1]
    tensorflow, jax, torch = (interval(stored.row(table, stack=stack, below=way)) for stack in STACKS)
    holds = every(above(tensorflow, 1.3), above(torch, 1.3), below(jax, 1))
    shown = zip(STACKS, (tensorflow, jax, torch), strict=True)
    return Finding(holds, "; ".join(f"{stack} {one.text()}" for stack, one in shown))


def _deferring_beats_adding_up(book: Measurements) -> Finding:
    table, (mine, rival) = added_up(book), ADDED_UP
    parts, shown = [], []
    for stack in STACKS:
        one, other = (interval(stored.row(table, stack=stack, below=way)) for way in (mine, rival))
        parts.append(higher(one, other))
        shown.append(f"{stack} {one.text()} against {other.text()}")
    return Finding(every(*parts), "; ".join(shown))


def _gain(way: str) -> pd.Series:
    found = stored.row(learned(trials()), way=way)
    if found["seeds"] < FEWEST:
        raise KeyError(way)
    return found


def _points(one: pd.Series) -> str:
    return interval(one, "difference").text("+.1f", 100)


def _same_accuracy(_: Measurements) -> Finding:
    one = _gain("deferred")
    return Finding(within(interval(one, "difference"), -0.01, 0.01), f"{_points(one)} points, {one['seeds']} seeds")


def _lazy_is_worse(_: Measurements) -> Finding:
    one = _gain("lazy Adam")
    return Finding(below(interval(one, "difference"), 0), f"{_points(one)} points, {one['seeds']} seeds")


def _others_cost_accuracy(_: Measurements) -> Finding:
    unnamed = ("deferred", "lazy Adam", "batch × 8, rate × √8")  # in the sentence
    gains = {way: _gain(way) for way in LEARNED if way not in unnamed}
    parts = [below(interval(one, "difference"), -0.01) for one in gains.values()]
    return Finding(every(*parts), "; ".join(f"{way} {_points(one)} points" for way, one in gains.items()))


def _kerass_way_costs_nothing(_: Measurements) -> Finding:
    found = kerass(trials()).set_index("rate").loc[RATES]
    if found["seeds"].min() < FEWEST:
        raise KeyError("fewer seeds")
    parts = [interval(one, "difference").excludes(0) for _, one in found.iterrows()]
    shown = "; ".join(f"{_points(one)} points at {rate:g}" for rate, one in found.iterrows())
    return Finding(not any(parts), shown)


def _deferred_is_adam(_: Measurements) -> Finding:
    far = {stack: worst(compared(), stack, DEFERRED) for stack in STACKS}
    return Finding(max(far.values()) < 1e-4, "; ".join(f"{stack} {power(one)}" for stack, one in far.items()))


def _kerass_tensorflow_is_not(_: Measurements) -> Finding:
    keras, jax, torch = (worst(compared(), stack, DENSE) for stack in STACKS)
    shown = [power(one) for one in (keras, jax, torch)]
    return Finding(keras > 10 * max(jax, torch), f"{shown[0]} on {STACKS[0]}, {shown[1]} and {shown[2]} on the others")


CLAIMS = [
    Claim(f"16.{number}", sentence, source, find)
    for number, (sentence, source, find) in enumerate(
        [
            (
                "Deferred, a step with 2,000,000 rows takes less than 1.2 times as long as one with 20,000, on all "
                "three stacks.",
                "ours",
                _flat,
            ),
            (
                "At 2,000,000 rows a dense step takes at least 20 times as long as a deferred one, on all three "
                "stacks.",
                "ours",
                _twenty_times,
            ),
            (
                "At 20,000 rows a deferred step takes at most 1.1 times as long as a dense one, on all three stacks.",
                "ours",
                _small_tables,
            ),
            (
                "At 2,000,000 rows a deferred step takes more than 1.3 times as long as one with a frozen table, on "
                "all three stacks.",
                "ours",
                _dearer_than_frozen,
            ),
            (
                "With 2,000,000 rows deferred training needs at most 0.6 times the memory of dense training on "
                "TensorFlow and torch.",
                "ours",
                _memory,
            ),
            (
                "With rows of 50 numbers a deferred step with 24,000,000 of them takes less than 1.2 times as long as "
                "one with 20,000.",
                "ours",
                _flat_to_the_most,
            ),
            (
                "24,000,000 rows of 50 numbers run out of memory under dense Adam, and train deferred.",
                "ours",
                _dense_does_not_fit,
            ),
            (
                "An epoch of a million sentences with 2,000,000 rows takes less than 1,000 seconds on two cores.",
                "ours",
                _epoch,
            ),
            (
                "With 200,000 rows the deferred table trains a sentence in less time than SGD, a batch of 800, a "
                "table of a tenth of the rows, and one of two factors, on all three stacks.",
                "ours",
                _fastest_of_all,
            ),
            (
                "Deferred and dense training reach the same held-out accuracy: the difference's interval lies within "
                "one point.",
                "ours",
                _same_accuracy,
            ),
            (
                "Lazy Adam, which leaves the rows of absent words alone, reaches a lower accuracy than dense Adam.",
                "ours",
                _lazy_is_worse,
            ),
            (
                "A vocabulary cut to a tenth, one hashed to a tenth, a table of two factors, a batch eight times as "
                "large at the same rate, and SGD each cost at least one point of accuracy.",
                "ours",
                _others_cost_accuracy,
            ),
            (
                "That Keras on TensorFlow squares a repeated word's gradients before it adds them costs no accuracy "
                "that ten seeds could show, at the rates 0.001 and 0.01.",
                "ours",
                _kerass_way_costs_nothing,
            ),
            (
                "Over a hundred steps the losses of deferred training are within 0.0001 of Adam's as published, on "
                "all three stacks.",
                "ours",
                _deferred_is_adam,
            ),
            (
                "Those of Keras' own embedding are at least ten times as far from them on TensorFlow as on JAX and "
                "torch.",
                "ours",
                _kerass_tensorflow_is_not,
            ),
            (
                "With 200,000 rows, adding up the gradients of eight batches before dense Adam's update trains a "
                "sentence at least 1.3 times as fast on TensorFlow and torch, and not as fast on JAX.",
                "ours",
                _adding_up,
            ),
            (
                "Deferred rows are faster than that on all three stacks.",
                "ours",
                _deferring_beats_adding_up,
            ),
        ],
        1,
    )
]
