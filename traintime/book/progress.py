"""How far a build is, and how long the rest will take. Each chapter's process says it: this module is quick to load."""

import json
import math
from collections.abc import Iterable
from pathlib import Path

from traintime.book import execute

USUAL_S = 12  # seconds of a chapter that has never run here


def stale(work: Path) -> list[str]:
    """Chapters that are to be run."""
    left = []
    for chapter in execute.chapters():
        made = work / "executed" / f"{chapter}.ipynb"
        if not made.exists() or made.stat().st_mtime < (work / "inputs" / chapter).stat().st_mtime:
            left.append(chapter)
    return left


def durations(work: Path) -> dict[str, float]:
    """What each chapter took when it last ran here, s."""
    seconds = {}
    for path in (work / "executed").glob("*.ipynb"):
        told = json.loads(path.read_text())["metadata"].get("papermill", {}).get("duration")
        seconds[path.stem] = told or USUAL_S
    return seconds


def about(left: Iterable[str], seconds: dict[str, float]) -> str:
    """How long these chapters will take. seconds: what chapters took before; one that never ran takes their mean."""
    usual = sum(seconds.values()) / len(seconds) if seconds else USUAL_S
    expected = sum(seconds.get(chapter, usual) for chapter in left) / 2  # two at a time
    return f"about {expected / 60:.0f} min" if expected > 100 else f"about {10 * math.ceil(expected / 10)} s"


def say_how_far(work: Path, chapter: str, took_s: float) -> None:
    """Say that a chapter is done, how many are left, and about how long those take."""
    plan = json.loads((work / "plan.json").read_text())
    left = [name for name in stale(work) if name != chapter]
    seconds = plan["seconds"] | {name: s for name, s in durations(work).items() if name not in left} | {chapter: took_s}
    rest = f"{len(left)} left, {about(left, seconds)}" if left else "now the pages"
    say(f"{chapter} ran in {took_s:.0f} s; {rest}")


def say(line: str) -> None:
    """Print a line at once, also into a pipe."""
    print(line, flush=True)
