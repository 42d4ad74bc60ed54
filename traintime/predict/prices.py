"""What a unit of work costs: a launch, an operation, a byte, in seconds; a stack's efficiency factors at a device's own
rates.

A stack's efficiency factor is how many times the least possible time an operation or a byte takes it: the least follows
from what the device reaches at best (Rates). A launch, and the per-step overhead, cost seconds that a processor needs
on any device. Under an allocator that gives large blocks back (glibc) a byte also costs the page faults of the fresh
pages mapped for it; under one that keeps them (tcmalloc) it does not, nor on a card, whose frameworks keep what they
have had. `python -m traintime.predict.prices` fits the efficiency factors to the stored measurements
(data/derived/habits.csv); a test holds that the file is what they give. A card's costs are fitted to what others timed
on cards (predict.cards).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls

from traintime import paths
from traintime.errors import InputError, unknown
from traintime.explain import points
from traintime.explain.terms import TERMS
from traintime.measuring.machine import RATES, rated
from traintime.point import Point, Run
from traintime.store import derived, records
from traintime.store.table import table
from traintime.workloads.base import BY_ROW, FLOAT32, Work

ERRORS = ["error", "kinds", "elsewhere"]
FEWEST = 12  # points that a stack's habits may be fitted to
# Of a published peak, what programs are taken to reach where nobody measured it. Bandwidth: a K40m's 203 of 288 GB/s
# (data/external/hardware.csv). Operations: large square products come near the peak on every device.
REACHED = {"float32 peak": 0.8, "bandwidth peak": 0.7}
# On a card. Costs in seconds of a step, and of a launch: of an operation by itself, in a compiled step, and of a time
# step of cuDNN's; costs of operations, bytes and activations in times what the data sheet's peaks allow at the least.
# predict.cards fits them to what others timed on cards.
FACTORS = ("step", "launch", "compiled", "cudnn", "operations", "bytes", "activations")
# Keras compiles a whole step with XLA (jit_compile="auto"), but none with a recurrent layer in cuDNN on TensorFlow
# (layers/rnn/lstm.py: supports_jit).
COMPILED = ("2026-jax", "2026-tensorflow")
CUDNN = (*COMPILED, "2026-torch")  # those to which Keras hands an LSTM or a GRU that is one kernel of cuDNN
LAYER = "cudnn"  # no stack: a recurrent layer by itself, as others timed it
FIXED = tuple(name for name, term in TERMS.items() if term.every_batch)  # what a batch pays however full it is
USUAL, KEEPS = "glibc", "tcmalloc"  # the usual allocator, and one that keeps the memory that it has had
Array = NDArray[np.float64]
Solve = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Rates:
    """What a device reaches at best: float32 operations of a large product, and bytes read and written, a second."""

    flops: float
    bytes: float

    @property
    def least(self) -> dict[str, float]:
        """Seconds of a unit of each term at the least; 1 for a launch and a step, which efficiency factors count in
        seconds.
        """
        each = {"": 1.0, "operations": 1 / self.flops, "bytes": 1 / self.bytes}
        return {name: term.weight * each[term.rate] for name, term in TERMS.items()}


@dataclass(frozen=True)
class Prices:
    """Seconds a unit of each term of the formula (explain.formula.STEP), and how far off they are for a model unseen.

    of: whose they are; seconds: term -> s a launch, an operation, a byte; "overhead": s a step; error: standard
    deviation of the logarithm of measured over predicted; dtype: in which products are computed.
    """

    of: str
    seconds: Mapping[str, float] = field(hash=False)
    error: float
    dtype: str = FLOAT32

    def parts(self, work: Work) -> dict[str, float]:
        """Seconds of a step by term."""
        return {name: self.seconds[name] * float(each) for name, each in zip(TERMS, design([work])[0], strict=True)}

    def step_s(self, work: Work) -> float:
        """Seconds of a step."""
        return sum(self.parts(work).values())


def design(works: Sequence[Work]) -> Array:
    """The formula's terms of each step, shape (steps, terms)."""
    amounts = [term.amount for term in TERMS.values()]
    return np.array([[float(getattr(work, name)) if name else 1.0 for name in amounts] for work in works])


def pays(stack: str) -> Array:
    """1 for each term that the stack pays, 0 for one that others alone do."""
    return np.array([float(not term.stacks or stack in term.stacks) for term in TERMS.values()])


