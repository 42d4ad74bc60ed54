"""Chapter 16, the second question: is it the same training, and what do the other faster ways cost and teach?"""

import functools
from collections.abc import Iterable
from typing import Any

import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters.rows import (
    DEFERRED,
    DENSE,
    JAX,
    MIDDLE,
    NAMES,
    SMALL,
    STACKS,
    SWEEP,
    TENSORFLOW,
    TORCH,
    each_stack,
    most_repeatable,
)
from traintime.book.claims import (
    Finding,
    above,
    below,
    claim,
    every,
    every_stack,
    higher,
    judged_together,
    power,
    within,
)
from traintime.book.page import Prose
from traintime.book.stored import Measurements, interval
from traintime.explain.statistics import Interval, difference
from traintime.learning import results
from traintime.measuring import equal_losses

# The other ways to pay less


ADDED, SUMMED = "rows-accumulated", "8 batches added up"
BATCH = 100
# Each beside dense Adam on MIDDLE rows: what it changes of the point.
OTHERS: dict[str, dict[str, Any]] = {
    "deferred": {"optimizer": DEFERRED},
    "a tenth of the rows": {"vocabulary": SMALL},
    "two factors": {"factor": 30},
    "batch × 8": {"batch": 8 * BATCH},
    "SGD": {"optimizer": "sgd"},
    "table frozen": {"frozen": True},
}
# In a sweep of its own, whose runs are as long as several updates.
ADDED_UP: dict[str, dict[str, Any]] = {"deferred": {"optimizer": DEFERRED}, SUMMED: {"accumulated": 8}}
USUAL = {"vocabulary": MIDDLE, "batch": BATCH, "optimizer": DENSE, "frozen": False, "factor": 0, "accumulated": 1}


Speeds = dict[tuple[str, str], Interval]  # by way and stack


@functools.cache
def speeds(book: Measurements) -> Speeds:
    """How many times as fast as dense Adam on MIDDLE rows each way trains a sentence."""
    return _over_dense(book, SWEEP, OTHERS, "median_s")


@functools.cache
def added_up(book: Measurements) -> Speeds:
    """The same where gradients are added up: by the mean step, since an update comes once in eight."""
    return _over_dense(book, ADDED, ADDED_UP, "step_s")


def _over_dense(book: Measurements, sweep: str, ways: dict[str, dict[str, Any]], step: str) -> Speeds:
    parts = []
    for way, changed in {"dense": {}, **ways}.items():
        ran = stored.chosen(book.invocations(**{"vocabulary": MIDDLE} | changed), sweep=sweep)
        parts.append(ran.assign(way=way, median_s=ran[step] * BATCH / ran["batch"], **USUAL))
    table = book.ratios(pd.concat(parts), [("dense", way) for way in ways], of="way", against="stack")
    return {(row["below"], row["stack"]): interval(row) for _, row in table.iterrows()}


def ran_the_sums(book: Measurements | None = None) -> Measurements:
    """The machine of the page if gradients were added up on it, or else one on which they were."""
    return stored.having(book or stored.of(), added_up)


def _fastest(table: Speeds, way: str, rivals: Iterable[str]) -> Finding:
    """Whether a way is faster than each of its rivals, on every stack. The figure names the fastest rival."""
    parts, figures = [], []
    for stack in STACKS:
        mine, others = table[way, stack], {rival: table[rival, stack] for rival in rivals}
        best = stored.largest(others)
        parts += [higher(mine, other) for other in others.values()]
        figures.append(f"{stack} {way} {mine.text()}, {best} {others[best].text()}")
    return Finding(every(*parts), "; ".join(figures))


@claim(
    "16.9",
    "With 200,000 rows the deferred table trains a sentence in less time than SGD, a batch of 800, a table of a tenth "
    "of the rows, and one of two factors, on all three stacks.",
    says="does not hold",
    on=most_repeatable,
)
def fastest_of_all(book: Measurements) -> Finding:
    return _fastest(speeds(book), "deferred", [way for way in OTHERS if way not in ("deferred", "table frozen")])


# What they teach


