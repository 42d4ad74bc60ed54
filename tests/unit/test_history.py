"""What was committed is still there, wherever it stands now, or is withdrawn with a reason."""

import json
import subprocess

import pytest

from traintime import paths
from traintime.errors import InputError
from traintime.measuring import history

MACHINE, STACK = "amd-epyc-2-cores-24-gib", "2017-theano"
NAME = f"{MACHINE}/{STACK}/rnn-v20000-e300-u128-l25-b100-adam.json"
REAL = json.loads((paths.MEASUREMENTS / NAME).read_text())
FAILED = {"started": "2026-11-21T00:00:00Z", "status": "oom", "error": "made up"}
RUNS = [run["started"] for run in REAL["invocations"]]


def commit(root, message="change"):
    settings = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    for words in (["add", "-A", "."], ["commit", "-q", "--allow-empty", "-m", message]):
        subprocess.run(["git", *settings, *words], cwd=root, check=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def root(tmp_path):
    """A folder in a checkout that holds a real file of two invocations or more, and one that failed, committed."""
    root = tmp_path / "checkout" / "data"
    (root / NAME).parent.mkdir(parents=True)
    (root / NAME).write_text(json.dumps(REAL | {"invocations": [*REAL["invocations"], FAILED]}))
    (root / MACHINE / "machine.json").write_text("{}")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=root.parent, check=True)
    commit(root)
    return root


def edit(change):
    """A damage that changes the list of the file's invocations."""

    def damage(root):
        whole = json.loads((root / NAME).read_text())
        change(whole["invocations"])
        (root / NAME).write_text(json.dumps(whole))

    return damage


def change_times(runs):
    runs[0]["result"]["timing"]["steps_ns"][0] += 1


def withdraw_and_take_out(started):
    def damage(root):
        row = f"stack,key,started,reason\n{STACK},{REAL['key']},{started},measured beside a build\n"
        (root / MACHINE / "withdrawn.csv").write_text(row)
        take_out(root)

    return damage


take_out = edit(lambda runs: runs.pop(0))
take_out_failed = edit(lambda runs: runs.pop())
add = edit(lambda runs: runs.append(FAILED | {"started": "2026-11-22T00:00:00Z"}))


def test_nothing_that_this_repository_committed_is_lost():
    if not history.commits(paths.MEASUREMENTS):
        pytest.skip("not in a git checkout")
    assert history.lost(paths.MEASUREMENTS) == []


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(
    ("happen", "lost"),
    [
        (take_out, RUNS[:1]),
        (take_out_failed, [FAILED["started"]]),
        (lambda root: (root / NAME).unlink(), [*RUNS, FAILED["started"]]),
        (edit(change_times), RUNS[:1]),
        (withdraw_and_take_out("2020-01-01T00:00:00Z"), RUNS[:1]),
        (withdraw_and_take_out(RUNS[0]), []),
        (lambda root: (root / NAME).rename((root / NAME).with_name("another.json")), []),
        (lambda root: (root / MACHINE).rename(root / "another-name"), []),
        (add, []),
    ],
)
def test_an_invocation_that_is_gone_or_changed_is_named(root, happen, lost, committed):
    happen(root)
    if committed:
        commit(root)
    begins = [f"{NAME}: key invocations: the one of {started} is gone" for started in sorted(lost)]
    assert [sentence.partition(" or ")[0] for sentence in history.lost(root)] == begins


def test_a_branch_is_held_against_where_it_left_main_and_any_other_commit_may_be_named(root):
    """Its last commit but one loses an invocation of main; what came and went between is its own affair."""
    subprocess.run(["git", "checkout", "-q", "-b", "mine"], cwd=root, check=True)
    add(root)
    between = commit(root)
    take_out_failed(root)
    take_out(root)
    commit(root)
    commit(root)
    assert len(history.lost(root)) == 1
    assert len(history.lost(root, between)) == 2
    with pytest.raises(InputError, match="since: 'never' is no commit"):
        history.lost(root, "never")


def test_a_folder_outside_of_any_checkout_or_without_git_is_compared_with_nothing(root, tmp_path, monkeypatch):
    assert history.commits(tmp_path) == history.commits(tmp_path / "nowhere") == []
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert history.commits(tmp_path) == []
    monkeypatch.setenv("PATH", str(tmp_path))
    assert history.commits(root) == []
