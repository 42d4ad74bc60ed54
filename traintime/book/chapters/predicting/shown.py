"""What the page on prediction shows: tables, and the numbers of its prose."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters import rows
from traintime.book.chapters.predicting.analysis import (
    ALLOCATORS,
    ERAS,
    ODD,
    TIERS,
    TRIED_AT,
    advised,
    beyond,
    cases,
    document,
    document_kind,
    errors,
    foretold_in,
    odd,
    of_units,
    others,
    printed,
    sound,
    tried,
    unseen,
    withdrawn,
)
from traintime.book.stored import Measurements
from traintime.predict import durations, goals
from traintime.predict.bench import Case
from traintime.predict.bench_models import DOMAINS, NARROW, WHOLE
from traintime.predict.goals import mean

LARGE = 2_000_000  # rows of the document's largest table
WAYS = {
    "again": "training it a second time",
    "probed": "probed",
    "calibrated": "calibrated",
    "formula": "formula",
    "one batch": "one batch, timed, times the batches",
    "XLA's count": "XLA's own count, at the machine's rates",
    "FLOPs / peak": "operations over the peak rate",
}
GB = 1e9
# What a calibration had prices for, era by era.
KNEW = {
    "doubted": "each byte of an update",
    "apart": "its operations, too, and the square of the positions on torch",
    "fresh": "the first step, the sleep, and the block that JAX's step keeps for itself, too",
    "base": "the same, with memory counted from what a process here holds",
    "loaded": "the same, with memory counted from what the very process holds",
}
MEMORY_WAYS = {
    "again memory": "training it a second time",
    "probed memory": "probed",
    "calibrated memory": "calibrated",
    "formula memory": "formula",
    "torchinfo memory": "torchinfo, and what the process held (plain PyTorch alone)",
}
BY_STACK = {
    "again": "trained again",
    "probed": "probed",
    "calibrated": "calibrated",
    "formula": "formula",
    "one batch": "one batch",
    "probed memory": "memory, probed",
    "calibrated memory": "memory, calibrated",
}
DRAWN = {NARROW: "at first", WHOLE: "since 24 November 2026"}
TRIES = "`make bench-predict` tries it."
LARGER = {"vocabulary": "rows", "length": "positions", "batch": "samples a step"}


def tier_table(books: Sequence[Measurements]) -> HTML:
    """How far off each way to foretell the time was: mean error, how many within twice, how many intervals held."""
    table = []
    for book, way, times, held in _ways(books, WAYS):
        twice = np.mean(np.abs(np.log(times)) <= np.log(2))
        name, error = WAYS[way], np.abs(times - 1).mean()
        table.append([book.title, name, str(len(times)), f"{error:.0%}", f"{twice:.0%}", _share(held)])
    heads = ["", "time, foretold by", "models", "mean error", "within twice", "intervals held"]
    return page.table(heads, table) if table else page.nothing(TRIES)


def memory_table(books: Sequence[Measurements]) -> HTML:
    """The same of the peak of memory."""
    table = [
        [book.title, MEMORY_WAYS[way], str(len(times)), f"{np.abs(times - 1).mean():.1%}", _share(held)]
        for book, way, times, held in _ways(books, MEMORY_WAYS)
    ]
    heads = ["", "peak of memory, foretold by", "models", "mean error", "intervals held"]
    return page.table(heads, table) if table else page.nothing(TRIES)


def _ways(
    books: Sequence[Measurements], ways: Iterable[str]
) -> Iterator[tuple[Measurements, str, np.ndarray, pd.Series]]:
    """Of each machine and way that was tried there: how many times the truth was foretold, and which intervals held."""
    for book in books:
        found = cases(book)
        for way in ways:
            if not (of_way := found[found["way"] == way]).empty:
                yield book, way, of_way["times"].to_numpy(float), of_way["held"].dropna()


def stack_table(books: Sequence[Measurements]) -> HTML:
    """Mean errors on each stack, by tier, and how many intervals held."""
    table = []
    for book in books:
        for stack, mine in cases(book).groupby("stack"):
            cells = (page.or_not_measured(lambda way=way, mine=mine: _missed_and_held(mine, way)) for way in BY_STACK)
            again, probed, calibrated, formula, batch, *memory = cells
            table.append([f"{book.title}, {stack.removeprefix('2026-')}", again, probed, calibrated])
            table[-1] += [f"{formula}<br>{batch}", "<br>".join(memory)]
    again, probed, calibrated, formula, batch, *memory = BY_STACK.values()
    heads = ["", again, probed, calibrated, f"{formula}; {batch}", "; ".join(memory)]
    return page.table(heads, table) if table else page.nothing(TRIES)


def _missed_and_held(found: pd.DataFrame, way: str) -> str:
    """ "16 %, 19 of 23 held", or the error alone of a way without intervals."""
    error, held = f"{errors(found, way).mean():.0%}", found[found["way"] == way]["held"].dropna()
    return f"{error}<br>{_share(held)}" if len(held) else error


def _share(held: pd.Series) -> str:
    """ "10 of 12", or nothing for a way without intervals."""
    return f"{int(held.sum())} of {len(held)}" if len(held) else ""


def goal_table(books: Sequence[Measurements]) -> HTML:
    """Each goal, what was found, and whether it was met."""
    table = [
        [f"{book.title}, {one.of.removeprefix('2026-')}", one.goal, str(one.models), one.found, one.verdict]
        for book in books
        for one in goals.goals(sound(book)).itertuples()
    ]
    heads = ["", "goal", "models", "found", "verdict"]
    return page.table(heads, table, right=False, fold="Each goal, and whether it was met") if table else page.nothing()


def domain_table(books: Sequence[Measurements]) -> HTML:
    """The sizes that models of the document's kind were drawn from, and how many were drawn where."""
    table = []
    for domain, sizes in DOMAINS.items():
        bounds = (f"{low:,} to {high:,}" for low, high in sizes.values())
        drawn = ((book.title, len(_drawn(book, domain))) for book in books)
        counts = "<br>".join(f"{title}: {number} models" for title, number in drawn)
        table.append([f"{DRAWN[domain]}<br>{counts}", *bounds])
    return page.table(["drawn", *next(iter(DOMAINS.values()))], table)


