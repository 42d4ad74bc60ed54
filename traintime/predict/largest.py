"""The largest batch, length or table that fits into an amount of memory, by the formula; tried by a step if wanted.
And what each part of a model holds.
"""

import bisect
import functools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd

from traintime.errors import InputError, unknown
from traintime.explain.statistics import Interval
from traintime.measuring import machine
from traintime.point import Point, make_point
from traintime.predict import costs, process
from traintime.predict.answer import LEVEL, SURE, amount, amounts, around, bytes_of
from traintime.predict.costs import Rates
from traintime.predict.estimate import trainer_of
from traintime.predict.evidence import formula_evidence
from traintime.predict.request import ModelDescription, Request, is_arrays, is_module, samples_of, whole
from traintime.predict.work import optimizers
from traintime.predict.work.graph import ModuleMemory, work
from traintime.workloads.base import FLOAT, Work

FIELDS = {"batch": "batch", "length": "length", "rows": "vocabulary"}  # what is asked for -> a point's field
SAMPLES = 1_000_000
MOST = 2**40  # beyond which nobody asks
ANY_RATES = Rates(1.0, 1.0)  # memory does not depend on how fast a machine is
BATCHES = (8, 16)  # at which a module is looked at
TRIALS, NEAR = 8, 0.05  # sizes that are tried at most; of a size, near enough to the first that does not fit
STEPS = 2  # that are tried: the first makes the optimizer's state, the second has it from its start


@dataclass(frozen=True)
class Tried:
    """Bytes that a step of this size took, with the samples of an epoch; None for want of room to try it."""

    number: int
    memory: int | None

    def fits(self, limit: int) -> bool:
        """Whether it was tried and kept within so many bytes."""
        return self.memory is not None and self.memory <= limit


