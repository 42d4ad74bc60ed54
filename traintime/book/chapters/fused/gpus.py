"""The same LSTM on GPUs: a loop of cells beside cuDNN's one kernel, and what a position costs in each."""

import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters.fused.analysis import KERNELS, POSITIONS, SIZES, position, ways
from traintime.book.claims import Claim, Finding
from traintime.book.stored import ANY, Measurements
from traintime.explain.formula import Fit

LOOP, ONE = KERNELS["loop-of-cells"], KERNELS["cudnn"]
UNITS = 128  # of the network that the prices are read off


def of_machine(book: Measurements) -> pd.DataFrame:
    """The points of a machine's GPU in both ways, with `how`; empty where none was measured."""
    found = book.points(**SIZES, algorithm=ANY, device="gpu", kernel=list(KERNELS))
    return found.assign(how=ways(found))


def everywhere() -> list[Measurements]:
    """Every stored machine whose GPU ran this workload."""
    found = stored.on_gpus(**SIZES, algorithm=ANY, kernel=list(KERNELS))
    return [stored.of(name) for name in sorted(set(found["machine"]))]


def card(book: Measurements) -> str:
    """What the machine's first GPU calls itself."""
    return str(stored.described(book.machine)["gpus"][0]["name"])


def pairs(books: list[Measurements]) -> pd.DataFrame:
    """Both ways side by side: card, stack, units, batch, length, loop_s, kernel_s and ratio, the loop's over the
    kernel's; only where both ran.
    """
    rows = []
    for book in books:
        sizes = ["stack", "units", "batch", "length"]
        wide = of_machine(book).pivot_table("typical_s", sizes, "how", aggfunc="first")
        if {LOOP, ONE} <= set(wide):
            both = wide.dropna(subset=[LOOP, ONE]).reset_index()
            rows += [
                (card(book), row["stack"], *row[sizes[1:]].astype(int), row[LOOP], row[ONE], row[LOOP] / row[ONE])
                for _, row in both.iterrows()
            ]
    return pd.DataFrame(rows, columns=["card", "stack", "units", "batch", "length", "loop_s", "kernel_s", "ratio"])


def prices(books: list[Measurements]) -> dict[tuple[str, str, str], Fit]:
    """What a step, a position and a token cost: (card, stack, way) -> fit of POSITIONS, of the network of 128 units."""
    fits = {}
    for book in books:
        found = of_machine(book)
        for (stack, way), fit in book.lines(found[found["units"] == UNITS], POSITIONS).items():
            fits[card(book), stack, way] = fit
    return fits


def pair_table(found: pd.DataFrame) -> HTML:
    """Milliseconds of a step in both ways. found: as `pairs` gives it."""
    rows = []
    for row in found.itertuples():
        sizes = f"{row.units:,} · {row.batch:,} · {row.length:,}"
        rows.append([row.card, row.stack, sizes, f"{row.loop_s * 1e3:,.1f}", f"{row.kernel_s * 1e3:,.1f}"])
        rows[-1].append(f"{row.ratio:.1f}")
    heads = ["card", "stack", "units · batch · positions", "loop (ms)", "one kernel (ms)", "times as fast"]
    return page.table(heads, rows) if rows else page.nothing()


def price_table(priced: dict[tuple[str, str, str], Fit]) -> HTML:
    """What a position costs on each card in both ways, and how far the formula is off. priced: as `prices` gives it."""
    rows = []
    for (name, stack, way), fit in priced.items():
        costs = [position(fit).text(",.1f", 1e6), fit.interval("c").text(".3f", 1e6)]
        rows.append([name, f"{stack}, {way}", *costs, f"{fit.mean_error:.0%}"])
    heads = ["card", "128 units", "µs a position", "µs a token", "mean error"]
    return page.table(heads, rows) if rows else page.nothing()


def _kernel_gains(book: Measurements) -> Finding:
    """All cards together, on whichever machine asks."""
    ratio = pairs(everywhere())["ratio"]
    if ratio.empty:
        raise KeyError("not measured")
    return Finding(bool(ratio.min() > 5), f"{ratio.min():.1f} to {ratio.max():.1f} times")


CLAIMS = [
    Claim("08.5", "On a GPU cuDNN's kernel is more than five times as fast as a loop of cells.", "S4", _kernel_gains)
]
