"""The machine's description, its key and the arithmetic of its rates."""

import getpass
import itertools
import json
import re
import socket
from types import SimpleNamespace
from unittest import mock

import pytest

from traintime.measuring import machine

GIB = 2**30
T4 = {"name": "Tesla T4", "memory_mib": 15360, "driver": "550.54"}


@pytest.mark.parametrize(
    ("cpu", "changes", "expected"),
    [
        ("AMD EPYC", {"family": None, "model": None}, "amd-epyc-2-cores-24-gib"),
        ("AMD EPYC", {"family": 26, "model": 2}, "amd-epyc-family26-model2-2-cores-24-gib"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", {"gpus": [T4, T4]}, "intel-xeon-2-cores-24-gib-tesla-t4"),
        ("Intel Xeon", {"memory_bytes": int(12.67 * GIB)}, "intel-xeon-2-cores-13-gib"),
        ("AMD Ryzen 9 16-Core Processor", {"cores": 32}, "amd-ryzen-9-16-core-32-cores-24-gib"),
    ],
)
def test_the_key_is_a_readable_name(cpu, changes, expected):
    assert machine.key({"cpu": cpu, "cores": 2, "memory_bytes": 24 * GIB, "gpus": []} | changes) == expected


def test_a_processor_of_another_stepping_has_a_key_of_its_own(monkeypatch, tmp_path):
    """This machine is of stepping 1; another one, in the folder or in the book, has its key, with what is changed."""
    described = {"cpu": "Intel Xeon", "family": 6, "model": 167, "cores": 2, "memory_bytes": 24 * GIB, "gpus": []}
    described |= {"stepping": 1, "instruction_sets": ["avx2", "amx_tile"]}
    monkeypatch.setattr(machine, "describe", lambda: described)
    monkeypatch.setattr(machine.paths, "MEASUREMENTS", tmp_path / "book")
    key = "intel-xeon-family6-model167-2-cores-24-gib"
    assert machine.this(tmp_path) == key
    for folder, (changes, expected) in itertools.product(
        (tmp_path, tmp_path / "book"),
        (
            ({"stepping": 8}, f"{key}-stepping1"),
            ({"instruction_sets": ["avx2"]}, f"{key}-stepping1"),
            ({"stepping": None, "instruction_sets": None}, key),  # what an older description does not tell
            ({}, key),
        ),
    ):
        (folder / key).mkdir(parents=True, exist_ok=True)
        (folder / key / "machine.json").write_text(json.dumps(described | changes))
        assert machine.this(tmp_path) == expected


CPUINFO = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC
stepping\t: 1
flags\t\t: fpu avx2 avx512f avx512_vnni fma sse2

processor\t: 1
vendor_id\t: SomebodyElse
"""
SETS = ["avx2", "fma", "avx512f", "avx512_vnni"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CPUINFO, {"cpu": "AMD EPYC", "vendor": "AuthenticAMD", "family": 26, "stepping": 1, "instruction_sets": SETS}),
        ("Hardware : some board\n", {"vendor": None, "family": None, "stepping": None, "instruction_sets": []}),
    ],
)
def test_a_processor_is_told_by_its_numbers_and_what_decides_a_code_path(monkeypatch, text, expected):
    monkeypatch.setattr(machine, "Path", lambda path: SimpleNamespace(read_text=lambda: text))
    monkeypatch.setattr(machine, "caches", dict)
    seen = machine.processor()
    assert {name: seen[name] for name in expected} == expected
    assert seen["cpu"], "there is always a name"


def test_the_description_has_no_host_or_user_name():
    described = json.dumps(machine.describe())
    for name in {socket.gethostname(), socket.gethostname().split(".")[0], getpass.getuser()}:
        assert not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", described)


def test_gpus_are_read_from_the_drivers_list_and_none_without_a_driver(monkeypatch):
    listing = "Tesla T4, 15360, 550.54\nNVIDIA GB10, [N/A], 580.95\n"
    monkeypatch.setattr(machine.subprocess, "run", lambda *args, **kwargs: SimpleNamespace(stdout=listing))
    assert machine.gpus() == [T4, {"name": "NVIDIA GB10", "memory_mib": None, "driver": "580.95"}]
    assert machine.free_memory("gpu") == 15 * GIB
    monkeypatch.setattr(machine.subprocess, "run", mock.Mock(side_effect=FileNotFoundError))
    assert machine.gpus() == []


def test_rates_count_each_byte_read_and_written_and_each_multiplication_and_addition_and_are_medians(monkeypatch):
    """By a clock by which everything takes two seconds."""
    monkeypatch.setattr(machine.time, "perf_counter", itertools.count(step=2).__next__)
    assert machine.bandwidth(threads=2, mib=1, repeats=3) == [2 * 2**20 / 2] * 3
    assert machine.matmul_rate(threads=1, size=8, repeats=2) == [2 * 8**3 / 2] * 2
    monkeypatch.setattr(machine, "bandwidth", lambda threads: [1.0, 50.0, 2.0])
    monkeypatch.setattr(machine, "matmul_rate", lambda threads: [9.0, 7.0, 8.0])
    rates = machine.rates()
    assert (rates["bandwidth_bytes_per_s"], rates["bandwidth_repeats"]) == (2.0, [1.0, 50.0, 2.0])
    assert (rates["matmul_flop_per_s"], rates["matmul_repeats"]) == (8.0, [9.0, 7.0, 8.0])


def rates(bandwidth, matmul=200.0):
    return {"bandwidth_bytes_per_s": bandwidth, "matmul_flop_per_s": matmul}


@pytest.mark.parametrize(
    ("now", "names"),
    [
        (rates(86), []),
        (rates(137), []),  # the range is 100 to 120
        (rates(84), ["bandwidth_bytes_per_s"]),
        (rates(139), ["bandwidth_bytes_per_s"]),
        (rates(10, 1000), ["bandwidth_bytes_per_s", "matmul_flop_per_s"]),
    ],
)
def test_a_rate_is_off_when_it_leaves_the_machines_own_range_by_more_than_15_percent(now, names):
    before = [rates(100), rates(120), rates(110), rates(300)]  # the last was off itself
    said = machine.off(now, before)
    assert [sentence.split()[0] for sentence in said] == names
    assert machine.off(now, []) == [], "the first rates are its range"
