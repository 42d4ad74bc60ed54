"""Chapter 15, whether a training will finish in time: models drawn at random, predicted and then trained.

What was tried is in predicting_tried, what was claimed of it in predicting_judged and, of earlier versions of the
predictor, predicting_history; trainings of ten minutes are in predicting_long, other people's trainings and a machine
that is not normal in predicting_elsewhere.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from IPython.display import HTML, Markdown

from traintime import paths
from traintime.book import page, predictions, stored
from traintime.book.chapters import predicting_elsewhere as elsewhere
from traintime.book.chapters import predicting_history, predicting_judged, rows  # noqa: F401 (their claims register)
from traintime.book.chapters import predicting_long as long
from traintime.book.chapters.predicting_tried import (
    beyond,
    by_model,
    cases,
    errors,
    on_every_machine,
    printed,
    shown,
    some,
    tried,
    withdrawn,
)
from traintime.book.page import Prose
from traintime.book.stored import Measurements
from traintime.predict import durations, process, record
from traintime.predict.answer import Estimate
from traintime.predict.bench import Case, kept
from traintime.predict.bench_models import BEYONDS, DOMAINS, NARROW, WHOLE
from traintime.predict.evidence import BUSY

CARD = "card"
REMOVED = "calibrated"  # the tier that until version 8 took the costs of a machine from probes of other models
# What each tier runs and its name, from above in the tables and in the figure.
TIERS = {
    "probed": ("your model, for some seconds", "probed"),
    "scaled": ("a smaller version of your model", "scaled"),
    "formula": ("nothing: the machine's two rates are known", "formula"),
    CARD: ("nothing: a GPU's data sheet is known", "formula"),
}
DRAWN = {NARROW: "until 24 November 2026", WHOLE: "since then"}
NO_BREAK = "\u00a0"
TRIES = "`make bench-predict` tries it."


# How far off each tier was


def over_truth(books: Sequence[Measurements]) -> pd.DataFrame:
    """Predicted over true time: a row for each model and way, of every tier, and of training again ("again").

    Columns machine, stack, kind, way, times. Trainings on cards are predicted without their card.
    """
    scaled = pd.concat([beyond(book).assign(machine=book.title) for book in books])
    models = [on_every_machine(books), scaled[scaled["way"] == "scaled"], elsewhere.on_cards()]
    return pd.concat(models, ignore_index=True)[["machine", "stack", "kind", "way", "times"]]


def predicted_by(book: Measurements, tier: str) -> list[Case]:
    """What this tier predicted on the machine and was kept, with its interval."""
    of_machine = kept(paths.PREDICTED, book.machine)
    return [one for one in of_machine if tier in one.predicted and (one.kind in BEYONDS) == (tier == "scaled")]


def width(book: Measurements, tier: str, version: int | None = None) -> float:
    """The upper end of a tier's interval over the lower one: the median. Raises KeyError where none was kept."""
    ends = [one.predicted[tier].total for one in predicted_by(book, tier) if version in (None, one.version)]
    return float(np.median(stored.measured([each.high / each.low for each in ends])))


def of_tier(book: Measurements, tier: str, version: int | None = None) -> pd.DataFrame:
    """The models that this tier predicted, as `cases`; version: of the predictor, all if it is not given. Raises
    KeyError without any.
    """
    models = beyond(book) if tier == "scaled" else cases(book)
    return some(models[(models["way"] == tier) & ((models["version"] == version) | (version is None))])


def now(book: Measurements, stack: str, way: str = "probed") -> pd.DataFrame:
    """Models that the newest version with a record predicted on a stack. Raises KeyError without any."""
    models = stored.chosen(cases(book), stack=stack, way=way)
    return some(models[models["version"] == record.of("probed").version])


def too_low(models: pd.DataFrame) -> str:
    """How many were predicted to take less than they took: "58 of 66"."""
    return f"{(some(models)['times'] < 1).sum()} of {len(models)}"


def _held(models: pd.DataFrame) -> str:
    """Of these intervals, how many covered the truth: "10 of 12"."""
    held = some(models.dropna(subset="held"))["held"]
    return f"{int(held.sum())} of {len(held)}"


