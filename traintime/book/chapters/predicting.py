"""Chapter 15, whether a training will finish in time: models drawn at random, predicted and then trained.

Short trainings first, with what people do without the predictor; then trainings of ten minutes to an hour; then steps
that others timed on cards, each predicted without its card.
"""

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML, Markdown

from traintime import paths
from traintime.book import claims, original, page, stored
from traintime.book.claims import Finding, above, below, every
from traintime.book.stored import Measurements
from traintime.book.values import Values, quantity
from traintime.explain.statistics import average, share
from traintime.predict import cards, durations, prices, process, record
from traintime.predict.answer import LEVEL, SURE, Estimate, around
from traintime.predict.bench import kept, over_truth
from traintime.predict.bench_models import BEYONDS, NARROW, WHOLE
from traintime.predict.evidence import BUSY
from traintime.store import derived

# What each tier runs, from above in the first table.
RUNS = {
    "probed": "your model, for some seconds",
    "scaled": "a smaller version of your model",
    "formula": "nothing, the machine's two rates are known",
}
ON_CARDS = "nothing, a GPU's data sheet is known"
OF_SMALLER = ("scaled", "line")  # ways that ran smaller models alone
WITHOUT = ["probed", "one batch", "FLOPs / peak"]  # the probe, and what people do without it
ENDS = ["times", "low", "high"]  # predicted over true, with the ends of its interval
COLUMNS = ["number", "stack", "kind", "domain", "version", "way", *ENDS, "held", "took_s", "spent_s"]
KERNELS = {"cudnn": "fused kernel", "loop": "loop"}  # of our own steps on a card
ALL = "all stacks"
NO_BREAK = "\u00a0"
claim = claims.of_chapter("15")


# Short trainings


def cases(book: Measurements, larger: bool = False) -> pd.DataFrame:
    """A row for each model and way to predict it; empty where nothing was tried. Long trainings are in `trained_long`.

    Columns number (of the model), stack, kind, domain (the sizes that it was drawn from), version (of the predictor),
    way, times (predicted over true) with low and high (the way's interval, likewise), held (whether that held the
    truth), took_s and spent_s (of the training and of the answer). way: "again" (the second training over the first), a
    tier, a tier and " memory", or a baseline; what a way does not have, or was not kept, is missing.

    larger: instead the models of which one a tenth as large in one size was tried, ways "again", "scaled" and "line".
    """
    every_one = [one for one in kept(paths.PREDICTED, book.machine) if not one.get("epochs_s")]
    whole = _by_way(one for one in every_one if (one["kind"] in BEYONDS) == larger)
    alone = stored.chosen(only_printed(), machine=book.machine)[COLUMNS]
    return whole if larger or alone.empty else pd.concat([whole, alone], ignore_index=True)


def _by_way(models: Iterable[dict[str, Any]]) -> pd.DataFrame:
    table, gone = [], record.withdrawn("memory")
    for number, case in enumerate(models):
        about = {"number": number, "version": record.version(case), "took_s": case["fit_s"][0]}
        about |= {"domain": NARROW} | {name: case[name] for name in ("stack", "kind", "domain") if name in case}
        for way, over in over_truth(case).items():
            one = about | {"way": way, **dict(zip(ENDS, (over.value, over.low, over.high), strict=True))}
            one |= {"held": None if np.isnan(over.low) else 1 in over}
            if not (way.endswith(" memory") and (case["machine"], case["started"]) in gone):
                table.append(one | {"spent_s": (case.get("spent_s") or {}).get(way, np.nan)})
    return pd.DataFrame(table, columns=COLUMNS)


def only_printed() -> pd.DataFrame:
    """Models that a bench drew, trained and printed without keeping them, with their machine, else as `cases`.

    Errors are whole percents of the mean of two trainings; whether an interval held is not known of them.
    """
    wide = pd.read_csv(paths.PREDICTED / "printed.csv").drop(columns=["allocator", "fit_s"])
    about = wide.assign(number=-1 - wide.index, version=wide["ended"].map(record.version_at)).drop(columns="ended")
    long = about.melt(["machine", "number", "stack", "kind", "version"], var_name="way", value_name="times")
    # Less than half a percent was printed as nothing, which no axis of logarithms has.
    long = long.assign(times=(1 + long["times"]).clip(lower=0.005), domain=NARROW, held=None)
    return long.reindex(columns=["machine", *COLUMNS])


