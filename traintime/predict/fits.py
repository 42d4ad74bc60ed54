"""The predictor's constants on processors, fitted to the stored measurements of ordinary steps (costs.usable): each
stack's efficiency factors (data/derived/efficiencies.csv), and its memory model (holdings.csv).
"""

import importlib
from collections.abc import Iterable

import numpy as np
import pandas as pd

from traintime import paths
from traintime.explain import least_squares, memory, points
from traintime.explain.least_squares import Array
from traintime.explain.statistics import pooled_spread
from traintime.explain.terms import TERMS
from traintime.predict import record
from traintime.predict.costs import FEWEST, KEEPS, USUAL, design, own_rates, rms, usable
from traintime.store import derived
from traintime.store.records import Record
from traintime.store.table import table
from traintime.workloads.base import FLOAT


def solve(terms: Array, seconds: Array) -> Array:
    """Costs by non-negative least squares in relative error; terms: shape (steps, terms), seconds: (steps,). Of terms
    that are in proportion the first has the cost of all: else a processor's rounding would decide.
    """
    # Each term in units of its own largest value: operations and launches are nine orders of magnitude apart.
    scale = np.maximum(terms.max(axis=0), 1e-300)
    first = np.sort(np.unique(np.round(terms / scale, 9), axis=1, return_index=True)[1])
    found = np.zeros(terms.shape[1])
    found[first] = least_squares.solve(terms[:, first], seconds, scale=scale[first])
    return found


def left_out(terms: Array, seconds: Array, groups: Iterable[object]) -> Array:
    """Logarithm of measured over predicted for each step, from costs fitted to those of all other groups."""
    predicted = least_squares.left_out(terms, groups, lambda others: solve(terms[others], seconds[others]))
    return np.log(seconds / np.maximum(predicted, 1e-9))


def steps_s(record: Record) -> list[float]:
    """Mean step of each invocation that ended well and undisturbed, s."""
    results = [one.result for one in record.invocations if one.status == "ok" and not one.disturbed]
    timings = [result.timing for result in results if result]
    return [float(np.mean(timing.steps_ns[timing.warmup :])) / 1e9 for timing in timings]


def efficiencies() -> pd.DataFrame:
    """Efficiency factors of every stack that has enough points under an allocator, a row for each term.

    Columns: stack, allocator, term; efficiency: seconds of a step and a launch, else times the least possible; points,
    workloads, machines: what it was fitted to. Errors, each a root mean square of the logarithm of measured over
    predicted: error, of points that were left out; kinds, of whole workloads that were, each counted once however many
    points it has; elsewhere, of machines that were; repeat: of measuring again. Missing where there is nothing to
    leave out.
    """
    steps, repeats = [], {}
    for machine in sorted(path.name for path in paths.MEASUREMENTS.iterdir() if (path / "rates.json").exists()):
        least = np.array(list(own_rates(machine).least.values()))
        for (_, stack), spread in points.pooled_spreads(points.counted(table(paths.MEASUREMENTS, machine))).items():
            repeats.setdefault(stack, []).append(spread)
        for one in derived.measured(machine):
            stack, point, allocator = one.stack, one.point, one.point.run.allocator
            if allocator in (USUAL, KEEPS) and usable(point, allocator) and (each := steps_s(one)):
                pays = [not term.stacks or stack in term.stacks for term in TERMS.values()]
                terms = design([point.work])[0] * least * pays
                about = {"stack": stack, "allocator": allocator, "machine": machine, "workload": point.workload}
                steps.append(about | {"terms": terms, "seconds": np.mean(each)})
    rows = []
    for (stack, allocator), its in pd.DataFrame(steps).groupby(["stack", "allocator"]):
        if len(its) < FEWEST:
            continue
        terms, seconds = np.stack(list(its["terms"])), its["seconds"].to_numpy()
        degrees = sum(spread.degrees for spread in repeats[stack])
        about = {
            "points": len(its),
            "workloads": " ".join(sorted(its["workload"].unique())),
            "machines": its["machine"].nunique(),
            "error": rms(left_out(terms, seconds, range(len(its)))),
            "kinds": _of_kinds(terms, seconds, its["workload"]),
            "elsewhere": rms(_elsewhere(terms, seconds, its["machine"], its["workload"])),
            "repeat": np.sqrt(sum(each.degrees * each.sd**2 for each in repeats[stack] if each.degrees) / degrees),
        }
        rows += [
            {"stack": stack, "allocator": allocator, "term": term, "efficiency": efficiency} | about
            for term, efficiency in zip(TERMS, solve(terms, seconds), strict=True)
        ]
    return pd.DataFrame(rows)