def solve(values: Array, seconds: Array) -> Array:
    """Costs by non-negative least squares in relative error; values: shape (steps, terms), seconds: (steps,).

    Of terms that are in proportion in all these steps the first has the cost of them all and the others none: which
    of them it were otherwise, a processor's rounding would decide.
    """
    # Each term in units of its own largest value: operations and launches are nine orders of magnitude apart.
    scale = np.maximum(values.max(axis=0), 1e-300)
    units = values / scale
    first = np.sort(np.unique(np.round(units, 9), axis=1, return_index=True)[1])
    found = np.zeros(values.shape[1])
    found[first] = nnls(units[:, first] / seconds[:, None], np.ones(len(seconds)))[0]
    return found / scale


def left_out(values: Array, seconds: Array, groups: Sequence[object], solve: Solve = solve) -> Array:
    """Logarithm of measured over predicted for each step, from costs fitted (by solve) to those of all other groups."""
    names = np.array([str(group) for group in groups])
    errors = np.full(len(seconds), np.nan)
    for name in dict.fromkeys(names):
        here = names == name
        predicted = values[here] @ solve(values[~here], seconds[~here])
        errors[here] = np.log(seconds[here] / np.maximum(predicted, 1e-9))
    return errors


def usable(point: Point, allocator: str = USUAL) -> bool:
    """Whether a point is an ordinary step under this allocator: on a CPU, nothing else unusual about how it is run."""
    sizes = point.sizes
    return (
        point.run == Run(allocator=allocator)
        and getattr(sizes, "algorithm", "default") == "default"
        and sizes.optimizer not in BY_ROW
        and getattr(sizes, "accumulated", 1) == 1
    )


def own_rates(machine: str, root: Path = paths.MEASUREMENTS) -> Rates:
    """What a measured machine reaches itself: the median of all its sweeps, or the rates in its description.

    Raises InputError where nobody measured it.
    """
    times = rated(root / machine)
    if not times:
        remedy = "Run `traintime sweep` on that machine: it measures them first."
        raise InputError("machine", machine, "has no rates of its own", remedy)
    middle = {name: float(np.median([each[name] for each in times])) for name in RATES}
    return Rates(middle["matmul_flop_per_s"], middle["bandwidth_bytes_per_s"])


def derive() -> pd.DataFrame:
    """Efficiency factors of every stack that has enough points under an allocator, a row for each term.

    Columns: stack, allocator, term; habit: seconds of a step and a launch, else times the least possible; points,
    workloads, machines: what it was fitted to. Errors, each a root mean square of the logarithm of measured over
    predicted: error, of points that were left out; kinds, of whole workloads that were, each counted once however many
    points it has; elsewhere, of machines that were; repeat: of measuring again. Missing where there is nothing to
    leave out.
    """
    steps, repeats = [], {}
    for machine in sorted(path.name for path in paths.MEASUREMENTS.iterdir() if (path / "rates.json").exists()):
        least = np.array(list(own_rates(machine).least.values()))
        for (_, stack), spread in points.pooled_spreads(points.counted(table(paths.MEASUREMENTS, machine))).items():
            repeats.setdefault(stack, []).append(spread)
        for path in records.files(paths.MEASUREMENTS, machine):
            if records.is_sentinel(path):
                continue
            record = records.read(path)
            allocator = record.point.run.allocator
            if allocator not in (USUAL, KEEPS) or not usable(record.point, allocator):
                continue
            ended = [one for one in record.invocations if one.status == "ok" and not one.disturbed]
            if timings := [one.result.timing for one in ended if one.result]:
                means = [np.mean(timing.steps_ns[timing.warmup :]) / 1e9 for timing in timings]
                values = design([record.point.work])[0] * least * pays(record.stack)
                whose = record.stack, allocator
                steps.append((whose, machine, record.point.workload, values, float(np.mean(means))))
    rows = []
    for stack, allocator in sorted({each[0] for each in steps}):
        these = [each for each in steps if each[0] == (stack, allocator)]
        _, machines, workloads, values, seconds = map(list, zip(*these, strict=True))
        if len(seconds) < FEWEST:
            continue
        terms, measured = np.array(values), np.array(seconds)
        degrees = sum(spread.degrees for spread in repeats[stack])
        about = {
            "points": len(seconds),
            "workloads": " ".join(sorted(set(workloads))),
            "machines": len(set(machines)),
            "error": rms(left_out(terms, measured, range(len(seconds)))),
            "kinds": _of_kinds(terms, measured, workloads),
            "elsewhere": rms(elsewhere(terms, measured, machines, workloads)),
            "repeat": np.sqrt(sum(each.degrees * each.sd**2 for each in repeats[stack] if each.degrees) / degrees),
        }
        rows += [
            {"stack": stack, "allocator": allocator, "term": term, "habit": habit} | about
            for term, habit in zip(TERMS, solve(terms, measured), strict=True)
        ]
    return pd.DataFrame(rows)


