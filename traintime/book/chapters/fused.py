"""Chapter 8, the fused LSTM: what a time step costs in each way of running one LSTM, and how much faster others are.

What the other layer learns is in fused_accuracy; what others measured on GPUs is in fused_published.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
from IPython.display import HTML

from traintime.book import page, predictions, stored
from traintime.book.chapters import fused_accuracy, fused_card  # noqa: F401 (their claims are the chapter's, too)
from traintime.book.chapters.fused_published import KERNELS, LOOP, LSTM, POSITIONS, claim
from traintime.book.claims import Finding, above, below, every, every_stack, higher, judged_together, within
from traintime.book.page import Prose
from traintime.book.stored import ANY, Measurements, largest, smallest
from traintime.explain.formula import Fit
from traintime.explain.statistics import Interval
from traintime.measuring import operations
from traintime.point import make_point

BATCHES = [32, 512]
LENGTHS = [10, 50]
OTHER_SWEEPS = ["units", "positions", "faster-loop"]  # of this model at other sizes, for other pages and sections

# The ways of running one LSTM: algorithm -> how a reader sees it. The default is the framework's own loop.
WAYS = {
    "default": LOOP,
    "per-gate": "loop, gate by gate",
    "combined": "loop, all gates at once",
    "unrolled": "unrolled",
    "cell": "RNN(LSTMCell)",
    "apart": "loop, inputs taken apart",
    "native": "fused kernel",
}
FUSED, COMPILED = WAYS["native"], "loop, compiled"
ORDER = [*WAYS.values(), COMPILED, *KERNELS.values()]
TORCH, TENSORFLOW_1 = "2026-torch", ["2017-tensorflow", "2020-tensorflow"]


def ways(rows: pd.DataFrame) -> pd.Series:
    """How each row's LSTM was run, as a reader sees it."""
    if "algorithm" not in rows:  # nothing of this workload
        return pd.Series(index=rows.index, dtype=object)
    names = rows["algorithm"].map(WAYS).where(rows["jit"] != "on", COMPILED)
    return rows["kernel"].map(KERNELS).fillna(names) if "kernel" in rows else names


@functools.cache
def own_sweeps(book: Measurements) -> Measurements:
    """A machine's measurements without the sweeps that train this model at other sizes."""
    return book.only(~book.rows["sweep"].isin(OTHER_SWEEPS))


@functools.cache
def lstm_points(book: Measurements, **fields: Any) -> pd.DataFrame:
    """The sweep's points, with `how`: a stored machine's on its CPU, this run's where it ran; fields: what differs."""
    points = own_sweeps(book).points(**LSTM, **{"algorithm": ANY, "jit": ["auto", "on"], "kernel": ANY} | fields)
    points = points.assign(how=ways(points))
    points = points.sort_values("how", key=lambda how: how.map(ORDER.index), kind="stable")
    order = stored.stack_order(points["stack"])
    return points.sort_values("stack", key=lambda stack: stack.map(order.index), kind="stable", ignore_index=True)


# What a time step costs


@functools.cache
def position_costs(book: Measurements) -> pd.DataFrame:
    """What one more time step takes, at each batch: the slope of a step between the two lengths.

    One row a stack, way and batch: stack, how, batch, position_s with its interval low and high, s.
    """
    rows, more = [], LENGTHS[1] - LENGTHS[0]
    ran = lstm_points(book).dropna(subset="step_s")
    for (stack, how, batch), pair in ran.groupby(["stack", "how", "batch"], sort=False):
        if pair["length"].tolist() == LENGTHS:
            cost = own_sweeps(book).interval(lambda s: (s[1] - s[0]) / more, pair)
            rows.append((stack, how, int(batch), cost.value, cost.low, cost.high))
    return pd.DataFrame(rows, columns=["stack", "how", "batch", "position_s", "low", "high"])


def matmul_floor_s(book: Measurements, batch: int) -> float:
    """Seconds of one more time step's matmuls at the machine's own rate for large ones. KeyError without it."""
    short, long = (make_point("lstm", batch=batch, length=length).sizes.work().flops for length in LENGTHS)
    return (long - short) / (LENGTHS[1] - LENGTHS[0]) / book.rates["matmul_flop_per_s"]


