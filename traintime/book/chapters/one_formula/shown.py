"""What the page of one formula shows: tables, and the numbers of its prose."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import bench_formula, external, page
from traintime.book.bench_formula import GOAL
from traintime.book.chapters.one_formula.analysis import (
    BENT,
    Fitted,
    bent,
    by_size,
    gained,
    kept,
    line_of_batches,
    nearer,
    others,
    over_floor,
    pairs,
    per_token,
    percent,
    predicted,
    prices,
    ratios,
    row_bytes,
    s3_steps,
    shares,
    sharp,
    token_flops,
)
from traintime.book.claims import above
from traintime.book.stored import Measurements
from traintime.explain import formula
from traintime.explain.formula import Fit
from traintime.measuring.allocators import MAPPED_FROM
from traintime.point import make_point
from traintime.workloads.base import UPDATE_BYTES


def price_table(ours: Mapping[str, Fitted], floor: Mapping[str, float]) -> HTML:
    """What each stack pays for the step, a position, a row and a token."""
    heads = ["stack", "*a* (ms)", "*l* (ms a position)", "*b* (ns a row)", "*c* (µs a token)"]
    table = []
    for stack, one in ours.items():
        scales = {"a": 1e3, "l": 1e3, "b": 1e9, "c": 1e6 * per_token(one.fit)}
        cells = []
        for term, scale in scales.items():
            known = term in one.fit.coefficients
            text = one.fit.interval(term).text(",.2f" if term == "l" else ",.0f", scale) if known else ""
            cells.append(text.replace(" (", "<br>("))
        table.append([stack, *cells])
    return page.table(heads, table)


def error_table(ours: Mapping[str, Fitted], floor: Mapping[str, float]) -> HTML:
    """How far each stack's prices lie above the floor, and how well the sum gives its points back."""
    heads = ["stack (points)", "row / floor", "token / floor", "mean error", "left out", "measured again"]
    table = []
    for stack, price in prices(ours, floor).iterrows():
        errors = [percent(price[name]) for name in ("error", "left_out", "repeat")]
        token = "" if np.isnan(price["c"]) else f"{price['c']:.1f}"
        table.append([f"{stack} ({len(ours[stack].rows)})", f"{price['b']:.1f}", token, *errors])
    return page.table(heads, table)


# The bend


def bend_table(ours: Mapping[str, Fitted], bends: Mapping[str, Fitted]) -> HTML:
    """The two prices of a row, and what the second one does to the errors (straight → bent)."""
    heads = ["stack", "a row (ns)", "beyond the bend, more (ns)", "mean error", "left out", "measured again"]
    table = []
    for stack, one in bends.items():
        spans = [one.fit.interval(term).text(",.0f", 1e9).replace(" (", "<br>(") for term in ("b", "m")]
        line = ours[stack]
        pairs = [(line.fit.mean_error, one.fit.mean_error), (line.mean_left_out, one.mean_left_out)]
        errors = [f"{percent(straight)} → {percent(bent)}" for straight, bent in pairs]
        table.append([stack, *spans, *errors, percent(one.repeat)])
    return page.table(heads, table)


def kept_table(found: pd.DataFrame) -> HTML:
    """`kept` as a reader sees it."""
    heads = ["stack", "rows", "under tcmalloc (ms)", "error with *m*", "error without"]
    rows = [
        [row["stack"], f"{row['vocabulary']:,}", f"{row['step_s'] * 1e3:,.0f}"]
        + [f"{row[name]:+.0%}" for name in ("with m", "without m")]
        for _, row in found.iterrows()
    ]
    return page.table(heads, rows)


def floor_values() -> dict[str, str]:
    """What a row and a token need at the least."""
    return {
        "one-embedding": str(make_point().sizes.embedding),
        "one-row-bytes": f"{row_bytes():,}",
        "one-token-flops": f"{token_flops() / 1e6:.1f}",
    }


