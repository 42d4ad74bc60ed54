"""What each tier knows of a training, from a request and a model's work: formula, which calculates the work, and probed
and scaled, which have trained the model, or a smaller one, for a moment.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import psutil

from traintime.explain.memory import CONTEXT
from traintime.explain.terms import TERMS
from traintime.predict import costs, process, record
from traintime.predict.advice import CostedWork
from traintime.predict.answer import MEGABYTE, SURE, amount, digits, lasting
from traintime.predict.costs import FIXED, KEEPS, USUAL, Costs, Rates
from traintime.predict.probe import BLOCKS, Trainer, probe
from traintime.predict.process import ONCE, Copies
from traintime.predict.request import ModelDescription, Request
from traintime.workloads.base import FLOAT, FLOAT32

# Error assumed where fewer than BLOCKS[0] blocks were timed, as of a training's (ending.blocks): ×/÷ 2 at 90 %.
ALONE = (math.log(2) / 1.645, SURE)
ALIKE = 0.4  # of the formula's error: what stays of it though both steps are made of the same terms in the same shares
FRESH = 2**25  # bytes of a block beyond which glibc maps fresh pages whenever it is asked for one (M_MMAP_THRESHOLD)


@dataclass(frozen=True)
class Evidence:
    """What one tier (answer.TIERS) knows of the training that is asked about.

    source: whose costs, or what was probed; step_s: seconds of a step, wait_s: of it for data; errors: of the logarithm
    of all times, each (standard error, degrees of freedom); parts: seconds of the whole training by what they are spent
    on; peak_bytes: peak memory of the process (on a GPU: of its memory), if known; peak_error: standard deviation of
    its logarithm; costed: what the step is spent on, if known; notes, warnings: what the reader may want to know, and
    why it may be wrong; sleeps: whether `fit` may sleep after an epoch (record.tf_data_end); stack: whose earlier
    answers tell how often such a one is right (predict.record), "" where nobody's do.
    """

    tier: str
    source: str
    step_s: float
    errors: tuple[tuple[float, float], ...]
    parts: Mapping[str, float] = field(hash=False)
    peak_bytes: float | None
    peak_error: float
    costed: CostedWork | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sleeps: bool = False
    stack: str = ""
    wait_s: float = 0.0

    def after(self, *notes: str) -> "Evidence":
        """The same, with notes before its own: why it is this tier's."""
        return replace(self, notes=(*notes, *self.notes))


