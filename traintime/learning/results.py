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


def _read(root: Path, trial: Trial) -> dict[str, Any]:
    """What a trial's file holds; no results where there is none yet."""
    path = root / f"{trial.key}.json"
    return json.loads(path.read_text()) if path.exists() else {"schema_version": SCHEMA, "trial": {}, "results": []}


def seeds(root: Path, trial: Trial) -> set[int]:
    """The seeds that have a result."""
    return {each["seed"] for each in _read(root, trial)["results"]}


def append(root: Path, trial: Trial, result: dict[str, Any]) -> None:
    """Store one seed's result, whole or not at all; one that is there already stays."""
    path = root / f"{trial.key}.json"
    with records.lock(path):
        if result["seed"] in seeds(root, trial):
            return
        stored = _read(root, trial) | {"trial": trial.model_dump()}
        stored["results"] = sorted([*stored["results"], result], key=lambda each: each["seed"])
        records.write_atomically(path, records.dumps(stored))


def table(root: Path = paths.TRIALS) -> pd.DataFrame:
    """One row a seed: the trial's fields and its result. Raises InputError for a field that no trial has."""
    rows = []
    for path in sorted(root.glob("*.json")):
        stored = json.loads(path.read_text())
        trial = make_trial(**stored["trial"])
        rows += [{"key": trial.key, **trial.model_dump(), **result} for result in stored["results"]]
    return pd.DataFrame(rows, columns=[*Trial.model_fields, *COLUMNS] if not rows else None)


def settings(task: str, **changes: Any) -> dict[str, Any]:
    """Every field of a trial of this task that has its usual values but for these changes."""
    return make_trial(task=task, **changes).model_dump()