def predicted(book: Measurements, way: str) -> pd.DataFrame:
    """The models that were predicted in one way, as `cases`."""
    return stored.chosen(cases(book, larger=way in OF_SMALLER), way=way)


def machines() -> list[Measurements]:
    """Each machine of the book that has tried any model, or the book's where none has."""
    books = [stored.of(name) for name in stored.named()]
    return [book for book in books if len(cases(book)) or len(cases(book, larger=True))] or [stored.of()]


def shown() -> Measurements:
    """The first machine of the book that has tried a model: what the claims are judged on."""
    return stored.having(stored.of(), cases)


def shown_anew() -> Measurements:
    """The first that has tried one from the whole of the sizes."""
    return stored.having(stored.of(), lambda book: stored.chosen(cases(book), domain=WHOLE))


@quantity
def errors(book: Measurements, way: str) -> Values:
    """How far one way to predict was off on average, a share of the truth, by stack and over ALL of them."""
    models = stored.measured(predicted(book, way))
    off = {ALL: models} | dict(list(models.groupby("stack")))
    each = {name: average(np.abs(its["times"].to_numpy(float) - 1)) for name, its in off.items()}
    return Values(each, ".0f", 100, "%")


def width(models: pd.DataFrame) -> float:
    """The upper end of these models' intervals over the lower one: the median."""
    return float((models["high"] / models["low"]).median())


def covered(models: pd.DataFrame) -> str:
    """Of these models' intervals, how many covered the truth: "10 of 12". Raises KeyError without any."""
    held = stored.measured(models["held"].dropna())
    return f"{int(held.sum())} of {len(held)}"


def without_it(book: Measurements) -> pd.DataFrame:
    """Errors of the probe and of what people do WITHOUT it, a column each, a row for each model that has all of them.

    Raises KeyError where none has.
    """
    models = stored.measured(cases(book))
    wide = models.assign(error=(models["times"] - 1).abs()).pivot_table("error", "number", "way")
    return stored.measured(wide.reindex(columns=WITHOUT).dropna(), "no model has them all")


def probe_errs_little(book: Measurements) -> Finding:
    """Whether the probe errs by less than 15 %, and nine in ten of its intervals held."""
    held = stored.measured(predicted(book, "probed")["held"].dropna())
    error, of_intervals = errors(book, "probed")[ALL], share(held.to_numpy(bool))
    figure = f"mean error {error.text('.0%')}; {of_intervals.text('.0%')} of the intervals held"
    return Finding(every(below(0.15)(error), above(0.9)(of_intervals)), figure)


def baselines_err_more(book: Measurements) -> Finding:
    """Whether one batch errs by more than the probe, and the peak by more than one batch, model by model."""
    table = without_it(book)
    batch = average((table["one batch"] - table["probed"]).to_numpy())
    peak = average((table["FLOPs / peak"] - table["one batch"]).to_numpy())
    return Finding(every(above(0)(batch), above(0)(peak)), ", ".join(f"{way} {table[way].mean():.0%}" for way in table))


def peaks_are_near(book: Measurements) -> Finding:
    """Whether the peak of memory is known within 5 % by the probe, and within 10 % by the formula."""
    of_probe, of_formula = (errors(book, f"{tier} memory")[ALL] for tier in ("probed", "formula"))
    figure = f"probed {of_probe.text('.1%')}, formula {of_formula.text('.1%')}"
    return Finding(every(below(0.05)(of_probe), below(0.10)(of_formula)), figure)