TASK: dict[str, Any] = {"task": "moods", "units": 32, "epochs": 5}  # of rare words
# What each way to pay less changes of the training.
LEARNED: dict[str, dict[str, Any]] = {
    "deferred": {"table": "deferred"},
    "lazy Adam": {"table": "lazy-adam"},
    "vocabulary cut to a tenth": {"table": "cut"},
    "hashed to a tenth": {"table": "hashed"},
    "two factors": {"table": "factors"},
    "batch × 8": {"batch": 8 * BATCH},
    "batch × 8, rate × √8": {"batch": 8 * BATCH, "rate": 0.00283},
    "SGD, rate 0.1": {"optimizer": "sgd", "rate": 0.1},
    "SGD, rate 1": {"optimizer": "sgd", "rate": 1.0},
}
# Those of OTHERS that were trained, by the name that they have here.
TRAINED = {
    "deferred": "deferred",
    "a tenth of the rows": "vocabulary cut to a tenth",
    "two factors": "two factors",
    "batch × 8": "batch × 8",
    SUMMED: "batch × 8",  # the same gradients, in eight pieces
    "SGD": "SGD, rate 1",
}
RATES = [0.001, 0.01]  # at which Keras on TensorFlow is held against Adam as published
FEWEST = 10  # seeds a side of a claim


@functools.cache
def trainings() -> pd.DataFrame:
    """Every training that is stored, read once."""
    return results.table()


def trainings_with(**changes: Any) -> pd.DataFrame:
    """The trainings of the task with these changes, a row a seed."""
    return stored.chosen(trainings(), **results.settings(**TASK | changes))


def loss_at_the_end(**changes: Any) -> float:
    """The mean loss of the last epoch of training. Raises KeyError where nothing was trained."""
    ran = trainings_with(**changes)
    if ran.empty:
        raise KeyError(str(changes))
    return float(ran["training_loss"].map(lambda losses: losses[-1]).mean())


def learned() -> pd.DataFrame:
    """What each way gains over dense Adam, a row a way that was trained more than once.

    Columns: way, accuracy, difference with low and high (shares), dense (its accuracy), seeds.
    """
    return _gained({way: (changes, {}) for way, changes in LEARNED.items()})


def squared() -> pd.DataFrame:
    """What Keras' own table gains on TensorFlow over Adam as published; as `learned`, with the rate for the way."""
    tables = {rate: ({"table": "dense", "rate": rate}, {"table": "deferred", "rate": rate}) for rate in RATES}
    return _gained(tables, backend="tensorflow")


def _gained(ways: dict[Any, tuple[dict, dict]], **shared: Any) -> pd.DataFrame:
    rows = []
    for way, sides in ways.items():
        this, dense = (trainings_with(**shared | changes)["accuracy"] for changes in sides)
        if (seeds := min(len(this), len(dense))) > 1:
            one = difference(this, dense)
            row = {"way": way, "accuracy": this.mean(), "difference": one.value, "low": one.low, "high": one.high}
            rows.append(row | {"dense": dense.mean(), "seeds": seeds})
    return pd.DataFrame(rows, columns=["way", "accuracy", "difference", "low", "high", "dense", "seeds"])


def accuracy_gains(table: pd.DataFrame, ways: list[Any]) -> dict[Any, Interval]:
    """Differences of these rows of `learned` or `squared`. Raises KeyError where one has fewer than FEWEST seeds."""
    rows = table[table["seeds"] >= FEWEST].set_index("way").loc[ways]
    return {way: interval(row, "difference") for way, row in rows.iterrows()}


def _points(gain: Interval) -> str:
    return gain.text("+.1f", 100)


@claim(
    "16.10",
    "Deferred and dense training reach the same held-out accuracy: the difference's interval lies within one point.",
)
def same_accuracy(_: Measurements) -> Finding:
    return every_stack(accuracy_gains(learned(), ["deferred"]), within(-0.01, 0.01), "+.1f", 100, "points")


@claim(
    "16.11",
    "Lazy Adam, which leaves the rows of absent words alone, reaches a lower accuracy than dense Adam.",
    says="does not hold",
)
def lazy_is_worse(_: Measurements) -> Finding:
    return every_stack(accuracy_gains(learned(), ["lazy Adam"]), below(0), "+.1f", 100, "points")


