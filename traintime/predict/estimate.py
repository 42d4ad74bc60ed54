"""How long will it train, and in how much memory: `estimate` takes the best evidence that there is, and answers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from traintime.errors import InputError
from traintime.explain.memory import GIB
from traintime.explain.terms import by_part
from traintime.measuring import machine
from traintime.point import Point
from traintime.predict import advice, costs, durations, process, record
from traintime.predict.answer import LEVEL, SURE, UNTOLD, WAIT, Estimate, around, bytes_of, lasting
from traintime.predict.evidence import Evidence, costs_here, formula_evidence, probed_evidence, scaled_evidence
from traintime.predict.probe import StepTrainer
from traintime.predict.request import SECONDS, ModelDescription, Request, is_module, sizes
from traintime.workloads.base import FLOAT, FLOAT32

FAR = 0.99  # level of the interval around the formula's step: what takes longer is spent on something else
CURE = (
    "A Dataset whose pipeline is not tuned does not: options = tf.data.Options(); options.autotune.enabled = False; "
    "dataset = dataset.with_options(options)"
)


def estimate(
    model: Any = None,
    *,
    samples: float | None = None,
    batch_size: float | None = None,
    epochs: float = 1,
    deadline: Any = None,
    memory: str | float | None = None,
    step: Callable[[int], Any] | None = None,
    probe: Any = None,
    probe_batch: int | None = None,
    data: Any = None,
    validation: float = 0,
    saves: float = 0,
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
    workloads. Or none, and step: a function that trains on one batch of n samples, `step(n)`, in any library.
    samples: of an epoch, those of the data if none are given; batch_size: samples a step, by default those of a Point
    or a DataLoader, and of a Keras model the 32 that `fit` takes; epochs; validation: samples evaluated after an epoch,
    a third of them where every third epoch ends with it; saves: times that the model is written to a file.
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
    stack: whose costs, by default "2026-" and the backend's name. level: of the intervals.
    Raises InputError for what cannot be predicted, with the remedy.
    """
    if (model is None) == (step is None):
        raise InputError("model", model, "and step are two ways to ask", "Give one of them: a model, or step=.")
    if isinstance(model, Point):
        if batch_size not in (None, model.sizes.batch):
            problem = f"differs from the configuration's {model.sizes.batch}"
            raise InputError("batch_size", batch_size, problem, "Leave it out.")
        batch_size = model.sizes.batch
    samples, batch_size = sizes(model, data, samples, batch_size)
    deadline_s = None if deadline is None else durations.seconds(deadline, "deadline")
    limit = None if memory is None else bytes_of(memory)
    device = None if device is None else costs.one_device(device)
    where = {"tier": tier, "device": device, "stack": stack, "probe": probe, "probe_batch": probe_batch}
    how = {"data": data, "length": length, "loss": loss, "optimizer": optimizer, "seconds": seconds, "keep": keep}
    request = Request(samples, batch_size, epochs, validation, saves, level, deadline_s, limit, **where, **how)
    _refuse_tier(request, model)
    if step is not None:
        if request.calculated:
            raise InputError("tier", tier or "formula", "cannot look into a function", "Take tier='probed'.")
        if data is not None:
            problem = "is for models; a step makes batches of its own"
            raise InputError("data", type(data).__name__, problem, "Leave it out.")
        with process.shown(put_back=False):
            evidence = probed_evidence(request, None, StepTrainer(step))
    elif isinstance(model, Point):
        if tier == "probed":
            raise InputError("tier", tier, "is for models and steps", "Measure the configuration: traintime measure.")
        evidence = formula_evidence(request, ModelDescription.from_point(model))
    else:
        evidence = _from_smaller(request, model) if request.smaller else _from_model(request, model)
    return conclude(request, evidence)


