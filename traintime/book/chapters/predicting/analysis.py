"""Predictions of models drawn at random beside their trainings, and the document's card from its data sheet."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from traintime import paths
from traintime.book import external, original, stored
from traintime.book.stored import Measurements
from traintime.errors import InputError
from traintime.point import make_point
from traintime.predict import cards, compare, prices
from traintime.predict.answer import LEVEL, around
from traintime.predict.bench import Case, kept
from traintime.predict.bench_models import BEYONDS, LOOPS, NARROW
from traintime.predict.calibrate import DESIGNS
from traintime.predict.peaks import LOADED_SINCE

COLUMNS = ["number", "stack", "allocator", "kind", "domain", "started", "way", "times", "held"]
TIERS = ("probed", "calibrated", "formula")
ALLOCATORS = ("glibc", "tcmalloc")  # that models of the document's kind were tried under
# When the models were foretold that are told of together, by what a calibration knew then, since when and until when.
# Doubted: its error is not its own probes' alone. Apart: an update's operations and slices' gradients have prices of
# their own. Fresh: the block that JAX's compiled step keeps for itself has one, and the first step is counted. Base:
# its memory starts from what a process that trains was seen to hold. Loaded: from what the very process holds that has
# the model; samples count at the start of `fit`, and recurrent positions have a price of their own.
ERAS = {
    "doubted": ("2026-11-23T08:00:00Z", "2026-11-23T14:45:00Z"),
    "apart": ("2026-11-23T14:45:00Z", "2026-11-23T17:30:00Z"),
    "fresh": ("2026-11-23T17:30:00Z", "2026-11-24T20:30:00Z"),
    "base": ("2026-11-24T20:30:00Z", LOADED_SINCE),
    "loaded": (LOADED_SINCE, "9999"),
}
# A smaller model is tried at one batch size; from when to when it was tried at two, which was no better.
TRIED_AT = ("one", "two")
TWO = ("2026-11-23T23:05:00Z", "2026-11-23T23:32:00Z")
ODD = "amd-epyc-2-cores-24-gib"  # machine A
SURE = 1e6  # degrees of freedom of a tier's own error


def machines(reference: str = "") -> list[Measurements]:
    """Each machine of the book that has tried any model, the one named alone, or the book's where none has."""
    if reference:
        return [stored.of(reference)]
    found = [book for name in stored.named() if len(cases(book := stored.of(name))) or len(beyond(book))]
    return found or [stored.of()]


def tried(book: Measurements) -> list[Case]:
    """What was predicted and trained on the page's machine. Raises KeyError where nothing was."""
    if not (found := _kept(book, of_smaller=False)):
        raise KeyError("no model was predicted here")
    return found


def everywhere(books: Sequence[Measurements]) -> pd.DataFrame:
    """The `cases` of several machines, with a column machine, its title."""
    return pd.concat([cases(book).assign(machine=book.title) for book in books], ignore_index=True)


def _kept(book: Measurements, of_smaller: bool) -> list[Case]:
    """The models that were themselves tried before, or those of which a smaller one was."""
    return [one for one in kept(paths.PREDICTED, book.machine) if (one.kind in BEYONDS) == of_smaller]


def withdrawn(book: Measurements) -> dict[str, str]:
    """When the models were started whose memory is withdrawn, and why (data/predicted/withdrawn.csv)."""
    rows = pd.read_csv(paths.PREDICTED / "withdrawn.csv")
    rows = rows[(rows["machine"] == book.machine) & (rows["figure"] == "memory")]
    return rows.set_index("started")["reason"].to_dict()


def sound(book: Measurements) -> list[Case]:
    """All that the machine has tried and kept, without the memory that is withdrawn."""
    gone = withdrawn(book)
    return [_without_memory(case) if case.started in gone else case for case in kept(paths.PREDICTED, book.machine)]


def _without_memory(case: Case) -> Case:
    predicted = {tier: replace(one, memory=None) for tier, one in case.predicted.items()}
    return replace(case, predicted=predicted, torchinfo_bytes=None)


