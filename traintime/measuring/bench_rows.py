"""What the rows of a table cost in `fit`: dense Adam, the same Adam deferred, and a frozen table, in turn.

Below what was measured on a stack comes each goal, with what was found of it.
"""

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from traintime.measuring import equal_losses, measure
from traintime.measuring.protocol import Protocol
from traintime.measuring.stacks import Stack
from traintime.point import make_point

WAYS: dict[str, dict[str, Any]] = {
    "dense": {"optimizer": "adam"},
    "deferred": {"optimizer": "adam-deferred"},
    "frozen": {"frozen": True},
}
VOCABULARIES = (5_000, 20_000, 200_000, 2_000_000)
# Narrow rows, as those of the sweep rows-many: so many that dense Adam's do not fit into memory.
MANY, NARROW = (20_000, 10_000_000), 50
# Of a loop of `fit`, and half of another: a dense step may take seconds, where the others take milliseconds.
STEPS = {"dense": 5, "deferred": 40, "frozen": 40}
TIMEOUT_S = 1800.0
HEADS = ["stack", "rows", "dense", "deferred", "frozen", "dense / deferred", "deferred / frozen", "memory", "goal"]
LARGE, SMALL, FLAT_FROM = 2_000_000, 5_000, 20_000  # rows at which goals are judged
GOALS_OF = "2026-tensorflow"  # the stack that those of LARGE rows are of
ALIKE_STEPS = 100


@dataclass(frozen=True)
class RowCosts:
    """A table's size on a stack. step_s: seconds of a step of `fit`, and peak_bytes, by way; None where it failed.

    rounds_s: seconds of each round, by way; embedding: numbers of a row, None for the usual ones.
    """

    stack: str
    vocabulary: int
    step_s: dict[str, float | None]
    peak_bytes: dict[str, float | None]
    rounds_s: dict[str, list[float]] = field(default_factory=dict)
    embedding: int | None = None

    @property
    def plain(self) -> dict[str, Any]:
        """As a dict of plain values, with the ratios."""
        return asdict(self) | {
            "dense_over_deferred": _ratio(self.step_s, "dense", "deferred"),
            "deferred_over_frozen": _ratio(self.step_s, "deferred", "frozen"),
            "memory_deferred_over_dense": _ratio(self.peak_bytes, "deferred", "dense"),
        }

    @property
    def cells(self) -> list[str]:
        """As a line of a table: ms, with the least and the most of several rounds; ratios, the last of peak memory."""
        rows = f"{self.vocabulary:,}" + (f" of {self.embedding}" if self.embedding else "")
        ratios = [ratio for name, ratio in self.plain.items() if "_over_" in name]
        return [self.stack, rows, *map(self._ms, WAYS), *(f"{one:.2f}" if one else "" for one in ratios), ""]

    def _ms(self, way: str) -> str:
        if way not in self.step_s:
            return ""
        seconds, rounds = self.step_s[way], self.rounds_s.get(way, [])
        between = f" ({min(rounds) * 1e3:.0f} to {max(rounds) * 1e3:.0f})" if len(rounds) > 1 else ""
        return f"{seconds * 1e3:.0f} ms{between}" if seconds else "failed"


@dataclass(frozen=True)
class RowGoal:
    """What has to be reached on a stack. found: None where it could not be measured; below: whether at most, or else
    at least, the bound will do.
    """

    stack: str
    name: str
    found: float | None
    bound: float
    below: bool = True

    @property
    def verdict(self) -> str:
        """Whether it was reached."""
        if self.found is None:
            return "inconclusive"
        return "met" if (self.found <= self.bound if self.below else self.found >= self.bound) else "missed"

    @property
    def plain(self) -> dict[str, Any]:
        """As a dict of plain values."""
        return {
            "stack": self.stack,
            "goal": self.name,
            "found": self.found,
            "at_most" if self.below else "at_least": self.bound,
            "verdict": self.verdict,
        }

    @property
    def cells(self) -> list[str]:
        """As a line of the same table."""
        reached = "" if self.found is None else f"{self.found:.2g}" if self.found < 0.01 else f"{self.found:.2f}"
        goal = f"{'at most' if self.below else 'at least'} {self.bound:g}: {reached} {self.verdict}".replace("  ", " ")
        return [self.stack, self.name, *[""] * (len(HEADS) - 3), goal]


def _ratio(by_way: dict[str, float | None], above: str, below: str) -> float | None:
    one, other = by_way.get(above), by_way.get(below)
    return one / other if one and other else None


