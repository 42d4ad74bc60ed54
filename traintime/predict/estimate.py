"""How long will it train, and in how much memory: `estimate` takes the evidence that there is, and answers."""

import contextlib
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from traintime.errors import InputError, unknown
from traintime.explain.memory import GIB
from traintime.measuring import machine
from traintime.point import Point
from traintime.predict import advice, calibrate, holdings, prices, resident, scaling, tiers
from traintime.predict.answer import LEVEL, TIERS, Estimate
from traintime.predict.layers import itemsize
from traintime.predict.step_trainer import StepTrainer
from traintime.predict.training import Known, Training, of_model, of_point
from traintime.workloads.base import FLOAT

SECONDS = 60.0
LEFT = 3  # times its own bytes that drawing a table may leave behind (TensorFlow: 2.4, seen once)


def estimate(
    model: Any = None,
    *,
    samples: int,
    batch_size: int | None = None,
    epochs: int = 1,
    step: Callable[[int], Any] | None = None,
    probe: Any = None,
    probe_batch: int | None = None,
    data: Any = None,
    validation: int = 0,
    saves: int = 0,
    optimizer: Any = None,
    length: int | None = None,
    tier: str | None = None,
    device: str | None = None,
    stack: str | None = None,
    seconds: float = SECONDS,
    keep: bool = True,
    level: float = LEVEL,
) -> Estimate:
    """Predict time and peak memory of a training, before it starts.

    model: a Keras 3 model, or a Point of the book's workloads; or none, and step: a function that trains on one batch
    of n samples, `step(n)`, whatever it is written in.
    samples: of an epoch; batch_size: samples a step (a Point has its own); epochs; validation: samples that are
    evaluated after each epoch; saves: times that the model is written to a file.
    probe: a smaller model like it, compiled, that is trained in its place where it is too large or too slow to be
    tried: with fewer rows, positions or units; probe_batch: samples a step of that, or of the model itself.
    data: what `fit` would get, (x, y), x alone or a Dataset; without it samples are made up, of the inputs' shapes; of
    the smaller model's where there is one. length: what stands for an unknown dimension. optimizer: another than the
    compiled one, for the tier formula.
    tier: "probed" trains the model in this process for about `seconds`, and it is afterwards as it was, and not built
    if it was not (keep=False spares the copy of its weights that this needs, and leaves them trained); "scaled", which
    `probe` or `probe_batch` ask for, trains the smaller one so, and takes its step as many times as the prices make of
    the difference; "calibrated" prices the model's work by what `traintime calibrate` has found on this machine;
    "formula" prices it by this machine's rates, which are measured in some seconds, or on a device with a data sheet
    (device="K40m"). Without a tier a model that is compiled and fits into memory is probed, and all else priced. stack:
    whose prices, by default "2026-" and the backend's name.
    level: of the intervals.
    Raises InputError for what cannot be predicted, with the remedy.
    """
    if (model is None) == (step is None):
        raise InputError("model", model, "and step are two ways to ask", "Give one of them: a model, or step=.")
    if tier is not None and tier not in TIERS:
        raise unknown("tier", tier, list(TIERS))
    if not 1 <= seconds <= 3600:
        raise InputError("seconds", seconds, "is refused", "Give 1 to 3600.")
    tier = _of_probe(model, step, probe, probe_batch, tier)
    if device is not None and tier in ("probed", "scaled", "calibrated"):
        raise InputError("device", device, f"cannot be {tier} from here", "Take tier='formula'.")
    if isinstance(model, Point):
        if batch_size not in (None, model.sizes.batch):
            raise InputError("batch_size", batch_size, f"differs from the point's {model.sizes.batch}", "Leave it out.")
        batch_size = model.sizes.batch
    asked = Training(samples, batch_size, epochs, validation, saves, level)  # type: ignore[arg-type]
    if step is not None:
        if tier in ("formula", "calibrated") or device is not None:
            raise InputError("tier", tier or "formula", "cannot look into a function", "Take tier='probed'.")
        return tiers.probed(StepTrainer(step), asked, seconds, None, _stack_of_step())
    if isinstance(model, Point):
        if tier == "probed":
            raise InputError("tier", tier, "is for models and steps", "Measure the point: traintime measure.")
        return _priced(of_point(model), asked, tier, device, stack, model.run.allocator)
    if tier == "scaled":
        probe = model if probe is None else probe
        return _of_smaller(model, probe, asked, probe_batch or asked.batch, data, optimizer, length, seconds, keep)
    return _of_model(model, asked, data, optimizer, length, tier, device, stack, seconds, keep)


