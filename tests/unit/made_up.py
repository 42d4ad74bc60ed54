"""Measurements that nobody made: rows as store.table gives them."""

from typing import Any

from traintime.point import Point


def row(stack: str, point: Point, number: int, seconds: float, **more: Any) -> dict[str, Any]:
    """One invocation, of round `number`, that took so many seconds a step; more: what differs from a usual one."""
    made = {"machine": "made-up", "stack": stack, "key": point.key} | point.fields
    made |= {"sweep": "made-up", "stretch": "made-up", "round": number, "status": "ok"}
    made |= {"started": f"2026-01-02T03:04:{number:02}Z"}
    made |= {"threads": 2, "threads_asked": point.run.threads, "versions": "x 1", "code": "0123456789ab", "path": ""}
    made |= {"protocol": "3+20", "fixed": True, "told": False, "disturbed": False, "again": False, "steps": 20}
    made |= {"first_s": seconds, "step_s": seconds, "median_s": seconds, "peak_bytes": 1e9, "faults_a_step": 0.0}
    return made | more
