"""What the page of the fused LSTM shows: tables, and the numbers of its prose."""

from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd
from IPython.display import HTML

from traintime.book import external, page, stored
from traintime.book.chapters.fused import along, others
from traintime.book.chapters.fused.analysis import (
    BATCHES,
    FEWEST,
    LATE,
    LENGTHS,
    ORDER,
    SIZES,
    batches,
    by_position,
    causes,
    counted,
    floor_s,
    gains,
    kept,
    kept_gains,
    points,
    prices,
    trials,
)
from traintime.book.stored import Measurements
from traintime.explain import formula
from traintime.explain.statistics import Interval


def step_table(found: pd.DataFrame, fold: str = "") -> HTML:
    """Milliseconds of a step, a row a stack and way, a column a batch and length. found: as `points` gives it."""
    sizes = sorted({(row.batch, row.length) for row in found.itertuples()})
    rows = []
    for (stack, way), group in found.groupby(["stack", "how"], sort=False):
        at = {(row.batch, row.length): row.step_s for row in group.itertuples()}
        rows.append([stack, way, *(f"{at[size] * 1e3:,.1f}" if at.get(size, 0) > 0 else "" for size in sizes)])
    heads = ["stack", "way", *(f"{batch} · {length}" for batch, length in sizes)]
    return page.table(heads, rows, fold=fold) if rows else page.nothing()


def price_table(priced: Mapping[tuple[str, str], formula.Fit]) -> HTML:
    """What a step, a position and a token cost on each stack in each way, and how far the formula is off."""
    rows = []
    for (stack, way), fit in priced.items():
        cells = [fit.interval(name).text(spec, 1e6) for name, spec in (("a", ",.0f"), ("l", ",.0f"), ("c", ".2f"))]
        rows.append([stack if way == ORDER[0] else f"{stack}, {way}", *cells, f"{fit.mean_error:.0%}"])
    heads = ["under tcmalloc", "µs a step", "µs a position", "µs a token", "mean error"]
    return page.table(heads, rows) if rows else page.nothing()


def counted_table(found: pd.DataFrame) -> HTML:
    """How many operations a position asks for, and what each of them takes. found: as `counted` gives it."""
    rows = []
    for row in found.itertuples():
        each = "" if pd.isna(row.operation_s) else Interval(row.operation_s, row.low, row.high).text(".0f", 1e6)
        name = row.stack if row.how == ORDER[0] else f"{row.stack}, {row.how}"
        rows.append([name, f"{row.once:,.0f}", f"{row.operations:,.0f}", each])
    heads = ["operations", "a step", "each position", "µs an operation"]
    return page.table(heads, rows) if rows else page.nothing()


def gain_table(found: pd.DataFrame, head: str = "instead of the loop", fold: str = "") -> HTML:
    """How many times as fast another way is. found: as `gains` or `kept_gains` give it."""
    rows = []
    for _, row in found.iterrows():
        verdict = row["reason"] if pd.isna(row["faster"]) else f"{row['faster']} is faster"
        rows.append([row["stack"], row["below"], f"{row['batch']} · {row['length']}", page.span(row), verdict])
    heads = ["stack", head, "batch · positions", "times as fast", "verdict"]
    return page.table(heads, rows, fold=fold) if rows else page.nothing()


def cause_table(found: pd.DataFrame) -> HTML:
    """What each difference between the two layers does to the accuracy. found: as `causes` gives it."""
    rows = []
    for row in found.itertuples():
        points = Interval(row.difference, row.low, row.high).text("+.1f", 100)
        means = f"{row.layer:.1%} → {row.cudnn:.1%}"
        rows.append([row.task, row.cause, means, points, f"{row.spread * 100:.1f}", str(row.seeds)])
    heads = ["data", "LSTM has", "LSTM → CuDNNLSTM", "points gained", "from seed to seed", "seeds"]
    return page.table(heads, rows) if rows else page.nothing("`traintime learn` does it.")


# What the sentences say of other ways than the loop: fus-STACK-WAY-small and -large, at the longer of the lengths.
GAINS = [
    ("2026-torch", "one operation"),
    ("2017-tensorflow", "one operation"),
    ("2020-tensorflow", "one operation"),
    ("2026-jax", "written out"),
    ("2026-tensorflow", "loop, compiled"),
]

# What the sentences say of accuracy: name -> data and cause.
LEARNED = {
    "together": ("mnist1d", "gates and dropout"),
    "together-late": (LATE, "gates and dropout"),
    "masked": ("padded", "a mask"),
    "masked-without": ("padded", "a mask, no bias in either"),
    "outside-late": (LATE, "gates, dropout, bias"),
}


