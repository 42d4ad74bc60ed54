"""Measurements as chapters ask for them: chosen by every field, never pooled unseen, compared only side by side."""

import numpy as np
import pytest

from traintime import paths
from traintime.book import stored
from traintime.book.stored import ANY, Measurements
from traintime.errors import InputError
from traintime.point import make_point
from traintime.store.records import append, file_of
from traintime.store.table import table


@pytest.fixture
def folder(tmp_path, invocation, monkeypatch):
    """Write invocations of made-up points; step times in ms, spread by a fixed generator."""
    monkeypatch.setattr(paths, "MEASUREMENTS", tmp_path)
    random = np.random.default_rng(1)

    def write(machine, stack, ms, rounds=3, sweep="vocabulary", error=0.02, status="ok", code="0123456789ab", **fields):
        point = make_point(**fields)
        for number in range(1, rounds + 1):
            made = invocation(status, sweep=sweep, round=number, code=code)
            if status == "ok":
                steps = (ms * 1e6 * np.exp(error * random.standard_normal()) * np.ones(5)).astype(int).tolist()
                made["result"]["timing"]["steps_ns"] = steps
            append(file_of(tmp_path, machine, stack, point.key), machine, stack, point, made)
        return tmp_path

    return write


def of(folder, machine="m"):
    return Measurements(table(folder, machine), machine)


def test_what_is_not_asked_for_has_its_usual_value(folder):
    root = folder("m", "numpy", 10)
    for unusual in ({"dropout": 0.1}, {"units": 64}, {"frozen": True}, {"allocator": "tcmalloc"}, {"threads": 1}):
        folder("m", "numpy", 20, **unusual)
    assert of(root).points()["step_s"].tolist() == pytest.approx([0.010], rel=0.1)
    assert len(of(root).points(frozen=[False, True])) == 2
    assert len(of(root).points(dropout=ANY)) == 2


def test_a_field_that_nobody_has_is_refused(folder):
    root = folder("m", "numpy", 10)
    with pytest.raises(InputError, match="vocabulry"):
        of(root).points(vocabulry=3)
    with pytest.raises(KeyError, match=r"'stack': 'numpy', 'vocabulary': 3.*was not measured"):
        of(root).sides({}, {"vocabulary": 3}, stack="numpy")


def test_other_sources_are_another_point_and_the_fuller_one_is_shown_with_its_values_alone(folder):
    root = folder("m", "numpy", 10, rounds=3, code="aaaaaaaaaaaa")
    folder("m", "numpy", 30, rounds=5, code="bbbbbbbbbbbb")
    m = of(root)
    (row,) = m.points().itertuples()
    assert row.invocations == 5
    assert row.step_s == pytest.approx(0.030, rel=0.1)
    (values,) = m.values(m.points())
    assert len(values) == 5
    assert values.min() > 0.02


@pytest.mark.parametrize(
    ("times", "rounds", "sweep", "told"),
    [
        (2, 5, "vocabulary", ("2017-theano", "significant", "vocabulary", 5)),
        (2, 7, "vocabulary", ("2017-theano", "significant", "vocabulary", 5)),  # the rounds that measured both sides
        (9, 5, "allocator", (None, "not interleaved", "", 5)),  # however far apart
    ],
)
def test_a_difference_is_told_apart_in_the_same_rounds_of_the_same_sweep(folder, times, rounds, sweep, told):
    root = folder("m", "2017-theano", 10, rounds=5)
    folder("m", "2017-tensorflow", 10 * times, rounds=rounds, sweep=sweep)
    m = of(root)
    (row,) = m.ratios(m.invocations(), [("2017-tensorflow", "2017-theano")]).itertuples()
    assert row.ratio == pytest.approx(times, rel=0.1)
    assert (row.faster, row.reason, row.sweep, row.number) == told
    if row.faster:
        assert row.low < times < row.high