def _of_kinds(terms: Array, seconds: Array, workloads: "pd.Series[str]") -> float:
    """Root mean square over the kinds, each one number, of what each is missed by when it is left out; NaN for fewer
    than three kinds, or too few points of the others.
    """
    counts = workloads.value_counts()
    if len(counts) < 3 or len(workloads) - counts.max() < FEWEST:
        return np.nan
    errors = pd.Series(left_out(terms, seconds, workloads), workloads.index)
    return rms(errors.groupby(workloads).agg(rms).to_numpy())


def _elsewhere(terms: Array, seconds: Array, machines: "pd.Series[str]", workloads: "pd.Series[str]") -> Array:
    """As left_out by machine, for the steps whose workload another machine has trained too."""
    trained = machines.groupby(workloads).agg(set)
    # A machine whose others trained less than it did would be left with efficiencies that nothing has determined.
    most = max(sorted(machines.unique()), key=lambda machine: sum(machine in its for its in trained))
    chosen = ((workloads.map(trained.map(len)) > 1) & (machines != most)).to_numpy()
    return left_out(terms, seconds, machines)[chosen] if chosen.any() else np.empty(0)


def memory_models() -> pd.DataFrame:
    """A row for each stack with points under Adam, glibc, on a CPU: columns as memory.MemoryModel's fields, and points.
    Where only models with recurrent layers were measured, one cost is for all that is kept. The workers' own loop does
    not tell how far off peaks of `fit` are (record.peak_error). Encoders test it: torch keeps none of their scores.
    """
    found, parts = [], ["runtime", "copies", "kept", "more"]
    for one in derived.measured():
        peaks = [each.result.memory["peak"] for each in one.invocations if each.status == "ok" and each.result]
        if peaks and usable(one.point) and one.point.sizes.how == memory.ADAM and one.point.workload != "encoder":
            work, sizes = one.point.work, one.point.sizes
            data = importlib.import_module(f"traintime.workloads.{one.point.workload}.data")
            sample = data.samples(sizes.model_dump(), 1, np.random.RandomState(0))
            # The batches that a worker holds all the time, which are not the model's.
            ready = memory.READY * sizes.batch * sum(array.nbytes for array in sample)
            row = {"stack": one.stack, "peaks": peaks, "ready": ready, "loop": work.recurrent_bytes > 0, "runtime": 1}
            row |= {"copies": FLOAT * work.parameters, "kept": work.activation_bytes}
            found.append(row | {"more": work.activation_bytes - work.recurrent_bytes})
    rows = []
    for stack, its in pd.DataFrame(found).groupby("stack"):
        # What others hold, they hold beyond the recurrent ones' cost: few of them do not come out at nothing then.
        design = np.array(its.assign(more=0 if its["loop"].all() else its["more"])[parts], float, order="C")
        idle, seen = memory.idle_bytes(stack), its["peaks"].map(np.median).to_numpy(float)
        before = idle + its["ready"].to_numpy(float)
        held, by_others = memory.told_apart(design, np.maximum(seen - before, 1.0), seen)
        error = max(rms(np.log(seen / (before + by_others))), record.peak_error("formula", stack))
        runtime, copies, recurrent, more = map(float, held)
        row = {"stack": stack, "idle": idle, "runtime": runtime, "copies": copies, "kept": recurrent + more}
        row |= {"recurrent": recurrent, "error": error, "repeat": pooled_spread(its["peaks"]).sd}
        rows.append(row | {"points": len(its)})
    return pd.DataFrame(rows)
