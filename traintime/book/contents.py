"""The book's chapters."""

import functools
from pathlib import Path

import yaml

from traintime import paths


def chapters() -> dict[str, Path]:
    """Source notebook of every chapter in the table of contents, by name, in reading order."""
    files = _files((paths.ROOT / "_toc.yml").read_text())
    return {Path(file).name: paths.ROOT / f"{file}.ipynb" for file in files if file.startswith("chapters/")}


@functools.cache  # a build asks some five hundred times
def _files(contents: str) -> list[str]:
    return [chapter["file"] for part in yaml.safe_load(contents)["parts"] for chapter in part["chapters"]]
