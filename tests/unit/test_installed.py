"""The package where its wheel alone is installed: no checkout, and no package that only the book needs."""

import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from traintime import paths

OF_CHAPTERS = ("matplotlib", "mlxtend", "nbformat", "pyarrow", "seaborn", "sympy", "yaml")
OF_CHECKOUT = ["sweep", "learn", "stacks add --all", "table", "check", "lab"]
OF_CHECKOUT += ["bench-predict"]
EACH = """
import sys
from traintime.cli import main
for words in sys.argv[1:]:
    sys.argv = ["traintime", *words.split()]
    try:
        main()
    except SystemExit as end:
        print(end.code)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Run Python where there is the package, and no book."""
    source, site = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for name in ("traintime", "data/derived", "data/external"):
        shutil.copytree(paths.ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "_config.yml"):
        shutil.copy(paths.ROOT / name, source)
    build = [sys.executable, "-m", "uv", "build", "-q", "--wheel", "--no-build-isolation", "-o", site, source]
    subprocess.run(build, check=True)
    zipfile.ZipFile(next(site.glob("*.whl"))).extractall(site)
    for name in OF_CHAPTERS:
        (site / f"{name}.py").write_text(f"raise ModuleNotFoundError(name={name!r})")

    def run(*words):
        environment = os.environ | {"PYTHONPATH": str(site)}
        return subprocess.run([sys.executable, *words], cwd=site, env=environment, capture_output=True, text=True)

    return run


def test_an_index_can_show_what_it_says(installed):
    code = "import importlib.metadata as m; print(m.metadata('how-long-will-it-train'))"
    text = installed("-c", code).stdout
    assert "Description-Content-Type: text/markdown" in text
    assert not re.search(r"\]\((?!https?://)", text)


def test_it_predicts(installed):
    answer = installed("-m", "traintime", *["estimate", "--vocabulary", "20000", "--on", "T4"])
    assert (answer.returncode, answer.stderr) == (0, "")


def test_what_needs_a_checkout_says_so_in_a_line(installed):
    answer = installed("-c", EACH, *OF_CHECKOUT)
    assert answer.stdout == "2\n" * len(OF_CHECKOUT)
    assert len(lines := answer.stderr.splitlines()) == len(OF_CHECKOUT)
    assert all(line.startswith("error: folder: ") and "needs a checkout of the book" in line for line in lines)


def test_what_needs_a_package_of_the_book_names_it(installed):
    answer = installed("-m", "traintime.book", "make")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: package: '")
    assert "[book]" in answer.stderr