def _of_probe(model: Any, step: Any, probe: Any, probe_batch: int | None, tier: str | None) -> str | None:
    """The tier, "scaled" where something smaller is to be tried. Raises InputError where that cannot be."""
    if probe is None and probe_batch is None:
        if tier == "scaled":
            raise InputError("tier", tier, "needs something smaller to try", "Give probe=, or probe_batch=.")
        return tier
    field, value = ("probe", probe) if probe is not None else ("probe_batch", probe_batch)
    if tier not in (None, "scaled"):
        raise InputError("tier", tier, f"tries nothing smaller, but {field} is given", "Leave one of them out.")
    if step is not None or isinstance(model, Point):
        what = "a function" if step is not None else "a point's sizes"
        raise InputError(field, value, f"is for models; {what} cannot be scaled", f"Leave {field} out.")
    if probe_batch is not None and (type(probe_batch) is not int or probe_batch < 1):
        raise InputError("probe_batch", probe_batch, "is refused", "Give a whole number of 1 or more.")
    return "scaled"


def _of_smaller(
    model: Any,
    probe: Any,
    asked: Training,
    batch: int,
    data: Any,
    optimizer: Any,
    length: int | None,
    seconds: float,
    keep: bool,
) -> Estimate:
    """From a smaller model, trained for a moment at its own batch size; both must be of known layers."""
    from traintime.predict.keras_trainer import KerasTrainer  # loads Keras

    trainer = KerasTrainer(probe, data, length)
    if trainer.own_batches:
        remedy = "Give arrays, (x, y), or no data."
        raise InputError("data", type(data).__name__, "has batches of its own, which cannot be smaller", remedy)
    small = of_model(probe, batch, None, length)
    large = of_model(model, asked.batch, optimizer or probe.optimizer, length)
    there = 0 if model is probe else FLOAT * large.work.parameters
    with trainer.kept(values=keep):
        by = scaling.scale(small, large, batch, _prices_here(trainer.stack), there)
        return tiers.probed(trainer, asked, seconds, large, trainer.stack, (), by)


def _prices_here(stack: str) -> prices.Prices:
    """This machine's calibration of a stack where there is one, else its habits at this machine's rates."""
    allocator = calibrate.who_answers()
    try:
        return calibrate.stored(stack, allocator).prices()
    except InputError:
        here = allocator if stack in prices.known(allocator) else prices.USUAL
        return prices.of_rates("this machine", tiers.rates_here(), stack, here)


def _of_model(
    model: Any,
    asked: Training,
    data: Any,
    optimizer: Any,
    length: int | None,
    tier: str | None,
    device: str | None,
    stack: str | None,
    seconds: float,
    keep: bool,
) -> Estimate:
    known: Known | None = None
    try:
        known = of_model(model, asked.batch, optimizer, length)
    except InputError:
        if tier in ("formula", "calibrated") or device is not None:
            raise
    compiled = getattr(model, "compiled", False) and getattr(model, "optimizer", None) is not None
    asks_for_prices = tier in ("formula", "calibrated") or device is not None
    if known is not None and (asks_for_prices or (tier is None and not compiled)):
        notes = () if compiled or asks_for_prices else ("not probed: the model is not compiled",)
        return _priced(known, asked, tier, device, stack, calibrate.who_answers(), notes, _loaded_bytes(model))
    from traintime.predict.keras_trainer import KerasTrainer  # loads Keras

    trainer = KerasTrainer(model, data, length)
    notes: tuple[str, ...] = ()
    if known is None:
        notes = ("what a step is spent on is not told: the model has parts whose work is not known",)
    elif lacking := _lacking(known):
        if tier is None:
            notes = (f"not probed: it {lacking}",)
            return _priced(known, asked, tier, device, stack, calibrate.who_answers(), notes, _loaded_bytes(model))
        remedy = "Take tier='formula', a smaller batch, or a smaller model."
        raise InputError("model", model.name, lacking, remedy)
    with trainer.kept(values=keep):
        return tiers.probed(trainer, asked, seconds, known, trainer.stack, notes)


