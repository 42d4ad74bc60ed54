"""Chapter 16, deferred rows: each row trained when it is next read, what a step and an epoch then cost, whether it is
the same training, and what the other ways to pay less cost and teach.
"""

import functools
from typing import Any

import pandas as pd
from IPython.display import HTML

from traintime.book import claims, page, stored
from traintime.book.claims import Finding, power
from traintime.book.plots import short
from traintime.book.stored import Measurements, interval
from traintime.book.values import Values, exact, quantity
from traintime.explain.statistics import Interval, difference, pooled_spread
from traintime.learning import results
from traintime.measuring import equal_losses
from traintime.point import make_point
from traintime.predict.cards import OURS
from traintime.workloads.base import Work, matmul

STACKS = TENSORFLOW, JAX, TORCH = list(stored.TODAY)
DENSE, DEFERRED, FROZEN = "adam", "adam-deferred", "frozen"  # as the column `how` has them
WAYS = {DENSE: "dense", DEFERRED: "deferred", FROZEN: "frozen"}
ROWS = {"optimizer": [DENSE, DEFERRED], "frozen": [False, True]}
SWEEP, EPOCH = "rows", "rows-epoch"
VOCABULARIES = SMALL, MIDDLE, LARGE = [20_000, 200_000, 2_000_000]
NARROW, MOST = 50, 24_000_000  # numbers a row, and rows of them
claim = claims.of_chapter("16")


# What each way costs


def by_rows(book: Measurements, vocabulary: Any = VOCABULARIES) -> pd.DataFrame:
    """The points over the rows of the table, dense, deferred and frozen (column `how`)."""
    return book.points(stack=STACKS, vocabulary=vocabulary, **ROWS)


def _invocations(book: Measurements) -> pd.DataFrame:
    """The same, invocation by invocation; `how` alone says what was done with the table."""
    ran = book.invocations(stack=STACKS, vocabulary=VOCABULARIES, **ROWS)
    return ran.assign(how=stored.how(ran), optimizer="", frozen=False)


def by_way(points: pd.DataFrame, value: str) -> pd.DataFrame:
    """A value of `by_rows`, a row a stack and vocabulary, a column a way."""
    wide = points.pivot_table(value, ["stack", "vocabulary"], "how", aggfunc="first").reindex(columns=list(WAYS))
    return stored.in_order(wide.reset_index())


def most_repeatable() -> Measurements:
    """Of the machines that measured all of `by_rows` the one that is most repeatable."""

    def repeats(book: Measurements) -> float | None:
        points = by_rows(book).dropna(subset="step_s")
        steps = [medians for medians in book.values(points, "median_s") if len(medians)]
        every_one = len(STACKS) * len(VOCABULARIES) * len(WAYS)
        return -pooled_spread(steps).sd if len(points) == every_one else None

    return stored.best(repeats)


@functools.cache
def way_ratios(book: Measurements, way: str, other: str) -> pd.DataFrame:
    """The step of one way over that of another, a row a stack and vocabulary (Measurements.ratios)."""
    return book.ratios(_invocations(book), [(way, other)], of="how")


@quantity
def ratio_at(book: Measurements, way: str, other: str, vocabulary: int = LARGE) -> Values:
    """The same at one number of rows, by stack. Empty where a stack was not measured."""
    return Values(stored.ratio_by_stack(way_ratios(book, way, other), STACKS, vocabulary=vocabulary))


@quantity
def deferred_growth(book: Measurements) -> Values:
    """How many times as long a deferred step takes with LARGE rows as with SMALL, by stack."""
    deferred = stored.chosen(_invocations(book), how=DEFERRED)
    grown = book.ratios(deferred, [(LARGE, SMALL)], of="vocabulary", against="batch")
    return Values(stored.ratio_by_stack(grown, STACKS))


def equal_rows(book: Measurements, stack: str) -> float:
    """Rows at which a dense and a deferred step take equally long, by straight lines through the two smaller tables."""
    steps = stored.chosen(by_way(by_rows(book), "step_s"), stack=stack).set_index("vocabulary")
    over = steps[DENSE] - steps[DEFERRED]
    return float(SMALL - over[SMALL] * (MIDDLE - SMALL) / (over[MIDDLE] - over[SMALL]))


