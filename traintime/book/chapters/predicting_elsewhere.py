"""Chapter 15, beyond our trainings: cards, other units, a machine that is not normal."""

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime import paths
from traintime.book import external, original, page, stored
from traintime.book.chapters import question
from traintime.book.chapters.predicting_tried import cases, shown
from traintime.book.claims import Finding, claim, every, within
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements
from traintime.explain.statistics import Interval
from traintime.predict import cards, compare, prices
from traintime.predict.answer import LEVEL, SURE, around
from traintime.store import derived

ODD = "amd-epyc-2-cores-24-gib"  # machine A
TWICE = (0.5, 2.0)


# Two cards of others, as version 7 of the predictor saw them: a data sheet, and a processor's efficiency factors


@functools.cache
def said_before(card: str) -> pd.DataFrame:
    """Trainings on a card that others timed, as version 7 predicted them (data/predicted/cards.csv) without a second of
    a GPU: columns stack, key, took_s and foretold_s, seconds per step.
    """
    rows = pd.read_csv(paths.PREDICTED / "cards.csv")
    return rows[rows["device"] == card]


@claim(
    "15.6",
    "From its data sheet, and Theano's efficiency factors on processors, the times of the 2017 post's GPU are "
    "predicted within 50 %, in each of its cells.",
    says="not measured",  # it is the post's own
    on=shown,
)
def document_foretold(book: Measurements) -> Finding | None:
    if book.machine != question.DOCUMENT:
        return None
    rows = said_before(cards.THE_DOCUMENTS)
    near = (rows["foretold_s"] / rows["took_s"] - 1).abs() <= 0.5
    return Finding(bool(near.all()), f"{int(near.sum())} of {len(near)} cells within 50 %")


# LSTMs that others timed on a Titan X


def others() -> pd.DataFrame:
    """Trainings of a recurrent layer that others timed on a Titan X, as the formula predicts them from its data sheet.

    Columns framework, units, batch, step_s; foretold_s, low_s, high_s, as first predicted (data/predicted/titan-x.csv).
    Inputs as many as units, SGD, of each framework the stack of 2017.
    """
    published = external.benchmarks()
    rows = pd.read_csv(paths.PREDICTED / "titan-x.csv").merge(
        published[published["name"] == "rnn-benchmarks"],
        on=["framework", "units", "length", "batch"],
        suffixes=("", "_seen"),
    )
    return rows.assign(step_s=rows["seconds_per_sample"] * rows["batch"])


@claim(
    "15.7",
    "Of the LSTMs that others timed on a Titan X, those of 1,024 units take half to twice the time that its data sheet "
    "and efficiency factors on processors predict, and those of 128 units more than twice.",
    says="does not hold",
    on=shown,
)
def others_foretold(book: Measurements) -> Finding | None:
    if book.machine != question.DOCUMENT and cases(book).empty:
        return None  # it is no machine's, but stands where the page's predictions are judged
    times = others().assign(times=lambda one: one["step_s"] / one["foretold_s"]).groupby("units")["times"]
    small, large = (times.get_group(units) for units in sorted(times.groups))
    figure = f"{large.min():.2f} to {large.max():.2f} times, and {small.min():.2f} to {small.max():.2f}"
    return Finding(bool(large.between(*TWICE).all() and (small > TWICE[1]).all()), figure)


# A GPU of today, predicted before it was measured


