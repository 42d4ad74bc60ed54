"""Chapter 15, beyond our trainings: three cards, other units, a machine that is not normal."""

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd

from traintime import paths
from traintime.book import external, original, stored
from traintime.book.chapters import question
from traintime.book.chapters.predicting_tried import cases, shown
from traintime.book.claims import Finding, claim, every, within
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements
from traintime.errors import InputError
from traintime.explain.statistics import Interval
from traintime.explain.terms import by_part
from traintime.point import make_point
from traintime.predict import cards, compare, prices
from traintime.predict.answer import LEVEL, around

ODD = "amd-epyc-2-cores-24-gib"  # machine A
SURE = 1e6  # degrees of freedom of a tier's own error
TWICE = (0.5, 2.0)


# The 2017 post's card, from its data sheet


@functools.cache
def document() -> pd.DataFrame:
    """The 2017 post's cells of its GPU, as the formula predicts them: columns vocabulary, batch, epoch_s, foretold_s,
    low_s, high_s, and update, the share of a step that the table's update takes.

    From the card's data sheet and Theano's efficiency factors on processors: no second of a GPU was used.
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
            share = by_part(parts)["update"] / priced.step_s(work)
            rows.append(about | {"foretold_s": epoch.value, "low_s": epoch.low, "high_s": epoch.high, "update": share})
    return pd.DataFrame(rows).drop_duplicates(["vocabulary", "batch"]).reset_index(drop=True)


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
    near = (document()["foretold_s"] / document()["epoch_s"] - 1).abs() <= 0.5
    return Finding(bool(near.all()), f"{int(near.sum())} of {len(near)} cells within 50 %")


# LSTMs that others timed on a Titan X


def others() -> pd.DataFrame:
    """Trainings of a recurrent layer that others timed on a Titan X, as the formula predicts them from its data sheet.

    Columns framework, units, batch, step_s; foretold_s, low_s, high_s, as first predicted (data/predicted/titan-x.csv);
    now_s: as the efficiency factors of today predict it. Inputs as many as units, SGD, of each framework the stack of
    2017.
    """
    published = external.benchmarks()
    rows = pd.read_csv(paths.PREDICTED / "titan-x.csv").merge(
        published[published["name"] == "rnn-benchmarks"],
        on=["framework", "units", "length", "batch"],
        suffixes=("", "_seen"),
    )
    now = {}
    for card, stack, point, _ in cards.published():
        if card == cards.TITAN:
            key = stack, point.sizes.units, point.sizes.batch
            now[key] = prices.published(card, stack).step_s(point.work)
    keys = zip(rows["framework"].map(cards.OF_2017), rows["units"], rows["batch"], strict=True)
    return rows.assign(step_s=rows["seconds_per_sample"] * rows["batch"], now_s=[now[key] for key in keys])


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


# All three cards


def on_cards() -> pd.DataFrame:
    """Predicted over true time of trainings on cards, others' and our own steps: columns machine (the card), stack,
    kind, way ("card"), times, and whether the interval covered it (held), with its ends low and high.
    """
    post, published, ours = document(), others(), foretold(card())
    of_post = {"machine": "K40m", "stack": "2017-theano", "true": post["epoch_s"]}
    of_others = {"machine": "Titan X", "stack": published["framework"].map(cards.OF_2017), "true": published["step_s"]}
    of_ours = {"machine": "H200, " + ours["kernel"], "stack": ours["stack"], "true": ours["step_s"]}
    ends = {"said": "foretold_s", "low": "low_s", "high": "high_s"}
    table = pd.concat(
        [
            pd.DataFrame(about | {name: rows[column] for name, column in ends.items()})
            for about, rows in ((of_post, post), (of_others, published), (of_ours, ours))
        ],
        ignore_index=True,
    )
    held = table["true"].between(table["low"], table["high"])
    return table.assign(way="card", kind="classifier", times=table["said"] / table["true"], held=held)


def ours_on_card(kernel: str = "") -> pd.DataFrame:
    """Of `on_cards` our own steps, or those of one kernel. Raises KeyError without any."""
    models = on_cards()
    return stored.measured(models[models["machine"].str.startswith(f"H200, {kernel}")])


def card_cells(models: pd.DataFrame) -> dict[str, str]:
    """The cells of one card's trainings (on_cards) in the table of tiers."""
    return {
        "models": f"{len(models)} ({', '.join(models['machine'].unique())})",
        "error": f"{(models['times'] - 1).abs().mean() * 100:.0f} %",
        "low": f"{(models['times'] < 1).sum()} of {len(models)}",
        "width": f"{(models['high'] / models['low']).median():.1f}",
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
    times = others()["step_s"] / others()["now_s"]
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
    mapped = any(compare.MAPPED in names for one in odd() for names in one.parts)
    return Finding(off == ["2026-tensorflow"] and mapped, f"off: {', '.join(off) or 'nothing'} of {len(odd())} stacks")


# What advice is worth


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


def _post(largest: str) -> Callable[[Measurements], str]:
    """A figure of the 2017 post's largest table, in whole seconds."""
    return lambda _: f"{document().loc[document()['vocabulary'].idxmax(), largest]:,.0f}"


PROSE = Prose(
    "predict",
    cells=lambda _: (
        f"{((document()['foretold_s'] / document()['epoch_s'] - 1).abs() <= 0.5).sum()} of {len(document())}"
    ),
    large=_post("foretold_s"),
    large_low=_post("low_s"),
    large_high=_post("high_s"),
    titan=lambda _: f"{(others()['step_s'] / others()['foretold_s']).between(*TWICE).sum()} of {len(others())}",
    card_fused=lambda _: card_cells(ours_on_card("fused kernel"))["held"],
    card_loop=lambda _: card_cells(ours_on_card("loop"))["held"],
    card_width=lambda _: f"{float(card_cells(ours_on_card())['width']):.0f}",
    card_loop_most=lambda _: f"{1 / ours_on_card('loop')['times'].min():.1f}",
    titan_most=lambda _: f"{(others()['foretold_s'] / others()['step_s']).max():.1f}",
    odd=lambda _: f"{max(one.times.value for one in stored.measured([one for one in odd() if one.off])):.1f} times",
)
