"""Chapter 13, what a training moves in and out in addition to its arithmetic: batches in, saves out, gradients across.

What each of the usual accelerations is worth, these among them, is told in `faster`.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.claims import Finding, above, below, claim, every_stack
from traintime.book.page import Prose
from traintime.book.stored import Measurements, Sides
from traintime.explain.statistics import Interval
from traintime.point import make_point
from traintime.workloads.base import FLOAT, SLOTS

STACKS = ["2026-tensorflow", "2026-jax", "2026-torch"]
# What limits a step of each: products, the update of a table's rows, positions that wait for one another.
MODELS: dict[str, dict[str, Any]] = {
    "arithmetic": {"workload": "blocks", "structure": "plain", "side": 32, "width": 32, "depth": 8, "batch": 32},
    "table": {"workload": "rnn", "vocabulary": 80_000, "batch": 100},
    "loop": {"workload": "lstm", "batch": 32, "length": 50},
}
WAIT_S = 0.002  # a fetched sample's (the worker's feeds)
EVERY = 10  # steps between two saves of the model with the table
SELDOM = 100  # steps between two saves, as the document has it
SMALL = {"vocabulary": 5000, "length": 10}  # of which two hundred steps can be waited for
NETWORK = 10e9 / 8  # bytes a second of a network of 10 Gbit/s
MACHINES = 16  # of the projection


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


def feed_ms(book: Measurements, feed: str, value: str = "step_s") -> float:
    """A feed's step, or what of it was waited, in ms. Raises KeyError where it was not measured."""
    return stored.row(feeds(book), feed=feed)[value] * 1e3


def _near(one: float, other: float) -> bool:
    return abs(one / other - 1) <= 0.1


@claim(
    "13.5",
    "A step with fetched batches takes the sum of training and fetching in turn, the longer of both ahead, and "
    "the training alone in parallel, each within 10 %.",
    "S1",
    says="does not hold",
    on=chapter_machine,
)
def fetching_hides(book: Measurements) -> Finding:
    ready, turn, ahead, parallel = (feed_ms(book, f) for f in ("ready", "fetched", "fetched-ahead", "fetched-parallel"))
    fetch = feed_ms(book, "fetched", "waited_s")
    holds = _near(turn, ready + fetch) and _near(ahead, max(ready, fetch)) and _near(parallel, ready)
    steps = f"in turn {turn:.0f}, ahead {ahead:.0f}, in parallel {parallel:.0f}"
    return Finding(holds, f"ready {ready:.0f} ms, fetching {fetch:.0f}, {steps}")


@claim(
    "13.6",
    "Where the training keeps all processors busy, decoding ahead or in parallel gives back less than half of "
    "what decoding costs in turn.",
    on=chapter_machine,
)
def decoding_does_not(book: Measurements) -> Finding:
    ready, turn, ahead, parallel = (feed_ms(book, f) for f in ("ready", "decoded", "decoded-ahead", "decoded-parallel"))
    cost = feed_ms(book, "decoded", "waited_s")
    back = [(turn - each) / cost for each in (ahead, parallel)]
    shares = f"{back[0]:.0%} come back ahead, {back[1]:.0%} in parallel"
    return Finding(max(back) < 0.5, f"of {cost:.0f} ms a step {shares}; ready {ready:.0f} ms, in turn {turn:.0f}")


