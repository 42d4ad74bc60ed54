"""How long will it train, and in how much memory: `estimate` takes the best evidence that there is, and answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from traintime.errors import InputError, unknown
from traintime.explain.memory import GIB, memory_model
from traintime.measuring import machine, stacks
from traintime.point import Point
from traintime.predict import durations, here, prices, resident, scaling
from traintime.predict.answer import LEVEL, TIERS, Estimate, amount, bytes_of
from traintime.predict.evidence import Evidence, conclude
from traintime.predict.probe import StepTrainer
from traintime.predict.request import ModelDescription, Request, is_module, sizes
from traintime.predict.tiers import formula_evidence, probed_evidence, scaled_evidence
from traintime.workloads.base import FLOAT

SECONDS = 60.0


@dataclass(frozen=True)
class _Options:
    """How a model or a point is estimated, each as `estimate` takes it."""

    tier: str | None
    device: str | None
    stack: str | None
    probe: Any
    probe_batch: int | None
    data: Any
    length: int | None
    loss: Any
    optimizer: Any
    seconds: float
    keep: bool

    @property
    def prices_alone(self) -> bool:
        """Whether an answer from costs is requested, and nothing is to be trained."""
        return self.tier == "formula" or self.device is not None


def estimate(
    model: Any = None,
    *,
    samples: int | None = None,
    batch_size: int | None = None,
    epochs: int = 1,
    deadline: Any = None,
    memory: str | float | None = None,
    step: Callable[[int], Any] | None = None,
    probe: Any = None,
    probe_batch: int | None = None,
    data: Any = None,
    validation: int = 0,
    saves: int = 0,
    loss: Any = None,
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

    model: a compiled Keras 3 model; a PyTorch module, with loss, optimizer and data; or a Point of the book's
    workloads. Or none, and step: a function that trains on one batch of n samples, `step(n)`, whatever it is written
    in.
    samples: of an epoch, those of the data if none are given; batch_size: samples a step, by default those of a Point
    or a DataLoader, and of a Keras model the 32 that `fit` takes; epochs; validation: samples that are evaluated after
    each epoch; saves: times that the model is written to a file.
    deadline: "8h", "90m", or seconds; memory: "16GB", or bytes: the answer says whether they are kept.
    probe: a smaller model like it, compiled, that is trained in its place where it is too large or too slow to be
    tried: with fewer rows, positions or units; probe_batch: samples a step of that, or of the model itself.
    data: what `fit` would get, (x, y), (x, y, weights), x alone or a Dataset; without it samples are made up, of the
    inputs' shapes; of the smaller model's where there is one. Of a module: (x, y), or a DataLoader. length: what stands
    for an unknown dimension. loss: of a module's (outputs, targets), none where it returns its own. optimizer: the
    module's; of a Keras model another than the compiled one, for the tier formula.
    tier: "probed" trains the model in this process for about `seconds`, and it is afterwards as it was, and not built
    if it was not (keep=False spares the copy of its weights that this needs, and leaves them trained); "scaled", which
    `probe` or `probe_batch` ask for, trains the smaller one so, and multiplies its step by what the costs make of the
    difference; "formula" takes the costs of the model's work from this machine's rates, which are measured in some
    seconds, or from a device's data sheet (device="K40m"). Without a tier a model that is compiled and fits into memory
    is probed, any other calculated.
    stack: whose costs, by default "2026-" and the backend's name.
    level: of the intervals.
    Raises InputError for what cannot be predicted, with the remedy.
    """
    if (model is None) == (step is None):
        raise InputError("model", model, "and step are two ways to ask", "Give one of them: a model, or step=.")
    if tier is not None and tier not in TIERS:
        raise unknown("tier", tier, list(TIERS))
    if not 1 <= seconds <= 3600:
        raise InputError("seconds", seconds, "is refused", "Give 1 to 3600.")
    tier = _tier(tier, model, probe, probe_batch)
    if device is not None and tier in ("probed", "scaled"):
        raise InputError("device", device, f"cannot be {tier} from here", "Take tier='formula'.")
    if device is not None:
        device = prices.one_device(device)
    options = _Options(tier, device, stack, probe, probe_batch, data, length, loss, optimizer, seconds, keep)
    if isinstance(model, Point):
        if batch_size not in (None, model.sizes.batch):
            raise InputError(
                "batch_size", batch_size, f"differs from the configuration's {model.sizes.batch}", "Leave it out."
            )
        batch_size = model.sizes.batch
    samples, batch_size = sizes(model, data, samples, batch_size)
    deadline_s = None if deadline is None else durations.seconds(deadline, "deadline")
    limit = None if memory is None else bytes_of(memory)
    request = Request(samples, batch_size, epochs, validation, saves, level, deadline_s, limit)
    if model is None:
        if options.prices_alone:
            raise InputError("tier", tier or "formula", "cannot look into a function", "Take tier='probed'.")
        if data is not None:
            raise InputError(
                "data", type(data).__name__, "is for models; a step makes batches of its own", "Leave it out."
            )
        with here.shown():
            evidence = probed_evidence(request, None, StepTrainer(step), seconds)
    elif isinstance(model, Point):
        if tier == "probed":
            raise InputError("tier", tier, "is for models and steps", "Measure the configuration: traintime measure.")
        evidence = _from_prices(request, ModelDescription.from_point(model), options)
    elif is_module(model):
        evidence = _from_module(request, model, options)
    elif tier == "scaled":
        evidence = _from_smaller(request, model, options)
    else:
        evidence = _from_model(request, model, options)
    return conclude(request, evidence)


