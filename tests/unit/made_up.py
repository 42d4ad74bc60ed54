"""Measurements that nobody made: rows as store.table gives them, machines of such rows, and what is judged on them."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import chapters, claims
from traintime.book.stored import Measurements
from traintime.point import Point, make_point
from traintime.predict.answer import Estimate, around


def row(stack: str, point: Point, number: int, seconds: float, **more: Any) -> dict[str, Any]:
    """One invocation, of round `number`, that took so many seconds a step; more: what differs from a usual one."""
    made = {"machine": "made-up", "stack": stack, "key": point.key} | point.fields
    made |= {"sweep": "made-up", "stretch": "made-up", "round": number, "status": "ok"}
    made |= {"started": f"2026-01-02T03:04:{number:02}Z"}
    made |= {"threads": 2, "threads_asked": point.run.threads, "versions": "x 1", "code": "0123456789ab", "path": ""}
    made |= {"protocol": "3+20", "fixed": True, "told": False, "disturbed": False, "again": False, "steps": 20}
    made |= {"first_s": seconds, "step_s": seconds, "median_s": seconds, "peak_bytes": 1e9, "faults_a_step": 0.0}
    return made | more


def rows(stack: str, points: Iterable[dict], seconds: Callable[[dict], float], error: float = 0.02, rounds: int = 3):
    """One row an invocation: points as fields; their seconds a step, each run off by a share of its own."""
    random = np.random.default_rng(sum(map(ord, stack)))
    found = []
    for point in (make_point(**fields) for fields in points):
        for number in range(1, rounds + 1):
            found.append(row(stack, point, number, seconds(point.fields) * np.exp(error * random.standard_normal())))
    return pd.DataFrame(found)


def measurements(*parts: pd.DataFrame) -> Measurements:
    """All of them as those of one machine."""
    return Measurements(pd.concat(parts, ignore_index=True), "made-up")


def made_up(
    *steps: tuple, noise: Iterable[float] = (0.99, 1.01, 1.0), machine: str = "made-up", described=None, **more: Any
) -> Measurements:
    """A machine of (stack, fields of the point, seconds a step) and, as a fourth, what else differs in its rows.

    noise: the factor of each round's invocation; described: what its machine.json would say; more: what differs in all
    rows, such as the sweep's name.
    """
    made = []
    for stack, fields, seconds, *differs in steps:
        point = make_point(**fields)
        more_of_it = {"machine": machine} | more | (differs[0] if differs else {})
        made += [row(stack, point, number, seconds * factor, **more_of_it) for number, factor in enumerate(noise)]
    book = Measurements(pd.DataFrame(made), machine)
    if described:
        book.description = described
    return book


def judged(label: str, book: Measurements) -> claims.Judged:
    """The claim of this label ("03.1"), judged on a machine."""
    (claim,) = [claim for claim in chapters.of(chapters.of_label(label)) if claim.label == label]
    return claims.judge(claim, book)


def verdict(label: str, book: Measurements) -> str:
    """What is told of the claim on a machine: "holds", "does not hold", "inconclusive" or "not measured"."""
    return judged(label, book).verdict


def verdicts(chapter: str, book: Measurements) -> dict[str, str]:
    """The verdict of each claim of a chapter ("03-vocabulary") on a machine, by label."""
    return {claim.label: claims.judge(claim, book).verdict for claim in chapters.of(chapter)}


def said(tier, seconds, peak=1e9, error=0.1):
    """An answer of so many seconds and bytes, with this relative error."""
    step, one, memory = around(seconds / 100, (error, 1e6)), around(seconds, (error, 1e6)), around(peak, (0.03, 1e6))
    return Estimate(tier, "made up", 1000, 10, 1, step, one, one, memory, {"steps": seconds})


def tried_model(number, kind="attention", true=20.0, probed=1.0, formula=1.5, batch=1.3, peak=1.0, **more):
    """A model that took so many seconds and a gigabyte, and was predicted at so many times that."""
    answers = (("probed", probed, 0.12), ("formula", formula, 0.5))
    predicted = {tier: said(tier, true * times, 1e9 * peak, error).to_dict() for tier, times, error in answers}
    about = {"stack": "2026-jax", "kind": kind, "sizes": {"batch": 10}, "started": f"2026-01-01T00:00:{number:02}Z"}
    about |= {"machine": "made-up", "samples": 1000, "fit_s": [true, true * 1.02], "peaks": [1e9, 1e9]}
    return about | {"one_batch_s": true * batch, "flops_s": true * 0.01, "predicted": predicted} | more
