"""The results of trials: one file a trial, a line a seed; read as one table."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from traintime import paths
from traintime.learning.trial import Trial, make_trial
from traintime.store import records

SCHEMA = 1
COLUMNS = ["key", "seed", "accuracy", "loss", "training_loss", "seconds"]


def file_of(root: Path, trial: Trial) -> Path:
    """The file that takes the trial's results."""
    return root / f"{trial.key}.json"


def read(path: Path) -> dict[str, Any]:
    """A trial's fields and results by seed; without results where there is no file yet."""
    return json.loads(path.read_text()) if path.exists() else {"schema_version": SCHEMA, "trial": {}, "results": []}


def seeds(root: Path, trial: Trial) -> set[int]:
    """The seeds that have a result."""
    return {each["seed"] for each in read(file_of(root, trial))["results"]}


def append(root: Path, trial: Trial, result: dict[str, Any]) -> None:
    """Store one seed's result, whole or not at all; one that is there already stays."""
    path = file_of(root, trial)
    path.parent.mkdir(parents=True, exist_ok=True)
    with records.lock(path):
        stored = read(path)
        if result["seed"] in {each["seed"] for each in stored["results"]}:
            return
        stored["trial"] = trial.model_dump()
        stored["results"] = sorted([*stored["results"], result], key=lambda each: each["seed"])
        records.write_atomically(path, records.dumps(stored))


def table(root: Path = paths.TRIALS) -> pd.DataFrame:
    """One row a seed: the trial's fields and its result. Raises InputError for a file whose name is not its trial's."""
    rows = []
    for path in sorted(root.glob("*.json")):
        stored = read(path)
        trial = make_trial(**stored["trial"])
        rows += [{"key": trial.key, **trial.model_dump(), **result} for result in stored["results"]]
    return pd.DataFrame(rows, columns=[*Trial.model_fields, *COLUMNS] if not rows else None)


def settings(task: str, **changes: Any) -> dict[str, Any]:
    """Every field of a trial of this task that has its usual values but for these changes."""
    return make_trial(task=task, **changes).model_dump()
