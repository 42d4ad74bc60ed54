"""Is my run normal? Real measurements, some of them under a false name, and some made slower."""

import json
import shutil
from pathlib import Path

import pytest

from traintime import cli, paths
from traintime.book import page
from traintime.book.stored import Measurements
from traintime.errors import InputError
from traintime.predict import compare
from traintime.store.table import table

BOOKS = "amd-epyc-family26-model2-2-cores-24-gib"  # machine B, which TensorFlow uses oneDNN on


def folder(root: Path) -> Path:
    """A reader's folder, of a machine as fast as machine B, without a measurement yet."""
    mine = root / "mine"
    mine.mkdir(exist_ok=True)
    for name in ("machine.json", "rates.json"):
        shutil.copy(paths.MEASUREMENTS / BOOKS / name, mine)
    return root


def reader(root: Path, stack: str, pattern: str, change=lambda record: None) -> Path:
    """A reader's folder with these files of the book as their own, each changed."""
    folder(root)
    for path in sorted((paths.MEASUREMENTS / BOOKS / stack).glob(pattern)):
        record = json.loads(path.read_text()) | {"machine": "mine"}
        change(record)
        target = root / "mine" / record["stack"] / f"{record['key']}.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(record))
    return root


def without_onednn(record: dict) -> None:
    """As if it had been the usual way of running it."""
    record["point"]["run"]["onednn"] = "auto"
    record["key"] = record["key"].replace("-no-onednn", "")


def times(factor: float):
    """Every step so many times as long, while somebody else used two processors."""

    def change(record: dict) -> None:
        for result in filter(None, (one.get("result") for one in record["invocations"])):
            result["timing"]["steps_ns"] = [round(ns * factor) for ns in result["timing"]["steps_ns"]]
            result["evidence"]["others_cpu_s"] = 2 * (result["evidence"].get("seconds") or 1)

    return change


def test_a_machine_like_one_of_the_books_is_normal(tmp_path):
    for stack in ("2026-jax", "2017-theano"):
        root = reader(tmp_path, stack, "rnn-*adam.json")
    found = compare.compare(root)
    assert [each.verdict for each in found] == ["normal", "normal"]
    assert compare.status(found) == 0
    assert all(each.notes == () for each in found)


def test_a_slower_machine_is_told_how_much_and_who_else_was_busy(tmp_path):
    root = reader(tmp_path, "2017-theano", "rnn-v*-l25-b100-adam.json", times(3.0))
    (placed,) = compare.compare(root)
    assert (placed.off, placed.at) == ("slower", placed.points)
    assert placed.times.value == pytest.approx(3.0, rel=0.1)
    assert 2 * placed.disturbed > placed.runs
    assert "when the machine is left alone" in placed.notes[-1]


def test_points_that_no_machine_of_the_book_has_are_held_against_the_formula(tmp_path):
    def of_another_size(record: dict) -> None:
        record["point"]["sizes"]["units"] = 96
        record["key"] = record["key"].replace("-u128-", "-u96-")

    root = reader(tmp_path, "2026-jax", "rnn-v*-l25-b100-adam.json", of_another_size)
    (placed,) = compare.compare(root)
    assert placed.points > 2
    assert placed.book == {}
    assert "against the formula alone" in placed.notes[-1]
    assert placed.times.high > 1.6  # the formula alone is less sure


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("folder", "folder: .*nowhere' does not exist"),
        ("empty", "holds no machine's measurements"),
        ("machine", "machine: 'yours'"),
        ("rates", "has no rates of its own"),
        ("nothing", "has no run that ended well"),
    ],
)
def test_bad_input_is_named(tmp_path, what, said):
    if what in ("machine", "nothing"):
        folder(tmp_path)
    if what == "rates":
        reader(tmp_path, "2026-jax", "rnn-v80000-e300-u128-l25-b100-adam.json")
        described = json.loads((tmp_path / "mine" / "machine.json").read_text())
        del described["rates"]
        (tmp_path / "mine" / "machine.json").write_text(json.dumps(described))
        (tmp_path / "mine" / "rates.json").unlink()
    with pytest.raises(InputError, match=said):
        compare.compare(tmp_path / "nowhere" if what == "folder" else tmp_path, "yours" if what == "machine" else None)


def test_the_command_answers_by_its_exit_status(tmp_path, monkeypatch, capsys):
    root = reader(tmp_path, "2026-tensorflow", "*-adam-no-onednn.json", without_onednn)

    def status(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["traintime", "compare", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code

    assert status(str(root)) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert all(said in shown for said in ("slower than normal", compare.MAPPED, "its code path is another: no oneDNN"))
    assert status(str(root), "--json") == 1
    (told,) = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "slower than normal"
    assert told["why"] == told["notes"] != []
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