def _cells(tier: str, version: int | None = None) -> dict[str, Callable[[Measurements], str]]:
    """A tier's cells in the tables, each of one machine; version: as `of_tier` takes it."""
    return {
        "models": lambda book: f"{len(of_tier(book, tier))} ({_range(book, tier)})",
        "error": lambda book: _percent(errors(of_tier(book, tier, version), tier).mean()),
        "low": lambda book: too_low(of_tier(book, tier)),
        "width": lambda book: f"{width(book, tier, version):.1f}",
        "held": lambda book: _held(of_tier(book, tier, version)),
    }


def lead_table(book: Measurements) -> HTML:
    """For whom each tier is, and what it was worth on this machine, by which versions of the predictor.

    A smaller version was tried more on the machine before it. Each card is predicted by the others, what is said of all
    of them is weighted by source, and the interval is the one in use.
    """
    if cases(book).empty:
        return page.nothing(TRIES)
    table = []
    for tier, (runs, name) in TIERS.items():
        if tier == CARD:
            models = elsewhere.on_cards()
            texts, on = elsewhere.card_cells(models), f"{models['device'].nunique()} cards"
            texts["width"] = f"{elsewhere.of_all()['width']:.1f}"
            texts["held"] = f"{np.average(models['held'], weights=models['weight']):.0%}"
        else:
            of, version = shown() if tier == "scaled" else book, record.of(tier).version
            cells = _cells(tier, version)
            texts = {key: page.or_not_measured(lambda give=give, of=of: give(of)) for key, give in cells.items()}
            on = f"{of.title}<br>version {version}"
        whole = {key: text.replace(" ", NO_BREAK) for key, text in (texts | {"on": on}).items()}
        table.append(whole | {"runs": runs, "name": name})
    return page.columns(
        pd.DataFrame(table),
        runs="you can run",
        name="ask for",
        error="mean error",
        width="interval, high/low",
        held="covered",
        on="tried on",
    )


def tier_table(books: Sequence[Measurements]) -> HTML:
    """Each tier's error, the width of its interval, its coverage, and how long the tested trainings were.

    The figures of several machines, or cards, are lines of one cell. Folded, since `lead_table` shows what matters.
    """
    names = {"probed": "probed", "scaled": "scaled", "formula": "formula, this machine's two rates"}
    names |= {REMOVED: "calibrated, until version 8"}
    table = [
        {"name": name} | {key: _on_each(books, give) for key, give in _cells(tier).items()}
        for tier, name in names.items()
    ]
    if not any(row["held"] for row in table):
        return page.nothing(TRIES)
    table.insert(3, {"name": "formula, a card's data sheet"} | elsewhere.card_row())
    return page.columns(
        pd.DataFrame(table),
        fold=f"On {', then '.join(book.title for book in books)}, and by card, with how long the trainings lasted",
        name="evidence",
        models="trainings",
        error="mean error",
        low="too low",
        width="interval, high/low",
        held="covered",
    )


def _on_each(books: Sequence[Measurements], give: Callable[[Measurements], str]) -> str:
    texts = (page.or_not_measured(lambda book=book: give(book)) for book in books)
    return "<br>".join(text.replace(" ", NO_BREAK) for text in texts if text != page.NOT_MEASURED)


def _range(book: Measurements, tier: str) -> str:
    """How long the trainings lasted that a tier predicted: "4.1 to 127 s"."""
    lasted = stored.measured([one.true_s for one in predicted_by(book, tier)])
    return f"{min(lasted):.1f} to {max(lasted):.0f} s"


def domain_table(books: Sequence[Measurements]) -> HTML:
    """The sizes that models of the 2017 post's kind were drawn from, and how many were drawn where."""
    drawn = on_every_machine(books).query("kind == 'classifier'")
    counts = drawn.groupby(["domain", "machine"])["number"].nunique()
    table = []
    for domain, sizes in DOMAINS.items():
        models = "<br>".join(f"{book.title}: {counts.get((domain, book.title), 0)} models" for book in books)
        table.append([f"{DRAWN[domain]}<br>{models}", *(f"{low:,} to {high:,}" for low, high in sizes.values())])
    return page.table(["drawn", *next(iter(DOMAINS.values()))], table, fold="Sizes of the classifiers drawn")


# The model that this page asks and then trains


