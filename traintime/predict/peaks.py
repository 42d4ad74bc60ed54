"""How far predicted peaks of memory were off, by tier: of models drawn at random, predicted, and then trained (bench).

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
from traintime.predict import versions
from traintime.predict.prices import FEWEST, rms

OTHERS = "others"  # stacks that too few models were tried on: as far off as all that were


def tried() -> pd.DataFrame:
    """A row for each peak that was predicted, seen, and not withdrawn: columns machine, stack, tier, started, version
    (of the predictor), predicted and seen (bytes; the first training's).
    """
    rows = []
    for path in sorted(paths.PREDICTED.glob("*.json")):
        for case in json.loads(path.read_text()):
            about = {name: case[name] for name in ("machine", "stack", "started")}
            about["version"] = case.get("predictor_version") or versions.at(case["started"])
            for tier, one in case["predicted"].items():
                if one["memory"] is not None:
                    rows.append(about | {"tier": tier, "foretold": one["memory"]["value"], "seen": case["peaks"][0]})
    gone = pd.read_csv(paths.PREDICTED / "withdrawn.csv").query("figure == 'memory'")
    found = pd.DataFrame(rows)
    keys = pd.MultiIndex.from_frame(gone[["machine", "started"]])
    return found[~pd.MultiIndex.from_frame(found[["machine", "started"]]).isin(keys)].reset_index(drop=True)


def derive() -> pd.DataFrame:
    """A row for each tier and stack with FEWEST models or more, and for the OTHERS: columns tier, stack, error (root
    mean square of the logarithm of the peak seen over the one predicted), models.
    """
    foretold = tried()
    # What a calibration foretold of memory in earlier versions says nothing of what it foretells now.
    foretold = foretold[(foretold["tier"] != "calibrated") | (foretold["version"] >= versions.MEMORY)]
    rows = []
    for tier, of_tier in foretold.groupby("tier"):
        stacks = [(str(stack), its) for stack, its in of_tier.groupby("stack") if len(its) >= FEWEST]
        for stack, its in [*stacks, (OTHERS, of_tier)]:
            missed = np.log(its["seen"] / its["foretold"]).to_numpy()
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
    derive().to_csv(paths.DERIVED / "peaks.csv", index=False, float_format="%.6g")
