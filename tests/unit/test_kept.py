"""A hash of contents, and a file that is written where it differs."""

from traintime.book import kept


def test_a_digest_is_of_contents_and_places(tmp_path):
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    both = kept.digest([tmp_path / "a", tmp_path / "b"])
    assert kept.digest([tmp_path / "b", tmp_path / "a"]) == both
    (tmp_path / "a").write_text("2")
    (tmp_path / "b").write_text("1")
    assert kept.digest([tmp_path / "a", tmp_path / "b"]) != both


def test_a_file_is_written_where_it_differs(tmp_path):
    path = tmp_path / "one"
    kept.write_where_it_differs(path, "text")
    before = path.stat().st_mtime_ns
    kept.write_where_it_differs(path, "text")
    assert path.stat().st_mtime_ns == before
    kept.write_where_it_differs(path, "another")
    assert path.read_text() == "another"