def cases(book: Measurements) -> pd.DataFrame:
    """A row for each model and way to predict it: columns stack, allocator, kind, domain (the sizes that it was drawn
    from), started, way, times (predicted over true), held; empty where nothing was tried.

    way: "again" (the second training over the first), a tier, a tier and " memory", or a baseline; held: whether the
    way's interval held the truth, missing for a way that has none and for what was printed alone.
    """
    kept_ones, only_printed = _rows(_kept(book, of_smaller=False), withdrawn(book)), printed(book)
    if only_printed.empty:
        return kept_ones
    return pd.concat([kept_ones, only_printed.assign(number=lambda one: -1 - one["number"])], ignore_index=True)


def beyond(book: Measurements) -> pd.DataFrame:
    """As `cases`, of models of which one a tenth as large in one size was tried; ways "again", "scaled" and "line".

    Further columns: size, the one that is ten times as large; at, of TRIED_AT; done: scaled over the time until the
    last step was done, without the sleep that may follow on TensorFlow; missing for the first, which did not keep it.
    """
    those = _kept(book, of_smaller=True)
    found = _rows(those, withdrawn(book))
    done = [one.predicted["scaled"].total.value / one.busy_s if one.done_s else np.nan for one in those]
    at = np.where(found["started"].between(*TWO), "two", "one")
    size = found["kind"].str.removeprefix("beyond-")
    return found.assign(size=size, at=at, done=found["number"].map(dict(enumerate(done))))


def _rows(tried_ones: list[Case], gone: Mapping[str, str]) -> pd.DataFrame:
    """A row for each model and way to predict it. gone: the models whose memory is withdrawn."""
    rows = []
    for number, case in enumerate(tried_ones):
        held = case.inside()
        for way, error in case.errors().items():
            if way.endswith(" memory") and case.started in gone:
                continue
            about = {"number": number, "stack": case.stack, "allocator": case.allocator, "kind": case.kind}
            about |= {"domain": case.domain, "started": case.started, "way": way}
            rows.append(about | {"times": 1 + error, "held": held.get(way)})
    return pd.DataFrame(rows, columns=COLUMNS)


def printed(book: Measurements) -> pd.DataFrame:
    """Models that a bench drew, trained and printed without keeping them (data/predicted/printed.csv), as `cases`.

    Their errors are whole percents; whether an interval held is not known of them.
    """
    if not (path := paths.PREDICTED / "printed.csv").exists():
        return pd.DataFrame(columns=COLUMNS)
    wide = pd.read_csv(path).query("machine == @book.machine").rename(columns={"ended": "started"})
    wide = wide.drop(columns=["machine", "fit_s"]).reset_index(names="number")
    long = wide.melt(["number", "stack", "allocator", "kind", "started"], var_name="way", value_name="times")
    # Less than half a percent was printed as nothing, which no axis of logarithms has.
    return long.assign(times=(1 + long["times"]).clip(lower=0.005), held=None, domain=NARROW)[COLUMNS]


def errors(found: pd.DataFrame, way: str) -> np.ndarray:
    """Relative errors of one way, without their sign. Raises KeyError where it was not tried."""
    of_way = found[found["way"] == way]
    if of_way.empty:
        raise KeyError(way)
    return np.abs(of_way["times"].to_numpy(float) - 1)


def foretold_in(found: pd.DataFrame, *eras: str) -> pd.DataFrame:
    """The models that were foretold in these of the ERAS, which follow one another."""
    since, until = ERAS[eras[0]][0], ERAS[eras[-1]][1]
    return found[found["started"].between(since, until, inclusive="left")]


def document_kind(found: pd.DataFrame, *eras: str) -> pd.DataFrame:
    """Of those the models of the document's kind."""
    return foretold_in(found, *eras).query("kind == 'classifier'")


def loops(found: pd.DataFrame) -> pd.DataFrame:
    """The loops in plain PyTorch."""
    return found[found["kind"].isin(LOOPS)]


def unseen(found: pd.DataFrame) -> pd.DataFrame:
    """The models of kinds that no probe of a calibration has trained."""
    return found[~found["kind"].isin({kind for kind, _ in DESIGNS})]


