"""One training on every stack and device that has costs, side by side."""

from dataclasses import replace

import pandas as pd

from traintime.errors import InputError
from traintime.measuring import stacks
from traintime.point import Point
from traintime.predict import calibrate, durations, prices
from traintime.predict.answer import GB, Estimate
from traintime.predict.evidence import conclude
from traintime.predict.request import ModelDescription, Request
from traintime.predict.tiers import formula_evidence


def rows(request: Request, point: Point, stack: str | None = None) -> list[Estimate]:
    """The formula's answer for this machine on each stack that can train the point, and for each device with a data
    sheet on one of them (by default the usual one), the quickest first.

    What this machine's rates are is measured once, for all stacks.
    """
    model, rates = ModelDescription.from_point(point), calibrate.rates_here()
    chosen = stack or model.stack
    if not _can(point, chosen):
        raise InputError("stack", chosen, "cannot train this", "Take another stack.")
    places = [(each, None) for each in prices.known() if _can(point, each)]
    places += [(chosen, device) for device in devices()]
    evidence = [formula_evidence(request, replace(model, stack=each), device, rates) for each, device in places]
    return sorted((conclude(request, one) for one in evidence), key=lambda one: one.total.value)


def devices() -> list[str]:
    """Devices with a data sheet."""
    return sorted(prices.sheets()["device"].unique(), key=str.lower)


def _can(point: Point, stack: str) -> bool:
    try:
        stacks.refuse_impossible(point, stacks.get(stack))
    except InputError:
        return False
    return True


def table(found: list[Estimate]) -> pd.DataFrame:
    """The answers as a reader sees them, a row each."""
    cells = [
        {
            "where": one.of,
            "time": durations.text(one.total.value),
            "90 % interval": f"{durations.text(one.total.low)} to {durations.text(one.total.high)}",
            "memory": f"{one.memory.value / GB:.2g} GB" if one.memory else "",
            "limited by": one.limited_by.split(":")[0].split(",")[0],
        }
        for one in found
    ]
    return pd.DataFrame(cells)