def feed_table(book: Measurements) -> HTML:
    """A step with each feed, what of it was waiting, and how busy the processors were."""

    def step(row: pd.Series) -> str:
        half = (row["high_s"] - row["low_s"]) / 2
        return f"{row['step_s'] * 1e3:.0f}" + (f" ± {half * 1e3:.0f}" if half < row["step_s"] else "")

    return page.columns(
        feeds(book),
        feed="batches are",
        step_s=("ms a step", step),
        waited_s=("of it waiting", 1e3, ".0f"),
        own_cores=("processors busy", 1, ".1f"),
    )


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

    Columns (Intervals): never (s a step, without saving); each and hundredth, times as long as never; gain, times as
    fast every hundredth as each; aside, times as fast each aside as each in turn.
    """
    each, seldom = (SMALL | {"save_every": steps} for steps in (1, SELDOM))
    return quantities(
        interleaved(book, SMALL, each, seldom, each | {"save_aside": True}),
        never=lambda s: s[0],
        each=lambda s: s[1] / s[0],
        hundredth=lambda s: s[2] / s[0],
        gain=lambda s: s[1] / s[2],
        aside=lambda s: s[1] / s[3],
    )


def _all_three(table: pd.DataFrame, column: str) -> dict[str, Interval]:
    return table.loc[STACKS, column].to_dict()


@claim(
    "13.9",
    "A save aside costs the training less than half of one in turn, on all three stacks.",
    says="cannot be told",
    on=chapter_machine,
)
def aside_is_cheaper(book: Measurements) -> Finding:
    return every_stack(_all_three(save_costs(book), "share"), below(0.5))


@claim(
    "13.10",
    "A save takes time from the training, on all three stacks.",
    "S1",
    says="cannot be told",
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
    "Saved every 100 steps it takes less than 1.2 times as long as never saved, on all three stacks.",
    "S1",
    says="cannot be told",
    on=saving_machine,
)
def every_hundredth_is_nearly_free(book: Measurements) -> Finding:
    return every_stack(_all_three(save_frequencies(book), "hundredth"), below(1.2))


@claim(
    "13.18",
    "Saved aside after each step it is less than 1.3 times as fast as saved in turn after each, on all three stacks.",
    says="cannot be told",
    on=saving_machine,
)
def aside_does_not_help_who_saves_at_each(book: Measurements) -> Finding:
    return every_stack(_all_three(save_frequencies(book), "aside"), below(1.3))


def save_table(book: Measurements) -> HTML:
    """What a save takes from the training."""
    return page.columns(
        save_costs(book).reset_index(names="stack"),
        stack="",
        step=("a step (ms)", 1e3, ".0f"),
        in_turn=("a save (ms)", 1e3, ".0f"),
        aside=("aside (ms)", 1e3, ".0f"),
        hundred=("every 100 steps adds", lambda row: f"{row['steps'].value / 100:.1%}"),
    )


def save_frequency_table(book: Measurements) -> HTML:
    """A step never saved, and how many times as long it is on average with each way to save."""
    return page.columns(
        save_frequencies(book).reset_index(names="stack"),
        remedy="To measure: `make measure`, or its sweep `faster-saving` alone.",
        stack="",
        never=("never (ms)", 1e3, ".0f"),
        each=("after each: times as long", 1, ".2f"),
        hundredth=(f"every {SELDOM}: times as long", 1, ".2f"),
        aside=("aside: times as fast", 1, ".2f"),
    )


# Several processes

PROCESSES = ("arithmetic", "table")  # models that two processes train


@functools.cache
def two_processes(book: Measurements) -> pd.DataFrame:
    """Models trained on torch by two processes of one thread each, a row a model.

    Columns (Intervals): one, half, two (s a step of one process with both threads, of one thread with half of the
    batch, of two such processes), gain (one / two), efficiency (half / two), exchange (two - half, s).
    """
    sides = {}
    for model in PROCESSES:
        fields = MODELS[model]
        half = fields | {"batch": fields["batch"] // 2, "threads": 1}
        with suppress(KeyError):
            sides[model] = interleaved(book, fields, half, fields | {"replicas": 2})["2026-torch"]
    return quantities(
        sides,
        one=lambda s: s[0],
        half=lambda s: s[1],
        two=lambda s: s[2],
        gain=lambda s: s[0] / s[2],
        efficiency=lambda s: s[1] / s[2],
        exchange=lambda s: s[2] - s[1],
    )


def gradient_bytes(model: str) -> int:
    """Bytes of the gradients that one process of a model exchanges at each step."""
    return FLOAT * make_point(**MODELS[model]).work.trained


def ring_s(exchanged: float, bytes_per_s: float, processes: int) -> float:
    """Seconds in which `processes` exchange gradients of so many bytes: each sends and receives 2 (n - 1) / n of them.

    That is a ring's (Patarasuk & Yuan 2009), the least that an exchange can do with.
    """
    return 2 * (processes - 1) / processes * exchanged / bytes_per_s


def ring_at_memory_s(book: Measurements, model: str) -> float:
    """Seconds of two processes' exchange at the memory's rate. Raises KeyError where nobody measured that rate."""
    return ring_s(gradient_bytes(model), book.rates["bandwidth_bytes_per_s"], 2)


def exchange_at_table_rate(book: Measurements, model: str) -> Interval:
    """Seconds of a model's exchange at the rate that the exchange of the table's gradients comes to."""
    share = gradient_bytes(model) / gradient_bytes("table")
    return two_processes(book).loc["table", "exchange"].scaled(share)


def times_as_many_samples(book: Measurements, model: str) -> float:
    """Times as many samples a second of MACHINES on a NETWORK, each with a batch of its own, by arithmetic."""
    own = two_processes(book).loc[model, "half"].value
    return MACHINES * own / (own + ring_s(gradient_bytes(model), NETWORK, MACHINES))


@claim(
    "13.7",
    "Two processes of one thread train the convolutions at least 0.9 times as fast as one process of two.",
    "S1",
    says="cannot be told",
    on=chapter_machine,
)
def two_processes_are_as_fast(book: Measurements) -> Finding:
    return every_stack({"2026-torch": two_processes(book).loc["arithmetic", "gain"]}, above(0.9))


@claim("13.8", "Two processes train the model with the table slower than one.", "S1", on=chapter_machine)
def two_processes_write_two_tables(book: Measurements) -> Finding:
    return every_stack({"2026-torch": two_processes(book).loc["table", "gain"]}, below(1))


def process_table(book: Measurements) -> HTML:
    """One process and two, of the models that both trained."""
    return page.columns(
        two_processes(book).reset_index(names="model"),
        model="ms a step",
        one=("one process", 1e3, ".0f"),
        half=("one of two, alone", 1e3, ".0f"),
        two=("two processes", 1e3, ".0f"),
        gain=("times as fast", 1, ".2f"),
        efficiency=("efficiency", 1, ".0%"),
    )


def exchange_table(book: Measurements) -> HTML:
    """What the exchange of gradients took, and what a ring would take over two rates."""

    def at_memory(row: pd.Series) -> str:
        return page.or_not_measured(lambda: f"{ring_at_memory_s(book, row['model']) * 1e3:.2f}")

    def at_table_rate(row: pd.Series) -> str:
        return "" if row["model"] == "table" else exchange_at_table_rate(book, row["model"]).text(".1f", 1e3)

    return page.columns(
        two_processes(book).reset_index(names="model"),
        model="an exchange (ms)",
        bytes=("gradients (MB)", lambda row: f"{gradient_bytes(row['model']) / 1e6:.1f}"),
        exchange=("seen", 1e3, ".0f"),
        memory=("at the memory's rate", at_memory),
        table=("at the table's own rate", at_table_rate),
    )


# The numbers of the sentences


def for_each(
    names: Iterable[str], number: str, give: Callable[[Measurements, str], str]
) -> dict[str, Callable[[Measurements], str]]:
    """A number of the prose for each stack or model: "save-steps-jax" for "save-steps" and "2026-jax"."""
    return {f"{number}-{name.removeprefix('2026-')}": lambda book, name=name: give(book, name) for name in names}


PROSE = Prose(
    "fst",
    every=lambda book: str(EVERY),
    wait=lambda book: f"{WAIT_S * 1e3:.0f}",
    saved=lambda book: f"{FLOAT * (1 + SLOTS['adam']) * make_point(**MODELS['table']).work.trained / 1e6:.0f}",
    **{feed: lambda book, feed=feed: f"{feed_ms(book, feed):.0f}" for feed in FEEDS},
    **for_each(FEEDS, "waited", lambda book, feed: f"{feed_ms(book, feed, 'waited_s'):.0f}"),
    **for_each(STACKS, "save-steps", lambda book, stack: f"{save_costs(book).loc[stack, 'steps'].value:.1f}"),
    **for_each(STACKS, "aside", lambda book, stack: f"{save_costs(book).loc[stack, 'share'].value:.0%}"),
    **for_each(PROCESSES, "two", lambda book, model: two_processes(book).loc[model, "gain"].text()),
    **for_each(PROCESSES, "exchange", lambda book, model: two_processes(book).loc[model, "exchange"].text(".0f", 1e3)),
    **for_each(PROCESSES, "gradient", lambda book, model: f"{gradient_bytes(model) / 1e6:.1f}"),
    **for_each(PROCESSES, "ring", lambda book, model: f"{ring_at_memory_s(book, model) * 1e3:.2f}"),
    **for_each(PROCESSES, "as-table", lambda book, model: exchange_at_table_rate(book, model).text(".1f", 1e3)),
    **for_each(PROCESSES, "sixteen", lambda book, model: f"{times_as_many_samples(book, model):.1f}"),
)
SAVING_PROSE = Prose(  # of the machine that saved at every hundredth step
    "fst",
    seldom_there=lambda book: page.title(book, save_frequencies(book)),
    **for_each(STACKS, "each", lambda book, stack: save_frequencies(book).loc[stack, "each"].text()),
    **for_each(STACKS, "hundredth", lambda book, stack: save_frequencies(book).loc[stack, "hundredth"].text()),
    **for_each(STACKS, "each-aside", lambda book, stack: save_frequencies(book).loc[stack, "aside"].text()),
)
