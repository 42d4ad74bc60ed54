"""Chapter 16, beat the formula: each row trained when it is next read; the same training, and what it costs.

Whatever is compared comes from the same rounds of one of the chapter's sweeps.
"""

import functools
from typing import Any

import pandas as pd

from traintime.book import original, stored
from traintime.book.stored import ANY, Measurements
from traintime.explain.statistics import difference, pooled_spread
from traintime.learning import results
from traintime.measuring import equal_losses
from traintime.point import make_point
from traintime.workloads.base import Work, product

STACKS = ["2026-tensorflow", "2026-jax", "2026-torch"]
DENSE, DEFERRED, FROZEN = "adam", "adam-deferred", "frozen"  # as the column `how` has them
ROWS = {"optimizer": [DENSE, DEFERRED], "frozen": [False, True]}
SWEEP, MANY, EPOCH, ADDED = "rows", "rows-many", "rows-epoch", "rows-accumulated"
VOCABULARIES = [20_000, 200_000, 2_000_000]
NARROW, MOST = 50, 24_000_000  # numbers a row, and rows of them
SMALL, MIDDLE, LARGE = VOCABULARIES
BATCH = 100
# What else makes a step pay less for its table, each beside dense Adam on MIDDLE rows: what it changes of the point.
OTHERS: dict[str, dict[str, Any]] = {
    "deferred": {"optimizer": DEFERRED},
    "a tenth of the rows": {"vocabulary": SMALL},
    "two factors": {"factor": 30},
    "batch × 8": {"batch": 8 * BATCH},
    "SGD": {"optimizer": "sgd"},
    "table frozen": {"frozen": True},
}
# The same in a sweep of its own, whose runs are as long as several updates.
ADDED_UP: dict[str, dict[str, Any]] = {"deferred": {"optimizer": DEFERRED}, "8 batches added up": {"accumulated": 8}}
USUAL = {"vocabulary": MIDDLE, "batch": BATCH, "optimizer": DENSE, "frozen": False, "factor": 0, "accumulated": 1}
# The task of rare words, and what each way to pay less changes of the training.
TASK: dict[str, Any] = {"task": "moods", "units": 32, "epochs": 5}
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
RATES = [0.001, 0.01]  # at which Keras on TensorFlow is held against Adam as published


def of_sweep(book: Measurements, sweep: str = SWEEP) -> Measurements:
    """What one sweep measured, and nothing beside it."""
    return Measurements(book.rows[book.rows["sweep"] == sweep], book.machine, book.root, book.usual)


def points(book: Measurements, sweep: str = SWEEP, **wanted: Any) -> pd.DataFrame:
    """The sweep's steps over the rows of the table, dense, deferred and frozen (column `how`)."""
    return of_sweep(book, sweep).points(**{"vocabulary": ANY, "embedding": ANY} | ROWS | wanted)


def invocations(book: Measurements, sweep: str = SWEEP) -> pd.DataFrame:
    """The same, invocation by invocation; `how` alone says what was done with the table."""
    found = book.invocations(vocabulary=ANY, embedding=ANY, **ROWS)
    found = found[found["sweep"] == sweep]
    return found.assign(how=stored.how(found), optimizer="", frozen=False)


def steadiest(machine: str = "") -> Measurements:
    """The machine named, or else of those that ran the sweep the one that repeats itself best."""

    def repeats(book: Measurements) -> float | None:
        steps = [values for values in book.values(points(book), "median_s") if len(values)]
        return -pooled_spread(steps).sd if steps else None

    return stored.best(repeats, machine)


def work(how: str, vocabulary: int = LARGE) -> Work:
    """Of a step in one of the ways, by the workload's closed form."""
    changed = {"frozen": True} if how == FROZEN else {"optimizer": how}
    return make_point(vocabulary=vocabulary, **changed).sizes.work()