@functools.cache
def operation_costs(book: Measurements) -> pd.DataFrame:
    """What one more time step asks for, as profilers counted it, and what each of those operations takes.

    One row a stack and way: stack, how, once (operations of a step without any position), operations (of one more),
    batch (the smallest) and position_s there, operation_s with low and high, s.
    """
    counts = operations.stored().assign(how=lambda rows: rows["algorithm"].map(WAYS))
    counts = counts.pivot_table("operations", ["stack", "how"], "length", sort=False).reindex(columns=LENGTHS)
    each = (counts[LENGTHS[1]] - counts[LENGTHS[0]]) / (LENGTHS[1] - LENGTHS[0])
    times = stored.chosen(position_costs(book), batch=BATCHES[0]).set_index(["stack", "how"])
    table = pd.DataFrame({"once": counts[LENGTHS[0]] - each * LENGTHS[0], "operations": each}).join(times)
    table["operation_s"] = table["position_s"]
    priced = ["operation_s", "low", "high"]
    table[priced] = table[priced].div(each.where(each != 0), axis=0)  # one operation for the chain: none a position
    return table.reset_index()


def of_loops(costs: pd.DataFrame, value: str) -> dict[str, Interval]:
    """A cost of Keras' loop by stack. costs: rows of `position_costs` of one batch, or of `operation_costs`."""
    rows = stored.chosen(costs, how=LOOP).dropna(subset=value)
    return {row["stack"]: stored.interval(row, value) for _, row in rows.iterrows()}


def loop_positions(book: Measurements) -> dict[str, Interval]:
    """Seconds that one more time step of Keras' loop takes with the fewest sequences, by stack."""
    return of_loops(stored.chosen(position_costs(book), batch=BATCHES[0]), "position_s")


@functools.cache
def prices(book: Measurements) -> dict[tuple[str, str], Fit]:
    """What a step, a time step and a token cost on each stack in each way, under an allocator that keeps its memory:
    (stack, way) -> fit of POSITIONS, the loops first.
    """
    fits = book.lines(lstm_points(book, allocator="tcmalloc"), POSITIONS)
    return {key: fits[key] for key in sorted(fits, key=lambda key: ORDER.index(key[1]))}


def loop_errors(book: Measurements) -> dict[str, Interval]:
    """How far three costs are from the steps of a loop on average, a share without an interval, by stack."""
    return {stack: Interval(fit.mean_error) for (stack, how), fit in prices(book).items() if how == LOOP}


def _torch_costs_most(costs: Mapping[str, Interval], spec: str, unit: str) -> Finding:
    """Whether torch's cost lies above that of every other stack. Raises KeyError with fewer than three stacks."""
    others = {stack: cost for stack, cost in costs.items() if stack != TORCH}
    if len(others) < 2:
        raise KeyError("fewer than three stacks")
    torch, most = costs[TORCH], largest(others)
    figure = f"{TORCH} {torch.text(spec, 1e6)} µs {unit}, {most} {others[most].text(spec, 1e6)}"
    return Finding(every(*(higher(torch, other) for other in others.values())), figure)


@claim(
    "08.4",
    "A time step of Keras' loop, with few sequences, costs most on torch, where Python runs each of them.",
    says="does not hold",
)
def torch_positions_cost_most(book: Measurements) -> Finding:
    return _torch_costs_most(loop_positions(book), ",.0f", "per time step")


@claim("08.12", "An operation of Keras' loop takes longest on torch, where Python starts each of them.")
def torch_operations_cost_most(book: Measurements) -> Finding:
    return _torch_costs_most(of_loops(operation_costs(book), "operation_s"), ".0f", "per operation")


@claim(
    "08.11",
    "Under tcmalloc three costs, per step, per time step and per token, reproduce the four sizes within 10 % on "
    "average, on four of five stacks.",
)
def three_prices(book: Measurements) -> Finding:
    errors = loop_errors(book)
    if len(errors) < 5:
        raise KeyError("fewer than five loops were measured")
    good, worst = sum(error.value <= 0.1 for error in errors.values()), largest(errors)
    most = f"the worst is {errors[worst].value:.0%}, on {worst}"
    return Finding(good >= 4, f"on {good} of {len(errors)} stacks within 10 % on average; {most}")


# A loop that goes over everything at each time step: in Keras 3.15 the loop on torch slices the inputs' matmul at each
# time step; the gradient of each slice is as large as all of them (torch's SelectBackward), so the backward pass grows
# with the square of the length.

MANY = {"workload": "lstm", "batch": 64}  # of these steps alone, so that the chapter's other sizes are others
ENDS = (50, 200)  # time steps between which the growth is measured


@functools.cache
def over_positions(book: Measurements) -> pd.DataFrame:
    """Steps over the positions, one row a stack, way (`how`) and length; empty where nobody took a loop apart."""
    points = book.points(**MANY, length=ANY, algorithm=ANY)
    return points.assign(how=ways(points)) if "apart" in set(points.get("algorithm", [])) else points.iloc[:0]


def growth(book: Measurements, stack: str, algorithm: str = "default", ends: tuple[int, int] = ENDS) -> Interval:
    """Times a step takes longer with the larger number of positions. Raises KeyError where it was not measured."""
    sides = book.sides(*({"length": length} for length in ends), stack=stack, algorithm=algorithm, **MANY)
    return sides.interval(lambda s: s[1] / s[0])