def formula_evidence(request: Request, model: ModelDescription, rates: Rates | None = None) -> Evidence:
    """The work of a step at the costs of the requested stack and device, or of this machine (rates: if known already).
    Raises InputError for a device or a stack whose costs are unknown.
    """
    stack, device, told = request.stack or model.stack, request.device, ()
    card = device is not None and costs.is_card(device)
    # What another stack's process would hold, or another device's, this one does not tell.
    least, most = model.loaded_bytes if model.loaded_bytes and stack == model.stack and not device else (0.0, math.inf)
    model = replace(model, stack=stack)
    if device is not None:
        kernel = costs.kernel_of(stack, model.work, model.convolutions)
        costed = CostedWork(model, costs.published(device, stack, kernel))
        of_others = "costs fitted to what others timed on cards"
        taken = of_others if card else f"the efficiency factors of {stack} on processors"
        told = (f"this model on {device} was not measured: the answer is from a data sheet, and {taken}",)
    else:
        if stack in costs.known() and stack not in costs.known(model.allocator):
            taken = f"its efficiency factors under {USUAL} are taken"
            told = (f"{stack} was not measured under {model.allocator}: {taken}",)
            model = replace(model, allocator=USUAL)
        costed = costed_here(model, rates or process.rates())
    model.refuse_without_costs()
    terms, forward = costed.terms, costed.costs.step_s(model.forward)
    step = sum(terms.values())
    # A batch that is not full has less of everything but the update, the launches and the step as such.
    fixed = sum(terms[name] for name in FIXED)
    last = fixed + (step - fixed) * request.rest / request.batch if request.rest else 0.0
    parts = {
        "steps": request.epochs * request.full_batches * step,
        "last batches": request.epochs * last,
        "validation": request.epochs * request.validation / request.batch * forward,
    }
    loaded, copies = min(max(model.memory.idle, least), most), ONCE
    if card:  # it holds no interpreter, no libraries and no samples beside a batch: those lie elsewhere
        loaded, copies = CONTEXT, Copies(0.0, 0.0)
        told += (f"{amount(CONTEXT)} of the memory are the card's context, as others saw it",)
    samples_bytes, begun = model.sample_bytes * (request.samples + request.validation), FLOAT * model.work.parameters
    peak, notes = _with_samples(loaded + model.beyond_idle, loaded + begun, samples_bytes, copies)
    notes = (*told, *notes)
    if model.dtype != FLOAT32:
        other = f"its matmuls are computed in {model.dtype}, which has no known cost here"
        notes += (f"{other}: its time is that of {FLOAT32}",)
    warnings = ("saving is not counted by this tier",) if request.saves else ()
    tried, error = "" if device or model.fitted else model.stack, costed.costs.error
    if tried:
        factor, error = record.missed("formula", tried)
        step, parts = factor * step, {name: factor * seconds for name, seconds in parts.items()}
        notes += (f"the formula's time is multiplied by {digits(factor)}: so much longer did models take on {tried}",)
    about = {"costed": costed, "notes": notes, "warnings": warnings, "stack": tried}
    return Evidence("formula", costed.costs.of, step, ((error, SURE),), parts, peak, model.memory.error, **about)


def costs_here(stack: str, allocator: str, rates: Rates) -> Costs:
    """A stack's costs at this machine's rates; under the usual allocator where they are not known under this one."""
    return costs.of_rates("this machine", rates, stack, allocator if stack in costs.known(allocator) else USUAL)


def costed_here(model: ModelDescription, rates: Rates) -> CostedWork:
    """A step's work at this machine's rates, under the model's allocator and, where usual, one that keeps memory."""
    keeps = model.allocator == USUAL and model.stack in costs.known(KEEPS)
    keeping = costs_here(model.stack, KEEPS, rates) if keeps else None
    return CostedWork(model, costs_here(model.stack, model.allocator, rates), keeping)


def probed_evidence(request: Request, model: ModelDescription | None, trainer: Trainer) -> Evidence:
    """The model's own steps, trained for about request.seconds. model: what a step is spent on, where known."""
    evidence = _trained_evidence(request, trainer)
    if model is None:
        return evidence
    if model.uncosted is not None:
        name, value = model.uncosted
        return evidence.after(f"what a step is spent on is not told: {name}={value} has no known cost")
    return replace(evidence, costed=costed_here(model, process.rates()))


def scaled_evidence(
    request: Request, small: ModelDescription, large: ModelDescription, trainer: Trainer, base: Costs, present: int = 0
) -> Evidence:
    """The training of a smaller model, at one batch size, times what the costs make of the difference: a formula is
    wrong about both in much the same way, so that its error mostly cancels in their quotient. present: bytes of the
    larger model that this process holds already, which are in the peak that is measured.
    """
    times, more_s, error, notes = scale(small, large, base)
    sample = large.sample_bytes / small.sample_bytes if small.sample_bytes else 1.0
    seen = _trained_evidence(request, trainer, sample, large.beyond_idle - small.beyond_idle - present)
    step, after = seen.step_s * times + more_s, base.parts(large.work)
    forward = base.step_s(small.forward)
    parts = dict(seen.parts) | {"steps": request.epochs * request.full_batches * step}
    if request.rest:  # one batch size alone was trained: as the costs share the step out
        fixed = sum(after[term] for term in FIXED) / sum(after.values())
        parts["last batches"] = request.epochs * step * (fixed + (1 - fixed) * request.rest / request.batch)
    if "validation" in parts:
        parts["validation"] *= base.step_s(large.forward) / forward if forward else times
    if "saving" in parts:
        parts["saving"] *= large.work.parameters / max(small.work.parameters, 1)
    taken = f"its step of {lasting(seen.step_s)} is taken {digits(step / seen.step_s)} times"
    batch = request.probe_batch or request.batch
    told = f"a smaller one was trained, at batch {batch}: {taken}, as the formula makes the larger one"
    about = {"tier": "scaled", "source": f"{seen.source}; costs: {base.of}", "costed": CostedWork(large, base)}
    about |= {"errors": (*seen.errors, (error, SURE)), "peak_error": record.peak_error("scaled", trainer.stack)}
    return replace(seen, step_s=step, parts=parts, notes=(told, *notes, *seen.notes), **about)


