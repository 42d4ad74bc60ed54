"""On Colab: what a runtime lacks of the package's dependencies, and the sizes for its GPU."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from typing import Any

from traintime import paths
from traintime.book import VERDICTS
from traintime.measuring import machine, stacks, sweep

PROFILE = "colab"


def lacking() -> list[str]:
    """The package's own requirements, and its chapters', that are not installed, as pyproject.toml states them."""
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())["project"]
    stated = project["dependencies"] + project["optional-dependencies"]["chapters"]
    here = {each.name.lower() for each in distributions() if each.name}
    return [requirement for requirement in stated if re.split(r"[<>=!~ \[]", requirement)[0] not in here]


def prepare() -> None:
    """Install what is lacking, and change nothing that is there. Processes that cells start find the package, too.

    The verdicts are taken as they were published: what they rest on cannot be looked at here, and has not changed.
    Raises RuntimeError with pip's last words where that cannot be done.
    """
    os.environ |= {VERDICTS: str(paths.DERIVED / "verdicts.csv"), "PYTHONPATH": str(paths.ROOT)}
    if not (wanted := lacking()):
        return
    held = sorted({f"{each.name}=={each.version}" for each in distributions() if each.name})
    constraints = paths.ROOT / "preinstalled.txt"
    constraints.write_text("\n".join(held) + "\n")
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", str(constraints)]
    answer = subprocess.run([*command, *wanted], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        last = "\n".join((answer.stdout + answer.stderr).strip().splitlines()[-5:])
        raise RuntimeError(f"pip could not add {', '.join(wanted)} to what this runtime has:\n{last}")


def sizes(chapter: str) -> dict[str, Any]:
    """A chapter's parameters for a Colab runtime with a GPU (profiles/colab.yaml); elsewhere none."""
    if not stacks.on_colab():
        return {}
    if not (cards := machine.gpus()):
        print("This runtime has no GPU, so sizes are small. For one: menu Runtime, Change runtime type, T4 GPU.")
        return {}
    print(f"On {cards[0]['name']}, with the sizes of the profile {PROFILE}.")
    return sweep.load_profile(PROFILE)["chapters"].get(chapter) or {}
