"""What a chapter calls: measure on this machine, read what is stored, put numbers into the prose, say where from."""

import functools
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import Markdown, display

from traintime import allocators, cost, paths, plots, stacks, store, summary, sweep
from traintime.measure import Protocol
from traintime.point import make_point

RESULTS, PROFILE, PROGRESS = "TRAINTIME_RESULTS", "TRAINTIME_PROFILE", "TRAINTIME_PROGRESS"
VOCABULARIES = [5_000, 20_000, 80_000, 280_000, 800_000, 2_000_000]  # rows, of the full-size sweep


def results_folder(chapter: str, plans: list[sweep.Plan]) -> Path:
    """Where this run of the chapter keeps what it measures: a folder of its own for every kernel and every plan."""
    plan = hashlib.sha256(repr(plans).encode()).hexdigest()[:12]
    kernel = paths.ROOT / "_build" / "results" / chapter / f"kernel-{os.getpid()}"
    return Path(os.environ.get(RESULTS) or kernel) / plan


def run(chapter: str, sweeps: dict[str, dict[str, Any]], rounds: int, protocol: Protocol) -> pd.DataFrame:
    """Measure the sweeps on this machine, now, and return one row an invocation.

    sweeps: name -> fields of a point (lists are swept) and `stacks`. Stacks and allocators that this machine
    lacks are left out and named on the page. Called again in the same run of a chapter, it measures nothing twice.
    """
    plans = [
        sweep.Plan.from_profile(name, fields | {"rounds": rounds, "protocol": protocol.model_dump()})
        for name, fields in sweeps.items()
    ]
    missing = sorted({stack.name for plan in plans for stack in plan.stacks if not stack.present})
    for name in missing:
        display(Markdown(f"*{name} is not on this machine. To add it: `{stacks.get(name).add_command}`*"))
    for name in sorted({point.allocator for plan in plans for point in plan.points}):
        if not allocators.present(name):
            display(Markdown(f"*{name} is not on this machine. To add it: `{allocators.how_to_add(name)}`*"))
    root = results_folder(chapter, plans)
    log = os.environ.get(PROGRESS)

    def report(task: sweep.Task, progress: sweep.Progress, record: dict[str, Any] | None) -> None:
        if record is None or not log:
            return
        left = f"{progress.left_s:.0f} s left"
        with open(log, "a") as file:
            text = f"{progress.finished}/{progress.total} {task.stack.name} {task.point.key} {record['status']}, {left}"
            file.write(text + "\n")

    # The sentinel of the NumPy stack starts in a second, and every machine has it.
    sentinel = (make_point(vocabulary=20_000), stacks.get("numpy"))
    sweep.run(plans, root, report=report, sentinel=sentinel)
    return store.table(root)


def machines() -> dict[str, int]:
    """Number of stored points of each machine that has described itself and measured something."""
    described = sorted(path.parent.name for path in paths.MEASUREMENTS.glob("*/machine.json"))
    points = {name: len(list(store.files(paths.MEASUREMENTS, name))) for name in described}
    return {name: number for name, number in points.items() if number}


def reference_machine() -> str:
    """The machine with the most stored measurements: the one whose figures the book shows."""
    points = machines()
    return max(points, key=points.__getitem__)


@functools.cache
def stored_rows(machine_key: str, sentinel: bool = False) -> pd.DataFrame:
    """Every stored invocation of one machine ("" for the usual one), read once."""
    return store.table(paths.MEASUREMENTS, machine_key or reference_machine(), sentinel)


def stored(machine_key: str = "", **wanted: Any) -> pd.DataFrame:
    """Stored full-size measurements of one machine, one row a point (summary.points), filtered by equal fields.

    wanted: field=value or field=[values]; what is not wanted otherwise runs in the usual way (summary.USUAL), on
    the CPU. None asks for fields that were left out.
    """
    rows = stored_rows(machine_key)
    for name, value in ({"device": "cpu"} | summary.USUAL | wanted).items():
        values = value if isinstance(value, list) else [value]
        # A column of numbers and None holds NaN for None, which isin([None]) does not find.
        rows = rows[rows[name].isin(values) | (rows[name].isna() & (None in values))]
    return summary.points(rows)


def stored_on_gpus(**wanted: Any) -> pd.DataFrame:
    """Stored measurements on the GPU of any machine, as `stored`, whichever kernel ran the LSTM; empty without one."""
    wanted = {"device": "gpu", "cudnn": [None, True, False]} | wanted
    frames = [stored(name, **wanted) for name in machines()]
    return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)


def how(points: pd.DataFrame) -> pd.Series:
    """How the embedding is trained in each row: "frozen", or the optimizer's name."""
    return points["optimizer"].where(~points["frozen"].astype(bool), "frozen")


