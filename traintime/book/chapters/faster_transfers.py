"""Chapter 13, what a training moves in and out in addition to its arithmetic: batches in, saves out, gradients across.

How much faster each of the usual changes is, these among them, is in `faster`.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import page, predictions, stored
from traintime.book.claims import Finding, above, below, claim, every_stack, within
from traintime.book.page import Prose
from traintime.book.stored import Measurements, Sides
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.workloads.base import FLOAT, UPDATES

STACKS = ["2026-tensorflow", "2026-jax", "2026-torch"]
# What limits a step of each: matmuls, the update of a table's rows, time steps that wait for one another.
MODELS: dict[str, dict[str, Any]] = {
    "arithmetic": {"workload": "blocks", "structure": "plain", "side": 32, "width": 32, "depth": 8, "batch": 32},
    "table": {"workload": "rnn", "vocabulary": 80_000, "batch": 100},
    "loop": {"workload": "lstm", "batch": 32, "length": 50},
}
WAIT_S = 0.002  # a fetched sample's (the worker's feeds)
EVERY = 10  # steps between two saves of the model with the table
SELDOM = 100  # steps between two saves, as the document has it
SMALL = {"vocabulary": 5000, "length": 10}  # of which two hundred steps can be waited for


def chapter_machine(reference: str = "") -> Measurements:
    """The named machine ("" for the book's) if it ran the chapter's sweeps, else the first that did."""
    return stored.having(stored.of(reference), feeds)


def saving_machine(reference: str = "") -> Measurements:
    """The same for the sweep that saves at each and at every hundredth step."""
    return stored.having(chapter_machine(reference), save_frequencies)


def interleaved(book: Measurements, *configurations: Mapping[str, Any]) -> dict[str, Sides]:
    """Invocations of these configurations (fields of a point) in common rounds, by stack that measured all of them."""
    frames = [book.invocations(**fields) for fields in configurations]
    common = {stack: stored.same_rounds(*(stored.chosen(frame, stack=stack) for frame in frames)) for stack in STACKS}
    return {stack: Sides(sides, book, sweep, rounds) for stack, (sides, sweep, rounds) in common.items() if rounds}


def quantities(sides: Mapping[str, Sides], **functions: Callable[[np.ndarray], np.ndarray]) -> pd.DataFrame:
    """Functions of the configurations' mean steps (s): a row for each of `sides`, by its name; an Interval each."""
    rows = [
        {name: each.interval(function, "step_s") for name, function in functions.items()} for each in sides.values()
    ]
    return pd.DataFrame(rows, index=list(sides), columns=list(functions))


def times_as_fast(
    book: Measurements, usual: Mapping[str, Any], other: Mapping[str, Any], value: str = "step_s"
) -> dict[str, Interval]:
    """How many times as fast the other configuration is, by stack that measured both in common rounds."""
    return {
        stack: sides.interval(lambda s: s[0] / s[1], value) for stack, sides in interleaved(book, usual, other).items()
    }


# Batches that are made while the training runs

FEEDS = ["ready"] + [f"{kind}{how}" for kind in ("decoded", "fetched") for how in ("", "-ahead", "-parallel")]


@functools.cache
def feeds(book: Measurements) -> pd.DataFrame:
    """A step on TensorFlow with each feed; empty unless all were measured in common rounds.

    Columns: feed, step_s with low_s and high_s, waited_s (of the step, for the batch), own_cores (processors that the
    process kept busy, on average).
    """
    configurations = [MODELS["arithmetic"] | {"feed": feed} for feed in FEEDS]
    sides, rows = interleaved(book, *configurations).get("2026-tensorflow"), []
    for place, frame in enumerate(sides.frames if sides else []):
        step = sides.interval(lambda s, place=place: s[place], "step_s")
        row = {"feed": FEEDS[place], "step_s": step.value, "low_s": step.low, "high_s": step.high}
        rows.append(row | frame[["waited_s", "own_cores"]].mean().to_dict())
    return pd.DataFrame(rows, columns=["feed", "step_s", "low_s", "high_s", "waited_s", "own_cores"])


def _of_feeds(book: Measurements, kind: str) -> tuple[Sides, float]:
    """Steps with ready batches, and with those of a kind made in turn, ahead and in parallel, in common rounds; and the
    seconds that a step in turn waits for its batch. Raises KeyError where they were not measured.
    """
    made = [MODELS["arithmetic"] | {"feed": f"{kind}{how}"} for how in ("", "-ahead", "-parallel")]
    sides = interleaved(book, MODELS["arithmetic"] | {"feed": "ready"}, *made)["2026-tensorflow"]
    return sides, float(sides.frames[1]["waited_s"].mean())


def feed_ms(book: Measurements, feed: str, value: str = "step_s") -> float:
    """A feed's step, or what of it was waited, in ms. Raises KeyError where it was not measured."""
    return stored.row(feeds(book), feed=feed)[value] * 1e3


@claim(
    "13.5",
    "Fetched in turn, a step takes the sum of training and fetching; fetched ahead, the longer of the two; in "
    "parallel, the training alone; each within 10 %.",
    "S1",
    says="inconclusive",
    on=chapter_machine,
)
def fetching_hides(book: Measurements) -> Finding:
    sides, fetch_s = _of_feeds(book, "fetched")
    expected = {
        "in turn": lambda s: s[1] / (s[0] + fetch_s),
        "ahead": lambda s: s[2] / np.maximum(s[0], fetch_s),
        "in parallel": lambda s: s[3] / s[0],
    }
    times = {how: sides.interval(ratio, "step_s") for how, ratio in expected.items()}
    return every_stack(times, within(0.9, 1.1))


@claim(
    "13.19",
    "Where a batch has to be fetched, a step is faster if it is fetched ahead than in turn, on TensorFlow.",
    "S1",
    on=chapter_machine,
)
def fetching_ahead_helps(book: Measurements) -> Finding:
    turn, ahead = (MODELS["arithmetic"] | {"feed": feed} for feed in ("fetched", "fetched-ahead"))
    return every_stack(times_as_fast(book, turn, ahead), above(1), ".2f")


@claim(
    "13.6",
    "Where the training keeps all processors busy, decoding ahead or in parallel recovers less than half of what "
    "decoding costs in turn.",
    says="inconclusive",
    on=chapter_machine,
)
def decoding_does_not(book: Measurements) -> Finding:
    sides, cost_s = _of_feeds(book, "decoded")
    ways = {"ahead": 2, "in parallel": 3}
    back = {how: sides.interval(lambda s, at=at: (s[1] - s[at]) / cost_s, "step_s") for how, at in ways.items()}
    return every_stack(back, below(0.5))


# Saving


@functools.cache
def save_costs(book: Measurements) -> pd.DataFrame:
    """What one save takes from the training of the model with the table, a row a stack.

    Columns (Intervals): step (s, without saving), in_turn and aside (s a save), share (aside of in turn), steps (in
    turn, in steps).
    """
    table = MODELS["table"]
    saved = table | {"save_every": EVERY}
    return quantities(
        interleaved(book, table, saved, saved | {"save_aside": True}),
        step=lambda s: s[0],
        in_turn=lambda s: EVERY * (s[1] - s[0]),
        aside=lambda s: EVERY * (s[2] - s[0]),
        share=lambda s: (s[2] - s[0]) / (s[1] - s[0]),
        steps=lambda s: EVERY * (s[1] - s[0]) / s[0],
    )


@functools.cache
def save_frequencies(book: Measurements) -> pd.DataFrame:
    """Saved after each step and after every hundredth, a row a stack.

    Columns (Intervals): each and hundredth, times as long as without saving; gain, times as fast every hundredth as
    each; aside, times as fast each aside as each in turn.
    """
    each, seldom = (SMALL | {"save_every": steps} for steps in (1, SELDOM))
    pairs = {"each": (each, SMALL), "hundredth": (seldom, SMALL), "gain": (each, seldom)}
    pairs["aside"] = (each, each | {"save_aside": True})
    ratios = {name: pd.Series(times_as_fast(book, *pair), dtype=object) for name, pair in pairs.items()}
    return pd.DataFrame(ratios).dropna()


def _all_three(table: pd.DataFrame, column: str) -> dict[str, Interval]:
    return table.loc[STACKS, column].to_dict()


@claim(
    "13.9",
    "An asynchronous save costs the training less than half of a synchronous one, on all three stacks.",
    says="inconclusive",
    on=chapter_machine,
)
def aside_is_cheaper(book: Measurements) -> Finding:
    return every_stack(_all_three(save_costs(book), "share"), below(0.5))


@claim(
    "13.10",
    "A save takes time from the training, on all three stacks.",
    "S1",
    says="inconclusive",
    on=chapter_machine,
)
def a_save_takes_time(book: Measurements) -> Finding:
    return every_stack(_all_three(save_costs(book), "steps"), above(0), ".1f", unit="steps")


@claim(
    "13.16",
    "Saved every 100 steps a training is at least 1.5 times as fast as saved after each, on all three stacks.",
    "S1",
    on=saving_machine,
)
def every_hundredth_saves_time(book: Measurements) -> Finding:
    return every_stack(_all_three(save_frequencies(book), "gain"), above(1.5))


@claim(
    "13.17",
    "Saved every 100 steps it takes less than 1.2 times as long as without saving, on all three stacks.",
    "S1",
    says="inconclusive",
    on=saving_machine,
)
def every_hundredth_is_nearly_free(book: Measurements) -> Finding:
    return every_stack(_all_three(save_frequencies(book), "hundredth"), below(1.2))


@claim(
    "13.18",
    "With an asynchronous save after each step it is less than 1.3 times as fast as with a synchronous one after each, "
    "on all three stacks.",
    says="inconclusive",
    on=saving_machine,
)
def aside_does_not_help_who_saves_at_each(book: Measurements) -> Finding:
    return every_stack(_all_three(save_frequencies(book), "aside"), below(1.3))


# Several processes

PROCESSES = ("arithmetic", "table")  # models that two processes train


@functools.cache
def two_processes(book: Measurements, model: str) -> Interval:
    """How many times as fast two processes of one thread train a model on torch as one process of two.

    Raises KeyError where they were not measured.
    """
    return times_as_fast(book, MODELS[model], MODELS[model] | {"replicas": 2})["2026-torch"]


def gradient_bytes(model: str) -> int:
    """Bytes of the gradients that one process of a model exchanges at each step."""
    return FLOAT * make_point(**MODELS[model]).work.trained


@claim(
    "13.7",
    "Two processes of one thread train the convolutions at least 0.9 times as fast as one process of two.",
    "S1",
    says="inconclusive",
    on=chapter_machine,
)
def two_processes_are_as_fast(book: Measurements) -> Finding:
    return every_stack({"2026-torch": two_processes(book, "arithmetic")}, above(0.9))


@claim("13.8", "Two processes train the model with the table slower than one.", "S1", on=chapter_machine)
def two_processes_write_two_tables(book: Measurements) -> Finding:
    return every_stack({"2026-torch": two_processes(book, "table")}, below(1))


# The numbers of the sentences


def for_each(
    names: Iterable[str], number: str, give: Callable[[Measurements, str], str]
) -> dict[str, Callable[[Measurements], str]]:
    """A number of the prose for each stack or model: "save-steps-jax" for "save-steps" and "2026-jax"."""
    return {f"{number}-{name.removeprefix('2026-')}": lambda book, name=name: give(book, name) for name in names}


PROSE = Prose(
    "fst",
    wait=lambda book: f"{WAIT_S * 1e3:.0f} ms",
    saved=lambda book: f"{FLOAT * (1 + UPDATES['adam'].slots) * make_point(**MODELS['table']).work.trained / 1e6:.0f}",
    predicted_fetching=lambda book: predictions.told("13", "5"),
    predicted_batch=lambda book: predictions.told("13", "11"),
    **{feed: lambda book, feed=feed: f"{feed_ms(book, feed):.0f}" for feed in FEEDS},
    **for_each(FEEDS, "waited", lambda book, feed: f"{feed_ms(book, feed, 'waited_s'):.0f}"),
    **for_each(STACKS, "save-steps", lambda book, stack: save_costs(book).loc[stack, "steps"].text(".1f")),
    **for_each(PROCESSES, "two", lambda book, model: two_processes(book, model).text()),
    two_slower=lambda book: f"{1 / two_processes(book, 'table').value:.1f}",
    **for_each(PROCESSES, "gradient", lambda book, model: f"{gradient_bytes(model) / 1e6:.1f}"),
)
SAVING_PROSE = Prose(  # of the machine that saved at every hundredth step
    "fst",
    seldom_there=lambda book: page.title(book, save_frequencies(book)),
    **for_each(STACKS, "each", lambda book, stack: save_frequencies(book).loc[stack, "each"].text()),
)
