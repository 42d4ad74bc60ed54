"""What a chapter puts on its page: tables, numbers for the prose, links to data, and where it all came from."""

import base64
import io
import os
import re
import zipfile
from collections.abc import Callable, Sequence, Sized
from typing import Any

import pandas as pd
from IPython.display import HTML, Markdown, display

from traintime.book import PROFILE, chapters, markup, original, plots, stored
from traintime.book.claims import Claim, by_machine, power, span  # noqa: F401 (tables name them)
from traintime.book.glue import PREFIX
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


def columns(data: pd.DataFrame, fold: str = "", remedy: str = "", **heads: Column) -> HTML:
    """A table of a data frame's columns: `columns(steps, stack="stack", step_s=("ms per step", 1e3, ",.1f"))`.

    heads: by the frame's column, or by any name where a function gives the text. A text is shown as it is, an Interval
    with its ends, a missing value as an empty cell. fold: see `table`; remedy: a sentence in the place of no rows.
    """
    if data.empty:
        return nothing(remedy)
    names = [head if isinstance(head, str) else head[0] for head in heads.values()]
    rows = [[_written(row, name, head) for name, head in heads.items()] for _, row in data.iterrows()]
    return table(names, rows, fold=fold)


def _written(row: pd.Series, name: str, column: Column) -> str:
    if isinstance(column, tuple) and len(column) == 2:
        return column[1](row)
    value, (scale, spec) = row[name], column[1:] if isinstance(column, tuple) else (1.0, "")
    if isinstance(value, Interval):
        return value.text(spec, scale)
    if isinstance(value, str):
        return value
    return "" if pd.isna(value) else f"{value * scale if scale != 1 else value:{spec}}"


def frame(data: pd.DataFrame) -> HTML:
    """A data frame as a table, its index first; a missing value is an empty cell."""
    data = data.reset_index()
    heads = ["" if name == "index" else str(name) for name in data.columns]
    return table(heads, [[_plain(value) for value in row] for row in data.to_numpy()])


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if pd.isna(value) else f"{value:,.10g}"


MOST = 6  # columns that fit a page


def step_table(points: pd.DataFrame, against: str = "vocabulary", fold: str = "") -> HTML:
    """Milliseconds a step with the half-width of the interval, a row a stack, a column a size; holes say why.

    Of more sizes than fit a page the least and the largest.
    """
    order = sorted(points[against].unique())
    if len(order) >= MOST:
        order = [order[0], *order[2 - MOST :]]
    rows = []
    for name, of_one in points.groupby(["stack", "how"], sort=False):
        cells = []
        for size in order:
            at = of_one[of_one[against] == size]
            cells.append(_cell(at.iloc[0]) if len(at) else "not measured yet")
        rows.append([name[0] if points["how"].nunique() == 1 else ", ".join(name), *cells])
    return table(["ms per step", *(plots.short(size) for size in order)], rows, fold=fold)


def _cell(row: pd.Series) -> str:
    if pd.isna(row["step_s"]):
        return f"*{row['status']}*"
    digits = 0 if row["step_s"] > 0.1 else 1
    half = (row["high_s"] - row["low_s"]) / 2
    # From two or three runs the interval can be wider than the step is long: that says nothing, so it is not shown.
    spread = f"<br>± {half * 1e3:,.{digits}f}" if half < row["step_s"] else ""
    return f"{row['step_s'] * 1e3:,.{digits}f}{spread}"


def nothing(remedy: str = "") -> HTML:
    """In the place of a table: that what it would show was not measured; remedy: a sentence."""
    return HTML(f"<p><em>Not measured yet.</em> {markup.inline(remedy)}</p>")


def data_link(table: pd.DataFrame, name: str) -> HTML:
    """A link under a figure that saves the figure's data as CSV; the data lie in the page itself.

    Of measured points only what differs, and what was measured, is kept.
    """
    same = [name for name in (*fields(), *ALIKE) if name in table and table[name].nunique(dropna=False) == 1]
    table = table.drop(columns=same if len(table) > 1 else [])
    text = table.to_csv(index=not isinstance(table.index, pd.RangeIndex))
    encoded = base64.b64encode(text.encode()).decode()
    link = f'<a class="data-link" download="{name}.csv" href="data:text/csv;base64,{encoded}">{name}.csv</a>'
    return HTML(f'<p class="data-link">The figure\'s data: {link}</p>')


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
    encoded = base64.b64encode(packed.getvalue()).decode()
    link = f'<a class="data-link" download="measurements.zip" href="data:application/zip;base64,{encoded}">'
    return HTML(f'<p class="data-link">What this run measured: {link}measurements.zip</a></p>')


