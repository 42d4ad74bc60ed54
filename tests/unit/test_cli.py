"""The command line: what it prints, what it refuses (test_golden_answers: what else), and with which exit status."""

import functools
import json
import os
import re
import socket
import subprocess
import sys
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import yaml

from traintime import __version__, cli, paths
from traintime.learning import run as learning
from traintime.measuring import allocators, machine, measure, stacks, sweep
from traintime.measuring.protocol import QUICK
from traintime.point import make_point
from traintime.predict import bench, process
from traintime.predict.costs import Rates
from traintime.store import code, records

MACHINE = "some-machine"
TINY = {"vocabulary": 11, "embedding": 3, "units": 4, "length": 5, "batch": 6}


@pytest.fixture
def traintime(monkeypatch, capsys):
    """Type words, several in a text; return the exit status, what was printed, and that without lines and frames."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["traintime", *" ".join(map(str, words)).split()])
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = end.code or 0
        out, err = (re.sub(r"\x1b\[[0-9;]*m", "", text) for text in capsys.readouterr())
        words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", out + err).split())
        return SimpleNamespace(status=status, out=out, err=err, words=words)

    return run


@pytest.fixture(autouse=True)
def quiet_machine(tmp_path, monkeypatch):
    """A machine of two processors, 8 GiB and known rates with every stack; nothing is started on it or written."""
    for module, name in ((measure, "run_worker"), (os, "execv"), (bench, "run"), (stacks, "_pip")):
        monkeypatch.setattr(module, name, mock.Mock(side_effect=AssertionError("this was not to be started")))
    monkeypatch.setattr(paths, "STACKS", tmp_path / "stacks")
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: True))
    described = {"cpu": "Some", "cores": 2, "memory_bytes": 2**33, "gpus": [], "kernel": "6.1.0"}
    monkeypatch.setattr(machine, "describe", lambda: described)
    monkeypatch.setattr(machine, "gpus", list)
    monkeypatch.setattr(measure, "default_threads", lambda: 2)
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: SimpleNamespace(available=8 * 2**30))
    monkeypatch.setattr(machine, "rates", lambda: {"bandwidth_bytes_per_s": 1e10, "matmul_flop_per_s": 1e11})
    monkeypatch.setattr(process, "rates", lambda: Rates(1e11, 1e10))


@pytest.fixture
def fake_measure(monkeypatch, invocation):
    """Answer in the place of a worker; the calls are kept."""

    def make(status="ok"):
        calls = []

        def answer(point, stack, protocol=QUICK, *, progress=None):
            calls.append(SimpleNamespace(point=point, stack=stack.name, protocol=protocol))
            protocol = protocol.model_copy(update={"warmup": 2})
            hash_ = code.current(point.workload, stack.api)
            started = f"2026-01-02T03:{len(calls) // 60:02}:{len(calls) % 60:02}Z"
            made = invocation(status, protocol=protocol.model_dump(), code=hash_, started=started)
            if status == "ok":
                made["result"]["facts"] |= {"parameters": point.work.parameters, "versions": {"numpy": np.__version__}}
                steps = [900_000_000, 800_000_000] + [3_000_000] * protocol.steps
                made["result"]["timing"] |= {"first_ns": 50_000_000 + len(calls), "steps_ns": steps}
            return {name: value for name, value in made.items() if name not in ("sweep", "round", "seed")}

        monkeypatch.setattr(measure, "measure", answer)
        monkeypatch.setattr(sweep, "run", functools.partial(sweep.run, measure=answer, rates=machine.rates))
        return calls

    return make


@pytest.fixture
def folder(tmp_path, invocation):
    """A folder of two points, one of which ran out of memory."""
    root = tmp_path / "measurements"
    for changes, status in (({}, "ok"), ({"vocabulary": 12}, "oom")):
        point = make_point(**TINY | changes)
        for number in (1, 2):
            path = records.file_of(root, MACHINE, "numpy", point.key)
            started = f"2026-01-02T03:{point.sizes.vocabulary}:0{number}Z"
            made = invocation(status, round=number, started=started, code=code.current("rnn", "numpy"))
            records.append(path, MACHINE, "numpy", point, made)
    return root


@pytest.fixture
def profile(tmp_path, monkeypatch):
    """A profile of one small sweep and two trials."""
    monkeypatch.setattr(paths, "PROFILES", tmp_path / "profiles")
    paths.PROFILES.mkdir()
    fields = {"stacks": ["numpy"], "rounds": 3, **TINY, "vocabulary": [11, 12]}
    settings = {"sweeps": {"small": fields}, "trials": {"luck": {"units": [4, 8], "seeds": 2}}}
    (paths.PROFILES / "mine.yaml").write_text(yaml.safe_dump(settings))
    return "mine"


def assert_refused(answer, field, value, remedy):
    """Exit status 2 and one line that names the field, the value and the remedy."""
    assert answer.status == 2
    assert answer.out == ""
    assert answer.err.startswith(f"error: {field}: {value!r} ")
    assert remedy in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "field", "value", "remedy"),
    [
        ("stacks add 2017-theano 2016-theano", "stack", "2016-theano", "Choose one of: 2017-theano, "),
        ("stacks add", "stack", "", "or give --all"),
        ("measure --workload dense --vocabulary 5", "field of a configuration", "vocabulary", "Choose one of: "),
        ("measure --batch -3", "batch", -3, "Give a whole number of 1 or more."),
        (f"measure --batch {'9' * 400}", "--batch", "999999999…", "Give at most "),
        ("measure --device gpu --stack 2026-torch", "device", "gpu", "Take the device cpu."),
        ("measure --threads 3 --stack numpy", "threads", 3, "Give 2 or fewer."),
        ("measure --vocabulary 900000000 --stack numpy", "vocabulary", 900_000_000, "measure --beyond-memory"),
        ("sweep --only vocabulary --only everything", "sweep", "everything", "Choose one of: allocator, "),
        ("largest", "largest", "batch", "Add --memory"),
        ("estimate --per-hour nan", "per_hour", float("nan"), "Give"),
        (f"estimate {__file__}:build --vocabulary 10", "vocabulary", 10, "Leave it out."),
        (f"estimate {__file__}:build --workload lstm", "workload", "lstm", "Leave it out."),
        (f"estimate {__file__}:build --stack numpy", "stack", "numpy", "Take one of 2026-tensorflow"),
        (f"estimate {__file__}:build --give-up 0", "give_up", 0.0, "Give 1 second or more."),
        (f"estimate {__file__}:build --probe nowhere.py:build", "probe", "nowhere.py", "Name the file"),
    ],
)
def test_what_is_unknown_or_cannot_be_is_refused_and_nothing_is_started(traintime, words, field, value, remedy):
    assert_refused(traintime(words), field, value, remedy)


def test_a_stack_that_is_not_here_or_whose_folder_cannot_be_made_is_refused(traintime, monkeypatch):
    paths.STACKS.write_text("a file in the place of the folder")  # as in a checkout that may only be read
    words = "measure --stack numpy --vocabulary 11"
    assert_refused(traintime(words), "folder", str(stacks.get("numpy").state), "Name another.")
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: False))
    assert_refused(traintime(words), "stack", "numpy", "traintime stacks add numpy")
    words = f"estimate {__file__}:build --stack 2026-jax"
    assert_refused(traintime(words), "stack", "2026-jax", "Add it: traintime stacks add 2026-jax")


@pytest.mark.parametrize("words", ["sweep --profile mine --to", "machine --to", "table", "bench-predict --to"])
@pytest.mark.parametrize("name", ["x" * 300, "file/below"])
def test_a_folder_that_no_system_makes_is_refused(traintime, fake_measure, profile, tmp_path, words, name):
    (tmp_path / "file").write_text("a file")
    calls = fake_measure()
    answer = traintime(words, tmp_path / name)
    assert (answer.status, answer.out, calls) == (2, "", [])
    assert answer.err.splitlines()[-1].startswith("error: fol" if "file" in name else "error: ")
    assert name in answer.err


BROKEN = [("machine.json", "{"), ("machine.json", '{"rates": 5}'), ("rates.json", "7"), ("rates.json", "[{}]")]


@pytest.mark.parametrize(("name", "text"), BROKEN)
@pytest.mark.parametrize("words", ["sweep --profile mine --to", "machine --to"])
def test_a_broken_description_of_this_machine_is_refused_by_its_file(traintime, profile, tmp_path, words, name, text):
    assert traintime("machine", "--to", tmp_path / "to").status == 0
    folder = tmp_path / "to" / machine.this()
    (folder / "rates.json").unlink()
    (folder / name).write_text(text)
    answer = traintime(words, tmp_path / "to")
    assert answer.status == 2, answer.words
    assert answer.err.splitlines()[-1].startswith("error: measurement file: ") and name in answer.err


@pytest.mark.parametrize("text", ["[", "{}"])
def test_what_keeps_what_was_tried_is_read_before_anything_is_tried(traintime, tmp_path, text):
    (tmp_path / f"{machine.this()}.json").write_text(text)
    assert traintime("bench-predict", "--to", tmp_path).status == 2


def test_who_interrupts_is_told_how_to_go_on(traintime, profile, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "run", mock.Mock(side_effect=KeyboardInterrupt))
    answer = traintime("sweep", "--profile", profile, "--to", tmp_path / "to")
    assert answer.status == 130
    assert "run the same command again" in answer.err.splitlines()[-1]


def test_a_terminal_that_lacks_a_sign_shows_the_rest(folder):
    command = [sys.executable, "-c", "from traintime.cli import main; main()", "table", str(folder), "--each"]
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT), "PYTHONIOENCODING": "ascii"}
    answer = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert answer.returncode == 0, answer.stderr[-500:]
    assert b"some-machine" in answer.stdout


@pytest.mark.parametrize(
    ("words", "field", "value", "remedy"),
    [
        ("table {} --machine other", "machine", "other", MACHINE),
        ("table {} --export {}/table.xlsx", "export", "{}/table.xlsx", ".csv or .parquet"),
        ("table {} --export {}/empty.csv", "export", "{}/empty.csv", "Give the name of a file."),
        ("table {} --export {}/nowhere/table.csv", "export", "{}/nowhere/table.csv", "nowhere"),
        ("table {}/empty", "folder", "{}/empty", "make measure"),
        ("check {}/some-machine", "folder", "{}/some-machine", "Name the folder that holds it."),
        ("check {} --since never", "since", "never", "Leave --since out"),
    ],
)
def test_a_table_or_a_check_of_what_is_not_there_is_refused(traintime, folder, words, field, value, remedy):
    for name in ("empty", "empty.csv"):
        (folder / name).mkdir()
    (folder / MACHINE / "machine.json").write_text("{}")
    before = sorted(folder.rglob("*"))
    words, value = (text.replace("{}", str(folder)) for text in (words, value))
    assert_refused(traintime(words), field, value, remedy)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("edit", [False, True])
def test_a_free_port_opens_the_lab_on_the_copies_or_the_sources(traintime, monkeypatch, tmp_path, edit):
    started = []
    monkeypatch.setattr(paths, "READER", tmp_path)
    monkeypatch.setattr(os, "execv", lambda program, command: started.append(command))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = f"lab --port {port} {'--edit' if edit else ''}"
        assert_refused(traintime(words), "port", port, "make lab PORT=")
    if not edit:
        assert_refused(traintime(words), "lab", str(tmp_path), "make book")
    (tmp_path / "01.ipynb").write_text("{}")
    assert traintime(words).status == 0
    ((*_, folder),) = started
    assert folder == str(paths.CHAPTERS if edit else tmp_path)


@pytest.mark.parametrize(("words", "status"), [("--all", 0), ("--all --strict", 1)])
def test_what_this_machine_cannot_have_is_left_out_and_told(traintime, monkeypatch, words, status):
    added = []
    monkeypatch.setattr(stacks, "add", lambda stack, *args, **kwargs: added.append(stack.name) or True)
    monkeypatch.setattr(stacks, "can_have", lambda stack: stack.python != "3.6")
    answer = traintime("stacks add", words)
    assert answer.status == status
    assert added == [name for name in stacks.ALL if not name.startswith("2017")]
    assert "2017-theano: left out, no Python 3.6. Type one of: pyenv install 3.6" in answer.words
    assert "2026-torch: added" in answer.words


def test_a_failed_installation_is_one_error_and_exit_status_1(traintime, monkeypatch):
    monkeypatch.setattr(stacks, "add", mock.Mock(side_effect=RuntimeError("pip could not install it")))
    answer = traintime("stacks add 2017-theano")
    assert (answer.status, answer.out, answer.err) == (1, "", "error: pip could not install it\n")


def test_the_stacks_are_listed_with_how_to_get_those_that_are_missing(traintime, monkeypatch):
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: stack.name != "2017-theano"))
    monkeypatch.setattr(stacks, "find_python", lambda version: None)
    rows = json.loads(traintime("stacks --json").out)
    assert [(row["stack"], row["here"]) for row in rows] == [(name, name != "2017-theano") for name in stacks.ALL]
    assert "pyenv install 3.6" in rows[0]["add"]
    assert "pyenv install 3.6" in traintime("stacks").words


def test_a_measurement_is_told_in_words(traintime, fake_measure):
    calls = fake_measure()
    sizes = [f"--{name} {value}" for name, value in TINY.items()]
    answer = traintime("measure --stack numpy --threads 1 --steps 7 --timeout 60", *sizes)
    assert answer.status == 0
    assert f"numpy {make_point(**TINY, threads=1).key}" in answer.words
    assert "a step takes 3.0 ms (median 3.0, 7 steps)" in answer.words
    (call,) = calls
    assert (call.point, call.stack) == (make_point(**TINY, threads=1), "numpy")
    assert (call.protocol.steps, call.protocol.timeout_s) == (7, 60)


def test_a_measurement_is_as_usual_but_for_what_is_given(traintime, fake_measure):
    calls = fake_measure()
    assert traintime("measure").status == 0
    assert traintime("measure --words 5 --mask --tokens zipf --frozen").status == 0
    assert traintime("measure --no-frozen --onednn off --dropout 0").status == 0
    assert traintime("measure --stack numpy --vocabulary 900000000 --beyond-memory").status == 0
    assert [call.point for call in calls] == [
        make_point(),
        make_point(words=5, mask=True, tokens="zipf", frozen=True),
        make_point(onednn="off", dropout=0.0),
        make_point(vocabulary=900_000_000),
    ]


def test_a_failed_measurement_says_why_as_json_too_and_has_exit_status_1(traintime, fake_measure):
    fake_measure("oom")
    answer = traintime("measure --stack numpy --json")
    assert (answer.status, json.loads(answer.out)["status"]) == (1, "oom")
    assert "oom: made up" in answer.err


def test_a_sweep_is_measured_checked_and_shown(traintime, fake_measure, profile, tmp_path):
    calls, to = fake_measure(), tmp_path / "to"
    planned = traintime("sweep", "--profile", profile, "--to", to, "--dry-run")
    assert (planned.status, calls, to.exists()) == (0, [], False)
    assert planned.out.count("numpy  rnn-v11") == planned.out.count("numpy  rnn-v12") == 3
    done = traintime("sweep", "--profile", profile, "--to", to)
    assert len(calls) == len(planned.out.splitlines())
    assert f"{len(calls)} invocations measured; nothing is outstanding" in done.err
    again = traintime("sweep", "--profile", profile, "--to", to, "--dry-run")
    assert (again.status, again.out, again.err) == (0, "", "0 invocations are outstanding\n")
    checked = traintime("check", to)
    assert (checked.status, checked.out, checked.err) == (0, "", "3 files, all well\n")
    (floor,) = (line for line in traintime("table", to).err.splitlines() if " numpy " in line)
    assert re.findall(r"[\w.%-]+", floor) == ["numpy", "4", *["0.0%"] * 5]


def test_a_sweep_ends_within_its_minutes_and_says_what_is_missing_left_or_changed(
    traintime, profile, tmp_path, monkeypatch
):
    limits = []

    def run(*args, warn, within_s, **options):
        limits.append(within_s)
        warn("bandwidth_bytes_per_s is 5e+09")
        return sweep.SweepProgress(8)

    monkeypatch.setattr(sweep, "run", run)
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: False))
    monkeypatch.setattr(allocators, "present", lambda name: False)
    for minutes in ("", "--within 0", "--within 1.5"):
        answer = traintime("sweep", "--profile", profile, "--to", tmp_path / "to", minutes)
        assert answer.status == 0
        assert "0 invocations measured; 8 are outstanding: run the same command again" in answer.words
        for name, add in (("numpy", "traintime stacks add numpy"), ("glibc", "Use Linux with glibc.")):
            assert f"{name} is missing and is left out; add it: {add}" in answer.words
        assert "the machine is not as it was: bandwidth_bytes_per_s is 5e+09" in answer.words
    assert limits == [float("inf"), 0, 90]


def test_a_table_has_a_row_a_point_or_an_invocation(traintime, folder):
    points, invocations = (json.loads(traintime("table", folder, "--json", *each).out) for each in ([], ["--each"]))
    assert [(row["vocabulary"], row["status"], row["invocations"]) for row in points] == [(11, "ok", 2), (12, "oom", 2)]
    assert [(row["vocabulary"], row["round"]) for row in invocations] == [(11, 1), (11, 2), (12, 1), (12, 2)]
    assert [row["step_s"] for row in points] == [pytest.approx(0.003), None]
    assert points[0]["low_s"] < 0.003 < points[0]["high_s"], "two runs of one sweep agree, another sweep may not"


@pytest.mark.parametrize(("ending", "read"), [("csv", pd.read_csv), ("parquet", pd.read_parquet)])
def test_an_export_holds_what_the_table_shows(traintime, folder, tmp_path, ending, read):
    path = tmp_path / f"table.{ending}"
    answer = traintime("table", folder, "--export", path)
    assert (answer.status, answer.out) == (0, "")
    shown = pd.DataFrame(json.loads(traintime("table", folder, "--json").out))
    pd.testing.assert_frame_equal(read(path)[["vocabulary", "step_s"]], shown[["vocabulary", "step_s"]])


def test_the_machine_is_described_as_json_in_words_and_below_a_folder(traintime, tmp_path):
    described = json.loads(traintime("machine --json").out)
    assert (described["machine"], described["rates"]["matmul_flop_per_s"]) == ("some-2-cores-8-gib", 1e11)
    stored = json.loads(traintime("machine", "--to", tmp_path, "--json").out)
    assert json.loads((tmp_path / "some-2-cores-8-gib" / "machine.json").read_text()) == stored
    assert "Some, 2 cores, 8.0 GiB GPU: none memory 10.0 GB/s" in traintime("machine").words


def test_a_check_looks_for_what_was_committed_and_prints_notes_beside_what_is_wrong(traintime, folder):
    settings = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "-A"], [*settings, "commit", "-q", "-m", "measured"]):
        subprocess.run(["git", *words], cwd=folder.parent, check=True)
    next(path for path in records.files(folder) if "v11" in path.name).unlink()
    key = make_point(**TINY).key
    gone = f"{key}.json: key invocations: the one of 2026-01-02T03:11:01Z is gone"
    for words in ([], ["--since", "HEAD"]):
        answer = traintime("check", folder, *words)
        assert (answer.status, gone in answer.out) == (1, True)
    assert f"note: {MACHINE}: the sweep made-up is unfinished" in answer.err
    assert "note:" not in answer.out
    assert json.loads(traintime("check", folder, "--json").out) == answer.out.splitlines()


def test_trials_are_listed_trained_and_not_repeated(traintime, profile, tmp_path, monkeypatch):
    to = ["--to", tmp_path / "trials", "--profile", profile]

    def train(trial, seeds):
        yield from ({"seed": seed, "accuracy": 0.5, "loss": 1.0, "training_loss": [], "seconds": 2.0} for seed in seeds)

    monkeypatch.setattr(learning, "in_a_process", train)
    listed = traintime("learn", "--dry-run", *to)
    assert listed.out.split("\n")[:2] == ["mnist1d-u4-b100-n40  2 seeds", "mnist1d-u8-b100-n40  2 seeds"]
    assert listed.err == "4 trainings are outstanding\n"
    done = traintime("learn", *to)
    assert done.out.count("accuracy 0.500") == 4
    assert done.err == "4 of 4 trained\n"
    assert traintime("learn", *to).err == "0 of 0 trained\n"
    assert_refused(traintime("learn", "--only", "fate", *to), "trials", "fate", "Choose one of: luck")


def test_json_has_the_answer_and_what_the_training_costs(traintime):
    words = "estimate --vocabulary 2000000 --samples 1e6 --stack 2026-jax --deadline 9h --per-hour 7.2 --json"
    answer = traintime(words)
    found = json.loads(answer.out)
    assert (answer.status, found["answer"]) == (3, "too close to call")
    costs = {name: found["total"][name] * 7.2 / 3600 for name in ("value", "low", "high")}
    assert costs == pytest.approx(found["cost"])


def test_the_largest_that_fits_is_found_on_a_device_by_a_short_name(traintime):
    assert json.loads(traintime("largest rows --memory 4GB --on t4 --json").out)["surely"] > 1000
    assert traintime("largest --memory 1MB --on T4").status == 1


def test_the_version_is_told_and_help_is_one_screen(traintime, monkeypatch):
    assert traintime("--version").out == f"traintime {__version__}\n"
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("estimate", "largest"):
        answer = traintime(command, "--help")
        assert (answer.status, len(answer.out.splitlines()) <= 40) == (0, True)
