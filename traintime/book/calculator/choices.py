"""What the calculator's page offers, and what is known of it: numbers and their ranges, machines, stacks, their costs,
and the classifier's measured steps.
"""

import functools
from typing import Any, NamedTuple

import pandas as pd

from traintime import lab
from traintime.book import original
from traintime.book.calculator.formulas import OPTIMIZERS, SIZES
from traintime.explain import memory, points
from traintime.predict import costs
from traintime.predict.cards import OURS, THE_DOCUMENTS
from traintime.predict.costs import KEEPS, REACHED, USUAL, Costs, Rates
from traintime.store import derived
from traintime.store import machines as known
from traintime.workloads.rnn import Rnn

BY_RATES = "rates"  # a machine that is none of ours
DEFERRED = "adam-deferred"
STACK, THEIRS = "2026-tensorflow", "2017-theano"  # what the page starts with; the 2017 post's
# Of the data sheets' processors, those for which today's TensorFlow leaves oneDNN off.
WITHOUT_VNNI = ("i7-7700", "i7-7700K", "i7-8700K", "Ryzen-5-3600", "Ryzen-9-5950X")
SLOWER = " TensorFlow 2.21 may take longer: it has faster code for processors with AVX512-VNNI, which this one lacks."


class Number(NamedTuple):
    """A number that the reader sets; whole: no fractions; unit: what it counts, in words."""

    label: str
    unit: str
    highest: float
    usual: float
    lowest: float = 1
    whole: bool = True


HIGHEST = {"vocabulary": 100_000_000, "embedding": 4_096, "units": 4_096, "length": 2_048, "batch": 8_192}
NUMBERS = {
    name: Number(name.capitalize(), Rnn.model_fields[name].description or "", highest, Rnn.model_fields[name].default)
    for name, highest in HIGHEST.items()
}
NUMBERS["sentences"] = Number("Sentences", "in the training data", 1_000_000_000, 1_000_000)
NUMBERS["epochs"] = Number("Epochs", "times through the training data", 1_000, 10)
RATES = {
    "gflops": Number("Arithmetic", "billions of float32 operations a second, reached", 1e6, 200, 0.1, whole=False),
    "gbytes": Number("Memory", "gigabytes read and written a second, reached", 1e5, 50, 0.1, whole=False),
}
OPTIMIZER_NAMES = dict(
    zip(OPTIMIZERS, ("Adam", "SGD", "SGD with momentum", "RMSprop", "Adam, with the deferred embedding"), strict=True)
)
ALLOCATOR_NAMES = {USUAL: "glibc, the usual one on Linux", KEEPS: "tcmalloc, which keeps freed memory"}
# What a measured step depends on, on a machine and stack: columns of `steps`.
SET = (*SIZES, "optimizer", "frozen", "allocator")


@functools.cache
def outside_pools() -> dict[str, float]:
    """What the driver and its libraries took of our card outside a stack's pool, bytes: the most for those not run."""
    its = [(record.stack, each.result) for record in derived.measured(OURS[0]) for each in record.invocations]
    rows = pd.DataFrame({"stack": stack} | result.memory for stack, result in its if result)
    took = (rows["device_in_use"] - rows["device_reserved"]).groupby(rows["stack"]).median()
    return took.reindex(stack_names(), fill_value=took.max()).to_dict()


