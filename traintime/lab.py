"""What a chapter computes with: stored runs, what they have in common, intervals, verdicts, a timer.

    machines()                                                           what each is, and how many runs it has
    swept = runs("machine B", vocabulary=280_000, batch=[128, 1024])     a row per run
    steps(swept, "batch")                                                seconds per step: a row per stack
    gain = interval(same_rounds(swept, "batch"), "batch", lambda t: 8 * t[128] / t[1024])
    judge("batch-size.2", "1,024 sentences are faster than 128.", between(gain, 1, 8))
    time_step(model, x, y)                                               seconds per step, here

The stored runs are data/derived/runs.csv, which `make derived` makes of all measurement files. A folder of your own
under data/measurements (`make measure` makes one) is a machine of that name.
"""

import contextlib
import functools
import re
import symtable
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import IPython
import numpy as np
import pandas as pd
from IPython.display import display

from traintime import paths, workloads
from traintime.errors import InputError, unknown
from traintime.explain import points
from traintime.explain.statistics import Estimated, Spread, Steps
from traintime.measuring.machine import described, pooled_rates, rated
from traintime.point import Run, fields
from traintime.store import derived, records
from traintime.store.table import table

VERDICT = "application/vnd.traintime.verdict+json"  # of an executed notebook's outputs, those of `judge`
WORDS = {True: "holds", False: "does not hold", None: "inconclusive"}
FEW = 3  # values that a verdict shows all of; of more it shows the one that decides


class NotMeasured(LookupError):
    """The machine has no run of what a cell asks for.

    A notebook goes on after a cell that raises it, or that lacks its framework. The names that the cell would have
    given are taken away, as after an InputError, so that no later cell computes with what an earlier one had left
    there; a cell that needs one of them is not measured, too.
    """


FRAMEWORKS = ("keras", "tensorflow", "theano", "torch", "jax")  # a cell that times on this machine may lack its own
gone: set[str] = set()  # the names that were taken away


def given_by(code: str, imported: bool) -> set[str]:
    """The names to which a cell gives a value; not functions, which need no runs. imported: whether imports count."""
    symbols = symtable.symtable(code, "cell", "exec").get_symbols()
    given = {one for one in symbols if one.is_assigned() or (imported and one.is_imported())}
    return {one.get_name() for one in given if not one.is_namespace()}


def _take_away(ended: Any) -> None:
    """After a cell that ended in an error of ours, or that lacks its framework, the names that it gives."""
    error = ended.error_in_exec
    lacks = isinstance(error, ModuleNotFoundError) and error.name in FRAMEWORKS
    if lacks or isinstance(error, NotMeasured | InputError) or (isinstance(error, NameError) and error.name in gone):
        lost = given_by(IPython.get_ipython().transform_cell(ended.info.raw_cell), lacks)
        gone.update(lost)
        for name in lost:
            IPython.get_ipython().user_ns.pop(name, None)


# What tables, figures and verdicts call a software stack, by the name that its runs are stored under.
NAMES = {
    "2017-theano": "Theano 0.9",
    "2017-tensorflow": "TensorFlow 1.1",
    "2020-theano": "Theano-PyMC",
    "2020-tensorflow": "TensorFlow 1.15",
    "2026-tensorflow": "TensorFlow 2.21",
    "2026-jax": "JAX",
    "2026-torch": "torch",
    "numpy": "NumPy",
}


def in_words(text: str) -> str:
    """The text with NAMES in the place of what runs are stored under, and a colon between a version and a value."""
    stored = rf"\b({'|'.join(NAMES)})\b( (?=[-+−]?\d))?"
    return re.sub(stored, lambda found: NAMES[found[1]] + (": " if found[2] else ""), text)


def _as_html(frame: pd.DataFrame) -> str:
    """A frame as notebooks show it: software in words, and an empty cell where a value is missing."""
    return re.sub("<td>(&lt;NA&gt;|NaN)</td>", "<td></td>", in_words(frame._repr_html_()))


if shell := IPython.get_ipython():
    shell.events.register("post_run_cell", _take_away)
    shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, _as_html)


# Stored runs


def machines() -> pd.DataFrame:
    """What each machine with stored runs is, and how many count: those of the book, then the reader's own folders."""
    rows = {name: described(paths.MEASUREMENTS / folder) for name, folder in _folders().items()}
    columns = ["cpu", "family", "model", "stepping", "cores", "memory_bytes"]
    found = pd.DataFrame.from_dict(rows, orient="index").reindex(columns=columns)
    found["memory_gib"] = (found.pop("memory_bytes") / 2**30).round()
    found["gpus"] = [", ".join(gpu["name"] for gpu in row.get("gpus", [])) for row in rows.values()]
    return found.assign(runs=[len(_stored(name)[0]) for name in rows]).convert_dtypes()


