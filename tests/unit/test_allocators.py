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
    ("name", "expected"),
    [
        ("glibc", {}),
        ("jemalloc", {"LD_PRELOAD": "libjemalloc.so.2"}),
        ("tcmalloc", {"LD_PRELOAD": "libtcmalloc_minimal.so.4"}),
    ],
)
def test_each_allocator_has_its_variables(name, expected):
    assert allocators.environment(name, "jax") == expected


def test_glibc_is_told_to_map_no_block_and_to_give_none_back():
    one, many = (allocators.environment(name, "jax") for name in KEEPING)
    assert many["MALLOC_MMAP_MAX_"] == "0"
    assert int(many["MALLOC_TRIM_THRESHOLD_"]) > 2**37, "more than any machine here has"
    assert one == many | {"MALLOC_ARENA_MAX": "1"} != many, "and to have one arena"


def test_the_larger_tcmalloc_will_do(installed):
    del installed["tcmalloc_minimal"]
    assert allocators.environment("tcmalloc", "jax") == {"LD_PRELOAD": "libtcmalloc.so.4"}


@pytest.mark.parametrize(("name", "package"), [("jemalloc", "libjemalloc2"), ("tcmalloc", "libtcmalloc-minimal4")])
def test_a_missing_library_is_refused_with_the_command_that_adds_it(installed, name, package):
    installed.clear()
    assert not allocators.present(name)
    assert allocators.how_to_add(name) == f"apt-get install {package}"
    with pytest.raises(InputError) as caught:
        allocators.environment(name, "jax")
    assert (caught.value.field, caught.value.value) == ("allocator", name)
    assert str(caught.value) == f"allocator: {name!r} is not here. apt-get install {package}"


def test_glibc_needs_no_library(installed):
    installed.clear()
    assert [name for name in NAMES if allocators.present(name)] == ["glibc", *KEEPING]


def test_elsewhere_than_on_linux_there_is_only_what_comes_with_the_system(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert [name for name in NAMES if allocators.present(name)] == ["glibc"]
    assert allocators.library("jemalloc") is None, "what is found there cannot be loaded first"
    assert allocators.environment("glibc", "jax") == {}
    with pytest.raises(InputError, match=r"allocator: 'glibc-keep' is not here. Use Linux"):
        allocators.environment("glibc-keep", "jax")


@pytest.mark.parametrize("name", NAMES)
def test_a_worker_gets_its_allocator_and_nothing_else_changes(name):
    stack = stacks.get("numpy")
    usual, chosen = stack.environment(2), stack.environment(2, Run(allocator=name))
    assert chosen == usual | allocators.environment(name, "jax")
    assert len(chosen) == len(usual) + len(allocators.environment(name, "jax"))


@pytest.mark.parametrize(
    ("stack", "switch"),
    [
        ("2026-torch", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}),
        ("2026-jax", {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}),
    ],
)
def test_each_framework_has_its_own_switch_for_the_pool_of_a_gpu(stack, switch):
    assert allocators.present("no-pool"), "it comes with the framework"
    stack = stacks.get(stack)
    usual, chosen = (stack.environment(2, Run(device="gpu", allocator=name)) for name in ("glibc", "no-pool"))
    assert chosen == usual | switch