def others() -> pd.DataFrame:
    """Trainings of a recurrent layer that others timed on a Titan X, as the formula foretells them from its data sheet.

    Columns framework, units, batch, step_s; foretold_s, low_s, high_s, as first foretold (data/predicted/titan-x.csv);
    now_s: as the habits of today foretell it. Inputs as many as units, SGD, of each framework the stack of 2017.
    """
    found = external.benchmarks()
    rows = pd.read_csv(paths.PREDICTED / "titan-x.csv").merge(
        found[found["name"] == "rnn-benchmarks"], on=["framework", "units", "length", "batch"], suffixes=("", "_seen")
    )
    now = {}
    for card, stack, point, _ in cards.published():
        if card == cards.TITAN:
            key = stack, point.sizes.units, point.sizes.batch
            now[key] = prices.published(card, stack).step_s(point.work)
    keys = zip(rows["framework"].map(cards.OF_2017), rows["units"], rows["batch"], strict=True)
    return rows.assign(step_s=rows["seconds_per_sample"] * rows["batch"], now_s=[now[key] for key in keys])


def of_units(book: Measurements) -> pd.DataFrame:
    """One LSTM of other units than the habits knew, foretold from them at the machine's own rates, and measured.

    data/predicted/units.csv has what the habits made of each step before it was measured: seconds, operations and bytes
    at the least possible price. Columns: stack, units, batch, foretold_s, step_s with low_s and high_s (95 %), times
    (measured over foretold). Raises KeyError where the page's machine has not measured them.
    """
    foretold = pd.read_csv(paths.PREDICTED / "units.csv")
    measured = book.points(workload="lstm", stack=stored.ANY, units=[32, 512], batch=[32, 128])
    rows = foretold.merge(measured[["stack", "key", "step_s", "low_s", "high_s"]]).dropna(subset="step_s")
    if rows.empty:
        raise KeyError("no LSTM of other units was measured")
    rates = prices.own_rates(book.machine)
    seconds = rows["fixed_s"] + rows["operations"] / rates.flops + rows["bytes"] / rates.bytes
    return rows.assign(foretold_s=seconds, times=rows["step_s"] / seconds)


def document() -> pd.DataFrame:
    """The document's cells of its GPU, as the formula foretells them: columns vocabulary, batch, epoch_s, foretold_s,
    low_s, high_s, and update, the share of a step that the table's update takes.

    From the card's data sheet and Theano's habits on processors: no second of a GPU was used.
    """
    priced, rows = prices.published("K40m", "2017-theano"), []
    for name in ("vocabulary", "batch"):
        for _, cell in original.read(f"s0-{name}").iterrows():
            if cell["device"] != "GPU" or cell["backend"] != "theano":
                continue
            sizes = {size: int(cell[size]) for size in ("vocabulary", "batch", "length")}
            work = make_point(**sizes).work
            epoch = around(priced.step_s(work) * cell["sentences"] / cell["batch"], (priced.error, SURE), level=LEVEL)
            about = {"vocabulary": sizes["vocabulary"], "batch": sizes["batch"], "epoch_s": float(cell["epoch_s"])}
            parts = priced.parts(work)
            share = (parts["update"] + parts["elementwise"]) / priced.step_s(work)
            rows.append(about | {"foretold_s": epoch.value, "low_s": epoch.low, "high_s": epoch.high, "update": share})
    return pd.DataFrame(rows).drop_duplicates(["vocabulary", "batch"]).reset_index(drop=True)


def odd() -> list[compare.Placed]:
    """The stacks of the machine whose TensorFlow ran without oneDNN, held against the book's other machines."""
    return compare.compare(paths.MEASUREMENTS, ODD)


def advised(book: Measurements, stack: str, vocabulary: int) -> float:
    """How many times as fast the formula says that deferred rows train than dense ones, on the page's machine.

    Raises KeyError for a machine that the book does not name, or whose rates nobody measured.
    """
    if book.machine not in stored.named():
        raise KeyError(book.machine)
    try:
        rates = prices.own_rates(book.machine)
    except InputError:  # a machine that tried models and measured nothing else
        raise KeyError(book.machine) from None
    priced = prices.of_rates("here", rates, stack)
    dense, deferred = (
        priced.step_s(make_point(vocabulary=vocabulary, optimizer=optimizer).work)
        for optimizer in ("adam", "adam-deferred")
    )
    return dense / deferred
