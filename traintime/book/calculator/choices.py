"""What the calculator's page offers: sizes and their ranges, machines, stacks, and what a reader could change."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from traintime.book.calculator.formulas import OPTIMIZERS
from traintime.explain import memory
from traintime.measuring import stacks
from traintime.predict import costs
from traintime.predict.cards import OURS
from traintime.predict.costs import KEEPS, USUAL
from traintime.store import machines as known
from traintime.workloads.base import BY_ROW
from traintime.workloads.rnn import Rnn

BY_RATES = "rates"  # a machine that is none of ours
DEFERRED = "adam-deferred"
STACK = "2026-tensorflow"  # what the page starts with
VNNI = {"avx512_vnni", "avx_vnni"}
WITHOUT_VNNI = ("i7-7700", "i7-7700K", "i7-8700K", "Ryzen-5-3600", "Ryzen-9-5950X")  # of the data sheets' processors


@dataclass(frozen=True)
class Number:
    """A number that the reader sets; whole: no fractions; unit: what it counts, in words."""

    name: str
    label: str
    unit: str
    lowest: float
    highest: float
    usual: float
    whole: bool = True


def _size(name: str, label: str, highest: int) -> Number:
    described = Rnn.model_fields[name]
    return Number(name, label, described.description or "", 1, highest, described.default)


SIZES = (
    _size("vocabulary", "Vocabulary", 100_000_000),
    _size("embedding", "Embedding", 4_096),
    _size("units", "Units", 4_096),
    _size("length", "Length", 2_048),
    _size("batch", "Batch", 8_192),
    Number("sentences", "Sentences", "in the training data", 1, 1_000_000_000, 1_000_000),
    Number("epochs", "Epochs", "times through the training data", 1, 1_000, 10),
)
RATES = (
    Number("gflops", "Arithmetic", "billions of float32 operations a second, reached", 0.1, 1e6, 200, whole=False),
    Number("gbytes", "Memory", "gigabytes read and written a second, reached", 0.1, 1e5, 50, whole=False),
)
NUMBERS = {number.name: number for number in SIZES + RATES}
# What the time of an epoch is drawn against: where the curve begins (it ends at the highest), and the axis' name.
CURVES = {
    "batch": (1, "sentences a batch"),
    "vocabulary": (1_000, "words in the vocabulary"),
    "length": (1, "tokens in a sentence"),
}

OPTIMIZER_NAMES = dict(
    zip(OPTIMIZERS, ("Adam", "SGD", "SGD with momentum", "RMSprop", "Adam, with the deferred embedding"), strict=True)
)

ALLOCATOR_NAMES = {USUAL: "glibc, the usual one on Linux", KEEPS: "tcmalloc, which keeps freed memory"}


@dataclass(frozen=True)
class Change:
    """Something that might make an epoch shorter: sizes times a factor, settings put to a value."""

    name: str
    words: str
    page: str
    times: Mapping[str, float] = field(default_factory=dict)
    sets: Mapping[str, Any] = field(default_factory=dict)


CHANGES = (
    Change("batch", "Batches four times as large", "chapters/05-batch-size.html", times={"batch": 4}),
    Change("frozen", "Leave the table untrained", "chapters/13-faster.html", sets={"frozen": True}),
    Change(
        "deferred",
        "Update a row of the table only when it is read again",
        "chapters/16-beat-the-formula.html",
        sets={"optimizer": DEFERRED},
    ),
    Change(
        "allocator", "An allocator that keeps freed memory", "chapters/04-memory-pool.html", {}, {"allocator": KEEPS}
    ),
    Change("sgd", "SGD, which keeps no moments", "chapters/13-faster.html", sets={"optimizer": "sgd"}),
    Change("vocabulary", "Half the vocabulary", "chapters/03-vocabulary.html", times={"vocabulary": 0.5}),
    Change("embedding", "Half the numbers in each row", "chapters/03-vocabulary.html", times={"embedding": 0.5}),
)
WORTH = 1.05  # how many times as fast an epoch has to become for a change to be shown


@dataclass(frozen=True)
class Machine:
    """A machine to choose. memory: bytes, None where it is not known; card: a GPU, known by its data sheet."""

    name: str
    title: str
    about: str
    memory: int | None = None
    card: bool = False


@functools.cache
def machines() -> dict[str, Machine]:
    """Machines whose processor we measured, then devices with a data sheet, our own card first."""
    found, (with_card, own_card) = {}, OURS
    titles = {name: title[0].upper() + title[1:] for name, title in known.titles().items()}
    for name in (name for name in titles if name != with_card):
        described, rates = known.described(name), costs.own_rates(name)
        about = (
            f"{described.cpu}, {described.cores} cores. It reached {rates.flops / 1e9:.0f} billion operations "
            f"and {rates.bytes / 1e9:.0f} GB a second."
        )
        title = f"{titles[name]} ({described.cpu.replace('(R)', '')}, {described.cores} cores)"
        found[name] = Machine(name, title, about, described.memory_bytes)
    for device in sorted(devices(), key=lambda name: name != own_card):
        card, of_processors = costs.is_card(device), "efficiency factors that the software showed on processors"
        what, by = ("GPU", "costs fitted to times on cards") if card else ("processor", of_processors)
        title = f"{titles[with_card]}, {device}" if device == own_card else device
        about = f"Predicted from its data sheet, with {by}."
        found[device] = Machine(device, f"{title} ({what}, by its data sheet)", about, card=card)
    return found


def without_vnni() -> list[str]:
    """Processors without the instructions for which today's TensorFlow turns oneDNN on (AVX512-VNNI, AVX-VNNI)."""
    has = {name: known.described(name).instruction_sets for name in known.titles() if name != OURS[0]}
    return [name for name in machines() if name in WITHOUT_VNNI or (name in has and not {*has[name]} & VNNI)]


def devices() -> list[str]:
    """Devices whose data sheet gives operations and bytes a second."""
    has = costs.sheets().groupby("device", sort=False)["name"].agg(set)
    return [device for device, names in has.items() if names >= {"float32 peak", "bandwidth peak"}]


@functools.cache
def stack_names() -> list[str]:
    """Stacks whose efficiency factors and memory model are known, the newest first, and of these the usual one."""
    known = set(costs.known()) & set(memory.stacks())
    years = {name: int(name[:4]) if name[:4].isdigit() else 0 for name in known}
    return sorted(known, key=lambda name: (-years[name], name != STACK, name))


def allocators(machine: str, stack: str) -> list[str]:
    """The allocators under which a stack's costs are known on a machine, the usual one first."""
    by_rates = machine in known.titles() or machine == BY_RATES
    return [USUAL, KEEPS] if by_rates and stack in costs.known(KEEPS) else [USUAL]


def with_deferred() -> list[str]:
    """Of these stacks those that have the deferred embedding."""
    return [name for name in stack_names() if stacks.ALL[name].api == BY_ROW[DEFERRED]]