def ways(points: pd.DataFrame, vocabulary: int = 280_000) -> pd.Series:
    """What differs from Adam on a table of `vocabulary` rows: how it is trained, or how many rows it has."""
    rows = points["vocabulary"].map(lambda value: f"{plots.short(value)} rows")
    return how(points).where(points["vocabulary"] == vocabulary, rows)


def by_length(machine_key: str = "", batch: int = 100) -> pd.DataFrame:
    """The stored sweeps over sentence length, with `how` saying what differs; only lines of three lengths or more."""
    points = stored(machine_key, vocabulary=[1_000, 20_000, 280_000], batch=batch)
    points["how"] = ways(points)
    points = points[(points["vocabulary"] == 280_000) | (how(points) == "adam")]
    lengths = points.groupby(["stack", "how"])["length"].nunique()
    return points[[lengths[row.stack, row.how] > 2 for row in points.itertuples()]]


def exponents(points: pd.DataFrame, against: str, machine_key: str | None = None) -> pd.DataFrame:
    """Apparent exponent of a step in one size for each stack and `how`: value, interval, points, range of the size.

    machine_key: of stored points, whose invocations give the interval; None for points of this run, which have none.
    """
    rows = []
    for (stack, way), group in points.dropna(subset="step_s").groupby(["stack", "how"], sort=False):
        if len(group) < 2:
            continue
        group = group.sort_values(against)
        values = [np.array([v]) for v in group["step_s"]]
        if machine_key is not None:
            values = invocations(machine_key, group)
        value, low, high = cost.exponent(group[against].to_numpy(), values)
        ends = {"from": group[against].iloc[0], "to": group[against].iloc[-1], "points": len(group)}
        rows.append({"stack": stack, "how": way, "exponent": value, "low": low, "high": high} | ends)
    return pd.DataFrame(rows)


def ratios(
    points: pd.DataFrame, pairs: list[tuple[str, str]], against: str, machine_key: str = "", of: str = "stack"
) -> pd.DataFrame:
    """Mean step with one value of a field over that with another, with its interval, wherever all else is the same.

    pairs: (above, below), two values of the field `of`; against: the size to sort by. Columns above, below, ratio,
    low, high, stack and the sizes.
    """
    ran = points.dropna(subset="step_s")
    others = [name for name in ("stack", *summary.POINT_FIELDS) if name != of and ran[name].notna().all()]
    rows = []
    for above, below in pairs:
        both = ran[ran[of] == above].merge(ran[ran[of] == below], on=others, suffixes=("_above", "_below"))
        for _, row in both.sort_values(against).iterrows():
            keys = [row["key_above"], row["key_below"]]
            named = {"stack": [row.get("stack", above), row.get("stack", below)], "key": keys}
            one, two = invocations(machine_key, pd.DataFrame(named))
            low, high = summary.ratio_interval(one, two)
            ratio = {"above": above, "below": below, "ratio": one.mean() / two.mean(), "low": low, "high": high}
            rows.append(ratio | {name: row[name] for name in others})
    return pd.DataFrame(rows)


def intervened(points: pd.DataFrame, against: str = "vocabulary") -> pd.DataFrame:
    """The rows of those stacks on which every way of training was tried at two sizes or more, with a column `how`."""
    points = points.assign(how=how(points))
    points = points[points["how"].isin(["adam", "sgd", "frozen"])]
    sizes = points.groupby(["stack", "how"])[against].nunique().unstack(fill_value=0)
    return points[points["stack"].isin(sizes.index[(sizes > 1).all(axis=1)])]


def invocations(machine_key: str, points: pd.DataFrame) -> list[np.ndarray]:
    """Mean step (s) of each good stored invocation of each point, one array a row of `points`."""
    rows = stored_rows(machine_key)
    good = rows[rows["status"] == "ok"].groupby(["stack", "key"])["step_s"]
    return [good.get_group((row.stack, row.key)).to_numpy() for row in points.itertuples()]


def step_times(machine_key: str = "", sentinel: bool = False, **wanted: Any) -> list[tuple[str, np.ndarray, int]]:
    """Every single step of stored invocations: stack, seconds (the first step among them), steps that do not count.

    wanted: field=value of the point.
    """
    found = []
    for path in store.files(paths.MEASUREMENTS, machine_key or reference_machine()):
        if (path.parent.parent.name == store.SENTINEL) != sentinel:
            continue
        record = store.read(path)
        fields = record.point.model_dump()
        if any(fields[name] != value for name, value in (summary.USUAL | wanted).items()):
            continue
        for result in (invocation.result for invocation in record.invocations if invocation.result):
            timing = result.timing
            found.append((record.stack, np.array([timing.first_ns, *timing.steps_ns]) / 1e9, timing.warmup + 1))
    return found