def _refuse_tier(request: Request, model: Any) -> None:
    """Raise InputError where what is to be tried in the model's place does not go with the tier, or with the model."""
    tier, field = request.tier, "probe" if request.probe is not None else "probe_batch"
    if not request.smaller and tier == "scaled":
        raise InputError("tier", tier, "needs something smaller to try", "Give probe=, or probe_batch=.")
    if request.smaller and tier not in (None, "scaled"):
        raise InputError("tier", tier, f"tries nothing smaller, but {field} is given", "Leave one of them out.")
    if request.smaller and (model is None or isinstance(model, Point) or is_module(model)):
        what = "a function" if model is None else "a point's sizes" if isinstance(model, Point) else "a module"
        problem = f"is for Keras models; {what} cannot be scaled"
        raise InputError(field, getattr(request, field), problem, f"Leave {field} out.")
    if request.device is not None and (request.smaller or tier == "probed"):
        tried = "scaled" if request.smaller else tier
        raise InputError("device", request.device, f"cannot be {tried} from here", "Take tier='formula'.")


def _from_smaller(request: Request, model: Any) -> Evidence:
    """From a smaller model, trained for a moment at its own batch size; both must be of known layers."""
    from traintime.predict.keras_trainer import KerasTrainer  # loads Keras

    probe = model if request.probe is None else request.probe
    trainer = KerasTrainer(probe, request.data, request.length)
    if trainer.own_batches:
        kind, remedy = type(request.data).__name__, "Give arrays, (x, y), or no data."
        raise InputError("data", kind, "has batches of its own, which cannot be smaller", remedy)
    small = ModelDescription.from_model(probe, request.probe_batch or request.batch, None, request.length)
    large = ModelDescription.from_model(model, request.batch, request.optimizer or probe.optimizer, request.length)
    present = 0 if model is probe else FLOAT * large.work.parameters
    with trainer.restored(values=request.keep), process.shown(request.keep):
        base = costs_here(trainer.stack, process.allocator(), process.rates())
        return scaled_evidence(request, small, large, trainer, base, present)


def _from_model(request: Request, model: Any) -> Evidence:
    """From a Keras model or a PyTorch module itself: trained for a moment, or calculated where that is all there is."""
    module, work, untold = is_module(model), None, ""
    trainer = trainer_of(request, model) if module else None
    own = getattr(request.data, "batch_size", None)
    if trainer and trainer.own_batches and own not in (None, request.batch):
        raise InputError("batch_size", request.batch, f"is not the DataLoader's {own}", "Leave it out.")
    try:
        if trainer:
            work = ModelDescription.from_module(trainer, request.batch)
        else:
            work = ModelDescription.from_model(model, request.batch, request.optimizer, request.length)
    except InputError as error:
        if request.calculated or error.field in ("batch_size", "length"):
            raise
        untold = f"what a step is spent on is not told: the {'module' if module else error.field} {error.problem}"
    if request.calculated:
        lacking = _lacking(trainer, work) if trainer and not request.device else ""
        return _untrained(request, work, lacking) if lacking else formula_evidence(request, work)
    if trainer is None:
        compiled = getattr(model, "compiled", False) and getattr(model, "optimizer", None) is not None
        if work and request.tier is None and not compiled:
            return formula_evidence(request, work).after("not probed: the model is not compiled")
        trainer = trainer_of(request, model)
    if lacking := _lacking(trainer, work):
        if request.tier is not None or work is None:
            name = type(model).__name__ if module else model.name
            raise InputError("model", name, lacking, "Take tier='formula', a smaller batch, or a smaller model.")
        return _untrained(request, work, lacking)
    with trainer.restored(values=request.keep), process.shown(request.keep):
        evidence = probed_evidence(request, work, trainer)
    return evidence.after(untold) if untold else evidence


def _lacking(trainer: Any, work: ModelDescription | None) -> str:
    """Why this machine cannot train the model, in words; "" where it can."""
    on_gpu = process.gpu_peak(trainer.backend) is not None
    needed, free = work.beyond_idle if work and not on_gpu else 0.0, machine.free_memory()
    if needed > free:
        return f"needs about {needed / GIB:.1f} GiB and {free / GIB:.1f} GiB are free"
    return "has no numbers (it is on the device meta)" if trainer.empty else ""