@quantity
def peak_shares(book: Measurements) -> Values:
    """Peak memory of the deferred step with LARGE rows over that of the dense one, by stack."""
    wide = stored.chosen(by_way(by_rows(book), "peak_bytes"), vocabulary=LARGE).set_index("stack")
    return exact((wide[DEFERRED] / wide[DENSE]).dropna().to_dict())


def large_step_work(how: str) -> Work:
    """The work of a step with LARGE rows and an optimizer, by the workload's closed form."""
    return make_point(vocabulary=LARGE, optimizer=how).sizes.work()


def trained_over_frozen() -> float:
    """Operations of a step that trains the table over those of one with a frozen table, before any row is moved.

    Of the LSTM's input product one of three parts, the gradient of the words' vectors, is needed for a table alone.
    """
    sizes, whole = make_point().sizes, large_step_work(DENSE).flops
    inputs = matmul(sizes.batch * sizes.length, sizes.embedding, 4 * sizes.units)
    return whole / (whole - inputs.flops / 3)


claim(
    1,
    "Deferred, a step with 2,000,000 rows takes less than 1.2 times as long as one with 20,000, on all three stacks.",
    lambda book: deferred_growth(book) < 1.2,
    says="does not hold",
    on=most_repeatable,
)
claim(
    2,
    "At 2,000,000 rows a dense step takes at least 20 times as long as a deferred one, on all three stacks.",
    lambda book: ratio_at(book, DENSE, DEFERRED) > 20,
    on=most_repeatable,
)
claim(
    5,
    "With 2,000,000 rows deferred training needs at most 0.6 times the memory of dense training on TensorFlow and "
    "torch.",
    lambda book: peak_shares(book).only(TENSORFLOW, TORCH) < 0.6,
    on=most_repeatable,
)


def at_the_most(book: Measurements) -> pd.Series:
    """The deferred point with the MOST rows. Raises KeyError where it was not tried."""
    return stored.row(book.points(stack=TENSORFLOW, vocabulary=MOST, embedding=NARROW, optimizer=DEFERRED))


def on_card() -> pd.DataFrame:
    """Torch's steps on our GPU, dense, deferred and frozen, as far as they were measured."""
    sizes = {"vocabulary": [SMALL, LARGE], "device": "gpu", "kernel": "cudnn"}
    return stored.of(OURS[0]).points(stack=TORCH, **sizes, **ROWS)


def card_cost_s(card: pd.DataFrame) -> float:
    """By how much a deferred step takes longer there than a frozen one, with SMALL rows."""
    deferred, frozen = (stored.row(card, how=how, vocabulary=SMALL)["step_s"] for how in (DEFERRED, FROZEN))
    return float(deferred - frozen)


# The epoch of the document


def whole_epochs(book: Measurements) -> pd.DataFrame:
    """Every epoch with LARGE rows that was run to its end, the undisturbed ones and the earlier ones first."""
    ran = stored.chosen(book.rows, sweep=EPOCH)
    ran = ran[ran["epoch_s"].notna()] if "epoch_s" in ran else ran.iloc[:0]
    return ran.sort_values(["disturbed", "started"], kind="stable")


def counted_epoch(book: Measurements) -> pd.Series:
    """The first of `whole_epochs`, the one that counts. Raises KeyError where none was run."""
    return stored.row(whole_epochs(book))


def ran_the_epoch(book: Measurements | None = None) -> Measurements:
    """The machine of the page if it ran the epoch, or else one that did, undisturbed if there is such."""
    if book is not None and len(whole_epochs(book)):
        return book
    return stored.best(lambda each: float(not counted_epoch(each)["disturbed"]) if len(whole_epochs(each)) else None)


def epochs_elsewhere(book: Measurements) -> str:
    """Seconds of each epoch on the other machines, as text. Raises KeyError where none was run."""
    others = [whole_epochs(each) for name in stored.named() if (each := stored.of(name)) is not book]
    return " and ".join(f"{s:,.0f}" for s in stored.measured([s for one in others if len(one) for s in one["epoch_s"]]))


def dense_epoch_s(book: Measurements, ran: pd.Series) -> float:
    """What dense Adam's steps add up to in as many sentences on the same stack, s: computed, not run."""
    dense = stored.row(by_rows(book), stack=ran["stack"], vocabulary=LARGE, how=DENSE)
    return float(dense["step_s"]) * ran["sentences"] / ran["batch"]


