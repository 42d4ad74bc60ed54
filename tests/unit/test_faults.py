"""The system refuses what a sweep asks of it, at any moment: the same command then gives what it would have given.

A fault is a refusal of the N-th opening, write, fsync, renaming or new folder, for every N until a whole sweep passes.
"""

import errno
import io
import itertools
import json
import os
import resource
import tempfile

import pytest
from made_up import MACHINE, RATES, quiet_machine

from traintime.errors import InputError
from traintime.measuring import sweep
from traintime.store import code, records

DISTURBED = 12  # rows of the point that is disturbed whenever it runs, and so is done once more in each round
FIELDS = {"stacks": ["numpy"], "vocabulary": [11, DISTURBED], "embedding": 4, "units": 4, "rounds": 2}
KINDS = {"open": errno.EMFILE, "write": errno.ENOSPC, "fsync": errno.EIO, "replace": errno.EACCES, "mkdir": errno.EROFS}
PLANS = [sweep.Plan.from_profile("small", FIELDS)]


@pytest.fixture(autouse=True)
def made_up_machine(tmp_path, monkeypatch):
    """A machine with temporary files of its own, too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    quiet_machine(monkeypatch, tmp_path)


@pytest.fixture
def run(invocation):
    """Run the sweep into a folder, with what measures a point made up; return the points that were measured.

    What is made of a point does not depend on when it is measured, so that any two whole sweeps agree. started: the
    moments that the clock shows, one after the other, until somebody interrupts.
    """

    def sweep_into(root, started=None, plans=PLANS, rates=lambda: dict(RATES)):
        calls, clock = [], iter(started or itertools.repeat("2026-01-02T03:04:05Z"))

        def measure(point, stack, protocol):
            if (moment := next(clock, None)) is None:
                raise KeyboardInterrupt
            calls.append(point)
            made = invocation(code=code.current(point.workload, stack.api), started=moment)
            made["protocol"] |= {"steps": protocol.steps}
            if point.sizes.vocabulary == DISTURBED:
                made["result"]["evidence"] = {"seconds": 10.0, "others_cpu_s": 9.0}
            return made

        sweep.run(plans, root, measure=measure, rates=rates)
        return calls

    return sweep_into


def content(root):
    """Every file below the folder, hidden ones too: an invocation without its time, and each kind of rates once."""
    files = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        held = json.loads(path.read_text())
        if path.name == "rates.json":
            held = [held[0]] if all(each == held[0] for each in held) else held
        elif path.name != "machine.json":
            for each in held["invocations"]:
                del each["started"]
        files[str(path.relative_to(root))] = held
    return files


@pytest.fixture
def undisturbed(run, tmp_path):
    """What a sweep gives that nothing has disturbed."""
    assert len(run(tmp_path / "undisturbed")) == 2 * (1 + 1 + 2)
    return content(tmp_path / "undisturbed")


def put_before(patch, kind, refuse):
    """Call refuse(path) before each call of one kind that a sweep makes of the system, and in the middle of a write."""

    def before(function):
        def called(path, *args, **kwargs):
            refuse(path)
            return function(path, *args, **kwargs)

        return called

    def opened(path, *args, function=io.open, **kwargs):
        file = function(path, *args, **kwargs)
        if file.writable():
            whole = file.write

            def write(text):
                done = whole(text[: len(text) // 2])
                file.flush()
                refuse(path)
                return done + whole(text[len(text) // 2 :])

            file.write = write
        return file

    if kind in ("open", "write"):
        patch.setattr(io, "open", before(io.open) if kind == "open" else opened)
    if kind != "write":
        patch.setattr(os, kind, before(getattr(os, kind)))


@pytest.mark.fault(
    "The system refuses the N-th opening, write, fsync, renaming or new folder of a sweep, for every N",
    "the same command then gives what an undisturbed sweep gives",
)
@pytest.mark.parametrize(("kind", "error"), KINDS.items())
def test_after_a_refusal_a_sweep_goes_on(run, undisturbed, tmp_path, monkeypatch, record_property, kind, error):
    refused = 0
    for number in itertools.count(1):
        root, calls = tmp_path / f"{number}", itertools.count(1)

        def refuse(path, calls=calls, number=number):
            if next(calls) == number:
                raise OSError(error, os.strerror(error))

        with monkeypatch.context() as patch:
            put_before(patch, kind, refuse)
            try:
                run(root)
            except (InputError, OSError) as caught:
                refused += 1
                assert isinstance(caught, InputError) or caught.errno == error, "not another one that it leads to"
        assert list(root.rglob(".*")) == []
        run(root)
        assert content(root) == undisturbed, f"after the {number}th"
        if next(calls) <= number:
            break
    assert refused >= 2, "or nothing was tested"
    record_property("tried", number)


@pytest.mark.fault(
    "The disk is full in the middle of a file",
    "nothing that was stored is lost; the same command then gives what an undisturbed sweep gives",
)
@pytest.mark.parametrize("limit", [0, 600, 1500, 3000])
def test_a_disk_that_is_full_loses_nothing_that_was_stored(run, undisturbed, tmp_path, limit):
    """No file may become longer than so many bytes; the first invocation of a point takes some 1,400."""
    root, usual = tmp_path / "full", resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == 3000:
        run(root, plans=[sweep.Plan.from_profile("small", FIELDS | {"rounds": 1})])
    before = content(root)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, usual[1]))
        with pytest.raises(InputError, match="Make room"):
            run(root)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    after = content(root)
    assert before.keys() <= after.keys()
    for name in before.keys() - {f"{MACHINE}/machine.json", f"{MACHINE}/rates.json"}:
        kept = before[name]["invocations"]
        assert after[name]["invocations"][: len(kept)] == kept
    run(root)
    assert content(root) == undisturbed


@pytest.mark.fault(
    "The folder of the measurements may only be read", "refused before anything is measured, with what to do"
)
@pytest.mark.parametrize("kind", ["open", "mkdir"])
def test_a_folder_that_may_only_be_read_is_refused_before_anything_is_measured(run, tmp_path, monkeypatch, kind):
    root = tmp_path / "read-only"

    def refuse(path):
        if str(path).startswith(str(root)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        put_before(patch, kind, refuse)
        with pytest.raises(InputError, match="Make it writable"):
            run(root, rates=lambda: pytest.fail("this was not to be measured"))
    assert content(root) == {}


@pytest.mark.fault("A killed sweep leaves half-written files", "the next sweep takes them away")
def test_what_a_killed_writer_had_begun_is_taken_away_even_where_nothing_is_left_to_do(run, undisturbed, tmp_path):
    root = tmp_path / "killed"
    run(root)
    for path in [*records.files(root), root / MACHINE / "rates.json"]:
        path.with_name(f".{path.name}.part").write_text("{")
    assert run(root) == []
    assert content(root) == undisturbed


@pytest.mark.fault(
    "The clock is set back during a sweep", "the same command then gives what an undisturbed sweep gives"
)
@pytest.mark.parametrize("stopped", [None, 3])
def test_a_clock_that_is_set_back_changes_nothing(run, undisturbed, tmp_path, monkeypatch, stopped):
    root, back = tmp_path / "back", [f"20{year}-01-02T03:04:05Z" for year in range(30, 10, -1)]
    if stopped:
        with pytest.raises(KeyboardInterrupt):
            run(root, started=back[:stopped])
    run(root, started=back[stopped or 0 :])
    assert content(root) == undisturbed
    for path in records.files(root):
        times = [each.started for each in records.read(path).invocations]
        assert times == sorted(times, reverse=True), "as they were run, whatever the clock said"