def gain_over_loop(book: Measurements, algorithm: str) -> Interval:
    """Times as fast as Keras' loop on torch another way is, at the most positions. Raises KeyError without both."""
    ways = ({"algorithm": name} for name in ("default", algorithm))
    return book.sides(*ways, stack=TORCH, length=ENDS[1], **MANY).interval(lambda s: s[0] / s[1])


positions_claim = functools.partial(claim, on=lambda: stored.having(stored.of(), over_positions))


@positions_claim(
    "08.13",
    "On torch the time of Keras' loop is far from proportional: 200 time steps take more than six times as long as 50.",
)
def loop_is_not_proportional(book: Measurements) -> Finding:
    return every_stack({TORCH: growth(book, TORCH)}, above(6), unit="times")


@positions_claim(
    "08.14",
    "With the inputs taken apart before the loop, 200 time steps take less than five times as long as 50.",
)
def apart_is_proportional(book: Measurements) -> Finding:
    return every_stack({TORCH: growth(book, TORCH, "apart")}, below(5), unit="times")


@positions_claim("08.15", "Taking them apart makes a step of 200 time steps on torch at least three times as fast.")
def apart_gains(book: Measurements) -> Finding:
    return every_stack({TORCH: gain_over_loop(book, "apart")}, above(3), unit="times")


@positions_claim(
    "08.16",
    "Keras' RNN around an LSTMCell makes a step of 200 time steps on torch at least one and a half times as fast.",
)
def cell_gains(book: Measurements) -> Finding:
    return every_stack({TORCH: gain_over_loop(book, "cell")}, above(1.5), unit="times")


# The allocator


@functools.cache
def allocator_gains(book: Measurements) -> pd.DataFrame:
    """A loop's step under glibc over that under tcmalloc in the same rounds: Measurements.ratios by stack and size."""
    runs = own_sweeps(book).invocations(**LSTM, algorithm="default", allocator=["glibc", "tcmalloc"])
    ratios = book.ratios(runs, [("glibc", "tcmalloc")], of="allocator", against="batch")
    return ratios[ratios["sweep"] != ""].reset_index(drop=True)


def tcmalloc_gain(book: Measurements, batch: int) -> Interval:
    """Times as fast as under glibc torch's loop is under tcmalloc."""
    return stored.ratio_by_stack(allocator_gains(book), [TORCH], batch=batch, length=LENGTHS[1])[TORCH]


@claim(
    "08.10",
    "With 512 sequences of 50 time steps torch's loop takes more than twice as long under glibc as under tcmalloc; "
    "with 32 sequences the two are within a quarter of each other.",
    says="inconclusive",
)
def large_loop_pays_the_allocator(book: Measurements) -> Finding:
    small, large = ({f"at batch {batch}": tcmalloc_gain(book, batch)} for batch in BATCHES)
    return judged_together(every_stack(large, above(2)), every_stack(small, within(0.75, 1.25)))


# What the other ways gain


@functools.cache
def gains(book: Measurements) -> pd.DataFrame:
    """The framework's loop over each other way of running it, by stack, way, batch and length (Measurements.ratios):
    `below` is the other way; above 1 it is the faster one.
    """
    runs = own_sweeps(book).invocations(**LSTM, algorithm=ANY, jit=["auto", "on"])
    runs = runs.assign(algorithm=ways(runs), jit="auto")
    return book.ratios(runs, [(LOOP, way) for way in ORDER if way != LOOP], of="algorithm", against="batch")


def gain_of(book: Measurements, way: str, batch: int, length: int = LENGTHS[1]) -> dict[str, Interval]:
    """Times as fast as the loop a way is, by stack."""
    return stored.ratio_by_stack(gains(book), below=way, batch=batch, length=length)


@claim("08.1", "At batch 32 and 50 time steps torch's fused kernel is more than twice as fast as Keras' loop on torch.")
def fused_gains_on_torch(book: Measurements) -> Finding:
    return every_stack({TORCH: gain_of(book, FUSED, 32)[TORCH]}, above(2))


@claim(
    "08.2", "A fused kernel gains more at batch 32 than at batch 512, on every stack with one.", says="does not hold"
)
def small_batches_gain_more(book: Measurements) -> Finding:
    small, large = (gain_of(book, FUSED, batch) for batch in BATCHES)
    figure = "; ".join(f"{stack} {small[stack].text()} and {large[stack].text()}" for stack in small)
    return Finding(every(*(higher(small[stack], large[stack]) for stack in small)), figure)