def document_values(fits: Mapping[str, Fit]) -> dict[str, str]:
    """What three terms say of the document's two devices."""
    bandwidth = external.hardware("K40m")["bandwidth measured"]
    values = {"one-k40m-over": f"{fits['GPU'].coefficients['b'] / (row_bytes() / bandwidth):.1f}"}
    for device, fit in fits.items():
        values[f"one-error-{device}"] = f"{fit.mean_error:.1%}"
        values[f"one-worst-{device}"] = f"{np.abs(fit.errors).max():.1%}"
    for name in ("b", "c"):
        values[f"one-limit-{name}"] = f"{formula.price_ratio(fits['CPU'], fits['GPU'], name).value:.1f}"
    return values


def stack_values(book: Measurements, ours: Mapping[str, Fitted], floor: Mapping[str, float]) -> dict[str, str]:
    """What the formula says of a machine's stacks."""
    priced, gap, parts = prices(ours, floor), predicted(ours), shares(ours)
    rows = parts["b"] / parts.sum(axis=1)
    worst = gap.loc[gap["error"].abs().idxmax()]
    far = [one for one in bench_formula.sharpness(book) if one.ratio.value > GOAL]
    surely = [one.stack for one in far if one.within is False]
    perhaps = [one.stack for one in far if one.stack not in surely]
    values = {
        "one-stacks": str(len(priced)),
        "one-points": str(len(gap)),
        "one-near-repeat": str(len(priced) - len(far)),
        "one-far-perhaps": _listed(perhaps),
        "one-far-surely": _listed(surely),
        "one-worst-error": f"{worst['error']:+.0%}",
        "one-worst-where": f"{worst['stack']} at {worst['vocabulary']:,} rows, batch {worst['batch']:,}, "
        f"length {worst['length']}",
        "one-share-low": percent(rows.min()),
        "one-share-low-stack": str(rows.idxmin()),
        "one-share-high": percent(rows.max()),
    }
    for size, medians in by_size(gap).items():
        if len(medians):
            at = medians.abs().idxmax()
            values[f"one-bend-{size}"] = f"{medians.loc[at]:+.0%} at {at:,}"
    for name, column, digits in (("mean", "error", None), ("left", "left_out", None), ("repeat", "repeat", None)):
        values |= _ends(f"one-{name}", priced[column], digits)
    return values | _ends("one-row", priced["b"], (1, 0)) | _ends("one-token", priced["c"].dropna(), (1, 1))


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "no stack"


def _ends(name: str, column: pd.Series, digits: tuple[int, int] | None) -> dict[str, str]:
    """Least and greatest of a column with their stacks; as percentages, or with so many digits."""
    if column.empty:
        return {}
    texts = [percent(end) for end in (column.min(), column.max())]
    if digits is not None:
        texts = [f"{end:.{places}f}" for end, places in zip((column.min(), column.max()), digits, strict=True)]
    return {
        f"{name}-low": texts[0],
        f"{name}-low-stack": str(column.idxmin()),
        f"{name}-high": texts[1],
        f"{name}-high-stack": str(column.idxmax()),
    }


def bend_values(
    book: Measurements, ours: Mapping[str, Fitted], bends: Mapping[str, Fitted], floor: Mapping[str, float]
) -> dict[str, str]:
    """What the second price of a row is worth, and what is left of it under tcmalloc."""
    errors, found = gained(ours, bends), kept(book, bends)
    over = over_floor(book, bends, floor)
    most = (errors["straight"] - errors["bent"]).idxmax()
    worse = errors.index[errors["bent"] > errors["straight"] + 0.005]
    values = {
        "one-mapped": f"{MAPPED_FROM / 2**20:.0f} MiB",
        "one-mapped-rows": f"{bench_formula.mapped_rows(bends[most].rows):,}",
        "one-bent-stack": str(most),
        "one-bent-from": percent(errors.loc[most, "straight"]),
        "one-bent-to": percent(errors.loc[most, "bent"]),
        "one-bent-repeat": percent(bends[most].repeat),
        "one-bent-better": str(int((errors["bent"] < errors["straight"] - 0.005).sum())),
        "one-bent-worse": _listed(list(worse)),
        "one-bent-all": str(len(errors)),
        "one-kept-with": percent(found["with m"].abs().mean()),
        "one-kept-without": percent(found["without m"].abs().mean()),
    }
    if over:
        names = list(over)
        values |= {"one-near": over[names[0]].text(".1f"), "one-near-stack": names[0]}
        values |= {"one-far": f"{over[names[-1]].value:.1f}", "one-far-stack": names[-1]}
    return values