def loops(stack: str, machine_key: str = "") -> pd.DataFrame:
    """Every stored call of the stack's own loop whose last step was told apart: sentences, seconds, idle_s."""
    records = map(store.read, store.files(paths.MEASUREMENTS, machine_key or reference_machine()))
    rows = [
        (loop.sentences, loop.ns / 1e9, (loop.ns - loop.trained_ns) / 1e9)
        for record in records
        for invocation in record.invocations
        if record.stack == stack and invocation.result
        for loop in invocation.result.loops
        if loop.trained_ns is not None
    ]
    return pd.DataFrame(rows, columns=["sentences", "seconds", "idle_s"])


def step_spread(machine_key: str = "", sentinel: bool = False, **wanted: Any) -> pd.Series:
    """Relative standard error of the mean step that each stored invocation's own steps would promise."""
    errors = []
    for _, seconds, skipped in step_times(machine_key, sentinel, **wanted):
        counted = seconds[skipped:]
        errors.append(counted.std(ddof=1) / counted.mean() / len(counted) ** 0.5)
    return pd.Series(errors)


def warm_up(machine_key: str = "", steps: int = 10, **wanted: Any) -> pd.DataFrame:
    """The first steps of stored invocations in units of their median counted step: medians, a column a stack."""
    curves: dict[str, list[np.ndarray]] = {}
    for stack, seconds, skipped in step_times(machine_key, **wanted):
        if len(seconds) >= steps:
            curves.setdefault(stack, []).append(seconds[:steps] / np.median(seconds[skipped:]))
    table = {stack: np.median(each, axis=0) for stack, each in curves.items()}
    return pd.DataFrame(table, index=pd.RangeIndex(1, steps + 1, name="step"))


def spread_of(rows: pd.DataFrame, value: str, by: list[str]) -> pd.DataFrame:
    """Mean of a value over invocations with its bootstrap interval, one row a group."""
    groups = rows.groupby(by, sort=False)[value]
    low_high = {name: summary.mean_interval(group.to_numpy()) for name, group in groups}
    intervals = pd.DataFrame.from_dict(low_high, orient="index", columns=["low", "high"])
    return pd.concat([groups.mean().rename("mean"), intervals.set_axis(groups.mean().index)], axis=1)


def lines(
    points: pd.DataFrame, machine_key: str = "", formula: cost.Formula = cost.STRAIGHT_LINE
) -> dict[tuple[str, str], cost.Fit]:
    """The formula fitted to each stack and way of training, where more points ran than it has coefficients."""
    fits = {}
    for name, rows in points.dropna(subset="step_s").groupby(["stack", "how"]):
        if len(rows) > len(formula.terms):
            redraw = cost.resampled(invocations(machine_key, rows))
            fits[name] = cost.fit(formula, rows, rows["step_s"].to_numpy(), redraw)
    return fits


def growth(points: pd.DataFrame) -> pd.DataFrame:
    """Slowest over fastest step among the vocabularies: a row a stack and how, with the smallest and the largest.

    Of the vocabularies that ran in every way of training on that stack, so that the rows can be compared.
    """
    rows = []
    ran = points.dropna(subset="step_s")
    ways = ran.groupby("stack")["how"].nunique()
    shared = ran.groupby(["stack", "vocabulary"])["how"].nunique()
    for name, group in ran.groupby(["stack", "how"], sort=False):
        keep = [shared[name[0], vocabulary] == ways[name[0]] for vocabulary in group["vocabulary"]]
        group = group[keep].sort_values("vocabulary")
        first, last = group.iloc[0], group.iloc[-1]
        row = {"stack": name[0], "how": name[1], "from (rows)": first["vocabulary"], "to (rows)": last["vocabulary"]}
        rows.append(row | {"times": group["step_s"].max() / group["step_s"].min()})
    return pd.DataFrame(rows).set_index(["stack", "how"]).round(2)


def noise_floor(machine_key: str = "") -> float:
    """The stored noise floor of a machine, from its sentinel."""
    return summary.noise_floor(stored_rows(machine_key, sentinel=True))


def described(machine_key: str = "") -> dict[str, Any]:
    """The stored description of a machine."""
    return json.loads((paths.MEASUREMENTS / (machine_key or reference_machine()) / "machine.json").read_text())


def top_end(points: pd.DataFrame, low: int = 280_000) -> pd.Series:
    """Seconds that each further row costs between `low` rows and the largest vocabulary that ran, by stack."""
    slopes = {}
    for stack, rows in points.dropna(subset="step_s").groupby("stack"):
        rows = rows[rows["vocabulary"] >= low].sort_values("vocabulary")
        if len(rows) > 1:
            slopes[stack] = np.diff(rows["step_s"].iloc[[0, -1]])[0] / np.diff(rows["vocabulary"].iloc[[0, -1]])[0]
    return pd.Series(slopes)