def side_by_side(
    request: Request, point: Point, stack: str | None = None, devices: Sequence[str] = ()
) -> list[Estimate]:
    """The formula's answer for this machine on each stack that can train the point, and for each device with a data
    sheet on one of them (by default the usual one), the quickest first; or for these devices alone.

    What this machine's rates are is measured once, for all stacks.
    """
    model = ModelDescription.from_point(point)
    chosen = stack or model.stack
    if not _can_train(chosen, point):
        raise InputError("stack", chosen, "cannot train this", "Take another stack.")
    places: list[tuple[str, str | None]] = [(chosen, device) for device in devices]
    rates = None
    if not devices:
        rates = here.rates()
        places = [(each, None) for each in prices.known() if _can_train(each, point)]
        places += [(chosen, device) for device in sorted(prices.sheets()["device"].unique(), key=str.lower)]
    model = replace(model, allocator=prices.USUAL)
    evidence = [formula_evidence(request, replace(model, stack=each), device, rates) for each, device in places]
    return sorted((conclude(request, one) for one in evidence), key=lambda one: one.total.value)


def _can_train(stack: str, point: Point) -> bool:
    try:
        stacks.refuse_impossible(point, stacks.get(stack))
    except InputError:
        return False
    return True


def comparison(estimates: list[Estimate]) -> pd.DataFrame:
    """Estimates as a reader compares them, a row each."""
    cells = [
        {
            "where": one.of,
            "time": durations.text(one.total.value),
            "90 % interval": f"{durations.text(one.total.low)} to {durations.text(one.total.high)}",
            "memory": amount(one.memory.value) if one.memory else "",
            "limited by": one.limited_by.split(":")[0].split(",")[0],
        }
        for one in estimates
    ]
    return pd.DataFrame(cells)


def _tier(tier: str | None, model: Any, probe: Any, probe_batch: int | None) -> str | None:
    """The tier, "scaled" where something smaller is to be tried. Raises InputError where that cannot be."""
    if probe is None and probe_batch is None:
        if tier == "scaled":
            raise InputError("tier", tier, "needs something smaller to try", "Give probe=, or probe_batch=.")
        return tier
    field, value = ("probe", probe) if probe is not None else ("probe_batch", probe_batch)
    if tier not in (None, "scaled"):
        raise InputError("tier", tier, f"tries nothing smaller, but {field} is given", "Leave one of them out.")
    if model is None or isinstance(model, Point) or is_module(model):
        what = "a function" if model is None else "a point's sizes" if isinstance(model, Point) else "a module"
        raise InputError(field, value, f"is for Keras models; {what} cannot be scaled", f"Leave {field} out.")
    if probe_batch is not None and (type(probe_batch) is not int or probe_batch < 1):
        raise InputError("probe_batch", probe_batch, "is refused", "Give a whole number of 1 or more.")
    return "scaled"


