"""The package's floors: each module imports only from those above it in the list, and workers never the package."""

import ast
import importlib.util
import re
import sys
from pathlib import Path

import grimp
import pytest

from traintime import paths, workloads

# The floors from the ground up. A module or folder of the package that is on none of them is a wall in the wrong place.
FLOORS = (
    ("errors", "paths"),
    ("workloads",),
    ("point", "deferred"),
    ("store",),
    ("explain",),
    ("measuring",),
    ("learning",),
    ("predict",),
    ("lab",),
    ("book",),
    ("derive", "cli", "__init__", "__main__"),
)
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}

INSIDE_A_STACK = sorted(
    [*paths.WORKER.glob("*.py")]
    + [path for each in workloads.ALL.values() for path in [each.folder / "data.py", *each.folder.glob("on_*.py")]]
)


def name_of(path: Path) -> str:
    """A module's name: "traintime.store.table"."""
    parts = path.relative_to(paths.ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# Every import in the package, at a module's top, inside a function or for types only; what is not ours, too.
GRAPH = grimp.build_graph("traintime", include_external_packages=True, cache_dir=None)
FILES = {name_of(path): path for path in sorted(paths.PACKAGE.rglob("*.py")) if path not in INSIDE_A_STACK}


def room(name: str) -> str:
    """The part of a module's name that stands on a floor; the package itself is the roof."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@pytest.mark.parametrize("name", FILES)
def test_a_module_is_on_a_floor_and_imports_only_from_its_own_and_those_below(name):
    assert room(name) in FLOOR_OF
    imported = GRAPH.find_modules_directly_imported_by(name)
    ours = [each for each in imported if each.split(".")[0] == "traintime"]
    assert [each for each in ours if FLOOR_OF[room(each)] > FLOOR_OF[room(name)]] == []


@pytest.mark.parametrize("name", FILES)
def test_what_a_module_imports_exists(name):
    """Imports inside functions, too, which nothing tries before they run."""
    for imported in re.findall(r"(?m)^\s*(?:from|import) (traintime[\w.]*)", FILES[name].read_text()):
        assert importlib.util.find_spec(imported), imported


ALLOWED = {"numpy", "keras", "tensorflow", "theano", "torch", "jax", *(path.stem for path in INSIDE_A_STACK)}


@pytest.mark.parametrize("path", INSIDE_A_STACK, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_worker_needs_the_standard_library_and_its_framework_alone(path):
    imported = GRAPH.find_modules_directly_imported_by(name_of(path))
    own = {name for name in imported if name.split(".")[0] == "traintime"}
    # The deferred table and its optimizer are measured as a reader would use them.
    users = ("worker/train_keras3.py", "rnn/on_keras3.py")
    assert own <= ({"traintime.deferred"} if f"{path.parent.name}/{path.name}" in users else set())
    assert imported - own <= ALLOWED | sys.stdlib_module_names


@pytest.mark.parametrize("path", INSIDE_A_STACK, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_worker_is_written_for_python_3_6(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 6))
    # What the parser does not refuse by version: the walrus and positional-only arguments it does.
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.NamedExpr)]


def test_what_measures_and_only_that_is_inside():
    assert {path.name for path in INSIDE_A_STACK} >= {"__main__.py", "timing.py", "data.py", "on_numpy.py"}
    assert len({path.name for path in INSIDE_A_STACK if path.parent == paths.WORKER}) >= 8