def scale(small: ModelDescription, large: ModelDescription, base: Costs) -> tuple[float, float, float, tuple[str, ...]]:
    """From the one model's step to the other's: factor, seconds beyond that, the standard deviation of the logarithm of
    what comes out, and notes. Each term's cost is off by about the formula's error, so that the quotient is off by as
    much as the terms' shares of the two steps differ. Where the larger one alone may have fresh pages mapped for its
    activations at each step, as on JAX for those of a large softmax, nothing of the error cancels.
    """
    for model in (small, large):
        model.refuse_without_costs()
    before, after = base.parts(small.work), base.parts(large.work)
    was, now = sum(before.values()), sum(after.values())
    apart = float(np.linalg.norm([after[term] / now - before[term] / was for term in TERMS]))
    few, many = (2 * one.work.activation_bytes for one in (small, large))
    fresh = large.allocator == USUAL and few < FRESH <= many
    # An update that fits into caches, in memory that is kept, tells nothing of one that does not.
    more_s = 0.0
    if FLOAT * small.work.trained < FRESH <= FLOAT * large.work.trained:
        more_s = sum(seconds for term, seconds in after.items() if TERMS[term].part == "update")
    note = f"activations with their gradients grow from {amount(few)} to {amount(many)}: glibc may map fresh pages for "
    note += "them at each step, which the smaller model did not pay; a larger one would"
    error = base.error * float(np.hypot(apart, 1.0 if fresh or more_s else ALIKE))
    return (now - more_s) / was, more_s, error, (note,) if fresh else ()


