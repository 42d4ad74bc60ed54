"""What the two commands cost, as a new user would see it: `make bench-build` prints the times next to our goals.

Everything happens in a fresh clone of the last commit, in a temporary folder. Nothing else should run meanwhile.
"""

import contextlib
import json
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from traintime import paths

WATCH_S = 0.2  # between two looks at what runs
OWN = ("traintime.book make", "-m snakemake", "make book")  # processes that only decide what is to be done


@dataclass
class CommandCost:
    """What a command took. cpu_s: processor time by the process's command line, with the processes that ended."""

    seconds: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)

    @property
    def total_s(self) -> float:
        """Processor time of all its processes that lived long enough to be seen."""
        return sum(self.cpu_s.values())

    @property
    def own_s(self) -> float:
        """Processor time of those that decide, and neither measure nor run nor build anything."""
        return sum(s for command, s in self.cpu_s.items() if any(own in command for own in OWN))


def timed(command: list[str], folder: Path) -> CommandCost:
    """Run a command and watch its processes. Raises RuntimeError with its last words where it fails."""
    cost, start = CommandCost(), time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = psutil.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            with contextlib.suppress(psutil.Error):
                for each in [process, *process.children(recursive=True)]:
                    with contextlib.suppress(psutil.Error):
                        times = each.cpu_times()
                        cost.cpu_s[f"{each.pid} {' '.join(each.cmdline())}"] = times.user + times.system
            time.sleep(WATCH_S)
        cost.seconds = time.monotonic() - start
        if process.returncode:
            output.seek(0)
            raise RuntimeError(f"{' '.join(command)} failed:\n{output.read().decode(errors='replace')[-3000:]}")
    return cost


def change_a_sentence(folder: Path) -> None:
    """Another sentence in a chapter."""
    path = folder / "chapters" / "03-vocabulary.ipynb"
    notebook = json.loads(path.read_text())
    notebook["cells"][0]["source"].append("\n\nOne more sentence.")
    path.write_text(json.dumps(notebook, indent=1) + "\n")


def change_a_figure(folder: Path) -> None:
    """Another line in what draws a chapter's figures."""
    path = folder / "traintime" / "book" / "plots" / "changes.py"
    path.write_text(path.read_text() + "\nCHANGED = True\n")


def main() -> None:
    """Time everything and print it."""
    table = Table("", "seconds", "goal", "processor time, s", "of it the workflow's own")

    def row(name: str, goal: str, cost: CommandCost) -> None:
        share = cost.own_s / cost.total_s if cost.total_s else 0.0
        table.add_row(name, f"{cost.seconds:.0f}", goal, f"{cost.total_s:.0f}", f"{cost.own_s:.0f} ({share:.0%})")
        Console().print(f"{name}: {cost.seconds:.0f} s")

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "book"
        subprocess.run(["git", "clone", "--quiet", str(paths.ROOT), str(folder)], check=True)
        row("make setup", "", timed(["make", "setup"], folder))
        row("make book, after that", "480 with the line above", timed(["make", "book"], folder))
        row("make book, nothing changed", "10", timed(["make", "book"], folder))
        change_a_sentence(folder)
        row("make book, one sentence changed", "30", timed(["make", "book"], folder))
        change_a_figure(folder)
        row("make book, one figure changed", "30", timed(["make", "book"], folder))
        test = [".venv/bin/python", "-m", "pytest", "-q", "tests/unit/test_markup.py"]
        row("the unit tests of one module", "3", timed(test, folder))
    Console().print(table)


if __name__ == "__main__":
    main()
