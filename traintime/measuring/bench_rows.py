"""What the rows of a table cost in `fit`: dense Adam, the same Adam deferred, and a frozen table, in turn."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from traintime.measuring import measure
from traintime.measuring.protocol import Protocol
from traintime.measuring.stacks import Stack
from traintime.point import make_point

WAYS: dict[str, dict[str, Any]] = {
    "dense": {"optimizer": "adam"},
    "deferred": {"optimizer": "adam-deferred"},
    "frozen": {"frozen": True},
}
VOCABULARIES = (5_000, 20_000, 200_000, 2_000_000)
# Of a loop of `fit`, and half of another: a dense step may take seconds, where the others take milliseconds.
STEPS = {"dense": 5, "deferred": 40, "frozen": 40}
TIMEOUT_S = 1800.0
HEADS = ["stack", "rows", "dense", "deferred", "frozen", "dense / deferred", "deferred / frozen", "memory"]


@dataclass(frozen=True)
class Rows:
    """A table's size on a stack. step_s: seconds of a step of `fit`, and peak_bytes, by way; None where it failed."""

    stack: str
    vocabulary: int
    step_s: dict[str, float | None]
    peak_bytes: dict[str, float | None]

    @property
    def plain(self) -> dict[str, Any]:
        """As a dict of plain values, with the ratios."""
        return {
            "stack": self.stack,
            "vocabulary": self.vocabulary,
            "step_s": self.step_s,
            "peak_bytes": self.peak_bytes,
            "dense_over_deferred": _ratio(self.step_s, "dense", "deferred"),
            "deferred_over_frozen": _ratio(self.step_s, "deferred", "frozen"),
            "memory_deferred_over_dense": _ratio(self.peak_bytes, "deferred", "dense"),
        }

    @property
    def cells(self) -> list[str]:
        """As a line of a table: ms, ratios, and the peak memory of deferred over that of dense."""
        shown = [f"{seconds * 1e3:.0f} ms" if seconds else "failed" for seconds in self.step_s.values()]
        ratios = [ratio for name, ratio in self.plain.items() if "_over_" in name]
        return [self.stack, f"{self.vocabulary:,}", *shown, *(f"{one:.2f}" if one else "" for one in ratios)]


def _ratio(by_way: dict[str, float | None], above: str, below: str) -> float | None:
    one, other = by_way[above], by_way[below]
    return one / other if one and other else None


def run(chosen: list[Stack], vocabularies: tuple[int, ...] = VOCABULARIES, rounds: int = 1) -> Iterator[Rows]:
    """Measure every way at every size, interleaved, and give each size when it is done: medians over the rounds."""
    for stack in chosen:
        for vocabulary in vocabularies:
            steps: dict[str, list[float]] = {way: [] for way in WAYS}
            peaks: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way, fields in WAYS.items():
                    point = make_point(vocabulary=vocabulary, loop="fit", **fields)
                    record = measure.measure(point, stack, Protocol(steps=STEPS[way], timeout_s=TIMEOUT_S))
                    if record["status"] == "ok":
                        steps[way].append(step_s(record["result"]["loops"], point.sizes.batch))
                        peaks[way].append(record["result"]["memory"]["peak"])
            yield Rows(stack.name, vocabulary, _medians(steps), _medians(peaks))


def step_s(loops: list[dict[str, Any]], batch: int) -> float:
    """Seconds of one more step of `fit`, from the loops that a worker runs: a short and a long one, twice."""
    pairs = [(loop["sentences"] / batch, (loop["trained_ns"] or loop["ns"]) / 1e9) for loop in loops]
    slopes = [(long - short) / (more - few) for (few, short), (more, long) in zip(pairs[::2], pairs[1::2], strict=True)]
    return statistics.mean(slopes)


def _medians(found: dict[str, list[float]]) -> dict[str, float | None]:
    return {way: statistics.median(values) if values else None for way, values in found.items()}
