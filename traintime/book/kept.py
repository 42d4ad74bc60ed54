"""What is kept and made again when what it rests on has changed: tables that are slow to make, hashes, small files."""

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from traintime import paths
from traintime.store.records import write_atomically


def digest(files: Iterable[Path]) -> str:
    """Hash of the files' places in the checkout and their contents: 24 hexadecimal digits."""
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(f"{os.path.relpath(path, paths.ROOT)}\0".encode())
        state = path.stat()
        whole.update(_content(path, state.st_mtime_ns, state.st_size))
    return whole.hexdigest()[:24]


@functools.cache
def _content(path: Path, *_: int) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


@functools.cache
def readers() -> str:
    """Hash of the code that reads measurement files and makes points of them, and of the pandas that keeps them."""
    folders = ("store", "explain", "workloads")
    sources = [path for name in folders for path in (paths.PACKAGE / name).rglob("*") if path.suffix in (".py", ".csv")]
    others = paths.PACKAGE / "point.py", paths.PACKAGE / "book" / "stored.py", paths.DERIVED / "sweeps.csv"
    return digest([*sources, *others]) + pd.__version__


def table(name: str, key: str, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """The table that `make` gives; from _build/tables where it was made with the same key before.

    A file that is damaged, or was made with another key, is replaced. A missing value is NaN.
    """
    path = paths.TABLES / name / f"{key}.parquet"
    with contextlib.suppress(OSError, ValueError, ImportError):
        return _with_nan(pd.read_parquet(path, page_checksum_verification=True))
    made = _with_nan(make())
    with contextlib.suppress(OSError, ImportError):  # without a place to keep it, or pyarrow, it is made at each use
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}.part")
        made.to_parquet(aside, write_page_checksum=True)
        os.replace(aside, path)
        for old in set(path.parent.glob("*.parquet")) - {path}:
            old.unlink()
    return made


def write_where_it_differs(path: Path, text: str) -> None:
    """Write a text file unless it has that text already: its time then says when it last changed."""
    if not path.exists() or path.read_text() != text:
        write_atomically(path, text)


def _with_nan(read: pd.DataFrame) -> pd.DataFrame:
    """The frame with NaN for None, as parquet cannot distinguish the two."""
    mixed = [name for name in read if read[name].dtype == object]
    return read.assign(**{name: read[name].where(read[name].notna(), np.nan) for name in mixed})
