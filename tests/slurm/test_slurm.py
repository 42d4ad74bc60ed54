"""Sweeps as jobs of a real SLURM: two nodes on this host, from Debian's packages, and what happens to jobs there.

It alone protects what a reader's cluster does to a sweep: a time limit, a node that is lost, a job that is requeued.
Skipped where the packages are missing (apt install slurm-wlm munge) or these tests may not start daemons.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from traintime import paths

pytestmark = pytest.mark.rest
NEEDED = ("slurmctld", "slurmd", "sbatch", "munged")
SCRIPT = paths.ROOT / "env" / "slurm" / "sweep.sbatch"
PATIENCE_S = 240.0
PROFILE = """
sweeps:
  small:
    stacks: [numpy]
    workload: dense
    inputs: [20]
    hidden: [20]
    batch: [10, 20, 40, 80]
    rounds: {rounds}
    protocol: {{warmup: 1, steps: 20}}
"""
# The fixed point that shows drift takes a minute on NumPy, and nothing here asks for it.
WITHOUT_SENTINELS = """
from dataclasses import replace
from traintime import cli
from traintime.measuring.sweep import Plan

planned = Plan.from_profile
Plan.from_profile = lambda name, fields: replace(planned(name, fields), sentinels=False)
cli.main()
"""
CONF = """
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
SlurmctldPort=26817
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/d-%n.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/d-%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ProctrackType=proctrack/pgid
TaskPlugin=task/none
ReturnToService=2
SlurmdTimeout=5
KillWait=5
MpiDefault=none
JobRequeue=1
NodeName=one NodeHostname=localhost Port=27001 CPUs=1
NodeName=two NodeHostname=localhost Port=27002 CPUs=1
PartitionName=first Nodes=one Default=YES
PartitionName=second Nodes=two
"""

if missing := [name for name in NEEDED if shutil.which(name) is None]:
    pytest.skip(f"no {', '.join(missing)}: apt install slurm-wlm munge", allow_module_level=True)
if os.geteuid():
    pytest.skip("SLURM's daemons are started by root alone", allow_module_level=True)


def steps() -> list[psutil.Process]:
    """SLURM's processes that watch a job; they have another environment than all others."""
    return [process for process in psutil.process_iter() if process.name() == "slurmstepd"]


def until(happens, what):
    """Wait until it happens."""
    end = time.monotonic() + PATIENCE_S
    while not (found := happens()):
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.2)
    return found


class Cluster:
    """A SLURM of two nodes, and a copy of the package with small profiles that its jobs run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.copy = folder, folder / "copy"
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "TRAINTIME": str(folder / "run")}
        for name in ("traintime", "env", "data/derived", "data/external", "data/predicted"):
            shutil.copytree(paths.ROOT / name, self.copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("profiles", "data/measurements"):
            (self.copy / name).mkdir(parents=True)
        for name in ("pyproject.toml", "requirements.txt"):
            shutil.copy(paths.ROOT / name, self.copy)
        for name, rounds in (("short", 2), ("long", 40)):
            (self.copy / "profiles" / f"{name}.yaml").write_text(PROFILE.format(rounds=rounds))
        (folder / "main.py").write_text(WITHOUT_SENTINELS)
        (folder / "run").write_text(
            f'#!/bin/sh\nPYTHONPATH="{self.copy}" exec "{sys.executable}" "{folder}/main.py" "$@"\n'
        )
        (folder / "run").chmod(0o755)
        (folder / "slurm.conf").write_text(CONF.format(folder=folder))
        (folder / "state").mkdir()

    def run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout if check else done.stderr

    def start(self) -> None:
        if subprocess.run("munge -n | unmunge", shell=True, capture_output=True, check=False).returncode:
            Path("/run/munge").mkdir(exist_ok=True)
            shutil.chown("/run/munge", "munge", "munge")
            self.run("runuser", "-u", "munge", "--", "munged", "--force")
        self.run("slurmctld", "-c")
        for node in ("one", "two"):
            self.start_node(node)

    def start_node(self, node: str) -> None:
        self.run("slurmd", "-N", node)
        until(lambda: "idle" in self.run("sinfo", "-h", "-n", node, "-o", "%t"), f"node {node} is there")

    def end(self) -> None:
        for process in [*steps(), *self.processes("slurmd"), *self.processes("slurmctld")]:
            process.kill()

    def processes(self, *words: str) -> list[psutil.Process]:
        """Those of this cluster whose command line has all these words."""
        found = []
        for process in psutil.process_iter():
            try:
                ours = process.environ().get("SLURM_CONF") == self.environment["SLURM_CONF"]
                if ours and all(any(word in part for part in process.cmdline()) for word in words):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def submit(self, profile: str, to: Path, *options: str) -> str:
        """The number of a new job."""
        said = self.run("sbatch", "--parsable", *options, str(SCRIPT), profile, str(to))
        return said.strip().partition(";")[0]

    def state(self, job: str) -> str:
        said = self.run("scontrol", "show", "job", job).split()
        return " ".join(sorted({word.split("=")[1] for word in said if "JobState=" in word}))

    def ended(self, job: str) -> str:
        """The state in which it ended, once it has."""
        going = ("PENDING", "RUNNING", "SIGNALING", "COMPLETING")
        return until(lambda: (state := self.state(job)) and not any(one in state for one in going) and state, job)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        made.start()
        yield made
    finally:
        made.end()


def stored(folder: Path) -> list[str]:
    """The names of all files, hidden ones, too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def undisturbed(cluster):
    """What two nodes have stored that nobody disturbed, by node: a job for each partition."""
    to = cluster.folder / "undisturbed"
    jobs = [cluster.submit("short", to, "--partition", name) for name in ("first", "second")]
    assert [cluster.ended(job) for job in jobs] == ["COMPLETED", "COMPLETED"]
    return {node: stored(to / node) for node in ("one", "two")}


