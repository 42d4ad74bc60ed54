"""The command line: what it prints, what it refuses, and with which exit status."""

import functools
import json
import os
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import typer
import yaml

from traintime import cli, paths, workloads
from traintime.errors import InputError
from traintime.learning import run as learning
from traintime.measuring import allocators, machine, measure, stacks, sweep
from traintime.measuring.protocol import QUICK
from traintime.point import make_point
from traintime.predict import bench
from traintime.store import code, records
from traintime.workloads.base import UPDATES, Batch, Optimizer, Sizes, Work

MACHINE = "some-machine"
TINY = {"vocabulary": 11, "embedding": 3, "units": 4, "length": 5, "batch": 6}
WHOLE = "Give a whole number of 1 or more."


@dataclass
class Answer:
    status: int
    out: str
    err: str

    @property
    def words(self):
        """All that was printed, without line breaks and frames."""
        return " ".join(re.sub(r"[│╭╮╰╯─]", " ", self.out + self.err).split())


@pytest.fixture
def traintime(monkeypatch, capsys):
    """Type a command; return its exit status and what it printed."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["traintime", *map(str, words)])
        monkeypatch.setenv("COLUMNS", "200")
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = end.code or 0
        out, err = (re.sub(r"\x1b\[[0-9;]*m", "", text) for text in capsys.readouterr())
        return Answer(status, out, err)

    return run


@pytest.fixture(autouse=True)
def quiet_machine(tmp_path, monkeypatch):
    """A machine that has every stack and 8 GiB; nothing is started on it, and nothing is written into the checkout."""

    def started(*args, **kwargs):
        raise AssertionError("this was not to be started")

    monkeypatch.setattr(measure, "run_worker", started)
    monkeypatch.setattr(os, "execv", started)
    monkeypatch.setattr(stacks, "_pip", started)
    monkeypatch.setattr(machine, "bandwidth", started)
    monkeypatch.setattr(paths, "STACKS", tmp_path / "stacks")
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: True))
    described = {"cpu": "Some", "cores": 2, "memory_bytes": 2**33, "gpus": [], "kernel": "6.1.0"}
    monkeypatch.setattr(machine, "describe", lambda: described)
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: SimpleNamespace(available=8 * 2**30))


@pytest.fixture
def rates(monkeypatch):
    """Rates that nobody measures."""
    monkeypatch.setattr(machine, "rates", lambda: {"bandwidth_bytes_per_s": 1e10, "matmul_flop_per_s": 1e11})


@pytest.fixture
def fake_measure(monkeypatch, invocation):
    """Answer in the place of a worker; the calls are kept."""

    def make(status="ok", evidence=None):
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
                made["result"]["evidence"] |= evidence or {}
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
            records.append(path, MACHINE, "numpy", point, invocation(status, round=number, started=started))
    return root


@pytest.fixture
def profile(tmp_path, monkeypatch):
    """A profile of one small sweep."""
    monkeypatch.setattr(paths, "PROFILES", tmp_path / "profiles")
    paths.PROFILES.mkdir()
    fields = {"stacks": ["numpy"], "rounds": 3, **TINY, "vocabulary": [11, 12]}
    (paths.PROFILES / "mine.yaml").write_text(yaml.safe_dump({"sweeps": {"small": fields}}))
    return "mine"


def assert_refused(answer, field, value, remedy):
    """Exit status 2 and one line that names the field, the value and the remedy."""
    assert answer.status == 2
    assert answer.out == ""
    assert answer.err.startswith(f"error: {field}: {value!r} ")
    assert remedy in answer.err
    assert answer.err.count("\n") == 1


# Refused before anything is started


@pytest.mark.parametrize(
    ("words", "field", "value", "remedy"),
    [
        ("measure --stack 2016-theano", "stack", "2016-theano", "Choose one of: 2017-theano, "),
        ("stacks add 2016-theano", "stack", "2016-theano", "Choose one of: 2017-theano, "),
        ("stacks add 2017-theano 2016-theano", "stack", "2016-theano", "Choose one of: 2017-theano, "),
        ("stacks add", "stack", "", "or give --all"),
        ("measure --workload cnn", "workload", "cnn", "Choose one of: blocks, convnet, dense, "),
        ("measure --optimizer adagrad", "optimizer", "adagrad", "'momentum' or 'rmsprop'"),
        ("measure --device tpu", "device", "tpu", "'cpu' or 'gpu'"),
        ("sweep --profile huge", "profile", "huge", "Choose one of: colab, full, gpu, net, quick"),
        ("sweep --profile huge --dry-run", "profile", "huge", "Choose one of: colab, full, gpu, net, quick"),
        ("learn --profile huge", "profile", "huge", "Choose one of: colab, full, gpu, net, quick"),
        ("sweep --only everything", "sweep", "everything", "Choose one of: allocator, allocators, "),
        ("sweep --only vocabulary --only everything", "sweep", "everything", "Choose one of: allocator, "),
    ],
)
def test_an_unknown_name_is_refused_and_the_known_ones_are_named(traintime, tmp_path, words, field, value, remedy):
    to = ["--to", tmp_path / "to"] if words.startswith(("sweep", "learn")) else []
    assert_refused(traintime(*words.split(), *to), field, value, remedy)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("measure --batch many", "--batch"),
        ("measure --vocabulary 1.5", "--vocabulary"),
        ("measure --steps 0", "--steps"),
        ("measure --timeout 0", "--timeout"),
        ("sweep --within -1", "--within"),
        ("check --at-least 0", "--at-least"),
        ("lab --port 0", "--port"),
        ("lab --port 70000", "--port"),
    ],
)
def test_a_value_that_is_no_number_or_out_of_range_is_a_usage_error(traintime, words, option):
    answer = traintime(*words.split())
    assert answer.status == 2
    assert f"Invalid value for '{option}': " in answer.words
    assert answer.out == ""


def test_a_point_beyond_the_memory_is_refused_unless_it_is_asked_for(traintime, fake_measure):
    calls = fake_measure()
    words = ["measure", "--stack", "numpy", "--vocabulary", 900_000_000]
    assert_refused(traintime(*words), "vocabulary", 900_000_000, "try it all the same: measure --beyond-memory")
    assert calls == []
    assert traintime(*words, "--beyond-memory").status == 0
    assert [call.point.sizes.vocabulary for call in calls] == [900_000_000]


def test_a_stack_that_is_not_here_is_refused_with_the_command_that_adds_it(traintime, fake_measure, monkeypatch):
    calls = fake_measure()
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: False))
    answer = traintime("measure", "--stack", "2017-theano")
    assert_refused(answer, "stack", "2017-theano", "traintime stacks add 2017-theano")
    assert calls == []


@pytest.mark.parametrize(
    ("words", "field", "value", "remedy"),
    [
        ("measure --batch -3", "batch", -3, WHOLE),
        ("measure --optimizer adam-rows --stack 2017-theano", "optimizer", "adam-rows", "Take the stack numpy."),
        ("measure --mask --words 5 --stack numpy", "mask", True, "Take a Keras stack."),
        ("measure --words 26", "words", 26, "Give the length or less."),
        ("measure --allocator mimalloc", "allocator", "mimalloc", "'glibc', 'glibc-keep', "),
        ("measure --loop epoch", "sentences", None, "Give the samples of the epoch."),
        ("measure --dropout 1.5", "dropout", 1.5, "Give a value that it takes."),
    ],
)
def test_what_cannot_be_measured_is_refused(traintime, fake_measure, words, field, value, remedy):
    """One of each kind: all that is refused stands in test_point and test_stacks."""
    calls = fake_measure()
    assert_refused(traintime(*words.split()), field, value, remedy)
    assert calls == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [("--device gpu --stack 2026-torch", "device", "gpu"), ("--threads 3 --stack numpy", "threads", 3)],
)
def test_what_this_machine_does_not_have_is_refused(traintime, fake_measure, monkeypatch, words, field, value):
    monkeypatch.setattr(machine, "gpus", list)
    monkeypatch.setattr(measure, "default_threads", lambda: 2)
    calls = fake_measure()
    assert_refused(traintime("measure", *words.split()), field, value, "2 or fewer" if field == "threads" else "cpu")
    assert calls == []


@pytest.mark.parametrize(
    "words",
    [
        *(f"measure --stack numpy --{name} {{}}" for name in ("vocabulary", "batch", "steps", "threads")),
        *(f"estimate --{name} {{}}" for name in ("samples", "epochs", "vocabulary", "validation")),
        *("estimate --samples={}", "check --at-least {}", "sweep --within {}"),
    ],
)
def test_a_number_of_400_digits_is_refused_by_its_option(traintime, fake_measure, words):
    calls = fake_measure()
    answer = traintime(*words.format("9" * 400).split())
    assert (answer.status, answer.out, calls) == (2, "", [])
    assert answer.err.startswith(f"error: {words.split()[-2 if ' {' in words else -1].split('=')[0]}: ")
    assert answer.err.count("\n") == 1


def test_a_stack_whose_folder_cannot_be_made_is_refused(traintime):
    """As in a checkout that may only be read."""
    paths.STACKS.write_text("a file in the place of the folder")
    words = ["measure", "--stack", "numpy", "--vocabulary", 11]
    assert_refused(traintime(*words), "folder", str(stacks.get("numpy").state), "Name another.")


@pytest.mark.parametrize(
    ("command", "text"),
    [(command, text) for command in ("sweep", "learn") for text in ("", "- a\n", "only words", "sweeps: [")]
    + [("sweep", "sweeps: 3"), ("learn", "trials: 3"), ("learn", "trials:\n  one: 3")],
)
def test_a_profile_that_holds_no_settings_is_refused(traintime, profile, tmp_path, command, text):
    (paths.PROFILES / "mine.yaml").write_text(text)
    answer = traintime(command, "--profile", profile, "--to", tmp_path / "to")
    assert (answer.status, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert answer.err.startswith("error: ")


@pytest.mark.parametrize("words", ["sweep --profile mine --to {}", "machine --to {}", "table {}"])
@pytest.mark.parametrize("name", ["x" * 300, "file/below"])
def test_a_folder_that_no_system_makes_is_refused(traintime, fake_measure, rates, profile, tmp_path, words, name):
    (tmp_path / "file").write_text("a file")
    calls = fake_measure()
    answer = traintime(*words.format(tmp_path / name).split())
    assert (answer.status, answer.out, calls) == (2, "", [])
    assert answer.err.splitlines()[-1].startswith("error: fol" if "file" in name else "error: ")
    assert name in answer.err


def test_what_keeps_what_was_tried_is_looked_at_before_anything_is_tried(traintime, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "run", lambda *args: pytest.fail("this was not to be started"))
    (tmp_path / "file").write_text("a file")
    assert_refused(traintime("bench-predict", "--to", tmp_path / "file"), "folder", str(tmp_path / "file"), "another")
    for text in ("[", "{}"):
        (tmp_path / f"{machine.this()}.json").write_text(text)
        assert traintime("bench-predict", "--to", tmp_path).status == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [(name, text) for name in ("machine.json", "rates.json") for text in ("", "{", "7", '"text"', '{"rates": 5}')]
    + [("machine.json", "[]"), ("machine.json", '{"rates": {"matmul_flop_per_s": "x"}}'), ("rates.json", "[{}]")],
)
@pytest.mark.parametrize("words", ["sweep --profile mine --to {}", "machine --to {}", "compare {}"])
def test_a_broken_description_of_this_machine_is_refused_by_its_file(
    traintime, fake_measure, rates, profile, tmp_path, monkeypatch, words, name, text
):
    fake_measure()
    assert traintime("sweep", "--profile", profile, "--to", tmp_path / "to").status == 0
    folder = tmp_path / "to" / machine.this()
    (folder / "rates.json").unlink()
    (folder / name).write_text(text)
    # So that a round is left to do.
    file = paths.PROFILES / "mine.yaml"
    file.write_text(file.read_text().replace("rounds: 3", "rounds: 4"))
    answer = traintime(*words.format(tmp_path / "to").split())
    assert answer.status == 2, answer.words
    assert name in answer.err
    assert answer.err.splitlines()[-1].startswith("error: measurement file: ")


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_broken_description_among_the_stored_ones_is_refused_by_its_file(
    traintime, fake_measure, profile, tmp_path, monkeypatch, text
):
    folder = tmp_path / "stored" / machine.key(machine.describe())
    folder.mkdir(parents=True)
    (folder / "machine.json").write_text(text)
    monkeypatch.setattr(machine.this, "__defaults__", (tmp_path / "stored",))
    answer = traintime("sweep", "--profile", profile, "--to", tmp_path / "to")
    assert (answer.status, "machine.json" in answer.err) == (2, True)


def test_who_interrupts_is_told_how_to_go_on(traintime, fake_measure, rates, profile, tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "run", interrupted)
    answer = traintime("sweep", "--profile", profile, "--to", tmp_path / "to")
    assert answer.status == 130
    assert "run the same command again" in answer.err.splitlines()[-1]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_lacks_a_sign_shows_the_rest(folder, encoding):
    command = [sys.executable, "-c", "from traintime.cli import main; main()", "table", str(folder), "--each"]
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT), "PYTHONIOENCODING": encoding}
    answer = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert answer.returncode == 0, answer.stderr[-500:]
    assert b"some-machine" in answer.stdout


def test_a_field_that_the_workload_does_not_have_is_refused(traintime, fake_measure, monkeypatch):
    class Other(Sizes):
        name, folder = "other", workloads.get("rnn").folder
        batch: Batch = 8
        optimizer: Optimizer = "adam"

        def work(self):
            return UPDATES[self.optimizer].work(1, 1) + Work(flops=1, product_bytes=1, activation_bytes=1, launches=1)

    monkeypatch.setitem(workloads.ALL, "other", Other)
    calls = fake_measure()
    answer = traintime("measure", "--workload", "other", "--stack", "numpy", "--vocabulary", 5)
    assert_refused(answer, "field of a configuration", "vocabulary", "Choose one of: allocator, batch, ")
    assert calls == []
    assert traintime("measure", "--workload", "other", "--stack", "numpy", "--batch", 5).status == 0
    assert calls[0].point == make_point("other", batch=5)


def test_a_missing_allocator_is_refused_with_the_command_that_adds_it(traintime, monkeypatch):
    monkeypatch.setattr(allocators, "library", lambda name: None)
    answer = traintime("measure", "--stack", "numpy", "--allocator", "jemalloc")
    assert_refused(answer, "allocator", "jemalloc", "apt-get install libjemalloc2")


@pytest.mark.parametrize(
    ("words", "field", "value", "remedy"),
    [
        ("table {} --machine other", "machine", "other", MACHINE),
        ("table {} --export {}/table.xlsx", "export", "{}/table.xlsx", ".csv or .parquet"),
        ("table {} --export {}/table", "export", "{}/table", ".csv or .parquet"),
        ("table {} --export {}/table.csv.gz", "export", "{}/table.csv.gz", ".csv or .parquet"),
        ("table {} --export {}/empty.csv", "export", "{}/empty.csv", "Give the name of a file."),
        ("table {} --export {}/nowhere/table.csv", "export", "{}/nowhere/table.csv", "nowhere"),
        ("table {}/nowhere", "folder", "{}/nowhere", "make measure"),
        ("table {}/empty", "folder", "{}/empty", "make measure"),
        ("check {}/nowhere", "folder", "{}/nowhere", "Name a folder of measurement files."),
        ("check {} --since never", "since", "never", "Leave --since out"),
    ],
)
def test_a_table_or_a_check_of_what_is_not_there_is_refused(traintime, folder, words, field, value, remedy):
    for name in ("empty", "empty.csv"):
        (folder / name).mkdir()
    before = sorted(folder.iterdir())
    words, value = (text.replace("{}", str(folder)) for text in (words, value))
    assert_refused(traintime(*words.split()), field, value, remedy)
    assert sorted(folder.iterdir()) == before


def test_a_table_of_a_damaged_file_is_refused_and_the_file_is_named(traintime, folder):
    path = next(records.files(folder))
    path.write_text("{")
    assert_refused(traintime("table", folder), "measurement file", "/".join(path.parts[-3:]), "version control")


def test_a_check_of_an_empty_folder_fails(traintime, tmp_path):
    answer = traintime("check", tmp_path)
    assert answer.status == 1
    assert answer.out == f"{tmp_path}: no measurement file below it\n"


def test_a_port_in_use_is_refused(traintime):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert_refused(traintime("lab", "--port", port), "port", port, "make lab PORT=")


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("edit", [False, True])
def test_a_free_port_opens_the_lab_on_the_copies_or_the_sources(traintime, free_port, monkeypatch, tmp_path, edit):
    started = []
    monkeypatch.setattr(paths, "READER", tmp_path)
    (tmp_path / "01.ipynb").write_text("{}")
    monkeypatch.setattr(os, "execv", lambda program, command: started.append(command))
    assert traintime("lab", "--port", free_port, *(["--edit"] if edit else [])).status == 0
    ((program, *words),) = started
    assert program == sys.executable
    assert f"--port={free_port}" in words
    assert words[-1] == str(paths.CHAPTERS if edit else tmp_path)


def test_a_lab_without_chapters_says_how_to_make_them(traintime, free_port, monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "READER", tmp_path)
    assert_refused(traintime("lab", "--port", free_port), "lab", str(tmp_path), "make book")


@pytest.fixture
def nothing_is_here(monkeypatch):
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: False))


@pytest.mark.parametrize(("answer", "problem"), [("echo 3.9", "is Python 3.9, not 3.6"), ("exit 127", "does not run")])
def test_a_python_of_another_version_is_refused(traintime, nothing_is_here, tmp_path, answer, problem):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{answer}\n")
    python.chmod(0o755)
    refused = traintime("stacks", "add", "2017-theano", "--python", python)
    assert_refused(refused, "python", str(python), "pyenv install 3.6")
    assert problem in refused.err
    assert not paths.STACKS.exists()


# Adding stacks


@pytest.fixture
def added(monkeypatch):
    """Names of the stacks that were added; none is really."""
    names = []
    monkeypatch.setattr(stacks, "add", lambda stack, *args, **kwargs: names.append(stack.name) or True)
    return names


def test_the_named_stacks_are_added(traintime, added):
    answer = traintime("stacks", "add", "2017-theano", "2026-torch")
    assert (answer.status, added) == (0, ["2017-theano", "2026-torch"])
    assert "2026-torch: added" in answer.err


@pytest.mark.parametrize(("words", "status"), [(["--all"], 0), (["--all", "--strict"], 1)])
def test_what_this_machine_cannot_have_is_left_out_and_told(traintime, added, monkeypatch, words, status):
    monkeypatch.setattr(stacks, "can_have", lambda stack: stack.python != "3.6")
    answer = traintime("stacks", "add", *words)
    assert answer.status == status
    assert added == [name for name in stacks.ALL if not name.startswith("2017")]
    assert "2017-theano: left out, no Python 3.6. Type one of: pyenv install 3.6" in answer.words


def test_a_failed_installation_is_one_error_and_exit_status_1(traintime, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("pip could not install it")

    monkeypatch.setattr(stacks, "add", fail)
    answer = traintime("stacks", "add", "2017-theano")
    assert (answer.status, answer.out, answer.err) == (1, "", "error: pip could not install it\n")


# Measuring


def test_a_measurement_is_told_in_words(traintime, fake_measure):
    calls = fake_measure()
    sizes = [word for name, value in TINY.items() for word in (f"--{name}", value)]
    answer = traintime("measure", "--stack", "numpy", *sizes, "--threads", 1, "--steps", 7, "--timeout", 60)
    assert answer.status == 0
    assert f"numpy {make_point(**TINY, threads=1).key}" in answer.words
    assert "a step takes 3.0 ms (median 3.0, 7 steps)" in answer.words
    (call,) = calls
    assert (call.point, call.stack) == (make_point(**TINY, threads=1), "numpy")
    assert (call.protocol.steps, call.protocol.timeout_s) == (7, 60)


def test_a_measurement_is_as_usual_but_for_what_is_given(traintime, fake_measure):
    calls = fake_measure()
    words = "--optimizer adam-rows --tokens zipf --words 5 --allocator glibc-keep --frozen"
    assert traintime("measure", "--stack", "numpy").status == 0
    assert traintime("measure", "--stack", "numpy", *words.split()).status == 0
    assert traintime("measure", "--words", 5, "--mask").status == 0
    assert traintime("measure", "--no-frozen", "--onednn", "off", "--dropout", 0).status == 0
    run = {"tokens": "zipf", "allocator": "glibc-keep", "frozen": True}
    assert [call.point for call in calls] == [
        make_point(),
        make_point(optimizer="adam-rows", words=5, **run),
        make_point(words=5, mask=True),
        make_point(onednn="off", dropout=0.0),
    ]
    assert (calls[0].protocol.steps, calls[0].protocol.timeout_s) == (20, 900)


@pytest.mark.parametrize("words", [[], ["--json"]])
@pytest.mark.parametrize("status", ["oom", "timeout", "crashed"])
def test_a_failed_measurement_says_why_and_has_exit_status_1(traintime, fake_measure, status, words):
    fake_measure(status)
    answer = traintime("measure", "--stack", "numpy", *words)
    assert answer.status == 1
    assert f"{status}: made up" in answer.err
    if words:
        assert json.loads(answer.out)["status"] == status


def test_a_sweep_is_measured_checked_and_shown(traintime, fake_measure, rates, profile, tmp_path):
    calls = fake_measure()
    to = tmp_path / "to"
    planned = traintime("sweep", "--profile", profile, "--to", to, "--dry-run")
    assert planned.status == 0
    assert calls == []
    assert not to.exists()
    assert planned.out.count("numpy  rnn-v11") == planned.out.count("numpy  rnn-v12") == 3
    done = traintime("sweep", "--profile", profile, "--to", to)
    assert done.status == 0
    assert len(calls) == len(planned.out.splitlines())
    assert f"{len(calls)} invocations measured; nothing is outstanding" in done.err
    again = traintime("sweep", "--profile", profile, "--to", to, "--dry-run")
    assert (again.status, again.out, again.err) == (0, "", "0 invocations are outstanding\n")
    checked = traintime("check", to)
    assert (checked.status, checked.out, checked.err) == (0, "", "3 files, all well\n")
    shown = traintime("table", to)
    assert shown.status == 0
    (floor,) = (line for line in shown.err.splitlines() if " numpy " in line)
    assert re.findall(r"[\w.%-]+", floor) == ["numpy", "4", *["0.0%"] * 5]


def test_a_sweep_says_when_the_machine_is_not_as_it_was(traintime, fake_measure, rates, profile, tmp_path, monkeypatch):
    fake_measure()
    words = ["sweep", "--profile", profile, "--to", tmp_path / "to"]
    assert "not as it was" not in traintime(*words, "--within", 0).words
    slow = {"bandwidth_bytes_per_s": 5e9, "matmul_flop_per_s": 1e11}
    monkeypatch.setattr(sweep, "run", functools.partial(sweep.run, rates=lambda: slow))
    answer = traintime(*words)
    assert answer.status == 0
    assert "the machine is not as it was: bandwidth_bytes_per_s is 5e+09, and 1e+10 to 1e+10 before" in answer.words


def test_a_sweep_names_the_stacks_that_are_missing(traintime, fake_measure, rates, profile, tmp_path, monkeypatch):
    calls = fake_measure()
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: stack.name != "numpy"))
    answer = traintime("sweep", "--profile", profile, "--to", tmp_path / "to")
    assert answer.status == 0
    assert "numpy is missing and is left out; add it: traintime stacks add numpy" in answer.words
    assert calls == []


def test_a_sweep_ends_within_its_minutes_and_says_what_is_left(traintime, fake_measure, rates, profile, tmp_path):
    calls = fake_measure()
    words = ["sweep", "--profile", profile, "--to", tmp_path / "to"]
    none = traintime(*words, "--within", 0)
    assert (none.status, calls) == (0, [])
    left = re.search(r"0 invocations measured; (\d+) are outstanding: run the same command again", none.words)
    assert left, none.words
    done = traintime(*words, "--within", 60)
    assert done.status == 0
    assert len(calls) == int(left[1])
    assert f"{len(calls)} invocations measured; nothing is outstanding" in done.words


def test_the_minutes_of_a_sweep_are_minutes(traintime, profile, tmp_path, monkeypatch):
    limits = []

    def run(*args, within_s, **options):
        limits.append(within_s)
        return sweep.SweepProgress(0)

    monkeypatch.setattr(sweep, "run", run)
    for words in ([], ["--within", 1.5]):
        assert traintime("sweep", "--profile", profile, "--to", tmp_path / "to", *words).status == 0
    assert limits == [float("inf"), 90]


def test_a_sweep_names_the_allocators_that_are_missing(traintime, fake_measure, rates, profile, tmp_path, monkeypatch):
    monkeypatch.setattr(allocators, "library", lambda name: None)
    fields = {"stacks": ["numpy"], "rounds": 1, **TINY, "allocator": ["glibc", "jemalloc", "tcmalloc"]}
    (paths.PROFILES / f"{profile}.yaml").write_text(yaml.safe_dump({"sweeps": {"small": fields}}))
    calls = fake_measure()
    answer = traintime("sweep", "--profile", profile, "--to", tmp_path / "to")
    assert answer.status == 0
    assert "jemalloc is missing and is left out; add it: apt-get install libjemalloc2" in answer.words
    assert "tcmalloc is missing and is left out; add it: apt-get install libtcmalloc-minimal4" in answer.words
    assert "glibc is missing" not in answer.words
    assert {call.point.run.allocator for call in calls} == {"glibc"}


# Tables


def test_a_table_has_a_row_a_point_or_an_invocation(traintime, folder):
    points, invocations = (json.loads(traintime("table", folder, "--json", *each).out) for each in ([], ["--each"]))
    assert [(row["vocabulary"], row["status"], row["invocations"]) for row in points] == [(11, "ok", 2), (12, "oom", 2)]
    assert [(row["vocabulary"], row["round"]) for row in invocations] == [(11, 1), (11, 2), (12, 1), (12, 2)]
    assert points[1]["step_s"] is None
    assert points[0]["low_s"] == points[0]["high_s"] == points[0]["step_s"] == pytest.approx(0.003)


def test_a_table_on_paper_names_the_points_and_the_noise(traintime, folder):
    answer = traintime("table", folder, "--machine", MACHINE)
    assert answer.status == 0
    assert make_point(**TINY).key in answer.out
    assert "oom" in answer.out
    assert "Noise: 95 % of pairs" in answer.err


def test_a_table_on_paper_shows_what_tells_two_rows_of_one_point_apart(traintime, folder, invocation):
    assert "protocol" not in traintime("table", folder).out
    path = next(records.files(folder))
    other = invocation(round=3, protocol={"warmup": 2, "steps": 3, "timeout_s": 9.0, "seconds": 1, "limit_s": 5})
    records.append(path, MACHINE, "numpy", make_point(**TINY), other)
    shown = traintime("table", folder).out
    assert "protocol" in shown
    assert "2+3, 1 to 5 s" in shown
    assert "versions" not in shown


@pytest.mark.parametrize(("ending", "read"), [("csv", pd.read_csv), ("parquet", pd.read_parquet)])
def test_an_export_holds_what_the_table_shows(traintime, folder, tmp_path, ending, read):
    path = tmp_path / f"table.{ending}"
    answer = traintime("table", folder, "--export", path)
    assert (answer.status, answer.out) == (0, "")
    assert f"2rowswrittento{path}" in answer.words.replace(" ", "")  # a long path breaks
    rows = read(path)
    assert list(rows.vocabulary) == [11, 12]
    assert rows.step_s[0] == pytest.approx(0.003)
    assert rows.step_s.isna()[1]


# JSON for programs


def test_a_measurement_as_json(traintime, fake_measure):
    fake_measure()
    answer = traintime("measure", "--stack", "numpy", "--json")
    record = json.loads(answer.out)
    assert answer.status == 0
    assert (record["stack"], record["status"], record["key"]) == ("numpy", "ok", make_point().key)
    assert record["result"]["timing"]["warmup"] == 2


def test_the_stacks_as_json(traintime, monkeypatch):
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: stack.name != "2017-theano"))
    monkeypatch.setattr(stacks, "find_python", lambda version: None)
    rows = json.loads(traintime("stacks", "--json").out)
    assert [row["stack"] for row in rows] == list(stacks.ALL)
    assert [row["stack"] for row in rows if not row["here"]] == ["2017-theano"]
    assert "pyenv install 3.6" in rows[0]["add"]


def test_the_machine_is_described_as_json_in_words_and_below_a_folder(traintime, rates, tmp_path):
    described = json.loads(traintime("machine", "--json").out)
    assert described["machine"] == "some-2-cores-8-gib"
    assert described["rates"]["matmul_flop_per_s"] == 1e11
    stored = json.loads(traintime("machine", "--to", tmp_path, "--json").out)
    assert json.loads((tmp_path / "some-2-cores-8-gib" / "machine.json").read_text()) == stored
    assert "Some, 2 cores, 8.0 GiB GPU: none memory 10.0 GB/s" in traintime("machine").words


def test_a_check_as_json(traintime, folder):
    answer = traintime("check", folder, "--at-least", 2, "--json")
    found = json.loads(answer.out)
    assert answer.status == 1
    assert any(problem.startswith(f"{MACHINE}/machine.json: missing") for problem in found)


# History


@pytest.fixture
def checkout(folder):
    """The folder in a git checkout, committed."""
    settings = ["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "-A"], [*settings, "commit", "-q", "-m", "measured"]):
        subprocess.run(["git", *words], cwd=folder.parent, check=True)
    return folder


def test_a_check_looks_for_what_was_committed(traintime, checkout):
    next(records.files(checkout)).unlink()
    gone = f"{make_point(**TINY).key}.json: key invocations: the one of 2026-01-02T03:11:01Z is gone"
    assert gone in traintime("check", checkout).out
    assert gone in traintime("check", checkout, "--since", "HEAD").out


def test_a_check_prints_notes_beside_what_is_wrong(traintime, folder):
    next(path for path in records.files(folder) if "v12" in path.name).unlink()
    answer = traintime("check", folder)
    assert f"note: {MACHINE}: the sweep made-up is unfinished" in answer.err
    assert "note:" not in answer.out


# Trials


def test_trials_are_listed_trained_and_not_repeated(traintime, profile, tmp_path, monkeypatch):
    trials = {"luck": {"units": [4, 8], "seeds": 2}}
    (paths.PROFILES / "mine.yaml").write_text(yaml.safe_dump({"trials": trials}))
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


def test_data_that_cannot_be_fetched_are_told_before_anything_is_trained(traintime, tmp_path, monkeypatch):
    def unreachable(name):
        raise InputError("task", name, "cannot be fetched (URLError)", "Connect to the network.")

    monkeypatch.setattr(learning.tasks, "load", unreachable)
    monkeypatch.setattr(learning, "in_a_process", lambda *_: pytest.fail("something was started"))
    answer = traintime("learn", "--profile", "net", "--to", tmp_path / "trials")
    assert_refused(answer, "task", "imdb", "Connect to the network.")


# Help


@pytest.mark.parametrize("words", cli.GONE)
def test_what_is_gone_names_what_takes_its_place(traintime, words):
    assert_refused(traintime(*words.split(), "--json"), "command", words, cli.GONE[words])


def commands(command, *words):
    """Every command by the words that call it."""
    found = {" ".join(words): command}
    for name, inner in getattr(command, "commands", {}).items():
        found |= commands(inner, *words, name)
    return found


COMMANDS = commands(typer.main.get_command(cli.app))


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_and_option_says_what_it_is_for(traintime, words):
    answer = traintime(*words.split(), "--help")
    assert answer.status == 0
    assert COMMANDS[words].help
    assert " ".join(COMMANDS[words].help.split()) in answer.words
    for parameter in (each for each in COMMANDS[words].params if not getattr(each, "hidden", False)):
        assert parameter.name == "help" or parameter.help, parameter.name
        assert parameter.opts[0].lower() in answer.out.lower()


def test_without_words_the_help_is_shown(traintime):
    assert "Measure and explain how long a model trains" in traintime().words
