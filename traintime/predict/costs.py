"""What a unit of work costs: a launch, an operation, a byte, in seconds; a stack's efficiency factors at a device's own
rates.

A stack's efficiency factor is how many times the least possible time an operation or a byte takes it, which follows
from what the device reaches at best (Rates). Under an allocator that gives large blocks back (glibc) a byte also costs
the page faults of fresh pages; under one that keeps them (tcmalloc) it does not, nor on a card. Processors' factors are
fitted to the stored measurements (predict.fits), cards' costs to what others timed on cards (predict.cards).
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from traintime import paths
from traintime.errors import InputError, unknown
from traintime.explain.least_squares import Array
from traintime.explain.terms import TERMS
from traintime.measuring.machine import pooled_rates, rated
from traintime.point import Point, Run
from traintime.store import derived
from traintime.workloads.base import BY_ROW, Work

ERRORS = ["error", "kinds", "elsewhere"]
FEWEST = 12  # points that a stack's efficiencies may be fitted to
# Of a published peak, what programs are taken to reach where nobody measured it. Bandwidth: a K40m's 203 of 288 GB/s
# (data/external/hardware.csv). Operations: large square products come near the peak on every device.
REACHED = {"float32 peak": 0.8, "bandwidth peak": 0.7}
# On a card: seconds of a step and a launch (of an operation by itself, in a compiled step, of a time step of cuDNN's);
# operations, bytes and activations in times what the data sheet's peaks allow at the least. Fitted by predict.cards.
FACTORS = ("step", "launch", "compiled", "cudnn", "operations", "bytes", "activations")
# Keras compiles a whole step with XLA (jit_compile="auto"), but none with a recurrent layer in cuDNN on TensorFlow
# (layers/rnn/lstm.py: supports_jit).
COMPILED = ("2026-jax", "2026-tensorflow")
CUDNN = (*COMPILED, "2026-torch")  # those to which Keras hands an LSTM or a GRU that is one kernel of cuDNN
LAYER = "cudnn"  # no stack: a recurrent layer by itself, as others timed it
FIXED = tuple(name for name, term in TERMS.items() if term.every_batch)  # what a batch pays however full it is
USUAL, KEEPS = "glibc", "tcmalloc"  # the usual allocator, and one that keeps the memory that it has had


@dataclass(frozen=True)
class Rates:
    """What a device reaches at best: float32 operations of a large product, and bytes read and written, a second."""

    flops: float
    bytes: float

    @property
    def least(self) -> dict[str, float]:
        """Seconds of a unit of each term at the least; 1 for a launch and a step, whose factors are in seconds."""
        each = {"": 1.0, "operations": 1 / self.flops, "bytes": 1 / self.bytes}
        return {name: term.weight * each[term.rate] for name, term in TERMS.items()}


@dataclass(frozen=True)
class Costs:
    """Seconds a unit of each term of the formula (explain.formula.STEP). of: whose they are; seconds: by term, s a
    launch, an operation, a byte; error: standard deviation of log(measured / predicted) for a model unseen.
    """

    of: str
    seconds: Mapping[str, float] = field(hash=False)
    error: float

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


def usable(point: Point, allocator: str = USUAL) -> bool:
    """Whether a point is an ordinary step under this allocator: on a CPU, nothing else unusual about how it is run."""
    sizes = point.sizes
    return (
        point.run == Run(allocator=allocator)
        and getattr(sizes, "algorithm", "default") == "default"
        and sizes.optimizer not in BY_ROW
        and getattr(sizes, "accumulated", 1) == 1
    )


def own_rates(machine: str) -> Rates:
    """What a measured machine reaches itself, the median of all its sweeps. Raises InputError where there is none."""
    times = rated(paths.MEASUREMENTS / machine)
    if not times:
        remedy = "Run `traintime sweep` on that machine: it measures them first."
        raise InputError("machine", machine, "has no rates of its own", remedy)
    reached = pooled_rates(times)
    return Rates(reached["matmul_flop_per_s"], reached["bandwidth_bytes_per_s"])


def rms(errors: Array) -> float:
    """Root mean square; NaN of nothing."""
    return float(np.sqrt(np.mean(np.square(errors)))) if len(errors) else np.nan


@functools.cache
def efficiencies(allocator: str = USUAL) -> pd.DataFrame:
    """The derived table of the efficiency factors under an allocator, by stack and term."""
    rows = derived.read("efficiencies")
    return rows[rows["allocator"] == allocator].drop(columns="allocator").set_index(["stack", "term"])


def known(allocator: str = USUAL) -> list[str]:
    """The stacks whose efficiency factors under this allocator are known."""
    return list(efficiencies(allocator).index.get_level_values("stack").unique())


def repeat(stack: str) -> float:
    """Run-to-run error of a stack, standard deviation of a logarithm; the largest of all where it is not known."""
    each = efficiencies()["repeat"].groupby("stack").first()
    return float(each.get(stack, each.max()))


@functools.cache
def of_rates(name: str, rates: Rates, stack: str, allocator: str = USUAL) -> Costs:
    """Costs of a device of which its rates are known: the stack's efficiency factors there.

    Its error is the largest of three: of points, of kinds of models, and of machines left out; where too few were
    tried, the stack's own under the usual allocator, or else the other stacks' median. Raises InputError for a stack
    that was never measured, or not under this allocator.
    """
    if stack not in known():
        raise unknown("stack", stack, known())
    if stack not in known(allocator):
        remedy = f"It is known of: {', '.join(known(allocator))}." if known(allocator) else f"Take {USUAL} or {KEEPS}."
        raise InputError("allocator", allocator, f"was not measured with {stack}", remedy)
    rows, usual = efficiencies(allocator).loc[stack], efficiencies().groupby("stack")[ERRORS].first()
    error = rows[ERRORS].iloc[0].fillna(usual.loc[stack]).fillna(usual.median()).max()
    under = "" if allocator == USUAL else f" under {allocator}"
    seconds = {term: float(rows["efficiency"][term]) * least for term, least in rates.least.items()}
    return Costs(f"{stack} on {name}{under}", seconds, float(error))


@functools.cache
def sheets() -> pd.DataFrame:
    """What data sheets say of devices that were not measured (data/external/hardware.csv)."""
    return pd.read_csv(paths.EXTERNAL / "hardware.csv")


def sheet(device: str) -> "pd.Series[float]":
    """The figures of one device by name: FLOP/s, byte/s, bytes."""
    rows = sheets()
    return rows[rows["device"] == device].set_index("name")["value"].astype(float)


def one_device(name: str) -> str:
    """The device with this name, or the only one that begins with it ("h2": H200-SXM). Raises InputError for others."""
    known = sorted(sheets()["device"].unique(), key=str.lower)
    meant = [device for device in known if device.lower() == name.lower()]
    meant = meant or [device for device in known if name and device.lower().startswith(name.lower())]
    if not meant:
        raise unknown("device", name, known)
    if len(meant) > 1:
        problem = f"may be {', '.join(meant[:-1])} or {meant[-1]}"
        raise InputError("device", name, problem, "Name one of them.")
    return meant[0]


def is_card(device: str) -> bool:
    """Whether a device with a data sheet is a card, with memory of its own. Raises InputError for an unknown one."""
    return bool((sheets().set_index("device").loc[[one_device(device)], "kind"] == "card").all())


@functools.cache
def on_card(device: str, stack: str, kernel: str) -> dict[str, tuple[str, float]]:
    """For each term that costs something on a card: which of FACTORS, and seconds of a unit of it at the least.

    What is compiled updates each parameter in one pass; else each operation of the update is a pass of its own. The
    peak is that of TF32 where a card has it and the stack computes so by default: TensorFlow does
    (tf.config.experimental.enable_tensor_float_32_execution), and JAX (its page "Matmul precision"), and torch for
    products of cuDNN (torch.backends.cudnn.allow_tf32), not for matmuls (torch.backends.cuda.matmul.allow_tf32).
    """
    compiled = stack == "2026-jax" or (stack == "2026-tensorflow" and kernel != "cudnn")
    launch = "cudnn" if kernel == "cudnn" else "compiled" if compiled else "launch"
    update = "update" if compiled else "elementwise"
    costs = {"launch": launch, "matmul": "operations", "move": "bytes", update: "bytes", "touch": "activations"}
    if stack != LAYER:
        costs = {"overhead": "step"} | costs
    figures = sheet(device)
    tf32 = stack in COMPILED or (stack == "2026-torch" and kernel in ("convolution", "cudnn"))
    peak = "TF32 peak" if tf32 and "TF32 peak" in figures else "float32 peak"
    least = Rates(float(figures[peak]), float(figures["bandwidth peak"])).least
    return {term: (factor, least[term]) for term, factor in costs.items()}


def kernel_of(stack: str, work: Work, convolutions: bool = False) -> str:
    """What computes most of a model's products on a card: "matmul", "convolution", "cudnn" (a recurrent layer as one
    kernel of cuDNN) or "loop" (its time steps one after the other).
    """
    if work.recurrent_bytes:
        # What Keras reads slice by slice is what it may hand to cuDNN: an LSTM or a GRU without a mask.
        return "cudnn" if stack in CUDNN and work.slice_bytes else "loop"
    return "convolution" if convolutions else "matmul"


@functools.cache
def published(device: str, stack: str, kernel: str = "matmul") -> Costs:
    """Costs from a device's data sheet: a processor's by the stack's efficiency factors, a card's by the costs that fit
    what others timed on cards. kernel: see kernel_of. Raises InputError for a device or a stack that is not known.
    """
    if not is_card(device):
        figures = sheet(device)
        return of_rates(device, Rates(*(float(figures[name]) * share for name, share in REACHED.items())), stack)
    if stack not in known():
        raise unknown("stack", stack, known())
    costs, terms = derived.read("card-costs", "factor")["value"], on_card(device, stack, kernel)
    seconds = {term: float(costs[factor]) * least for term, (factor, least) in terms.items()}
    return Costs(f"{stack} on {device}", dict.fromkeys(TERMS, 0.0) | seconds, float(costs["error"]))
