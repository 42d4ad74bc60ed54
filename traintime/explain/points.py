"""From invocations to points: one row a point, with its time and how sure it is."""

import functools

import numpy as np
import pandas as pd

from traintime import paths
from traintime.explain import statistics
from traintime.explain.statistics import Spread
from traintime.point import fields
from traintime.store import derived
from traintime.store.table import ALIKE, LOOPS

# Of ALIKE, what only a result tells: an invocation that failed has none of it.
OF_A_RESULT = ["versions", "path", "told"]
COLUMNS = ["status", "invocations", "disturbed", "runs", "started"]
COLUMNS += ["step_s", "low_s", "high_s", "typical_s", "peak_bytes"]
# Of the table `runs`, what a run is, and what it measured.
IDENTITY = ["machine", "folder", "stack", "key", "sweep", "stretch", "round", "started", "disturbed"]
RESULTS = ["path", "steps", "median_s", "step_s", "peak_bytes", "faults_a_step", "own_cores", "waited_s"]
RESULTS += ["told", *LOOPS]
# Of the table `steps`: what a run has, and the columns of the mean over runs with its interval.
STEPS = {"median_s": ("step_s", "low_s", "high_s"), "step_s": ("mean_s", "mean_low_s", "mean_high_s")}
NUMBERS = (1, 3, 5, 10)  # of invocations, of which the noise table tells how far two sets land apart


def points(table: pd.DataFrame) -> pd.DataFrame:
    """One row a point for each way of measuring it that must not be pooled with another (store.table.ALIKE).

    table: one row an invocation, as store.table.table gives it; an empty one has no points and the same columns.
    Columns: ALIKE, the point's fields, and
    - status: "ok", or the first other one; invocations: how many, failed and disturbed ones included; disturbed:
      how many of them; runs: how many the times come from; started: when the last one began;
    - step_s: mean over the invocations' mean steps, low_s and high_s its 95 % interval (statistics.Steps; NaN where
      nothing was repeated); typical_s: geometric mean of their medians;
    - peak_bytes: the largest peak.
    Times are those of the invocations that `counted` names, missing (NaN) where there are none.
    """
    names = [
        name
        for name in ("workload", *fields(), "threads_asked")
        if name not in ALIKE and (table.empty or name in table.columns)
    ]
    keys = [*ALIKE, *names]
    if table.empty:
        return pd.DataFrame(columns=[*keys, *COLUMNS])
    table = _placed(table)
    times = counted(table)
    spreads = pooled_spreads(times, "step_s")
    rows = []
    for values, group in table.groupby(keys, sort=False, dropna=False):
        row = dict(zip(keys, values, strict=True))
        bad = group.loc[group["status"] != "ok", "status"]
        row |= {"status": "ok" if bad.empty else bad.iloc[0], "invocations": len(group)}
        row |= {"disturbed": int(group["disturbed"].sum()), "started": group["started"].max()}
        good = times.loc[times.index.intersection(group.index)]
        row["runs"] = len(good)
        if len(good):  # else the times are missing
            step = statistics.mean(runs(good, "step_s"), spreads.get((row["machine"], row["stack"])), between())
            row |= {"step_s": step.value, "low_s": step.low, "high_s": step.high}
            row |= {"typical_s": float(np.exp(np.log(good["median_s"]).mean())), "peak_bytes": good["peak_bytes"].max()}
        rows.append(row)
    table = pd.DataFrame(rows, columns=[*keys, *COLUMNS])
    return table.sort_values(["machine", "stack", *names, *ALIKE[2:]], ignore_index=True)


def counted(table: pd.DataFrame) -> pd.DataFrame:
    """The invocations whose times count: those that ended well and undisturbed, of a point without such all that did.

    What a disturbed one showed is not lost, it has been repeated: the choice is made by what else the machine did, not
    by the time. The index is the table's.
    """
    ok = table[table["status"] == "ok"]
    if ok.empty:
        return ok
    quiet = ~ok["disturbed"].astype(bool)
    return ok[quiet | ~quiet.groupby([ok[name] for name in ALIKE], dropna=False).transform("any")]


