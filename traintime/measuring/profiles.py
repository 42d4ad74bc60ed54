"""Profiles of parameters: which sizes a command, or a chapter, runs at."""

from typing import Any

import yaml

from traintime import paths
from traintime.errors import unknown


def load_profile(name: str) -> dict[str, Any]:
    """The profile's settings; raises InputError for an unknown one."""
    path = paths.PROFILES / f"{name}.yaml"
    if not path.exists():
        raise unknown("profile", name, sorted(p.stem for p in paths.PROFILES.glob("*.yaml")))
    return yaml.safe_load(path.read_text())