@functools.cache
def foretold(book: Measurements) -> pd.DataFrame:
    """Steps on a machine's GPU as the formula predicted them from the card's data sheet, and as they were measured.

    data/predicted/gpu.csv has the predictions, committed before any GPU was measured. Columns: stack, key, kernel
    (fused, or a loop of cells: the formula predicts the same of both), foretold_s with low_s and high_s; step_s, with
    least_s and most_s (95 %). Empty for a machine without such a card.
    """
    rows, card = pd.read_csv(paths.PREDICTED / "gpu.csv"), stored.or_none(lambda: book.card) or ""
    rows = rows[[device.partition("-")[0] in card for device in rows["device"]]]
    sizes = dict.fromkeys(("batch", "length"), ANY) | {"device": "gpu", "kernel": ANY}
    took = [book.points(vocabulary=ANY, **sizes), book.points(workload="lstm", units=ANY, **sizes)]
    measured = pd.concat(took).dropna(subset="step_s").rename(columns={"low_s": "least_s", "high_s": "most_s"})
    rows = rows.merge(measured[["stack", "key", "step_s", "least_s", "most_s"]])
    return rows.assign(kernel=np.where(rows["key"].str.endswith("loop-of-cells"), "loop", "fused kernel"))


def card() -> Measurements:
    """The first of the book's machines whose GPU was predicted and then measured."""
    return stored.having(stored.of(), foretold)


@claim(
    "15.37",
    "Each step on a GPU lies inside the interval that the formula predicted from the card's data sheet before any GPU "
    "was measured.",
    on=card,
    says="does not hold",
)
def card_foretold(book: Measurements) -> Finding:
    steps = stored.measured(foretold(book))
    held = steps["step_s"].between(steps["low_s"], steps["high_s"])
    steps = steps.assign(times=steps["step_s"] / steps["foretold_s"], held=held)
    parts = [
        within(one.low_s, one.high_s)(Interval(one.step_s, one.least_s, one.most_s).one_of(len(steps)))
        for one in steps.itertuples()
    ]
    of_kernels = [
        f"{kernel} {mine['held'].sum()} of {len(mine)} inside, "
        f"{mine['times'].min():.2f} to {mine['times'].max():.2f} times the prediction"
        for kernel, mine in steps.groupby("kernel")
    ]
    return Finding(every(*parts), "; ".join(of_kernels))


# Cards, and sources, that the costs of today were not fitted to

KERNELS = {"cudnn": "fused kernel", "loop": "loop"}  # of our own steps


@functools.cache
def left_out() -> pd.DataFrame:
    """Each training on a card as costs predict it that were fitted without its card, or without its source
    (predict.cards): the columns of data/derived/cards.csv, times (predicted over true) and held (whether the interval
    covers it, which the errors of what else was left out gave).
    """
    rows = derived.read("cards")
    held = rows["took_s"].between(rows["low_s"], rows["high_s"])
    return rows.assign(times=rows["foretold_s"] / rows["took_s"], held=held)


def on_cards() -> pd.DataFrame:
    """Steps of the book's stacks on cards, each predicted without its card: columns machine (the card), stack, kind,
    way ("card"), times, held, low_s, high_s.
    """
    rows = left_out()
    rows = rows[rows["left_out"].str.startswith("card ") & rows["stack"].isin(prices.known())]
    ours = rows["device"] == cards.OURS[1]
    names = rows["device"].where(~ours, "our H200, " + rows["kernel"].map(KERNELS).fillna(""))
    return rows.assign(machine=names, kind="", way="card")


def missed(rows: pd.DataFrame) -> dict[str, float]:
    """What trainings that were left out are missed by: how many rows they are, the median factor between predicted and
    true, the shares within a factor of cards.WITHIN and inside their interval, by weight, and its median width.
    """
    off = np.exp(np.log(rows["times"]).abs())
    shares = {"within": off <= cards.WITHIN, "covered": rows["held"]}
    found = {name: float(np.average(each, weights=rows["weight"])) for name, each in shares.items()}
    width = float((rows["high_s"] / rows["low_s"]).median())
    return {"trainings": len(rows), "factor": float(off.median()), **found, "width": width}


def of_all() -> dict[str, float]:
    """The same of all that was left out, with the interval that is in use."""
    whole = around(1.0, (prices.on_cards(), SURE), level=LEVEL)
    return missed(left_out()) | {"width": whole.high / whole.low}