def trained_over_frozen() -> float:
    """How many times the arithmetic of a step with a frozen table one has that trains it, before any row is moved.

    Of the LSTM's input product one of three parts, the gradient of the words' vectors, is needed for a table alone.
    """
    sizes, whole = make_point().sizes, work(DENSE).flops
    inputs, _ = product(sizes.batch * sizes.length, sizes.embedding, 4 * sizes.units)
    return whole / (whole - inputs / 3)


def ratios(book: Measurements, above: str, below: str, sweep: str = SWEEP) -> pd.DataFrame:
    """The step of one way over that of another, a row a stack and vocabulary (Measurements.ratios)."""
    return book.ratios(invocations(book, sweep), [(above, below)], of="how")


def growth(book: Measurements, how: str, sizes: tuple[int, int] = (LARGE, SMALL), sweep: str = SWEEP) -> pd.DataFrame:
    """The step with the more rows over the step with the fewer, a row a stack (Measurements.ratios)."""
    found = invocations(book, sweep)
    return book.ratios(found[found["how"] == how], [sizes], of="vocabulary", against="batch")


def peaks(book: Measurements, sweep: str = SWEEP) -> pd.DataFrame:
    """Peak memory, bytes, a row a stack and vocabulary, a column a way; share: deferred over dense."""
    found = points(book, sweep).dropna(subset="peak_bytes")
    if found.empty:
        return pd.DataFrame(columns=["stack", "vocabulary", DENSE, DEFERRED, FROZEN, "share"])
    wide = found.pivot_table("peak_bytes", ["stack", "vocabulary"], "how", sort=False)
    wide = wide.reindex(columns=[DENSE, DEFERRED, FROZEN])
    return stored.in_order(wide.assign(share=wide[DEFERRED] / wide[DENSE]).reset_index())


def others(book: Measurements) -> pd.DataFrame:
    """How many times as fast as dense Adam on MIDDLE rows each way trains a sentence, a row a way and stack."""
    return _faster(book, SWEEP, OTHERS, "median_s")


def added_up(book: Measurements) -> pd.DataFrame:
    """The same where gradients are added up: by the mean step, since an update comes once in eight."""
    return _faster(book, ADDED, ADDED_UP, "step_s")


def _faster(book: Measurements, sweep: str, ways: dict[str, dict[str, Any]], step: str) -> pd.DataFrame:
    parts = []
    for way, changed in {"dense": {}, **ways}.items():
        found = book.invocations(**{"vocabulary": MIDDLE} | changed)
        found = found[found["sweep"] == sweep]
        parts.append(found.assign(way=way, median_s=found[step] * BATCH / found["batch"], **USUAL))
    found = pd.concat(parts)
    return book.ratios(found, [("dense", way) for way in ways], of="way", against="stack")


# The epoch of the document


def epochs(book: Measurements) -> pd.DataFrame:
    """Every epoch with LARGE rows that was run to its end, the undisturbed ones and the earlier ones first."""
    ran = of_sweep(book, EPOCH).rows
    ran = ran[ran["epoch_s"].notna()] if "epoch_s" in ran else ran.iloc[:0]
    return ran.sort_values(["disturbed", "started"], kind="stable")


def epoch(book: Measurements) -> pd.Series:
    """The first of `epochs`, the one that counts. Raises KeyError where none was run."""
    ran = epochs(book)
    if ran.empty:
        raise KeyError(EPOCH)
    return ran.iloc[0]


def ran_the_epoch(machine: str = "") -> Measurements:
    """The machine named, or else one that ran the epoch, undisturbed if there is such."""
    return stored.best(lambda book: float(not epoch(book)["disturbed"]) if len(epochs(book)) else None, machine)


def documents_epoch_s() -> float:
    """What the document printed for it on its K40m, s."""
    found = original.s0()
    return float(stored.chosen(found, device="GPU", vocabulary=LARGE)["epoch_s"].iloc[0])