@dataclass(frozen=True)
class Largest:
    """How large a training may be.

    of: "batch", "length" or "rows"; surely: the largest of which the whole interval of memory fits, likely: of which
    its middle does, each 0 where not even 1 does; memory: peak at `surely` (at 1 where that is 0), bytes; limit: bytes;
    level: of the interval; tried: sizes that were trained for a step, TRIALS at most, where that was asked for: each
    halves what lies between those that fit and those that do not.
    """

    of: str
    surely: int
    likely: int
    memory: Interval
    limit: int
    level: float
    tried: tuple[Tried, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        fit, beyond = ([one for one in self.tried if one.fits(self.limit) is fits] for fits in (True, False))
        tried = "".join(f"\n{one.number:,} took {amount(one.memory)}: too much" for one in beyond[:1] if one.memory)
        if fit:
            took = amount(fit[-1].memory or 0)
            return f"largest {self.of}  {fit[-1].number:,}, which was tried and took {took}{tried}"
        held, limit = amounts(self.memory), amount(self.limit)
        told = f"largest {self.of}  {self.surely:,} surely ({held} of {limit}); likely up to {self.likely:,}"
        if not self.surely:
            told = f"no {self.of} fits surely: 1 takes {held}, and there are {limit}"
        if self.tried and not tried:
            tried = "\nnothing was tried: it may need more memory than is free here"
        return f"{told}{tried}\n({self.level:.0%} intervals, by the formula)"


def largest(
    model: Any,
    of: str = "batch",
    *,
    memory: str | float,
    samples: float | None = None,
    batch_size: int | None = None,
    device: str | None = None,
    level: float = LEVEL,
    verify: bool = False,
    **trained: Any,
) -> Largest:
    """The largest batch, length or number of rows with which the training of a model fits into memory.

    model: a Keras 3 model, built or not, of which the batch can be asked, and the length where its inputs leave one
    open; a PyTorch module, of which the batch can be asked; or a Point of the book's workloads. of: "batch", "length"
    or "rows" (of an embedding table). memory: "16GB", or bytes, of the whole process; of the card where device names
    one with a data sheet. samples: of an epoch, which `fit` holds: those of the data, or SAMPLES; a batch is not
    larger. batch_size: samples a step, where a Keras model's length is asked. verify: whether the model is trained for
    a step at what is found and, by halving, at sizes up to the first that does not fit; it is afterwards as it was.
    trained: data, loss and optimizer, as `traintime.estimate` takes them. Raises InputError for anything else.
    """
    if of not in FIELDS:
        remedy = f"Choose one of: {', '.join(FIELDS)}. A model is asked about in Python: traintime.largest(model, …)."
        raise InputError("of", of, "is no size that can grow", remedy)
    if unknown_names := sorted(set(trained) - {"data", "loss", "optimizer"}):
        raise unknown("argument", unknown_names[0], ["data", "loss", "optimizer"])
    limit, device = bytes_of(memory), None if device is None else costs.one_device(device)
    if verify and (device is not None or isinstance(model, Point)):
        problem = "a card that is not here" if device else "a point's sizes"
        raise InputError("verify", verify, f"cannot train on {problem}", "Leave it out, or give the model itself.")
    _refuse_size(model, of, batch_size)
    data = trained.get("data")
    if samples is None and not (is_module(model) and is_arrays(data)):  # which may be an example of a few
        samples = samples_of(data)
    samples = SAMPLES if samples is None else samples
    request = Request(samples, 1, level=level, device=device, **trained)
    of_module = _of_module(_trainer(request, model)) if is_module(model) else None

    def at_size(number: int) -> tuple[Request, Any]:
        """The request and the model."""
        sized, batch, length = model, number if of == "batch" else batch_size, number if of == "length" else None
        if isinstance(model, Point):
            given = {name: value for name, value in model.fields.items() if value is not None}
            sized = make_point(**given | {FIELDS[of]: number})
            batch = sized.sizes.batch
        return replace(request, samples=max(request.samples, batch), batch=batch, length=length), sized

    @functools.cache
    def peak(number: int) -> Interval:
        asked, sized = at_size(number)
        if of_module:
            work = of_module(number)
        elif isinstance(sized, Point):
            work = ModelDescription.from_point(sized)
        else:
            work = ModelDescription.from_model(sized, asked.batch, asked.optimizer, asked.length)
        evidence = formula_evidence(asked, work, ANY_RATES)
        assert evidence.peak_bytes is not None
        return around(evidence.peak_bytes, (evidence.peak_error, SURE), level=level)

    most = request.samples if of == "batch" else MOST
    surely = _last(lambda number: peak(number).high <= limit, most)
    likely = _last(lambda number: peak(number).value <= limit, most)
    tried: dict[int, Tried] = {}
    number = max(surely, 1)
    with process.shown():
        while verify and number not in tried and len(tried) < TRIALS:
            tried[number] = Tried(number, _tried_bytes(*at_size(number), peak(number)))
            number = _next(tried, limit, likely + 1, most)
    return Largest(of, surely, likely, peak(max(surely, 1)), limit, level, tuple(tried[one] for one in sorted(tried)))


def _refuse_size(model: Any, of: str, batch_size: int | None) -> None:
    """Raise InputError where this size cannot be asked of the model."""
    if isinstance(model, Point):
        if FIELDS[of] not in model.fields:
            raise InputError("of", of, f"is no size of {model.workload}", "Ask for the batch.")
    elif is_module(model) and of != "batch":
        raise InputError("of", of, "is not told by a module", "Ask for the batch.")
    elif of == "rows":
        raise InputError("of", of, "is what the model's layers say", "Ask for the batch, or by sizes (make_point).")
    elif of == "length" and batch_size is None:
        raise InputError("batch_size", batch_size, "is needed to ask for the length", "Give batch_size=32, say.")


def _trainer(request: Request, model: Any) -> Any:
    """What trains the model. Raises InputError for data whose batches have a size of their own."""
    trainer = trainer_of(request, model)
    if is_module(model):
        return trainer.of_a_batch()
    if trainer.own_batches:
        kind = type(request.data).__name__
        raise InputError("data", kind, "has batches of its own size", "Give arrays, data=(x, y).")
    return trainer


def _tried_bytes(request: Request, model: Any, peak: Interval) -> int | None:
    """What a training with the samples of an epoch took, by STEPS steps; None where this machine may have no room."""
    if peak.high > machine.free_memory() + process.now():
        return None
    trainer = _trainer(request, model)
    with trainer.restored():
        trainer.forget_peak()
        trainer.train(request.batch, 1, STEPS)
        held = trainer.peak_bytes()
    return held + trainer.array_bytes(request.samples - request.batch) - trainer.own_bytes


def _next(tried: dict[int, Tried], limit: int, likely: int, most: int) -> int:
    """The size to try next, between the largest that fits and the first that does not; the former where it is known."""
    fits = [number for number, one in tried.items() if one.fits(limit)]
    low, high = max(fits, default=0), min(set(tried) - set(fits), default=0)
    if not high:
        return min(max(likely, 2 * low), most)
    return low if low and high - low <= NEAR * low else max(round(math.sqrt(low * high)), high // 4, 1)


def _of_module(trainer: Any) -> Callable[[int], ModelDescription]:
    """A module's work at any batch: counts on the line through two batches, what is held through two that are near."""

    @functools.cache
    def followed(batch: int) -> ModelDescription:
        return ModelDescription.from_module(trainer, batch)

    def of_batch(number: int) -> ModelDescription:
        batches = [each << max((number // BATCHES[1]).bit_length() - 1, 0) for each in BATCHES]
        small, large = map(followed, batches)
        place = (number - batches[0]) / (batches[1] - batches[0])
        counts = {
            name: round(one + place * (getattr(large.work, name) - one)) for name, one in vars(small.work).items()
        }
        tokens = min(round(small.tokens + place * (large.tokens - small.tokens)), small.table)
        held = tuple(one + place * (other - one) for one, other in zip(small.held, large.held, strict=True))
        return replace(small, work=Work(**counts), tokens=tokens).holding(held)

    return of_batch


def _last(fits: Callable[[int], bool], most: int) -> int:
    """The largest number from 1 to `most` that fits, where all below it do; 0 for none."""
    high = 1
    while high <= most and fits(high):
        high *= 2
    return bisect.bisect_left(range(1, min(high, most + 1)), True, key=lambda number: not fits(number))


def module_memory(
    model: Any,
    *,
    optimizer: Any = None,
    data: Any = None,
    loss: Any = None,
    batch_size: int = 32,
    length: int | None = None,
    depth: int | None = None,
) -> pd.DataFrame:
    """What each module of a PyTorch model, or layer of a Keras 3 model, holds in a training step, bytes: a row each.

    Columns: kind (its class), calls (of a step), parameters, gradients, state (the optimizer's), saved (activations
    that the backward pass needs), total; each number counted once. Nothing is computed, so that a batch may be asked
    about which does not fit; but a forward pass of two samples, where a module's way depends on its numbers.
    optimizer, data, loss, length: as `traintime.estimate` takes them; batch_size: samples a step, of arrays; depth:
    modules that lie deeper count for the one at this depth ("encoder.layers" is at 2, as "encoder/dense" of Keras),
    None for each by itself. Not counted: what operations need for a moment, and the framework itself.
    Raises InputError as `estimate` does, and where the model cannot be followed without numbers.
    """
    batch_size = whole("batch_size", batch_size)
    if is_module(model):
        from traintime.predict.work.torch import step_work  # loads torch

        request = Request(batch_size, batch_size, data=data, loss=loss, optimizer=optimizer)
        apart, rows = ".", step_work(trainer_of(request, model), batch_size).layers
    else:
        layers = work(model, batch_size, optimizer, length=length).layers
        apart, rows, slots = "/", [], optimizers.of(optimizer or model.optimizer).slots
        for one in layers:
            gradients = FLOAT * one.work.trained
            held = FLOAT * one.work.parameters, gradients, gradients * slots, one.work.activation_bytes
            rows.append(ModuleMemory(one.name, one.kind, one.calls, *held))
    table = pd.DataFrame(map(vars, rows)).set_index("name")
    table["total"] = table[["parameters", "gradients", "state", "saved"]].sum(axis=1)
    if depth is not None:
        above = [apart.join(name.split(apart)[: whole("depth", depth)]) for name in table.index]
        table = table.groupby(above, sort=False).agg(dict.fromkeys(table, "sum") | {"kind": "first", "calls": "first"})
    return table[table["total"] > 0]
