"""All measurement files of a folder as one tidy table."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from traintime.store import code
from traintime.store.records import Invocation, Loop, Record, files, is_sentinel, read

BEFORE = ("fit_step_s", "fit_start_s", "fit_mean_s")
LOOPS = (*BEFORE, "fit_after_s", "fit_mean_after_s", "epoch_s", "epoch_idle_s")
TIMES = ("first_s", "step_s", "sd_s", "median_s", "min_s", "steps", *LOOPS)
MEASURED = ("parameters", *TIMES, "peak_bytes", "versions")
PAUSE = pd.Timedelta(minutes=30)  # within a sweep: what comes after is another stretch of it
# Two invocations of one point may be pooled only where all of these agree. told: whether the end of each loop's last
# step was told apart from that of the loop (missing where nothing but single steps was timed).
ALIKE = ["machine", "stack", "key", "threads", "versions", "code", "protocol", "path", "told"]


def table(root: Path, machine: str | None = None, sentinel: bool = False) -> pd.DataFrame:
    """One row an invocation: machine, stack, the point's fields, status, mean and median step (s), the steps' standard
    deviation (sd_s), peak memory.

    sentinel: the sentinels' rows instead of all others. Columns of a failed invocation that it has no value for
    are missing (NaN), never zero. Column `stretch`: see stretches.
    """
    rows = []
    for path in files(root, machine):
        if is_sentinel(path) == sentinel:
            record = read(path)
            rows += [row_of(record, invocation) for invocation in record.invocations]
    names = ["machine", "stack", "key", "status", "sweep", "round", "started"]
    table = pd.DataFrame(rows, columns=None if rows else names)
    table = table.assign(stretch=stretches(table))
    # Where nothing ended well the measured columns are there all the same, and empty.
    missing = [name for name in (*MEASURED, *ALIKE) if name not in table.columns]
    return table.assign(**dict.fromkeys(missing, float("nan")))


def stretches(table: pd.DataFrame) -> "pd.Series[str]":
    """The stretch of a sweep that each row belongs to: the machine, the sweep, and how often it had been resumed.

    What a stretch's runs share, whatever they train, differs as much from one of its own sweep as from another sweep's.
    """
    started = pd.to_datetime(table["started"]).sort_values(kind="stable")
    places = [table["machine"], table["sweep"]]
    resumed = started.groupby(places).diff().gt(PAUSE).groupby(places).cumsum().reindex(table.index)
    return table["machine"].astype(str) + " " + table["sweep"].astype(str) + " " + resumed.astype(str)


def row_of(record: Record, invocation: Invocation) -> dict[str, Any]:
    """One invocation as a row of the table; it takes the numbers of loops that a worker times for granted."""
    row: dict[str, Any] = {"machine": record.machine, "stack": record.stack, "key": record.key}
    row |= record.point.fields
    row |= {"sweep": invocation.sweep, "round": invocation.round, "started": invocation.started}
    # `threads` is how many there were; None in the point means as many as there are processors.
    row |= {"threads_asked": record.point.run.threads}
    row |= {"status": invocation.status, "threads": invocation.threads, "protocol": invocation.protocol.text}
    row |= {"code": code.same(invocation.code) or "", "disturbed": invocation.disturbed, "again": invocation.again}
    row |= {"fixed": invocation.protocol.fixed, "others_before": invocation.shared}
    row |= {"stolen_before_it_counted": invocation.stolen_before_it_counted}
    if invocation.result is not None:
        timing, result = invocation.result.timing, invocation.result
        steps = np.array(timing.steps_ns[timing.warmup :]) / 1e9
        evidence = result.evidence
        faults = np.nan if evidence.minor_faults is None else evidence.minor_faults
        row |= {
            "parameters": result.facts.parameters,
            "first_s": timing.first_ns / 1e9,
            "step_s": steps.mean(),
            "sd_s": steps.std(ddof=1) if len(steps) > 1 else np.nan,
            "median_s": np.median(steps),
            "min_s": steps.min(),
            "steps": len(steps),
            "peak_bytes": result.memory["peak"],
            "imported_bytes": result.memory["imported"],
            "faults_a_step": faults / (evidence.faults_steps or len(steps)),
            "others_cores": evidence.others_cores,
            # Of a step, until its batch was there (Keras 3 alone); processors that the process kept busy.
            "waited_s": np.nan if evidence.waited_s is None else evidence.waited_s / len(steps),
            "own_cores": (evidence.own_cpu_s or np.nan) / (evidence.seconds or np.nan),
            "path": result.facts.path.text,
            "versions": " ".join(f"{k} {v}" for k, v in sorted(result.facts.versions.items())),
        }
        if record.point.run.loop != "steps":
            row |= _loops(record, result.loops)
    return row


def _loops(record: Record, loops: list[Loop]) -> dict[str, float]:
    """Seconds of one more step of the framework's own loop and of starting it; with an epoch amid the loops its own.

    `fit_mean_s` is what a step of those loops took altogether, their starts shared out. A worker runs as many loops
    after the epoch as before it; `fit_after_s` and `fit_mean_after_s` are of those. Lines go through the times until
    the last step was done, or, where that was not recorded, until fit returned; `epoch_s` is until fit returned,
    `epoch_idle_s` of it after the last step (NaN where that was not recorded).
    """

    def line(short: list[Loop]) -> tuple[float, float, float]:
        steps = [loop.sentences / record.point.sizes.batch for loop in short]
        seconds = [(loop.ns if loop.trained_ns is None else loop.trained_ns) / 1e9 for loop in short]
        slope, start = np.polyfit(steps, seconds, 1)
        return float(slope), float(start), sum(seconds) / sum(steps)

    middle = len(loops) // 2 if record.point.run.loop == "epoch" else len(loops)
    row = dict(zip(BEFORE, line(loops[:middle]), strict=True))
    if record.point.run.loop == "epoch":
        epoch = loops[middle]
        idle_s = np.nan if epoch.trained_ns is None else (epoch.ns - epoch.trained_ns) / 1e9
        row["fit_after_s"], _, row["fit_mean_after_s"] = line(loops[middle + 1 :])
        row |= {"epoch_s": epoch.ns / 1e9, "epoch_idle_s": idle_s}
    return row | {"told": all(loop.trained_ns is not None for loop in loops)}
