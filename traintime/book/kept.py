"""What a product rests on, as a hash of files; small files that change only with what they say."""

import functools
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

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


def write_where_it_differs(path: Path, text: str) -> None:
    """Write a text file unless it has that text already: its time then says when it last changed."""
    if not path.exists() or path.read_text() != text:
        write_atomically(path, text)
