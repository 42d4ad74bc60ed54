"""Is my run normal? A machine's measurements among the book's: which stack is off, and by how much.

What the book's machines took for each point, and a formula expects of them, is the derived table normal.csv.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from traintime import paths
from traintime.errors import InputError, unknown
from traintime.explain.points import points as by_point
from traintime.explain.statistics import NAN, Interval
from traintime.measuring.machine import this
from traintime.point import Point
from traintime.predict import prices
from traintime.predict.prices import Prices
from traintime.store import derived, records
from traintime.store.table import ALIKE
from traintime.store.table import table as tidy_table

TITLE = "Times what the book's machines lead one to expect at the rates of this one"
LEVEL = 0.95
PAGES = 1_000  # page faults a step beyond the usual that can make a step slow: 4 MB
MAPPED = "pages a step are mapped beyond the usual: another allocator keeps its memory (chapter 4)"
USELESS = math.log(5)  # a range of normal that reaches so far says nothing
COLUMNS = ["machine", "stack", "key", "path", "step_s", "expected_s", "faults"]  # of normal.csv
FEWEST = 3  # points that tell how far a machine's stack lies off the others
NORMAL_SD = 1.4826  # median absolute deviation of a normal variable -> standard deviation
Off = Literal["slower", "faster", ""]


@dataclass(frozen=True)
class Placed:
    """A stack on the reader's machine, among the book's.

    points: of its points that one of the book's machines has; runs: of these, disturbed: by something else; times:
    geometric mean of what they took over what the book's machines lead one to expect at this machine's rates, with the
    range that is normal (95 % of machines like the book's) around 1; book: the same of each of the book's machines;
    off: "slower", "faster" or "" where it is normal; at: points that are, all of them where their mean is; notes: what
    was noticed that may tell why.
    """

    stack: str
    points: int
    runs: int
    disturbed: int
    times: Interval
    book: dict[str, float]
    off: Off
    at: int
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if not self.points:
            return "nothing to compare with"
        where = "" if self.at in (0, self.points) else f" at {self.at} of {self.points} configurations"
        return f"{self.off} than normal{where}" if self.off else "normal"

    @property
    def plain(self) -> dict[str, Any]:
        """For a program: names and numbers."""
        return asdict(self) | {"verdict": self.verdict, "why": list(self.notes)}


def compare(root: Path, machine: str | None = None) -> list[Placed]:
    """Each stack of a machine among the book's.

    root: a folder of measurements; machine: which of those in it, where there are several (this one, where it is
    among them). One of the book's own is held against the others. Raises InputError for a folder without
    measurements, an unknown machine, or one without rates.
    """
    if not root.is_dir():
        raise InputError("folder", str(root), "does not exist", "Name a folder of measurement files.")
    known = sorted(path.name for path in root.iterdir() if (path / "machine.json").exists())
    if not known:
        remedy = "Name the folder that holds a machine's folder, as `traintime sweep --to` made it."
        raise InputError("folder", str(root), "holds no machine's measurements", remedy)
    if machine is None:
        machine = known[0] if len(known) == 1 else this()
        if machine not in known:
            raise InputError("machine", "", "was not named, and there are several", f"Name one of: {', '.join(known)}.")
    if machine not in known:
        raise unknown("machine", machine, known)
    rows, points = measured(root, machine), points_by_key(root, machine)
    if rows.empty:
        raise InputError("machine", machine, "has no run that ended well", "Measure something first: traintime sweep")
    rates = prices.own_rates(machine, root)
    itself = titles().get(machine, "") if root.resolve() == paths.MEASUREMENTS.resolve() else ""
    found = []
    for stack, mine in rows.groupby("stack", sort=True):
        priced = prices.of_rates(machine, rates, _of_the_book(str(stack)))
        found.append(_placed(str(stack), mine, points, priced, itself))
    return found


def status(found: Sequence[Placed]) -> int:
    """Exit status for scripts: 0 all is normal, 1 something is off, 3 nothing could be compared."""
    return int(any(one.off for one in found)) if any(one.points for one in found) else 3


def table(found: Sequence[Placed]) -> pd.DataFrame:
    """As a reader sees it, a row a stack."""
    rows = []
    for one in found:
        books = ", ".join(f"{name[-1]} {value:.2f}" for name, value in one.book.items())
        times = (f"{one.times.value:.2f}", f"{one.times.low:.2f} to {one.times.high:.2f}") if one.points else ("", "")
        rows.append((one.stack, f"{one.points}", *times, books, one.verdict))
    heads = ["stack", "points", "times what is expected", "normal", "the book's machines", "verdict"]
    return pd.DataFrame(rows, columns=heads)


def _of_the_book(stack: str) -> str:
    """The book's own stack of this kind: a Colab runtime's packages are newer or older, and do the same work."""
    return stack.removeprefix("colab-") if stack == "colab-numpy" else stack.replace("colab-", "2026-")


def _placed(stack: str, mine: pd.DataFrame, points: dict[str, Point], priced: Prices, itself: str) -> Placed:
    """One stack; mine: its rows (measured); points: by key; priced: the formula at this machine's rates; itself:
    the machine's name in the book where it is held against the others.
    """
    pairs = [(one, of_point(_of_the_book(stack), one.key, itself)) for one in mine.itertuples()]
    by_formula = not any(len(book) for _, book in pairs)
    told = by_formula and _reach(1, 1, priced.error) < USELESS
    pairs = [(one, book) for one, book in pairs if len(book) or (told and prices.usable(points[one.key]))]
    runs, disturbed = (sum(getattr(one, name) for one, _ in pairs) for name in ("runs", "disturbed"))
    if not pairs:
        return Placed(stack, 0, runs, disturbed, Interval(NAN), {}, "", 0, ())
    steps = [one.step_s / priced.step_s(points[one.key].work) for one, _ in pairs]
    middles = [0.0 if by_formula else float(book["beyond"].median()) for _, book in pairs]
    beyond = np.log(steps) - middles
    mean, error = float(beyond.mean()), priced.error if by_formula else 0.0
    reach, alone = _reach(len(pairs), 1, error), _reach(1, len(pairs), error)
    single = beyond[np.abs(beyond) > alone]  # off by themselves, whatever the others are
    most = mean if abs(mean) > reach else max(single, key=abs, default=0.0)
    off: Off = "slower" if most > 0 else "faster" if most < 0 else ""
    others = [book.set_index("machine")["beyond"] - m for (_, book), m in zip(pairs, middles, strict=True)]
    return Placed(
        stack,
        len(pairs),
        runs,
        disturbed,
        times=Interval(math.exp(mean), math.exp(-reach), math.exp(reach)),
        book=np.exp(pd.concat(others).groupby(level="machine").mean()).to_dict(),
        off=off,
        at=len(pairs) if abs(mean) > reach else len(single),
        notes=tuple(_notes(pairs, off, disturbed, runs)),
    )


def _reach(numbers: int, asked: int, error: float = 0.0) -> float:
    """How far the mean logarithm of so many points lies from zero at the most, for 95 % of machines like the book's.

    Two things move it: the machine's whole stack (error: the formula's, where it is alone), and its single
    points. asked: how many such means are looked at together.
    """
    of_machine, of_point, degrees = spread()
    error = math.hypot(max(of_machine, error), of_point / math.sqrt(numbers))
    return float(stdtrit(degrees, 1 - (1 - LEVEL) / 2 / asked)) * error


def _notes(pairs: list[tuple[Any, pd.DataFrame]], off: Off, disturbed: int, runs: int) -> Iterator[str]:
    """What was noticed that may tell why. pairs: each point (a row of measured), and the book's machines at it;
    off, disturbed, runs: as Placed has them.
    """
    pages = [one.faults - book["faults"].median() for one, book in pairs]
    if off == "slower" and (many := [each for each in pages if each > PAGES]):
        yield f"at one configuration {max(many):,.0f} {MAPPED}"
    ways = [(one.path, set(book["path"]) - {""}) for one, book in pairs]
    other = {(mine, " or ".join(sorted(books))) for mine, books in ways if mine and books and mine not in books}
    for mine, books in sorted(other):
        yield f"its code path is another: {mine}; on the book's machines: {books}"
    if off and disturbed:
        most = max(one.others for one, _ in pairs if one.disturbed)
        busy = f"something else kept processors busy in {disturbed} of {runs} runs, up to {most:.1f} of them"
        yield f"{busy}: measure again when the machine is left alone"
    if not any(len(book) for _, book in pairs):
        yield "none of the book's machines has these configurations: held against the formula alone"


# What the book's machines took


def measured(root: Path, machine: str) -> pd.DataFrame:
    """A row a point of one machine that ended well: stack, key, path, step_s, faults (pages a step), how it was run.

    Of a point that was measured in several ways that must not be pooled, the one whose code path is known, then the one
    with the most invocations, then the newest. Further columns: runs, disturbed (of these), others (processors that
    something else kept busy, at the most).
    """
    rows = tidy_table(root, machine)
    columns = ["stack", "key", "path", "step_s", "faults", "runs", "disturbed", "others"]
    ended = rows[rows["status"] == "ok"]
    if ended.empty:
        return pd.DataFrame(columns=columns)
    found = by_point(rows).dropna(subset="step_s")
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
    """A row a point of the book's machines (COLUMNS): seconds a step, and the formula's at the machine's rates."""
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