def _of_kinds(values: Array, seconds: Array, workloads: list[str]) -> float:
    """Root mean square over the kinds of what each is missed by when it is left out: another kind is one more of them,
    not one more point. NaN where efficiency factors cannot be fitted without any one of them: of fewer than three
    kinds, or with too few points of the others.
    """
    if len(set(workloads)) < 3 or len(workloads) - max(map(workloads.count, workloads)) < FEWEST:
        return np.nan
    errors = pd.Series(left_out(values, seconds, workloads))
    return rms(errors.groupby(workloads).agg(rms).to_numpy())


def elsewhere(values: Array, seconds: Array, machines: list[str], workloads: list[str]) -> Array:
    """As left_out by machine, for the steps whose workload another machine has trained too."""
    trained = {(machine, workload) for machine, workload in zip(machines, workloads, strict=True)}
    known = [
        any((other, workload) in trained for other in set(machines) - {machine})
        for machine, workload in zip(machines, workloads, strict=True)
    ]
    # A machine whose others trained less than it did would be left with habits that nothing has determined.
    most = max(sorted(set(machines)), key=lambda machine: sum(name == machine for name, _ in trained))
    chosen = np.array(known) & (np.array(machines) != most)
    return left_out(values, seconds, machines)[chosen] if chosen.any() else np.empty(0)


def rms(errors: Array) -> float:
    """Root mean square; NaN of nothing."""
    return float(np.sqrt(np.mean(np.square(errors)))) if len(errors) else np.nan


@functools.cache
def habits(allocator: str = USUAL) -> pd.DataFrame:
    """The derived table of the efficiency factors under an allocator, by stack and term."""
    rows = pd.read_csv(paths.DERIVED / "habits.csv")
    return rows[rows["allocator"] == allocator].drop(columns="allocator").set_index(["stack", "term"])


def known(allocator: str = USUAL) -> list[str]:
    """The stacks whose efficiency factors under this allocator are known."""
    return list(habits(allocator).index.get_level_values("stack").unique())


def of_rates(name: str, rates: Rates, stack: str, allocator: str = USUAL) -> Prices:
    """Costs of a device of which its rates are known: the stack's efficiency factors there.

    Its error is the largest of three: of points, of kinds of models, and of machines that the efficiency factors have
    not seen; where a stack was tried on too few kinds or machines to tell, its own under the usual allocator, or else
    the other stacks' median. Raises InputError for a stack that was never measured, or not under this allocator.
    """
    if stack not in known():
        raise unknown("stack", stack, known())
    if stack not in known(allocator):
        remedy = f"It is known of: {', '.join(known(allocator))}." if known(allocator) else f"Take {USUAL} or {KEEPS}."
        raise InputError("allocator", allocator, f"was not measured with {stack}", remedy)
    least, (habit, error) = rates.least, _habit(stack, allocator)
    seconds = {term: habit[term] * least[term] for term in TERMS}
    under = "" if allocator == USUAL else f" under {allocator}"
    return Prices(f"{stack} on {name}{under}", seconds, error)


@functools.cache
def _habit(stack: str, allocator: str) -> tuple[dict[str, float], float]:
    """A stack's efficiency factors by term, and the error of its costs (see of_rates)."""
    rows, usual = habits(allocator), habits().groupby("stack")[ERRORS].first()
    errors = rows.groupby("stack")[ERRORS].first().loc[stack]
    own = errors.fillna(usual.loc[stack]).fillna(usual.median())
    return rows.loc[stack]["habit"].astype(float).to_dict(), float(own.max())


@functools.cache
def sheets() -> pd.DataFrame:
    """What data sheets say of devices that were not measured (data/external/hardware.csv)."""
    return pd.read_csv(paths.EXTERNAL / "hardware.csv")


def sheet(device: str) -> "pd.Series[float]":
    """The figures of one device by name: FLOP/s, byte/s, bytes."""
    rows = sheets()
    return rows[rows["device"] == device].set_index("name")["value"].astype(float)


def devices(name: str) -> list[str]:
    """The devices with a data sheet that a name means: the one of this name, else all whose names begin with it
    ("h2": H200-SXM; "a100": three). Raises InputError where there is none.
    """
    known = sorted(sheets()["device"].unique(), key=str.lower)
    meant = [device for device in known if device.lower() == name.lower()]
    meant = meant or [device for device in known if name and device.lower().startswith(name.lower())]
    if not meant:
        raise unknown("device", name, known)
    return meant


