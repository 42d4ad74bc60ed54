"""Is my run normal? Real measurements, some of them under a false name, and some made slower by a known term."""

import functools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from traintime import cli, paths
from traintime.book import page
from traintime.book.stored import Measurements
from traintime.errors import InputError
from traintime.explain.terms import by_part
from traintime.predict import compare, prices
from traintime.store import records
from traintime.store.table import table

BOOKS = "amd-epyc-family26-model2-2-cores-24-gib"  # machine B, which TensorFlow uses oneDNN on
WITHOUT = "amd-epyc-2-cores-24-gib"  # machine A, which it does not


def folder(root: Path, rates: bool = True) -> Path:
    """A reader's folder, of a machine as fast as machine B, without a measurement yet."""
    mine = root / "mine"
    mine.mkdir()
    shutil.copy(paths.MEASUREMENTS / BOOKS / "machine.json", mine)
    if rates:
        shutil.copy(paths.MEASUREMENTS / BOOKS / "rates.json", mine)
    return root


def add(root: Path, path: Path, change=lambda record: None) -> None:
    """One of the book's files as the reader's own, changed."""
    record = json.loads(path.read_text()) | {"machine": "mine"}
    change(record)
    target = root / "mine" / record["stack"] / f"{record['key']}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(record))


def of_book(stack: str, pattern: str) -> list[Path]:
    found = sorted((paths.MEASUREMENTS / BOOKS / stack).glob(pattern))
    assert found
    return found


def reader(root: Path, stack: str, pattern: str, change=lambda record: None) -> Path:
    """A reader's folder with these files of the book, each changed."""
    folder(root)
    for path in of_book(stack, pattern):
        add(root, path, change)
    return root


def without_onednn(record: dict) -> None:
    """As if it had been the usual way of running it."""
    record["point"]["run"]["onednn"] = "auto"
    record["key"] = record["key"].replace("-no-onednn", "")


def times(factor):
    """Every step so many times as long; factor: of a record."""

    def change(record: dict) -> None:
        for one in record["invocations"]:
            if timing := (one.get("result") or {}).get("timing"):
                timing["steps_ns"] = [round(ns * factor(record)) for ns in timing["steps_ns"]]

    return change


def one(found: list[compare.Placed], stack: str) -> compare.Placed:
    return next(each for each in found if each.stack == stack)


def test_a_machine_like_one_of_the_books_is_normal(tmp_path):
    root = folder(tmp_path)
    for stack in ("2026-jax", "2017-theano"):
        for path in of_book(stack, "rnn-*adam.json"):
            add(root, path)
    found = compare.compare(root)
    assert [each.verdict for each in found] == ["normal", "normal"]
    assert compare.status(found) == 0
    assert all(each.why == () for each in found)


def test_tensorflow_without_onednn_is_found_by_its_pages(tmp_path):
    root = reader(tmp_path, "2026-tensorflow", "*-no-onednn.json", without_onednn)
    placed = one(compare.compare(root), "2026-tensorflow")
    assert placed.off == "slower"
    assert placed.parts == (("mapping",),)
    told = " ".join(placed.why)
    assert "pages a step are mapped beyond the usual" in told
    assert "its code path is another: no oneDNN" in told
    assert compare.status([placed]) == 1


def test_the_books_own_machine_without_onednn_stands_out_among_its_stacks():
    found = compare.compare(paths.MEASUREMENTS, WITHOUT)
    assert {each.stack for each in found if each.off} == {"2026-tensorflow"}
    placed = one(found, "2026-tensorflow")
    assert placed.off == "slower"
    assert any("mapping" in names for names in placed.parts)
    assert "machine A" not in placed.book  # it is not held against itself


@pytest.mark.parametrize("part", ["update", "activations"])
def test_a_part_that_costs_four_times_as_much_is_named(tmp_path, part):
    rates = prices.own_rates(BOOKS)

    @functools.cache
    def of_point(stack: str, key: str) -> float:
        work = records.read(paths.MEASUREMENTS / BOOKS / stack / f"{key}.json").point.work
        parts = by_part(prices.of_rates("it", rates, stack).parts(work))
        return 1 + 3 * parts[part] / sum(parts.values())

    def factor(record: dict) -> float:
        return of_point(record["stack"], record["key"])

    root = reader(tmp_path, "2017-theano", "rnn-*.json", times(factor))
    placed = one(compare.compare(root), "2017-theano")
    assert placed.off == "slower"
    assert (part,) in placed.parts
    assert len(placed.parts) <= compare.MOST


def test_a_processor_that_is_slower_at_everything_is_told_as_such(tmp_path):
    root = reader(tmp_path, "2017-theano", "rnn-*.json", times(lambda _: 3.0))
    placed = one(compare.compare(root), "2017-theano")
    assert placed.parts == (("all",),)
    assert placed.times.value == pytest.approx(3.0, rel=0.1)