def values(book: Measurements) -> dict[str, str]:
    """Every number that the chapter's sentences name; one that a machine cannot give says so."""
    found = points(book)
    priced, gained, learned = prices(book, kept(book)), gains(book), causes(trials())
    freed, each = kept_gains(book), by_position(book, found)
    asked_for = counted(each).set_index(["stack", "how"])
    loops = each[(each["how"] == ORDER[0]) & (each["batch"] == BATCHES[0])].sort_values("position_s")

    def loop(place: int) -> Callable[[], str]:
        return lambda: f"{loops['position_s'].iloc[place] * 1e6:,.0f} µs"

    def gain(stack: str, way: str, batch: int, length: int) -> str:
        rows = gained[(gained["stack"] == stack) & (gained["below"] == way)]
        rows = rows[(rows["batch"] == batch) & (rows["length"] == length)]
        return page.span(rows.iloc[0])

    def faults(batch: int, allocator: str) -> Callable[[], str]:
        sizes = SIZES | {"stack": "2026-torch", "batch": batch, "length": LENGTHS[1], "allocator": allocator}
        counts = book.invocations(**sizes).get("faults_a_step", pd.Series(dtype=float)).dropna()
        return lambda: f"{counts.mean():,.0f}" if len(counts) else _missing()

    asked: dict[str, Callable[[], str]] = {
        "there": lambda: page.title(book, found),
        "most-stack": lambda: loops["stack"].iloc[-1],
        "least-stack": lambda: loops["stack"].iloc[0],
        "most": loop(-1),
        "least": loop(0),
        "torch-operations": lambda: f"{asked_for.loc[('2026-torch', ORDER[0]), 'operations']:.0f}",
        "torch-operation": lambda: f"{asked_for.loc[('2026-torch', ORDER[0]), 'operation_s'] * 1e6:.0f} µs",
        "most-operations": lambda: _most_operations(asked_for),
        "floor": lambda: f"{floor_s(book, BATCHES[0]) * 1e6:,.0f} µs",
        "prices": lambda: _how_well(priced),
        "kept": lambda: page.span(freed[(freed["stack"] == "2026-torch") & (freed["batch"] == BATCHES[1])].iloc[0]),
        "faults-glibc": faults(BATCHES[1], "glibc"),
        "faults-kept": faults(BATCHES[1], "tcmalloc"),
        "spread": lambda: _spread(learned),
        **{name: _points_of(learned, task, cause) for name, (task, cause) in LEARNED.items()},
        "published": lambda: f"{external.accuracies('MNIST-1D')['GRU']:.0%}",
        "reached": lambda: f"{_of(learned, 'mnist1d', 'gates and dropout')['cudnn']:.0%}",
        "reached-late": lambda: f"{_of(learned, LATE, 'gates and dropout')['cudnn']:.0%}",
        "batches": lambda: _what_batches_do(batches(trials())),
    }
    for stack, way in GAINS:
        for size, batch in zip(("small", "large"), BATCHES, strict=True):
            name = f"{stack}-{way.replace(', ', '-').replace(' ', '-')}-{size}"
            asked[name] = partial(gain, stack, way, batch, LENGTHS[1])
    given = {f"fus-{name}": page.or_not_measured(give) for name, give in asked.items()}
    given |= along.values(stored.having(book, along.over_positions))
    return given | others.values()


def _most_operations(found: pd.DataFrame) -> str:
    """The loop with the most operations a position, and what one takes: "2017-tensorflow, 319 of 5 µs"."""
    loops = found.xs(ORDER[0], level="how").dropna(subset="operation_s")
    if loops.empty:
        raise KeyError("not measured")
    most = loops["operations"].idxmax()
    row = loops.loc[most]
    return f"{most}, {row['operations']:.0f} of {row['operation_s'] * 1e6:.0f} µs"


def _how_well(priced: Mapping[tuple[str, str], formula.Fit]) -> str:
    """How well three prices give the loops back: "on 3 of 5 stacks within 10 % on average; 19 % on 2026-torch"."""
    errors = {stack: fit.mean_error for (stack, way), fit in priced.items() if way == ORDER[0]}
    if not errors:
        raise KeyError("not measured")
    worst = max(errors, key=lambda stack: errors[stack])
    good = sum(error <= 0.1 for error in errors.values())
    return f"on {good} of {len(errors)} stacks within 10 % on average; the worst is {errors[worst]:.0%}, on {worst}"


LATER = "This is not measured yet: `traintime learn` trains it, from {} starts each, in some hours."


def _spread(learned: pd.DataFrame) -> str:
    """How far apart the same network ends from start to start, points; of the settings with enough starts."""
    known = learned[(learned["seeds"] >= FEWEST) & (learned["task"] != "padded")]  # there all end alike
    if known.empty:
        return "some"
    return f"{known['spread'].min() * 100:.1f} to {known['spread'].max() * 100:.1f}"


def _of(learned: pd.DataFrame, task: str, cause: str) -> pd.Series:
    """The row of a comparison that has enough starts. Raises KeyError where there are too few."""
    known = learned[(learned["task"] == task) & (learned["cause"] == cause) & (learned["seeds"] >= FEWEST)]
    if known.empty:
        raise KeyError(f"{task} {cause}")
    return known.iloc[0]


def _points_of(learned: pd.DataFrame, task: str, cause: str) -> Callable[[], str]:
    """What CuDNNLSTM's way gains in a comparison, points."""

    def give() -> str:
        row = _of(learned, task, cause)
        return Interval(row["difference"], row["low"], row["high"]).text("+.1f", 100)

    return give


def _what_batches_do(found: pd.DataFrame) -> str:
    """The sentences on the loss over the batch: the best batch of each way, of those with more than one."""
    said = []
    for way, rows in found.groupby("way", sort=False):
        if len(rows) > 1:
            best = rows.loc[rows["loss"].idxmin()]
            worst = rows.loc[rows["loss"].idxmax()]
            least, most = (f"{row['loss']:.2f} with {row['batch']:,}" for row in (best, worst))
            said.append(f"at {way}, from {least} to {most}")
    return f"The loss on the test data runs, {'; '.join(said)}." if said else LATER.format(FEWEST)


def _missing() -> str:
    raise KeyError("not measured")