def _priced(
    known: Known,
    asked: Training,
    tier: str | None,
    device: str | None,
    stack: str | None,
    allocator: str,
    notes: tuple[str, ...] = (),
    seen: tuple[float, float] | None = None,
) -> Estimate:
    """By this machine's calibration, if it is asked for, or is there and nothing else is; otherwise by the formula.

    seen: what this process holds beside the model, where the model is in it (_loaded_bytes).
    """
    if stack not in (None, known.stack):
        seen = None  # what another stack's process would hold, this one does not tell
    known = replace(known, stack=stack or known.stack)
    stack = known.stack
    if device is None and tier != "formula":
        try:
            found = calibrate.stored(stack, allocator)
            of_this = {name: getattr(found, name) for name in ("runtime_bytes", "copies", "first_s")}
            of_this |= {"loaded_bytes": _loaded(found.loaded_bytes, seen)}
            priced, beside = tiers.ways(found.prices(), stack, known, _beside_allocator(stack, allocator))
            if allocator == prices.USUAL and advice.ALLOCATOR not in beside:
                notes += (f"another allocator has no price here: calibrate with --allocator {prices.KEEPS}, too",)
            answer = tiers.of_prices(priced, known, asked, stack, notes, tier="calibrated", beside=beside, **of_this)
            return tiers.as_slept(answer, stack)
        except InputError as error:
            if tier == "calibrated":
                raise
            if calibrate.file_of(stack, allocator).exists():
                notes += (f"a calibration was not used: {error}",)
    if device is None and stack in prices.known() and stack not in prices.known(allocator):
        notes += (f"{stack} was not measured under {allocator}: its habits under {prices.USUAL} are taken",)
        allocator = prices.USUAL
    loaded = None if seen is None else _loaded(holdings.of_stack(stack).idle, seen)
    return tiers.formula(known, asked, device, stack, notes, allocator=allocator, loaded_bytes=loaded)


def _beside_allocator(stack: str, allocator: str) -> dict[str, prices.Prices]:
    """This machine's prices of a stack under an allocator that keeps its memory, where they are calibrated, too."""
    if allocator != prices.USUAL:
        return {}
    with contextlib.suppress(InputError):
        return {advice.ALLOCATOR: calibrate.stored(stack, prices.KEEPS).prices()}
    return {}


def _loaded_bytes(model: Any) -> tuple[float, float] | None:
    """What this process holds beside the model, which it may train, between a least and a most: its framework, and all
    else that is loaded.

    What drawing a large table has left behind is taken again by the training, and cannot be told from a library. None
    on a GPU. A layer may load more than another: Keras' Bidirectional loads TensorFlow, if it is installed, under
    whatever it computes with (its serialize_keras_object asks whether an object is a tf.TensorShape).
    """
    import keras

    if resident.gpu_peak(keras.backend.backend()) is not None:
        return None
    kept = [*model.variables, *getattr(getattr(model, "optimizer", None), "variables", ())]
    each = [math.prod(one.shape) * itemsize(one.dtype) for one in kept]
    most = max(resident.now() - sum(each), 1.0)
    return max(most - LEFT * max(each, default=0), 1.0), most


def _loaded(usual: float, seen: tuple[float, float] | None) -> float:
    """What a process is taken to hold before it trains, bytes: what is usual, as far as this one does not deny it."""
    return usual if seen is None else min(max(usual, seen[0]), seen[1])


def _lacking(known: Known) -> str:
    """What a model that does not fit into this machine's memory needs; "" for one that fits, or is on a GPU."""
    if resident.gpu_peak(known.stack.removeprefix("2026-")) is not None:
        return ""
    needed, free = holdings.of_stack(known.stack).beyond_idle(known.work, known.how), machine.free_memory()
    return f"needs about {needed / GIB:.1f} GiB and {free / GIB:.1f} GiB are free" if needed > free else ""


def _stack_of_step() -> str:
    """Whose run-to-run error a step of the reader's own is taken to have: that of the framework which is loaded."""
    return next((f"2026-{name}" for name in ("torch", "jax", "tensorflow") if name in sys.modules), "numpy")
