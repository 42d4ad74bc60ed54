"""What the page of structures shows: tables, and the numbers of its prose."""

import ast
from collections.abc import Callable

import pandas as pd
from IPython.display import HTML

from traintime import workloads
from traintime.book import page, stored
from traintime.book.chapters.structure.analysis import (
    ALONE,
    DEPTHS,
    FEW,
    MANY,
    MIDDLE,
    PREDICTORS,
    STACKS,
    STRUCTURES,
    against,
    fewer_is_faster,
    growth,
    points,
    predicted,
    rate,
    sizes,
    with_smaller,
    without_relu,
    without_xla,
)
from traintime.book.stored import Measurements, interval
from traintime.point import make_point


def source(structure: str) -> str:
    """How Keras joins the convolutions of a structure, as it stands in the worker; nothing is imported for it."""
    text = (workloads.get("blocks").folder / "on_keras3.py").read_text()
    found = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == structure)
    return ast.get_source_segment(text, next(found)) or ""


def work_table(depth: int = MIDDLE) -> HTML:
    """What a step of each structure has to do at this depth: parameters, operations and bytes of activations."""
    rows = []
    for structure in STRUCTURES:
        work = make_point("blocks", **sizes(structure, depth)).work
        counts = (f"{work.parameters:,}", f"{work.flops / 1e9:.1f}", f"{work.activation_bytes / 1e6:.0f}")
        rows.append([structure, str(sizes(structure, depth)["width"]), *counts])
    return page.table(["", "maps", "parameters", "operations (10⁹)", "activations (MB)"], rows)


def ratio_table(found: pd.DataFrame, head: str) -> HTML:
    """Ratios of steps with their verdicts, a row a stack and depth. found: as `against` gives them."""
    rows = []
    for _, row in found.iterrows():
        verdict = row["reason"] if pd.isna(row["faster"]) else f"{row['faster']} is faster"
        rows.append([row["stack"], f"{row['above']} over {row['below']}", str(row["depth"]), page.span(row), verdict])
    heads = ["stack", head, "depth", "ratio of steps", "verdict"]
    return page.table(heads, rows, fold="Every ratio, with its verdict") if rows else page.nothing()


def predicted_table(found: pd.DataFrame) -> HTML:
    """Left-out errors of the predictors beside that of measuring again. found: as `predicted` gives it."""
    rows = []
    for _, row in found.iterrows():
        rows.append([row["stack"], *(f"{row[name]:.0%}" for name in (*PREDICTORS, "repeat"))])
    return page.table(["error", *PREDICTORS, "measured again"], rows) if rows else page.nothing()


def changed_table(book: Measurements) -> HTML:
    """What one change at a time takes off a step: ReLUs, shortcuts, XLA."""
    changes = [
        ("without ReLUs", without_relu(book)),
        ("without shortcuts", _at(against(book, [("residual", "plain")]), MIDDLE)),
        ("without XLA", without_xla(book)),
    ]
    rows = []
    for name, found in changes:
        for _, row in found.iterrows():
            structure = row.get("structure", "residual")
            rows.append([name, row["stack"], "residual" if name == "without shortcuts" else structure, page.span(row)])
    return page.table(["", "stack", "network", "times as fast"], rows) if rows else page.nothing()


def _at(found: pd.DataFrame, depth: int) -> pd.DataFrame:
    return found[found["depth"] == depth]


def here_table(found: pd.DataFrame) -> HTML:
    """The networks of this run: what they have to do, and what a step takes. found: as `points` gives it."""
    if found.empty:
        return page.nothing()
    rows = []
    for _, row in found.sort_values(["stack", "depth", "structure"]).iterrows():
        counts = (f"{row['parameters']:,.0f}", f"{row['activation_bytes'] / 1e6:.0f}")
        time = f"{row['step_s'] * 1e3:,.1f}" if pd.notna(row["step_s"]) else page.holes(found.loc[[row.name]])
        rows.append([row["stack"], f"{row['structure']} of {row['depth']}", *counts, time])
    heads = ["stack", "network", "parameters", "activations (MB)", "a step here (ms)"]
    return page.table(heads, rows)


def values(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that a machine cannot give says so."""
    found = points(book)
    shared, joined = (against(book, [pair]) for pair in (("dense", "residual"), ("dense", "aggregated")))
    bare, smaller, quiet, free = (
        against(book, [("residual", "plain")]),
        with_smaller(book),
        without_relu(book),
        without_xla(book),
    )
    errors = predicted(book, found).set_index("stack")
    slopes = growth(book, found).set_index(["stack", "how"])
    pairs, rates = fewer_is_faster(found), rate(found)
    work = {name: make_point("blocks", **sizes(name, DEPTHS[-1])).work for name in STRUCTURES}
    few, many = (make_point("blocks", structure=name, depth=MIDDLE, width=maps).work for name, maps in (FEW, MANY))
    asked: dict[str, Callable[[], str]] = {"there": lambda: page.title(book, found)}
    for stack in STACKS:
        short = stack.removeprefix("2026-")
        ratios = {
            "dense": (shared, {"depth": DEPTHS[-1]}),
            "once": (joined, {"depth": DEPTHS[-1]}),
            "shortcuts": (bare, {"depth": MIDDLE}),
            "smaller": (smaller, {}),
            "relu": (quiet, {"structure": "residual"}),
        }
        for name, (table, wanted) in ratios.items():
            asked[f"{name}-{short}"] = lambda t=table, s=stack, w=wanted: page.span(stored.row(t, stack=s, **w))
        for name in ALONE:
            key = f"{name.split()[0]}-{short}"
            asked[key] = lambda s=stack, n=name: f"{errors.loc[s, n]:.0%}"
        for name in ("dense", "residual"):
            asked[f"grows-{name}-{short}"] = lambda s=stack, n=name: interval(slopes.loc[(s, n)], "exponent").text()
        asked[f"pairs-{short}"] = lambda s=stack: f"{pairs[s]:.0%}"
    asked["slow"] = lambda: f"{rates['2026-torch'][0] / 1e9:,.0f}"
    asked["fast"] = lambda: f"{rates['2026-torch'][1] / 1e9:,.0f}"
    for structure in ("plain", "dense"):
        asked[f"xla-{structure}"] = lambda s=structure: page.span(free.set_index("structure").loc[s])
    given = {f"str-{name}": page.or_not_measured(give) for name, give in asked.items()}
    return given | {
        "str-residual-mb": f"{work['residual'].activation_bytes / 1e6:.0f}",
        "str-dense-mb": f"{work['dense'].activation_bytes / 1e6:.0f}",
        "str-plain-mb": f"{work['plain'].activation_bytes / 1e6:.0f}",
        "str-more-bytes": f"{work['dense'].activation_bytes / work['residual'].activation_bytes:.1f}",
        "str-thin": str(sizes("dense", DEPTHS[-1])["width"]),
        "str-wide": str(sizes("residual", DEPTHS[-1])["width"]),
        "str-few": f"{few.parameters:,}",
        "str-many": f"{many.parameters:,}",
    }
