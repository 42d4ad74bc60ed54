"""Our fits to other people's networks on an A100, from their table of epochs: `python -m traintime.book.a100 runs.csv`.

Their table has no licence and is not in the repository. data/external/README.md says where it is and what the columns
of the result mean. The rule for disturbed epochs and the two batch sizes were fixed before any error was computed.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from traintime.explain import formula

SAMPLES = 50_000  # images of CIFAR-10's training set
NETWORK = ["depth", "base_filters"]
SIZES = [*NETWORK, "batch_size"]
DISTURBED = 1.2  # times the fastest epoch of the same network and batch size
TWO = (96, 768)  # batch sizes that every network has, eight times apart


def epochs(runs: pd.DataFrame) -> pd.DataFrame:
    """Every later epoch, in seconds, and whether it was disturbed; the first of each run compiles and does not count.

    runs: columns depth, base_filters, batch_size and epoch_times_json, a list of seconds.
    """
    later = runs.assign(epoch_s=[json.loads(times)[1:] for times in runs["epoch_times_json"]]).explode("epoch_s")
    later = later.astype({"epoch_s": float})
    fastest = later.groupby(SIZES)["epoch_s"].transform("min")
    return later.assign(disturbed=later["epoch_s"] > DISTURBED * fastest)


def line(rows: pd.DataFrame) -> np.ndarray:
    """Seconds per step and per sample. rows: batch_size and epoch_s of one network; a last, smaller batch is a step."""
    steps = np.ceil(SAMPLES / rows["batch_size"])
    seconds = (rows["epoch_s"] / steps).to_numpy()
    return formula.solve(formula.BATCH_LINE.design(pd.DataFrame({"batch": SAMPLES / steps})), seconds)


def errors(fitted: np.ndarray, rows: pd.DataFrame) -> np.ndarray:
    """Relative errors of a line at these batch sizes, without their sign."""
    predicted = np.ceil(SAMPLES / rows["batch_size"]) * fitted[0] + SAMPLES * fitted[1]
    return np.abs(predicted / rows["epoch_s"] - 1).to_numpy()


def fits(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each network: its two costs, and the errors where each batch size is predicted from all the others
    (left_out) and where all others are predicted from TWO (two).
    """
    result = []
    for network, later in epochs(runs).groupby(NETWORK):
        rows = later[~later["disturbed"]].groupby("batch_size", as_index=False)["epoch_s"].median()
        step, sample = line(rows)
        rest = [rows["batch_size"] != size for size in rows["batch_size"]]
        left_out = np.concatenate([errors(line(rows[others]), rows[~others]) for others in rest])
        of_two = rows["batch_size"].isin(TWO)
        two = errors(line(rows[of_two]), rows[~of_two])
        row = dict(zip(["depth", "filters"], network, strict=True))
        row |= {"epochs": len(later), "disturbed": later["disturbed"].sum(), "batches": len(rows)}
        row |= {"step_s": step, "sample_s": sample, "left_out_mean": left_out.mean(), "left_out_most": left_out.max()}
        result.append(row | {"two_mean": two.mean(), "two_most": two.max()})
    return pd.DataFrame(result)


if __name__ == "__main__":
    fits(pd.read_csv(Path(sys.argv[1]))).to_csv(sys.stdout, index=False, float_format="%.4g")
