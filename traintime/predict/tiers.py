"""The tiers, each a function from a request and a model's work to evidence: formula, which calculates the work, and
probed and scaled, which have trained the model, or a smaller one, for a moment.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import psutil

from traintime.errors import InputError
from traintime.predict import advice, here, precision, prices, record, resident
from traintime.predict.advice import PricedWork
from traintime.predict.answer import SURE, amount, digits, lasting
from traintime.predict.evidence import Evidence
from traintime.predict.holdings import CONTEXT
from traintime.predict.prices import Prices, Rates
from traintime.predict.probe import Probe, Trainer, probe, quarter
from traintime.predict.request import ModelDescription, Request
from traintime.predict.resident import ONCE, Copies
from traintime.predict.scaling import ITSELF, Scale
from traintime.workloads.base import FLOAT, FLOAT32

# Of a probe of one block alone, as of a training's (ending.blocks): at 90 % it lies within half and twice.
ALONE = (math.log(2) / 1.645, SURE)
BUSY = "ask again without them"
ELSEWHERE = Copies(0.0, 0.0)  # samples that are not in the memory that is counted: a card's


# Evidence from prices


def formula_evidence(
    request: Request, model: ModelDescription, device: str | None = None, rates: Rates | None = None
) -> Evidence:
    """The work of a step at the costs of a device with a data sheet, or of this machine (rates: known already).

    Raises InputError for a device or a stack whose costs are unknown.
    """
    stack, notes = model.stack, ()
    if device is not None:
        kernel = prices.kernel_of(stack, model.work, model.convolutions)
        priced = PricedWork(model, prices.published(device, stack, kernel), {})
        of_others = "costs fitted to what others timed on cards"
        costs = of_others if prices.is_card(device) else f"the efficiency factors of {stack} on processors"
        notes = (f"this model on {device} was not measured: the answer is from a data sheet, and {costs}",)
    else:
        if stack in prices.known() and stack not in prices.known(model.allocator):
            taken = f"its efficiency factors under {prices.USUAL} are taken"
            notes = (f"{stack} was not measured under {model.allocator}: {taken}",)
            model = replace(model, allocator=prices.USUAL)
        priced = _at_rates(model, rates or here.rates())
    loaded_bytes, copies = _likeliest(priced.memory_model.idle, model.loaded_bytes), ONCE
    if device is not None and prices.is_card(device):
        # A card holds no interpreter and no libraries: what a process has beside its arrays lies elsewhere.
        loaded_bytes, copies = CONTEXT, ELSEWHERE
        notes += (f"{amount(CONTEXT)} of the memory are the card's context, as others saw it",)
    evidence = _priced_evidence(request, priced, loaded_bytes, copies).after(*notes)
    return evidence if device is None else replace(evidence, stack="")


def _priced_evidence(request: Request, priced: PricedWork, loaded_bytes: float, copies: Copies) -> Evidence:
    """The whole training at these costs, in a process that holds so many bytes before, and the samples so often."""
    model, terms = priced.model, priced.terms
    model.refuse_unpriced()
    step = sum(terms.values())
    # A batch that is not full has less of everything but the update, the launches and the step as such.
    fixed = sum(terms[name] for name in prices.FIXED)
    last = fixed + (step - fixed) * request.rest / request.batch if request.rest else 0.0
    forward = priced.prices.step_s(model.forward)
    parts = {
        "steps": request.epochs * request.full_batches * step,
        "last batches": request.epochs * last,
        "validation": request.epochs * request.validation / request.batch * forward,
    }
    trained = (
        loaded_bytes + priced.memory_model.runtime + priced.memory_model.of_model(model.work, model.how, model.frozen)
    )
    samples_bytes, warnings = model.sample_bytes * (request.samples + request.validation), ()
    begun = loaded_bytes + FLOAT * model.work.parameters
    peak, notes = _with_samples(trained, begun, samples_bytes, copies)
    notes += precision.other(model.dtype, priced.prices)
    if request.saves:
        warnings += ("saving is not counted by this tier",)
    errors, error = ((priced.prices.error, SURE),), priced.memory_model.error
    about = {"notes": notes, "warnings": warnings, "stack": model.stack}
    return Evidence("formula", priced.prices.of, step, errors, parts, peak, error, priced, **about)


def priced_work(
    model: ModelDescription, base: Prices, others: Mapping[str, Prices] = MappingProxyType({})
) -> PricedWork:
    """A processor's costs of a step in the type that it computes in, and those of the step run in another way: others,
    and in half precision where its costs are known and the model is not in it already.
    """

    def half(these: Prices) -> Prices | None:
        # They are a processor's, and not those of the GPU that a framework here may have.
        on_gpu = resident.gpu_peak(model.stack.removeprefix("2026-")) is not None
        return None if on_gpu else precision.in_half(these, model.stack, model.work)

    if model.dtype == precision.DTYPE:
        return PricedWork(model, half(base) or base, {name: half(each) or each for name, each in others.items()})
    if model.dtype == FLOAT32 and (faster := half(base)) is not None:
        others = {**others, advice.PRECISION: faster}
    return PricedWork(model, base, others)


def _at_rates(model: ModelDescription, rates: Rates) -> PricedWork:
    """The work of a step at this machine's rates under the model's allocator."""
    others = _keeping(model.allocator, functools.partial(prices.of_rates, "this machine", rates, model.stack))
    return priced_work(model, here.costs(model.stack, model.allocator, rates), others)


def _keeping(allocator: str, under: Callable[[str], Prices]) -> dict[str, Prices]:
    """The costs under an allocator that keeps its memory, where this process has the usual one and they are known.

    under: costs under an allocator; raises InputError where they are not known.
    """
    with contextlib.suppress(InputError):
        return {advice.ALLOCATOR: under(prices.KEEPS)} if allocator == prices.USUAL else {}
    return {}


def _likeliest(usual: float, loaded: tuple[float, float] | None) -> float:
    """What a process holds before it trains, bytes: what is usual, as far as this one does not deny it."""
    return usual if loaded is None else min(max(usual, loaded[0]), loaded[1])


# Evidence from training


def probed_evidence(request: Request, model: ModelDescription | None, trainer: Trainer, seconds: float) -> Evidence:
    """The model's own steps, trained for about so many seconds, at the batch size that is asked for and a smaller one,
    and everything around them. model: for what a step is spent on, if that is known.
    """
    evidence = _trained_evidence(request, trainer, seconds, ITSELF)
    wait_s, varied = trainer.reading(evidence.step_s)
    if varied:
        evidence = evidence.warned("batches differ in size; the first ones alone were tried")
    if model is None:
        return evidence
    if model.unpriced is not None:
        name, value = model.unpriced
        return evidence.after(f"what a step is spent on is not told: {name}={value} has no known cost")
    return replace(evidence, priced=_at_rates(model, here.rates()), wait_s=wait_s)


def scaled_evidence(
    request: Request, model: ModelDescription, trainer: Trainer, seconds: float, scale: Scale
) -> Evidence:
    """The steps of a smaller model, at one batch size, times what the scale makes of the difference."""
    evidence = _trained_evidence(request, trainer, seconds, scale)
    source = f"{evidence.source}; costs: {scale.prices.of}"
    return replace(evidence, source=source, priced=priced_work(model, scale.prices))


def _trained_evidence(request: Request, trainer: Trainer, seconds: float, scale: Scale) -> Evidence:
    """What a trainer's model shows of the whole training, if that is multiplied so."""
    batch, scaled = scale.batch or request.batch, scale is not ITSELF
    before = resident.now() if resident.gpu_peak(trainer.backend) is None else 0  # a process lies elsewhere
    begun, cores = here.processor_s(), psutil.cpu_count() or 1
    trial = probe(trainer, batch, seconds, 0 if scaled else _smaller_batch(request, trainer))
    full, notes, warnings = trial.full, (), ()
    if others := here.crowd(begun, trial.took_s, cores):
        warnings += (f"others used {others:.1f} of {cores} processors, the time is unsure: {BUSY}",)
    step = full.step_s * scale.step + scale.more_s
    last = 0.0
    if request.rest and scale.fixed is None:
        last = trial.step_s(request.rest)
    elif request.rest:  # one batch size alone was trained: as the prices share the step out
        last = step * (scale.fixed + (1 - scale.fixed) * request.rest / request.batch)
    parts = {
        "first step": full.start_s,
        "steps": request.epochs * request.full_batches * step,
        "last batches": request.epochs * last,
        "between epochs": request.epochs * (full.epoch_s + trainer.between_s()),
    }
    if request.rest and (trial.smaller or scaled):  # another shape is compiled anew, once
        parts["first step"] += (trial.smaller or full).start_s
    tested = 4 if 8 * full.step_s < seconds else 1  # twice as many are evaluated
    if request.validation and (forward := trainer.test_s(batch, tested)) is not None:
        batches = math.ceil(request.validation / request.batch)
        parts["validation"] = request.epochs * batches * forward * scale.forward
    elif request.validation:
        warnings += ("validation is not counted: it can be timed for a model with arrays, or a module",)
    if request.saves and (saving := trainer.save_s()) is not None:
        parts["saving"] = request.saves * saving * scale.saved
    elif request.saves:
        warnings += ("saving is not counted: it can be timed for a Keras model",)
    if scaled:
        taken = f"its step of {lasting(full.step_s)} is taken {digits(step / full.step_s)} times"
        notes += (f"a smaller one was trained, at batch {batch}: {taken}, as the formula makes the larger one",)
        notes += scale.notes
    elif not trial.smaller and not trainer.one_batch_size and request.batch > 1:
        notes += ("one batch size alone was tried: the time was used up",)
    if full.step_s > seconds:
        took = lasting(full.step_s)
        warnings += (f"one step takes {took}, longer than the {seconds:g} s of the probe: few were trained",)
    tier, source = "scaled" if scaled else "probed", f"{trial.took_s:.0f} s on {trainer.stack.removeprefix('2026-')}"
    peak, peak_notes = _trained_peak(request, trainer, trial, before, scale)
    repeat = prices.habits()["repeat"].groupby("stack").first()
    repeat_error = repeat[trainer.stack] if trainer.stack in repeat else repeat.max()
    blocks = len(full.blocks_s)
    errors = ((float(repeat_error), SURE), (scale.error, SURE), (full.error, blocks - 1) if blocks > 1 else ALONE)
    # What an allocator keeps of the probing, the process that trains may not have: as far off as others were.
    error = record.peak_error(tier, trainer.stack)
    about = {"notes": notes + peak_notes, "warnings": warnings, "sleeps": trainer.sleeps, "stack": trainer.stack}
    return Evidence(tier, source, step, errors, parts, peak, error, **about)