def cards_table() -> HTML:
    """What was left out, and what its trainings are missed by: a row a card and a source, and all of them together."""
    rows = [{"name": name} | missed(its) for name, its in left_out().groupby("left_out", sort=False)]
    return page.columns(
        pd.DataFrame([*rows, {"name": "all, by weight"} | of_all()]),
        fold="Each card and each source of several cards that was left out; a training counts for both",
        name="left out",
        trainings=("trainings", 1, ".0f"),
        factor=("median factor", 1, ".2f"),
        within=("within a factor of two", lambda row: f"{row['within']:.0%}"),
        covered=("covered", lambda row: f"{row['covered']:.0%}"),
        width=("interval, high/low", 1, ".2f"),
    )


@claim(
    "15.38",
    "Of the trainings on cards and from sources that the costs were not fitted to, nine of ten take half to twice the "
    "predicted time; the interval of nine in ten spans a factor of 6 at most, and intervals made without a card or a "
    "source cover 85 to 95 % of its trainings.",
    on=card,
    says="does not hold",
)
def cards_foretold(book: Measurements) -> Finding | None:
    if book.machine != card().machine:
        return None  # it is no machine's, but stands where a card was measured
    found = of_all()
    low, high = cards.COVERED
    met = found["within"] >= LEVEL and found["width"] <= cards.WIDTH and low <= found["covered"] <= high
    said = f"{found['within']:.0%} within a factor of two, a width of {found['width']:.2f}"
    return Finding(met, f"{said}, {found['covered']:.0%} covered")


def card_cells(models: pd.DataFrame) -> dict[str, str]:
    """The cells of trainings on cards (on_cards) in the tables of tiers; the error is a mean by weight."""
    error = np.average((models["times"] - 1).abs(), weights=models["weight"])
    return {
        "models": f"{len(models)} ({', '.join(models['machine'].unique())})",
        "error": f"{error * 100:.0f} %",
        "low": f"{(models['times'] < 1).sum()} of {len(models)}",
        "width": f"{(models['high_s'] / models['low_s']).median():.1f}",
        "held": f"{models['held'].sum()} of {len(models)}",
    }


def card_row() -> dict[str, str]:
    """All cards' row of the table of tiers, a line a card."""
    lines = [card_cells(models) for _, models in on_cards().groupby("machine", sort=False)]
    return {name: "<br>".join(line[name] for line in lines).replace(" ", "\u00a0") for name in lines[0]}


# Other units than the efficiency factors were fitted to


def of_units(book: Measurements) -> pd.DataFrame:
    """One LSTM of other units than the efficiency factors knew, predicted from them at the machine's own rates, and
    measured.

    data/predicted/units.csv has what the efficiency factors made of each step before it was measured: seconds,
    operations and bytes at the least possible cost. Columns: stack, units, batch, foretold_s, step_s with low_s and
    high_s (95 %), times (measured over predicted). Raises KeyError where the page's machine has not measured them.
    """
    foretold = pd.read_csv(paths.PREDICTED / "units.csv")
    measured = book.points(workload="lstm", stack=stored.ANY, units=[32, 512], batch=[32, 128])
    rows = foretold.merge(measured[["stack", "key", "step_s", "low_s", "high_s"]]).dropna(subset="step_s")
    if rows.empty:
        raise KeyError("no LSTM of other units was measured")
    rates = prices.own_rates(book.machine)
    seconds = rows["fixed_s"] + rows["operations"] / rates.flops + rows["bytes"] / rates.bytes
    return rows.assign(foretold_s=seconds, times=rows["step_s"] / seconds)