claim(
    1,
    "Probed, a model's time is predicted with a mean error below 15 %, and nine in ten of the 90 % intervals cover the "
    "true time.",
    probe_errs_little,
    says="inconclusive",
    on=shown,
)
claim(
    4,
    "Timing one batch and multiplying has a larger error than the probe, and operations over the peak rate have a "
    "larger one than both.",
    baselines_err_more,
    says="inconclusive",
    on=shown,
)
claim(
    5,
    "The peak of memory is predicted by the probe with a mean error below 5 %, and by the formula below 10 %.",
    peaks_are_near,
    says="does not hold",
    on=shown,
)


# Trainings of ten minutes to an hour, each predicted by the probe and then trained once


def trained_long(book: Measurements) -> pd.DataFrame:
    """A row for each long training on a machine, in the order in which they were drawn.

    The columns of `cases`, of the probe's answer; memory and memory_held (of the peak, as times and held are of the
    time), spread (the slowest epoch over the fastest, less one, without the first: that one compiles) and withdrawn.
    """
    gone, models = record.withdrawn("time"), [one for one in kept(paths.PREDICTED, book.machine) if one.get("epochs_s")]
    rows = _by_way(models).set_index("number")
    memory = stored.chosen(rows, way="probed memory")
    return stored.chosen(rows, way="probed").assign(
        memory=memory["times"],
        memory_held=memory["held"],
        spread=[max(one["epochs_s"][1:]) / min(one["epochs_s"][1:]) - 1 for one in models],
        withdrawn=[(one["machine"], one["started"]) in gone for one in models],
    )


def counted(book: Measurements) -> pd.DataFrame:
    """Those that are not withdrawn."""
    every_one = trained_long(book)
    return every_one[~every_one["withdrawn"].astype(bool)]


def long_machine() -> Measurements:
    """The first machine of the book that has trained a model for so long."""
    return stored.having(stored.of(), trained_long)


@quantity
def long_errors(book: Measurements) -> Values:
    """How far the probe was off on average, a share of what a long training took; a withdrawn answer does not count."""
    times = stored.measured(counted(book)["times"])
    return Values({"": average(np.abs(times.to_numpy(float) - 1))}, ".0f", 100, "%")


claim(
    39,
    "Trainings of ten minutes are predicted by the probe with a mean error of at most 10 %.",
    lambda book: long_errors(book).written(".1%") < 0.10,
    says="inconclusive",
    on=long_machine,
)


# Cards, and sources, that the costs were not fitted to


@functools.cache
def left_out() -> pd.DataFrame:
    """Each training on a card as costs predict it that were fitted without its card, or without its source
    (predict.cards): the columns of data/derived/cards.csv, and as in `cases` times, low, high and held, of the
    interval that the errors of what else was left out gave.
    """
    rows = derived.read("cards")
    found = {name: rows[f"{of}_s"] / rows["took_s"] for name, of in zip(ENDS, ("foretold", "low", "high"), strict=True)}
    return rows.assign(**found, held=rows["took_s"].between(rows["low_s"], rows["high_s"]))


def on_cards() -> pd.DataFrame:
    """Steps of the book's stacks on cards, each predicted without its card: `left_out` with columns machine (the card),
    kind and way ("card").
    """
    rows = left_out()
    rows = rows[rows["left_out"].str.startswith("card ") & rows["stack"].isin(prices.known())]
    ours = rows["device"] == cards.OURS[1]
    names = rows["device"].where(~ours, "our H200, " + rows["kernel"].map(KERNELS).fillna(""))
    return rows.assign(machine=names, kind="", way="card")


card = functools.partial(stored.of, cards.OURS[0])  # our machine with a card


def cards_missed(rows: pd.DataFrame) -> dict[str, float]:
    """What trainings that were left out are missed by: how many rows they are, the median factor between predicted and
    true, the shares within a factor of cards.WITHIN and inside their interval, by weight, and its median width.
    """
    off = np.exp(np.log(rows["times"]).abs())
    shares = {"within": off <= cards.WITHIN, "covered": rows["held"]}
    found = {name: float(np.average(each, weights=rows["weight"])) for name, each in shares.items()}
    return {"trainings": len(rows), "factor": float(off.median()), **found, "width": width(rows)}