def _untrained(request: Request, work: ModelDescription, lacking: str) -> Evidence:
    """Calculated, since this machine cannot train it."""
    evidence = formula_evidence(request, work)
    untold = f"not probed: it {lacking}. Its time here is unknown; this is that of a machine with the memory for it"
    return replace(evidence, warnings=(f"{untold} (device=… asks about a card)", *evidence.warnings))


def trainer_of(request: Request, model: Any) -> Any:
    """What trains a Keras model or a PyTorch module in this process, as it is asked about."""
    if is_module(model):
        from traintime.predict.torch_trainer import TorchTrainer

        return TorchTrainer(model, request.loss, request.optimizer, request.data)
    from traintime.predict.keras_trainer import KerasTrainer  # loads Keras

    return KerasTrainer(model, request.data, request.length)


def conclude(request: Request, evidence: Evidence) -> Estimate:
    """The estimate of what is asked that follows from a tier's evidence."""
    notes, warnings = evidence.notes, evidence.warnings
    about = evidence.parts, request.epochs, evidence.errors, evidence.sleeps, request.level
    parts, epoch, total, longest_s = record.training(*about)
    peak = evidence.peak_bytes
    terms, limited_by, helps = None, "", ()
    if (costed := evidence.costed) is not None:
        # How large which term is, is the costs' opinion; how long they take together, the tier may have seen.
        by_formula = sum(costed.terms.values())
        waits_s = min(evidence.wait_s, evidence.step_s)
        computes_s = evidence.step_s - waits_s
        if computes_s > around(by_formula, (costed.costs.error, SURE), level=FAR).high:
            told = f"{lasting(computes_s)} a step, of which it makes {lasting(by_formula)}"
            limited_by = f"the formula does not explain this: {told}"
        else:
            terms = {part: seconds * computes_s / by_formula for part, seconds in by_part(costed.terms).items()}
            terms |= {WAIT: waits_s} if waits_s else {}
            limited_by = advice.limited_by(terms)
            helps = advice.helps(costed, request.batch, waits_s / evidence.step_s)
            if costed.model.dtype == FLOAT32:
                notes += (advice.PRECISION,)
    came = record.of(evidence.tier, evidence.stack) if evidence.stack else None
    if came:
        notes += (came.sentence,)
        warnings += came.beyond(sum(evidence.parts.values()))
    if longest_s:
        slept, sleep_s = record.slept(), durations.text(parts[record.SLEEP] / request.epochs)
        often = f"{slept['slept']} of {slept['trainings']} trainings that we timed did"
        most = f"`fit` may sleep up to {durations.text(longest_s)} after an epoch, on TensorFlow: {often}"
        notes += (f"{most}, and {sleep_s} an epoch are counted. {CURE}",)
    if evidence.tier != "formula" and total.high > UNTOLD * total.low:
        longer = f"ask for more (seconds={min(4 * request.seconds, 3600):g}), on a machine that nobody else uses"
        warnings = (f"the time is unknown from this probe, whose blocks differ too much: {longer}", *warnings)
    asked = {name: getattr(request, name) for name in ("samples", "epochs", "level", "deadline_s", "memory_limit")}
    times = {"step": around(evidence.step_s, *evidence.errors, level=request.level), "epoch": epoch, "total": total}
    memory = None if peak is None else around(peak, (evidence.peak_error, SURE), level=request.level)
    told = {"limited_by": limited_by, "helps": helps, "notes": notes, "record": came.brief if came else ""}
    told |= {"tier": evidence.tier, "of": evidence.source, "parts": parts, "terms": terms, "warnings": warnings}
    return Estimate(batch_size=request.batch, memory=memory, **asked, **times, **told)
