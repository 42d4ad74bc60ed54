"""A build that is stopped costs nothing: the pages stay whole, no process is left, and the next build goes on.

It alone protects what a reader sees after Ctrl-C, a closed terminal, or a process that the system kills: real processes
(make's own command, Snakemake, a chapter, its kernel, Jupyter Book) in a copy of the book, and minutes for each.
"""

import functools
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import psutil
import pytest

from traintime import paths

pytestmark = [pytest.mark.rest, pytest.mark.timeout(3_600)]
CHAPTER = "chapters/01-the-question.ipynb"  # it measures nothing and runs for some seconds
MARK = "TRAINTIME_TEST_OF_INTERRUPTIONS"
PATIENCE_S = 120.0


def tracked(folder: Path) -> dict[str, str]:
    """A hash of every tracked file that is there, by its name in the book."""
    names = subprocess.run(["git", "ls-files"], cwd=paths.ROOT, capture_output=True, text=True, check=True).stdout
    there = {name: folder / name for name in names.splitlines() if (folder / name).exists()}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in there.items()}


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The book with what was built of it, and one chapter that has to be run again."""
    if not (paths.BUILD / "html" / "index.html").exists():
        pytest.fail("no built pages: run make book first")
    folder = tmp_path_factory.mktemp("with blanks ä") / "book"
    for name in tracked(paths.ROOT):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(paths.ROOT / name, folder / name)
    shutil.copytree(paths.BUILD, folder / "_build", symlinks=True)
    (folder / ".venv").symlink_to(sys.prefix)  # so that the interpreter's path has blanks, too
    return folder


def start(folder: Path) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(folder), MARK: str(folder)}
    command = [str(folder / ".venv" / "bin" / Path(sys.executable).name), "-m", "traintime.book", "make"]
    how = {"cwd": folder, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # Where a shell runs these tests in the background, it has them ignore Ctrl-C.
    heeds = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(command, start_new_session=True, preexec_fn=heeds, **how)


def build(folder: Path) -> None:
    """A build that nobody stops goes on from where the last one was."""
    process = start(folder)
    _, said = process.communicate()
    assert process.returncode == 0, said[-2000:]


def processes(folder: Path) -> Iterator[psutil.Process]:
    """What runs for this copy."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except psutil.Error:
            continue


def running(folder: Path, name: str) -> psutil.Process:
    """The first process with this name in its command, waited for."""
    until = time.monotonic() + 10 * PATIENCE_S
    while True:
        for process in processes(folder):
            if any(name in word for word in process.cmdline()):
                return process
        assert time.monotonic() < until, f"no {name}"
        time.sleep(0.1)


def left(folder: Path) -> list[list[str]]:
    """What still runs for this copy after a while."""
    until = time.monotonic() + PATIENCE_S
    while (found := list(processes(folder))) and time.monotonic() < until:
        time.sleep(0.2)
    return [one.cmdline() for one in found]


def touch(folder: Path, times: int) -> None:
    """Give the chapter another comment, so that it is out of date."""
    notebook = nbformat.read(paths.ROOT / CHAPTER, as_version=4)
    last = [cell for cell in notebook.cells if cell.cell_type == "code"][-1]
    last.source += f"\n# {times}"
    nbformat.write(notebook, folder / CHAPTER)


@pytest.fixture(scope="module")
def whole_s(copy) -> float:
    """Seconds that the build takes which the tests stop: of one chapter, the others are up to date."""
    for number in (-2, -1):
        touch(copy, number)
        begun = time.monotonic()
        build(copy)
    return time.monotonic() - begun


@pytest.mark.fault(
    "kill -9 of a random process of a build at a random moment",
    "the old pages stay whole, no tracked file changes, no process is left, and the next build goes on",
)
def test_a_stopped_build_leaves_the_pages_whole_and_the_next_one_goes_on(copy, whole_s, in_full, record_property):
    chance, times = random.Random(2017), 20 if in_full else 1
    for number in range(times):
        touch(copy, number)
        files, html = tracked(copy), copy / "_build" / "html"
        process = start(copy)
        time.sleep(chance.uniform(0.05, 0.95) * whole_s)
        found = list(processes(copy))
        victim = chance.choice(found) if found else process
        victim.send_signal(signal.SIGKILL)
        if victim.pid != process.pid:  # the build ends with an error; or not, where the process was at its end
            process.wait(timeout=4 * whole_s + PATIENCE_S)
        process.communicate()
        assert left(copy) == []
        assert (html / "index.html").exists()
        stems = {page.stem for page in (html / "chapters").glob("*.html")}  # old addresses, which redirect, among them
        assert stems >= {notebook.stem for notebook in (copy / "chapters").glob("*.ipynb")}
        assert tracked(copy) == files
    record_property("tried", times)
    build(copy)
    assert tracked(copy) == files


@pytest.mark.fault("Ctrl-C during a build", "status 130, a line that says how to go on, no process left")
def test_ctrl_c_ends_with_130_and_says_how_to_go_on(copy, whole_s):
    touch(copy, 100)
    process = start(copy)
    running(copy, "snakemake")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    try:
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "make book" in said.decode()
    assert left(copy) == []


@pytest.mark.fault("kill -9 of make while Snakemake answers nothing", "no process is left, and the next build goes on")
def test_a_snakemake_that_hangs_ends_with_its_make(copy, whole_s):
    touch(copy, 102)
    process = start(copy)
    running(copy, "snakemake").suspend()
    process.kill()
    process.wait()  # whoever is left holds what it would say
    try:
        assert left(copy) == []
    finally:
        for one in processes(copy):
            one.kill()
        process.communicate()
    build(copy)


@pytest.mark.fault("A second build beside the first", "refused, and the first is named; the first goes on")
def test_a_second_build_names_the_first(copy, whole_s):
    touch(copy, 101)
    first = start(copy)
    running(copy, "snakemake")
    second = start(copy)
    _, said = second.communicate()
    first.communicate()
    assert second.returncode == 2
    assert str(first.pid) in said.decode()
    assert first.returncode == 0