def _smaller_batch(request: Request, trainer: Trainer) -> int:
    """The other batch size to try: the epoch's last one where it is no scrap, else a quarter; 0 for none."""
    if trainer.one_batch_size:
        return 0
    return request.rest if request.rest * 8 >= request.batch else quarter(request.batch) or 0


def _trained_peak(
    request: Request, trainer: Trainer, trial: Probe, before: int, scale: Scale
) -> tuple[float | None, tuple[str, ...]]:
    """Peak memory of the whole training, bytes, and what is to be said of it; before: bytes before the probe."""
    if trial.full.peak_bytes is None:
        return None, ()
    samples, batch = request.samples + request.validation, trial.full.batch
    trained_bytes = trainer.array_bytes(trial.full.steps * batch)
    samples_bytes, copies = trainer.array_bytes(samples) * scale.sample, trainer.copies(batch, samples)
    # The reader's own arrays were there before, and what was trained on is a view of them.
    own = trainer.own_bytes
    without = trial.full.peak_bytes - own - copies.training * trained_bytes + min(own, trained_bytes)
    trained = max(without + scale.more_bytes, 0.0)
    peak, notes = _with_samples(trained, before - own, samples_bytes, copies)
    beside = f"the card's context of about {amount(CONTEXT)} comes on top"
    return peak, (f"this process held {amount(before)} before it was probed" if before else beside, *notes)


def _with_samples(trained: float, loaded: float, samples_bytes: float, copies: Copies) -> tuple[float, tuple[str, ...]]:
    """Peak memory with the samples, bytes, and what is said of them where they are more than a trifle of it.

    trained, loaded: without the samples, of a process that trains, and of one that has the model and has not begun: at
    its start `fit` may hold the samples once more, when the step is not there yet.
    """
    peak = max(trained + copies.training * samples_bytes, loaded + copies.start * samples_bytes)
    samples_bytes *= copies.training
    note = f"{amount(samples_bytes)} of the memory are the samples themselves, as `fit` holds them"
    return peak, (note,) if samples_bytes > 0.01 * peak else ()
