"""What a chapter puts on its page: tables, numbers for the prose, links to data, and where it all came from."""

import base64
import io
import os
import zipfile
from collections.abc import Callable, Sequence, Sized
from typing import Any

import pandas as pd
from IPython.display import HTML

from traintime.book import PROFILE, RESULTS, chapters, markup, original, stored
from traintime.book.claims import by_machine, span  # noqa: F401 (chapters name it)
from traintime.book.stored import Measurements
from traintime.book.verdicts import judged
from traintime.explain.statistics import Interval
from traintime.measuring import machine
from traintime.point import fields
from traintime.predict import compare
from traintime.store.table import ALIKE


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: bool = True, fold: str = "") -> HTML:
    """A table: the first column to the left, the others to the right; or all to the left, sentences that wrap.

    fold: what to call it where it is long and folded behind a line that opens it.
    """
    text = markup.table(heads, rows, right)
    return HTML(markup.fold(fold, text) if fold else text)


# A column: its head, or its head and how a value is written: a unit's factor and a format, or a function of the row.
Column = str | tuple[str, float, str] | tuple[str, Callable[[Any], str]]


def columns(data: pd.DataFrame, fold: str = "", **heads: Column) -> HTML:
    """A table of a data frame's columns: `columns(steps, stack="stack", step_s=("ms per step", 1e3, ",.1f"))`.

    heads: by the frame's column, or by any name where a function gives the text. A text is shown as it is, an Interval
    with its ends, a missing value as an empty cell; without a row, that it was not measured. fold: see `table`.
    """
    if data.empty:
        return nothing()
    names = [head if isinstance(head, str) else head[0] for head in heads.values()]
    rows = [[_written(row, name, head) for name, head in heads.items()] for _, row in data.iterrows()]
    return table(names, rows, fold=fold)


def _written(row: pd.Series, name: str, column: Column) -> str:
    if isinstance(column, tuple) and len(column) == 2:
        return column[1](row)
    return _text(row[name], *(column[1:] if isinstance(column, tuple) else ()))


def _text(value: Any, scale: float = 1.0, spec: str = "") -> str:
    if isinstance(value, Interval):
        return value.text(spec, scale)
    if isinstance(value, str):
        return value
    return "" if pd.isna(value) else f"{value * scale if scale != 1 else value:{spec}}"


def frame(data: pd.DataFrame) -> HTML:
    """A data frame as a table, its index first; a missing value is an empty cell."""
    data = data.reset_index()
    heads = ["" if name == "index" else str(name) for name in data.columns]
    return table(heads, [[_text(value, spec=",.10g") for value in row] for row in data.to_numpy()])


def nothing(remedy: str = "") -> HTML:
    """In the place of a table: that what it would show was not measured; remedy: a sentence."""
    return HTML(f"<p><em>Not measured yet.</em> {markup.inline(remedy)}</p>")


def data_link(table: pd.DataFrame, name: str) -> HTML:
    """A link under a figure that saves the figure's data as CSV; the data lie in the page itself.

    Of measured points only which they are, what differs, and what was measured, is kept.
    """
    known = ("machine", "stack", "key")
    names = [name for name in (*fields(), *ALIKE) if name in table and name not in known]
    same = [name for name in names if table[name].nunique(dropna=False) == 1]
    table = table.drop(columns=same if len(table) > 1 else [])
    text = table.to_csv(index=not isinstance(table.index, pd.RangeIndex))
    return _saved("The figure's data", f"{name}.csv", "text/csv", text.encode())


def _saved(what: str, name: str, kind: str, data: bytes) -> HTML:
    source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return HTML(f'<p class="data-link">{what}: <a class="data-link" download="{name}" href="{source}">{name}</a></p>')


def download(run: Measurements) -> HTML:
    """A link that saves what this run measured, as a folder that `traintime check` accepts and a reader may send in.

    Of a quick look there is none: a stored measurement has a process of its own.
    """
    if run.look:
        return HTML(f"<p><em>{A_LOOK}</em></p>")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(run.root.rglob("*.json")):
            archive.write(path, path.relative_to(run.root))
    return _saved("What this run measured", "measurements.zip", "application/zip", packed.getvalue())


def title(book: Measurements, found: Sized) -> str:
    """The machine's name, where it has what a page shows. Raises KeyError where it has none of it."""
    stored.measured(found)
    return book.title


