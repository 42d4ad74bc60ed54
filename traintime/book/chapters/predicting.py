"""Chapter 15, predict yours: what its page shows of models drawn at random, predicted and trained.

What was tried is in predicting_tried, what was claimed of it in predicting_judged and, of earlier versions of the
predictor, predicting_history; other people's trainings and a machine that is not normal are in predicting_elsewhere.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters import predicting_elsewhere as elsewhere
from traintime.book.chapters import predicting_history, predicting_judged, rows  # noqa: F401 (their claims register)
from traintime.book.chapters.predicting_tried import (
    BASE,
    LOADED,
    beyond,
    by_model,
    cases,
    errors,
    on_every_machine,
    printed,
    some,
    tried,
    unseen,
    until_done,
    withdrawn,
    without_withdrawn,
)
from traintime.book.stored import Measurements
from traintime.predict import durations, goals
from traintime.predict.bench import Case
from traintime.predict.bench_models import DOMAINS, NARROW, WHOLE
from traintime.predict.goals import mean

TIERS = ("probed", "calibrated", "formula")
LARGE = 2_000_000  # rows of the document's largest table
GB = 1e9
SHORT = {"2026-tensorflow": "tf", "2026-jax": "jax", "2026-torch": "torch"}  # in the names of numbers
WAYS = {
    "again": "training it a second time",
    "probed": "probed",
    "calibrated": "calibrated",
    "formula": "formula",
    "one batch": "one batch, timed, times the batches",
    "XLA's count": "XLA's own count, at the machine's rates",
    "FLOPs / peak": "operations over the peak rate",
}
MEMORY_WAYS = {
    "again memory": "training it a second time",
    "probed memory": "probed",
    "calibrated memory": "calibrated",
    "formula memory": "formula",
    "torchinfo memory": "torchinfo, and what the process held (plain PyTorch alone)",
}
DRAWN = {NARROW: "at first", WHOLE: "since 24 November 2026"}
TRIES = "`make bench-predict` tries it."
LARGER = {"vocabulary": "rows", "length": "positions", "batch": "samples a step"}


def _of_way(books: Sequence[Measurements], ways: Mapping[str, str]) -> pd.DataFrame:
    """A row for each machine and way: name, models, error (mean), twice (share within), held ("10 of 12")."""
    table = []
    for book in books:
        for way, mine in cases(book).groupby("way"):
            if way in ways:
                times = mine["times"].to_numpy(float)
                row = {"machine": book.title, "order": list(ways).index(str(way)), "name": ways[str(way)]}
                row |= {"models": len(mine), "error": np.abs(times - 1).mean(), "held": _held(mine)}
                table.append(row | {"twice": np.mean(np.abs(np.log(times)) <= np.log(2))})
    columns = ["machine", "order", "name", "models", "error", "held", "twice"]
    titles = [book.title for book in books]
    made = pd.DataFrame(table, columns=columns)
    return made.sort_values(
        ["machine", "order"], key=lambda one: one.map(titles.index) if one.name == "machine" else one
    )


def _held(models: pd.DataFrame) -> str:
    """Of these intervals, how many held: "10 of 12"; nothing for a way without intervals."""
    held = models["held"].dropna()
    return f"{int(held.sum())} of {len(held)}" if len(held) else ""


def tier_table(books: Sequence[Measurements]) -> HTML:
    """How far off each way to predict the time was: mean error, how many within twice, how many intervals held."""
    return page.columns(
        _of_way(books, WAYS),
        remedy=TRIES,
        machine="",
        name="time, foretold by",
        models="models",
        error=("mean error", 1, ".0%"),
        twice=("within twice", 1, ".0%"),
        held="intervals held",
    )


def memory_table(books: Sequence[Measurements]) -> HTML:
    """The same of the peak of memory."""
    return page.columns(
        _of_way(books, MEMORY_WAYS),
        remedy=TRIES,
        machine="",
        name="peak of memory, foretold by",
        models="models",
        error=("mean error", 1, ".1%"),
        held="intervals held",
    )


def stack_table(books: Sequence[Measurements]) -> HTML:
    """Mean errors on each stack, by tier, and how many intervals held."""

    def cell(models: pd.DataFrame, *ways: str) -> str:
        mine = [models[models["way"] == way] for way in ways]
        told = ((f"{np.abs(one['times'] - 1).mean():.0%}", _held(one)) for one in mine if len(one))
        return "<br>".join(text for each in told for text in each if text) or page.NOT_MEASURED

    table = [
        {"name": f"{book.title}, {str(stack).removeprefix('2026-')}"}
        | {way: cell(mine, way) for way in ("again", "probed", "calibrated")}
        | {"rest": cell(mine, "formula", "one batch"), "memory": cell(mine, "probed memory", "calibrated memory")}
        for book in books
        for stack, mine in cases(book).groupby("stack")
    ]
    return page.columns(
        pd.DataFrame(table),
        remedy=TRIES,
        name="",
        again="trained again",
        probed="probed",
        calibrated="calibrated",
        rest="formula; one batch",
        memory="memory, probed; memory, calibrated",
    )


def goal_table(books: Sequence[Measurements]) -> HTML:
    """Each goal, what was found, and whether it was met."""
    table = [
        [f"{book.title}, {one.of.removeprefix('2026-')}", one.goal, str(one.models), one.found, one.verdict]
        for book in books
        for one in goals.goals(without_withdrawn(book)).itertuples()
    ]
    heads = ["", "goal", "models", "found", "verdict"]
    return page.table(heads, table, right=False, fold="Each goal, and whether it was met") if table else page.nothing()


def domain_table(books: Sequence[Measurements]) -> HTML:
    """The sizes that models of the 2017 post's kind were drawn from, and how many were drawn where."""
    drawn = on_every_machine(books).query("kind == 'classifier'")
    counts = drawn.groupby(["domain", "machine"])["number"].nunique()
    table = []
    for domain, sizes in DOMAINS.items():
        models = "<br>".join(f"{book.title}: {counts.get((domain, book.title), 0)} models" for book in books)
        table.append([f"{DRAWN[domain]}<br>{models}", *(f"{low:,} to {high:,}" for low, high in sizes.values())])
    return page.table(["drawn", *next(iter(DOMAINS.values()))], table)


