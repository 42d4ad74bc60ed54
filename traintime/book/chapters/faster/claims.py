"""What the chapter on accelerations claims, and how each claim is judged on a machine."""

from collections.abc import Callable
from itertools import pairwise

from traintime.book import stored
from traintime.book.chapters.faster.analysis import (
    HALVES,
    MODELS,
    SEEDS,
    STACKS,
    changes,
    fed,
    feeds,
    gain,
    halves,
    peaks,
    ran,
    rates,
    saves,
    seldom,
    shared,
    together,
)
from traintime.book.claims import Claim, Finding, above, below, every, within
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval

MUCH, LITTLE = 1.3, 0.1
FEW = 0.003  # the largest of the rates at which nothing is expected to go wrong


def _texts(gains: dict[str, Interval], spec: str = ".2f") -> str:
    return "; ".join(f"{name} {one.text(spec)}" for name, one in gains.items())


def _gains(book: Measurements, model: str, change: str, stacks: list[str] = STACKS) -> dict[str, Interval]:
    table = changes(book)
    return {stack: gain(table, model, change, stack) for stack in stacks}


def _on_torch_alone(book: Measurements, change: str, model: str, much: float) -> Finding:
    """A change makes one model on torch this many times as fast, and neither of the others on any stack."""
    there = _gains(book, model, change, ["2026-torch"])
    elsewhere = {
        f"{other}, {stack}": one
        for other in MODELS
        if other != model
        for stack, one in _gains(book, other, change).items()
    }
    parts = [above(one, much) for one in there.values()] + [below(one, much) for one in elsewhere.values()]
    return Finding(every(*parts), _texts(there | elsewhere))


def _bfloat16_needs_products_of_its_own(book: Measurements) -> Finding:
    return _on_torch_alone(book, "bfloat16", "arithmetic", MUCH)


def _float16_is_slower(book: Measurements) -> Finding:
    gains = _gains(book, "arithmetic", "float16")
    return Finding(every(*(below(one, 1) for one in gains.values())), _texts(gains, ".3f"))


def _memory_stays(book: Measurements) -> Finding:
    table = peaks(book)
    least = table.loc[table.groupby("model")["share"].idxmin()].set_index("model").loc[list(MODELS)]
    shown = (f"{model} {row['share']:.0%} ({row['precision']}, {row['stack']})" for model, row in least.iterrows())
    return Finding(bool((least["share"] > 0.75).all()), "; ".join(shown))


def _shared_weights_change_little(book: Measurements) -> Finding:
    gains = _gains(book, "arithmetic", "shared weights")
    return Finding(every(*(within(one, 1 / (1 + LITTLE), 1 / (1 - LITTLE)) for one in gains.values())), _texts(gains))


def _near(one: float, other: float) -> bool:
    return abs(one / other - 1) <= LITTLE


def _fetching_hides(book: Measurements) -> Finding:
    table = feeds(book)
    ready, turn, ahead, parallel = (
        fed(table, name)["step_s"] for name in ("ready", "fetched", "fetched-ahead", "fetched-parallel")
    )
    fetch = fed(table, "fetched")["waited_s"]
    holds = _near(turn, ready + fetch) and _near(ahead, max(ready, fetch)) and _near(parallel, ready)
    shown = (f"ready {ready * 1e3:.0f} ms", f"fetching {fetch * 1e3:.0f}", f"in turn {turn * 1e3:.0f}")
    return Finding(holds, ", ".join((*shown, f"ahead {ahead * 1e3:.0f}", f"in parallel {parallel * 1e3:.0f}")))


def _decoding_does_not(book: Measurements) -> Finding:
    table = feeds(book)
    ready, turn, ahead, parallel = (
        fed(table, name)["step_s"] for name in ("ready", "decoded", "decoded-ahead", "decoded-parallel")
    )
    cost = fed(table, "decoded")["waited_s"]
    back = [(turn - each) / cost for each in (ahead, parallel)]
    shown = f"of {cost * 1e3:.0f} ms a step {back[0]:.0%} come back ahead, {back[1]:.0%} in parallel; ready "
    return Finding(max(back) < 0.5, f"{shown}{ready * 1e3:.0f} ms, in turn {turn * 1e3:.0f}")


def _two_processes_are_as_fast(book: Measurements) -> Finding:
    one = shared(book)["arithmetic"].gain
    return Finding(above(one, 0.9), f"{one.text()} times as fast")


def _two_processes_write_two_tables(book: Measurements) -> Finding:
    one = shared(book)["table"].gain
    return Finding(below(one, 1), f"{one.text()} times as fast")


def _aside_is_cheaper(book: Measurements) -> Finding:
    costs = saves(book)
    shares = {stack: costs[stack]["share"] for stack in STACKS}
    return Finding(every(*(below(one, 0.5) for one in shares.values())), _texts(shares))


def _saving_seldom_pays(book: Measurements) -> Finding:
    costs = saves(book)
    steps = {stack: costs[stack]["in turn"].value / costs[stack]["step"].value for stack in STACKS}
    parts = [above(costs[stack]["in turn"], 0) for stack in STACKS]
    return Finding(every(*parts), "; ".join(f"{stack} a save takes {n:.1f} steps" for stack, n in steps.items()))


def _tcmalloc_is_for_tables(book: Measurements) -> Finding:
    return _on_torch_alone(book, "tcmalloc", "table", 1.2)


def _a_larger_batch_is_for_loops(book: Measurements) -> Finding:
    loop, arithmetic = (_gains(book, model, "batch × 4") for model in ("loop", "arithmetic"))
    parts = [above(one, 1.5) for one in loop.values()] + [below(one, 1.2) for one in arithmetic.values()]
    named = {f"loop, {stack}": one for stack, one in loop.items()}
    named |= {f"arithmetic, {stack}": one for stack, one in arithmetic.items()}
    return Finding(every(*parts), _texts(named))