def run(
    chosen: list[Stack], vocabularies: tuple[int, ...] = VOCABULARIES, rounds: int = 1
) -> Iterator[RowCosts | RowGoal]:
    """Measure every way at every size, interleaved, and give each size when it is done: medians over the rounds.

    After a stack's sizes come its goals. At the usual sizes the deferred table alone is measured with many narrow rows.
    """
    for stack in chosen:
        costs = []
        sizes = [(vocabulary, None, tuple(WAYS)) for vocabulary in vocabularies]
        if vocabularies == VOCABULARIES:
            sizes += [(vocabulary, NARROW, ("deferred",)) for vocabulary in MANY]
        for vocabulary, embedding, ways in sizes:
            costs.append(_measured(stack, vocabulary, embedding, ways, rounds))
            yield costs[-1]
        yield from goals(stack.name, costs)


def _measured(stack: Stack, vocabulary: int, embedding: int | None, ways: tuple[str, ...], rounds: int) -> RowCosts:
    steps: dict[str, list[float]] = {way: [] for way in ways}
    peaks: dict[str, list[float]] = {way: [] for way in ways}
    narrow = {"embedding": embedding} if embedding else {}
    for _ in range(rounds):
        for way in ways:
            point = make_point(vocabulary=vocabulary, loop="fit", **WAYS[way], **narrow)
            record = measure.measure(point, stack, Protocol(steps=STEPS[way], timeout_s=TIMEOUT_S))
            if record["status"] == "ok":
                steps[way].append(step_s(record["result"]["loops"], point.sizes.batch))
                peaks[way].append(record["result"]["memory"]["peak"])
    return RowCosts(stack.name, vocabulary, _medians(steps), _medians(peaks), steps, embedding)


def goals(stack: str, costs: list[RowCosts]) -> list[RowGoal]:
    """What was to be reached on this stack, and what was found of it."""
    usual = {rows.vocabulary: rows for rows in costs if rows.embedding is None}

    def at(vocabulary: int, above: str, below: str, of: str = "step_s") -> float | None:
        return _ratio(getattr(usual[vocabulary], of), above, below) if vocabulary in usual else None

    of_large = [
        RowGoal(stack, f"dense / deferred at {LARGE:,}", at(LARGE, "dense", "deferred"), 40, below=False),
        RowGoal(stack, f"deferred / frozen at {LARGE:,}", at(LARGE, "deferred", "frozen"), 1.3),
        RowGoal(stack, f"memory at {LARGE:,}", at(LARGE, "deferred", "dense", "peak_bytes"), 0.6),
    ]
    return [
        *(of_large if stack == GOALS_OF else []),
        RowGoal(stack, f"slowest / fastest, {FLAT_FROM:,} to {MANY[-1]:,}", _steepest(costs), 1.2),
        RowGoal(stack, f"deferred / dense at {SMALL:,}", at(SMALL, "deferred", "dense"), 1.1),
        RowGoal(stack, f"losses apart, {ALIKE_STEPS} steps (stored)", _apart(stack), 1e-4),
    ]


def _steepest(costs: list[RowCosts]) -> float | None:
    # Rows of one width, the slowest size over the fastest; None where not all sizes up to the largest were measured.
    ratios = []
    for embedding, largest in ((None, LARGE), (NARROW, MANY[-1])):
        sizes = {
            one.vocabulary: one.step_s.get("deferred")
            for one in costs
            if one.embedding == embedding and one.vocabulary >= FLAT_FROM
        }
        seconds = [one for one in sizes.values() if one]
        if not {FLAT_FROM, largest} <= sizes.keys() or len(seconds) < len(sizes):
            return None
        ratios.append(max(seconds) / min(seconds))
    return max(ratios)


def _apart(stack: str) -> float | None:
    # Of the stored losses the largest share by which deferred Adam's are from those of Adam as published.
    losses = equal_losses.stored().query(f"step <= {ALIKE_STEPS}")
    ways = losses.set_index(["stack", "optimizer", "step"])["loss"].sort_index()
    try:
        return float((ways[stack, "adam-deferred"] / ways["numpy", "adam"] - 1).abs().max())
    except KeyError:
        return None


def step_s(loops: list[dict[str, Any]], batch: int) -> float:
    """Seconds of one more step of `fit`, from the loops that a worker runs: a short and a long one, twice."""
    pairs = [(loop["sentences"] / batch, (loop["trained_ns"] or loop["ns"]) / 1e9) for loop in loops]
    slopes = [(long - short) / (more - few) for (few, short), (more, long) in zip(pairs[::2], pairs[1::2], strict=True)]
    return statistics.mean(slopes)


def _medians(rounds: dict[str, list[float]]) -> dict[str, float | None]:
    return {way: statistics.median(values) if values else None for way, values in rounds.items()}