def glue(**values: Any) -> None:
    """Give numbers a name by which the prose of the page can show them: {glue:text}`name`."""
    for name, value in values.items():
        data = {PREFIX + "text/plain": repr(markup.signs(str(value)))}  # quoted: bare, "9,600" would be read as a tuple
        metadata = {"scrapbook": {"name": name, "mime_prefix": PREFIX}}
        display(data, raw=True, metadata=metadata)


NOT_MEASURED = "(not measured)"  # in a sentence


class Prose:
    """The numbers of a page's sentences, by name: `Prose("voc", floor=lambda book: f"{floor_s(book) * 1e9:.0f} ns")`.

    prefix: what all names begin with; a name's underscores become hyphens. A number is a function of the machine that
    the page shows; one that the machine has not measured says so.
    """

    def __init__(self, prefix: str, **numbers: Callable[[Measurements], str]) -> None:
        self.numbers = {f"{prefix}-{name}".strip("-").replace("_", "-"): give for name, give in numbers.items()}

    def values(self, book: Measurements) -> dict[str, str]:
        """Every number as text."""
        return {name: or_not_measured(lambda give=give: give(book)) for name, give in self.numbers.items()}


def or_not_measured(give: Callable[[], str]) -> str:
    """A text for the prose, or that the machine which the page shows has not measured what it needs."""
    text = stored.or_none(give)
    return NOT_MEASURED if text is None or re.search(r"\bnan\b", text) else text


def on_each_machine(say: Callable[[Measurements], str], without: str = "") -> list[str]:
    """What a function says of each machine that the book shows; nothing of one that has not measured it."""
    books = [stored.of(name) for name in stored.listed() if name != without]
    texts = [or_not_measured(lambda book=book: say(book)) for book in books]
    return [text for text in texts if text != NOT_MEASURED]


def title(book: Measurements, found: Sized) -> str:
    """The machine's name, where it has what a page shows. Raises KeyError where it has none of it."""
    stored.measured(found)
    return book.title


A_LOOK = (
    "This page's own measurements are a quick look: configurations shared processes, one run each, so they are not "
    "judged and cannot be sent in. For runs that can, change a parameter in JupyterLab (make lab), or run the book "
    "under another profile (make book PROFILE=full)."
)


def claims(chapter: str | Sequence[Claim], run: Measurements | None = None) -> HTML:
    """What a chapter ("03") asserts, on each machine that the book shows and on this run: verdict and deciding figure.

    A quick look decides nothing, and has no part in it.
    """
    asserted = chapters.of(chapters.of_label(chapter)) if isinstance(chapter, str) else chapter
    rows, found = [], judged(asserted, None if run is None or run.look else run)
    for each in found:
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
    return placed(compare.compare(run.root, str(run.rows["machine"].iloc[0])), "Is this run normal?")


def placed(found: Sequence[compare.Placed], title: str) -> HTML:
    """Stacks of one machine among the book's, in a box."""
    said = [markup.plain(f"{one.stack}: {sentence}.") for one in found for sentence in one.notes]
    rows = [[markup.plain(one.stack), str(one.points), *_placed(one)] for one in found]
    heads = ["", "points", "times expected", "normal", "verdict"]
    note = "Expected is what the book's machines took, at the rates of this one's memory and arithmetic."
    words = "".join(f"<p>{markup.inline(sentence)}</p>" for sentence in (note, *said))
    return HTML(markup.box(title, markup.table(heads, rows) + words))


def _placed(one: compare.Placed) -> list[str]:
    if not one.points:
        return ["", "", one.verdict]
    times = f"{one.times.value:.2f} times"
    return [times, f"{one.times.low:.2f} to {one.times.high:.2f}", f"**{one.verdict}**" if one.off else one.verdict]


def made_by(run_here: Measurements | None = None, *references: str) -> Markdown:
    """The foot of a page: which profile, machines, versions and dates made its numbers.

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
    return Markdown("\n\n".join(lines))


def _dates(rows: pd.DataFrame) -> str:
    days = sorted({rows["started"].min()[:10], rows["started"].max()[:10]})
    return markup.plain(" to ".join(days))


def _versions(rows: pd.DataFrame) -> str:
    return markup.plain("; ".join(sorted(set(rows["versions"].dropna()))))