def _several_steps_at_once_help(book: Measurements) -> Finding:
    gains = together(book)
    wanted = {stack: gains[stack] for stack in ("2026-tensorflow", "2026-jax")}
    return Finding(every(*(above(one, 1.1) for one in wanted.values())), _texts(wanted))


def _own(book: Measurements) -> None:
    """Raise KeyError unless this is the chapter's own machine: what is learned depends on none, one is enough."""
    if book.machine != stored.having(stored.of(), ran).machine:
        raise KeyError(book.machine)


def _smaller_rates_take_longer(book: Measurements) -> Finding:
    _own(book)
    table = rates()
    table = table[table["rate"] <= FEW]
    epochs = table["epochs"].tolist()
    if len(epochs) < 2:
        raise KeyError("not trained")
    holds = all(one > other for one, other in pairwise(epochs))
    return Finding(holds, "; ".join(f"rate {row['rate']:g}: {row['epochs']:.1f} epochs" for _, row in table.iterrows()))


def _half_precision_learns_the_same(book: Measurements) -> Finding:
    _own(book)
    table = halves()
    if len(table) < len(HALVES) or table["seeds"].min() < SEEDS:
        raise KeyError("not trained with enough seeds")
    points = [Interval(row.difference, row.low, row.high) for row in table.itertuples()]
    names = [name.removeprefix("mixed-") for name in table["precision"]]
    shown = "; ".join(f"{name} {one.text('+.1f', 100)} points" for name, one in zip(names, points, strict=True))
    return Finding(every(*(within(one, -0.01, 0.01) for one in points)), shown)


def _saved(book: Measurements, which: str) -> dict[str, Interval]:
    found = seldom(book)
    return {stack: found[stack][which] for stack in STACKS}


def _every_hundredth_saves_time(book: Measurements) -> Finding:
    gains = _saved(book, "gain")
    return Finding(every(*(above(one, 1.5) for one in gains.values())), _texts(gains))


def _every_hundredth_is_nearly_free(book: Measurements) -> Finding:
    times = _saved(book, "hundredth")
    return Finding(every(*(below(one, 1.2) for one in times.values())), _texts(times))


def _aside_does_not_help_who_saves_at_each(book: Measurements) -> Finding:
    gains = _saved(book, "aside")
    return Finding(every(*(below(one, 1.3) for one in gains.values())), _texts(gains))


SENTENCES: list[tuple[str, str, Callable[[Measurements], Finding]]] = [
    (
        "bfloat16 makes the convolutions at least 1.3 times as fast on torch, and neither the table nor the loop on "
        "any stack.",
        "S1",
        _bfloat16_needs_products_of_its_own,
    ),
    ("With float16 the convolutions are slower than in float32, on all three stacks.", "S1", _float16_is_slower),
    (
        "Half precision takes less than a quarter off the peak memory, on every model and stack.",
        "S1",
        _memory_stays,
    ),
    (
        "Weights shared by eight convolutions change a step by less than 10 %, on all three stacks.",
        "S1",
        _shared_weights_change_little,
    ),
    (
        "A step with fetched batches takes the sum of training and fetching in turn, the longer of both ahead, and "
        "the training alone in parallel, each within 10 %.",
        "S1",
        _fetching_hides,
    ),
    (
        "Where the training keeps all processors busy, decoding ahead or in parallel gives back less than half of "
        "what decoding costs in turn.",
        "ours",
        _decoding_does_not,
    ),
    (
        "Two processes of one thread train the convolutions at least 0.9 times as fast as one process of two.",
        "S1",
        _two_processes_are_as_fast,
    ),
    ("Two processes train the model with the table slower than one.", "S1", _two_processes_write_two_tables),
    (
        "A save aside costs the training less than half of one in turn, on all three stacks.",
        "ours",
        _aside_is_cheaper,
    ),
    ("A save takes time from the training, on all three stacks.", "S1", _saving_seldom_pays),
    (
        "tcmalloc makes the table at least 1.2 times as fast on torch, and neither the convolutions nor the loop on "
        "any stack.",
        "ours",
        _tcmalloc_is_for_tables,
    ),
    (
        "Four times the batch makes a sample of the loop at least 1.5 times as fast and one of the convolutions less "
        "than 1.2 times, on all three stacks.",
        "ours",
        _a_larger_batch_is_for_loops,
    ),
    (
        "Sixteen steps handed over at once make a step of `fit` at least 1.1 times as fast on TensorFlow and JAX.",
        "ours",
        _several_steps_at_once_help,
    ),
    (
        "From a rate of 0.003 down to 0.0001 each smaller one needs more epochs to the same training loss.",
        "S1",
        _smaller_rates_take_longer,
    ),
    (
        "In bfloat16 and in float16 an LSTM ends less than one point of accuracy away from float32.",
        "S1",
        _half_precision_learns_the_same,
    ),
    (
        "Saved every 100 steps a training is at least 1.5 times as fast as saved after each, on all three stacks.",
        "S1",
        _every_hundredth_saves_time,
    ),
    (
        "Saved every 100 steps it takes less than 1.2 times as long as never saved, on all three stacks.",
        "S1",
        _every_hundredth_is_nearly_free,
    ),
    (
        "Saved aside after each step it is less than 1.3 times as fast as saved in turn after each, on all three "
        "stacks.",
        "ours",
        _aside_does_not_help_who_saves_at_each,
    ),
]
CLAIMS = [Claim(f"13.{number}", *each) for number, each in enumerate(SENTENCES, 1)]