def one_device(name: str) -> str:
    """The one device with a data sheet that a name means. Raises InputError where there is none, or several."""
    first, *others = devices(name)
    if others:
        remedy = "Name one of them; by a model's sizes, traintime estimate --on answers for each."
        raise InputError("device", name, f"may be {', '.join([first, *others[:-1]])} or {others[-1]}", remedy)
    return first


def is_card(device: str) -> bool:
    """Whether a device with a data sheet is a card, with memory of its own. Raises InputError for an unknown one."""
    return bool((sheets().set_index("device").loc[[one_device(device)], "kind"] == "card").all())


def factors_of(stack: str, kernel: str) -> dict[str, str]:
    """Which of FACTORS each term costs on a card; a term that is not named costs nothing there.

    What is compiled updates each parameter in one pass; else each operation of the update is a pass of its own.
    """
    compiled = stack == "2026-jax" or (stack == "2026-tensorflow" and kernel != "cudnn")
    launch = "cudnn" if kernel == "cudnn" else "compiled" if compiled else "launch"
    update = "update" if compiled else "elementwise"
    costs = {"launch": launch, "matmul": "operations", "move": "bytes", update: "bytes", "touch": "activations"}
    return costs if stack == LAYER else {"overhead": "step"} | costs


def computes_in_tf32(stack: str, kernel: str) -> bool:
    """Whether a stack's float32 products are computed in TF32 by a card that can.

    By default TensorFlow's are (tf.config.experimental.enable_tensor_float_32_execution), and JAX's (its page "Matmul
    precision"); of torch's those of cuDNN (torch.backends.cudnn.allow_tf32), and not the matmuls, since 1.12
    (torch.backends.cuda.matmul.allow_tf32).
    """
    return stack in COMPILED or (stack == "2026-torch" and kernel in ("convolution", "cudnn"))


@functools.cache
def unit_costs(device: str, stack: str, kernel: str) -> Array:
    """What a unit of each term takes on a card for a unit of each factor, s: shape (FACTORS, terms)."""
    figures = sheet(device)
    peak = figures["float32 peak"]
    if computes_in_tf32(stack, kernel):
        peak = figures.get("TF32 peak", peak)
    least, found = Rates(peak, figures["bandwidth peak"]).least, np.zeros((len(FACTORS), len(TERMS)))
    for term, factor in factors_of(stack, kernel).items():
        found[FACTORS.index(factor), list(TERMS).index(term)] = least[term]
    return found


def kernel_of(stack: str, work: Work, convolutions: bool = False) -> str:
    """What computes most of a model's products on a card: "matmul", "convolution", "cudnn" (a recurrent layer as one
    kernel of cuDNN) or "loop" (its time steps one after the other). convolutions: whether most are.
    """
    if work.recurrent_bytes:
        # What Keras reads slice by slice is what it may hand to cuDNN: an LSTM or a GRU without a mask.
        return "cudnn" if stack in CUDNN and work.slice_bytes else "loop"
    return "convolution" if convolutions else "matmul"


@functools.cache
def published(device: str, stack: str, kernel: str = "matmul") -> Prices:
    """Costs from a device's data sheet: on a processor with the stack's efficiency factors, on a card with the costs
    that fit what others timed on cards. kernel: what computes the model's products on a card (kernel_of).

    Raises InputError for a device without a data sheet, and for a stack that was never measured.
    """
    if not is_card(device):
        figures = sheet(device)
        rates = Rates(*(float(figures[name]) * share for name, share in REACHED.items()))
        return replace(of_rates(device, rates, stack), of=f"{stack} on {device}")
    if stack not in known():
        raise unknown("stack", stack, known())
    seconds = card_costs()[list(FACTORS)].to_numpy() @ unit_costs(device, stack, kernel)
    return Prices(f"{stack} on {device}", dict(zip(TERMS, seconds.tolist(), strict=True)), on_cards())


@functools.cache
def card_costs() -> "pd.Series[float]":
    """FACTORS as predict.cards fitted them, and "error" (on_cards)."""
    return pd.read_csv(paths.DERIVED / "card-costs.csv").set_index("factor")["value"]


def on_cards() -> float:
    """How far costs on cards missed the cards and sources that they were not fitted to: the standard deviation of a
    logarithm whose interval has nine tenths of them.
    """
    return float(card_costs()["error"])


if __name__ == "__main__":
    derived.write("habits", derive())
