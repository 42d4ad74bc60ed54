"""Which seeds of which trials are missing, and their training, several processes at a time."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from traintime import paths
from traintime.errors import InputError
from traintime.learning import results, tasks
from traintime.learning.trial import Trial, make_trial
from traintime.measuring.measure import default_threads
from traintime.measuring.sweep import combinations, settings

SEEDS = 20
FETCHED = ("imdb",)  # tasks whose data ship with no package
CPU = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}


def planned(name: str, fields: dict[str, Any]) -> list[tuple[Trial, int]]:
    """The trials of one entry of a profile's `trials`, each with how many seeds it gets: every combination of the
    listed values, and of each in `also`.
    """
    fields = {"seeds": SEEDS, "also": []} | fields
    seeds, also = fields.pop("seeds"), fields.pop("also")
    if type(seeds) is not int or seeds < 1:
        raise InputError("seeds", seeds, "is refused", "Give a whole number of 1 or more.")
    sets = [fields | settings("also", name, extra) for extra in [{}, *(also if isinstance(also, list) else [also])]]
    trials = dict.fromkeys(make_trial(**row) for one in sets for row in combinations(one, f"the trials {name}"))
    return [(trial, seeds) for trial in trials]


def outstanding(plans: Iterable[tuple[Trial, int]], root: Path) -> list[tuple[Trial, list[int]]]:
    """The trials that lack results, with the seeds they lack. Raises InputError for one that is trained no more."""
    wanted: dict[Trial, int] = {}
    for trial, number in plans:
        wanted[trial] = max(number, wanted.get(trial, 0))
    left = []
    for trial, number in wanted.items():
        missing = sorted(set(range(number)) - results.seeds(root, trial))
        if missing:
            trial.refuse_untrainable()
            left.append((trial, missing))
    return left


def run(
    todo: list[tuple[Trial, list[int]]],
    root: Path,
    jobs: int = 0,
    report: Callable[[Trial, dict[str, Any]], None] = lambda trial, result: None,
    train: Callable[[Trial, list[int]], Iterator[dict[str, Any]]] | None = None,
) -> int:
    """Train what is outstanding and store each result as it comes; return how many came.

    Data that must come over a network are fetched before, once. jobs: processes at a time, of one thread each (0: one a
    processor): seconds mean nothing here. Raises InputError where data cannot be had, or are damaged, and RuntimeError
    with a process's last words where one fails; what came before is kept.
    """
    for name in sorted({trial.task for trial, _ in todo} & set(FETCHED)):
        tasks.load(name)
    jobs = jobs or default_threads()

    def one(trial: Trial, seeds: list[int]) -> int:
        number = 0
        for result in (train or in_a_process)(trial, seeds):
            results.append(root, trial, result | {"code": code(trial)})
            report(trial, result)
            number += 1
        return number

    parts = [(trial, seeds[part::jobs]) for trial, seeds in todo for part in range(min(jobs, len(seeds)))]
    with ThreadPoolExecutor(jobs) as pool:
        return sum(each.result() for each in as_completed([pool.submit(one, *part) for part in parts]))


def code(trial: Trial) -> str:
    """Hash of the sources that train, twelve hexadecimal digits; of a deferred table also those of its package."""
    files = [paths.PACKAGE / "learning" / name for name in ("tasks.py", "train.py")]
    if trial.table == "deferred":
        files += sorted(paths.DEFERRED.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def in_a_process(trial: Trial, seeds: list[int]) -> Iterator[dict[str, Any]]:
    """Train these seeds in a fresh process of one thread, and give each result as it comes."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    flags = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
    # TensorFlow takes its numbers of threads from variables of its own.
    one |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "KERAS_BACKEND": trial.backend}
    environment = os.environ | CPU | one | flags | {"TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(paths.ROOT)}
    command = [sys.executable, "-m", "traintime.learning.train"]
    job = json.dumps({"trial": trial.model_dump(), "seeds": seeds})
    with tempfile.TemporaryFile("w+") as words:  # a pipe that nobody reads would fill up
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": words}
        with subprocess.Popen(command, env=environment, text=True, cwd=paths.ROOT, **pipes) as process:
            process.stdin.write(job)
            process.stdin.close()
            for line in process.stdout:
                yield json.loads(line)
        if process.returncode:
            words.seek(0)
            raise RuntimeError(f"{trial.key}: " + "\n".join(words.read().strip().splitlines()[-5:]))