def dense_epoch_s(book: Measurements, ran: pd.Series) -> float:
    """What dense Adam's steps add up to in as many sentences on the same stack, s: reckoned, not run."""
    found = stored.chosen(points(book), stack=ran["stack"], vocabulary=LARGE, how=DENSE)
    return float(found["step_s"].iloc[0]) * ran["sentences"] / ran["batch"]


# Whether it is the same training


def apart(losses: pd.DataFrame) -> pd.DataFrame:
    """How far each way's losses are from Adam's as published, shares: stack, optimizer, step, apart.

    losses: as equal_losses.table gives them. Empty where its reference was not trained.
    """
    of_reference = losses[(losses["stack"] == "numpy") & (losses["optimizer"] == DENSE)].set_index("step")["loss"]
    if of_reference.empty:
        return pd.DataFrame(columns=["stack", "optimizer", "step", "apart"])
    others = losses[~((losses["stack"] == "numpy") & (losses["optimizer"] == DENSE))]
    reference = others["step"].map(of_reference)
    return others.assign(apart=(others["loss"] / reference - 1).abs()).drop(columns="loss").reset_index(drop=True)


@functools.cache
def compared() -> pd.DataFrame:
    """`apart`, of what is stored."""
    return apart(equal_losses.stored())


def worst(table: pd.DataFrame, stack: str, optimizer: str, steps: int = 100) -> float:
    """The farthest apart within so many steps. Raises KeyError where it was not trained."""
    found = stored.chosen(table, stack=stack, optimizer=optimizer)
    if found.empty:
        raise KeyError(f"{stack} {optimizer}")
    return float(found.loc[found["step"] <= steps, "apart"].max())


# What is learned


@functools.cache
def trials() -> pd.DataFrame:
    """Every training that is stored, read once."""
    return results.table()


def trained(found: pd.DataFrame, **changes: Any) -> pd.DataFrame:
    """The trainings of the task of rare words with these changes, a row a seed."""
    return stored.chosen(found, **results.settings(**TASK | changes))


def loss_at_the_end(found: pd.DataFrame, **changes: Any) -> float:
    """The mean loss of the last epoch of training. Raises KeyError where nothing was trained."""
    ran = trained(found, **changes)
    if ran.empty:
        raise KeyError(str(changes))
    return float(ran["training_loss"].map(lambda losses: losses[-1]).mean())


def learned(found: pd.DataFrame) -> pd.DataFrame:
    """What each way gains over dense Adam, a row a way that was trained more than once.

    Columns: way, accuracy, difference with low and high (shares), dense (its accuracy), seeds.
    """
    rows, dense = [], trained(found)["accuracy"]
    for way, changes in LEARNED.items():
        this = trained(found, **changes)["accuracy"]
        if min(len(dense), len(this)) > 1:
            one = difference(this, dense)
            row = {"way": way, "accuracy": this.mean(), "difference": one.value, "low": one.low, "high": one.high}
            rows.append(row | {"dense": dense.mean(), "seeds": min(len(this), len(dense))})
    return pd.DataFrame(rows, columns=["way", "accuracy", "difference", "low", "high", "dense", "seeds"])


def kerass(found: pd.DataFrame) -> pd.DataFrame:
    """What Keras' own table gains on TensorFlow over Adam as published.

    Columns: rate, accuracy, difference with low and high (shares), seeds.
    """
    rows = []
    for rate in RATES:
        tables = ("dense", "deferred")
        keras, adam = (trained(found, backend="tensorflow", rate=rate, table=table)["accuracy"] for table in tables)
        if min(len(keras), len(adam)) > 1:
            one = difference(keras, adam)
            row = {"rate": rate, "accuracy": keras.mean(), "difference": one.value, "low": one.low, "high": one.high}
            rows.append(row | {"seeds": min(len(keras), len(adam))})
    return pd.DataFrame(rows, columns=["rate", "accuracy", "difference", "low", "high", "seeds"])
