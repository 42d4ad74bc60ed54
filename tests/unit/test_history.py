"""History: what was committed is still there, wherever it stands now, or is withdrawn with a reason."""

import json
import shutil
import subprocess

import pytest

from traintime import paths
from traintime.measuring import history
from traintime.point import make_point
from traintime.store import records

MACHINE, STACK = "amd-epyc-2-cores-24-gib", "2017-theano"
POINT, OTHER = make_point(vocabulary=20_000), make_point(vocabulary=5000)
NAME = f"{MACHINE}/{STACK}/{POINT.key}.json"


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
    """A checkout that holds two real files of two invocations or more, committed."""
    repository = tmp_path / "checkout"
    (repository / "data" / MACHINE / STACK).mkdir(parents=True)
    for point in (POINT, OTHER):
        name = f"{MACHINE}/{STACK}/{point.key}.json"
        shutil.copy(paths.MEASUREMENTS / name, repository / "data" / name)
    git(repository, "init", "-q")
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


def put_in(path, **changes):
    """Add one more invocation to a file."""
    whole = json.loads(path.read_text())
    extra = whole["invocations"][0] | {"started": "2026-11-22T00:00:00Z"} | changes
    extra = {name: value for name, value in extra.items() if value is not None}
    path.write_text(records.dumps(whole | {"invocations": [*whole["invocations"], extra]}))


def withdraw(root, started, reason="measured beside a build"):
    row = f"{STACK},{POINT.key},{started},{reason}"
    (root / MACHINE / "withdrawn.csv").write_text(f"stack,key,started,reason\n{row}\n")


def test_nothing_that_this_repository_committed_is_lost():
    repository = history.checkout(paths.MEASUREMENTS)
    if repository is None:
        pytest.skip("not in a git checkout")
    assert history.lost(paths.MEASUREMENTS, repository) == []


@pytest.mark.parametrize("committed", [True, False])
def test_an_invocation_that_is_gone_is_named(root, repository, committed):
    taken = take_out(root / NAME)
    if committed:
        commit(repository)
    assert history.lost(root, repository) == [
        f"{NAME}: key invocations: the one of {taken['started']} is gone; restore it, or withdraw it"
    ]


def test_a_file_that_is_gone_is_named_invocation_by_invocation(root, repository):
    number = len(json.loads((root / NAME).read_text())["invocations"])
    (root / NAME).unlink()
    commit(repository)
    assert len(history.lost(root, repository)) == number >= 2


def test_a_withdrawn_invocation_may_be_gone(root, repository):
    withdraw(root, take_out(root / NAME)["started"])
    commit(repository)
    assert history.lost(root, repository) == []


def test_a_withdrawal_of_another_invocation_excuses_nothing(root, repository):
    withdraw(root, "2020-01-01T00:00:00Z")
    take_out(root / NAME)
    assert len(history.lost(root, repository)) == 1


def test_an_invocation_that_came_and_went_between_is_lost_too(root, repository):
    """Neither the first nor the last commit has it."""
    put_in(root / NAME)
    commit(repository)
    take_out(root / NAME, -1)
    commit(repository)
    (sentence,) = history.lost(root, repository)
    assert "2026-11-22T00:00:00Z is gone" in sentence


def test_one_that_a_side_branch_had_is_lost_too(root, repository):
    main = git(repository, "rev-parse", "--abbrev-ref", "HEAD")
    git(repository, "checkout", "-q", "-b", "side")
    put_in(root / NAME)
    commit(repository)
    git(repository, "checkout", "-q", main)
    (repository / "else").write_text("")
    commit(repository)
    git(repository, "merge", "-q", "-s", "ours", "-m", "merge", "side")
    assert len(history.lost(root, repository)) == 1


def test_times_that_were_changed_are_named(root, repository):
    whole = json.loads((root / NAME).read_text())
    whole["invocations"][1]["result"]["timing"]["steps_ns"][0] += 1
    (root / NAME).write_text(records.dumps(whole))
    started = whole["invocations"][1]["started"]
    assert history.lost(root, repository) == [
        f"{NAME}: key invocations: the one of {started} no longer has the times that were committed; "
        "restore it, or withdraw it"
    ]


def test_a_file_may_be_renamed_and_brought_to_todays_schema(root, repository):
    record = records.read(root / NAME)
    assert json.loads((root / NAME).read_text())["schema_version"] < records.SCHEMA
    point = make_point(vocabulary=20_000, allocator="glibc-keep-arenas")
    renamed = record.model_copy(update={"point": point, "key": point.key})
    path = records.file_of(root, MACHINE, STACK, point.key)
    path.write_text(records.dumps(renamed.model_dump(mode="json", exclude_none=True)))
    (root / NAME).unlink()
    commit(repository)
    assert history.lost(root, repository) == []


def test_a_machines_folder_may_be_renamed(root, repository):
    (root / MACHINE).rename(root / "another-name")
    commit(repository)
    assert history.lost(root, repository) == []


def test_damaged_and_other_files_have_no_invocations(root, repository):
    (root / MACHINE / "machine.json").write_text("{}")
    (root / MACHINE / "rates.json").write_text("[]")
    (root / MACHINE / STACK / "cut.json").write_text('{"stack": "')
    commit(repository)
    (root / MACHINE / STACK / "cut.json").unlink()
    assert history.lost(root, repository) == []


def test_a_failed_invocation_is_told_by_its_start(root, repository):
    put_in(root / NAME, status="oom", error="made up", result=None)
    commit(repository)
    assert history.lost(root, repository) == []
    take_out(root / NAME, -1)
    assert len(history.lost(root, repository)) == 1


def test_a_folder_outside_of_any_checkout_or_in_one_without_a_commit_has_no_history(tmp_path):
    assert history.checkout(tmp_path) is None
    assert history.checkout(tmp_path / "nowhere") is None
    git(tmp_path, "init", "-q")
    assert history.checkout(tmp_path) is None


def test_a_checkout_without_git_has_no_history(root, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert history.checkout(root) is None


def test_a_folder_in_a_checkout_knows_it(root, repository):
    assert history.checkout(root) == repository
    assert not history.shallow(repository)


def test_a_shallow_clone_says_so(repository, tmp_path):
    (repository / "else").write_text("")
    commit(repository)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", str(clone))
    assert history.shallow(clone)
    assert history.lost(clone / "data", clone) == []