def that_count(table: pd.DataFrame) -> pd.DataFrame:
    """Of the invocations those that a configuration's one value on all pages comes from.

    By the code that measured the configuration last (what older code measured is history); `counted`; and of several
    ways that must not be pooled (store.table.ALIKE) the one with most invocations, of several such the newest. How many
    steps a sweep counted keeps none apart.
    """
    table, same = table.assign(protocol=""), ALIKE[:3]
    last = table[table["status"] == "ok"].sort_values("started", kind="stable").drop_duplicates(same, keep="last")
    code = table[same].merge(last[[*same, "code"]], how="left", on=same)["code"].to_numpy()
    current = table[pd.isna(code) | (table["code"] == code)]
    ways = points(current).sort_values(["invocations", "started"], kind="stable").drop_duplicates(same, keep="last")
    return counted(current).merge(ways[ALIKE], on=ALIKE)


def derive_runs(table: pd.DataFrame) -> pd.DataFrame:
    """The table `runs`: a row for each invocation that counts on a machine of the book, and what it measured.

    machine: the name that a reader sees ("machine B"); folder: its measurements'; late: whether it counted only before
    the rule that leaves out what lost time to the host, which is younger than it.
    """
    titles = pd.read_csv(paths.MEASUREMENTS / "machines.csv").set_index("machine")["title"]
    table = table[table["machine"].isin(titles.index)]
    late = that_count(before_the_rule(table)).assign(late=True)
    found = pd.concat([that_count(table).assign(late=False), late])
    found = found.rename(columns={"machine": "folder"}).drop_duplicates(["folder", *IDENTITY[2:-1]])
    found = found.assign(machine=found["folder"].map(titles))
    fields_of_points = [name for name in ("workload", *fields()) if name in found]
    found = found[[*IDENTITY, "late", *fields_of_points, "threads_asked", *RESULTS]]
    return found.sort_values(["machine", "stack", "key"], kind="stable", ignore_index=True)


def derive_steps(found: pd.DataFrame, spreads: pd.DataFrame) -> pd.DataFrame:
    """The table `steps`: a row for each configuration that a machine of the book ran with a stack.

    found, spreads: the tables `runs` and `spreads`. Columns: machine, folder, stack, key, the configuration's fields;
    runs, how many; disturbed, whether something else was running during each of them; step_s, low_s, high_s, the
    geometric mean of their medians with its interval; mean_s, mean_low_s, mean_high_s, the arithmetic mean of their own
    mean steps (statistics.Steps).
    """
    found, spreads = found[~found["late"]], spreads[~spreads["late"]].set_index(["machine", "stack", "value"])
    names = [name for name in found if name not in (*IDENTITY, "late", *RESULTS)]
    rows = []
    for (folder, stack, _), group in found.groupby(["folder", "stack", "key"], sort=False):
        row = group[["machine", "folder", "stack", "key", *names]].iloc[0].to_dict() | {"runs": len(group)}
        row["disturbed"] = bool(group["disturbed"].all())
        for value, (step, low, high) in STEPS.items():
            spread = spreads.loc[(folder, stack, value)]
            series = runs(group.assign(machine=folder), value)
            steps = statistics.Steps([series], [Spread(spread["sd"], spread["degrees"])], between())
            sure = steps.interval(lambda seconds: seconds[0], arithmetic=value == "step_s")
            row |= {step: sure.value, low: sure.low, high: sure.high}
        rows.append(row)
    return pd.DataFrame(rows)


def derive_measured(table: pd.DataFrame) -> pd.DataFrame:
    """The table `measured`: what each machine of the book has measured with each stack, whatever of it counts.

    Columns: folder, stack, invocations, first, last (their starts), steps (the fewest that one counted), timed (how
    many ended when a time was over, not after a number of steps decided beforehand), versions.
    """
    rows = []
    for (folder, stack), group in table.groupby(["machine", "stack"]):
        starts, timed = group["started"], int((~group["fixed"].astype(bool)).sum())
        versions = "; ".join(sorted(set(group["versions"].dropna())))
        rows.append((folder, stack, len(group), starts.min(), starts.max(), group["steps"].min(), timed, versions))
    names = ["folder", "stack", "invocations", "first", "last", "steps", "timed", "versions"]
    return pd.DataFrame(rows, columns=names)


def before_the_rule(table: pd.DataFrame) -> pd.DataFrame:
    """The invocations, of which none is disturbed by the host alone from before such ones had to be repeated."""
    if "stolen_before_it_counted" not in table:
        return table
    return table.assign(disturbed=table["disturbed"] & ~table["stolen_before_it_counted"].eq(True))