def landed(answer: Estimate, took_s: float, begun: tuple[float, float] | None = None) -> Markdown:
    """Whether a training landed inside the interval that had been predicted for it, as a sentence for the page; not
    where others used the processors while it ran, or while its model was tried.

    begun: process.processor_s() before it.
    """
    total = answer.total
    ends = f"{durations.text(total.low)} to {durations.text(total.high)}"
    took = f"The training took {durations.text(took_s)}"
    others = process.crowd(begun, took_s)
    if others or any(BUSY in each for each in answer.warnings):
        return Markdown(
            f"{took}; the interval is {ends}. Others used this machine's processors meanwhile, so this judges nothing."
        )
    if took_s in total:
        return Markdown(f"{took}, **inside** the interval of {ends}.")
    side = "longer" if took_s > total.high else "less"
    return Markdown(
        f"{took}, **outside** the interval of {ends}: it took {side} than predicted. The interval is meant to cover "
        f"{answer.level:.0%} of trainings."
    )


# The numbers of the prose; the page shows one machine, and the one before it


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _error(way: str) -> Callable[[Measurements], str]:
    return lambda book: _percent(errors(some(cases(book)), way).mean())


def _error_on(stack: str, way: str) -> Callable[[Measurements], str]:
    return lambda book: _percent(errors(stored.chosen(cases(book), stack=stack), way).mean())


def _earlier(give: Callable[[Measurements], str]) -> Callable[[Measurements], str]:
    """The same of the machine on which models were tried first."""
    return lambda _: give(shown())


def _error_now(stack: str, way: str = "probed") -> Callable[[Measurements], str]:
    return lambda book: _percent(errors(now(book, stack, way), way).mean())


def _baselines(book: Measurements) -> pd.Series:
    """Mean errors of the probe and of what people do without it, over the models that have all of them (claim 15.4)."""
    return by_model(some(cases(book)), "probed", "one batch", "FLOPs / peak").mean()


def _spent(book: Measurements) -> list[tuple[float, float]]:
    """What each probe took, and the training that it predicted, s. Raises KeyError where that was not kept."""
    both = [(one.spent_s["probed"], one.true_s) for one in tried(book) if one.spent_s and "probed" in one.spent_s]
    return stored.measured(both)


def _lasted(book: Measurements) -> list[float]:
    return stored.measured([one.true_s for one in tried(book)])


def _scaled(way: str) -> Callable[[Measurements], str]:
    """What the scaled trainings of the machine that tried most of them were missed by."""
    return _earlier(lambda book: _percent(errors(beyond(book), way).mean()))


def _came(number: str) -> str:
    return predictions.told("15", number)


PROSE = Prose(
    "predict",
    title=lambda book: page.title(book, cases(book)),
    earlier=lambda _: page.title(shown(), cases(shown())),
    models=lambda book: str(some(cases(book))["number"].nunique()),
    models_earlier=_earlier(lambda book: str(some(cases(book))["number"].nunique())),
    **{f"again_{name}": _error_now(f"2026-{name}", "again") for name in ("jax", "tensorflow", "torch")},
    **{f"now_{name}": _error_now(f"2026-{name}") for name in ("jax", "tensorflow", "torch")},
    formula_width=lambda book: f"{width(book, 'formula'):.0f}",
    jax=_error_on("2026-jax", "probed"),
    asleep=lambda book: _held(now(book, "2026-tensorflow")),
    one_batch=_error_on("2026-jax", "one batch"),
    peak=lambda book: _percent(_baselines(book)["FLOPs / peak"]),
    memory=_error("probed memory"),
    memory_formula=_error("formula memory"),
    lasted_half=lambda book: f"{np.median(_lasted(book)):.0f} seconds",
    probing_longer=lambda book: f"{sum(spent > true for spent, true in _spent(book))} of {len(_spent(book))}",
    record=lambda _: f"{record.of('probed').held} of {record.of('probed').models}",
    record_version=lambda _: str(record.of("probed").version),
    record_longest=lambda _: durations.text(record.of("probed").longest_s),
    scaled=_scaled("scaled"),
    line=_scaled("line"),
    printed=lambda _: str(sum(printed(stored.of(name))["number"].nunique() for name in stored.named())),
    withdrawn=lambda _: str(sum(len(withdrawn(stored.of(name))) for name in stored.named())),
    came_probe=lambda _: _came("1"),
    came_memory=lambda _: _came("5"),
    came_card=lambda _: _came("6"),
)


def numbers(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name. book: the machine that the page shows."""
    return PROSE.values(book) | long.PROSE.values(book) | elsewhere.PROSE.values(book)
