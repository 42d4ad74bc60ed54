"""The tiers: formula, which prices a model's work, and probed, which has trained it, or a smaller one, for a moment."""

import math
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from traintime.explain.formula import tf_data_end
from traintime.explain.statistics import Interval
from traintime.measuring import stacks
from traintime.measuring.measure import run_worker
from traintime.measuring.worker.process import allocator as who_answers
from traintime.predict import advice, durations, holdings, peaks, precision, prices, resident
from traintime.predict.answer import GB, Estimate, around
from traintime.predict.prices import Prices, Rates
from traintime.predict.probe import Probe, probe, smaller
from traintime.predict.resident import ONCE, Copies
from traintime.predict.scaling import ITSELF, Scale
from traintime.predict.training import Known, Training
from traintime.workloads.base import FLOAT, FLOAT32

SURE = 1e6  # degrees of freedom of an error that many runs have told
RATES_TIMEOUT_S = 120.0
BACKWARD = 2  # times the forward pass that the backward pass costs, where only one of them is wanted


def rates_here() -> Rates:
    """What this machine reaches, measured now; takes some seconds.

    By a process of its own: an allocator that keeps its memory would keep the half gibibyte that it takes, and a probe
    of this process would count it as the model's. Raises RuntimeError where that process fails.
    """
    answer = run_worker([sys.executable, "-m", "traintime.measuring.machine"], {}, dict(os.environ), RATES_TIMEOUT_S)
    if answer["status"] != "ok":
        raise RuntimeError(f"measuring this machine's rates: {answer['status']}: {answer.get('error')}")
    now = answer["result"]
    return Rates(now["matmul_flop_per_s"], now["bandwidth_bytes_per_s"])


def formula(
    known: Known,
    asked: Training,
    device: str | None,
    stack: str,
    notes: tuple[str, ...] = (),
    rates: Rates | None = None,
    allocator: str = prices.USUAL,
    loaded_bytes: float | None = None,
) -> Estimate:
    """The work of a step at the prices of a device with a data sheet, or of this machine (rates: known already).

    allocator: who answers malloc on this machine; loaded_bytes: as of_prices takes them.
    """
    if device is None:
        rates = rates or rates_here()
        priced = prices.of_rates("this machine", rates, stack, allocator)
        priced, beside = ways(priced, stack, known, _beside_allocator(rates, stack, allocator))
        return of_prices(priced, known, asked, stack, notes, beside=beside, loaded_bytes=loaded_bytes)
    notes += (f"{device} was not measured: this is its data sheet, and the habits of {stack} on processors",)
    # A card holds no interpreter and no libraries: what a process has beside its arrays lies elsewhere.
    return of_prices(prices.published(device, stack), known, asked, stack, notes, idle=not prices.is_card(device))


def _beside_allocator(rates: Rates, stack: str, allocator: str) -> dict[str, Prices]:
    """What this stack would pay here under an allocator that keeps its memory, where that is known and another."""
    if allocator != prices.USUAL or stack not in prices.known(prices.KEEPS):
        return {}
    return {advice.ALLOCATOR: prices.of_rates("this machine", rates, stack, prices.KEEPS)}


def ways(
    priced: Prices, stack: str, known: Known, others: Mapping[str, Prices] = MappingProxyType({})
) -> tuple[Prices, dict[str, Prices]]:
    """The prices of a step here in the type that it computes in, and what could be changed in how it is run, and the
    prices then: others, and half precision if it has any and is not in it already.

    A processor's it is, and not that of the GPU that a framework here may have.
    """

    def half(of: Prices) -> Prices | None:
        on_card = resident.gpu_peak(stack.removeprefix("2026-")) is not None
        return None if on_card else precision.in_half(of, stack, known.work)

    if known.dtype == precision.DTYPE:
        return half(priced) or priced, {name: half(each) or each for name, each in others.items()}
    found = half(priced) if known.dtype == FLOAT32 else None
    return priced, {**others, **({advice.PRECISION: found} if found else {})}


