"""What one tier knows of a training, and the estimate that follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from traintime.explain.statistics import Interval
from traintime.explain.terms import by_part
from traintime.predict import advice, durations, record
from traintime.predict.advice import PricedWork
from traintime.predict.answer import SURE, WAIT, Estimate, around, lasting
from traintime.predict.request import Request
from traintime.workloads.base import FLOAT32

FAR = 0.99  # level of the interval around the formula's step: what takes longer is spent on something else
CURE = (
    "A Dataset whose pipeline is not tuned does not: options = tf.data.Options(); options.autotune.enabled = False; "
    "dataset = dataset.with_options(options)"
)


@dataclass(frozen=True)
class Evidence:
    """What one tier knows of the training that is asked about.

    tier: its name (answer.TIERS); source: whose costs, or what was probed; step_s: seconds of a step; errors: of the
    logarithm of all times, each (standard error, degrees of freedom); parts: seconds of the whole training by what they
    are spent on; peak_bytes: peak memory of the process (on a GPU: of its memory), None where nobody can tell;
    peak_error: standard deviation of its logarithm; priced: what the step is spent on, None where the model's work is
    unknown; notes: what the reader may want to know; warnings: why it may be wrong; sleeps: whether `fit` may sleep
    after an epoch (tf_data_end); stack: whose earlier answers tell how often such a one is right
    (predict.record), "" where nobody's do; wait_s: seconds of a step that it waits for data.
    """

    tier: str
    source: str
    step_s: float
    errors: tuple[tuple[float, float], ...]
    parts: Mapping[str, float] = field(hash=False)
    peak_bytes: float | None
    peak_error: float
    priced: PricedWork | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sleeps: bool = False
    stack: str = ""
    wait_s: float = 0.0

    def warned(self, *warnings: str) -> "Evidence":
        """The same, with warnings before its own."""
        return replace(self, warnings=(*warnings, *self.warnings))

    def after(self, *notes: str) -> "Evidence":
        """The same, with notes before its own: why it is this tier's."""
        return replace(self, notes=(*notes, *self.notes))


def conclude(request: Request, evidence: Evidence) -> Estimate:
    """The estimate of what is asked that follows from a tier's evidence."""

    def interval(seconds: float) -> Interval:
        return around(seconds, *evidence.errors, level=request.level)

    total_s, notes, warnings = sum(evidence.parts.values()), evidence.notes, evidence.warnings
    once_s = evidence.parts.get("first step", 0.0) + evidence.parts.get("saving", 0.0)
    epoch, total = interval((total_s - once_s) / request.epochs), interval(total_s)
    peak = evidence.peak_bytes
    terms, limited_by, helps = None, "", ()
    if (priced := evidence.priced) is not None:
        # How large which term is, is the prices' opinion; how long they take together, the tier may have seen.
        by_formula = sum(priced.terms.values())
        waits_s = min(evidence.wait_s, evidence.step_s)
        computes_s = evidence.step_s - waits_s
        if computes_s > around(by_formula, (priced.prices.error, SURE), level=FAR).high:
            told = f"{lasting(computes_s)} a step, of which it makes {lasting(by_formula)}"
            limited_by = f"the formula does not explain this: {told}"
        else:
            terms = {part: seconds * computes_s / by_formula for part, seconds in by_part(priced.terms).items()}
            terms |= {WAIT: waits_s} if waits_s else {}
            limited_by = advice.limited_by(terms)
            helps = advice.helps(priced, request.batch, waits_s / evidence.step_s)
            if priced.model.dtype == FLOAT32:
                notes += (advice.PRECISION,)
    came = record.of(evidence.tier) if evidence.stack else None
    if came:
        notes += (came.sentence,)
        warnings += came.beyond(total_s)
    parts = dict(evidence.parts)
    # An epoch that takes as long as it may can end after a pause that the expected one does not meet.
    longest_s = tf_data_end(epoch.high) - epoch.high if evidence.sleeps else 0.0
    if longest_s >= 0.01 * epoch.value:
        slept, trainings = record.slept()
        expected_s = tf_data_end(epoch.value) - epoch.value
        sleep_s = slept / trainings * expected_s
        parts["sleep after epochs"] = request.epochs * sleep_s
        epoch = Interval(epoch.value + sleep_s, epoch.low, epoch.high + longest_s)
        total = Interval(sum(parts.values()), total.low, total.high + request.epochs * longest_s)
        often = (
            f"{slept} of {trainings} trainings that we timed did, and {durations.text(sleep_s)} an epoch are counted"
        )
        most = durations.text(max(expected_s, longest_s))
        notes += (f"`fit` may sleep up to {most} after an epoch, on TensorFlow: {often}. {CURE}",)
    return Estimate(
        tier=evidence.tier,
        of=evidence.source,
        samples=request.samples,
        batch_size=request.batch,
        epochs=request.epochs,
        step=interval(evidence.step_s),
        epoch=epoch,
        total=total,
        memory=None if peak is None else around(peak, (evidence.peak_error, SURE), level=request.level),
        parts=parts,
        terms=terms,
        limited_by=limited_by,
        helps=helps,
        notes=notes,
        record=came.brief if came else "",
        level=request.level,
        warnings=warnings,
        deadline_s=request.deadline_s,
        memory_limit=request.memory_limit,
    )


def tf_data_end(seconds: float) -> float:
    """Seconds after which Keras 3's `fit` over arrays returns on TensorFlow, given what its steps take together.

    The input pipeline ends only when the thread that tunes it wakes: after 10 ms, then after pauses that double, up
    to a minute each. It does so now and then: a race. Whoever cancels wakes the thread, and sets afterwards what it
    looks at. Source: TensorFlow, core/framework/model.h, kOptimizationPeriodMinMs and -MaxMs (2.21); model.cc,
    OptimizeLoop; cancellation.cc, StartCancel.
    """
    pause, end = 0.01, 0.0
    while end < seconds:
        end += pause
        pause = min(2 * pause, 60.0)
    return end
