"""Measurements as chapters ask for them: of a stored machine or of this run, usual values for what is not asked.

A chapter's prose is written against the reference machine; claims are evaluated on each (traintime/book/claims.py).
"""

import csv
import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from traintime import paths, workloads
from traintime.book import kept
from traintime.errors import InputError, unknown
from traintime.explain import formula, points, statistics
from traintime.explain.statistics import Estimated, Interval, Spread, Steps
from traintime.measuring import machine, stacks
from traintime.point import Run, fields
from traintime.store import records
from traintime.store.table import ALIKE, table
from traintime.workloads.base import ACCUMULATED

ANY = object()  # a field that may have any value
Some = TypeVar("Some")
# The stacks of today, by the name of their framework.
TODAY = {"2026-tensorflow": "TensorFlow", "2026-jax": "JAX", "2026-torch": "torch"}
# Columns of `Measurements.every`, less "_s": a step by medians, by which two are compared, and by means, which add up.
STATISTICS = ("step", "low", "high"), ("mean", "mean_low", "mean_high")
ROLES = ("reference", "shown", "in part")


@functools.cache
def named() -> dict[str, dict[str, str]]:
    """The machines that the book knows, the reference first: machine -> role, title (data/measurements/machines.csv).

    A folder that is not among them changes no page.
    """
    with (paths.MEASUREMENTS / "machines.csv").open(newline="") as file:
        found = {row["machine"]: row for row in csv.DictReader(file)}
    return dict(sorted(found.items(), key=lambda item: ROLES.index(item[1]["role"])))


@functools.cache
def listed() -> dict[str, dict[str, str]]:
    """Of `named` those that every chapter shows; one that ran some sweeps only, "in part", is not among them."""
    return {machine: row for machine, row in named().items() if row["role"] != "in part"}


def reference() -> str:
    """The machine that the prose is written against."""
    return next(iter(listed()))


def second() -> "Measurements":
    """What is stored of the listed machine that follows the reference."""
    return of(list(listed())[1])


def first() -> str:
    """The listed machine that was measured first; its early runs could end when a time was over."""
    return min(listed(), key=lambda name: of(name).rows["started"].min())


def described(machine: str) -> dict[str, Any]:
    """The stored description of a machine."""
    return records.described(paths.MEASUREMENTS / machine / "machine.json").model_dump()


@functools.cache
def of(machine: str = "") -> "Measurements":
    """What is stored of one machine ("" for the reference), read once; from one file where nothing has changed.

    Raises InputError for a machine of which nothing is stored.
    """
    machine = machine or reference()
    if not (paths.MEASUREMENTS / machine).is_dir():
        known = sorted(path.name for path in paths.MEASUREMENTS.iterdir() if path.is_dir())
        raise unknown("machine", machine, known)
    rows = kept.table(machine, _key(machine), lambda: table(paths.MEASUREMENTS, machine))
    found = Measurements(rows, machine)
    # As `every` makes them; most of what a chapter shows starts from here.
    found.every = kept.table(f"{machine}-points", _key(machine), lambda: found.every)
    return found


@functools.cache
def _key(machine: str) -> str:
    """Changes with what the machine measured and with the code that reads it."""
    return kept.readers() + kept.digest(records.files(paths.MEASUREMENTS, machine))


def having(book: "Measurements", found: Callable[["Measurements"], Sized]) -> "Measurements":
    """The machine of a page if it has what is looked for, else the first that the book knows and that has; or itself.

    found: gives what a machine has of it.
    """
    others = (of(name) for name in named() if name != book.machine)
    return next((each for each in (book, *others) if len(found(each))), book)


@functools.cache
def sentinel_of(machine: str) -> pd.DataFrame:
    """Every stored invocation of a machine's sentinels."""
    return kept.table(f"{machine}-sentinel", _key(machine), lambda: table(paths.MEASUREMENTS, machine, sentinel=True))


