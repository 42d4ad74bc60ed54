"""From the training of a smaller model to that of a larger one: what the formula makes of the difference.

A model that is too large to try, or too slow, can be tried with fewer rows, positions, units or samples a step. A
formula that predicts both is wrong about them in much the same way, so that its error mostly cancels in their quotient.
To see what a batch pays however full it is, by a second batch size, and to scale that by itself was tried and made no
better answers (chapter 15): what the line through two leaves there is not the update alone, and grows tenfold with it.
"""

from dataclasses import dataclass

import numpy as np

from traintime.explain.memory import memory_model
from traintime.predict.answer import amount
from traintime.predict.prices import FIXED, TERMS, USUAL, Prices
from traintime.predict.request import ModelDescription
from traintime.workloads.base import FLOAT

ALIKE = 0.2  # of the formula's error: what stays of it though both steps are made of the same terms in the same shares
FRESH = 2**25  # bytes of a block beyond which glibc maps fresh pages whenever it is asked for one (M_MMAP_THRESHOLD)


@dataclass(frozen=True)
class Scale:
    """What the smaller model's training is multiplied by; by default it is the model itself.

    batch: samples a step that it is tried at, None for as many as are asked about; prices: by which it was scaled;
    step, forward, saved: factors of a step, of a forward pass and of what is written; more_s: seconds of a step beyond
    that; fixed: share of the larger step that a batch pays however full it is, None where that is seen; more_bytes: of
    the peak, without the samples; sample: factor of a sample's bytes; error: standard deviation of the logarithm of the
    step; notes: on that.
    """

    batch: int | None = None
    prices: Prices | None = None
    step: float = 1.0
    more_s: float = 0.0
    forward: float = 1.0
    saved: float = 1.0
    fixed: float | None = None
    more_bytes: float = 0.0
    sample: float = 1.0
    error: float = 0.0
    notes: tuple[str, ...] = ()


ITSELF = Scale()


def scale(small: ModelDescription, large: ModelDescription, batch: int, prices: Prices, present: int = 0) -> Scale:
    """From the one model's step to the other's. batch: samples a step of the smaller one; present: bytes of the larger
    one that this process holds already, which are in the peak that is measured of the smaller one.

    Each term's cost is off by about the formula's error, independently, so that the quotient is off by as much as the
    terms' shares of the two steps differ. Where the larger one alone may have fresh pages mapped for its activations at
    each step, as on JAX for those of a large softmax, nothing of the error cancels.
    """
    for model in (small, large):
        model.refuse_unpriced()
    before, after = prices.parts(small.work), prices.parts(large.work)
    was, now = sum(before.values()), sum(after.values())
    apart = float(np.linalg.norm([after[term] / now - before[term] / was for term in TERMS]))
    forward, memory = prices.step_s(small.forward), memory_model(large.stack)

    def held(one: ModelDescription) -> float:
        return memory.beyond_idle(one.work, one.how, one.frozen)

    few, many = (2 * one.work.activation_bytes for one in (small, large))
    fresh = large.allocator == USUAL and few < FRESH <= many
    # An update that fits into caches, in memory that is kept, tells nothing of one that does not.
    tables, own_s = [FLOAT * one.work.trained for one in (small, large)], 0.0
    if tables[0] < FRESH <= tables[1]:
        own_s = sum(seconds for term, seconds in after.items() if TERMS[term].part == "update")
    note = f"activations with their gradients grow from {amount(few)} to {amount(many)}: glibc may map fresh pages for "
    note += "them at each step, which the smaller model did not pay; a larger one would"
    return Scale(
        batch,
        prices,
        step=(now - own_s) / was,
        more_s=own_s,
        forward=prices.step_s(large.forward) / forward if forward else now / was,
        saved=large.work.parameters / max(small.work.parameters, 1),
        fixed=sum(after[term] for term in FIXED) / now,
        more_bytes=held(large) - held(small) - present,
        sample=large.sample_bytes / small.sample_bytes if small.sample_bytes else 1.0,
        error=prices.error * float(np.hypot(apart, 1.0 if fresh or own_s else ALIKE)),
        notes=(note,) if fresh else (),
    )