def beyond_table(books: Sequence[Measurements]) -> HTML:
    """Models of which one a tenth as large in one size was tried: what was missed by, and below it each of them."""
    models = pd.concat([beyond(book).assign(machine=book.title) for book in books])
    if models.empty:
        return page.nothing(TRIES)
    table = []
    for (machine, domain, at, size), mine in models.groupby(["machine", "domain", "at", "size"]):
        missed_by = (f"{errors(mine, way).mean():.0%}" for way in ("scaled", "line"))
        drawn = f"{machine}, {DRAWN[domain]}: {mine['number'].nunique()} models"
        table.append([drawn, LARGER[size], at, *missed_by, _held(mine[mine["way"] == "scaled"])])
    heads = ["drawn", "ten times as many", "batch sizes tried", "scaled, missed by"]
    return HTML(
        page.table([*heads, "a line through two", "intervals that held"], table).data + _each_beyond(models).data
    )


def _each_beyond(models: pd.DataFrame) -> HTML:
    """Each model of which a smaller one was tried: what had been said over what it took."""
    table = []
    for _, one in models.sort_values(["at", "size", "stack"]).groupby(["machine", "number"], sort=False):
        way, first = one.set_index("way"), one.iloc[0]
        scaled, line, again = (f"{way.loc[name, 'times'] - 1:+.0%}" for name in ("scaled", "line", "again"))
        name = f"{LARGER[first['size']]}, {first['stack'].removeprefix('2026-')}, {first['machine']}"
        done = "" if np.isnan(first["done"]) else f"{first['done'] - 1:+.0%}"
        outside = "" if way.loc["scaled", "held"] else "<br>*outside the interval*"
        table.append([name, first["at"], f"{scaled}{outside}", done, line, again])
    heads = ["ten times as many", "batch sizes", "scaled", "until the last step", "a line through two"]
    return page.table([*heads, "training it again"], table, fold="Each model, foretold less what it took")


def case_table(books: Sequence[Measurements]) -> HTML:
    """Each model that was drawn: what it took, and what each tier had said."""
    table = []
    for book in books:
        gone = withdrawn(book)
        for case in tried(book):
            name = f"{case.kind.replace('-', ' ')}, {case.stack.removeprefix('2026-')}, {book.title}"
            times = (_foretold(case, tier, "total") for tier in TIERS)
            peaks = (_foretold(case, tier, "memory") or "–" for tier in ("probed", "calibrated"))
            peak = f"{np.mean(case.peaks) / GB:.2f}"
            memory = "*withdrawn*" if case.started in gone else "<br>".join([peak, *peaks])
            table.append([name, durations.text(case.true_s), *times, memory])
    heads = ["model, backend, machine", "it took", *TIERS, "peak, GB; probed; calibrated"]
    return page.table(heads, table, fold="Each model") if table else page.nothing()


def _foretold(case: Case, tier: str, what: str) -> str:
    """What a tier predicted of one model's time or memory, and whether the truth lay outside."""
    one = getattr(case.predicted[tier], what) if tier in case.predicted else None
    if one is None:
        return ""
    text = durations.text(one.value) if what == "total" else f"{one.value / GB:.2f}"
    return text if case.inside()[tier if what == "total" else f"{tier} memory"] else f"{text}<br>*missed*"


# The numbers of the prose; of several machines each its own


