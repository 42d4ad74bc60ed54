"""Older measurement files, read as today's: nothing is lost, nothing is invented."""

from typing import Any

SCHEMA = 3  # 3: sizes and run apart, code path and source hash, evidence over the counted steps
# Fields of schema 1 and 2 that said how a point is run.
OF_RUN = ("loop", "sentences", "allocator", "device", "cudnn")
KERNELS = {None: "auto", True: "cudnn", False: "loop-of-cells"}


def upgraded(raw: dict[str, Any]) -> dict[str, Any]:
    """The record in today's schema; one that has it already is returned as it is."""
    if raw["schema_version"] == SCHEMA:
        return raw
    raw = dict(raw, schema_version=SCHEMA)
    raw["point"] = _point(raw["point"])
    raw["invocations"] = [_invocation(invocation) for invocation in raw.get("invocations", [])]
    return raw


def _point(old: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 and 2 had sizes and run in one flat dict, and sentences also where there was no epoch."""
    old = dict(old)
    run = {name: old.pop(name) for name in OF_RUN if name in old}
    run["kernel"] = KERNELS[run.pop("cudnn", None)]
    if run.get("loop") != "epoch":
        run.pop("sentences", None)
    return {"workload": old.pop("workload"), "sizes": old, "run": run}


def _invocation(old: dict[str, Any]) -> dict[str, Any]:
    """Page faults of a step were counted over all steps but the first, warm-up and all; who disturbed, not at all."""
    if not old.get("result"):
        return old
    result = dict(old["result"])
    facts = dict(result["facts"])
    path = {name: facts.pop(name, None) for name in ("allocator", "openmp")}
    path["implementation"] = facts.pop("lstm_implementation", None)
    facts.pop("blas", None)  # a Theano without BLAS never became a result
    faults = result.pop("faults")
    evidence = {}
    if "minor_in_steps" in faults:
        evidence = {"minor_faults": faults["minor_in_steps"], "faults_steps": len(result["timing"]["steps_ns"])}
    evidence |= {"all_minor_faults": faults["minor"], "all_major_faults": faults["major"]}
    result |= {"facts": facts | {"path": path}, "evidence": evidence}
    return dict(old, result=result)
