"""Sweeps: what they contain, in which order, and that a kill loses and doubles nothing."""

import itertools
import json
from collections import Counter
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from traintime import allocators, machine, memory, paths, stacks, store, sweep
from traintime.errors import InputError
from traintime.measure import Protocol
from traintime.point import make_point

MACHINE = "some-machine"
SMALL = {"stacks": ["numpy", "2026-jax"], "vocabulary": [10, 20, 30], "embedding": 4, "units": 4, "rounds": 2}


def plan(name="small", **changes):
    return sweep.Plan.from_profile(name, SMALL | changes)


@pytest.fixture
def missing():
    """Names of the stacks that this machine lacks: none, until a test adds one."""
    return set()


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch, missing):
    """A machine that has every stack and 8 GiB, and that nobody measures."""
    monkeypatch.setattr(stacks.Stack, "present", property(lambda stack: stack.name not in missing))
    monkeypatch.setattr(machine, "describe", lambda: {"cpu": "Some", "cores": 2, "memory_bytes": 2**33, "gpus": []})
    monkeypatch.setattr(machine, "rates", lambda: {"bandwidth_bytes_per_s": 1.0})
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=8 * 2**30))


@pytest.fixture
def root(tmp_path):
    return tmp_path / "measurements"


@pytest.fixture
def fake_measure(invocation):
    """Make a stand-in for measure(): it notes each call, and may be interrupted before the one of this number."""

    def make(interrupted_before=None, status="ok"):
        calls = []

        def measure(point, stack, protocol, *, threads=None, progress=None):
            if len(calls) == interrupted_before:
                raise KeyboardInterrupt
            calls.append((stack.name, point.key, protocol))
            made = invocation(status, protocol=protocol.model_dump())
            return {name: value for name, value in made.items() if name not in ("sweep", "round", "seed")}

        measure.calls = calls
        return measure

    return make


def run(plans, root, measure, **options):
    return sweep.run(plans, root, measure=measure, machine_key=MACHINE, **options)


def stored(root, sentinel=False):
    """How often each round of each point is in the files; the sentinel's files instead of all others."""
    found = Counter()
    for path in store.files(root):
        if (path.parent.parent.name == store.SENTINEL) == sentinel:
            for done in store.read(path).invocations:
                found[path.parent.name, path.stem, done.round] += 1
    return found


def planned(plans, seed=2017):
    rounds = range(1, max(plan.rounds for plan in plans) + 1)
    return counted(itertools.chain.from_iterable(sweep.round_order(plans, number, seed) for number in rounds))


def counted(tasks, sentinel=False):
    """How often each round of each point is among the tasks; the sentinel's tasks instead of all others."""
    return Counter((task.stack.name, task.point.key, task.round) for task in tasks if task.sentinel == sentinel)


def left(plans, root, *options):
    """What is outstanding; each round of it begins and ends with the sentinel and has something between."""
    tasks = sweep.outstanding(plans, root, MACHINE, 2017, *options)
    for _, group in itertools.groupby(tasks, key=lambda task: task.round):
        watched = [task.sentinel for task in group]
        assert watched[0]
        assert watched[-1]
        assert not all(watched)
    return tasks


# Reading a profile


def test_a_sweep_is_every_combination_of_its_lists():
    made = plan(vocabulary=[10, 20], optimizer=["adam", "sgd"], batch=3)
    assert {(p.vocabulary, p.optimizer, p.batch) for p in made.points} == set(
        itertools.product([10, 20], ["adam", "sgd"], [3])
    )
    assert [stack.name for stack in made.stacks] == ["numpy", "2026-jax"]


def test_a_sweep_that_says_little_has_the_usual_rounds_stacks_and_protocol():
    made = sweep.Plan.from_profile("short", {"vocabulary": 10})
    assert (made.rounds, made.protocol, made.beyond_memory) == (3, Protocol(), False)
    assert [stack.name for stack in made.stacks] == list(stacks.ALL)


def test_a_sweep_may_have_its_own_protocol():
    assert plan(protocol={"steps": 7}).protocol == Protocol(steps=7)


@pytest.mark.parametrize("value", [0, -1, "many", 1.5])
@pytest.mark.parametrize("field", ["vocabulary", "batch"])
def test_a_bad_size_is_refused_with_field_value_and_remedy(field, value):
    with pytest.raises(InputError) as caught:
        plan(**{field: [10, value]})
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.remedy == "Give a whole number of 1 or more."