def test_fields_that_are_none_do_not_break_a_pair_and_other_sizes_make_no_false_one(folder):
    """`words` and `sentences` are None here: a join that drops such columns once paired what differs."""
    root = folder("m", "numpy", 10, words=5, length=5)
    folder("m", "numpy", 20, words=3, length=5, allocator="tcmalloc")
    folder("m", "numpy", 12, words=5, length=5, allocator="tcmalloc")
    m = of(root)
    found = m.ratios(
        m.invocations(words=ANY, length=5, allocator=ANY), [("glibc", "tcmalloc")], of="allocator", against="length"
    )
    assert len(found) == 1
    assert found["ratio"].iloc[0] == pytest.approx(10 / 12, rel=0.1)


def test_an_exponent_has_an_interval_and_a_single_run_has_none(folder):
    for length in (10, 100):
        root = folder("m", "numpy", length, length=length)
        folder("m", "2026-jax", length, length=length, rounds=1)
    m = of(root)
    found = m.exponents(m.points(length=ANY), "length").set_index("stack")
    assert found.loc["numpy", "exponent"] == pytest.approx(1, abs=0.05)
    assert found.loc["numpy", "low"] < 1 < found.loc["numpy", "high"]
    assert np.isnan(found.loc["2026-jax", "low"])


def test_lines_have_errors_of_their_own_but_share_what_their_sweep_shifts(folder):
    for rows in (1000, 10_000, 100_000, 200_000):
        root = folder("m", "numpy", 1 + rows / 1000, vocabulary=rows)
        folder("m", "2026-jax", 1 + rows / 1000, vocabulary=rows)
    m = of(root)
    lines = m.lines(m.points(vocabulary=ANY))
    one, two = lines["numpy", "adam"], lines["2026-jax", "adam"]
    assert one.coefficients["b"] == pytest.approx(1e-6, rel=0.1)
    prices = np.log([one.draws["b"], two.draws["b"]])
    assert np.corrcoef(prices)[0, 1] > 0.9  # the sweep's offset is larger than the error of a run
    assert 0.005 < (prices[0] - prices[1]).std() < 0.03


# The machines of the book


def test_a_machine_that_nobody_measured_is_refused_and_the_others_are_named(folder):
    folder("m", "numpy", 10)
    with pytest.raises(InputError, match=r"^machine: 'n' is not a known machine. Choose one of: m\.$"):
        stored.of("n")


def test_the_reference_is_pinned_and_comes_first():
    assert stored.reference() == "amd-epyc-family26-model2-2-cores-24-gib"
    assert (paths.MEASUREMENTS / stored.reference() / "machine.json").exists()
    assert all((paths.MEASUREMENTS / machine).is_dir() for machine in stored.listed())


def test_a_folder_that_nobody_listed_changes_no_page(tmp_path, monkeypatch):
    """A contributor's, however full: nothing looks into it."""
    known = stored.named()
    books = {name: stored.of(name) for name in ("", *known)}
    for path in paths.MEASUREMENTS.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "somebody-elses-64-cores-512-gib").symlink_to(tmp_path / stored.reference())
    monkeypatch.setattr(paths, "MEASUREMENTS", tmp_path)
    monkeypatch.setattr(stored, "of", lambda name="": books[name])
    stored.first()
    stored.having(books[""], lambda book: [])
    assert stored.named.__wrapped__() == known


def test_sweeps_of_the_code_that_measured_last_are_pooled_and_older_code_is_history(folder):
    for stack, ms, before in (("2017-theano", 10, 50), ("2017-tensorflow", 20, 500)):
        folder("m", stack, before, rounds=4, code=None)
        folder("m", stack, ms, rounds=1)
        root = folder("m", stack, ms, rounds=2, sweep="both")
    m = of(root)
    (row,) = m.ratios(m.invocations(), [("2017-tensorflow", "2017-theano")]).itertuples()
    assert (row.number, row.sweep, row.ratio) == (3, "both, vocabulary", pytest.approx(2, rel=0.1))
