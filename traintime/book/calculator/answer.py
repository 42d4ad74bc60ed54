"""What Python says to the settings of the calculator's page, by the package's own functions."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from traintime.book import stored
from traintime.book.calculator import choices
from traintime.errors import InputError
from traintime.explain.statistics import Interval
from traintime.explain.terms import by_part
from traintime.predict import holdings, prices
from traintime.predict.answer import LEVEL, SURE, around
from traintime.predict.prices import FIXED, USUAL, Prices, Rates
from traintime.workloads.base import Work
from traintime.workloads.rnn import Rnn

# How many standard deviations an interval of this level reaches to either side.
Z = float(np.log(around(1.0, (1.0, SURE), level=LEVEL).high))


@dataclass(frozen=True)
class Settings:
    """What the reader has set. gflops, gbytes: rates of a machine of theirs, 1e9 a second."""

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
    allocator: str = USUAL
    gflops: float = choices.NUMBERS["gflops"].usual
    gbytes: float = choices.NUMBERS["gbytes"].usual

    def __post_init__(self) -> None:
        if not self.machine:
            object.__setattr__(self, "machine", next(iter(choices.machines())))

    @property
    def sizes(self) -> Rnn:
        """The classifier's; raises InputError where the stack cannot train it so, or the data fill no batch."""
        if self.batch > self.sentences:
            problem = f"is more than the {self.sentences} sentences"
            raise InputError("batch", self.batch, problem, "Give fewer, or more sentences.")
        if self.optimizer == choices.DEFERRED and self.stack not in choices.with_deferred():
            remedy = f"Take {', '.join(choices.with_deferred())}, or another optimizer."
            raise InputError("optimizer", self.optimizer, f"is nothing that {self.stack} has", remedy)
        if self.allocator not in choices.allocators(self.machine, self.stack):
            problem = f"has no known costs with {self.stack} on {self.machine}"
            raise InputError("allocator", self.allocator, problem, f"Take {USUAL}, or another stack or machine.")
        named = {name: getattr(self, name) for name in Rnn.model_fields if hasattr(self, name)}
        return Rnn(**named)

    @property
    def as_data(self) -> dict[str, Any]:
        """The same as the page has it."""
        return asdict(self)


@dataclass(frozen=True)
class Answer:
    """Seconds of a step, an epoch and all epochs, bytes at the peak; seconds of a step by part; which is the largest.

    changes: of choices.CHANGES, by name: how many times as fast each makes an epoch, the best first.
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
    work, its, held = settings.sizes.work(), prices_of(settings), holdings.of_stack(settings.stack)
    terms, how, steps = its.parts(work), settings.sizes.how, -(-settings.sentences // settings.batch)
    parts = by_part(terms)
    epoch = within(_epoch_s(settings, terms), its.error)
    card = settings.machine in choices.machines() and choices.machines()[settings.machine].card
    # A card holds no interpreter and no libraries: what a process has beside its arrays lies elsewhere.
    peak = held.beyond_idle(work, how) if card else held.peak_bytes(work, how)
    return Answer(
        step=within(sum(parts.values()), its.error),
        epoch=epoch,
        total=epoch.scaled(settings.epochs),
        peak=within(peak, held.error),
        steps=steps,
        parts=parts,
        work=work,
        limit=max(parts, key=lambda name: parts[name]),
        changes=_worthwhile(settings, epoch.value),
    )


def measured(settings: Settings) -> Interval | None:
    """A step (s) as it was measured on the machine that the settings name, with its 95 % interval; None where nobody
    measured these sizes there.
    """
    if settings.machine not in stored.named():
        return None
    run, sizes = {"stack": settings.stack, "allocator": settings.allocator}, settings.sizes.model_dump()
    rows = stored.of(settings.machine).points(**run, **sizes).dropna(subset="step_s")
    return Interval(*rows.iloc[0][["step_s", "low_s", "high_s"]].astype(float)) if len(rows) == 1 else None


def _epoch_s(settings: Settings, terms: dict[str, float]) -> float:
    """Seconds of an epoch. terms: of a full step, s; a batch that is not full pays what is FIXED in full."""
    fixed = sum(terms[name] for name in FIXED)
    batches = settings.sentences / settings.batch
    return math.ceil(batches) * fixed + batches * (sum(terms.values()) - fixed)


def within(value: float, error: float) -> Interval:
    """The value with its interval, from the error's standard deviation in logarithms."""
    return around(value, (error, SURE), level=LEVEL)


def prices_of(settings: Settings) -> Prices:
    """The costs that the settings ask for."""
    if settings.machine == choices.BY_RATES:
        rates = Rates(settings.gflops * 1e9, settings.gbytes * 1e9)
        return prices.of_rates("yours", rates, settings.stack, settings.allocator)
    return on(settings.machine, settings.stack, settings.allocator)


def on(machine: str, stack: str, allocator: str = USUAL) -> Prices:
    """Costs of a stack on one of our machines under an allocator, or on a device with a data sheet."""
    if machine in stored.named():
        return prices.of_rates(machine, prices.own_rates(machine), stack, allocator)
    return prices.published(machine, stack, prices.kernel_of(stack, Rnn().work()))


def habits(stack: str, allocator: str = USUAL) -> Prices:
    """A stack's efficiency factors as if they were costs: seconds of a step and of a launch, else times the least
    possible.
    """
    unit = Rates(1.0, 1.0)
    found = prices.of_rates("any", unit, stack, allocator)
    return replace(found, seconds={term: seconds / unit.least[term] for term, seconds in found.seconds.items()})


def changed(settings: Settings, change: choices.Change) -> Settings | None:
    """The settings with the change; None where it changes nothing, or is not to be had."""
    new = {name: max(int(getattr(settings, name) * factor), 1) for name, factor in change.times.items()} | change.sets
    if all(getattr(settings, name) == value for name, value in new.items()):
        return None
    if any(value > choices.NUMBERS[name].highest for name, value in new.items() if name in choices.NUMBERS):
        return None
    if new.get("batch", 0) > settings.sentences:
        return None
    if new.get("allocator", settings.allocator) not in choices.allocators(settings.machine, settings.stack):
        return None
    if new.get("optimizer") == choices.DEFERRED and settings.stack not in choices.with_deferred():
        return None
    return replace(settings, **new)


def _worthwhile(settings: Settings, epoch_s: float) -> dict[str, float]:
    factors = {}
    for change in choices.CHANGES:
        if other := changed(settings, change):
            factors[change.name] = epoch_s / _epoch_s(other, prices_of(other).parts(other.sizes.work()))
    worth = {name: factor for name, factor in factors.items() if factor >= choices.WORTH}
    return dict(sorted(worth.items(), key=lambda item: -item[1]))