@functools.cache
def of_all() -> dict[str, float]:
    """The same of all that was left out, with the width of the interval in use (left_out: of theirs); also steps, how
    many different ones these are, and cards, how many of others they ran on.
    """
    rows, whole = left_out(), around(1.0, (prices.card_costs()["error"], SURE), level=LEVEL)
    steps = len(rows.drop_duplicates(["source", "device", "stack", "key", "took_s"]))
    others = rows[rows["source"] != "our H200"]["device"].nunique()
    in_use = {"width": whole.high / whole.low, "left_out": width(rows)}
    return cards_missed(rows) | in_use | {"steps": steps, "cards": others}


def of_the_post() -> pd.DataFrame:
    """The 2017 post's trainings on its card, predicted without it: rows of `left_out`."""
    return stored.chosen(left_out(), left_out=f"card {cards.THE_DOCUMENTS}")


def largest_epoch_s() -> float:
    """Seconds of its largest epoch."""
    epochs = original.read("s0-vocabulary").query("device == 'GPU'")
    largest = epochs.loc[epochs["vocabulary"].idxmax()]
    step = stored.measured(of_the_post()[lambda its: its["key"].str.contains(f"-v{largest['vocabulary']}-")]).iloc[0]
    return float(step["foretold_s"] * largest["sentences"] / largest["batch"])


def goal_on_cards(book: Measurements) -> Finding | None:
    """Whether the goal that was set for cards is met. It is no machine's, but is where a card was measured."""
    if book.machine != card().machine:
        return None
    found, (low, high) = of_all(), cards.COVERED
    met = found["within"] >= LEVEL and found["width"] <= cards.WIDTH and low <= found["covered"] <= high
    said = f"{found['within']:.0%} within a factor of two, a width of {found['width']:.2f}"
    return Finding(met, f"{said}, {found['covered']:.0%} covered")


claim(
    38,
    "Of the trainings on cards and from sources that the costs were not fitted to, nine of ten take half to twice the "
    "predicted time; the interval of nine in ten spans a factor of 6 at most, and intervals made without a card or a "
    "source cover 85 to 95 % of its trainings.",
    goal_on_cards,
    says="does not hold",
    on=card,
)


# What the page shows


def tried(tier: str) -> pd.DataFrame:
    """The answers that a tier's record is of (record.judged): machine by its title, way; times, predicted over true."""
    models = record.newest(stored.chosen(record.judged(), tier=tier))
    titles = models["machine"].map({book.machine: book.title for book in map(stored.of, stored.named())})
    return models.assign(machine=titles, way=tier, times=models["predicted"] / models["seen"])


def machines_left_out() -> pd.DataFrame:
    """Of the formula's answers on each machine, how many intervals hold whose factor and width were set by the rule of
    today, by stack, on what came of it on the others alone: columns machine (its title), models, held.
    """
    rows = record.tried("time").query("tier == 'formula' and version < @record.CORRECTED")
    rows = rows.assign(off=np.log(rows["seen"] / rows["predicted"]))
    found = []
    for machine, its in rows.groupby("machine"):
        others = rows[rows["machine"] != machine].groupby("stack")["off"]
        missed = (its["off"] - its["stack"].map(others.mean())).abs()
        reach = record.Z * its["stack"].map(others.agg(lambda off: record.spread(off - off.mean())))
        found.append({"machine": stored.of(machine).title, "models": len(its), "held": int((missed <= reach).sum())})
    return pd.DataFrame(found)


