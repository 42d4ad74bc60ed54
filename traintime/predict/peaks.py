"""How far foretold peaks of memory were off, by tier: of models drawn at random, predicted, and then trained (bench).

The points that the holdings are fitted to do not tell it: they are trained by the workers' own loop, and `fit` holds
more (samples, what a callback keeps), on other models, in a process that loaded more before. The misses tell it all.
`python -m traintime.predict.peaks` derives them from data/predicted (data/derived/peaks.csv); a test holds that the
file is what they give.
"""

import functools
import json

import numpy as np
import pandas as pd

from traintime import paths
from traintime.predict.prices import FEWEST, USUAL, rms

OTHERS = "others"  # stacks that too few models were tried on: as far off as all that were
# A calibration counts the samples as often as `fit` holds them, and starts from what a process here held, since these
# moments. What it foretold earlier says nothing of the first, and of the second what is left when the others of the
# same machine, stack and allocator have told the offset (`_based`). Since the third it sees what the very process holds
# that has the model, and the samples at the start of `fit`, and prices recurrent positions apart.
COPIES_SINCE, BASE_SINCE, LOADED_SINCE = "2026-11-23T07:48:48Z", "2026-11-24T20:30:00Z", "2026-11-25T05:30:00Z"


def tried() -> pd.DataFrame:
    """A row for each peak that was foretold, seen, and not withdrawn: columns machine, stack, allocator, tier, started,
    foretold and seen (bytes; the first training's).
    """
    rows = []
    for path in sorted(paths.PREDICTED.glob("*.json")):
        for case in json.loads(path.read_text()):
            about = {name: case[name] for name in ("machine", "stack", "started")}
            about["allocator"] = case.get("allocator", USUAL)
            for tier, one in case["predicted"].items():
                if one["memory"] is not None:
                    rows.append(about | {"tier": tier, "foretold": one["memory"]["value"], "seen": case["peaks"][0]})
    gone = pd.read_csv(paths.PREDICTED / "withdrawn.csv").query("figure == 'memory'")
    found = pd.DataFrame(rows)
    keys = pd.MultiIndex.from_frame(gone[["machine", "started"]])
    return found[~pd.MultiIndex.from_frame(found[["machine", "started"]]).isin(keys)].reset_index(drop=True)


def derive() -> pd.DataFrame:
    """A row for each tier and stack with FEWEST models or more, and for the OTHERS: columns tier, stack, error (root
    mean square of the logarithm of the peak seen over the one foretold), models.
    """
    found = tried()
    calibrated = found["tier"] == "calibrated"
    found = pd.concat([found[~calibrated], _based(found[calibrated])], ignore_index=True)
    rows = []
    for tier, of_tier in found.groupby("tier"):
        stacks = [(str(stack), its) for stack, its in of_tier.groupby("stack") if len(its) >= FEWEST]
        for stack, its in [*stacks, (OTHERS, of_tier)]:
            missed = np.log(its["seen"] / its["foretold"]).to_numpy()
            rows.append({"tier": tier, "stack": stack, "error": rms(missed), "models": len(its)})
    return pd.DataFrame(rows)


def _based(found: pd.DataFrame) -> pd.DataFrame:
    """Peaks of the tier calibrated, as if each had started from a base; on a stack with FEWEST that did, or that saw
    what their process held, those alone.

    The base of a model foretold before there was one is the median of what the others of its machine, stack and
    allocator were off by; a model that has no others is left out.
    """
    kept = [found.head(0)]
    for _, its in found.groupby("stack"):
        based = its[its["started"] >= BASE_SINCE]
        if ((loaded := its["started"] >= LOADED_SINCE).sum()) >= FEWEST:
            based = its[loaded]
        kept.append(based)
        if len(based) >= FEWEST:
            continue
        earlier = its[its["started"].between(COPIES_SINCE, BASE_SINCE, inclusive="left")]
        for _, alike in earlier.groupby(["machine", "allocator"]):
            off = alike["seen"] - alike["foretold"]
            base = [off.drop(place).median() for place in alike.index]
            kept.append(alike.assign(foretold=alike["foretold"] + base).dropna(subset="foretold"))
    return pd.concat(kept)


@functools.cache
def _stored() -> pd.DataFrame:
    return pd.read_csv(paths.DERIVED / "peaks.csv").set_index(["tier", "stack"])


def error(tier: str, stack: str) -> float:
    """Root mean square of the logarithm of a peak over what this tier foretells on this stack, or on the others."""
    rows = _stored()
    return float(rows.loc[(tier, stack if (tier, stack) in rows.index else OTHERS), "error"])


if __name__ == "__main__":
    derive().to_csv(paths.DERIVED / "peaks.csv", index=False, float_format="%.6g")