def test_each_node_measures_all_of_it_into_a_folder_of_its_own(cluster, undisturbed):
    assert undisturbed["one"] == undisturbed["two"]
    assert len([name for name in undisturbed["one"] if "dense-" in name]) == 4
    for node in undisturbed:
        command = [cluster.folder / "run", "check", cluster.folder / "undisturbed" / node, "--json"]
        said = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, check=False)
        assert all("sentinel" in fault for fault in json.loads(said.stdout))


@pytest.mark.fault("SLURM ends a sweep's job at its time limit", "the same command goes on, and measures what was left")
def test_a_time_limit_stops_the_sweep_and_the_same_command_goes_on(cluster, undisturbed):
    to = cluster.folder / "limited"
    # SLURM may send the signal a minute early: so it comes half a minute after the start at the earliest.
    assert cluster.ended(cluster.submit("long", to, "--time=2", "--signal=B:INT@30")) in ("FAILED", "TIMEOUT")
    said = "".join(path.read_text() for path in cluster.folder.glob("traintime-*.log"))
    assert "run the same command again" in said
    assert cluster.ended(cluster.submit("short", to)) == "COMPLETED"
    assert stored(to / "one") == undisturbed["one"]


@pytest.mark.fault(
    "A node of the cluster is lost in the middle of a sweep",
    "the job is not started again by itself; the same command goes on",
)
def test_a_job_on_a_lost_node_is_not_started_again_and_the_same_command_goes_on(cluster, undisturbed):
    to = cluster.folder / "lost"
    job = cluster.submit("long", to)
    until(lambda: list(to.rglob("dense-*.json")), "the first measurement")
    # Whoever would report how the job ended goes first.
    for lost in (cluster.processes("slurmd", "one"), steps(), cluster.processes(str(to))):
        for process in lost:
            process.kill()
    assert cluster.ended(job) == "NODE_FAIL"
    assert cluster.run("squeue", "-h") == ""
    cluster.start_node("one")
    assert cluster.ended(cluster.submit("short", to)) == "COMPLETED"
    assert stored(to / "one") == undisturbed["one"]


@pytest.mark.fault("SLURM is told to requeue a sweep's job", "it refuses")
def test_a_job_is_not_requeued(cluster, tmp_path):
    job = cluster.submit("long", cluster.folder / "requeued")
    until(lambda: "RUNNING" in cluster.state(job), "it runs")
    assert cluster.run("scontrol", "requeue", job, check=False) != ""
    assert "RUNNING" in cluster.state(job)
    cluster.run("scancel", job)
    assert cluster.ended(job) == "CANCELLED"
