"""Tables that are kept: what comes back is what was made, or it is made again."""

import pandas as pd
import pytest

from traintime import paths
from traintime.book import kept, stored
from traintime.book.stored import Measurements
from traintime.store.table import table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "TABLES", tmp_path / "tables")
    return paths.TABLES


@pytest.fixture
def make():
    """A maker of a small table that counts how often it was asked."""

    def made():
        made.times += 1
        return pd.DataFrame({"name": ["a", "b", None], "told": [True, None, False], "value": [1.5, float("nan"), 0.1]})

    made.times = 0
    return made


def test_a_table_is_made_once_for_a_key(folder, make):
    first = kept.table("one", "key", make)
    again = kept.table("one", "key", make)
    assert make.times == 1
    pd.testing.assert_frame_equal(first, again, check_exact=True)
    kept.table("one", "another key", make)
    assert make.times == 2
    assert len(list(folder.rglob("*"))) == 2, "the table, in its folder"


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-40]),
        lambda path: path.write_bytes(flipped(path.read_bytes())),
    ],
)
def test_a_damaged_table_is_made_again(folder, make, damage):
    first = kept.table("one", "key", make)
    damage(folder / "one" / "key.parquet")
    pd.testing.assert_frame_equal(kept.table("one", "key", make), first)
    assert make.times == 2


def flipped(content):
    """A bit of the first page turned round, as a bad disk does."""
    place = content.index(b"a", 4)
    return content[:place] + bytes([content[place] ^ 2]) + content[place + 1 :]


def test_where_nothing_can_be_kept_it_is_made_at_each_use(tmp_path, monkeypatch, make):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(paths, "TABLES", tmp_path / "file" / "tables")
    kept.table("one", "key", make)
    kept.table("one", "key", make)
    assert make.times == 2


def test_a_digest_is_of_contents_and_places(tmp_path):
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    both = kept.digest([tmp_path / "a", tmp_path / "b"])
    assert kept.digest([tmp_path / "b", tmp_path / "a"]) == both
    (tmp_path / "a").write_text("2")
    (tmp_path / "b").write_text("1")
    assert kept.digest([tmp_path / "a", tmp_path / "b"]) != both


def test_what_is_kept_of_a_machine_is_what_its_files_say(folder):
    """Of the one with fewest files; each value, and each missing one."""
    machine = min(stored.named(), key=lambda name: len(list((paths.MEASUREMENTS / name).rglob("*.json"))))
    stored.of.cache_clear()
    stored.of(machine)  # keeps them
    stored.of.cache_clear()
    kept_now = stored.of(machine)
    stored.of.cache_clear()
    direct = Measurements(kept._with_nan(table(paths.MEASUREMENTS, machine)), machine)
    pd.testing.assert_frame_equal(kept_now.rows, direct.rows, check_exact=True)
    pd.testing.assert_frame_equal(kept_now.every, direct.every, check_exact=True)
