"""Is my run normal? A machine's measurements among the book's: which stack is off, by how much, and in which part."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import stdtrit

from traintime import paths
from traintime.errors import InputError, unknown
from traintime.explain.statistics import NAN, Interval
from traintime.explain.terms import PARTS, by_part
from traintime.measuring.machine import this
from traintime.point import Point
from traintime.predict import normal, prices
from traintime.predict.prices import Prices, rms

TITLE = "Times what the book's machines lead one to expect at the rates of this one"
LEVEL = 0.95
MAPPED, ALIKE, OTHERS = "mapping", "all", "others"
WORDS = {name: part.explanation for name, part in PARTS.items()} | {
    MAPPED: "fresh pages mapped at every step: another allocator keeps its memory (chapter 4)",
    ALIKE: "every part alike: the processor itself, its threads, or the libraries' code for it",
    OTHERS: "what else ran at the same time: measure again when the machine is left alone",
}
PAGES = 1_000  # page faults a step beyond the usual that can make a step slow: 4 MB
DEAREST_FAULT_S = 10e-6  # what a fault can cost at the most; one to two microseconds are usual (chapter 4)
USELESS = math.log(5)  # a range of normal that reaches so far says nothing
# What explains the points nearly as well as the best explanation is not told apart from it: times its error, and more.
NEARLY, ALMOST = 1.25, 0.02
LEAST_MOST = (-0.95, 100.0)  # by how many times its price a part may be cheaper, or dearer
HALF = 0.5  # of what is off, that an explanation must take away
MOST = 3  # explanations that are worth naming together
Off = Literal["slower", "faster", ""]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Placed:
    """A stack on the reader's machine, among the book's.

    points: of its points that one of the book's machines has; runs: of these, disturbed: by something else; times:
    geometric mean of what they took over what the book's machines lead one to expect at this machine's rates, with the
    range that is normal (95 % of machines like the book's) around 1; book: the same of each of the book's machines;
    off: "slower", "faster" or "" where it is normal; at: points that are, all of them where their mean is; parts: what
    is off (WORDS), one explanation or several that the points cannot distinguish, each of one thing or two; none where
    nothing explains it; notes: what else tells why.
    """

    stack: str
    points: int
    runs: int
    disturbed: int
    times: Interval
    book: dict[str, float]
    off: Off
    at: int
    parts: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if not self.points:
            return "nothing to compare with"
        where = "" if self.at in (0, self.points) else f" at {self.at} of {self.points} configurations"
        return f"{self.off} than normal{where}" if self.off else "normal"

    @property
    def why(self) -> tuple[str, ...]:
        """Sentences that tell what is off, and what was noticed."""
        if not self.off:
            return self.notes
        if not self.parts:
            return ("no single part of a step explains it", *self.notes)
        if len(self.parts) > MOST:
            return ("these configurations do not show which part of a step: measure other sizes, too", *self.notes)
        surely = [name for name in self.parts[0] if all(name in names for names in self.parts)]
        one_of = [WORDS[name] for names in self.parts for name in names if name not in surely]
        said = [WORDS[name] for name in surely] + (["; or ".join(one_of)] if one_of else [])
        return (f"what is off: {'. In addition: '.join(said)}", *self.notes)

    @property
    def plain(self) -> dict[str, Any]:
        """For a program: names and numbers."""
        return asdict(self) | {"verdict": self.verdict, "why": list(self.why)}


def machines(root: Path) -> list[str]:
    """The machines whose measurements a folder holds. Raises InputError for one that holds none."""
    if not root.is_dir():
        raise InputError("folder", str(root), "does not exist", "Name a folder of measurement files.")
    found = sorted(path.name for path in root.iterdir() if (path / "machine.json").exists())
    if not found:
        remedy = "Name the folder that holds a machine's folder, as `traintime sweep --to` made it."
        raise InputError("folder", str(root), "holds no machine's measurements", remedy)
    return found


def compare(root: Path, machine: str | None = None) -> list[Placed]:
    """Each stack of a machine among the book's.

    root: a folder of measurements; machine: which of those in it, where there are several (this one, where it is
    among them). One of the book's own is held against the others. Raises InputError for a folder without
    measurements, an unknown machine, or one without rates.
    """
    known = machines(root)
    if machine is None and len(known) > 1 and this() in known:
        machine = this()
    if machine is None and len(known) > 1:
        raise InputError("machine", "", "was not named, and there are several", f"Name one of: {', '.join(known)}.")
    if machine is not None and machine not in known:
        raise unknown("machine", machine, known)
    machine = machine or known[0]
    rows, points = normal.measured(root, machine), normal.points_by_key(root, machine)
    if rows.empty:
        raise InputError("machine", machine, "has no run that ended well", "Measure something first: traintime sweep")
    rates = prices.own_rates(machine, root)
    itself = normal.titles().get(machine, "") if root.resolve() == paths.MEASUREMENTS.resolve() else ""
    found = []
    for stack, mine in rows.groupby("stack", sort=True):
        priced = prices.of_rates(machine, rates, _of_the_book(str(stack)))
        found.append(_placed(str(stack), mine, points, priced, itself))
    return found


def status(found: Sequence[Placed]) -> int:
    """Exit status for scripts: 0 all is normal, 1 something is off, 3 nothing could be compared."""
    if not any(one.points for one in found):
        return 3
    return int(any(one.off for one in found))


def table(found: Sequence[Placed]) -> pd.DataFrame:
    """As a reader sees it, a row a stack."""
    rows = [
        {
            "stack": one.stack,
            "points": f"{one.points}",
            "times what is expected": f"{one.times.value:.2f}" if one.points else "",
            "normal": f"{one.times.low:.2f} to {one.times.high:.2f}" if one.points else "",
            "the book's machines": ", ".join(f"{name[-1]} {value:.2f}" for name, value in one.book.items()),
            "verdict": one.verdict,
        }
        for one in found
    ]
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class _Measured:
    """Points of a stack, shape (points,) each: seconds a step, what is expected, and pages mapped beyond the usual.

    parts: seconds of what is expected by part of a step (terms.PARTS).
    """

    step_s: Array
    expected_s: Array
    parts: dict[str, Array]
    pages: Array

    @property
    def beyond(self) -> Array:
        """Logarithm of what the steps took over what is expected."""
        return np.log(self.step_s / self.expected_s)

    @property
    def with_pages(self) -> "_Measured":
        """The points whose pages were counted, where these are more than a few; else all."""
        counted = np.isfinite(self.pages)
        if counted.sum() <= MOST:
            return self
        parts = {name: amounts[counted] for name, amounts in self.parts.items()}
        return _Measured(self.step_s[counted], self.expected_s[counted], parts, self.pages[counted])

    @property
    def more_pages(self) -> bool:
        """Whether pages were counted, and so many more that they may explain something."""
        return bool(np.isfinite(self.pages).all() and self.pages.max() > PAGES)


def _of_the_book(stack: str) -> str:
    """The book's own stack of this kind: a Colab runtime's packages are newer or older, and do the same work."""
    return stack.removeprefix("colab-") if stack == "colab-numpy" else stack.replace("colab-", "2026-")


def _placed(stack: str, mine: pd.DataFrame, points: dict[str, Point], priced: Prices, itself: str) -> Placed:
    """One stack; mine: its rows (normal.measured); points: by key; priced: the formula at this machine's rates; itself:
    the machine's name in the book where it is held against the others.
    """
    pairs = [(one, normal.of_point(_of_the_book(stack), one.key, itself)) for one in mine.itertuples()]
    by_formula = not any(len(book) for _, book in pairs)
    told = by_formula and _reach(1, 1, priced.error) < USELESS
    pairs = [(one, book) for one, book in pairs if len(book) or (told and prices.usable(points[one.key]))]
    runs, disturbed = (sum(getattr(one, name) for one, _ in pairs) for name in ("runs", "disturbed"))
    if not pairs:
        return Placed(stack, 0, runs, disturbed, Interval(NAN), {}, "", 0, (), ())
    middles = [0.0 if by_formula else float(book["beyond"].median()) for _, book in pairs]
    parts = [by_part(priced.parts(points[one.key].work)) for one, _ in pairs]
    scale = np.exp(middles)
    measured = _Measured(
        np.array([one.step_s for one, _ in pairs]),
        scale * [sum(each.values()) for each in parts],
        {name: scale * [each[name] for each in parts] for name in parts[0]},
        np.array([NAN if by_formula else one.faults - book["faults"].median() for one, book in pairs], float),
    )
    mean, error = float(measured.beyond.mean()), priced.error if by_formula else 0.0
    reach, alone = _reach(len(pairs), 1, error), _reach(1, len(pairs), error)
    single = measured.beyond[np.abs(measured.beyond) > alone]  # off by themselves, whatever the others are
    most = mean if abs(mean) > reach else float(single[np.argmax(np.abs(single))]) if len(single) else 0.0
    off: Off = "slower" if most > 0 else "faster" if most < 0 else ""
    others = [book.set_index("machine")["beyond"] - m for (_, book), m in zip(pairs, middles, strict=True)]
    book_means = {} if by_formula else pd.DataFrame(others).mean().sort_index().to_dict()
    explained: tuple[tuple[str, ...], ...] = ()
    if off:
        explained = ((OTHERS,),) if 2 * disturbed > runs else _explained(measured)
    return Placed(
        stack,
        len(pairs),
        runs,
        disturbed,
        times=Interval(math.exp(mean), math.exp(-reach), math.exp(reach)),
        book={str(name): math.exp(value) for name, value in book_means.items()},
        off=off,
        at=len(pairs) if abs(mean) > reach else len(single),
        parts=explained,
        notes=(
            *(_of_pages(measured) if any(MAPPED in names for names in explained) else ()),
            *_of_paths([(one.path, set(book["path"]) - {""}) for one, book in pairs]),
            *(_of_others([one for one, _ in pairs], disturbed, runs) if off else ()),
            *(("none of the book's machines has these configurations: held against the formula alone",) * by_formula),
        ),
    )


def _reach(numbers: int, asked: int, error: float = 0.0) -> float:
    """How far the mean logarithm of so many points lies from zero at the most, for 95 % of machines like the book's.

    Two things move it: the machine's whole stack (error: the formula's, where it is alone), and its single
    points. asked: how many such means are looked at together.
    """
    usual = normal.spread()
    error = math.hypot(max(usual.machine, error), usual.point / math.sqrt(numbers))
    return float(stdtrit(usual.degrees, 1 - (1 - LEVEL) / 2 / asked)) * error


def _explained(measured: _Measured) -> tuple[tuple[str, ...], ...]:
    """What explains the steps, each by a cost of its own for the whole stack: the best, and what is nearly as good.

    One thing, or mapped pages and one more where two leave half of what one leaves, or less; of a few points two would
    explain anything. Pages are counted and not inferred: where they explain as much as anything else, it is they.
    """
    measured, found = measured.with_pages, {}
    left = rms(measured.beyond)
    for mapped in (False, True) if len(measured.step_s) > MOST else (False,):
        if enough := {names: error for names, error in _explanations(measured, mapped) if error <= HALF * left}:
            found, left = enough, min(enough.values())
    limit = NEARLY * left + ALMOST
    best = tuple(names for names, error in sorted(found.items(), key=lambda each: each[1]) if error <= limit)
    if (MAPPED,) in best or (len(best) > MOST and all(MAPPED in names for names in best)):
        return ((MAPPED,),)
    if (ALIKE,) in best[:1] and len(measured.step_s) > MOST:
        return ((ALIKE,),)
    return best


def _explanations(measured: _Measured, mapped: bool) -> Iterator[tuple[tuple[str, ...], float]]:
    """What stays unexplained (root mean square of logarithms) if one part costs more or less than expected; mapped: if
    pages are mapped, and a part costs more or less as well.
    """
    pages = [(measured.pages, 0.0, DEAREST_FAULT_S)] if measured.more_pages else []
    if mapped and not pages:
        return
    if not mapped:
        yield (ALIKE,), rms(measured.beyond - measured.beyond.mean())
    for name, amounts in measured.parts.items():
        if amounts.max() > 0:
            changes = [*(pages if mapped else ()), (amounts, *LEAST_MOST)]
            yield (MAPPED, name) if mapped else (name,), _left(measured, *changes)[1]
    if pages and not mapped:
        yield (MAPPED,), _left(measured, *pages)[1]


def _left(measured: _Measured, *changes: tuple[Array, float, float]) -> tuple[Array, float]:
    """The costs of a unit more of these amounts that explain the steps best, and what they leave.

    changes: (amount of each point, lowest and highest cost).
    """
    amounts = np.column_stack([each[0] for each in changes])
    least, most = (np.array([each[place] for each in changes]) for place in (1, 2))

    def errors(shares: Array) -> Array:
        steps = measured.expected_s + amounts @ (least + shares * (most - least))
        return np.log(measured.step_s / np.maximum(steps, 1e-9))

    start = np.clip(-least / (most - least), 0.0, 1.0) + 1e-3
    found = least_squares(errors, start, bounds=(0.0, 1.0))
    return least + found.x * (most - least), rms(found.fun)


def _of_pages(measured: _Measured) -> tuple[str, ...]:
    measured = measured.with_pages
    price = _left(measured, (measured.pages, 0.0, DEAREST_FAULT_S))[0][0]
    worst = int(np.argmax(measured.pages))
    count = f"at one configuration {measured.pages[worst]:,.0f} pages a step are mapped beyond the usual"
    return (f"{count}; at {price * 1e6:.1f} µs each they explain the steps best",)


def _of_paths(found: list[tuple[str, set[str]]]) -> tuple[str, ...]:
    """Where another code path was taken than on every one of the book's machines."""
    other = sorted({(mine, " or ".join(sorted(book))) for mine, book in found if mine and book and mine not in book})
    return tuple(f"its code path is another: {mine}; on the book's machines: {book}" for mine, book in other)


def _of_others(found: list[Any], disturbed: int, runs: int) -> tuple[str, ...]:
    """Where something else kept the processors busy."""
    if not disturbed:
        return ()
    most = max(one.others for one in found if one.disturbed)
    return (f"something else kept processors busy in {disturbed} of {runs} runs, up to {most:.1f} of them",)