def lead_table() -> HTML:
    """For whom each tier is, and what it was worth, by stack where enough models tell.

    Each card is predicted by the others, what is said of all is weighted by source; the interval is the one in use.
    """
    table, rows = [], derived.read("record")
    for tier, runs in RUNS.items():
        its = stored.chosen(rows, tier=tier)
        for one in its[(its["stack"] != record.OTHERS) | (len(its) == 1)].itertuples():
            where, error = one.stack if one.stack != record.OTHERS else ALL, f"{one.error * 100:.0f} %"
            covered = f"{one.held} of {one.models}", f"{one.others_held} of {one.others}"
            table.append((f"{tier}: {runs}", where, error, f"{one.width:.1f}", *covered))
    models = on_cards()
    error, held = (np.average(each, weights=models["weight"]) for each in ((models["times"] - 1).abs(), models["held"]))
    on = f"{models['device'].nunique()} cards", f"{error * 100:.0f} %", f"{of_all()['width']:.1f}"
    table.append((f"formula: {ON_CARDS}", *on, f"{held:.0%} of {len(models)}", ""))
    heads = ["what you can run", "on", "mean error", "interval, high/low", "covered", "covered, other versions"]
    return page.table(heads, [[runs, *(cell.replace(" ", NO_BREAK) for cell in cells)] for runs, *cells in table])


def all_over_truth() -> pd.DataFrame:
    """Predicted over true of what `lead_table` counts, and of training "again": machine, stack, kind, way, times."""
    probed = tried("probed")
    again = probed.assign(way="again", times=[case["fit_s"][-1] / case["fit_s"][0] for case in probed["case"]])
    every_one = pd.concat([again, *map(tried, RUNS), on_cards()], ignore_index=True)
    return every_one[["machine", "stack", "kind", "way", "times"]]


def long_table(book: Measurements) -> HTML:
    """Each long training: what the probe predicted, and what it took, in minutes; where that is outside, it says so."""

    def took(row: pd.Series) -> str:
        notes = [word for word, said in (("outside", not row["held"]), ("withdrawn", row["withdrawn"])) if said]
        return ", ".join([f"{row['took_s'] / 60:.0f}", *notes])

    def probed(row: pd.Series) -> str:
        return "{:.0f} ({:.0f} to {:.0f})".format(*(row[name] * row["took_s"] / 60 for name in ENDS))

    return page.columns(
        trained_long(book),
        kind=("model", lambda row: f"{row['kind'].replace('-', ' ')}, {row['stack'].removeprefix('2026-')}"),
        probed=("predicted, min", probed),
        took=("took, min", took),
    )


def cards_table() -> HTML:
    """What was left out, and what its trainings are missed by: a row a card and a source, and all of them together."""
    rows = [{"name": name} | cards_missed(its) for name, its in left_out().groupby("left_out", sort=False)]
    return page.columns(
        pd.DataFrame([*rows, {"name": "all, by weight"} | of_all()]),
        fold="Each card and each source of several cards that was left out; a step counts for both",
        name="left out",
        trainings=("steps", 1, ".0f"),
        factor=("median factor", 1, ".2f"),
        within=("within a factor of two", lambda row: f"{row['within']:.0%}"),
        covered=("covered", lambda row: f"{row['covered']:.0%}"),
        width=("interval, high/low", 1, ".2f"),
    )


def landed(answer: Estimate, took_s: float, begun: tuple[float, float] | None = None) -> Markdown:
    """Whether a training landed inside the interval that had been predicted for it, as a sentence for the page; not
    where others used the processors while it ran, or while its model was tried.

    begun: process.processor_s() before it.
    """
    if process.crowd(begun, took_s) or any(BUSY in each for each in answer.warnings):
        return Markdown("Others used the processors while this page trained: run it yourself to compare the times.")
    total = answer.total
    low, took, high = (durations.text(seconds) for seconds in (total.low, took_s, total.high))
    if took in (low, high):  # which side of the end it is on
        low, took, high = (f"{seconds:.1f} s" for seconds in (total.low, took_s, total.high))
    took, ends = f"The training took {took}", f"{low} to {high}"
    if took_s in total:
        return Markdown(f"{took}, **inside** the interval of {ends}.")
    side, meant = "longer" if took_s > total.high else "less", f"{100 * answer.level:.0f}{NO_BREAK}% of trainings"
    said = f"{took}, **outside** the interval of {ends}: it took {side} than predicted."
    return Markdown(f"{said} The interval is meant to cover {meant}.")
