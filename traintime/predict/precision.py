"""What half precision makes of a step: costs in bfloat16 from costs in float32.

Three models were trained in both in the same rounds (chapter 13's sweeps): convolutions, a table, and a loop over
positions. An update costs so many times as much as the table's step did. All else costs what the convolutions' did,
if the model has no loop and its products are about as large as theirs; or else what the slower of the two did, since a
loop's small products gained nothing of what a processor does with large ones. float16 has no price: the convolutions
alone were tried in it, and were faster on no stack.
The derived table precision.csv holds it.
"""

import json
from dataclasses import replace

import numpy as np
import pandas as pd

from traintime import paths
from traintime.explain.terms import TERMS
from traintime.measuring import machine
from traintime.predict.prices import Prices
from traintime.store import derived, records
from traintime.store.table import table
from traintime.workloads.base import Work

HALF, DTYPE = "mixed-bfloat16", "bfloat16"
PRODUCTS, TABLE, LOOP = SWEEPS = ("faster-arithmetic", "faster-table", "faster-loop")
NEAR = 0.5  # of the operations of the convolutions' products: about as large as theirs


def derive() -> pd.DataFrame:
    """A row for each stack and sweep: columns machine, stack, sweep, times (a step in bfloat16 over one in float32, the
    geometric mean over the rounds that have both), rounds, product (operations a launch), needs (the machine's
    instructions for bfloat16; machines without any are left out).
    """
    found = table(paths.MEASUREMENTS)
    found = found[found["sweep"].isin(SWEEPS) & (found["status"] == "ok")]
    half = found[found["precision"] == HALF].assign(key=lambda one: one["key"].str.replace(f"-{HALF}", ""))
    where = ["machine", "stack", "sweep", "key", "round"]
    both = half.merge(found[found["precision"] == "float32"], on=where, suffixes=("_half", "_full"))
    rows = []
    for (machine_key, stack, sweep), its in both.groupby(["machine", "stack", "sweep"]):
        times = np.exp(np.log(its["median_s_half"] / its["median_s_full"]).mean())
        sets = json.loads((paths.MEASUREMENTS / machine_key / "machine.json").read_text())["instruction_sets"]
        needs = " ".join(each for each in sets if "bf16" in each)
        if not needs:  # emulated, it costs up to ten times as much, and nobody is advised to do so
            continue
        path = records.file_of(paths.MEASUREMENTS, machine_key, stack, its["key"].iloc[0])
        about = {"machine": machine_key, "stack": stack, "sweep": sweep, "times": times}
        about |= {"rounds": its["round"].nunique(), "product": _product(records.read(path).point.work)}
        rows.append(about | {"needs": needs})
    return pd.DataFrame(rows)


def _product(work: Work) -> float:
    """Operations of a product, about: of those that must wait for one another."""
    return work.flops / max(work.launches, 1)


def needed() -> set[str]:
    """The instructions that a processor must have, so that what was measured holds for it."""
    return set(" ".join(derived.read("precision")["needs"]).split())


def unpriced() -> str:
    """What is said where half precision is not among the advice because nobody knows its cost."""
    which = " and ".join(sorted(needed()))
    return f"half precision has no known cost here: it was measured on Keras 3 and a processor with {which} alone"


def other(dtype: str, priced: Prices) -> tuple[str, ...]:
    """What is said of a model that computes in another type than its costs are of."""
    said = f"its matmuls are computed in {dtype}, which has no known cost here: its time is that of {priced.dtype}"
    return () if dtype == priced.dtype else (said,)


def in_half(priced: Prices, stack: str, work: Work, here: set[str] | None = None) -> Prices | None:
    """The costs of this step in bfloat16, or None where they are not known: on a stack that has not tried all three
    models, or a processor without those instructions. here: its instruction sets; this machine's if they are not given.
    """
    here = set(machine.processor()["instruction_sets"]) if here is None else here
    tried = derived.read("precision").query("stack == @stack").groupby("sweep").agg({"times": "max", "product": "max"})
    if set(tried.index) != set(SWEEPS) or not needed() <= here:
        return None
    times, alike = tried["times"], _product(work) >= NEAR * tried.loc[PRODUCTS, "product"] and not work.slice_bytes
    others = times[PRODUCTS] if alike else max(times[PRODUCTS], times[LOOP])
    factors = {term: times[TABLE] if TERMS[term].part == "update" else others for term in priced.seconds}
    seconds = {term: float(each * factors[term]) for term, each in priced.seconds.items()}
    return replace(priced, seconds=seconds, dtype=DTYPE)
