"""What the bench of the store makes up is what sweeps write: nothing in it is wrong, and the table has each row."""

from traintime.measuring import bench_store, check
from traintime.store.table import table


def test_made_up_machines_are_as_good_as_measured_ones(tmp_path):
    bench_store.make(tmp_path, machines=2, configurations=3)
    assert list(check.findings(tmp_path, at_least=1)) == []
    rows = table(tmp_path)
    assert (len(rows), rows["machine"].nunique(), rows["key"].nunique()) == (6, 2, 3)


def test_a_task_is_timed_in_a_process_of_its_own(tmp_path):
    bench_store.make(tmp_path, machines=1, configurations=2)
    seconds, peak, found = bench_store.timed("table", tmp_path)
    assert (seconds > 0, peak > 2**20, found) == (True, True, 2)