def other_machine_values(book: Measurements) -> dict[str, str]:
    """On which of the stacks that bend the formula is nearer without m than with it, on the book's other machine."""
    there = others(book)
    margins = nearer(there, bent(there)) if there is not None else {}
    told = {name: above(margins[name], 0) if name in margins else None for name in BENT}
    unsure = [name for name, verdict in told.items() if not verdict]
    return {
        "one-nearer-there": _listed([name for name, verdict in told.items() if verdict]),
        "one-open-there": f"; on {_listed(unsure)} that cannot be said" if unsure else "",
    }


def goal_values(book: Measurements) -> dict[str, str]:
    """Leave-one-out error over repeat error under tcmalloc, by stack, on the page's machine."""
    found = sharp(book)
    return {
        "one-goal": f"{GOAL:g}",
        "one-sharp": ratios({one.stack: one.ratio for one in found}) or "none",
    }


def published_values(fits: Mapping[str, Fit]) -> dict[str, str]:
    """What the formula says of other people's figures."""
    s3, errors = line_of_batches(s3_steps())
    read_off = pairs()
    misfits = read_off[read_off["worst error"] > 0.01].rename(columns={"worst error": "worst"})
    good = read_off.drop(misfits.index)
    published = external.benchmarks()
    issue = published[published["name"] == "tensorflow-14075"].iloc[0]
    numbers = issue["vocabulary"] * issue["embedding"]
    rows_s = numbers * fits["GPU"].coefficients["b"] / make_point().sizes.embedding
    floor_s = numbers * UPDATE_BYTES["adam"] / external.hardware("K40m")["bandwidth measured"]
    missed = [f"{one.Index[0]} with {one.Index[1]} units, off by {one.worst:.0%}" for one in misfits.itertuples()]
    return {
        "one-s3-step": f"{s3['F'] * 1e3:.1f} ms",
        "one-s3-image": f"{s3['c'] * 1e3:.1f} ms",
        "one-s3-worst": f"{np.abs(errors).max():.1%}",
        "one-s3-critical": f"{s3['F'] / s3['c']:.1f}",
        "one-misfit": "; ".join(missed) or "none",
        "one-pairs": str(len(read_off)),
        "one-pairs-good": str(len(good)),
        "one-fixed-low": f"{good['ms a step'].min():.0f}",
        "one-fixed-high": f"{good['ms a step'].max():.0f} ms",
        "one-issue-seen": f"{issue['seconds_per_step'] * 1e3:.0f} ms",
        "one-issue-rows": f"{rows_s * 1e3:.0f} ms",
        "one-issue-floor": f"{floor_s * 1e3:.0f} ms",
        "one-issue-all": f"{(rows_s + fits['GPU'].coefficients['a']) * 1e3:.0f} ms",
    }


def values(
    book: Measurements,
    fits: Mapping[str, Fit],
    ours: Mapping[str, Fitted],
    bends: Mapping[str, Fitted],
    floor: Mapping[str, float],
) -> dict[str, str]:
    """Every number that the chapter's sentences name."""
    of_ours = stack_values(book, ours, floor) | bend_values(book, ours, bends, floor)
    of_others = floor_values() | document_values(fits) | published_values(fits)
    return of_ours | of_others | other_machine_values(book) | goal_values(book)
