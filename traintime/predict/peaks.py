"""How far predicted peaks of memory were off, by tier: of models drawn at random, predicted, and then trained (bench).

The points that the holdings are fitted to do not tell it: they are trained by the workers' own loop, and `fit` holds
more (samples, what a callback keeps), on other models, in a process that loaded more before. The misses tell it all.
`python -m traintime.predict.peaks` derives them from data/predicted (data/derived/peaks.csv); a test holds that the
file is what they give.
"""

import functools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from traintime import paths
from traintime.predict import record
from traintime.predict.answer import TIERS
from traintime.predict.prices import FEWEST, rms
from traintime.store import derived

OTHERS = "others"  # stacks that too few models were tried on: as far off as all that were


def by_stack(answers: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Tier, stack and the answers: of each of TIERS and stack with FEWEST models or more, and of all others."""
    for tier, of_tier in answers[answers["tier"].isin(TIERS)].groupby("tier"):
        stacks = [(str(stack), its) for stack, its in of_tier.groupby("stack") if len(its) >= FEWEST]
        for stack, its in [*stacks, (OTHERS, of_tier)]:
            yield str(tier), stack, its


def derive() -> pd.DataFrame:
    """A row for each tier and stack, as by_stack has them: columns tier, stack, error (root mean square of the
    logarithm of the peak seen over the one predicted), models.
    """
    rows = []
    for tier, stack, its in by_stack(record.tried("memory")):
        missed = np.log(its["seen"] / its["predicted"]).to_numpy()
        rows.append({"tier": tier, "stack": stack, "error": rms(missed), "models": len(its)})
    return pd.DataFrame(rows)


@functools.cache
def _stored() -> pd.DataFrame:
    return pd.read_csv(paths.DERIVED / "peaks.csv").set_index(["tier", "stack"])


def error(tier: str, stack: str) -> float:
    """Root mean square of the logarithm of a peak over what this tier predicts on this stack, or on the others."""
    rows = _stored()
    return float(rows.loc[(tier, stack if (tier, stack) in rows.index else OTHERS), "error"])


if __name__ == "__main__":
    derived.write("peaks", derive())
