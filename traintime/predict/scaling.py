"""From the training of a smaller model to that of a larger one: what the formula makes of the difference.

A model that is too large to try, or too slow, can be tried with fewer rows, positions, units or samples a step. A
formula that prices both is wrong about them in much the same way, so that its error mostly cancels in their quotient.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from traintime.predict import holdings
from traintime.predict.prices import BEHIND, FIXED, TERMS, Prices
from traintime.predict.training import Known

ALIKE = 0.2  # of the formula's error: what stays of it though both steps are made of the same terms in the same shares
CURVED = 0.05  # of a step: how far off the line through two batch sizes is, about, where it meets a batch of nothing


@dataclass(frozen=True)
class Step:
    """A step of the larger model: seconds that a batch pays however full it is, and the rest of a full one; error:
    standard deviation of the logarithm of their sum.
    """

    fixed: float
    full: float
    error: float

    @property
    def seconds(self) -> float:
        """Of a full batch."""
        return self.fixed + self.full


@dataclass(frozen=True)
class Scale:
    """What the smaller model's training is multiplied by.

    batch: samples a step that it is tried at; prices: by which it is scaled. Of its step, share: what a batch pays
    however full it is, by the prices; fixed, full: factors of that part and of the rest; apart: how far the shares of
    the terms differ within the two parts. Further factors: forward, of a forward pass; saved, of what is written;
    sample, of a sample's bytes. more_bytes: of the peak, beside the samples.
    """

    batch: int
    prices: Prices
    share: float
    fixed: float
    full: float
    apart: float
    forward: float
    saved: float
    sample: float
    more_bytes: float

    def step(self, seconds: float, line: float | None = None) -> Step:
        """The larger model's, from the smaller one's seconds. line: of these, what was seen to be paid however full a
        batch is, by a second batch size; it and the prices' opinion each count by how sure they are.
        """
        # Both parts' prices are off: so the logarithm of their quotient, which is the share's log-odds.
        unsure = math.sqrt(2) * self.prices.error * self.share * (1 - self.share)
        share = self.share
        if line is not None and unsure:
            weights = unsure**-2, CURVED**-2
            share = (weights[0] * share + weights[1] * line / seconds) / sum(weights)
            unsure = sum(weights) ** -0.5
        fixed, full = seconds * share * self.fixed, seconds * (1 - share) * self.full
        moved = abs(self.fixed - self.full) * seconds / (fixed + full) * unsure
        return Step(fixed, full, math.hypot(moved, self.prices.error * math.hypot(self.apart, ALIKE)))


def scale(small: Known, large: Known, batch: int, prices: Prices, there: int = 0) -> Scale:
    """From the one model's step to the other's. batch: samples a step of the smaller one; there: bytes of the larger
    one that this process holds already, which are in the peak that the smaller one is seen to have.

    Each term's price is off by about the formula's error, independently, so that a part of the step is off by as much
    as the shares of its terms differ between the two.
    """
    before, after = prices.parts(small.work), prices.parts(large.work)
    was, now = sum(before.values()), sum(after.values())
    fixed = _factor(before, after, FIXED)
    full = _factor(before, after, [term for term in TERMS if term not in FIXED])
    alike = {term: before[term] * (fixed if term in FIXED else full) for term in TERMS}
    passed = [term for term in TERMS if term not in BEHIND]
    held = holdings.of_stack(large.stack)
    return Scale(
        batch,
        prices,
        share=sum(before[term] for term in FIXED) / was,
        fixed=fixed,
        full=full,
        apart=math.hypot(*(after[term] - alike[term] for term in TERMS)) / now,
        forward=_factor(before, after, passed),
        saved=large.work.parameters / max(small.work.parameters, 1),
        sample=large.sample_bytes / small.sample_bytes if small.sample_bytes else 1.0,
        more_bytes=held.beyond_idle(large.work, large.how) - held.beyond_idle(small.work, small.how) - there,
    )


def _factor(before: Mapping[str, float], after: Mapping[str, float], terms: Iterable[str]) -> float:
    """How many times as much these terms are together; 1 where they are nothing."""
    was, now = (sum(parts[term] for term in terms) for parts in (before, after))
    return now / was if was else 1.0
