"""Who hands out memory in a worker: glibc, glibc that keeps what it has, jemalloc, tcmalloc; a GPU without its pool."""

import ctypes.util
import functools
import sys

from traintime.errors import InputError

# Bytes from which on glibc maps each block anew: its threshold grows by itself, but not beyond (mallopt(3), 64-bit).
MAPPED_FROM = 32 * 2**20
# glibc maps large blocks anew for every allocation and gives them back at once; a limit that no block reaches makes
# it keep and reuse them. As committed first: an arena a thread, which did not keep what other threads handed back.
KEEP_ARENAS = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_TOP_PAD_": str(2**26)}
# One arena: those of further threads hold 64 MiB at most and map what is larger all the same.
KEEP = KEEP_ARENAS | {"MALLOC_ARENA_MAX": "1"}
OF_GLIBC: dict[str, dict[str, str]] = {"glibc": {}, "glibc-keep": KEEP, "glibc-keep-arenas": KEEP_ARENAS}
LIBRARIES = {"jemalloc": ("jemalloc",), "tcmalloc": ("tcmalloc_minimal", "tcmalloc")}
# Without its pool a framework asks the device for each block.
# Sources: "CUDA environment variables" (torch's documentation), "GPU memory allocation" (JAX's documentation).
NO_POOL = {
    "torch": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    "jax": {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"},
}
PACKAGES = {"jemalloc": "libjemalloc2", "tcmalloc": "libtcmalloc-minimal4"}


@functools.cache
def library(name: str) -> str | None:
    """File name under which the loader finds the allocator's library, or None where it is not installed."""
    if sys.platform != "linux":
        return None
    paths = (ctypes.util.find_library(candidate) for candidate in LIBRARIES[name])
    return next((path for path in paths if path), None)


def present(name: str) -> bool:
    """Whether workers can run with this allocator here."""
    if name in ("glibc", "no-pool"):
        return True
    return sys.platform == "linux" and (name in OF_GLIBC or library(name) is not None)


def how_to_add(name: str) -> str:
    """What to type on a machine that lacks the allocator."""
    return f"apt-get install {PACKAGES[name]}" if name in PACKAGES else "Use Linux with glibc."


def environment(name: str, backend: str) -> dict[str, str]:
    """Variables that put the allocator in place; raises InputError where it is not here."""
    if not present(name):
        raise InputError("allocator", name, "is not here", how_to_add(name))
    if name == "no-pool":
        return NO_POOL[backend]
    return OF_GLIBC[name] if name in OF_GLIBC else {"LD_PRELOAD": str(library(name))}
