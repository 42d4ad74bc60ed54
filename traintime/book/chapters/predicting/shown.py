"""What the page on prediction shows: tables, and the numbers of its prose."""

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters import rows
from traintime.book.chapters.predicting.analysis import (
    ALLOCATORS,
    BASELINES,
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
    odd,
    of_units,
    others,
    printed,
    tried,
    unseen,
    withdrawn,
)
from traintime.book.chapters.predicting.claims import mean, share
from traintime.book.stored import Measurements
from traintime.predict import durations

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
}
LARGER = {"vocabulary": "rows", "length": "positions", "batch": "samples a step"}


def tier_table(book: Measurements) -> HTML:
    """How far off each way to foretell was: mean error, how many within twice, how many of its intervals held."""
    found, table = cases(book), []
    for way, name in WAYS.items():
        of_way = found[found["way"] == way]
        if of_way.empty:
            continue
        times = of_way["times"].to_numpy(float)
        held = of_way["held"].dropna()
        memory = found[found["way"] == f"{way} memory"]["times"].to_numpy(float)
        table.append(
            [
                name,
                str(len(times)),
                f"{np.abs(times - 1).mean():.0%}",
                f"{np.mean(np.abs(np.log(times)) <= np.log(2)):.0%}",
                f"{held.mean():.0%}" if len(held) else "",
                f"{np.abs(memory - 1).mean():.1%}" if len(memory) else "",
            ]
        )
    heads = ["foretold by", "models", "mean error", "within twice", "interval held", "error of memory"]
    return page.table(heads, table) if table else page.nothing("`make bench-predict` tries it.")


def era_table(book: Measurements) -> HTML:
    """Models of the document's kind, by what a calibration knew when they were foretold."""
    found = cases(book)
    of_eras = {KNEW[era]: document_kind(found, era) for era in ERAS}
    latest = list(of_eras)[-1]
    of_eras["the same, on JAX alone"] = of_eras[latest].query("stack == '2026-jax'")
    table = []
    for name, mine in of_eras.items():
        if (mine["way"] == "calibrated").any():
            by = [mine[mine["allocator"] == allocator] for allocator in ALLOCATORS]
            missed = (page.or_not_measured(lambda one=one: f"{errors(one, 'calibrated').mean():.0%}") for one in by)
            table.append([name, *missed, _held(mine, "calibrated")])
    heads = ["foretold by prices of", *(f"missed by, {each}" for each in ALLOCATORS), "intervals that held"]
    return page.table(heads, table) if table else page.nothing("`make bench-predict` tries it.")


def beyond_table(book: Measurements) -> HTML:
    """Models of which one a tenth as large in one size was tried: what was missed by, and below it each of them."""
    found = beyond(book)
    if found.empty:
        return page.nothing("`make bench-predict` tries it.")
    table = []
    for (at, size), mine in found.groupby(["at", "size"]):
        missed = (f"{errors(mine, way).mean():.0%}" for way in ("scaled", "line"))
        table.append([LARGER[size], at, str(mine["number"].nunique()), *missed, _held(mine, "scaled")])
    heads = ["ten times as many", "batch sizes tried", "models", "scaled, missed by", "a line through two"]
    heads.append("intervals that held")
    return HTML(page.table(heads, table).data + _each_beyond(found).data)


def _each_beyond(found: pd.DataFrame) -> HTML:
    """Each model of which a smaller one was tried: what had been said over what it took."""
    table = []
    for _, one in found.sort_values(["at", "size", "stack"]).groupby("number", sort=False):
        way = one.set_index("way")
        first = one.iloc[0]
        missed = "" if way.loc["scaled", "held"] else "<br>*outside the interval*"
        scaled, line, again = (f"{way.loc[name, 'times'] - 1:+.0%}" for name in ("scaled", "line", "again"))
        name = f"{LARGER[first['size']]}, {first['stack'].removeprefix('2026-')}"
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


def case_table(book: Measurements) -> HTML:
    """Each model that was drawn: what it took, and what the probe and the formula had said."""
    try:
        found = tried(book)
    except KeyError:
        return page.nothing()
    table, gone = [], withdrawn(book)
    for case in found:
        inside = case.inside()
        cells = []
        for tier in ("probed", "formula"):
            one = case.predicted.get(tier)
            missed = "" if one is None or inside[tier] else "<br>*missed*"
            cells.append(f"{durations.text(one.total.value)}{missed}" if one else "")
        said = case.predicted["probed"].memory
        peak = f"{np.mean(case.peaks) / GB:.2f}"
        memory = f"{said.value / GB:.2f} of {peak} GB" if said else f"{peak} GB"
        memory = "*withdrawn*" if case.started in gone else memory
        name = f"{case.kind.replace('-', ' ')}, {case.stack.removeprefix('2026-')}"
        table.append([name, durations.text(case.true_s), *cells, memory])
    heads = ["model, backend", "it took", "probed", "formula", "memory, probed"]
    return page.table(heads, table, fold="Each model")


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