def short_epoch(book: Measurements) -> Finding:
    """Whether the epoch took less than a thousand seconds; what disturbs a run makes it longer."""
    ran = counted_epoch(book)
    holds, figure = bool(ran["epoch_s"] < 1000), f"{ran['epoch_s']:,.0f} s, {ran['sentences']:,.0f} sentences"
    return Finding(None, f"{figure}, disturbed") if ran["disturbed"] and not holds else Finding(holds, figure)


claim(
    8,
    "An epoch of a million sentences with 2,000,000 rows takes less than 1,000 seconds on two cores.",
    short_epoch,
    on=ran_the_epoch,
)


# The other ways to pay less


SUMMED = "8 batches added up"
BATCH = 100
# Each beside dense Adam on MIDDLE rows: what it changes of the point.
OTHERS: dict[str, dict[str, Any]] = {
    "deferred": {"optimizer": DEFERRED},
    "a tenth of the rows": {"vocabulary": SMALL},
    "two factors": {"factor": 30},
    "batch × 8": {"batch": 8 * BATCH},
    "SGD": {"optimizer": "sgd"},
    "table frozen": {"frozen": True},
    SUMMED: {"accumulated": 8},
}
USUAL = {"vocabulary": MIDDLE, "batch": BATCH, "optimizer": DENSE, "frozen": False, "factor": 0, "accumulated": 1}


Speeds = dict[tuple[str, str], Interval]  # by way and stack


@functools.cache
def speeds(book: Measurements) -> Speeds:
    """How many times as fast as dense Adam on MIDDLE rows each way trains a sentence.

    Where gradients are added up by the mean step: an update comes once in eight.
    """
    parts = []
    for way, changed in {"dense": {}, **OTHERS}.items():
        ran = book.invocations(**{"stack": STACKS, "vocabulary": MIDDLE} | changed)
        step = ran["step_s" if way == SUMMED else "median_s"]
        parts.append(ran.assign(way=way, median_s=step * BATCH / ran["batch"], **USUAL))
    table = book.ratios(pd.concat(parts), [("dense", way) for way in OTHERS], of="way", against="stack")
    return {(row["below"], row["stack"]): interval(row) for _, row in table.iterrows()}


def sums(book: Measurements) -> Speeds:
    """Those of them where gradients are added up."""
    return {name: speed for name, speed in speeds(book).items() if name[0] == SUMMED}


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


def lstm_machine() -> Measurements:
    """The first of the book's machines that timed an LSTM alone (chapter 8)."""
    return stored.having(stored.of(), lambda book: book.points(workload="lstm", batch=stored.ANY, length=stored.ANY))


trials = functools.cache(results.table)  # every stored training, a row a seed


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
        settings = [results.settings(**TASK | shared | changes) for changes in sides]
        this, dense = (stored.chosen(trials(), **each)["accuracy"] for each in settings)
        if (seeds := min(len(this), len(dense))) > 1:
            one = difference(this, dense)
            row = {"way": way, "accuracy": this.mean(), "difference": one.value, "low": one.low, "high": one.high}
            rows.append(row | {"dense": dense.mean(), "seeds": seeds})
    return pd.DataFrame(rows, columns=["way", "accuracy", "difference", "low", "high", "dense", "seeds"])


def accuracy_gains(table: pd.DataFrame) -> Values:
    """Differences of the rows of `learned` or `squared` with FEWEST seeds or more."""
    rows = table[table["seeds"] >= FEWEST].set_index("way")
    gains = {way: interval(row, "difference") for way, row in rows.iterrows()}
    return Values(gains, "+.1f", 100, "points")


claim(
    10,
    "Deferred and dense training reach the same held-out accuracy: the difference's interval lies within one point.",
    claims.once(lambda: accuracy_gains(learned()).only("deferred").within(-0.01, 0.01), lstm_machine),
    on=lstm_machine,
)
claim(
    11,
    "Lazy Adam, which leaves the rows of absent words alone, reaches a lower accuracy than dense Adam.",
    claims.once(lambda: accuracy_gains(learned()).only("lazy Adam") < 0, lstm_machine),
    says="does not hold",
    on=lstm_machine,
)


# Whether it is the same training


def compared() -> pd.DataFrame:
    """How far each way's stored losses are from Adam's as published, shares: stack, optimizer, step, apart.

    Empty where that reference was not trained.
    """
    losses = equal_losses.stored()
    reference = (losses["stack"] == "numpy") & (losses["optimizer"] == DENSE)
    by_step = losses[reference].set_index("step")["loss"]
    others = losses[~reference] if len(by_step) else losses[:0]
    away = (others["loss"] / others["step"].map(by_step) - 1).abs()
    return others.assign(apart=away).drop(columns="loss").reset_index(drop=True)