@pytest.mark.parametrize("value", [0, -1, "many", 1.5])
def test_a_bad_number_of_rounds_is_refused(value):
    with pytest.raises(InputError, match=r"^rounds: .*whole number of 1 or more"):
        plan(rounds=value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stacks": ["numpy", "2016-theano"]}, "stack: '2016-theano' is not a known stack. Choose one of: .*numpy"),
        ({"workload": "cnn"}, "workload: 'cnn' is not a known workload. Choose one of: rnn"),
        ({"vocabluary": 5}, "'vocabluary' is not a known field.*Choose one of: .*vocabulary"),
        ({"protocol": {"stepz": 5}}, "stepz"),
        ({"protocol": {"steps": 0}}, "steps"),
    ],
)
def test_an_unknown_name_or_value_is_refused(changes, words):
    with pytest.raises(InputError, match=words):
        plan(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimizer": ["adam", "adam-rows"]}, "optimizer: 'adam-rows' is nothing that 2026-jax can do. .*numpy"),
        ({"words": 5, "mask": [False, True]}, "mask: True is nothing that numpy can do. Take a Keras stack"),
        ({"device": ["cpu", "gpu"]}, "device: 'gpu' is nothing that numpy can do. Take a stack of 2026"),
        ({"words": [5, 26]}, "words: 26 is more than the length 25"),
    ],
)
def test_what_a_stack_of_the_sweep_cannot_do_is_refused(changes, words):
    with pytest.raises(InputError, match=words):
        plan(**changes)


def test_a_sweep_on_the_stacks_that_can_is_taken():
    assert len(plan(stacks=["numpy"], optimizer="adam-rows").points) == 3
    assert len(plan(stacks=["2026-jax", "2017-theano"], words=5, mask=[False, True]).points) == 6


@pytest.mark.parametrize("field", ["stacks", "vocabulary"])
def test_an_empty_list_is_refused(field):
    with pytest.raises(InputError, match=field):
        plan(**{field: []})


@pytest.fixture
def profile(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "PROFILES", tmp_path)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"sweeps": {"one": SMALL, "two": SMALL | {"rounds": 5}}}))
    (tmp_path / "bare.yaml").write_text("chapters: {}\n")
    return "mine"


def test_an_unknown_profile_is_refused_and_the_known_ones_are_named(profile):
    with pytest.raises(InputError, match=r"profile: 'yours' is not a known profile. Choose one of: bare, mine"):
        sweep.plans("yours")


def test_an_unknown_sweep_is_refused_and_the_known_ones_are_named(profile):
    with pytest.raises(InputError, match=r"sweep: 'three' is not a known sweep. Choose one of: one, two"):
        sweep.plans(profile, only=["one", "three"])


def test_all_sweeps_of_a_profile_or_only_the_named_ones(profile):
    assert [(p.name, p.rounds) for p in sweep.plans(profile)] == [("one", 2), ("two", 5)]
    assert [p.name for p in sweep.plans(profile, only=["two"])] == ["two"]
    assert sweep.plans("bare") == []