def _drawn(book: Measurements, domain: str) -> pd.Index:
    """Models of the document's kind that were drawn from this domain."""
    found = cases(book)
    return pd.Index(found[(found["kind"] == "classifier") & (found["domain"] == domain)]["number"].unique())


def era_table(books: Sequence[Measurements]) -> HTML:
    """Models of the document's kind, by what a calibration knew when they were foretold."""
    table = []
    for book in books:
        found = cases(book)
        for era in ERAS:
            for stacks, mine in (("", document_kind(found, era)), *_on_jax(found, era)):
                if (mine["way"] == "calibrated").any():
                    by = [mine[mine["allocator"] == allocator] for allocator in ALLOCATORS]
                    missed = (
                        page.or_not_measured(lambda one=one: f"{errors(one, 'calibrated').mean():.0%}") for one in by
                    )
                    table.append([book.title, KNEW[era] + stacks, *missed, _held(mine, "calibrated")])
    heads = ["", "foretold by prices of", *(f"missed by, {each}" for each in ALLOCATORS), "intervals that held"]
    return page.table(heads, table) if table else page.nothing(TRIES)


def _on_jax(found: pd.DataFrame, era: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Of the era whose prices were mended for JAX, what was missed there."""
    if era == "fresh":
        yield ": on JAX alone", document_kind(found, era).query("stack == '2026-jax'")


def beyond_table(books: Sequence[Measurements]) -> HTML:
    """Models of which one a tenth as large in one size was tried: what was missed by, and below it each of them."""
    found = pd.concat([beyond(book).assign(machine=book.title) for book in books])
    if found.empty:
        return page.nothing(TRIES)
    table = []
    for (machine, domain, at, size), mine in found.groupby(["machine", "domain", "at", "size"]):
        missed = (f"{errors(mine, way).mean():.0%}" for way in ("scaled", "line"))
        number = str(mine["number"].nunique())
        drawn = f"{machine}, {DRAWN[domain]}: {number} models"
        table.append([drawn, LARGER[size], at, *missed, _held(mine, "scaled")])
    heads = ["drawn", "ten times as many", "batch sizes tried", "scaled, missed by"]
    heads += ["a line through two", "intervals that held"]
    return HTML(page.table(heads, table).data + _each_beyond(found).data)


def _each_beyond(found: pd.DataFrame) -> HTML:
    """Each model of which a smaller one was tried: what had been said over what it took."""
    table = []
    for _, one in found.sort_values(["at", "size", "stack"]).groupby(["machine", "number"], sort=False):
        way = one.set_index("way")
        first = one.iloc[0]
        missed = "" if way.loc["scaled", "held"] else "<br>*outside the interval*"
        scaled, line, again = (f"{way.loc[name, 'times'] - 1:+.0%}" for name in ("scaled", "line", "again"))
        name = f"{LARGER[first['size']]}, {first['stack'].removeprefix('2026-')}, {first['machine']}"
        done = "" if np.isnan(first["done"]) else f"{first['done'] - 1:+.0%}"
        table.append([name, first["at"], f"{scaled}{missed}", done, line, again])
    heads = [
        "ten times as many",
        "batch sizes",
        "scaled",
        "until the last step",
        "a line through two",
        "training it again",
    ]
    return page.table(heads, table, fold="Each model, foretold less what it took")


def case_table(books: Sequence[Measurements]) -> HTML:
    """Each model that was drawn: what it took, and what each tier had said."""
    table = []
    for book in books:
        gone = withdrawn(book)
        for case in _tried(book):
            name = f"{case.kind.replace('-', ' ')}, {case.stack.removeprefix('2026-')}, {book.title}"
            times = (_said(case, tier, "total") for tier in TIERS)
            peak = f"{np.mean(case.peaks) / GB:.2f}"
            peaks = (_said(case, tier, "memory") for tier in ("probed", "calibrated"))
            memory = "*withdrawn*" if case.started in gone else "<br>".join([peak, *(one or "–" for one in peaks)])
            table.append([name, durations.text(case.true_s), *times, memory])
    heads = ["model, backend, machine", "it took", *TIERS, "peak, GB; probed; calibrated"]
    return page.table(heads, table, fold="Each model") if table else page.nothing()


def _tried(book: Measurements) -> list[Case]:
    """What the machine has tried and kept; [] where that is nothing."""
    try:
        return tried(book)
    except KeyError:
        return []


def _said(case: Case, tier: str, what: str) -> str:
    """What a tier said of one model's time or memory, and whether the truth lay outside."""
    said = getattr(case.predicted[tier], what) if tier in case.predicted else None
    if said is None:
        return ""
    held = case.inside()[tier if what == "total" else f"{tier} memory"]
    shown = durations.text(said.value) if what == "total" else f"{said.value / GB:.2f}"
    return shown if held else f"{shown}<br>*missed*"


def document_table() -> HTML:
    """The document's cells of its GPU, foretold."""
    cells = [
        [
            f"{one.vocabulary:,}",
            f"{one.batch:,}",
            f"{one.epoch_s:,.0f}",
            f"{one.foretold_s:,.0f}<br>({one.low_s:,.0f} to {one.high_s:,.0f})",
            f"{one.update:.0%}",
        ]
        for one in document().itertuples()
    ]
    heads = ["rows", "batch", "the document's epoch, s", "foretold, s", "of it the update"]
    return page.table(heads, cells)


def others_table() -> HTML:
    """Trainings that others published, foretold from a data sheet."""
    cells = [
        [
            f"{one.framework}, {one.units:,} units, batch {one.batch}",
            f"{one.step_s * 1e3:.0f}",
            f"{one.foretold_s * 1e3:.0f}<br>({one.low_s * 1e3:.0f} to {one.high_s * 1e3:.0f})",
            f"{one.now_s * 1e3:.0f}",
        ]
        for one in others().itertuples()
    ]
    return page.table(["on a Titan X", "it took, ms a step", "as first foretold", "foretold now"], cells)


def odd_table() -> HTML:
    """Whether machine A is normal."""
    return page.placed(odd(), f"Is {stored.of(ODD).title} normal?")


def values(books: Sequence[Measurements]) -> dict[str, str]:
    """The numbers of the chapter's prose; of several machines each its own."""
    of_document, published = document(), others()
    first, now = (published["step_s"] / published[name] for name in ("foretold_s", "now_s"))
    off = np.abs(of_document["foretold_s"] / of_document["epoch_s"] - 1)
    largest = of_document.loc[of_document["vocabulary"].idxmax()]
    found = {book: cases(book) for book in books}

    def each(give: Callable[[Measurements], str]) -> str:
        return page.or_not_measured(lambda: by_machine(books, give))

    given = {
        "predict-there": " and ".join(book.title for book in books if len(found[book])) or "(not measured)",
        "predict-models": each(lambda book: str(found[book]["number"].nunique())),
        "predict-document-cells": f"{int((off <= 0.5).sum())} of {len(off)}",
        "predict-document-large": f"{largest['foretold_s']:,.0f}",
        "predict-document-was": f"{largest['epoch_s']:,.0f}",
        "predict-document-update": f"{largest['update']:.0%}",
        "predict-others": f"{int(first.between(0.5, 2).sum())} of {len(first)}",
        "predict-others-now": f"{int(now.between(0.5, 2).sum())} of {len(now)}",
        "predict-others-most": f"{1 / first.min():.1f}",
        "predict-units": each(_units),
        "predict-odd": page.or_not_measured(_odd),
        "predict-withdrawn": str(sum(len(withdrawn(book)) for book in books)),
        "predict-printed": str(sum(printed(book)["number"].nunique() for book in books)),
        "predict-asleep": each(_asleep),
        "predict-one-batch-ahead": each(lambda book: _one_batch(found[book])),
        "predict-memory-furthest": each(lambda book: _furthest(foretold_in(found[book], "base"), "calibrated memory")),
        "predict-memory-now": each(
            lambda book: f"{errors(foretold_in(found[book], 'loaded'), 'calibrated memory').mean():.0%}"
        ),
        "predict-unseen": each(lambda book: f"{errors(unseen(found[book]), 'calibrated').mean():.0%}"),
    }
    for way in ("again", "probed", "formula", "probed memory"):
        given[f"predict-{way.replace(' ', '-')}"] = each(lambda book, way=way: f"{errors(found[book], way).mean():.0%}")
    for tier in TIERS:
        given[f"predict-{tier}-held"] = each(lambda book, tier=tier: _held(found[book], tier))
    scaled = pd.concat([beyond(book) for book in books])
    scaled = scaled[scaled["domain"] == NARROW]
    for at in TRIED_AT:
        mine = scaled[scaled["at"] == at]
        for way in ("scaled", "line"):
            name = f"predict-{at}-{way}"
            given[name] = page.or_not_measured(lambda mine=mine, way=way: mean(errors(mine, way)).text(".0%"))
        given[f"predict-{at}-held"] = page.or_not_measured(lambda mine=mine: _held(mine, "scaled"))
    given["predict-two-done"] = page.or_not_measured(lambda: _until_done(scaled[scaled["at"] == "two"]))
    for stack, name in (("2026-tensorflow", "tf"), ("2026-jax", "jax"), ("2026-torch", "torch")):
        given[f"predict-advice-{name}"] = each(lambda book, s=stack: f"{advised(book, s, LARGE):.0f}")
        given[f"predict-tried-{name}"] = each(lambda book, s=stack: _measured(book, s))
    return given


def by_machine(books: Sequence[Measurements], give: Callable[[Measurements], str]) -> str:
    """A text for a sentence: "4 %", or where the page shows several machines "4 % on machine C and 3 % on machine D".

    Those that did not measure it are left out. Raises KeyError where none did.
    """
    texts = {}
    for book in books:
        with contextlib.suppress(KeyError, IndexError):
            texts[book.title] = give(book)
    if not texts:
        raise KeyError("not measured")
    if len(books) == 1:
        return next(iter(texts.values()))
    return " and ".join(f"{text} on {machine}" for machine, text in texts.items())


def _one_batch(found: pd.DataFrame) -> str:
    """Where timing one batch missed by less than the probe: "TensorFlow (12.4 % against 15.9 %)", or "no stack"."""
    ahead = []
    for stack, mine in found.groupby("stack"):
        table = mine.assign(error=(mine["times"] - 1).abs()).pivot_table(index="number", columns="way", values="error")
        batch, probed = table[["one batch", "probed"]].dropna().mean()
        if batch < probed:
            ahead.append(f"{stack.removeprefix('2026-')} ({batch:.1%} against {probed:.1%})")
    return ", ".join(ahead) or "no stack"


def _held(found: pd.DataFrame, way: str) -> str:
    """Of these models' intervals, how many held: "10 of 12"."""
    held = found[found["way"] == way]["held"].dropna()
    if held.empty:
        raise KeyError("not tried")
    return f"{int(held.sum())} of {len(held)}"


# Kinds of models as a sentence names them (predict.bench_models).
KINDS = {"classifier": "the document's kind", "recurrent": "bidirectional GRUs", "dense": "dense layers"}
KINDS |= {"convolution-1d": "1-D convolutions", "convolution-2d": "2-D convolutions", "attention": "attention"}


def _furthest(found: pd.DataFrame, way: str) -> str:
    """The kind of models that a way misses by most, and its mean error: "dense layers (by 44 %)"."""
    mine = found[found["way"] == way]
    by_kind = (mine["times"] - 1).abs().groupby(mine["kind"]).mean()
    if by_kind.empty:
        raise KeyError("not tried")
    return f"{KINDS[str(by_kind.idxmax())]} (by {by_kind.max():.0%})"


def _until_done(found: pd.DataFrame) -> str:
    """What scaled answers miss, without the sleep after the last step."""
    if (times := found[found["way"] == "scaled"]["done"].dropna()).empty:
        raise KeyError("not kept")
    return mean(np.abs(times.to_numpy() - 1)).text(".0%")


def _units(book: Measurements) -> str:
    """What the stacks of 2017 took of what was foretold for 512 units: "0.30 to 0.60"."""
    table = of_units(book)
    times = table.loc[(table["units"] == 512) & table["stack"].str.startswith("2017"), "times"]
    if times.empty:
        raise KeyError("not measured")
    return f"{times.min():.2f} to {times.max():.2f}"


def _odd() -> str:
    """How slow the odd one is: "2.1 times"."""
    return f"{max(one.times.value for one in odd() if one.off):.1f} times"


def _asleep(book: Measurements) -> str:
    """Of the models whose probe knew that `fit` may sleep, how many intervals held: "6 of 6"."""
    knew = [case for case in tried(book) if any("may sleep" in note for note in case.predicted["probed"].notes)]
    if not knew:
        raise KeyError("none was foretold so")
    return f"{sum(case.inside()['probed'] for case in knew)} of {len(knew)}"


def _measured(book: Measurements, stack: str) -> str:
    """How many times as fast deferred rows were measured to train."""
    one = stored.row(rows.ratios(book, rows.DENSE, rows.DEFERRED), stack=stack, vocabulary=LARGE)
    return stored.interval(one).text(".0f")
