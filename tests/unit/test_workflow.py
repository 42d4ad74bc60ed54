"""`make book`: what it finds out of date, what it tells, and what stops it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import filelock
import pytest

from traintime import paths
from traintime.book import execute, uses, workflow
from traintime.errors import InputError

CHAPTERS = dict.fromkeys(("one", "two", "three", "four"))


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A book of four chapters of which all but the third are up to date."""
    monkeypatch.setattr(workflow.execute, "chapters", lambda: CHAPTERS)
    for number, name in enumerate(CHAPTERS):
        workflow._write(tmp_path / "inputs" / name, number)
        if name != "three":
            ran(tmp_path, name, 10 * (number + 1))
    return tmp_path


def ran(work, name, seconds):
    made = work / "executed" / f"{name}.ipynb"
    made.parent.mkdir(exist_ok=True)
    made.write_text(json.dumps({"metadata": {"papermill": {"duration": seconds}}}))


def test_a_chapter_is_run_when_it_never_was_or_rests_on_something_new(work):
    os.utime(work / "executed" / "two.ipynb", (1e9, 1e9))
    os.utime(work / "inputs" / "two", (1e9, 1e9))
    workflow._write(work / "inputs" / "two", 1)  # as it was
    assert execute.stale(work) == ["three"]
    workflow._write(work / "inputs" / "two", "another sentence")
    assert execute.stale(work) == ["two", "three"]


def test_a_person_is_told_how_many_chapters_are_left_and_about_how_long(work, capsys, monkeypatch):
    monkeypatch.setattr(execute, "USUAL_S", (20, 60))
    (work / "plan.json").write_text(json.dumps({"book": list(CHAPTERS), "seconds": {"one": 40.0, "four": 40.0}}))
    (work / "executed" / "four.ipynb").unlink()
    execute.say_how_far(work, "one", 30.2)  # the fourth took 40 s before, the third never ran; two at a time
    assert capsys.readouterr().out == "one ran in 30 s; 2 left, 30 s to 50 s\n"
    ran(work, "three", 1)
    execute.say_how_far(work, "four", 30.2)
    assert capsys.readouterr().out == "four ran in 30 s; now the pages\n"


def test_two_builds_at_once_are_one_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(workflow, "BUILD", tmp_path)
    started = []
    monkeypatch.setattr(workflow, "_make", lambda *given: started.append(given))
    (tmp_path / "builder").write_text("4711")
    with filelock.FileLock(tmp_path / "lock"), pytest.raises(InputError, match="is being built by process 4711"):
        workflow.make("quick")
    assert started == []
    workflow.make("quick")
    assert len(started) == 1


def test_an_unknown_profile_is_refused_before_anything_is_started(monkeypatch):
    monkeypatch.setattr(workflow, "_make", lambda *given: pytest.fail("started"))
    with pytest.raises(InputError, match="profile"):
        workflow.make("../quick")


def test_bad_input_is_one_line_and_exit_status_2():
    command = [sys.executable, "-m", "traintime.book", "make", "--profile", "no-such-profile"]
    answer = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert answer.stderr.startswith("error: profile: 'no-such-profile' is not a known profile. Choose one of: ")
    assert len(answer.stderr.splitlines()) == 1


def test_every_page_and_all_data_count_for_the_built_pages():
    found = {path.relative_to(paths.ROOT).as_posix() for path in workflow._pages()}
    assert {"index.md", "_config.yml", "_static/book.css", "references.bib", "CITATION.cff"} <= found
    assert "traintime/book/calculator/calculator.js" in found
    building = uses.closure(["traintime.book.build"])
    assert "traintime.book.reader" in building
    assert paths.ORIGINAL / "claims.csv" in uses.data(building)


def test_a_home_that_cannot_be_written_is_replaced_for_the_build(tmp_path, monkeypatch):
    homes = []
    monkeypatch.setattr(workflow, "BUILD", tmp_path)
    monkeypatch.setattr(workflow, "_make", lambda *given: homes.append(os.environ["HOME"]))
    for home in ("/proc/nowhere", str(tmp_path)):
        monkeypatch.setenv("HOME", home)
        workflow.make("quick")
    assert homes == [str(tmp_path / "home"), str(tmp_path)]
    assert os.access(homes[0], os.W_OK)


@pytest.mark.parametrize("writable", [True, False])
def test_where_no_home_can_be_written_the_environment_holds_the_cache_of_its_installer(tmp_path, writable):
    home = tmp_path if writable else Path("/proc/nowhere")
    command = ["make", "-s", "--eval", "cache:; @echo $$UV_CACHE_DIR", "cache"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    shown = subprocess.run(command, cwd=paths.ROOT, env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == (f"{tmp_path}/.cache/uv" if writable else ".venv/uv-cache")


# It answers no mild signal, and says who it and a chapter of it are.
FAKE_SNAKEMAKE = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
chapter = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
print(os.getpid(), chapter.pid, flush=True)
time.sleep(100)
"""


@pytest.fixture
def building(tmp_path):
    """A build at its Snakemake, a fake one: the build's process, and those of Snakemake and of a chapter."""
    (tmp_path / "snakemake").mkdir()
    (tmp_path / "snakemake" / "__init__.py").touch()
    (tmp_path / "snakemake" / "__main__.py").write_text(FAKE_SNAKEMAKE)
    command = [sys.executable, "-c", "from traintime.book import workflow; workflow._snakemake('quick')"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    # What a shell starts in the background ignores Ctrl-C, and so does all that it starts without a handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, env=environment, **pipes) as build:
        try:
            yield build, [int(pid) for pid in build.stdout.readline().split()]
        finally:
            build.kill()
            signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_snakemake_and_what_it_runs_however_it_answers(building, gone):
    """Real ones, stopped at any moment, are in the rest (tests/book/test_interrupted.py)."""
    build, pids = building
    build.send_signal(signal.SIGINT)
    assert all(gone(pid) for pid in pids)
    assert build.wait(60) != 0


def test_a_snakemake_that_hangs_ends_with_a_killed_build(building, gone):
    build, (snakemake, chapter) = building
    build.kill()
    assert gone(snakemake)
    os.kill(chapter, signal.SIGKILL)  # a chapter's own process ends with its parent (commands.py); this one does not
