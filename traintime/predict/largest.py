"""The largest batch, length or table that fits into an amount of memory, by the formula: nothing is trained."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from traintime.errors import InputError, unknown
from traintime.explain.statistics import Interval
from traintime.point import Point, make_point
from traintime.predict import prices
from traintime.predict.answer import GB, LEVEL, SURE, around, bytes_of
from traintime.predict.prices import Rates
from traintime.predict.request import ModelDescription, Request
from traintime.predict.tiers import formula_evidence

FIELDS = {"batch": "batch", "length": "length", "rows": "vocabulary"}  # what is asked for -> a point's field
MOST = 2**40  # beyond which nobody asks
ANY_RATES = Rates(1.0, 1.0)  # memory does not depend on how fast a machine is


@dataclass(frozen=True)
class Largest:
    """How large a training may be.

    of: "batch", "length" or "rows"; surely: the largest of which the whole interval of memory fits, likely: of which
    its middle does, each 0 where not even 1 does; memory: peak at `surely` (at 1 where that is 0), bytes; limit: bytes;
    level: of the interval.
    """

    of: str
    surely: int
    likely: int
    memory: Interval
    limit: int
    level: float

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        held = self.memory.text(".3g", 1 / GB, "GB")
        if not self.surely:
            return f"no {self.of} fits surely: 1 takes {held}, and there are {self.limit / GB:.3g} GB"
        return (
            f"largest {self.of}  {self.surely:,} surely ({held} of {self.limit / GB:.3g} GB); likely up to "
            f"{self.likely:,}\n({self.level:.0%} intervals, by the formula: nothing was tried)"
        )


def largest(
    model: Any,
    of: str = "batch",
    *,
    memory: str | float,
    samples: int = 1_000_000,
    batch_size: int | None = None,
    device: str | None = None,
    level: float = LEVEL,
) -> Largest:
    """The largest batch, length or number of rows with which the training of a model fits into memory.

    model: a Keras 3 model, built or not, of which the batch can be asked, and the length where its inputs leave one
    open; or a Point of the book's workloads. of: "batch", "length" or "rows" (of an embedding table). memory: "16GB",
    or bytes, of the whole process; of the card where device names one with a data sheet. samples: of an epoch, which
    `fit` holds; a batch is not larger. batch_size: samples a step, where a Keras model's length is asked. Raises
    InputError for anything else.
    """
    if of not in FIELDS:
        raise unknown("of", of, list(FIELDS))
    limit = bytes_of(memory)
    device = None if device is None else prices.one_device(device)
    describe, most = _described(model, of, batch_size)
    if of == "batch":
        most = min(most, samples)

    def peak(number: int) -> Interval:
        description, batch = describe(number)
        request = Request(samples=max(samples, batch), batch=batch, level=level)
        evidence = formula_evidence(request, description, device, ANY_RATES)
        assert evidence.peak_bytes is not None
        return around(evidence.peak_bytes, (evidence.peak_error, SURE), level=level)

    surely = _last(lambda number: peak(number).high <= limit, most)
    likely = _last(lambda number: peak(number).value <= limit, most)
    return Largest(of, surely, likely, peak(max(surely, 1)), limit, level)


def _described(model: Any, of: str, batch: int | None) -> tuple[Callable[[int], tuple[ModelDescription, int]], int]:
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
    if of == "length":
        if batch is None:
            raise InputError("batch_size", batch, "is needed to ask for the length", "Give batch_size=32, say.")
        return lambda number: (ModelDescription.from_model(model, batch, length=number), batch), MOST
    return lambda number: (ModelDescription.from_model(model, number), number), MOST


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
