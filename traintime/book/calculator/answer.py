"""What Python says to the settings of the calculator's page, by the package's own functions."""

import functools
import math
from dataclasses import dataclass, field, replace

import numpy as np

from traintime import lab
from traintime.book import original
from traintime.book.calculator import choices, formulas
from traintime.errors import InputError
from traintime.explain import points
from traintime.explain.memory import CONTEXT, memory_model
from traintime.explain.statistics import Interval
from traintime.explain.terms import by_part
from traintime.predict import costs
from traintime.predict.answer import LEVEL, SURE, around
from traintime.predict.cards import OURS, THE_DOCUMENTS
from traintime.predict.costs import FIXED, USUAL, Costs, Rates
from traintime.store import machines
from traintime.workloads.base import Work
from traintime.workloads.rnn import Rnn

THEIRS = "2017-theano"  # the 2017 post's software
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
    machine: str = field(default_factory=lambda: next(iter(choices.machines())))
    stack: str = choices.STACK
    allocator: str = USUAL
    gflops: float = choices.NUMBERS["gflops"].usual
    gbytes: float = choices.NUMBERS["gbytes"].usual

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
        return Rnn(**{name: getattr(self, name) for name in Rnn.model_fields if hasattr(self, name)})


@dataclass(frozen=True)
class Measured:
    """A step (s) with its 95 % interval; runs: how many, 0 for the 2017 post's.

    step: as the chapters have it, by medians; mean: with the slow steps that an epoch contains, too.
    """

    step: Interval
    runs: int
    mean: Interval


@dataclass(frozen=True)
class Answer:
    """Seconds of a step, an epoch and all epochs, bytes at the peak; seconds of a step by part; which is the largest.

    All of it is predicted. measured: what was measured with these settings, None where nobody did. What a
    change of the settings would do the script works out by itself.
    """

    step: Interval
    epoch: Interval
    total: Interval
    peak: Interval
    steps: int
    parts: dict[str, float]
    work: Work
    limit: str
    measured: Measured | None

    def from_measured(self, predicted: Interval) -> Interval:
        """A duration of these as it follows from the mean of the measured steps."""
        assert self.measured
        return self.measured.mean.scaled(predicted.value / self.step.value)


