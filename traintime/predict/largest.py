"""The largest batch, length or table that fits into an amount of memory, by the formula; tried by a step if wanted."""

import functools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from traintime.errors import InputError, unknown
from traintime.explain.statistics import Interval
from traintime.measuring import machine
from traintime.point import Point, make_point
from traintime.predict import here, prices, resident
from traintime.predict.answer import LEVEL, SURE, amount, amounts, around, bytes_of
from traintime.predict.prices import Rates
from traintime.predict.probe import Trainer
from traintime.predict.request import ModelDescription, Request, is_module, samples_of
from traintime.predict.tiers import formula_evidence
from traintime.workloads.base import Work

FIELDS = {"batch": "batch", "length": "length", "rows": "vocabulary"}  # what is asked for -> a point's field
SAMPLES = 1_000_000
MOST = 2**40  # beyond which nobody asks
ANY_RATES = Rates(1.0, 1.0)  # memory does not depend on how fast a machine is
BATCHES = (8, 16)  # at which a module is looked at
Describe = Callable[[int], tuple[ModelDescription, int]]  # a size -> the model's work, and its batch
TRIALS, NEAR = 8, 0.05  # sizes that are tried at most; of a size, near enough to the first that does not fit
STEPS = 2  # that are tried: the first makes the optimizer's state, the second has it from its start


@dataclass(frozen=True)
class Tried:
    """What a size took when it was trained for a step, the samples of an epoch with it: bytes; None where it was not
    tried, since it may need more than this machine has.
    """

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
    samples: int | None = None,
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
    trained: data, and of a module loss and optimizer, as `traintime.estimate` takes them. Raises InputError for
    anything else.
    """
    if of not in FIELDS:
        raise unknown("of", of, list(FIELDS))
    if unknown_names := sorted(set(trained) - {"data", "loss", "optimizer"}):
        raise unknown("argument", unknown_names[0], ["data", "loss", "optimizer"])
    limit, samples = bytes_of(memory), samples or samples_of(trained.get("data")) or SAMPLES
    device = None if device is None else prices.one_device(device)
    if verify and (device is not None or isinstance(model, Point)):
        problem = "a card that is not here" if device else "a point's sizes"
        raise InputError("verify", verify, f"cannot train on {problem}", "Leave it out, or give the model itself.")
    trainer = _trainer(model, trained, of) if is_module(model) else None
    describe, most = _described(model, of, batch_size, trainer)
    if of == "batch":
        most = min(most, samples)

    @functools.cache
    def peak(number: int) -> Interval:
        description, batch = describe(number)
        request = Request(samples=max(samples, batch), batch=batch, level=level)
        evidence = formula_evidence(request, description, device, ANY_RATES)
        assert evidence.peak_bytes is not None
        return around(evidence.peak_bytes, (evidence.peak_error, SURE), level=level)

    surely = _last(lambda number: peak(number).high <= limit, most)
    likely = _last(lambda number: peak(number).value <= limit, most)
    tried: dict[int, Tried] = {}
    number = max(surely, 1)
    with here.shown():
        while verify and number not in tried and len(tried) < TRIALS:
            tried[number] = _tried(number, peak(number), trained, model, of, batch_size, samples)
            number = _next(tried, limit, likely + 1, most)
    return Largest(of, surely, likely, peak(max(surely, 1)), limit, level, tuple(tried[one] for one in sorted(tried)))


def _next(tried: dict[int, Tried], limit: int, likely: int, most: int) -> int:
    """The size to try next, between the largest that fits and the first that does not; the former where it is known."""
    fits = [number for number, one in tried.items() if one.fits(limit)]
    low, high = max(fits, default=0), min(set(tried) - set(fits), default=0)
    if not high:
        return min(max(likely, 2 * low), most)
    return low if low and high - low <= NEAR * low else max(round(math.sqrt(low * high)), high // 4, 1)


def _trainer(model: Any, trained: dict[str, Any], of: str, length: int | None = None) -> Trainer:
    """What trains the model; length: of its inputs, where that is asked for."""
    data = trained.get("data")
    found: Any
    if is_module(model):
        from traintime.predict.torch_trainer import TorchTrainer

        if of != "batch":
            raise InputError("of", of, "is not told by a module", "Ask for the batch.")
        found = TorchTrainer(model, trained.get("loss"), trained.get("optimizer"), data)
    else:
        from traintime.predict.keras_trainer import KerasTrainer

        found = KerasTrainer(model, data, length)
    if found.own_batches:
        raise InputError("data", type(data).__name__, "has batches of its own size", "Give arrays, data=(x, y).")
    return found


def _tried(
    number: int, peak: Interval, trained: dict[str, Any], model: Any, of: str, batch: int | None, samples: int
) -> Tried:
    """A size, trained for STEPS steps where this machine has room for it."""
    if peak.high > machine.free_memory() + resident.now():
        return Tried(number, None)
    trainer = _trainer(model, trained, of, number if of == "length" else None)
    size = number if of == "batch" else batch
    assert size is not None
    with trainer.restored():
        trainer.forget_peak()
        trainer.train(size, 1, STEPS)
        held = trainer.peak_bytes()
    assert held is not None
    return Tried(number, held + trainer.array_bytes(max(samples - size, 0)) - trainer.own_bytes)


def _described(model: Any, of: str, batch: int | None, trainer: Trainer | None) -> tuple[Describe, int]:
    """What gives the model's work and batch at a size, and the largest size to try."""
    if isinstance(model, Point):
        field = FIELDS[of]
        if field not in model.fields:
            raise InputError("of", of, f"is no size of {model.workload}", "Ask for the batch.")
        given = {name: value for name, value in model.fields.items() if value is not None and name != field}

        def of_point(number: int) -> tuple[ModelDescription, int]:
            point = make_point(**given | {field: number})
            return ModelDescription.from_point(point), point.sizes.batch

        return of_point, MOST
    if of == "rows":
        raise InputError("of", of, "is what the model's layers say", "Ask for the batch, or by sizes (make_point).")
    if is_module(model):
        return _of_module(trainer), MOST
    if of == "length":
        if batch is None:
            raise InputError("batch_size", batch, "is needed to ask for the length", "Give batch_size=32, say.")
        return lambda number: (ModelDescription.from_model(model, batch, length=number), batch), MOST
    return lambda number: (ModelDescription.from_model(model, number), number), MOST


def _of_module(trainer: Trainer | None) -> Describe:
    """A module's work at any batch: each count is what its parameters make of it and so much for each sample, which two
    batches tell.
    """
    small, large = (ModelDescription.from_module(trainer, batch) for batch in BATCHES)

    def of_batch(number: int) -> tuple[ModelDescription, int]:
        place = (number - BATCHES[0]) / (BATCHES[1] - BATCHES[0])
        counts = {
            name: round(one + place * (getattr(large.work, name) - one)) for name, one in vars(small.work).items()
        }
        tokens = min(round(small.tokens + place * (large.tokens - small.tokens)), small.table)
        return replace(small, work=Work(**counts), tokens=tokens), number

    return of_batch


def _last(fits: Callable[[int], bool], most: int) -> int:
    """The largest number from 1 to `most` that fits, where all below it do; 0 for none."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