def of_prices(
    priced: Prices,
    known: Known,
    asked: Training,
    stack: str,
    notes: tuple[str, ...] = (),
    idle: bool = True,
    tier: str = "formula",
    beside: Mapping[str, Prices] = MappingProxyType({}),
    loaded_bytes: float | None = None,
    runtime_bytes: float | None = None,
    copies: Copies = ONCE,
    first_s: float = 0.0,
) -> Estimate:
    """The work of a step at these prices; idle: whether memory counts what a process holds before it trains.

    beside: what could be changed in how it is run, and the prices then; loaded_bytes: memory of a process that has not
    begun to train, without the model, where it was seen; runtime_bytes: what it grows by when it trains, whatever the
    model, where that was; copies: how often `fit` holds the samples; first_s: what a first step takes
    beyond the others, which a batch that is not full takes once more.
    """
    held = holdings.of_stack(stack)
    terms = priced.parts(known.work)
    step = sum(terms.values())
    # A batch that is not full has less of everything but the update, the launches and the step as such.
    fixed = sum(terms[name] for name in prices.FIXED)
    last = fixed + (step - fixed) * asked.rest / asked.batch if asked.rest else 0.0
    forward = (step - sum(terms[name] for name in prices.BEHIND)) / (1 + BACKWARD)
    parts = {
        "steps": asked.epochs * asked.whole * step,
        "last batches": asked.epochs * last,
        "validation": asked.epochs * asked.validation / asked.batch * forward,
    }
    if first_s:
        parts["first step"] = first_s * (1 + bool(asked.rest))
    loaded = held.idle * idle if loaded_bytes is None else loaded_bytes
    peak = loaded + (held.runtime if runtime_bytes is None else runtime_bytes) + held.of_model(known.work, known.how)
    if data := known.sample_bytes * (asked.samples + asked.validation) if idle else 0:
        peak = resident.with_samples(peak, loaded + FLOAT * known.work.parameters, data, copies)
        notes += _of_data(copies.training * data, peak)
    notes += precision.other(known.dtype, priced)
    if asked.saves:
        notes += ("saving is not counted by this tier",)
    memory = around(peak, (held.error_of(tier), SURE), level=asked.level)
    return _answer(
        tier, priced.of, asked, step, [(priced.error, SURE)], parts, memory, known, terms, priced, notes, beside
    )


def probed(
    trainer: Any,
    asked: Training,
    seconds: float,
    known: Known | None,
    stack: str,
    notes: tuple[str, ...] = (),
    by: Scale = ITSELF,
) -> Estimate:
    """The model's own steps, at the batch size that is asked for and one beside it, and everything around them.

    trainer: see probe.Trainer; stack: whose run-to-run error it has. known: for what the step is spent on. by: from the
    smaller model that the trainer has to the one that is asked about and known; then it is tried at one batch size.
    """
    before, batch, scaled = resident.now(), by.batch or asked.batch, by is not ITSELF
    seen = probe(trainer, batch, seconds, 0 if scaled else _beside(trainer, asked))
    step = seen.asked.step_s * by.step
    tried = seen.others[0] if seen.others else seen.asked  # of what a last batch that is not full costs
    parts = {
        "first step": max(seen.asked.first_s - seen.asked.step_s, 0.0),
        "steps": asked.epochs * asked.whole * step,
        "last batches": asked.epochs * _last_s(seen, asked, step, by) if asked.rest else 0.0,
        "between epochs": asked.epochs * (seen.asked.epoch_s + trainer.between_s()),
    }
    if asked.rest and (seen.others or scaled):  # another shape is compiled anew, once
        parts["first step"] += max(tried.first_s - tried.step_s, 0.0)
    if asked.validation and trainer.tests:
        forward = trainer.test_s(batch, 4) * by.forward
        parts["validation"] = asked.epochs * math.ceil(asked.validation / asked.batch) * forward
    elif asked.validation:
        notes += ("validation is not counted: it can be timed for a Keras model with arrays",)
    if asked.saves and trainer.saves:
        parts["saving"] = asked.saves * trainer.save_s() * by.saved
    elif asked.saves:
        notes += ("saving is not counted: it can be timed for a Keras model",)
    if scaled:
        notes += (_of_scale(seen.asked.step_s, batch, by.step),)
    elif not seen.others and not trainer.one_batch_size and asked.batch > 1:
        notes += ("one batch size alone was tried: the time was used up",)
    repeat = prices.habits()["repeat"].groupby("stack").first()
    errors = [(float(repeat.get(stack, repeat.max())), SURE), (by.error, SURE)]
    if (blocks := len(seen.asked.blocks_s)) > 1:
        errors.append((seen.asked.error, blocks - 1))
    priced, terms, beside = by.prices, None, {}
    if known is not None and priced is None:
        rates, allocator = rates_here(), who_answers()
        here = allocator if known.stack in prices.known(allocator) else prices.USUAL
        priced = prices.of_rates("this machine", rates, known.stack, here)
        beside = _beside_allocator(rates, known.stack, allocator)
    if known is not None and priced is not None:
        priced, beside = ways(priced, known.stack, known, beside)
        terms = priced.parts(known.work)
        # Which part is how large is the formula's opinion; how long they take together was seen.
        factor = step / sum(terms.values())
        terms = {name: value * factor for name, value in terms.items()}
    tier, of = "scaled" if scaled else "probed", f"{seen.took_s:.0f} s of it, {stack}"
    memory, told = _memory(seen, trainer, asked, tier, stack, before, by)
    if by.prices:
        of += f"; prices: {by.prices.of}"
    found = _answer(tier, of, asked, step, errors, parts, memory, known, terms, priced, notes + told, beside)
    # An epoch that takes as long as it may can end after a pause that the expected one does not meet.
    return _with_sleep(found, trainer.sleep_s(found.epoch.high))