def how(found: pd.DataFrame) -> pd.Series:
    """How the table is trained in each row, as `Rnn.how` names it."""
    # Another workload's rows have no such fields, or a missing value in them.
    named = found["optimizer"]
    if "accumulated" in found:
        named = named.where(~found["accumulated"].gt(1), named + ACCUMULATED)
    return named.where(~found["frozen"].eq(True), "frozen") if "frozen" in found else named


def stack_order(names: Iterable[str]) -> list[str]:
    """Names of stacks, each once: those that we know in the order of their years, then the others."""
    found = set(names)
    return [*(name for name in stacks.KNOWN if name in found), *sorted(found - set(stacks.KNOWN))]


def in_order(found: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of the stacks, then of the sizes."""
    names = stack_order(found["stack"])
    sizes = [name for name in ("optimizer", "frozen", "vocabulary", "batch", "length") if name in found]
    order = found.assign(_stack=[names.index(stack) for stack in found["stack"]])
    return order.sort_values(["_stack", *sizes], kind="stable", ignore_index=True).drop(columns="_stack")


def chosen(found: pd.DataFrame, **wanted: Any) -> pd.DataFrame:
    """The rows of a table that have exactly these values; None stands for a missing one."""
    for name, value in wanted.items():
        found = found[found[name].isna() if value is None else found[name] == value]
    return found


def row(found: pd.DataFrame, **wanted: Any) -> pd.Series:
    """The first row of a table that has these values. Raises KeyError where there is none."""
    return measured(chosen(found, **wanted), str(wanted)).iloc[0]


def measured(found: Some, what: str = "not measured") -> Some:
    """Values or rows as they are. Raises KeyError where there are none. what: what is missing then, in words."""
    if not len(found):
        raise KeyError(what)
    return found


def or_none(give: Callable[[], Some]) -> Some | None:
    """What a function gives; None where it looks for something that was not measured (KeyError, IndexError).

    A mistyped name looks the same: `python -m traintime.book judge` shows what a claim did not find.
    """
    try:
        return give()
    except (KeyError, IndexError):
        return None


def _chosen(found: pd.DataFrame, wanted: dict[str, Any], usual_here: dict[str, Any]) -> pd.DataFrame:
    workload = wanted.get("workload", "rnn")
    of_point = {**workloads.get(workload).model_fields, **Run.model_fields}
    usual = {"workload": workload} | {name: field.default for name, field in of_point.items()}
    if strange := wanted.keys() - usual.keys() - {"stack"}:
        raise unknown(f"field of the workload {workload}", min(strange), sorted(usual))
    here = np.ones(len(found), bool)
    # What a chapter asks for first: it leaves few rows, or none, for the usual values to be compared with.
    asked = wanted | {name: value for name, value in (usual | usual_here).items() if name not in wanted}
    for name, value in asked.items():
        name = "threads_asked" if name == "threads" else name
        if value is ANY or name not in found:
            continue
        column = found[name]
        if isinstance(value, list):
            # A column of numbers and None holds NaN for None, which isin([None]) does not find.
            fits = column.isin(value) | column.isna() if None in value else column.isin(value)
        else:
            fits = column.isna() if value is None else column == value
        here &= fits.to_numpy(bool)
        if not here.any():
            break
    found = found[here]
    # Beside another workload's rows, which lack them, whole numbers have become fractions.
    kinds = {name: type(field.default) for name, field in of_point.items() if name in found}
    whole = {name: kind for name, kind in kinds.items() if kind in (int, bool) and found[name].notna().all()}
    return found.astype(whole)


class Measurements:
    """The invocations of one machine, and what may be said of them.

    rows: as store.table gives them; machine: its key, or "this run"; root: the folder in which the machine, next to
    its measurements, is described; usual: values of fields that nobody asks for, where they differ from a point's;
    whole: of what these are a part.
    """

    def __init__(
        self,
        rows: pd.DataFrame,
        machine: str = "this run",
        root: Path | None = None,
        usual: dict[str, Any] | None = None,
        whole: "Measurements | None" = None,
    ) -> None:
        self.root = root or paths.MEASUREMENTS
        self.whole = whole or self
        self.usual = usual or {}
        # How many steps a sweep counts changes the error of a step and not the step: a configuration's sweeps are
        # pooled, so that it has one value on all pages, and what differs between them is run-to-run error.
        self.rows = rows.assign(protocol="")
        self.machine = machine

    def only(self, rows: pd.Series) -> "Measurements":
        """A part of the measurements, with the run-to-run error of the whole. rows: which of them, true or false."""
        return Measurements(self.rows[rows], self.machine, self.root, self.usual, self.whole)

    @functools.cached_property
    def before_the_rule(self) -> "Measurements | None":
        """The same with the runs that lost time to the host before such runs had to be repeated; None without any."""
        rows = points.before_the_rule(self.rows)
        return None if rows.equals(self.rows) else Measurements(rows, self.machine, self.root, self.usual)

    @property
    def look(self) -> bool:
        """Whether this is a quick look, in which points shared processes: no verdict is given on it."""
        return "others_before" in self.rows and bool(self.rows["others_before"].gt(0).any())

    @property
    def busy(self) -> bool:
        """Whether others disturbed all of its invocations."""
        return "disturbed" in self.rows and len(self.rows) > 0 and bool(self.rows["disturbed"].all())

    @property
    def title(self) -> str:
        """The machine's name as a reader sees it."""
        return named()[self.machine]["title"] if self.machine in named() else self.machine

    @functools.cached_property
    def description(self) -> dict[str, Any]:
        """What the machine is; empty where nobody described it."""
        return self._beside("machine.json") or {}

    @property
    def card(self) -> str:
        """What the machine's GPU calls itself: "NVIDIA H200". Raises KeyError for a machine without."""
        if not self.description["gpus"]:
            raise KeyError(f"{self.machine} has no GPU")
        return str(self.description["gpus"][0]["name"])

    @functools.cached_property
    def rates(self) -> dict[str, Any]:
        """What measuring.machine.pooled_rates gives. Raises KeyError where nobody measured them."""
        return machine.pooled_rates(self._beside("rates.json") or [self.description["rates"]])

    def _beside(self, name: str) -> Any:
        """A file next to the machine's measurements, or None where there is none."""
        path = self.root / str(next(iter(self.rows["machine"]), self.machine)) / name
        return json.loads(path.read_text()) if path.is_file() else None

    @functools.cached_property
    def current(self) -> pd.DataFrame:
        """The invocations by the code that measured their configuration last; what older code measured is history."""
        last = self.rows[self.rows["status"] == "ok"].sort_values("started", kind="stable")
        last = last.drop_duplicates(["stack", "key"], keep="last").set_index(["stack", "key"])["code"]
        code = pd.MultiIndex.from_frame(self.rows[["stack", "key"]]).map(last.to_dict())
        return self.rows[pd.isna(code) | (self.rows["code"] == code)]

    @functools.cached_property
    def every(self) -> pd.DataFrame:
        """One row for each point and way of measuring it (explain.points), with a column `how`.

        step_s, low_s, high_s: the geometric mean of the runs' median steps, by which two things are compared, so that
        a figure and a ratio agree; the arithmetic mean where steps differ by design, as with gradients added up.
        mean_s, mean_low_s, mean_high_s: the arithmetic mean of their mean steps, of which an epoch is made.
        """
        found = points.points(self.current)
        means = {f"{mean}_s": found[f"{step}_s"] for step, mean in zip(*STATISTICS, strict=True)}
        found = found.assign(how=how(found), **means)
        alike = found["runs"].gt(0)
        for name in {"accumulated", "save_every"} & set(found):
            alike &= ~found[name].gt(1)
        for row, runs in zip(found.index[alike], self.values(found[alike]), strict=True):
            step = self.steps([found.at[row, "stack"]], [runs]).product([1])
            found.loc[row, ["step_s", "low_s", "high_s"]] = step.value, step.low, step.high
        return found

    @functools.cached_property
    def good(self) -> pd.DataFrame:
        """The invocations whose times count (explain.points.counted)."""
        return points.counted(self.current)

    def invocations(self, **wanted: Any) -> pd.DataFrame:
        """The invocations whose times count, chosen by fields: field=value, field=[values] or field=ANY.

        What is not named has its usual value, so that nothing is pooled that differs in a field nobody thought of;
        `stack` counts as a field. Raises InputError for an unknown one.
        """
        return _chosen(self.good, wanted, self.usual)

    def points(self, **wanted: Any) -> pd.DataFrame:
        """One row a point, chosen as `invocations` does.

        Of a point that was measured in several ways that must not be pooled (other versions, another code path), the
        way with the most invocations, of several such the newest.
        """
        found = _chosen(self.every, wanted, self.usual).sort_values(["invocations", "started"], kind="stable")
        return in_order(found.drop_duplicates(["machine", "stack", "key"], keep="last"))

    def values(self, found: pd.DataFrame, value: str = "median_s") -> list["pd.Series[float]"]:
        """A value (median step by default, s) of each good invocation behind each row of `found` (points.runs)."""
        groups, none = self._groups(value), pd.Series([], dtype=float)
        return [groups.get(tuple(str(row[name]) for name in ALIKE), none) for _, row in found.iterrows()]

    @functools.cache  # noqa: B019 (a machine's measurements live as long as the process)
    def _groups(self, value: str) -> dict[tuple[str, ...], "pd.Series[float]"]:
        return {names: points.runs(group, value) for names, group in self._frames.items()}

    @functools.cached_property
    def _frames(self) -> dict[tuple[str, ...], pd.DataFrame]:
        # History, too: its runs say how far two of the same thing land apart.
        grouped = points.counted(self.rows).groupby(ALIKE, dropna=False)
        return {tuple(map(str, names)): group for names, group in grouped}

    @functools.cache  # noqa: B019
    def spread(self, stack: str, value: str = "median_s") -> Spread:
        """Run-to-run error of a stack, pooled over its points; over all of the machine's where these are a part."""
        if self.whole is not self:
            return self.whole.spread(stack, value)
        # Of a value that not every invocation has, those that have it, and that have a logarithm.
        found = [runs[runs > 0] for names, runs in self._groups(value).items() if names[ALIKE.index("stack")] == stack]
        return statistics.pooled_spread([runs for runs in found if len(runs)])

    def sides(self, *configurations: Mapping[str, Any], **shared: Any) -> "Sides":
        """Invocations of two configurations or more from the same rounds of the same sweep.

        configurations: the fields in which each differs from the usual point; shared: those in which all do. Raises
        KeyError where one was not measured.
        """
        asked = [shared | dict(fields) for fields in configurations]
        frames = [measured(self.invocations(**each), f"{each} was not measured") for each in asked]
        for frame in frames:
            if (names := list(frame["stack"].unique()))[1:]:
                raise InputError("stack", names, "are several on one side", "Name one: stack=…")
        common, sweep, rounds = same_rounds(*frames)
        return Sides(common, self, sweep, rounds)

    def interval(self, function: Callable[[np.ndarray], np.ndarray], found: pd.DataFrame) -> Interval:
        """A function of the steps (s) of some points, with its interval (statistics.Steps).

        Of the rounds that measured all of them, where there are such; else of all runs, and what differs between their
        sweeps does not cancel. found: rows of `points`; function: of shape (points,) a number, of shape (points, draws)
        one a draw. Raises KeyError where a point has no time.
        """
        names = [tuple(str(row[name]) for name in ALIKE) for _, row in found.iterrows()]
        if not names or not all(name in self._frames for name in names):
            raise KeyError("a step without invocations")
        common, _, _ = same_rounds(*(self._frames[name] for name in names))
        return self.steps(found["stack"], [points.runs(frame) for frame in common]).interval(function)

    def steps(self, names: Iterable[str], runs: Sequence["pd.Series[float]"], value: str = "median_s") -> Steps:
        """Several steps with the errors of the stacks that each belongs to and of the sweeps (statistics.Steps).

        names: of the stacks; runs: each step's, of that value. Raises KeyError for a step without runs.
        """
        if not all(map(len, runs)):
            raise KeyError("a step without invocations")
        return Steps(runs, [self.spread(name, value) for name in names], points.between())

    def lines(
        self, found: pd.DataFrame, shape: formula.Formula = formula.STRAIGHT_LINE, value: str = "median_s"
    ) -> dict[tuple[str, str], formula.Fit]:
        """The formula fitted to each stack and way of training, where more points ran than it has coefficients.

        value: of the invocations, median_s or, of rows by means, step_s.

        What two fits share, runs or sweeps, errs alike in both: they are divided or subtracted draw by draw.
        """
        fits = {}
        groups = found.dropna(subset="step_s").groupby(["stack", "how"], sort=False)
        for name, group in groups:
            if len(group) > len(shape.terms):
                seconds = group["step_s"].to_numpy()
                errors = self.steps(group["stack"], self.values(group, value), value).drawn(formula.DRAWS)
                fits[name] = formula.fit(shape, group, seconds, seconds * np.exp(errors.T))
        return fits

    def exponents(self, found: pd.DataFrame, against: str) -> pd.DataFrame:
        """Apparent exponent of a step in one size for each stack and `how`: interval, points, range of the size."""
        result = []
        for (stack, way), group in found.dropna(subset="step_s").groupby(["stack", "how"], sort=False):
            group = group.sort_values(against)
            if group[against].nunique() > 1:
                sizes = group[against].to_numpy(float)
                slope = statistics.slope(sizes, self.steps(group["stack"], self.values(group)))
                ends = {"from": group[against].iloc[0], "to": group[against].iloc[-1], "points": len(group)}
                value = {"exponent": slope.value, "low": slope.low, "high": slope.high}
                result.append({"stack": stack, "how": way} | value | ends)
        return pd.DataFrame(result, columns=["stack", "how", "exponent", "low", "high", "from", "to", "points"])

    def ratios(
        self, found: pd.DataFrame, pairs: Iterable[tuple[Any, Any]], of: str = "stack", against: str = "vocabulary"
    ) -> pd.DataFrame:
        """Ratio of the steps of two values of a field, wherever all else is the same, with a verdict for the table.

        found: invocations; pairs: (above, below), two values of the field `of`; against: the size to sort by. Both
        sides come from the same rounds of the same sweep; where no sweep measured both, the ratio of all there are is
        shown and no verdict is given. Columns: above, below, ratio, low, high, number (invocations of the smaller
        side), sweep, faster (one of the two, or None), reason, stack and the point's fields.
        """
        same = [name for name in ("stack", *fields()) if name != of and name in found]
        usable = found.assign(_same=found.groupby(same, dropna=False).ngroup())
        result: list[dict[str, Any]] = []
        for place, (above, below) in enumerate(pairs):
            sides = [dict(list(usable[usable[of] == value].groupby("_same"))) for value in (above, below)]
            for label in sorted(sides[0].keys() & sides[1].keys()):
                common, sweep, rounds = same_rounds(sides[0][label], sides[1][label])
                ratio = Sides(common, self, sweep, rounds).steps().product([1, -1])
                row = {"_place": place, "above": above, "below": below, "ratio": ratio.value, "degrees": ratio.degrees}
                row |= {"low": ratio.low, "high": ratio.high, "number": min(map(len, common)), "sweep": sweep}
                result.append(row | {name: common[0][name].iloc[0] for name in same})
        reasons = statistics.verdicts([interval(row) for row in result], [bool(row["sweep"]) for row in result])
        for row, reason in zip(result, reasons, strict=True):
            faster = row["below"] if row["ratio"] > 1 else row["above"]
            row |= {"faster": faster if reason == "significant" else None, "reason": reason}
        columns = ["above", "below", "ratio", "low", "high", "degrees", "number", "sweep", *same, "faster", "reason"]
        table = pd.DataFrame(result, columns=["_place", *columns])
        return table.sort_values(["_place", against], kind="stable", ignore_index=True)[columns]

    def records(self, **wanted: Any) -> list[records.Record]:
        """Whole stored records of these points, every single step among them; chosen as `invocations` does."""
        keys = _chosen(self.rows, wanted, self.usual)[["stack", "key"]].drop_duplicates()
        files = [records.file_of(paths.MEASUREMENTS, self.machine, row.stack, row.key) for row in keys.itertuples()]
        return [records.read(path) for path in files]


def same_rounds(*sides: pd.DataFrame) -> tuple[list[pd.DataFrame], str, int]:
    """Of several configurations' invocations those of the rounds that measured all of them, the sweeps, and how many
    rounds; where no sweep measured them together all there are, "" and 0.
    """
    rounds = [pd.MultiIndex.from_frame(side[["sweep", "round"]]) for side in sides]
    common = functools.reduce(pd.MultiIndex.intersection, rounds).unique()
    if common.empty:
        return list(sides), "", 0
    sweeps = ", ".join(sorted(set(common.get_level_values("sweep"))))
    return [side[of.isin(common)] for side, of in zip(sides, rounds, strict=True)], sweeps, len(common)


@dataclass(frozen=True)
class Sides:
    """Invocations of several configurations in the same rounds of the same sweeps (see same_rounds).

    frames: one a configuration, in their order; book: the machine's measurements; sweep, rounds: which sweeps measured
    all of them in how many common rounds; "" and 0 where none did, and the frames hold all invocations there are.
    """

    frames: list[pd.DataFrame]
    book: "Measurements"
    sweep: str
    rounds: int

    def interval(self, function: Callable[[np.ndarray], np.ndarray], value: str = "median_s") -> Interval:
        """A function of the configurations' means with its interval, as Measurements.interval gives it for points.

        Without an interval where no round measured all of them: what was not measured together is not compared.
        """
        return self.steps(value).interval(function, arithmetic=value == "step_s", interleaved=self.rounds > 0)

    def steps(self, value: str = "median_s") -> Steps:
        """The configurations' steps of that value."""
        names = [str(frame["stack"].iloc[0]) for frame in self.frames]
        return self.book.steps(names, [points.runs(frame, value) for frame in self.frames], value)

    @property
    def how(self) -> str:
        """How they were measured, for a reader: "5 rounds", or "not interleaved"."""
        return {0: "not interleaved", 1: "one round"}.get(self.rounds, f"{self.rounds} rounds")


def step_times(found: list[records.Record]) -> list[tuple[str, np.ndarray, int]]:
    """Every single step of records: stack, seconds (the first step among them), steps that do not count."""
    timed = [(r.stack, i.result.timing) for r in found for i in r.invocations if i.result]
    return [(stack, np.array([t.first_ns, *t.steps_ns]) / 1e9, t.warmup + 1) for stack, t in timed]


def ratio_by_stack(table: pd.DataFrame, stacks: Iterable[str] | None = None, **wanted: Any) -> dict[str, Interval]:
    """Ratios of a table (Measurements.ratios) by stack; without an interval where the sides were not interleaved.

    stacks: those that must be there (all by default); wanted: values of the rows. Raises KeyError where one is missing.
    """
    rows = chosen(table, **wanted)
    names = list(dict.fromkeys(rows["stack"])) if stacks is None else list(stacks)
    found = {stack: row(rows, stack=stack) for stack in names}
    return {
        stack: Interval(one["ratio"]) if one["reason"] == "not interleaved" else interval(one)
        for stack, one in found.items()
    }


def interval(row: Any, value: str = "ratio") -> Interval:
    """A row's value with its ends `low` and `high`."""
    return Estimated(row[value], row["low"], row["high"], row.get("degrees", float("inf")))