def on_each(books: Sequence[Measurements], give: Callable[[Measurements], str]) -> str:
    """A text for a sentence: "4 %", or where the page shows several machines "4 % on machine C and 3 % on machine D".

    Those that did not measure it are left out.
    """
    texts = {book.title: page.or_not_measured(lambda book=book: give(book)) for book in books}
    texts = {title: text for title, text in texts.items() if text != page.NOT_MEASURED}
    if len(books) == 1:
        return next(iter(texts.values()), page.NOT_MEASURED)
    return " and ".join(f"{text} on {title}" for title, text in texts.items()) or page.NOT_MEASURED


def numbers(books: Sequence[Measurements]) -> dict[str, str]:
    """Every number that the chapter's sentences name."""
    each: dict[str, Callable[[Measurements], str]] = {
        "models": lambda book: str(some(cases(book))["number"].nunique()),
        "units": elsewhere.of_512_units,
        "asleep": _asleep,
        "one-batch-ahead": _one_batch,
        "memory-furthest": _furthest,
        "memory-now": _memory_now,
        "unseen": lambda book: f"{errors(unseen(cases(book)), 'calibrated').mean():.0%}",
    }
    for way in ("again", "probed", "formula", "probed memory"):
        each[way.replace(" ", "-")] = lambda book, way=way: f"{errors(cases(book), way).mean():.0%}"
    for tier in TIERS:
        each[f"{tier}-held"] = lambda book, tier=tier: _held(
            some(cases(book).query("way == @tier").dropna(subset="held"))
        )
    for stack, name in SHORT.items():
        each[f"advice-{name}"] = lambda book, stack=stack: f"{elsewhere.advised(book, stack, LARGE):.0f}"
        each[f"tried-{name}"] = lambda book, stack=stack: _deferred(book, stack)
    given = {f"predict-{name}": on_each(books, give) for name, give in each.items()}
    trying = " and ".join(book.title for book in books if len(cases(book)))
    given |= {
        "predict-there": trying or page.NOT_MEASURED,
        "predict-withdrawn": str(sum(map(len, map(withdrawn, books)))),
    }
    given["predict-printed"] = str(sum(printed(book)["number"].nunique() for book in books))
    scaled = pd.concat([beyond(book) for book in books]).query("domain == @NARROW")
    for at in ("one", "two"):
        mine = scaled[scaled["at"] == at]
        for way in ("scaled", "line"):
            give = page.or_not_measured(lambda mine=mine, way=way: mean(errors(mine, way)).text(".0%"))
            given[f"predict-{at}-{way}"] = give
        given[f"predict-{at}-held"] = _held(mine[mine["way"] == "scaled"]) or page.NOT_MEASURED
    given["predict-two-done"] = page.or_not_measured(lambda: until_done(scaled[scaled["at"] == "two"]).text(".0%"))
    return given | elsewhere.numbers()


def _one_batch(book: Measurements) -> str:
    """Where timing one batch missed by less than the probe: "tensorflow (12.4% against 15.9%)", or "no stack"."""
    nearer = []
    for stack, mine in some(cases(book)).groupby("stack"):
        batch, probe = by_model(mine, "one batch", "probed").mean()
        if batch < probe:
            nearer.append(f"{str(stack).removeprefix('2026-')} ({batch:.1%} against {probe:.1%})")
    return ", ".join(nearer) or "no stack"


# Kinds of models as a sentence names them (predict.bench_models).
KINDS = {"classifier": "the document's kind", "recurrent": "bidirectional GRUs", "dense": "dense layers"}
KINDS |= {"convolution-1d": "1-D convolutions", "convolution-2d": "2-D convolutions", "attention": "attention"}


def _memory_now(book: Measurements) -> str:
    """What a calibration misses the peak of memory by since it knows what the very process holds."""
    return f"{errors(cases(book).query(f'version >= {LOADED}'), 'calibrated memory').mean():.0%}"


def _furthest(book: Measurements) -> str:
    """The kind of models whose memory a calibration missed by most before it knew more: "dense layers (by 44%)"."""
    mine = some(cases(book).query(f"version == {BASE} and way == 'calibrated memory'"))
    by_kind = (mine["times"] - 1).abs().groupby(mine["kind"]).mean()
    return f"{KINDS[str(by_kind.idxmax())]} (by {by_kind.max():.0%})"


def _asleep(book: Measurements) -> str:
    """Of the models whose probe knew that `fit` may sleep, how many intervals held: "6 of 6"."""
    knew = [case for case in tried(book) if any("may sleep" in note for note in case.predicted["probed"].notes)]
    if not knew:
        raise KeyError("none was predicted so")
    return f"{sum(case.inside()['probed'] for case in knew)} of {len(knew)}"


def _deferred(book: Measurements, stack: str) -> str:
    """How many times as fast deferred rows were measured to train."""
    one = stored.row(rows.way_ratios(book, rows.DENSE, rows.DEFERRED), stack=stack, vocabulary=LARGE)
    return stored.interval(one).text(".0f")
