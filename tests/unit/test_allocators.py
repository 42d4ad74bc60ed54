"""Who answers malloc: what the worker's environment gets, and what to type where a library is missing."""

import sys

import pytest

from traintime.errors import InputError
from traintime.measuring import allocators, stacks
from traintime.point import Run

FOUND = {"jemalloc": "libjemalloc.so.2", "tcmalloc_minimal": "libtcmalloc_minimal.so.4", "tcmalloc": "libtcmalloc.so.4"}
KEEPING = ["glibc-keep", "glibc-keep-arenas"]
NAMES = ["glibc", *KEEPING, "jemalloc", "tcmalloc"]


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """Libraries that the loader of a made-up Linux finds, by the name that it is asked for; a test may remove some."""
    libraries = dict(FOUND)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(allocators.ctypes.util, "find_library", libraries.get)
    allocators.library.cache_clear()
    yield libraries
    allocators.library.cache_clear()


@pytest.mark.parametrize(
    ("stack", "run", "variables"),
    [
        ("numpy", {"allocator": "jemalloc"}, {"LD_PRELOAD": "libjemalloc.so.2"}),
        ("numpy", {"allocator": "tcmalloc"}, {"LD_PRELOAD": "libtcmalloc_minimal.so.4"}),
        ("2026-torch", {"allocator": "no-pool", "device": "gpu"}, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
        ("2026-jax", {"allocator": "no-pool", "device": "gpu"}, {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}),
    ],
)
def test_a_worker_gets_its_allocators_variable_and_nothing_else_changes(stack, run, variables):
    usual, chosen = (stacks.get(stack).environment(2, Run(**run | one)) for one in ({"allocator": "glibc"}, {}))
    assert chosen == usual | variables
    assert not variables.items() & usual.items()


def test_glibc_is_told_to_map_no_block_and_to_give_none_back():
    one, many = (allocators.environment(name, "jax") for name in KEEPING)
    assert many["MALLOC_MMAP_MAX_"] == "0"
    assert int(many["MALLOC_TRIM_THRESHOLD_"]) > 2**37, "more than any machine here has"
    assert one == many | {"MALLOC_ARENA_MAX": "1"} != many, "and to have one arena"


def test_the_larger_tcmalloc_will_do_and_a_missing_library_is_refused_with_the_command_that_adds_it(installed):
    del installed["tcmalloc_minimal"], installed["jemalloc"]
    assert [name for name in NAMES if allocators.present(name)] == ["glibc", *KEEPING, "tcmalloc"]
    assert allocators.environment("tcmalloc", "jax") == {"LD_PRELOAD": "libtcmalloc.so.4"}
    with pytest.raises(InputError) as caught:
        allocators.environment("jemalloc", "jax")
    assert str(caught.value) == "allocator: 'jemalloc' is not here. apt-get install libjemalloc2"


def test_elsewhere_than_on_linux_there_is_only_what_comes_with_the_system(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert [name for name in NAMES if allocators.present(name)] == ["glibc"]
    with pytest.raises(InputError, match=r"allocator: 'glibc-keep' is not here. Use Linux"):
        allocators.environment("glibc-keep", "jax")