def _trained_evidence(request: Request, trainer: Trainer, sample: float = 1.0, more_bytes: float = 0.0) -> Evidence:
    """What a trainer shows of a training of its steps. sample: factor of samples' bytes; more_bytes: of its peak."""
    batch, seconds = request.probe_batch or request.batch, request.seconds
    # On a GPU the process lies elsewhere.
    before = process.now() - trainer.kept_bytes if process.gpu_peak(trainer.backend) is None else 0
    one_size = trainer.one_batch_size or request.smaller
    # The other batch size to try: the epoch's last one where it is no scrap, else a quarter, so that the line through
    # both has a base; 0 where nothing is smaller.
    other = request.rest if request.rest * 8 >= request.batch else min(max(request.batch // 4, 1), request.batch - 1)
    begun = process.processor_s()
    trial = probe(trainer, batch, seconds, 0 if one_size else other)
    others = process.crowd(begun, trial.took_s)
    full, notes, warnings = trial.full, (), ()
    to_come = max(request.epochs * math.ceil(request.samples / request.batch) - full.done, 0)
    parts = {
        "first step": full.start_s,
        "steps": request.epochs * request.full_batches * full.step_s,
        "last batches": request.epochs * trial.step_s(request.rest) if request.rest else 0.0,
        "between epochs": request.epochs * (full.epoch_s + trainer.between_s()),
    }
    if request.rest and (trial.smaller or request.smaller):  # another shape is compiled anew, once
        parts["first step"] += (trial.smaller or full).start_s
    tested = 4 if 8 * full.step_s < seconds else 1  # twice as many are evaluated
    if full.once_s:
        parts["first epoch"] = full.once_s
    if request.validation and (forward := trainer.test_s(batch, tested)) is not None:
        parts["validation"] = request.epochs * math.ceil(request.validation / request.batch) * forward
    elif request.validation:
        warnings += ("validation is not counted: it can be timed for a model with arrays, or a module",)
    if request.saves and (saving := trainer.save_s()) is not None:
        parts["saving"] = request.saves * saving
    elif request.saves:
        warnings += ("saving is not counted: it can be timed for a Keras model",)
    if not trial.smaller and not one_size and request.batch > 1:
        notes += ("one batch size alone was tried: the time was used up",)
    if full.changed:
        before_s, after_s = map(lasting, full.changed)
        warnings += (f"steps are of two kinds: of {before_s}, then of {after_s}, which all to come are taken to be",)
    if trainer.cached is not None and request.epochs > 1 and not full.once_s:
        warnings += ("the data have a cache that the probe did not fill: epochs after the first will be quicker",)
    if full.step_s > seconds:
        took = lasting(full.step_s)
        warnings += (f"one step takes {took}, longer than the {seconds:g} s of the probe: few were trained",)
    peak = None
    if full.peak_bytes is not None:
        samples, own = request.samples + request.validation, trainer.own_bytes
        trained_bytes = trainer.array_bytes(full.steps * batch)
        samples_bytes, copies = trainer.array_bytes(samples) * sample, trainer.copies(batch, samples)
        # The reader's own arrays were there before, and what was trained on is a view of them.
        without = full.peak_bytes - own - copies.training * trained_bytes + min(own, trained_bytes)
        more_bytes += full.leak * to_come + (0 if full.once_s else trainer.cached or 0)
        if full.leak:
            grows = f"memory grows by {digits(full.leak / MEGABYTE)} MB with each step"
            warnings = (f"{grows}: {amount(full.leak * to_come)} are counted for those after the probe", *warnings)
        peak, told = _with_samples(max(without + more_bytes, 0.0), before - own, samples_bytes, copies)
        beside = f"the card's context of about {amount(CONTEXT)} comes on top"
        notes += (f"this process held {amount(before)} before it was probed" if before else beside, *told)
    blocks = len(full.blocks_s)
    of_blocks = (full.error, blocks - 1) if blocks >= BLOCKS[0] else ALONE
    errors = ((record.missed("probed", trainer.stack)[1], SURE), of_blocks)
    # What an allocator keeps of the probing, the process that trains may not have: as far off as others were.
    error = record.peak_error("probed", trainer.stack)
    wait_s, varied = trainer.reading(full.step_s)
    warnings = ((varied,) if varied else ()) + warnings
    if others:
        warnings += (
            f"others used {others:.1f} of {psutil.cpu_count()} processors, the time is unsure: ask again without them",
        )
    of_all = f", {digits(100 * full.done / (full.done + to_come), 1)}% of all steps" if to_come else ""
    source = f"{trial.took_s:.0f} s on {trainer.stack.removeprefix('2026-')}{of_all}"
    about = {"notes": notes, "warnings": warnings, "sleeps": trainer.sleeps, "stack": trainer.stack, "wait_s": wait_s}
    return Evidence("probed", source, full.step_s, errors, parts, peak, error, **about)


def _with_samples(trained: float, loaded: float, samples_bytes: float, copies: Copies) -> tuple[float, tuple[str, ...]]:
    """Peak memory with the samples, bytes, and what is said of them. trained, loaded: without them, of a process that
    trains, and of one that begins, when `fit` may hold the samples once more and the step is not there yet.
    """
    peak = max(trained + copies.training * samples_bytes, loaded + copies.start * samples_bytes)
    samples_bytes *= copies.training
    note = f"{amount(samples_bytes)} of the memory are the samples themselves, as `fit` holds them"
    return peak, (note,) if samples_bytes > 0.01 * peak else ()