@claim(
    "16.12",
    "A vocabulary cut to a tenth, one hashed to a tenth, a table of two factors, a batch eight times as large at the "
    "same rate, and SGD each cost at least one point of accuracy.",
    says="does not hold",
)
def others_cost_accuracy(_: Measurements) -> Finding:
    unnamed = ("deferred", "lazy Adam", "batch × 8, rate × √8")  # in the sentence
    named = accuracy_gains(learned(), [way for way in LEARNED if way not in unnamed])
    return judged_together(
        *(every_stack({way: gain}, below(-0.01), "+.1f", 100, "points") for way, gain in named.items())
    )


@claim(
    "16.13",
    "That Keras on TensorFlow squares a repeated word's gradients before it adds them costs no accuracy that ten seeds "
    "could show, at the rates 0.001 and 0.01.",
)
def kerass_way_costs_nothing(_: Measurements) -> Finding:
    by_rate = accuracy_gains(squared(), RATES)
    figure = "; ".join(f"{_points(gain)} points at {rate:g}" for rate, gain in by_rate.items())
    return Finding(not any(gain.excludes(0) for gain in by_rate.values()), figure)


# Whether it is the same training


def losses_apart(losses: pd.DataFrame) -> pd.DataFrame:
    """How far each way's losses are from Adam's as published, shares: stack, optimizer, step, apart.

    losses: as equal_losses.table gives them. Empty where its reference was not trained.
    """
    reference = (losses["stack"] == "numpy") & (losses["optimizer"] == DENSE)
    by_step = losses[reference].set_index("step")["loss"]
    others = losses[~reference] if len(by_step) else losses[:0]
    away = (others["loss"] / others["step"].map(by_step) - 1).abs()
    return others.assign(apart=away).drop(columns="loss").reset_index(drop=True)


@functools.cache
def compared() -> pd.DataFrame:
    """`losses_apart`, of what is stored."""
    return losses_apart(equal_losses.stored())


def farthest(stack: str, optimizer: str, steps: int = 100) -> float:
    """The farthest apart within so many steps. Raises KeyError where it was not trained."""
    table = stored.chosen(compared(), stack=stack, optimizer=optimizer)
    if table.empty:
        raise KeyError(f"{stack} {optimizer}")
    return float(table.loc[table["step"] <= steps, "apart"].max())


@claim(
    "16.14",
    "Over a hundred steps the losses of deferred training are within 0.0001 of Adam's as published, on all three "
    "stacks.",
)
def deferred_is_adam(_: Measurements) -> Finding:
    far = {stack: farthest(stack, DEFERRED) for stack in STACKS}
    return Finding(max(far.values()) < 1e-4, "; ".join(f"{stack} {power(one)}" for stack, one in far.items()))


@claim(
    "16.15",
    "Those of Keras' own embedding are at least ten times as far from them on TensorFlow as on JAX and torch.",
)
def kerass_tensorflow_is_not(_: Measurements) -> Finding:
    keras, *others = (farthest(stack, DENSE) for stack in STACKS)
    figure = f"{power(keras)} on {TENSORFLOW}, {' and '.join(map(power, others))} on the others"
    return Finding(keras > 10 * max(others), figure)


# Gradients that are added up


@claim(
    "16.16",
    "With 200,000 rows, adding up the gradients of eight batches before dense Adam's update trains a sentence at least "
    "1.3 times as fast on TensorFlow and torch, and not as fast on JAX.",
    on=ran_the_sums,
)
def adding_up(book: Measurements) -> Finding:
    summed = {stack: added_up(book)[SUMMED, stack] for stack in STACKS}
    slower = {JAX: summed.pop(JAX)}
    return judged_together(every_stack(summed, above(1.3)), every_stack(slower, below(1)))


@claim("16.17", "Deferred rows are faster than that on all three stacks.", on=ran_the_sums)
def deferring_beats_adding_up(book: Measurements) -> Finding:
    return _fastest(added_up(book), "deferred", [SUMMED])


