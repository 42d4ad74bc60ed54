"""The package's floors: each module imports only from those above it in the list, and workers never the package."""

import ast
import sys
from pathlib import Path

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
    ("book",),
    ("cli", "__init__", "__main__"),
)
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}

INSIDE_A_STACK = sorted(
    [*paths.WORKER.glob("*.py")]
    + [path for each in workloads.ALL.values() for path in [each.folder / "data.py", *each.folder.glob("on_*.py")]]
)
MODULES = sorted(path for path in paths.PACKAGE.rglob("*.py") if path not in INSIDE_A_STACK)


def name_of(path: Path) -> str:
    """A module's name: "traintime.store.table"."""
    parts = path.relative_to(paths.ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path) for path in paths.PACKAGE.rglob("*.py")}


def imports(path: Path, package: str = "traintime") -> set[str]:
    """Every module of the package that the file imports, at its top or anywhere inside."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = name_of(path).split(".")
                above = above if path.name == "__init__.py" else above[:-1]
                base = ".".join([*above[: len(above) - node.level + 1], *([node.module] if node.module else [])])
            # `from traintime import paths` is of the module; `from traintime import estimate` is of the roof.
            found |= {inner if (inner := f"{base}.{alias.name}") in NAMES else base for alias in node.names}
    return {name for name in found if name.split(".")[0] == package}


def room(name: str) -> str:
    """The part of a module's name that stands on a floor; the package itself is the roof."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def too_high(path: Path) -> list[str]:
    """Modules that the file imports though they are on a floor above its own."""
    own = FLOOR_OF[room(name_of(path))]
    return sorted(name for name in imports(path) if FLOOR_OF[room(name)] > own)


def test_every_module_is_on_a_floor():
    assert {room(name_of(path)) for path in MODULES} <= set(FLOOR_OF)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_from_its_own_floor_and_those_below(path):
    assert room(name_of(path)) in FLOOR_OF, "on no floor"
    unknown = {name for name in imports(path) if room(name) not in FLOOR_OF}
    assert not unknown, f"on no floor: {unknown}"
    assert not too_high(path)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_what_a_module_imports_exists(path):
    assert imports(path) <= NAMES


def test_an_import_from_above_is_found_wherever_it_stands(tmp_path, monkeypatch):
    """The test of the tests: at the top, in a function, for types only, relative, and of the public face."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    module = tmp_path / "traintime" / "store" / "made_up.py"
    module.parent.mkdir(parents=True)
    for line in (
        "from traintime.explain import memory",
        "from traintime.explain.memory import copies",
        "import traintime.cli",
        "from traintime import cli",
        "def f():\n    from traintime.measuring import sweep",
        "if TYPE_CHECKING:\n    from traintime.measuring.sweep import Plan",
        "from ..explain import memory",
        "from .. import cli",
        "from traintime import __version__",
    ):
        module.write_text(line)
        assert too_high(module), line
    for line in (
        "from traintime import paths",
        "from . import records",
        "from traintime.point import Point",
        "import os",
    ):
        module.write_text(line)
        assert not too_high(module), line


# What runs inside a stack's Python

ALLOWED = {"numpy", "keras", "tensorflow", "theano", "torch", "jax", *(path.stem for path in INSIDE_A_STACK)}


@pytest.mark.parametrize("path", INSIDE_A_STACK, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_worker_needs_the_standard_library_and_its_framework_alone(path):
    named = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            named |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            named.add(node.module.split(".")[0])
    # The table that trains itself is measured as a reader would use it.
    own = imports(path) if path.parent.name == "rnn" and path.name == "on_keras3.py" else set()
    assert own <= {"traintime.deferred"}
    assert named <= ALLOWED | sys.stdlib_module_names | ({"traintime"} if own else set())


@pytest.mark.parametrize("path", INSIDE_A_STACK, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_worker_is_written_for_python_3_6(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 6))
    # What the parser does not refuse by version: the walrus and positional-only arguments it does.
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.NamedExpr)]


def test_what_measures_and_only_that_is_inside():
    assert {path.name for path in INSIDE_A_STACK} >= {"__main__.py", "timing.py", "data.py", "on_numpy.py"}
    assert len({path.name for path in INSIDE_A_STACK if path.parent == paths.WORKER}) >= 8
