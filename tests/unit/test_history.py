"""What was committed is still there, wherever it stands now, or is withdrawn with a reason."""

import json
import shutil
import subprocess

import pytest

from traintime import paths
from traintime.errors import InputError
from traintime.measuring import history
from traintime.point import make_point
from traintime.store import records

MACHINE, STACK = "amd-epyc-2-cores-24-gib", "2017-theano"
POINT = make_point(vocabulary=20_000)
NAME = f"{MACHINE}/{STACK}/{POINT.key}.json"
FAILED = "2026-11-21T00:00:00Z"


def git(folder, *words):
    settings = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    answer = subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, text=True, check=True)
    return answer.stdout.strip()


def commit(repository, message="change"):
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", message)
    return git(repository, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path):
    """A checkout that holds a real file of two invocations or more, and one that failed, committed."""
    repository = tmp_path / "checkout"
    path = repository / "data" / NAME
    path.parent.mkdir(parents=True)
    shutil.copy(paths.MEASUREMENTS / NAME, path)
    put_in(path, started=FAILED, status="oom", error="made up", result=None)
    (repository / "data" / MACHINE / "machine.json").write_text("{}")
    git(repository, "init", "-q", "-b", "main")
    commit(repository)
    return repository


@pytest.fixture
def root(repository):
    return repository / "data"


def take_out(path, index=0):
    """Remove one invocation from a file; return it."""
    whole = json.loads(path.read_text())
    taken = whole["invocations"].pop(index)
    path.write_text(records.dumps(whole))
    return taken


def put_in(path, started="2026-11-22T00:00:00Z", **changes):
    """Add one more invocation to a file."""
    whole = json.loads(path.read_text())
    extra = whole["invocations"][0] | {"started": started} | changes
    extra = {name: value for name, value in extra.items() if value is not None}
    path.write_text(records.dumps(whole | {"invocations": [*whole["invocations"], extra]}))


def withdraw(root, started):
    row = f"{STACK},{POINT.key},{started},measured beside a build"
    (root / MACHINE / "withdrawn.csv").write_text(f"stack,key,started,reason\n{row}\n")


def test_nothing_that_this_repository_committed_is_lost():
    if not history.commits(paths.MEASUREMENTS):
        pytest.skip("not in a git checkout")
    assert history.lost(paths.MEASUREMENTS) == []


def change_times(root):
    whole = json.loads((root / NAME).read_text())
    whole["invocations"][0]["result"]["timing"]["steps_ns"][0] += 1
    (root / NAME).write_text(records.dumps(whole))


def rename_file(root):
    record = records.read(root / NAME)
    point = make_point(vocabulary=20_000, allocator="glibc-keep-arenas")
    renamed = record.model_copy(update={"point": point, "key": point.key})
    path = records.file_of(root, MACHINE, STACK, point.key)
    path.write_text(records.dumps(renamed.model_dump(mode="json", exclude_none=True)))
    (root / NAME).unlink()


def withdraw_another(root):
    withdraw(root, "2020-01-01T00:00:00Z")
    take_out(root / NAME)


RUNS = [each["started"] for each in json.loads((paths.MEASUREMENTS / NAME).read_text())["invocations"]]


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(
    ("happen", "runs"),
    [
        (lambda root: take_out(root / NAME), RUNS[:1]),
        (lambda root: take_out(root / NAME, -1), [FAILED]),
        (lambda root: (root / NAME).unlink(), [*RUNS, FAILED]),
        (change_times, RUNS[:1]),
        (withdraw_another, RUNS[:1]),
        (lambda root: withdraw(root, take_out(root / NAME)["started"]), []),
        (rename_file, []),
        (lambda root: (root / MACHINE).rename(root / "another-name"), []),
        (lambda root: put_in(root / NAME), []),
    ],
)
def test_an_invocation_that_is_gone_or_changed_is_named(root, repository, happen, runs, committed):
    happen(root)
    if committed:
        commit(repository)
    begins = [f"{NAME}: key invocations: the one of {started} is gone" for started in sorted(runs)]
    assert [sentence.partition(" or ")[0] for sentence in history.lost(root)] == begins


def test_a_branch_is_held_against_where_it_left_main_and_any_other_commit_may_be_named(root, repository):
    """Its last commit but one loses an invocation of main; what came and went between is its own affair."""
    git(repository, "checkout", "-q", "-b", "mine")
    put_in(root / NAME)
    between = commit(repository)
    take_out(root / NAME, -1)
    take_out(root / NAME)
    commit(repository)
    (repository / "else").write_text("")
    commit(repository)
    assert len(history.lost(root)) == 1
    assert len(history.lost(root, between)) == 2
    with pytest.raises(InputError, match="since: 'never' is no commit"):
        history.lost(root, "never")


def test_a_folder_outside_of_any_checkout_or_without_git_is_compared_with_nothing(root, tmp_path, monkeypatch):
    assert history.commits(tmp_path) == history.commits(tmp_path / "nowhere") == []
    git(tmp_path, "init", "-q")
    assert history.commits(tmp_path) == []
    monkeypatch.setenv("PATH", str(tmp_path))
    assert history.commits(root) == []