def _folders() -> dict[str, str]:
    """The folder of each machine's measurements, by its name."""
    of_book = derived.read("runs").groupby("machine", sort=False)["folder"].first().to_dict()
    stored = (path.relative_to(paths.MEASUREMENTS) for path in records.files(paths.MEASUREMENTS))
    own = dict.fromkeys(path.parts[0] for path in stored if not records.is_sentinel(path))
    return of_book | {each: each for each in own if each not in of_book.values()}


late = False  # whether runs count, too, that counted before a rule which is younger than they (verdicts.judged)


def _stored(machine: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All runs of a machine that count, and the run-to-run error of its stacks."""
    return _read(machine, late)


@functools.cache
def _read(machine: str, late: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    found, spreads, folders = derived.read("runs"), derived.read("spreads"), _folders()
    if machine in set(found["machine"]):
        found = found[(found["machine"] == machine) & (late | ~found["late"])]
        return found, spreads[spreads["machine"] == folders[machine]]
    if machine not in folders:
        raise unknown("machine", machine, folders)
    rows = table(paths.MEASUREMENTS, machine)
    return points.that_count(rows).assign(folder=machine), points.derive_spreads(rows)


def runs(machine: str, workload: str = "rnn", **sizes: Any) -> pd.DataFrame:
    """The stored runs of a machine, a row each: its sizes, `median_s` and `step_s` (median and mean step, seconds).

    sizes: fields of a configuration and `stack`: a value, a list of values, or `...` for any. A field that is not named
    has its usual value (a stack: any), so that nothing differs that nobody thought of. Raises InputError for an unknown
    machine, workload or field; NotMeasured where there is no such run. A warning names what of a list no machine has
    in any run of the workload: chapters ask for more than each of them has.
    """
    found = _chosen(_stored(machine)[0], workload, sizes)
    if found.empty:
        asked = "".join(f", {name} {'any' if value is ... else value}" for name, value in sizes.items())
        others = ", ".join(_chosen(derived.read("steps"), workload, sizes)["machine"].unique()) or "no machine"
        raise NotMeasured(f"{machine} has no run of {workload}{asked}; measured on: {others}")
    if lacking := _lacking(found, sizes):
        everywhere = _lacking(derived.read("steps").query("workload == @workload"), sizes)
        if nowhere := [each for each in lacking if each in everywhere]:
            warnings.warn(f"no machine has a run of {workload} with {', '.join(nowhere)}: left out", stacklevel=2)
    return found


def _lacking(found: pd.DataFrame, sizes: dict[str, Any]) -> list[str]:
    """What of the lists of sizes none of these runs has."""
    lists = {name: values for name, values in sizes.items() if isinstance(values, list | tuple)}
    pairs = [(name, one) for name, values in lists.items() for one in values]
    return [f"{name} {one}" for name, one in pairs if not _among(_column(found, name), [one]).any()]


def configurations(machine: str, workload: str = "rnn", **sizes: Any) -> pd.DataFrame:
    """What a machine of the book has measured, a row for each stack and configuration: its sizes; `step_s`, `low_s`,
    `high_s`, a step by medians with its interval (seconds); `mean_s`, `mean_low_s`, `mean_high_s`, the same by means,
    of which an epoch is made; runs, how many. Without a row where there is none. sizes: as for `runs`.
    """
    found = derived.read("steps")
    return _chosen(found[found["machine"] == machine], workload, sizes)


def _chosen(found: pd.DataFrame, workload: str, sizes: dict[str, Any]) -> pd.DataFrame:
    """Of the rows those with these sizes, and usual values where no size is named. Raises InputError."""
    of_workload = {**workloads.get(workload).model_fields, **Run.model_fields}
    usual = {name: field.default for name, field in of_workload.items()} | {"stack": ...}
    if strange := sizes.keys() - usual.keys():
        raise unknown("size", min(strange), sorted(usual))
    for name, value in {"workload": workload, **usual, **sizes}.items():
        column = _column(found, name)
        if value is not ... and column is not None:
            found = found[_among(column, [value] if value is None or np.isscalar(value) else list(value))]
    return found


def _column(found: pd.DataFrame, name: str) -> "pd.Series[Any] | None":
    """What runs were asked to have in a field; None where all have its usual value."""
    return found.get("threads_asked" if name == "threads" else name)


def _among(column: "pd.Series[Any]", values: list[Any]) -> "pd.Series[bool]":
    return column.isin(values) | (column.isna() & (None in values))


def every_run(machine: str, sentinel: bool = False) -> pd.DataFrame:
    """Every run of a machine that ended well and undisturbed, older code's among them; columns as of store.table.

    sentinel: those of the one configuration that each sweep repeats on each stack, instead of all others.
    """
    found = _measured(_stored(machine)[0]["folder"].iloc[0], sentinel).assign(protocol="")
    return points.counted(points.before_the_rule(found) if late else found)


@functools.cache
def _measured(folder: str, sentinel: bool) -> pd.DataFrame:
    return table(paths.MEASUREMENTS, folder, sentinel)


def rates(machine: str) -> dict[str, Any]:
    """What `traintime machine` measured: `bandwidth_bytes_per_s` and `matmul_flop_per_s` (float32), medians over all
    times, and each repeat, `bandwidth_repeats` and `matmul_repeats`. Raises NotMeasured where nobody measured them.
    """
    if not (times := rated(paths.MEASUREMENTS / _stored(machine)[0]["folder"].iloc[0])):
        raise NotMeasured(f"the rates of {machine} were not measured")
    return pooled_rates(times)


def steps(found: pd.DataFrame, by: str, value: str = "median_s") -> pd.DataFrame:
    """Seconds per step: a row per stack, a column per value of `by`; NaN where a stack has no run.

    value: median_s, the geometric mean of the runs' medians, by which two things are compared; step_s, the arithmetic
    mean of all steps, of which an epoch is made; peak_bytes, the geometric mean of the runs' peaks.
    """
    groups = [found["stack"], found[by]]
    if value == "step_s":
        return found[value].groupby(groups).mean().unstack()
    return np.exp(np.log(found[value]).groupby(groups).mean()).unstack()


def same_rounds(found: pd.DataFrame, by: str, *values: Any, each: str = "stack") -> pd.DataFrame:
    """The runs of those rounds of a sweep that measured all of these values of `by`: only they are compared.

    values: all that there are if none is named; each: within what they must share a round. Raises NotMeasured where no
    round did.
    """
    wanted = set(values or found[by].unique())
    found = found[found[by].isin(wanted)]
    found = found[found.groupby(["folder", each, "sweep", "round"])[by].transform("nunique") == len(wanted)]
    if found.empty:
        all_of = f"{by} {', '.join(map(str, sorted(wanted)))} together" if wanted else f"any {by}: there are no runs"
        raise NotMeasured(f"no round has measured {all_of}")
    return found


# What may be said of them


def interval(
    found: pd.DataFrame,
    by: str | list[str],
    function: Callable[[pd.DataFrame], Any],
    value: str = "median_s",
    each: str | list[str] = "stack",
) -> pd.DataFrame:
    """A function of steps with its 95 % interval: columns value, low, high, degrees (of freedom); a row per stack.

    The interval has the run-to-run error of the stack, and what differs between sweeps as far as it does not cancel
    (explain.statistics.Steps). by: the field or fields in which the steps differ; function: of a frame of seconds as
    `steps` gives it, a column per value of these, it gives a number per row; value: as for `steps`; each: what has a
    row of its own, a field or several. A row for which the function finds a step missing (KeyError) is left out. Raises
    NotMeasured where all are, InputError where runs of one step differ in more than `by`.
    """
    rows: dict[Any, dict[str, float]] = {}
    step: dict[Any, pd.DataFrame] = {}
    for name, group in found.groupby(each):
        step = dict(list(group.groupby(by)))
        if mixed := [runs for runs in step.values() if len(runs[["stack", "key"]].drop_duplicates()) > 1]:
            asked = mixed[0].rename(columns={"threads": "", "threads_asked": "threads"})
            asked = asked[asked.columns.intersection(["stack", "workload", *fields()])]
            problem = f"pools runs that differ in {', '.join(asked.columns[asked.nunique(dropna=False) > 1])}"
            raise InputError("by", by, problem, "Name that in by= or each=, or choose fewer runs.")
        spreads = [_spread(runs["machine"].iloc[0], runs["stack"].iloc[0], value) for runs in step.values()]
        series = [points.runs(runs.assign(machine=runs["folder"]), value) for runs in step.values()]
        index = pd.MultiIndex.from_tuples(step, names=by) if isinstance(by, list) else pd.Index(step, name=by)

        def of_frame(seconds: np.ndarray, index: pd.Index = index) -> Any:
            drawn = np.asarray(function(pd.DataFrame(seconds.reshape(len(index), -1).T, columns=index)))
            return drawn if seconds.ndim > 1 else drawn[0]

        with contextlib.suppress(KeyError):  # a step that the function needs is missing
            sure = Steps(series, spreads, points.between()).interval(of_frame, arithmetic=value == "step_s")
            rows[name] = {"value": sure.value, "low": sure.low, "high": sure.high, "degrees": sure.degrees}
    if not rows:
        raise NotMeasured(f"no {each} has all steps that the function needs; there are {sorted(step)}")
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(each)


def _spread(machine: str, stack: str, value: str) -> Spread:
    """Run-to-run error of one of a machine's stacks."""
    of_machine = _stored(machine)[1]
    found = of_machine[(of_machine["stack"] == stack) & (of_machine["value"] == value)]
    (row,) = found[found["late"] == late].itertuples()
    return Spread(row.sd, row.degrees)


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds (None where noise hides it), and the figure that decides, as text."""

    holds: bool | None
    figure: str = ""

    def __str__(self) -> str:
        return WORDS[self.holds]

    def __and__(self, other: "Verdict") -> "Verdict":
        """Both at once: it holds where each does."""
        parts = self.holds, other.holds
        holds = False if False in parts else None if None in parts else True
        return Verdict(holds, f"{self.figure}; {other.figure}")


def between(found: pd.DataFrame, low: float = -np.inf, high: float = np.inf, spec: str = ".2f") -> Verdict:
    """Whether every interval lies between two limits.

    One that lies outside refutes it, although it is one of several (Interval.one_of). spec: how a figure is written.
    Raises InputError where `found` has no columns as `interval` gives them, NotMeasured where it has no row.
    """
    if lacking := {"value", "low", "high", "degrees"} - {*getattr(found, "columns", ())}:
        problem, remedy = f"has no column {', '.join(sorted(lacking))}", "Pass a frame as lab.interval gives it."
        raise InputError("found", type(found).__name__, problem, remedy)
    if found.empty:
        raise NotMeasured("no interval is left to judge")
    intervals = {row.Index: Estimated(row.value, row.low, row.high, row.degrees) for row in found.itertuples()}
    inside = [low < one.low and one.high < high for one in intervals.values()]
    wide = {name: one.one_of(len(intervals)) for name, one in intervals.items()}
    refuting = [name for name, one in wide.items() if one.high < low or one.low > high]
    holds = False if refuting else True if all(inside) else None
    texts = [f"{name} {one.text(spec)}" for name, one in intervals.items()]
    if len(texts) > FEW:
        named = ((name, intervals[name]) for name in refuting or intervals)
        margins = {name: np.nan_to_num(min(one.low - low, high - one.high)) for name, one in named}
        deciding = min(margins, key=margins.__getitem__)
        how = "farthest" if refuting else "closest"
        texts = [f"{deciding} {intervals[deciding].text(spec)}, the {how} of {len(intervals)}"]
    return Verdict(holds, "; ".join(texts))


def judge(claim: str, sentence: str, verdict: Verdict, source: str = "ours", on: str = "") -> None:
    """Show a verdict, and keep it in the executed notebook, where the page of claims finds it.

    claim: its label; source: who claims it ("S0, C3": the third claim of source S0); on: where it rests on one
    machine's runs alone, whatever machine the notebook is run on, the name of that machine; where it needs no runs,
    "published figures" or "arithmetic". A claim may be judged twice, on one of these and on the notebook's machine.
    Raises InputError for what is no Verdict.
    """
    if not isinstance(verdict, Verdict):
        raise InputError("verdict", verdict, "is no lab.Verdict", "Pass lab.between(…), or lab.Verdict(holds, figure).")
    sentence = " ".join(sentence.split())  # it may fill several lines
    said = f"**{verdict}**: {sentence} ({in_words(verdict.figure)})"
    kept = {"claim": claim, "sentence": sentence, "source": source, "on": on}
    kept |= {"verdict": str(verdict), "figure": verdict.figure}
    display({"text/plain": said.replace("*", ""), "text/markdown": said, VERDICT: kept}, raw=True)


# A step, here


def time_step(model: Any, x: Any, y: Any, count: int = 20, warm_up: int = 9) -> float:
    """Seconds per training step of a Keras model, on whichever backend and device it runs: a median.

    One call of train_on_batch is apart, as the framework compiles in it, and `warm_up` more do not count; of the next
    `count` the median is taken, which a single slow step does not move. x, y: one batch.
    """
    seconds = []
    for _ in range(1 + warm_up + count):
        start = time.perf_counter()
        model.train_on_batch(x, y)  # gives the loss as a number: a GPU has done all that it needs
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds[1 + warm_up :]))
