"""What the book's machines took for each point, compared with what a formula expects of them: what a run is held
against: the derived table normal.csv.
"""

import functools
from pathlib import Path

import numpy as np
import pandas as pd

from traintime import paths
from traintime.explain import points
from traintime.point import Point
from traintime.predict import prices
from traintime.store import derived, records
from traintime.store.table import ALIKE, table

COLUMNS = ["machine", "stack", "key", "path", "step_s", "expected_s", "faults"]
FEWEST = 3  # points that tell how far a machine's stack lies off the others
NORMAL_SD = 1.4826  # median absolute deviation of a normal variable -> standard deviation


def measured(root: Path, machine: str) -> pd.DataFrame:
    """A row a point of one machine that ended well: stack, key, path, step_s, faults (pages a step), how it was run.

    Of a point that was measured in several ways that must not be pooled, the one whose code path is known, then the one
    with the most invocations, then the newest. Further columns: runs, disturbed (of these), others (processors that
    something else kept busy, at the most).
    """
    rows = table(root, machine)
    columns = ["stack", "key", "path", "step_s", "faults", "runs", "disturbed", "others"]
    ended = rows[rows["status"] == "ok"]
    if ended.empty:
        return pd.DataFrame(columns=columns)
    found = points.points(rows).dropna(subset="step_s")
    by = ended.groupby(ALIKE, dropna=False)
    counts = by.agg(faults=("faults_a_step", "median"), others=("others_cores", "max")).reset_index()
    found = found.merge(counts, on=ALIKE, how="left")
    path = found["path"].fillna("")
    found = found.assign(path=path, known=path != "", runs=found["invocations"])
    found = found.sort_values(["known", "runs", "started"], kind="stable")
    found = found.drop_duplicates(["stack", "key"], keep="last")
    return found[columns].sort_values(["stack", "key"], ignore_index=True)


def points_by_key(root: Path, machine: str) -> dict[str, Point]:
    """Each point of a machine by its key."""
    found = {}
    for path in records.files(root, machine):
        if not records.is_sentinel(path) and path.stem not in found:
            found[path.stem] = records.read(path).point
    return found


def titles() -> dict[str, str]:
    """What the book calls its machines, by their keys."""
    return pd.read_csv(paths.MEASUREMENTS / "machines.csv", index_col="machine")["title"].to_dict()


def derive() -> pd.DataFrame:
    """A row for each point of each machine that the book names (COLUMNS): seconds a step, and by the formula at the
    machine's own rates.
    """
    parts = []
    for machine, title in titles().items():
        rates, found = prices.own_rates(machine), points_by_key(paths.MEASUREMENTS, machine)
        rows = measured(paths.MEASUREMENTS, machine)
        rows = rows[rows["stack"].isin(prices.known())]
        expected = [
            prices.of_rates(title, rates, stack).step_s(found[key].work)
            for stack, key in zip(rows["stack"], rows["key"], strict=True)
        ]
        parts.append(rows.assign(machine=title, expected_s=expected)[COLUMNS])
    return pd.concat(parts, ignore_index=True)


@functools.cache
def stored() -> pd.DataFrame:
    """The derived table, with `beyond`: logarithm of what a step took over what the formula expects of its machine."""
    rows = derived.read("normal").fillna({"path": ""})
    return rows.assign(beyond=np.log(rows["step_s"] / rows["expected_s"]))


def of_point(stack: str, key: str, without: str = "") -> pd.DataFrame:
    """The book's machines at this point; without those whose code path nobody knows, where another's is known.

    without: a machine that is held against the others.
    """
    rows = stored()
    rows = rows[(rows["stack"] == stack) & (rows["key"] == key) & (rows["machine"] != without)]
    known = rows["path"] != ""
    return rows[known] if known.any() else rows


@functools.cache
def spread() -> tuple[float, float, int]:
    """How far the book's own machines lie off each other once the formula has allowed for their rates: standard
    deviations of logarithms, of a machine's whole stack and of its single points around that, and the degrees of
    freedom of the first.

    By medians, since one of them is known to be off (TensorFlow without oneDNN): it must not make normal wide.
    """
    rows = stored()
    shifts, around = [], []
    for (machine, _), mine in rows.groupby(["machine", "stack"]):
        books = [(one, of_point(one.stack, one.key, without=machine)) for one in mine.itertuples()]
        beyond = np.array([one.beyond - book["beyond"].median() for one, book in books if len(book)])
        if len(beyond) >= FEWEST:
            shifts.append(beyond.mean())
            around.extend(beyond - np.median(beyond))
    of_machine, of_points = (NORMAL_SD * float(np.median(np.abs(each))) for each in (shifts, around))
    return of_machine, of_points, rows["stack"].nunique()