def values(book: Measurements) -> dict[str, str]:
    """The numbers of the chapter's prose."""
    found, of_document = cases(book), document()
    published = others()
    first, now = (published["step_s"] / published[name] for name in ("foretold_s", "now_s"))
    off = np.abs(of_document["foretold_s"] / of_document["epoch_s"] - 1)
    largest = of_document.loc[of_document["vocabulary"].idxmax()]
    given = {
        "predict-there": page.or_not_measured(lambda: page.title(book, tried(book))),
        "predict-models": str(found["number"].nunique()),
        "predict-document-cells": f"{int((off <= 0.5).sum())} of {len(off)}",
        "predict-document-large": f"{largest['foretold_s']:,.0f}",
        "predict-document-was": f"{largest['epoch_s']:,.0f}",
        "predict-document-update": f"{largest['update']:.0%}",
        "predict-others": f"{int(first.between(0.5, 2).sum())} of {len(first)}",
        "predict-others-now": f"{int(now.between(0.5, 2).sum())} of {len(now)}",
        "predict-others-most": f"{1 / first.min():.1f}",
        "predict-units": page.or_not_measured(lambda: _units(book)),
        "predict-odd": page.or_not_measured(_odd),
        "predict-withdrawn": str(len(withdrawn(book))),
        "predict-printed": str(printed(book)["number"].nunique()),
        "predict-asleep": page.or_not_measured(lambda: _asleep(book)),
        "predict-probed-memory": page.or_not_measured(lambda: mean(errors(found, "probed memory")).text(".0%")),
        "predict-formula-memory": page.or_not_measured(lambda: mean(errors(found, "formula memory")).text(".0%")),
        "predict-missed": page.or_not_measured(lambda: _missed(book)),
        "predict-again": page.or_not_measured(lambda: mean(errors(found, "again")).text(".0%")),
        "predict-unseen": page.or_not_measured(lambda: f"{errors(unseen(found), 'calibrated').mean():.0%}"),
    }
    for way in (*TIERS, *BASELINES):
        name = way.replace(" / ", "-").replace(" ", "-").lower()
        given[f"predict-{name}"] = page.or_not_measured(lambda way=way: f"{errors(found, way).mean():.0%}")
    larger = beyond(book)
    for at in TRIED_AT:
        mine = larger[larger["at"] == at]
        for way in ("scaled", "line", "scaled memory"):
            name = f"predict-{at}-{way.replace(' ', '-')}"
            given[name] = page.or_not_measured(lambda mine=mine, way=way: mean(errors(mine, way)).text(".0%"))
        given[f"predict-{at}-held"] = page.or_not_measured(lambda mine=mine: _held(mine, "scaled"))
        given[f"predict-{at}-done"] = page.or_not_measured(lambda mine=mine: _until_done(mine))
    for tier in TIERS:
        held = found[found["way"] == tier]["held"].dropna().to_numpy(bool)
        given[f"predict-{tier}-held"] = f"{share(held).value:.0%}" if len(held) else "(not measured)"
    for stack, name in (("2026-tensorflow", "tf"), ("2026-jax", "jax"), ("2026-torch", "torch")):
        given[f"predict-advice-{name}"] = page.or_not_measured(lambda s=stack: f"{advised(book, s, LARGE):.0f}")
        given[f"predict-tried-{name}"] = page.or_not_measured(lambda s=stack: _tried(book, s))
    return given


def _held(found: pd.DataFrame, way: str) -> str:
    """Of these models' intervals, how many held: "10 of 12"."""
    held = found[found["way"] == way]["held"].dropna()
    if held.empty:
        raise KeyError("not tried")
    return f"{int(held.sum())} of {len(held)}"


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
    return f"{sum(case.inside()['probed'] for case in knew)} of {len(knew)}"


def _missed(book: Measurements) -> str:
    """The kinds of models whose probes' intervals missed, or that none did."""
    missed = [f"{case.kind.replace('-', ' ')} on {case.stack.removeprefix('2026-')}" for case in tried(book)
              if not case.inside()["probed"]]  # fmt: skip
    return ", ".join(missed) if missed else "none"


def _tried(book: Measurements, stack: str) -> str:
    """How many times as fast deferred rows were measured to train."""
    one = stored.row(rows.ratios(book, rows.DENSE, rows.DEFERRED), stack=stack, vocabulary=LARGE)
    return stored.interval(one).text(".0f")