@claim(
    "08.3",
    "On a CPU TensorFlow 1's fused cell is less than 1.5 times as fast as Keras' loop, at every size.",
    says="inconclusive",
)
def old_cell_gains_little(book: Measurements) -> Finding:
    ratios = {
        f"{stack} at batch {batch}, length {length}": gain
        for batch in BATCHES
        for length in LENGTHS
        for stack, gain in gain_of(book, FUSED, batch, length).items()
        if stack in TENSORFLOW_1
    }
    most = largest(ratios)
    return Finding(every(*map(below(1.5), ratios.values())), f"most: {most}, {ratios[most].text()}")


# What the page shows


def step_table(points: pd.DataFrame, fold: str = "") -> HTML:
    """Milliseconds of a step, a row a stack and way, a column a batch and length. points: as `lstm_points` gives it."""
    sizes = sorted({(row.batch, row.length) for row in points.itertuples()})
    rows = []
    for (stack, way), group in points.groupby(["stack", "how"], sort=False):
        at = {(row.batch, row.length): row.step_s for row in group.itertuples()}
        rows.append([stack, way, *(f"{at[size] * 1e3:,.1f}" if at.get(size, 0) > 0 else "" for size in sizes)])
    heads = ["stack", "way", *(f"{batch} · {length}" for batch, length in sizes)]
    return page.table(heads, rows, fold=fold) if rows else page.nothing()


def gain_table(ratios: pd.DataFrame, head: str = "instead of the loop", fold: str = "") -> HTML:
    """How many times as fast another way is. ratios: as `gains` or `allocator_gains` give them."""
    return page.columns(
        ratios,
        fold=fold,
        stack="stack",
        below=head,
        size=("batch · time steps", lambda row: f"{row['batch']} · {row['length']}"),
        gain=("times as fast", page.span),
        verdict=("verdict", lambda row: f"{row['faster']} is faster" if pd.notna(row["faster"]) else row["reason"]),
    )


def _faults(book: Measurements, allocator: str) -> str:
    """Page faults a step of torch's loop with the most sequences."""
    runs = book.invocations(**LSTM | {"batch": BATCHES[1], "length": LENGTHS[1]}, stack=TORCH, allocator=allocator)
    if (faults := runs["faults_a_step"].dropna()).empty:
        raise KeyError("not measured")
    return f"{faults.mean():,.0f}"


def _most_operations(book: Measurements) -> str:
    """The loop with the most operations per time step: "2017-tensorflow, with 319"."""
    most = stored.chosen(operation_costs(book), how=LOOP).dropna(subset="operation_s").nlargest(1, "operations").iloc[0]
    return f"{most['stack']}, with {most['operations']:.0f}"


def _over_floor(book: Measurements, extreme: Callable[[Mapping[str, Interval]], str]) -> str:
    """How many times the matmuls' own time a time step of a loop takes with few sequences, on one of the stacks."""
    costs = loop_positions(book)
    return f"{costs[extreme(costs)].value / matmul_floor_s(book, BATCHES[0]):.0f}"


PROSE = Prose(
    "fus",
    there=lambda book: page.title(book, lstm_points(book)),
    most_stack=lambda book: largest(loop_positions(book)),
    least_stack=lambda book: smallest(loop_positions(book)),
    most=lambda book: f"{loop_positions(book)[largest(loop_positions(book))].value * 1e6:,.0f} µs",
    least=lambda book: f"{loop_positions(book)[smallest(loop_positions(book))].value * 1e6:,.0f} µs",
    most_over=lambda book: _over_floor(book, largest),
    least_over=lambda book: _over_floor(book, smallest),
    torch_operations=lambda book: f"{stored.row(operation_costs(book), stack=TORCH, how=LOOP)['operations']:.0f}",
    torch_operation=lambda book: f"{of_loops(operation_costs(book), 'operation_s')[TORCH].value * 1e6:.0f} µs",
    most_operations=_most_operations,
    kept=lambda book: tcmalloc_gain(book, BATCHES[1]).text(),
    faults_glibc=lambda book: _faults(book, "glibc"),
    faults_kept=lambda book: _faults(book, "tcmalloc"),
    predicted_torch=lambda book: predictions.told("08", "4"),
    predicted_alone=lambda book: predictions.told("08", "5"),
    torch_small=lambda book: gain_of(book, FUSED, BATCHES[0])[TORCH].text(),
    torch_large=lambda book: gain_of(book, FUSED, BATCHES[1])[TORCH].text(),
)
ALONG = Prose(  # of the machine that ran the loop over the positions
    "fus-along",
    there=lambda book: page.title(book, over_positions(book)),
    loop=lambda book: growth(book, TORCH).text(),
    apart=lambda book: growth(book, TORCH, "apart").text(),
    cell=lambda book: gain_over_loop(book, "cell").text(),
    one=lambda book: gain_over_loop(book, "native").text(),
)
