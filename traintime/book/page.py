"""What ends a chapter: links to its figures' data, its claims, and where its numbers came from."""

import base64
import os
from collections.abc import Sequence

import pandas as pd
from IPython.display import HTML

from traintime.book import PROFILE, markup, verdicts
from traintime.point import fields
from traintime.store import derived, machines
from traintime.store.table import ALIKE


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: bool = True, fold: str = "") -> HTML:
    """A table: the first column to the left, the others to the right; or all to the left, sentences that wrap.

    fold: what to call it where it is long and folded behind a line that opens it.
    """
    text = markup.table(heads, rows, right)
    return HTML(markup.fold(fold, text) if fold else text)


def data_link(table: pd.DataFrame, name: str) -> HTML:
    """A link under a figure that saves the figure's data as CSV; the data lie in the page itself.

    Of measured points only which they are, what differs, and what was measured, is kept.
    """
    known = ("machine", "stack", "key")
    names = [name for name in (*fields(), *ALIKE) if name in table and name not in known]
    same = [name for name in names if table[name].nunique(dropna=False) == 1]
    table = table.drop(columns=same if len(table) > 1 else [])
    text = table.to_csv(index=not isinstance(table.index, pd.RangeIndex))
    source, name = f"data:text/csv;base64,{base64.b64encode(text.encode()).decode()}", f"{name}.csv"
    link = f'<a class="data-link" download="{name}" href="{source}">{name}</a>'
    return HTML(f'<p class="data-link">The figure\'s data: {link}</p>')


def evidence(chapter: str) -> HTML:
    """The end of a chapter ("vocabulary"), folded: its claims, with verdict and deciding figure on each machine."""
    claims = [claim for claim in verdicts.claims().values() if claim.chapter[3:] == chapter]
    rows = [[one.label, f"{one.sentence} *({one.source})*", "<br>".join(verdicts.said(one.label))] for one in claims]
    said = "What this chapter claims, with a verdict for each machine"
    return table(["", "claim", "measured"], rows, right=False, fold=said)


def made_by(*shown: str) -> HTML:
    """The foot of a page, folded: which profile, machines, versions and dates made its numbers.

    shown: names or folders of the machines whose stored measurements the page shows.
    """
    profile = os.environ.get(PROFILE)
    sizes = f"in `profiles/{profile}.yaml`" if profile else "of its cell `parameters`"
    lines = [f"This page's own cells ran with the sizes {sizes}."]
    measured, titles = derived.read("measured"), machines.titles()
    for name in dict.fromkeys(shown):
        folder = next((each for each, title in titles.items() if name in (each, title)), name)
        rows = measured[measured["folder"] == folder]
        days = dict.fromkeys([rows["first"].min()[:10], rows["last"].max()[:10]])
        number, versions = rows["invocations"].sum(), markup.plain("; ".join(rows["versions"].dropna()))
        lines.append(
            f"Stored measurements: {titles[folder]} ({markup.plain(folder)}), {' to '.join(days)}, {number} "
            f"invocations of at least {rows['steps'].min():.0f} counted steps; {versions}."
        )
        if timed := rows["timed"].sum():
            lines.append(
                f"{timed} of them ended when a time was over, not after a number of steps decided beforehand: they may "
                "end after a slow step, which biases them slightly upward. They are pooled with the others."
            )
    said = "".join(f"<p>{markup.inline(line)}</p>" for line in lines)
    return HTML(markup.fold("The main machines behind this page, with dates and versions", said))