@claim(
    "15.9",
    "On this processor, too, an LSTM of 512 units takes less than half the time that the two stacks of 2017 were "
    "predicted to take, with efficiency factors fitted to 128 units alone.",
    on=shown,
    says="does not hold",
)
def units_foretold(book: Measurements) -> Finding:
    table = _of_512(book)
    if table["stack"].nunique() < 2:
        raise KeyError("one of the stacks was not measured")
    half = table["foretold_s"] / 2
    parts = np.select([table["low_s"] > half, table["high_s"] < half], [False, True], None)
    return Finding(every(*parts), f"{table['times'].min():.2f} to {table['times'].max():.2f} times")


def _of_512(book: Measurements) -> pd.DataFrame:
    table = of_units(book)
    return table[(table["units"] == 512) & table["stack"].str.startswith("2017")]


@claim(
    "15.10",
    "With LSTMs of other units among what the efficiency factors are fitted to, at least six of the eight trainings on "
    "a Titan X take half to twice the predicted time.",
    on=shown,
    says="does not hold",
)
def others_foretold_now(book: Measurements) -> Finding:
    if book.machine != question.DOCUMENT:
        of_units(book)  # the machine that measured them, where the page's predictions are judged
    rows = said_before(cards.TITAN)
    times = rows["took_s"] / rows["foretold_s"]
    inside = int(times.between(*TWICE).sum())
    return Finding(inside >= 6, f"{inside} of {len(times)}, {times.min():.2f} to {times.max():.2f} times")


# A machine that is not normal


@functools.cache
def odd() -> list[compare.Placed]:
    """The stacks of the machine whose TensorFlow ran without oneDNN, compared with the book's other machines."""
    return compare.compare(paths.MEASUREMENTS, ODD)


@claim(
    "15.8",
    "Compared with the book's other machines, TensorFlow without oneDNN is the only stack of machine A that is not "
    "normal, and the comparison names its fresh pages as the cause.",
    on=lambda: stored.of(ODD),
)
def odd_one_out(book: Measurements) -> Finding | None:
    if book.machine != ODD:
        return None
    off = sorted(one.stack for one in odd() if one.off)
    mapped = any(compare.MAPPED in note for one in odd() for note in one.notes)
    return Finding(off == ["2026-tensorflow"] and mapped, f"off: {', '.join(off) or 'nothing'} of {len(odd())} stacks")


def _of_all(name: str, spec: str) -> Callable[[Measurements], str]:
    """One figure of all that was left out."""
    return lambda _: f"{of_all()[name]:{spec}}"


def _middle(fold: str, which: str, spec: str) -> Callable[[Measurements], str]:
    """The median of predicted over true of some trainings that were left out together."""
    return lambda _: format(left_out().query(f"left_out == '{fold}' and {which}")["times"].median(), spec)


def _post(figure: str) -> Callable[[Measurements], str]:
    """A figure of the 2017 post's largest epoch on its card, predicted without the card, in whole seconds."""

    def give(book: Measurements) -> str:
        epochs = original.read("s0-vocabulary").query("device == 'GPU'")
        largest = epochs.loc[epochs["vocabulary"].idxmax()]
        rows = left_out().query("left_out == 'card K40m'")
        step_s = stored.row(rows[rows["key"].str.contains(f"-v{largest['vocabulary']}-")])[figure]
        return f"{step_s * largest['sentences'] / largest['batch']:,.0f}"

    return give


PROSE = Prose(
    "predict",
    cards_others=lambda _: str(left_out().query("source != 'our H200'")["device"].nunique()),
    cards_trainings=lambda _: str(len(left_out().drop_duplicates(["source", "device", "stack", "key", "took_s"]))),
    cards_within=_of_all("within", ".0%"),
    cards_covered=_of_all("covered", ".0%"),
    cards_width=_of_all("width", ".2f"),
    cards_gtx=_middle("card GTX1080", "kernel == 'loop'", ".1f"),
    cards_torch=_middle("card H200-SXM", "stack == '2026-torch' and kernel == 'loop'", ".0%"),
    post=_post("foretold_s"),
    post_low=_post("low_s"),
    post_high=_post("high_s"),
)
