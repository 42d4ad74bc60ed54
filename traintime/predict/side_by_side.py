"""One training on every stack and device that has prices, side by side."""

import pandas as pd

from traintime import paths
from traintime.errors import InputError
from traintime.measuring import stacks
from traintime.point import Point
from traintime.predict import durations, prices, tiers
from traintime.predict.answer import GB, Estimate
from traintime.predict.training import Training, of_point


def rows(asked: Training, point: Point) -> list[Estimate]:
    """The formula's answer for this machine and each device with a data sheet, on each stack that can train the point.

    What a device's rates are is measured once, for all stacks.
    """
    known, rates = of_point(point), tiers.rates_here()
    found = []
    for stack in dict.fromkeys(prices.habits().index.get_level_values("stack")):
        if not _can(point, stack):
            continue
        found.append(tiers.formula(known, asked, None, stack, rates=rates))
        found += [tiers.formula(known, asked, device, stack) for device in devices() if stack != "numpy"]
    return sorted(found, key=lambda one: one.total.value)


def devices() -> list[str]:
    """Devices with a data sheet."""
    return sorted(pd.read_csv(paths.EXTERNAL / "hardware.csv")["device"].unique())


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
