"""How many operations a step of an LSTM asks for: counted in real workers, kept in data/derived/operations.csv.

`python -m traintime.measuring.operations` counts again on every stack here that has a profiler for it.
"""

import pandas as pd

from traintime import paths
from traintime.errors import InputError
from traintime.measuring import stacks
from traintime.measuring.measure import default_threads, run_worker
from traintime.point import Point, make_point
from traintime.store import derived

STACKS = ("2017-tensorflow", "2020-tensorflow", "2026-tensorflow", "2026-jax", "2026-torch")
ALGORITHMS = ("default", "per-gate", "combined", "unrolled", "native")
LENGTHS = (10, 50)
LIMIT_S = 600
COLUMNS = ["stack", "algorithm", "length", "operations"]


def counts(stack: str, points: list[Point]) -> list[int]:
    """Operations of one compiled training step of each of these points of one workload, counted in one process.

    Raises InputError where the stack cannot run one so, or has no profiler that counts; RuntimeError where it fails.
    """
    if stack not in STACKS:
        problem = "has no profiler that counts the operations of a step"
        raise InputError("stack", stack, problem, f"Take one of: {', '.join(STACKS)}.")
    chosen, threads = stacks.get(stack), default_threads()
    for point in points:
        stacks.refuse_impossible(point, chosen)
    jobs = [{"sizes": point.sizes.model_dump(), "run": point.run.model_dump()} for point in points]
    job = {"workload": str(points[0].sizes.folder), "api": chosen.api, "threads": threads, "jobs": jobs}
    command = [str(chosen.executable), str(paths.WORKER / "operations.py")]
    answer = run_worker(command, job, chosen.environment(threads, points[0].run), LIMIT_S)
    if answer["status"] != "ok":
        raise RuntimeError(f"{stack} {points[0].workload}: {answer['error']}")
    return answer["result"]["operations"]


def table() -> pd.DataFrame:
    """What the stacks here ask for, a row a stack, algorithm and length: stack, algorithm, length, operations."""
    rows = []
    for stack in (name for name in STACKS if stacks.get(name).present):
        for algorithm in ALGORITHMS:
            points = [make_point("lstm", batch=32, length=length, algorithm=algorithm) for length in LENGTHS]
            try:
                operations = [counts(stack, [point])[0] for point in points]  # each in a process of its own
            except InputError:  # a way that the stack does not have
                continue
            rows += [(stack, algorithm, *each) for each in zip(LENGTHS, operations, strict=True)]
    return pd.DataFrame(rows, columns=COLUMNS)


def stored() -> pd.DataFrame:
    """What was counted last."""
    return derived.read("operations")


if __name__ == "__main__":
    table().to_csv(paths.DERIVED / "operations.csv", index=False)