def as_slept(found: Estimate, stack: str) -> Estimate:
    """The answer of prices, where this stack's `fit` over arrays may sleep after an epoch."""
    its = stacks.get(stack)
    longest = found.epoch.high
    sleeps = its.api == "keras3" and its.backend == "tensorflow"
    return _with_sleep(found, tf_data_end(longest) - longest) if sleeps else found


def _with_sleep(found: Estimate, sleep_s: float) -> Estimate:
    """The answer where `fit` may sleep so long after each epoch, now and then: it reaches further, and says so."""
    if sleep_s < 0.01 * found.epoch.value:
        return found
    said = f"`fit` may sleep after an epoch, on TensorFlow, up to {durations.text(sleep_s)}: the intervals reach so far"
    epoch, total = (
        replace(one, high=one.high + times * sleep_s) for one, times in ((found.epoch, 1), (found.total, found.epochs))
    )
    return replace(found, epoch=epoch, total=total, notes=(*found.notes, said))


def _beside(trainer: Any, asked: Training) -> int:
    """The other batch size to try: the epoch's last one where it is no scrap, else a quarter; 0 for none."""
    if trainer.one_batch_size:
        return 0
    if asked.rest * 8 >= asked.batch:
        return asked.rest
    return smaller(asked.batch) or 0


def _last_s(seen: Probe, asked: Training, step: float, by: Scale) -> float:
    """Seconds of an epoch's last batch, which is not full: on the line through the batch sizes that were tried, or,
    where that was one alone, as the prices share the step out.
    """
    if by.fixed is None:
        return seen.step_s(asked.rest)
    return step * (by.fixed + (1 - by.fixed) * asked.rest / asked.batch)


def _of_scale(step_s: float, batch: int, times: float) -> str:
    """What is said of an answer that rests on a smaller model."""
    return (
        f"a smaller one was trained, at batch {batch}: its step of {step_s * 1e3:.3g} ms is taken {times:.3g} times, "
        "as the formula makes the larger one"
    )


def _memory(
    seen: Probe, trainer: Any, asked: Training, tier: str, stack: str, before: int, by: Scale
) -> tuple[Interval | None, tuple[str, ...]]:
    """Peak memory of the whole training, and what is to be said of it.

    As far off as others were: what an allocator keeps of the probing, the process that trains may not have.
    """
    if seen.asked.peak_bytes is None:
        return None, ()
    samples, there = asked.samples + asked.validation, trainer.held_bytes(seen.asked.steps * seen.asked.batch)
    data, copies = trainer.held_bytes(samples) * by.sample, trainer.copies(seen.asked.batch, samples)
    # The reader's own arrays were there before, and what was trained on is a view of them.
    own = trainer.own_bytes
    trained = max(seen.asked.peak_bytes - own - copies.training * there + min(own, there) + by.more_bytes, 0.0)
    peak = resident.with_samples(trained, before - own, data, copies)
    notes = (f"this process held {before / GB:.2g} GB before it was probed",)
    notes += _of_data(copies.training * data, peak)
    return around(peak, (peaks.error(tier, stack), SURE), level=asked.level), notes


def _of_data(data: float, peak: float) -> tuple[str, ...]:
    """What is said of samples that are held as arrays, where they are more than a trifle."""
    told = f"{data / GB:.2g} GB of the memory are the samples themselves, as `fit` holds them"
    return (told,) if data > 0.01 * peak else ()


def _answer(
    tier: str,
    of: str,
    asked: Training,
    step: float,
    errors: list[tuple[float, float]],
    parts: dict[str, float],
    memory: Interval | None,
    known: Known | None,
    terms: dict[str, float] | None,
    priced: Prices | None,
    notes: tuple[str, ...],
    beside: Mapping[str, Prices],
) -> Estimate:
    total = sum(parts.values())
    once = parts.get("first step", 0.0) + parts.get("saving", 0.0)
    found: tuple[advice.Help, ...] = ()
    if known is not None and priced is not None:
        if known.dtype == FLOAT32 and advice.PRECISION not in beside:
            notes += (precision.unpriced(),)
        found = advice.helps(known, asked.batch, priced, holdings.of_stack(known.stack), beside)

    def sized(value: float) -> Interval:
        return around(value, *errors, level=asked.level)

    return Estimate(
        tier=tier,
        of=of,
        samples=asked.samples,
        batch_size=asked.batch,
        epochs=asked.epochs,
        step=sized(step),
        epoch=sized((total - once) / asked.epochs),
        total=sized(total),
        memory=memory,
        parts=parts,
        terms=terms,
        limited_by=advice.limited_by(terms) if terms else "",
        helps=found,
        notes=notes,
        level=asked.level,
    )