A_LOOK = (
    "This page's own measurements are a quick look: configurations shared processes, one run each, so they are not "
    "judged and cannot be sent in. For runs that can, change a parameter in JupyterLab (make lab), or run the book "
    "under another profile (make book PROFILE=full)."
)


def claims(chapter: str, run: Measurements | None = None) -> HTML:
    """What a chapter ("03") asserts, on each machine that the book shows and on this run: verdict and deciding figure.

    A quick look decides nothing, and has no part in it; nor has what a build measured while others kept it busy, since
    the page does not show it.
    """
    hidden = run is None or run.look or (run.busy and RESULTS in os.environ)
    rows = []
    for each in judged(chapters.of(chapters.of_label(chapter)), None if hidden else run):
        claim, machines = each[0].claim, [(one.machine, one.verdict, one.figure) for one in each]
        rows.append([claim.label, f"{claim.sentence} *({claim.source})*", "<br>".join(by_machine(machines))])
    return table(["", "claim", "measured"], rows, right=False)


def evidence(chapter: str, run: Measurements | None = None) -> HTML:
    """The end of a chapter ("03"), folded: its claims on each machine and on this run, whether this run is normal, and
    what it measured, to save. Predictions stand in an appendix of their own.

    run: what this run measured, or the figures of a document, on which claims are judged and that nobody saves.
    """
    parts = [claims(chapter, run)]
    if run is not None and run.machine != original.FIGURES:
        parts += [normal(run), download(run)]
    said = "What this chapter claims, with a verdict for each machine"
    return HTML(markup.fold(said, "\n".join(part.data for part in parts)))


def normal(run: Measurements) -> HTML:
    """Whether this run is normal: its stacks among the book's machines, and what is off where one is not."""
    if run.rows.empty:
        return nothing("Nothing was measured here.")
    if run.look:
        return HTML("")
    return placed(compare.compare(run.root, str(run.rows["machine"].iloc[0])))


def placed(found: Sequence[compare.Placed]) -> HTML:
    """Stacks of one machine among the book's, in a box."""
    said = [markup.plain(f"{one.stack}: {sentence}.") for one in found for sentence in one.notes]
    rows = [[markup.plain(one.stack), str(one.points), *_placed(one)] for one in found]
    heads = ["", "points", "times expected", "normal", "verdict"]
    note = "Expected is what the book's machines took, at the rates of this one's memory and arithmetic."
    words = "".join(f"<p>{markup.inline(sentence)}</p>" for sentence in (note, *said))
    return HTML(markup.box("Is this run normal?", markup.table(heads, rows) + words))


def _placed(one: compare.Placed) -> list[str]:
    if not one.points:
        return ["", "", one.verdict]
    times = f"{one.times.value:.2f} times"
    return [times, f"{one.times.low:.2f} to {one.times.high:.2f}", f"**{one.verdict}**" if one.off else one.verdict]


def made_by(run_here: Measurements | None = None, *references: str) -> HTML:
    """The foot of a page, folded: which profile, machines, versions and dates made its numbers.

    run_here: what this run measured; references: the machines whose stored measurements the page shows ("" for the
    usual one).
    """
    lines = [f"This page was run under the profile `{os.environ.get(PROFILE) or 'the defaults of its notebook'}`."]
    if run_here is not None and len(run_here.rows):
        made = f"{machine.this()}, {_dates(run_here.rows)}, {len(run_here.rows)} invocations"
        lines.append(f"Its own measurements: {made}; {_versions(run_here.rows)}.")
    for book in dict.fromkeys(map(stored.of, references)):
        rows = book.rows
        lines.append(
            f"Stored measurements: {book.title} ({markup.plain(book.machine)}), {_dates(rows)}, {len(rows)} "
            f"invocations of at least {rows['steps'].min():.0f} counted steps; {_versions(rows)}."
        )
        if not rows["fixed"].all():
            ended = f"{int((~rows['fixed'].astype(bool)).sum())} of them ended when a time was over, not after a number"
            lines.append(
                f"{ended} of steps decided beforehand: they may end after a slow step, and read a little high. "
                "They are pooled whatever that time was."
            )
    said = "".join(f"<p>{markup.inline(line)}</p>" for line in lines)
    return HTML(markup.fold("The main machines behind this page, with dates and versions", said))


def _dates(rows: pd.DataFrame) -> str:
    days = sorted({rows["started"].min()[:10], rows["started"].max()[:10]})
    return markup.plain(" to ".join(days))


def _versions(rows: pd.DataFrame) -> str:
    return markup.plain("; ".join(sorted(set(rows["versions"].dropna()))))
