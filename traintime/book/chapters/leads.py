"""Where the speed-up of the 2017 post's GPU over its CPU ends, by the formula fitted to its tables (chapter 9)."""

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import original, page
from traintime.book.claims import Finding, below, claim, every_stack
from traintime.book.stored import ANY, Measurements, largest
from traintime.explain import formula
from traintime.explain.statistics import Interval

ROWS = 280_000  # the 2017 post's vocabulary
PARTS = {"a": "the overhead of a step", "b": "a row of the table", "c": "a sentence"}


def lead_by_term() -> dict[str, Interval]:
    """The ratio of the two devices' coefficients, for each term of the formula."""
    fits = original.s0_fits()
    return {name: formula.price_ratio(fits["CPU"], fits["GPU"], name) for name in fits["CPU"].coefficients}


def largest_lead() -> Interval:
    """The largest of the ratios: no step of any size has a larger speed-up, as long as the formula holds."""
    lead = lead_by_term()
    return lead[largest(lead)]


def claimed_lead(claim: str, name: str) -> float:
    """Where the 2017 post says that the speed-up ends: ("C2", "upper bound") is its guess, C7 derives others."""
    return float(original.read("s0-claims").set_index(["id", "name"])["value"][claim, name])


def document_step(device: str) -> float:
    """Seconds of a step of the 2017 post's at its favourite point, on its "CPU" or "GPU"."""
    cells = original.s0().query("sweep == 'vocabulary' and vocabulary == @ROWS").set_index("device")
    return float(cells["step_s"][device])


def fixed_shares() -> list[float]:
    """Share of the overhead in a step of the 2017 post's GPU, at its vocabularies in their order."""
    cells = original.s0().query("device == 'GPU' and sweep == 'vocabulary'").sort_values("vocabulary")
    parts = original.s0_fits()["GPU"].parts(cells)
    return (parts["a"] / parts.sum(axis=1)).tolist()


def fastest_first(book: Measurements, least: int = 1, **where: object) -> pd.DataFrame:
    """A machine's steps at the 2017 post's favourite point, a row a stack, in the order of their time.

    where: fields in which it differs; on the CPU without any. Raises KeyError where fewer than `least` ran.
    """
    ran = book.points(vocabulary=ROWS, **where).dropna(subset="step_s").sort_values("step_s")
    if len(ran) < least:
        raise KeyError(f"fewer than {least} ran")
    return ran


@claim(
    "09.1",
    "The GPU's speed-up stays below the guessed 20, whether the vocabulary grows, the batch, or both.",
    source="ours, against S0, C2",
    says="not measured",
)
def lead_ends_below_the_guess(book: Measurements) -> Finding:
    if book.machine == original.FIGURES:
        lead = largest_lead()
    else:
        fastest = [fastest_first(book).head(1), fastest_first(book, device="gpu", kernel=ANY).head(1)]
        lead = book.interval(lambda s: s[0] / s[1], pd.concat(fastest))
    return every_stack({"": lead}, below(claimed_lead("C2", "upper bound")), ".1f")


@claim(
    "09.2",
    "The GPU's speed-up is smallest in the overhead of a step.",
    source="ours, from S0's tables",
    says="not measured",
)
def fixed_part_leads_least(book: Measurements) -> Finding | None:
    if book.machine != original.FIGURES:
        return None
    lead = lead_by_term()
    holds = True if lead["a"].high < min(lead["b"].low, lead["c"].low) else None
    return Finding(holds, "; ".join(f"{name} {each.text('.1f')}" for name, each in lead.items()))


@claim(
    "09.3",
    "The overhead's share of a step of the GPU falls as the vocabulary grows.",
    source="ours, from S0's tables",
    says="not measured",
)
def fixed_part_fades(book: Measurements) -> Finding | None:
    if book.machine != original.FIGURES:
        return None
    shares = fixed_shares()
    return Finding(bool((np.diff(shares) < 0).all()), ", ".join(f"{share:.0%}" for share in shares))


def limit_table() -> HTML:
    """The ratio of the devices' coefficients."""
    rows = [[f"*{name}*", PARTS[name], f"{lead.value:.1f}", _ends(lead)] for name, lead in lead_by_term().items()]
    return page.table(["", "time for", "CPU / GPU", "95 % interval"], rows)


def _ends(interval: Interval) -> str:
    return f"{interval.low:.1f} to {interval.high:.1f}"


# What the page shows


def numbers() -> dict[str, str]:
    """The 2017 post's numbers for the page's sentences; they are of no machine, and none is missing."""
    lead, shares = lead_by_term(), fixed_shares()
    steps = original.s0().query("sweep == 'vocabulary'").pivot_table("step_s", "vocabulary", "device")
    first, middle, last = steps["CPU"] / steps["GPU"]
    return {
        "cg-seen-first": f"{first:.0f}",
        "cg-seen-middle": f"{middle:.1f}",
        "cg-seen-last": f"{last + 1e-9:.1f}",  # 57 / 4 is 14.25 exactly, which would be rounded to an even digit
        "cg-guess": f"{claimed_lead('C2', 'upper bound'):.0f}",
        "cg-double": f"{claimed_lead('C7', 'all cores'):.0f}",
        "cg-half": f"{claimed_lead('C7', 'half the cores'):.0f}",
        "cg-rule": f"{claimed_lead('C7', 'rule of thumb'):.0f}",
        **{f"cg-limit-{name}": f"{lead[name].value:.1f}" for name in "bc"},
        **{f"cg-range-{name}": _ends(lead[name]) for name in "bc"},
        **{f"cg-fixed-{name}": f"{share:.0%}" for name, share in zip(("first", "middle", "last"), shares, strict=True)},
    }