def answer(settings: Settings) -> Answer:
    """What to expect, and why. Raises InputError for what the stack cannot train."""
    work, its, held = settings.sizes.work(), costs_of(settings), memory_model(settings.stack)
    terms, how, steps = its.parts(work), settings.sizes.how, -(-settings.sentences // settings.batch)
    parts = by_part(terms)
    epoch = within(_epoch_s(settings, terms), its.error)
    # A card holds no interpreter and no libraries: what a process has beside its arrays lies elsewhere.
    card = settings.machine in choices.machines() and choices.machines()[settings.machine].card
    peak = held.beyond_idle(work, how) + (CONTEXT if card else held.idle)
    return Answer(
        step=within(sum(parts.values()), its.error),
        epoch=epoch,
        total=epoch.scaled(settings.epochs),
        peak=within(peak, held.error),
        steps=steps,
        parts=parts,
        work=work,
        limit=max(parts, key=lambda name: parts[name]),
        measured=measured(settings),
    )


def measured(settings: Settings) -> Measured | None:
    """The step as it was measured on the machine that the settings name; None where nobody did."""
    # No step depends on these.
    usual = {name: choices.NUMBERS[name].usual for name in ("sentences", "epochs", "gflops", "gbytes")}
    return steps_of(settings.machine).get(replace(settings, **usual))


@functools.cache
def steps_of(machine: str) -> dict[Settings, Measured]:
    """The classifier's measured steps on a machine of the page, by settings; on the K40m the 2017 post's."""
    if machine == THE_DOCUMENTS:
        rows = original.s0().query("device == 'GPU'")
        sizes = rows[["vocabulary", "batch", "length"]].to_dict("records")
        posted = [Settings(machine=machine, stack=THEIRS, **each) for each in sizes]
        steps = map(Interval, rows["step_s"])
        return {its: Measured(step, 0, step) for its, step in zip(posted, steps, strict=True)}
    # On a card Keras hands the LSTM to cuDNN.
    name, run = (OURS[0], {"device": "gpu", "kernel": "cudnn"}) if machine == OURS[1] else (machine, {})
    if name not in machines.titles():
        return {}
    run |= dict.fromkeys((*formulas.SIZES, "loop", "sentences"), ...)
    ways = {"optimizer": list(formulas.OPTIMIZERS), "frozen": [False, True], "allocator": list(choices.ALLOCATOR_NAMES)}
    rows = lab.configurations(machines.titles()[name], stack=choices.stack_names(), **run, **ways)
    rows, found = rows[~rows["disturbed"]].astype(dict.fromkeys(formulas.SIZES, int)), {}
    # Single steps are timed in each loop; those of the loop "steps" come last, and stay.
    for row in rows.sort_values("loop", kind="stable").to_dict("records"):
        if row["allocator"] in choices.allocators(machine, row["stack"]):
            its = Settings(machine=machine, **{name: row[name] for name in ("stack", *formulas.SIZES, *ways)})
            step, mean = (Interval(*(row[name] for name in names)) for names in points.STEPS.values())
            found[its] = Measured(step, row["runs"], mean)
    return found


def misses(machine: str) -> list[tuple[float, Settings]]:
    """How many times as long as predicted each measured step of a machine took, and where: the worst miss first."""
    found = [(_off(at, known.step), at) for at, known in steps_of(machine).items()]
    return sorted(found, key=lambda one: -abs(math.log(one[0])))


def _off(at: Settings, step: Interval) -> float:
    """How many times as long as predicted a step took."""
    return step.value / costs_of(at).step_s(at.sizes.work())


def slow_without_vnni() -> dict[str, dict[str, str]]:
    """How far off the formula was for today's TensorFlow on processors without AVX512-VNNI: a sentence for each."""
    lacking = choices.without_vnni()
    found = {at: ratio for name in lacking for ratio, at in misses(name) if at.stack == choices.STACK}
    times = f"{min(found.values()):.1f} to {max(found.values()):.1f} times"
    ran = ", ".join(sorted({machines.titles()[at.machine] for at in found}))
    said = f"Without AVX512-VNNI, TensorFlow took {times} as long as predicted ({ran})."
    return {choices.STACK: dict.fromkeys([*lacking, choices.BY_RATES], said)}


def worst_misses() -> list[tuple[float, Settings]]:
    """The ten worst of `misses`, over all machines."""
    found = (miss for machine in choices.machines() for miss in misses(machine))
    return sorted(found, key=lambda one: -abs(math.log(one[0])))[:10]


def _epoch_s(settings: Settings, terms: dict[str, float]) -> float:
    """Seconds of an epoch. terms: of a full step, s; a batch that is not full pays what is FIXED in full."""
    fixed = sum(terms[name] for name in FIXED)
    batches = settings.sentences / settings.batch
    return math.ceil(batches) * fixed + batches * (sum(terms.values()) - fixed)


def within(value: float, error: float) -> Interval:
    """The value with its interval, from the error's standard deviation in logarithms."""
    return around(value, (error, SURE), level=LEVEL)


def costs_of(settings: Settings) -> Costs:
    """The costs that the settings ask for."""
    if settings.machine == choices.BY_RATES:
        rates = Rates(settings.gflops * 1e9, settings.gbytes * 1e9)
        return costs.of_rates("yours", rates, settings.stack, settings.allocator)
    return on(settings.machine, settings.stack, settings.allocator)


@functools.cache
def on(machine: str, stack: str, allocator: str = USUAL) -> Costs:
    """Costs of a stack on one of our machines under an allocator, or on a device with a data sheet."""
    if machine in machines.titles():
        return costs.of_rates(machine, costs.own_rates(machine), stack, allocator)
    return costs.published(machine, stack, costs.kernel_of(stack, Rnn().work()))


def efficiencies(stack: str, allocator: str = USUAL) -> Costs:
    """A stack's efficiency factors as if they were costs: seconds of a step and of a launch, else times the least
    possible.
    """
    found = costs.of_rates("any", unit := Rates(1.0, 1.0), stack, allocator)
    return replace(found, seconds={term: seconds / unit.least[term] for term, seconds in found.seconds.items()})