@functools.cache
def machines() -> dict[str, dict[str, Any]]:
    """Machines whose processor we measured, then devices with a data sheet, our own card first, then the reader's.

    title, about: text; memory: bytes, where they are known; card: whether it is a GPU; context: of our own, by stack.
    """
    found, (with_card, own_card) = {}, OURS
    titles = {name: title[0].upper() + title[1:] for name, title in known.titles().items()}
    for name in (name for name in titles if name != with_card):
        described, rates = known.described(name), costs.own_rates(name)
        about = (
            f"{described.cpu}, {described.cores} cores. It reached {rates.flops / 1e9:.0f} billion operations "
            f"and {rates.bytes / 1e9:.0f} GB a second."
        )
        title = f"{titles[name]} ({described.cpu.replace('(R)', '')}, {described.cores} cores)"
        found[name] = {"title": title, "about": about, "memory": described.memory_bytes}
    has = costs.sheets().groupby("device", sort=False)["name"].agg(set)
    devices = [device for device, names in has.items() if names >= REACHED.keys()]
    for device in sorted(devices, key=lambda name: name != own_card):
        card, of_processors = costs.is_card(device), "efficiency factors that the software showed on processors"
        what, by = ("GPU", "costs fitted to times on cards") if card else ("processor", of_processors)
        title = f"{titles[with_card]}, {device}" if device == own_card else device
        about = f"Predicted from its data sheet, with {by}.{SLOWER if device in WITHOUT_VNNI else ''}"
        found[device] = {"title": f"{title} ({what}, by its data sheet)", "about": about, "card": card}
    found[own_card]["context"] = outside_pools()
    arithmetic, moved = (f"{100 * share:.0f}\u00a0%" for share in REACHED.values())
    about = (
        f"Give what your machine reaches, not what its data sheet promises: of that we take {arithmetic} for "
        f"arithmetic and {moved} for memory. The software's efficiency factors come from processors, not from cards."
    )
    return found | {BY_RATES: {"title": "Another machine, by its rates", "about": about}}


@functools.cache
def stack_names() -> list[str]:
    """Stacks whose efficiency factors and memory model are known, the newest first, and of these the usual one."""
    known = set(costs.known()) & set(memory.stacks())
    years = {name: int(name[:4]) if name[:4].isdigit() else 0 for name in known}
    return sorted(known, key=lambda name: (-years[name], name != STACK, name))


@functools.cache
def costs_of(machine: str, stack: str) -> dict[str, Costs]:
    """Costs of a stack on a machine by allocator, the usual one first; of BY_RATES those at rates of 1 a second."""
    if machine not in known.titles() and machine != BY_RATES:
        return {USUAL: costs.published(machine, stack, costs.kernel_of(stack, Rnn().work()))}
    rates = Rates(1.0, 1.0) if machine == BY_RATES else costs.own_rates(machine)
    allocators = [name for name in ALLOCATOR_NAMES if stack in costs.known(name)]
    return {name: costs.of_rates(machine, rates, stack, name) for name in allocators}


@functools.cache
def steps() -> pd.DataFrame:
    """The classifier's measured steps: the page's machine, stack, SET, the columns of points.STEPS (s) around runs, of
    which the 2017 post's have 0, and the largest peak of a processor's memory (bytes).
    """
    ways = {"optimizer": list(OPTIMIZERS), "frozen": [False, True], "allocator": list(ALLOCATOR_NAMES)}
    found, each = [], ["machine", "stack", "key"]
    peaks = derived.read("runs").query("not disturbed and device == 'cpu'").groupby(each)["peak_bytes"].max()
    for name, title in known.titles().items():
        # On a card Keras hands the LSTM to cuDNN.
        run, machine = ({"device": "gpu", "kernel": "cudnn"}, OURS[1]) if name == OURS[0] else ({}, name)
        run |= dict.fromkeys((*SIZES, "loop", "sentences"), ...)
        rows = lab.configurations(title, stack=stack_names(), **run, **ways)
        found.append(rows[~rows["disturbed"]].join(peaks, on=each).assign(machine=machine))
    posted = original.s0().query("device == 'GPU'")[["vocabulary", "batch", "length", "step_s"]]
    usual = Rnn().model_dump(include=set(SET)) | {"allocator": USUAL, "machine": THE_DOCUMENTS, "stack": THEIRS}
    posted = posted.assign(**{name: value for name, value in usual.items() if name not in posted}, runs=0)
    # Single steps are timed in each loop; those of the loop "steps" come last, and stay.
    rows = pd.concat([*found, posted.assign(mean_s=posted["step_s"])]).sort_values("loop", kind="stable")
    rows = rows[["machine", "stack", *SET, *points.STEPS["median_s"], "runs", *points.STEPS["step_s"], "peak_bytes"]]
    rows = rows.astype(dict.fromkeys((*SIZES, "runs"), int) | {"frozen": bool})
    rows = rows.drop_duplicates(["machine", "stack", *SET], keep="last")
    return rows[[its.allocator in costs_of(its.machine, its.stack) for its in rows.itertuples()]]