# What the page shows


def alternatives_table(book: Measurements) -> HTML:
    """Each way to pay less: times as fast as dense on each stack, and points of accuracy."""
    sums, taught = ran_the_sums(book), learned().set_index("way")
    ran = speeds(book) and speeds(book) | {name: one for name, one in added_up(sums).items() if name[0] == SUMMED}
    elsewhere = {SUMMED: f"{SUMMED} ({sums.title})"} if sums.machine != book.machine else {}
    rows = []
    for way in (*OTHERS, SUMMED) if ran else ():
        texts = {NAMES[stack]: f"{ran[way, stack].value:.1f}" for stack in STACKS if (way, stack) in ran}
        name = TRAINED.get(way)
        gain = f"{100 * taught.loc[name, 'difference']:+.1f}" if name in taught.index else ""
        rows.append({"way": elsewhere.get(way, way), "gain": gain} | texts)
    stacks = {name: f"speed on {stack.removeprefix('2026-')}" for stack, name in NAMES.items()}
    table = pd.DataFrame(rows, columns=["way", *stacks, "gain"])
    return page.columns(table, way="", **stacks, gain="accuracy, percentage points")


def _widest(book: Measurements) -> str:
    """How far the interval of any speed reaches, a share of the speed."""
    return f"{max(one.high / one.value - 1 for one in stored.measured(speeds(book)).values()):.0%}"


def _learned(way: str) -> str:
    return _points(accuracy_gains(learned(), [way])[way])


def _keras() -> str:
    by_rate = accuracy_gains(squared(), RATES).items()
    return " and ".join(f"{100 * gain.value:+.1f} percentage points at a rate of {rate:g}" for rate, gain in by_rate)


def _added(book: Measurements, stack: str) -> str:
    return f"{added_up(ran_the_sums(book))[SUMMED, stack].value:.1f}"


def _apart(stacks: Iterable[str], optimizer: str, steps: int) -> str:
    """How far the losses of the stack that is farthest away are, within so many steps."""
    return f"{max(farthest(stack, optimizer, steps) for stack in stacks):.{3 if steps > 100 else 4}%}"


def _reference_loss(step: int) -> str:
    losses = equal_losses.stored()
    return f"{stored.row(losses, stack='numpy', optimizer=DENSE, step=step)['loss']:.2f}"


PROSE = Prose(
    "row",
    middle=lambda _: f"{MIDDLE:,}",
    widest=_widest,
    there_added=lambda book: page.title(ran_the_sums(book), added_up(ran_the_sums(book))),
    **each_stack("added", _added),
    added_slower_jax=lambda book: f"{1 / added_up(ran_the_sums(book))[SUMMED, JAX].value:.1f}",
    apart_100=lambda _: _apart(STACKS, DEFERRED, 100),
    apart_all=lambda _: _apart(STACKS, DEFERRED, equal_losses.STEPS),
    apart_keras=lambda _: _apart([JAX, TORCH], DENSE, equal_losses.STEPS),
    apart_keras_tf=lambda _: f"{farthest(TENSORFLOW, DENSE):.1%}",
    apart_keras_tf_all=lambda _: f"{farthest(TENSORFLOW, DENSE, equal_losses.STEPS):.0%}",
    apart_lazy=lambda _: f"{farthest('numpy', 'adam-rows'):.1%}",
    loss_first=lambda _: _reference_loss(0),
    loss_last=lambda _: _reference_loss(equal_losses.STEPS),
    steps=lambda _: f"{equal_losses.STEPS}",
    learned_dense=lambda _: f"{learned()['dense'].iloc[0]:.1%}",
    learned_deferred=lambda _: _learned("deferred"),
    learned_lazy_Adam=lambda _: _learned("lazy Adam"),
    learned_SGD_rate_1=lambda _: _learned("SGD, rate 1"),
    loss_dense=lambda _: f"{loss_at_the_end():.3f}",
    loss_lazy=lambda _: f"{loss_at_the_end(**LEARNED['lazy Adam']):.3f}",
    keras=lambda _: _keras(),
)
