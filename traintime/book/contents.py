"""The book's chapters, and which of them a claim is of."""

import functools
from pathlib import Path

import yaml

from traintime import paths


@functools.cache  # a build asks some five hundred times
def chapters() -> dict[str, Path]:
    """Source notebook of every chapter in the table of contents, by name, in reading order."""
    parts = yaml.safe_load((paths.ROOT / "_toc.yml").read_text())["parts"]
    files = [chapter["file"] for part in parts for chapter in part["chapters"]]
    return {Path(file).name: paths.ROOT / f"{file}.ipynb" for file in files if file.startswith("chapters/")}