def derive_spreads(table: pd.DataFrame) -> pd.DataFrame:
    """The table `spreads`: run-to-run error of each machine's stacks, of medians, mean steps and peaks of memory,
    history included.

    Columns: late (of `runs`), machine (its folder), stack, value (median_s, step_s or peak_bytes), sd (of logarithms),
    degrees (of freedom).
    """
    rows = []
    for late, times in ((False, table), (True, before_the_rule(table))):
        for value in ("median_s", "step_s", "peak_bytes"):
            for (machine, stack), spread in sorted(pooled_spreads(counted(times.assign(protocol="")), value).items()):
                rows.append((late, machine, stack, value, spread.sd, spread.degrees))
    return pd.DataFrame(rows, columns=["late", "machine", "stack", "value", "sd", "degrees"])


def runs(invocations: pd.DataFrame, value: str = "median_s") -> "pd.Series[float]":
    """A value of some invocations by the stretch of a sweep in which each was made, as `statistics` takes them."""
    names = invocations["machine"] + " " + invocations["stack"] + " " + invocations["key"] + " " + value
    return pd.Series(invocations[value].to_numpy(float), invocations["stretch"].to_numpy(), name=names.iloc[0])


def pooled_spreads(times: pd.DataFrame, value: str = "median_s") -> dict[tuple[str, str], Spread]:
    """Run-to-run error of each machine's stacks, pooled over all their points: (machine, stack) -> Spread."""
    return {name: statistics.pooled_spread(each) for name, each in _seconds(times, value).items()}


def offsets(table: pd.DataFrame) -> Spread:
    """How much stretches of sweeps differ (statistics.sweep_offsets). table: invocations of any machines."""
    # How many steps a sweep counted keeps none apart.
    groups = _seconds(counted(table).assign(protocol=""), "median_s")
    pairs = [(runs, statistics.pooled_spread(each)) for each in groups.values() for runs in each]
    return statistics.sweep_offsets(pairs)


def derive_offsets(table: pd.DataFrame) -> pd.DataFrame:
    """The table `sweeps`: sd and degrees of the stretches' offsets, a row a machine, the first ("") of all together;
    rest: the sd without that machine's sweeps.
    """
    rows = []
    for machine in ["", *sorted(table["machine"].unique())]:
        here = table["machine"].eq(machine) | (machine == "")
        found, rest = offsets(table[here]), offsets(table[~here] if machine else table)
        rows.append({"machine": machine, "sd": found.sd, "degrees": found.degrees, "rest": rest.sd})
    return pd.DataFrame(rows)


@functools.cache
def between() -> Spread:
    """The offset of a stretch of a sweep (derived table `sweeps`), one for all machines, also those without such: a
    machine alone has 1 to 8 degrees of freedom, too few to tell its offsets from the others'.
    """
    found = derived.read("sweeps").iloc[0]
    return Spread(float(found["sd"]), float(found["degrees"]))


def noise_table(table: pd.DataFrame) -> pd.DataFrame:
    """Noise floors, one row a machine and stack: the difference below which nothing is said.

    table: one row an invocation; two are of the same thing where all of ALIKE agrees. Columns: machine, stack, spread
    (sd of logs), degrees, and one for each of NUMBERS, labelled by it: the 95 % noise floor of two sets of so many
    invocations, a share. All from the medians, of which comparisons are made.
    """
    rows = []
    for (machine, stack), medians in sorted(_seconds(counted(table), "median_s").items()):
        spread = statistics.pooled_spread(medians)
        row = {"machine": machine, "stack": stack, "spread": spread.sd, "degrees": spread.degrees}
        rows.append(row | {number: statistics.noise(medians, number) for number in NUMBERS})
    return pd.DataFrame(rows, columns=["machine", "stack", "spread", "degrees", *NUMBERS])


def _seconds(times: pd.DataFrame, value: str) -> dict[tuple[str, str], list["pd.Series[float]"]]:
    """Of each machine's stacks the seconds of the invocations, one Series a point and way of measuring it."""
    groups: dict[tuple[str, str], list[pd.Series[float]]] = {}
    for names, group in times.groupby(ALIKE, sort=False, dropna=False):
        groups.setdefault(names[:2], []).append(runs(group, value))
    return groups


def _placed(table: pd.DataFrame) -> pd.DataFrame:
    """The table with versions and code path of failed invocations too, where the point's other runs leave no doubt."""
    table = table.reset_index(drop=True)
    same = [name for name in ALIKE if name not in OF_A_RESULT]
    ways = table.loc[table["versions"].notna(), ALIKE].drop_duplicates()
    ways = ways[~ways.duplicated(same, keep=False)]
    inferred, present = table[same].merge(ways, on=same, how="left"), table["versions"].notna()
    return table.assign(**{name: table[name].astype(object).where(present, inferred[name]) for name in OF_A_RESULT})