def _from_smaller(request: Request, model: Any, options: _Options) -> Evidence:
    """From a smaller model, trained for a moment at its own batch size; both must be of known layers."""
    from traintime.predict.keras_trainer import KerasTrainer  # loads Keras

    probe, batch = model if options.probe is None else options.probe, options.probe_batch or request.batch
    trainer = KerasTrainer(probe, options.data, options.length)
    if trainer.own_batches:
        kind, remedy = type(options.data).__name__, "Give arrays, (x, y), or no data."
        raise InputError("data", kind, "has batches of its own, which cannot be smaller", remedy)
    small = ModelDescription.from_model(probe, batch, None, options.length)
    large = ModelDescription.from_model(model, request.batch, options.optimizer or probe.optimizer, options.length)
    present = 0 if model is probe else FLOAT * large.work.parameters
    with trainer.restored(values=options.keep), here.shown():
        costs = here.costs(trainer.stack, here.allocator(), here.rates())
        scale = scaling.scale(small, large, batch, costs, present)
        return scaled_evidence(request, large, trainer, options.seconds, scale)


def _from_model(request: Request, model: Any, options: _Options) -> Evidence:
    """From the model itself: trained for a moment, or calculated where that is requested or it cannot be trained."""
    work, trainer, reason = None, None, ""
    try:
        work = ModelDescription.from_model(model, request.batch, options.optimizer, options.length)
    except InputError as error:
        if options.prices_alone or error.field in ("batch_size", "length"):
            raise
    compiled = getattr(model, "compiled", False) and getattr(model, "optimizer", None) is not None
    if work and options.tier is None and not options.prices_alone and not compiled:
        reason = "not probed: the model is not compiled"
    elif not options.prices_alone:
        from traintime.predict.keras_trainer import KerasTrainer  # loads Keras

        trainer = KerasTrainer(model, options.data, options.length)
        if (lacking := _lacking(work)) and options.tier is not None:
            remedy = "Take tier='formula', a smaller batch, or a smaller model."
            raise InputError("model", model.name, lacking, remedy)
        reason = f"not probed: it {lacking}" if lacking else ""
    if trainer is None or reason:
        evidence = _from_prices(request, work, options)
        return evidence.after(reason) if reason else evidence
    with trainer.restored(values=options.keep), here.shown():
        evidence = probed_evidence(request, work, trainer, options.seconds)
    reason = "what a step is spent on is not told: the model has parts whose work is not known"
    return evidence if work else evidence.after(reason)


def _from_module(request: Request, module: Any, options: _Options) -> Evidence:
    """From a PyTorch module: trained for a moment, or calculated where that is requested."""
    from traintime.predict.torch_trainer import TorchTrainer

    trainer = TorchTrainer(module, options.loss, options.optimizer, options.data)
    own = getattr(options.data, "batch_size", None)
    if trainer.own_batches and own not in (None, request.batch):
        raise InputError("batch_size", request.batch, f"is not the DataLoader's {own}", "Leave it out.")
    work, reason = None, ""
    try:
        work = ModelDescription.from_module(trainer, request.batch)
    except InputError as error:
        if options.prices_alone:
            raise
        reason = f"what a step is spent on is not told: the module {error.problem}"
    if options.prices_alone:
        return _from_prices(request, work, options)
    with trainer.restored(values=options.keep), here.shown():
        evidence = probed_evidence(request, work, trainer, options.seconds)
    return evidence.after(reason) if reason else evidence


def _from_prices(request: Request, model: ModelDescription, options: _Options) -> Evidence:
    """By the formula, on the requested stack."""
    stack = options.stack or model.stack
    # What another stack's process would hold, or another device's, this one does not tell.
    same = stack == model.stack and options.device is None
    model = replace(model, stack=stack, loaded_bytes=model.loaded_bytes if same else None)
    return formula_evidence(request, model, options.device)


def _lacking(work: ModelDescription | None) -> str:
    """What a model that does not fit into this machine's memory needs; "" for one that fits, is on a GPU, or whose work
    is unknown.
    """
    if work is None or resident.gpu_peak(work.stack.removeprefix("2026-")) is not None:
        return ""
    needed, free = memory_model(work.stack).beyond_idle(work.work, work.how, work.frozen), machine.free_memory()
    return f"needs about {needed / GIB:.1f} GiB and {free / GIB:.1f} GiB are free" if needed > free else ""
