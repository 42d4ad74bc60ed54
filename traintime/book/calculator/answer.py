"""What Python says to the settings of the calculator's page, by the package's own functions."""

import functools
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import norm

from traintime.book import original
from traintime.book.calculator import choices
from traintime.errors import InputError
from traintime.explain.statistics import Interval
from traintime.predict import holdings, prices
from traintime.predict.prices import Prices, Rates
from traintime.workloads.base import Work
from traintime.workloads.rnn import Rnn

LEVEL = 0.9  # share of cases that an interval should hold
Z = float(norm.ppf((1 + LEVEL) / 2))  # it reaches so many standard deviations to either side
CARD, CARD_STACK = "K40m", "2017-theano"  # the document's, whose epochs nobody here measured


@dataclass(frozen=True)
class Settings:
    """What the reader has set. gflops, gbytes: rates of a machine of theirs, 1e9 a second; pasted: its prices."""

    vocabulary: int = Rnn().vocabulary
    embedding: int = Rnn().embedding
    units: int = Rnn().units
    length: int = Rnn().length
    batch: int = Rnn().batch
    sentences: int = int(choices.NUMBERS["sentences"].usual)
    epochs: int = int(choices.NUMBERS["epochs"].usual)
    optimizer: str = "adam"
    frozen: bool = False
    machine: str = ""
    stack: str = choices.STACK
    gflops: float = choices.NUMBERS["gflops"].usual
    gbytes: float = choices.NUMBERS["gbytes"].usual
    pasted: Prices | None = None

    def __post_init__(self) -> None:
        if not self.machine:
            object.__setattr__(self, "machine", next(iter(choices.machines())))

    @property
    def sizes(self) -> Rnn:
        """The classifier's; raises InputError where the stack cannot train it so."""
        if self.optimizer == choices.DEFERRED and self.stack not in choices.with_deferred():
            remedy = f"Take {', '.join(choices.with_deferred())}, or another optimizer."
            raise InputError("optimizer", self.optimizer, f"is nothing that {self.stack} has", remedy)
        named = {name: getattr(self, name) for name in Rnn.model_fields if hasattr(self, name)}
        return Rnn(**named)

    @property
    def as_data(self) -> dict[str, Any]:
        """The same as the page has it."""
        data = asdict(self)
        if self.pasted:
            data["pasted"] = {"name": self.pasted.of, "seconds": dict(self.pasted.seconds), "error": self.pasted.error}
        return data


@dataclass(frozen=True)
class Answer:
    """Seconds of a step, an epoch and all epochs, bytes at the peak; seconds of a step by term; which is the largest.

    changes: the best of choices.CHANGES, by name, and how many times as fast each makes an epoch.
    """

    step: Interval
    epoch: Interval
    total: Interval
    peak: Interval
    steps: int
    parts: dict[str, float]
    work: Work
    limit: str
    changes: dict[str, float]


def answer(settings: Settings) -> Answer:
    """What to expect, and why. Raises InputError for what the stack cannot train."""
    work, its = settings.sizes.work(), prices_of(settings)
    held, parts, steps = holdings.of_stack(settings.stack), its.parts(work), -(-settings.sentences // settings.batch)
    step = within(its.step_s(work), its.error)
    return Answer(
        step=step,
        epoch=step.scaled(steps),
        total=step.scaled(steps * settings.epochs),
        peak=within(held.peak_bytes(work, settings.sizes.how), held.error),
        steps=steps,
        parts=parts,
        work=work,
        limit=max(parts, key=lambda name: parts[name]),
        changes=_best(settings, step.value * steps),
    )


def within(value: float, error: float) -> Interval:
    """The value with its interval, from the error's standard deviation in logarithms."""
    return Interval(value, value * np.exp(-Z * error), value * np.exp(Z * error))


def prices_of(settings: Settings) -> Prices:
    """The prices that the settings ask for."""
    if settings.machine == choices.PASTED:
        if settings.pasted is None:
            raise InputError("pasted", None, "is missing", "Paste the coefficients of your machine.")
        return settings.pasted
    if settings.machine == choices.BY_RATES:
        return prices.of_rates("yours", Rates(settings.gflops * 1e9, settings.gbytes * 1e9), settings.stack)
    return on(settings.machine, settings.stack)


def on(machine: str, stack: str) -> Prices:
    """Prices of a stack on one of our machines, or on a device with a data sheet."""
    if choices.machines()[machine].measured:
        return prices.of_rates(machine, prices.own_rates(machine), stack)
    its = prices.published(machine, stack)
    # The habits come from processors. The one card whose epochs are published says how far they carry.
    return replace(its, error=max(its.error, prices.rms(np.log(list(on_the_card().values())))))


def habits(stack: str) -> Prices:
    """A stack's habits, which are its prices where all rates are 1."""
    return prices.of_rates("any", Rates(1.0, 1.0), stack)


@functools.cache
def on_the_card() -> dict[tuple[int, int], float]:
    """Published over foretold seconds of the document's epochs on its card, by vocabulary and batch."""
    cells, its = original.s0().query("device == 'GPU'"), prices.published(CARD, CARD_STACK)
    sizes = [Rnn(vocabulary=int(v), batch=int(b)) for v, b in zip(cells["vocabulary"], cells["batch"], strict=True)]
    return {
        (each.vocabulary, each.batch): seconds / its.step_s(each.work())
        for each, seconds in zip(sizes, cells["step_s"], strict=True)
    }


def changed(settings: Settings, change: choices.Change) -> Settings | None:
    """The settings with the change; None where it changes nothing, or is not to be had."""
    new = {name: max(int(getattr(settings, name) * factor), 1) for name, factor in change.times.items()} | change.sets
    if all(getattr(settings, name) == value for name, value in new.items()):
        return None
    if any(value > choices.NUMBERS[name].highest for name, value in new.items() if name in choices.NUMBERS):
        return None
    if new.get("batch", 0) > settings.sentences:
        return None
    if new.get("optimizer") == choices.DEFERRED and settings.stack not in choices.with_deferred():
        return None
    return replace(settings, **new)


def _best(settings: Settings, epoch_s: float) -> dict[str, float]:
    factors = {}
    for change in choices.CHANGES:
        if other := changed(settings, change):
            steps = -(-other.sentences // other.batch)
            factors[change.name] = epoch_s / (prices_of(other).step_s(other.sizes.work()) * steps)
    worth = {name: factor for name, factor in factors.items() if factor >= choices.WORTH}
    return dict(sorted(worth.items(), key=lambda item: -item[1])[: choices.BEST])