def farthest(stack: str, optimizer: str, steps: int = 100) -> float:
    """The farthest apart within so many steps, a share. Raises KeyError where it was not trained."""
    table = stored.chosen(compared(), stack=stack, optimizer=optimizer)
    if table.empty:
        raise KeyError(f"{stack} {optimizer}")
    return float(table.loc[table["step"] <= steps, "apart"].max())


def deferred_is_adam() -> Finding:
    """Whether deferred training has Adam's losses."""
    far = {stack: farthest(stack, DEFERRED) for stack in STACKS}
    return Finding(max(far.values()) < 1e-4, "; ".join(f"{stack} {power(one)}" for stack, one in far.items()))


claim(
    14,
    "Over a hundred steps the losses of deferred training are within 0.0001 of Adam's as published, on all three "
    "stacks.",
    claims.once(deferred_is_adam, lstm_machine),
    on=lstm_machine,
)


# What the page shows


def cost_table(book: Measurements) -> HTML:
    """A step at each number of rows in each way, ms, and how many times as long dense is as deferred."""
    gains = way_ratios(book, DENSE, DEFERRED).set_index(["stack", "vocabulary"])

    def gain(row: pd.Series) -> str:
        place = (row["stack"], row["vocabulary"])
        return interval(gains.loc[place]).text(".1f") if place in gains.index else ""

    return page.columns(
        _milliseconds(by_rows(book)),
        fold="Every step, in milliseconds",
        stack="ms per step",
        vocabulary=("rows", lambda row: short(row["vocabulary"])),
        **WAYS,
        gain=("dense / deferred", gain),
    )


def steps_table(points: pd.DataFrame, **stack: str) -> HTML:
    """Steps of this run (`by_rows`) or on our GPU (`on_card`): dense, deferred and frozen, ms. stack: its head."""
    return page.columns(_milliseconds(points), **stack, vocabulary=("rows", 1, ","), **WAYS)


def _milliseconds(points: pd.DataFrame) -> pd.DataFrame:
    text = (points["step_s"] * 1e3).map("{:,.0f}".format).where(points["step_s"].notna(), "*" + points["status"] + "*")
    return by_way(points.assign(text=text), "text")


def alternatives_table(book: Measurements) -> HTML:
    """Each way to pay less: times as fast as dense on each stack, and points of accuracy."""
    added, taught = stored.having(book, sums), learned().set_index("way")
    ran = speeds(book) and speeds(book) | sums(added)
    elsewhere = {SUMMED: f"{SUMMED} ({added.title})"} if added.machine != book.machine else {}
    rows = []
    for way in OTHERS if ran else ():
        texts = {stack: f"{ran[way, stack].value:.1f}" for stack in STACKS if (way, stack) in ran}
        name = TRAINED.get(way)
        gain = f"{100 * taught.loc[name, 'difference']:+.1f}" if name in taught.index else ""
        rows.append({"way": elsewhere.get(way, way), "gain": gain} | texts)
    stacks = {stack: f"speed on {stack.removeprefix('2026-')}" for stack in STACKS}
    table = pd.DataFrame(rows, columns=["way", *stacks, "gain"])
    return page.columns(table, way="", **stacks, gain="accuracy, percentage points")


@quantity
def under_tcmalloc(book: Measurements) -> Values:
    """Dense torch's step with MIDDLE rows under each allocator over the deferred one under glibc."""
    ratios = {}
    for allocator in ("glibc", "tcmalloc"):
        dense = {"optimizer": DENSE, "allocator": allocator}
        sides = book.sides(dense, {"optimizer": DEFERRED}, stack=TORCH, vocabulary=MIDDLE)
        ratios[allocator] = sides.interval(lambda s: s[0] / s[1])
    return Values(ratios, ".1f")


def widest(book: Measurements) -> str:
    """How far the interval of any speed reaches, a share of the speed."""
    return f"{max(one.high / one.value - 1 for one in stored.measured(speeds(book)).values()):.0%}"


def apart(stacks: list[str], optimizer: str) -> str:
    """How far the losses of the stack that is farthest away are, over all steps."""
    return f"{max(farthest(stack, optimizer, equal_losses.STEPS) for stack in stacks):.3%}"