def test_one_point_cannot_tell_which_term_it_is(tmp_path):
    root = folder(tmp_path)
    add(root, of_book("2017-theano", "rnn-v80000-e300-u128-l25-b100-adam.json")[0], times(lambda _: 4.0))
    placed = one(compare.compare(root), "2017-theano")
    assert placed.off == "slower"
    assert "do not show which part" in placed.why[0]


def test_what_ran_beside_it_is_told_before_any_term(tmp_path):
    def disturbed(record: dict) -> None:
        times(lambda _: 4.0)(record)
        for each in record["invocations"]:
            if each.get("result"):
                each["result"]["evidence"]["others_cpu_s"] = 2 * (each["result"]["evidence"].get("seconds") or 1)

    root = reader(tmp_path, "2017-theano", "rnn-v*-l25-b100-adam.json", disturbed)
    placed = one(compare.compare(root), "2017-theano")
    assert placed.parts == (("others",),)
    assert "when the machine is left alone" in placed.why[0]


def test_points_that_no_machine_of_the_book_has_are_held_against_the_formula(tmp_path):
    def of_another_size(record: dict) -> None:
        record["point"]["sizes"]["units"] = 96
        record["key"] = record["key"].replace("-u128-", "-u96-")

    root = reader(tmp_path, "2026-jax", "rnn-v*-l25-b100-adam.json", of_another_size)
    placed = one(compare.compare(root), "2026-jax")
    assert placed.points > 2
    assert placed.book == {}
    assert "against the formula alone" in placed.why[-1]
    assert placed.times.high > 1.6  # the formula alone is less sure


def test_a_graphics_card_has_nothing_to_be_compared_with(tmp_path):
    root = folder(tmp_path)

    def on_a_card(record: dict) -> None:
        record["point"]["run"]["device"] = "gpu"
        record["key"] += "-gpu"

    add(root, of_book("2026-jax", "rnn-v80000-e300-u128-l25-b100-adam.json")[0], on_a_card)
    found = compare.compare(root)
    assert found[0].verdict == "nothing to compare with"
    assert compare.status(found) == 3


def test_a_colab_runtimes_packages_are_held_against_the_locked_ones(tmp_path):
    root = reader(tmp_path, "2026-jax", "rnn-v*-l25-b100-adam.json", lambda record: record.update(stack="colab-jax"))
    (placed,) = compare.compare(root)
    assert (placed.stack, placed.verdict) == ("colab-jax", "normal")


@pytest.mark.parametrize("what", ["folder", "empty", "machine", "rates", "nothing"])
def test_bad_input_is_named(tmp_path, what):
    root, machine = tmp_path / "nowhere", None
    if what == "empty":
        root = tmp_path
    elif what == "machine":
        root, machine = folder(tmp_path), "yours"
    elif what == "rates":
        root = folder(tmp_path, rates=False)
        described = json.loads((root / "mine" / "machine.json").read_text())
        described.pop("rates")
        (root / "mine" / "machine.json").write_text(json.dumps(described))
        add(root, of_book("2026-jax", "rnn-v80000-e300-u128-l25-b100-adam.json")[0])
    elif what == "nothing":
        root = folder(tmp_path)
    said = {
        "folder": "folder: .*nowhere' does not exist",
        "empty": "holds no machine's measurements",
        "machine": "machine: 'yours'",
        "rates": "has no rates of its own",
        "nothing": "has no run that ended well",
    }[what]
    with pytest.raises(InputError, match=said):
        compare.compare(root, machine)


def test_the_command_answers_by_its_exit_status(tmp_path, monkeypatch, capsys):
    root = reader(tmp_path, "2026-tensorflow", "*-adam-no-onednn.json", without_onednn)

    def status(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["traintime", "compare", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code

    assert status(str(root)) == 1
    assert "slower than normal" in " ".join(capsys.readouterr().out.split())
    assert status(str(root), "--json") == 1
    (told,) = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "slower than normal"
    assert told["parts"] == [["mapping"]]
    assert status(str(tmp_path / "nowhere")) == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_page_says_whether_its_run_is_normal(tmp_path):
    root = reader(tmp_path, "2026-tensorflow", "*-no-onednn.json", without_onednn)
    html = page.normal(Measurements(table(root), root=root)).data
    assert "Is this run normal?" in html
    assert "slower than normal" in html
    assert "no oneDNN" in html
    empty = Measurements(table(root).iloc[:0], root=root)
    assert "Not measured yet" in page.normal(empty).data


def test_more_points_make_normal_narrower():
    reaches = [compare._reach(number, 1) for number in (1, 4, 16)]
    assert np.all(np.diff(reaches) < 0)
