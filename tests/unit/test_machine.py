"""The machine's description, its key and the arithmetic of its rates."""

import getpass
import itertools
import json
import re
import socket
import subprocess
from types import SimpleNamespace

import pytest

from traintime.measuring import machine

GIB = 2**30
T4 = {"name": "Tesla T4", "memory_mib": 15360, "driver": "550.54"}


@pytest.mark.parametrize(
    ("cpu", "cores", "memory_bytes", "gpus", "expected"),
    [
        ("AMD EPYC", 2, 24 * GIB, [], "amd-epyc-2-cores-24-gib"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", 2, int(12.67 * GIB), [T4], "intel-xeon-2-cores-13-gib-tesla-t4"),
        ("Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz", 12, 32 * GIB, [], "intel-core-i7-8700-12-cores-32-gib"),
        ("AMD Ryzen 9 16-Core Processor", 32, 64 * GIB, [T4, T4], "amd-ryzen-9-16-core-32-cores-64-gib-tesla-t4"),
    ],
)
def test_the_key_is_a_readable_name(cpu, cores, memory_bytes, gpus, expected):
    described = {"cpu": cpu, "cores": cores, "memory_bytes": memory_bytes, "gpus": gpus, "kernel": "6.1.0"}
    assert machine.key(described) == expected
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", machine.key(described))


def test_two_hosts_that_call_themselves_alike_have_two_keys():
    described = {"cpu": "AMD EPYC", "cores": 2, "memory_bytes": 24 * GIB, "gpus": []}
    keys = [machine.key(described | {"family": family, "model": 2}) for family in (25, 26)]
    assert keys == ["amd-epyc-family25-model2-2-cores-24-gib", "amd-epyc-family26-model2-2-cores-24-gib"]
    unknown = described | {"family": None, "model": None}
    assert machine.key(unknown) == machine.key(described) == "amd-epyc-2-cores-24-gib"


@pytest.fixture
def mine(monkeypatch, tmp_path):
    """This machine is of stepping 1; another one, described in the folder, has its key, with what is changed."""
    described = {"cpu": "Intel Xeon", "family": 6, "model": 167, "cores": 2, "memory_bytes": 24 * GIB, "gpus": []}
    described |= {"stepping": 1, "instruction_sets": ["avx2", "amx_tile"]}
    monkeypatch.setattr(machine, "describe", lambda: described)
    folder = tmp_path / machine.key(described)

    def write(**changes):
        folder.mkdir(exist_ok=True)
        (folder / "machine.json").write_text(json.dumps(described | changes))
        return machine.this(tmp_path)

    return write


def test_a_processor_of_another_stepping_has_a_key_of_its_own(mine, tmp_path):
    assert machine.this(tmp_path) == "intel-xeon-family6-model167-2-cores-24-gib"
    assert mine() == "intel-xeon-family6-model167-2-cores-24-gib"
    assert mine(stepping=8) == "intel-xeon-family6-model167-2-cores-24-gib-stepping1"
    assert mine(instruction_sets=["avx2"]) == "intel-xeon-family6-model167-2-cores-24-gib-stepping1"
    # What an older description does not tell makes no other machine.
    assert mine(stepping=None, instruction_sets=None) == "intel-xeon-family6-model167-2-cores-24-gib"


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


@pytest.fixture
def cpuinfo(monkeypatch):
    """Say what /proc/cpuinfo holds; None for a system without it."""

    def say(text):
        def read_text():
            if text is None:
                raise FileNotFoundError("/proc/cpuinfo")
            return text

        monkeypatch.setattr(machine, "Path", lambda path: SimpleNamespace(read_text=read_text))
        monkeypatch.setattr(machine, "caches", lambda: {"L2": "1024K"})
        return machine.processor()

    return say


def test_a_processor_is_told_by_its_numbers_and_what_decides_a_code_path(cpuinfo):
    seen = cpuinfo(CPUINFO)
    assert seen == {
        "cpu": "AMD EPYC",
        "vendor": "AuthenticAMD",
        "family": 26,
        "model": 2,
        "stepping": 1,
        "instruction_sets": ["avx2", "fma", "avx512f", "avx512_vnni"],
        "caches": {"L2": "1024K"},
    }


@pytest.mark.parametrize("text", [None, "", "Hardware : some board\n", CPUINFO.replace("26", "?")])
def test_what_the_system_does_not_tell_of_a_processor_is_unknown(cpuinfo, text):
    seen = cpuinfo(text)
    assert seen["family"] is None
    assert seen["cpu"], "there is always a name"


def test_the_description_has_no_host_or_user_name():
    described = json.dumps(machine.describe())
    for name in {socket.gethostname(), socket.gethostname().split(".")[0], getpass.getuser()}:
        assert not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", described)


def test_gpus_are_read_from_the_drivers_list_also_where_it_does_not_tell_their_memory(monkeypatch):
    listing = "NVIDIA H200, 143771, 570.86.15\nTesla T4, 15360, 550.54\nNVIDIA GB10, [N/A], 580.95\n"
    monkeypatch.setattr(machine.subprocess, "run", lambda *args, **kwargs: SimpleNamespace(stdout=listing))
    assert machine.gpus()[:2] == [{"name": "NVIDIA H200", "memory_mib": 143771, "driver": "570.86.15"}, T4]
    assert [gpu["name"] for gpu in machine.gpus()[2:]] == ["NVIDIA GB10"]


@pytest.mark.parametrize(
    "error", [FileNotFoundError(), subprocess.CalledProcessError(9, "nvidia-smi"), subprocess.TimeoutExpired("x", 30)]
)
def test_no_driver_means_no_gpu(monkeypatch, error):
    def run(*args, **kwargs):
        raise error

    monkeypatch.setattr(machine.subprocess, "run", run)
    assert machine.gpus() == []


@pytest.fixture
def two_seconds_each(monkeypatch):
    """A clock by which everything takes two seconds."""
    monkeypatch.setattr(machine.time, "perf_counter", itertools.count(step=2).__next__)


def test_bandwidth_counts_each_byte_once_read_and_once_written(two_seconds_each):
    assert machine.bandwidth(threads=2, mib=1, repeats=3) == [2 * 2**20 / 2] * 3


def test_the_matrix_rate_counts_a_multiplication_and_an_addition(two_seconds_each):
    assert machine.matmul_rate(threads=1, size=8, repeats=2) == [2 * 8**3 / 2] * 2


def test_rates_are_medians_and_keep_every_repeat(monkeypatch):
    monkeypatch.setattr(machine, "bandwidth", lambda threads: [1.0, 50.0, 2.0])
    monkeypatch.setattr(machine, "matmul_rate", lambda threads: [9.0, 7.0, 8.0])
    rates = machine.rates()
    assert (rates["bandwidth_bytes_per_s"], rates["matmul_flop_per_s"]) == (2.0, 8.0)
    assert (rates["bandwidth_repeats"], rates["matmul_repeats"]) == ([1.0, 50.0, 2.0], [9.0, 7.0, 8.0])


# Whether it is as fast as it was


def rates(bandwidth, matmul=200.0):
    return {"bandwidth_bytes_per_s": bandwidth, "matmul_flop_per_s": matmul}


@pytest.mark.parametrize(
    ("now", "names"),
    [
        (rates(100), []),
        (rates(86), []),
        (rates(137), []),  # the range is 100 to 120
        (rates(84), ["bandwidth_bytes_per_s"]),
        (rates(139), ["bandwidth_bytes_per_s"]),
        (rates(110, 169), ["matmul_flop_per_s"]),
        (rates(10, 1000), ["bandwidth_bytes_per_s", "matmul_flop_per_s"]),
    ],
)
def test_a_rate_is_off_when_it_leaves_the_machines_own_range_by_more_than_15_percent(now, names):
    said = machine.off(now, [rates(100), rates(120)])
    assert [sentence.split()[0] for sentence in said] == names
    assert machine.off(now, []) == [], "the first rates are its range"


# Memory that is free


def test_free_memory_is_the_systems_or_the_cards(monkeypatch):
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: SimpleNamespace(available=3 * GIB))
    monkeypatch.setattr(machine, "gpus", lambda: [T4])
    assert machine.free_memory() == 3 * GIB
    assert machine.free_memory("gpu") == 15 * GIB
    monkeypatch.setattr(machine, "gpus", lambda: [])
    assert machine.free_memory("gpu") == 3 * GIB, "without a card nothing runs there; the worker says so"