@pytest.mark.parametrize("path", sorted(paths.PROFILES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_profile_of_the_book_can_be_read(path):
    for made in sweep.plans(path.stem):
        assert made.points
        assert made.stacks
        assert len(sweep.round_order([made], 1, seed=1)) >= 2


# The order of a round


@given(st.integers(1, 60), st.integers(0, 2**32), st.integers(1, 3))
def test_a_round_has_every_point_once(points, seed, number):
    made = plan(vocabulary=list(range(1, points + 1)), rounds=3)
    order = sweep.round_order([made], number, seed)
    expected = Counter({(stack.name, point.key, number): 1 for stack in made.stacks for point in made.points})
    assert counted(order) == expected
    assert not any(task.sentinel for task in order)


@given(st.integers(1, 150), st.integers(1, 3))
def test_the_sentinel_is_first_last_and_in_between(length, number):
    order = sweep.round_order([plan(vocabulary=list(range(1, 76)), rounds=3)], number, seed=7)[:length]
    watched = sweep.with_sentinel(order, sweep.SENTINEL)
    assert [task for task in watched if not task.sentinel] == order, "nothing lost, doubled or moved"
    places = [place for place, task in enumerate(watched) if task.sentinel]
    assert places[0] == 0
    assert places[-1] == len(watched) - 1
    assert len(places) >= min(3, length + 1), "start, middle and end"
    gaps = [after - before - 1 for before, after in itertools.pairwise(places)]
    assert min(gaps) >= 1
    assert max(gaps) <= 2 * sweep.SENTINEL_EVERY
    assert {task.round for task in watched} == {number}
    sentinel = {(task.sweep, task.point, task.stack, task.protocol) for task in watched if task.sentinel}
    assert sentinel == {(store.SENTINEL, *sweep.SENTINEL, Protocol())}


def test_nothing_to_do_needs_no_sentinel():
    assert sweep.with_sentinel([], sweep.SENTINEL) == []


def test_the_order_is_the_seeds_and_not_the_profiles():
    made = plan(vocabulary=list(range(1, 21)))
    turned = plan(vocabulary=list(range(20, 0, -1)))
    assert sweep.round_order([made], 1, seed=7) == sweep.round_order([turned], 1, seed=7)
    assert sweep.round_order([made], 1, seed=7) != sweep.round_order([made], 1, seed=8)


def test_each_round_has_an_order_of_its_own():
    made = plan(vocabulary=list(range(1, 21)))
    one, two = ([task.point.key for task in sweep.round_order([made], number, seed=7)] for number in (1, 2))
    assert Counter(one) == Counter(two)
    assert one != two


def test_the_order_is_not_sorted():
    made = plan(vocabulary=list(range(1, 21)), stacks=["numpy"])
    keys = [task.point.key for task in sweep.round_order([made], 1, seed=7)]
    assert keys != sorted(keys)
    assert [int(key.split("-")[1][1:]) for key in keys] != list(range(1, 21))


def test_a_point_of_two_sweeps_is_one_task():
    plans = [plan("one"), plan("two", vocabulary=[30, 40])]
    order = sweep.round_order(plans, 1, seed=7)
    shared = [task for task in order if task.point.vocabulary == 30]
    assert len(order) == 2 * 4
    assert sorted(task.stack.name for task in shared) == ["2026-jax", "numpy"]
    assert {task.sweep for task in shared} == {"one"}


def test_a_sweep_with_more_rounds_goes_on_alone():
    plans = [plan("short", rounds=1), plan("long", vocabulary=[40], rounds=3)]
    assert {task.sweep for task in sweep.round_order(plans, 3, seed=7)} == {"long"}


# What is left to do


def test_everything_is_outstanding_at_first_and_nothing_at_the_end(root, fake_measure):
    tasks = left([plan()], root)
    assert counted(tasks) == planned([plan()])
    progress = run([plan()], root, fake_measure())
    assert progress.finished == progress.total == len(tasks)
    assert stored(root) == planned([plan()])
    assert stored(root, sentinel=True) == counted(tasks, sentinel=True)
    assert left([plan()], root) == []


def test_a_finished_sweep_measures_no_further_sentinel(root, fake_measure):
    run([plan()], root, fake_measure())
    measure = fake_measure()
    assert run([plan()], root, measure).total == 0
    assert measure.calls == []


def test_more_rounds_add_only_what_is_new(root, fake_measure):
    run([plan(rounds=1)], root, fake_measure())
    more = left([plan(rounds=3)], root)
    assert counted(more) == planned([plan(rounds=3)]) - planned([plan(rounds=1)])
    assert {task.round for task in more} == {2, 3}, "a round that is done gets no further sentinel"
    measure = fake_measure()
    run([plan(rounds=3)], root, measure)
    assert [(name, key) for name, key, _ in measure.calls] == [(task.stack.name, task.point.key) for task in more]
    assert stored(root) == planned([plan(rounds=3)])


def test_another_machines_results_do_not_count(root, fake_measure):
    sweep.run([plan()], root, measure=fake_measure(), machine_key="another-machine")
    assert counted(left([plan()], root)) == planned([plan()])


@pytest.mark.parametrize("status", ["oom", "timeout", "crashed"])
def test_a_failed_invocation_is_not_repeated_for_its_result(root, fake_measure, status):
    run([plan()], root, fake_measure(status=status))
    assert stored(root) == planned([plan()])
    assert left([plan()], root) == []


def test_a_missing_stack_is_left_out_and_made_up_for_later(root, fake_measure, missing):
    missing.add("2026-jax")
    first = fake_measure()
    run([plan()], root, first)
    assert {name for name, _, _ in first.calls} == {"numpy", "2026-tensorflow"}
    assert not (root / MACHINE / "2026-jax").exists()
    missing.clear()
    run([plan()], root, fake_measure())
    assert stored(root) == planned([plan()])


def test_a_stack_that_is_added_later_gets_sentinels_of_its_own(root, fake_measure, missing):
    missing.add("2026-jax")
    run([plan()], root, fake_measure())
    before = stored(root, sentinel=True)
    missing.clear()
    added = left([plan()], root)
    assert {task.stack.name for task in added if not task.sentinel} == {"2026-jax"}
    assert {task.round for task in added if task.sentinel} == {1, 2}
    measure = fake_measure()
    run([plan()], root, measure)
    assert [(name, key) for name, key, _ in measure.calls] == [(task.stack.name, task.point.key) for task in added]
    assert stored(root, sentinel=True) == before + counted(added, sentinel=True)


def test_a_missing_allocator_is_left_out_and_made_up_for_later(root, fake_measure, monkeypatch):
    made = plan(vocabulary=10, allocator=["glibc", "jemalloc"])
    monkeypatch.setattr(allocators, "present", lambda name: name == "glibc")
    first = fake_measure()
    run([made], root, first)
    assert len(first.calls) > 4
    assert not any("jemalloc" in key for _, key, _ in first.calls)
    assert left([made], root) == []
    monkeypatch.setattr(allocators, "present", lambda name: True)
    added = left([made], root)
    assert {task.point.allocator for task in added if not task.sentinel} == {"jemalloc"}
    run([made], root, fake_measure())
    assert stored(root) == planned([made])


def test_a_point_of_a_missing_allocator_need_not_fit_into_memory(root, fake_measure, monkeypatch):
    """What is not run is not refused either."""
    monkeypatch.setattr(allocators, "present", lambda name: name == "glibc")
    large = plan("large", vocabulary=900_000_000, allocator="jemalloc")
    run([plan(), large], root, fake_measure())
    assert stored(root) == planned([plan()])


def test_another_sentinel_may_be_named(root, fake_measure):
    sentinel = (make_point(vocabulary=7), stacks.get("numpy"))
    run([plan()], root, fake_measure(), sentinel=sentinel)
    assert {(stack, key) for stack, key, _ in stored(root, sentinel=True)} == {("numpy", sentinel[0].key)}
    assert stored(root) == planned([plan()])
    assert left([plan()], root, sentinel) == []


def test_a_point_that_is_the_sentinel_too_is_counted_apart(root, fake_measure):
    point, stack = sweep.SENTINEL
    shared = sweep.Plan("shared", [point], [stack], 2, Protocol())
    run([shared], root, fake_measure())
    assert stored(root) == Counter({(stack.name, point.key, 1): 1, (stack.name, point.key, 2): 1})
    assert stored(root, sentinel=True).total() == 4


def test_a_missing_sentinel_stops_nothing(root, fake_measure, missing):
    missing.add("2026-tensorflow")
    run([plan()], root, fake_measure())
    assert stored(root) == planned([plan()])
    assert not (root / MACHINE / store.SENTINEL).exists()


@pytest.mark.parametrize("kills", [[0], [1], [5], [9], [17], [3, 0, 4, 1], [8, 8], [2, 2, 2, 2, 2, 2]])
def test_a_killed_sweep_goes_on_where_it_was(root, fake_measure, kills):
    done = 0
    for number in kills:
        measure = fake_measure(interrupted_before=number)
        assert left([plan()], root)
        with pytest.raises(KeyboardInterrupt):
            run([plan()], root, measure)
        done += number
        assert stored(root).total() + stored(root, sentinel=True).total() == done
        assert set(stored(root).values()) <= {1}, "no round of a point twice"
    run([plan()], root, fake_measure())
    assert stored(root) == planned([plan()])
    assert left([plan()], root) == []
    counts = {}
    for path in store.files(root):
        rounds = [done.round for done in store.read(path).invocations]
        assert rounds == sorted(rounds)
        if path.parent.parent.name != store.SENTINEL:
            counts[path] = len(rounds)
    assert set(counts.values()) == {2}
    assert len(counts) == 6


def test_a_kill_while_storing_loses_at_most_that_invocation(root, fake_measure, monkeypatch):
    run([plan(rounds=1)], root, fake_measure())
    before = {path: path.read_text() for path in store.files(root)}
    with monkeypatch.context() as patch:
        patch.setattr(store.os, "replace", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run([plan()], root, fake_measure())
    assert {path: path.read_text() for path in store.files(root)} == before
    assert not list(root.rglob("*.part"))
    run([plan()], root, fake_measure())
    assert stored(root) == planned([plan()])


# Running


def test_each_invocation_keeps_its_sweep_round_and_seed(root, fake_measure):
    run([plan("mine")], root, fake_measure(), seed=99)
    records = [store.read(path) for path in store.files(root)]
    assert {(done.sweep, done.seed) for record in records for done in record.invocations} == {
        ("mine", 99),
        (store.SENTINEL, 99),
    }


def test_the_sweeps_own_protocol_is_used(root, fake_measure):
    measure = fake_measure()
    run([plan(protocol={"steps": 7})], root, measure)
    assert {protocol.steps for name, _, protocol in measure.calls if name == "numpy"} == {7}


def test_a_report_comes_before_and_after_each_invocation(root, fake_measure):
    seen = []

    def report(task, progress, record):
        seen.append((task.point.key, progress.finished, record and record["status"]))

    progress = run([plan(rounds=1)], root, fake_measure(), report=report)
    before, after = seen[::2], seen[1::2]
    assert [status for *_, status in before] == [None] * progress.total
    assert [status for *_, status in after] == ["ok"] * progress.total
    assert [finished for _, finished, _ in before] == list(range(progress.total))
    assert [key for key, *_ in before] == [key for key, *_ in after]


@pytest.fixture
def slow_measure(fake_measure, monkeypatch):
    """A stand-in for measure() that takes ten seconds by a clock of its own."""
    now = [1000.0]
    monkeypatch.setattr(sweep, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def make():
        inner = fake_measure()

        def measure(*args, **options):
            now[0] += 10
            return inner(*args, **options)

        measure.calls = inner.calls
        return measure

    return make


@pytest.mark.parametrize(("within_s", "started"), [(0, 0), (1, 1), (10, 1), (25, 3), (10_000, 18)])
def test_nothing_is_started_after_the_time_that_was_given(root, slow_measure, within_s, started):
    total = len(left([plan()], root))
    assert total == 18, "twelve, and in each of the two rounds three sentinels"
    measure = slow_measure()
    progress = run([plan()], root, measure, within_s=within_s)
    assert len(measure.calls) == progress.finished == started
    assert progress.total == total
    assert stored(root).total() + stored(root, sentinel=True).total() == started
    assert stored(root) + counted(left([plan()], root)) == planned([plan()]), "the rest is outstanding"
    assert run([plan()], root, slow_measure()).finished == len(left([plan()], root)) or not left([plan()], root)
    assert stored(root) == planned([plan()])


def test_without_a_limit_nothing_is_left(root, slow_measure):
    progress = run([plan()], root, slow_measure())
    assert progress.finished == progress.total == 18
    assert progress.seconds == [10.0] * 18


def test_the_time_that_is_left_follows_from_the_invocations_so_far():
    assert sweep.Progress(total=10).left_s is None
    assert sweep.Progress(total=10, finished=2, seconds=[1.0, 3.0]).left_s == 2.0 * 8


def test_the_machine_is_described_once(root, fake_measure, monkeypatch):
    measured = []
    monkeypatch.setattr(machine, "rates", lambda: measured.append(1) or {"bandwidth_bytes_per_s": 2.0})
    run([plan(rounds=1)], root, fake_measure())
    run([plan(rounds=2)], root, fake_measure())
    description = json.loads((root / MACHINE / "machine.json").read_text())
    assert len(measured) == 1
    assert (description["machine"], description["rates"]) == (MACHINE, {"bandwidth_bytes_per_s": 2.0})
    sweep.describe_machine(root, MACHINE, again=True)
    assert len(measured) == 2


# Refused before anything is started


def test_a_point_beyond_the_memory_is_refused_before_anything_is_started(root, fake_measure):
    measure = fake_measure()
    with pytest.raises(InputError, match=r"vocabulary: 900000000 needs about .*--beyond-memory"):
        run([plan(vocabulary=[10, 900_000_000])], root, measure)
    assert measure.calls == []
    assert stored(root) + stored(root, sentinel=True) == Counter()


def test_a_point_beyond_the_memory_is_tried_where_the_sweep_says_so(root, fake_measure):
    measure = fake_measure(status="oom")
    run([plan(vocabulary=[10, 900_000_000], beyond_memory=True)], root, measure)
    assert stored(root) == planned([plan(vocabulary=[10, 900_000_000])])


@pytest.mark.parametrize("described", [False, True])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_started(
    root, fake_measure, monkeypatch, described
):
    if described:
        sweep.describe_machine(root, MACHINE)

    def refused(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(store.tempfile, "mkstemp", refused)
    measure = fake_measure()
    with pytest.raises(InputError, match=r"^folder: .*cannot be written"):
        run([plan()], root, measure)
    assert measure.calls == []


def test_a_broken_file_is_named_before_anything_is_started(root, fake_measure):
    run([plan(rounds=1)], root, fake_measure())
    path = store.file_of(root, MACHINE, "numpy", plan().points[0].key)
    path.write_text("{")
    measure = fake_measure()
    with pytest.raises(InputError, match="is not whole JSON"):
        run([plan()], root, measure)
    assert measure.calls == []


def test_a_profile_may_have_a_sentinel_of_its_own():
    point, stack = sweep.sentinel_of("gpu")
    assert (point.device, point.cudnn, stack.name) == ("gpu", True, "2026-torch")
    assert sweep.sentinel_of("full") == sweep.SENTINEL
