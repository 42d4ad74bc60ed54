"""Measurements that nobody made: rows as store.table gives them, models that the predictor's bench tried, a machine."""

from typing import Any

from traintime import paths
from traintime.measuring import allocators, machine, measure, stacks
from traintime.point import Point
from traintime.predict import record
from traintime.store import records

MACHINE = "some-machine"
RATES = {"bandwidth_bytes_per_s": 100.0, "matmul_flop_per_s": 200.0}


def quiet_machine(patch, folder, missing=()) -> None:
    """A machine that has every other stack and 8 GiB, that nobody measures; its files need not outlive a blackout."""
    patch.setattr(records.os, "fsync", lambda file: None)
    patch.setattr(paths, "STACKS", folder / "stacks")
    patch.setattr(stacks.Stack, "present", property(lambda stack: stack.name not in missing))
    patch.setattr(allocators, "present", lambda name: name not in missing)
    patch.setattr(machine, "this", lambda *_: MACHINE)
    patch.setattr(machine, "describe", lambda: {"cpu": "Some", "cores": 2, "memory_bytes": 2**33, "gpus": []})
    patch.setattr(machine, "free_memory", lambda device: 2**33)
    patch.setattr(measure, "default_threads", lambda: 2)


def row(stack: str, point: Point, number: int, seconds: float, **more: Any) -> dict[str, Any]:
    """One invocation, of round `number`, that took so many seconds a step; more: what differs from a usual one."""
    made = {"machine": "made-up", "stack": stack, "key": point.key} | point.fields
    made |= {"sweep": "made-up", "stretch": "made-up", "round": number, "status": "ok"}
    made |= {"started": f"2026-01-02T03:04:{number:02}Z"}
    made |= {"threads": 2, "threads_asked": point.run.threads, "versions": "x 1", "code": "0123456789ab", "path": ""}
    made |= {"protocol": "3+20", "fixed": True, "told": False, "disturbed": False, "again": False, "steps": 20}
    made |= {"first_s": seconds, "step_s": seconds, "median_s": seconds, "peak_bytes": 1e9, "faults_a_step": 0.0}
    return made | more


def tried(number, tier="probed", reach=1.2, seconds=10.0, stack="2026-jax", times=1.1, version=9, slept=0.0):
    """Predicted: 10 s, 1 s of sleep among them; came: so many seconds, the last slept, and so many times the peak."""
    memory, ends = 1e9 + 1e7 * number, {"value": 10.0, "low": 10.0 / reach, "high": 10.0 * reach}
    answer = {"tier": tier, "total": ends, "step": ends, "memory": {"value": memory, "low": 0.0, "high": 0.0}}
    answer |= {"epochs": 1, "parts": {"steps": 9.0, record.SLEEP: 1.0}}
    about = {"machine": "m", "stack": stack, "kind": "dense", "started": f"2026-11-26T10:00:{number:02}Z"}
    about |= {"fit_s": [seconds], "done_s": [seconds - slept], "peaks": [memory * times], "spent_s": {tier: 12.0}}
    formula = answer | {"tier": "formula", "memory": None}
    return about | {"predictor_version": version, "predicted": {tier: answer, "formula": formula}}
