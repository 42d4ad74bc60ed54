"""What the fused LSTM claims, and how each claim is judged on a machine."""

import functools
from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from traintime.book import stored
from traintime.book.chapters.fused import along, gpus, others
from traintime.book.chapters.fused.analysis import (
    BATCHES,
    FEWEST,
    LATE,
    LENGTHS,
    batches,
    by_position,
    causes,
    counted,
    gains,
    kept,
    kept_gains,
    points,
    prices,
    trials,
)
from traintime.book.claims import Claim, Finding, above, below, every, higher, span, within
from traintime.book.stored import Measurements
from traintime.explain.statistics import Interval

THREE_PERCENT = 0.03  # what the document saw the accuracy fall by
OUTSIDE = "gates, dropout, bias"  # what differs from cuDNN's layer elsewhere
ALONE = ["hard gates", "recurrent dropout", "a forget bias"]  # causes of which each is one setting, beside the mask


def _some(found: pd.DataFrame) -> pd.DataFrame:
    if found.empty:
        raise KeyError("not measured")
    return found


def _gain(stack: str, way: str, **sizes: int) -> Callable[[Measurements], pd.DataFrame]:
    """The rows of `gains` of one stack and way, at these sizes."""

    def find(book: Measurements) -> pd.DataFrame:
        found = gains(book)
        found = found[(found["stack"] == stack) & (found["below"] == way)]
        for name, value in sizes.items():
            found = found[found[name] == value]
        return _some(found)

    return find


def _torch_gains(book: Measurements) -> Finding:
    row = _gain("2026-torch", "one operation", batch=32, length=50)(book).iloc[0]
    holds = None if row["reason"] == "not interleaved" else above(stored.interval(row), 2)
    return Finding(holds, f"{span(row)}, {row['reason']}")


def _small_batches_gain_more(book: Measurements) -> Finding:
    found = _some(gains(book))
    found = found[found["below"] == "one operation"]
    parts, shown = [], []
    for stack, rows in found[found["length"] == found["length"].max()].groupby("stack", sort=False):
        rows = rows.sort_values("batch")
        small, large = stored.interval(rows.iloc[0]), stored.interval(rows.iloc[-1])
        parts.append(higher(small, large))
        shown.append(f"{stack} {small.text()} and {large.text()}")
    return Finding(every(*parts), "; ".join(shown))


def _old_cell_gains_little(book: Measurements) -> Finding:
    found = gains(book)
    old = found["stack"].isin(["2017-tensorflow", "2020-tensorflow"])
    found = _some(found[old & (found["below"] == "one operation")])
    holds = every(*(below(stored.interval(row), 1.5) for _, row in found.iterrows()))
    most = found.loc[found["ratio"].idxmax()]
    return Finding(holds, f"most: {most['stack']} {span(most)} at batch {most['batch']}, length {most['length']}")


def _torch_pays_most(book: Measurements) -> Finding:
    found = by_position(book, points(book))
    found = found[(found["how"] == "loop") & (found["batch"] == BATCHES[0])].set_index("stack")
    if "2026-torch" not in found.index or len(found) < 3:
        raise KeyError("fewer than three loops were measured")
    loops = {str(stack): stored.interval(row, "position_s") for stack, row in found.iterrows()}
    torch = loops.pop("2026-torch")
    dearest = max(loops, key=lambda stack: loops[stack].value)
    shown = f"2026-torch {torch.text(',.0f', 1e6)} µs a position, {dearest} {loops[dearest].text(',.0f', 1e6)}"
    return Finding(every(*(higher(torch, one) for one in loops.values())), shown)


def _torch_pays_most_each(book: Measurements) -> Finding:
    found = counted(by_position(book, points(book))).dropna(subset="operation_s")
    found = found[found["how"] == "loop"].set_index("stack")
    if "2026-torch" not in found.index or len(found) < 3:
        raise KeyError("fewer than three loops were counted and measured")
    costs = {str(stack): stored.interval(row, "operation_s") for stack, row in found.iterrows()}
    torch = costs.pop("2026-torch")
    dearest = max(costs, key=lambda stack: costs[stack].value)
    shown = f"2026-torch {torch.text('.0f', 1e6)} µs an operation, {dearest} {costs[dearest].text('.0f', 1e6)}"
    return Finding(every(*(higher(torch, one) for one in costs.values())), shown)


def _large_loop_pays_the_allocator(book: Measurements) -> Finding:
    found = kept_gains(book)
    found = _some(found[(found["stack"] == "2026-torch") & (found["length"] == LENGTHS[1])]).set_index("batch")
    small, large = (found.loc[batch] for batch in BATCHES)
    shown = f"{span(large)} times as fast at {BATCHES[1]}, {span(small)} at {BATCHES[0]}"
    return Finding(every(above(stored.interval(large), 2), within(stored.interval(small), 0.75, 1.25)), shown)


def _three_prices(book: Measurements) -> Finding:
    fits = prices(book, kept(book))
    errors = {stack: fit.mean_error for (stack, way), fit in fits.items() if way == "loop"}
    if len(errors) < 5:
        raise KeyError("fewer than five loops were measured")
    good = sum(error <= 0.1 for error in errors.values())
    worst = max(errors, key=lambda stack: errors[stack])
    return Finding(good >= 4, f"{good} of {len(errors)} stacks; {errors[worst]:.0%} on {worst} at most")


def _once(claim: Claim) -> Claim:
    """The same claim, judged for the chapter's own machine alone: the figures of others are of no machine of ours."""

    def find(book: Measurements) -> Finding | None:
        return claim.find(book) if book.machine == _its_own() else None

    return replace(claim, find=find)


def _learned(book: Measurements) -> pd.DataFrame:
    """The trainings, for the chapter's own machine alone: what is learned depends on none, and is no second witness."""
    if book.machine != _its_own():
        raise KeyError(book.machine)
    return trials()


@functools.cache  # many claims ask, on each machine
def _its_own() -> str:
    return stored.having(stored.of(), points).machine


def _of_cause(book: Measurements, task: str, cause: str) -> pd.Series:
    found = causes(_learned(book))
    row = found[(found["task"] == task) & (found["cause"] == cause) & (found["seeds"] >= FEWEST)]
    return _some(row).iloc[0]


def _interval(row: pd.Series) -> Interval:
    return Interval(row["difference"], row["low"], row["high"])


def _no_cause_alone(book: Measurements) -> Finding:
    found = _some(causes(_learned(book)))
    # As it was foretold: of the trainings at the usual rate.
    found = found[(found["seeds"] >= FEWEST) & found["cause"].isin(ALONE) & (found["task"] != LATE)]
    parts = [
        part
        for _, row in _some(found).iterrows()
        for part in (below(_interval(row), THREE_PERCENT), above(_interval(row), -THREE_PERCENT))
    ]
    far = found.loc[found["difference"].abs().idxmax()]
    shown = f"farthest: {far['cause']} on {far['task']}, {_interval(far).text('+.1f', 100)} points"
    return Finding(every(*parts), shown)


def _padding_hurts(book: Measurements) -> Finding:
    row = _of_cause(book, "padded", "a mask")
    return Finding(below(_interval(row), 0), f"{_interval(row).text('+.1f', 100)} points, {row['seeds']} seeds a side")


def _all_together(book: Measurements) -> Finding:
    row = _of_cause(book, "mnist1d", "gates and dropout")
    shown = f"{_interval(row).text('+.1f', 100)} points; one seed to the next {row['spread'] * 100:.1f}"
    return Finding(below(_interval(row), -THREE_PERCENT), shown)


def _all_together_gains(book: Measurements) -> Finding:
    row = _of_cause(book, "mnist1d", "gates and dropout")
    return Finding(above(_interval(row), THREE_PERCENT), f"{_interval(row).text('+.1f', 100)} points")


def _moves_less_when_trained_out(book: Measurements) -> Finding:
    early, late = (_interval(_of_cause(book, task, "gates and dropout")) for task in ("mnist1d", LATE))
    shown = f"{early.text('+.1f', 100)} points at the usual rate, {late.text('+.1f', 100)} at 0.003"
    return Finding(higher(_size(early).scaled(0.5), _size(late)), shown)


def _size(change: Interval) -> Interval:
    """How far a change is from none, in either direction."""
    ends = sorted((abs(change.low), abs(change.high)))
    return Interval(abs(change.value), 0.0 if change.low < 0 < change.high else ends[0], ends[1])


def _costs_when_trained_out(book: Measurements) -> Finding:
    keras, elsewhere = (_interval(_of_cause(book, LATE, which)) for which in ("gates and dropout", OUTSIDE))
    shown = f"{keras.text('+.1f', 100)} points in Keras, {elsewhere.text('+.1f', 100)} where the bias starts at 0"
    return Finding(every(below(keras, 0), below(elsewhere, 0)), shown)


def _padding_is_fatal_without_bias(book: Measurements) -> Finding:
    row = _of_cause(book, "padded", "a mask, no bias in either")
    return Finding(below(_interval(row), -0.3), f"{_interval(row).text('+.1f', 100)} points")


def _large_batches_learn_less(book: Measurements) -> Finding:
    small, large, shown = _ends(book, "equal epochs, rate fixed", 100)
    return Finding(higher(large, small), shown)


def _small_batches_learn_less_a_step(book: Measurements) -> Finding:
    small, large, shown = _ends(book, "equal steps, rate fixed")
    return Finding(higher(small, large), shown)


def _ends(book: Measurements, way: str, least: int = 1) -> tuple[Interval, Interval, str]:
    """Test losses of the smallest batch of at least so many and of the largest, and both in words."""
    found = batches(_learned(book))
    rows = found[(found["way"] == way) & (found["batch"] >= least)].sort_values("batch")
    if len(rows) < 2:
        raise KeyError("not trained")
    small, large = (
        Interval(row["loss"], row["loss_low"], row["loss_high"]) for _, row in rows.iloc[[0, -1]].iterrows()
    )
    sizes = rows["batch"].iloc[[0, -1]].tolist()
    return small, large, f"loss {small.text()} at {sizes[0]}, {large.text()} at {sizes[1]}"


CLAIMS = [
    Claim(
        "08.1",
        "At batch 32 and 50 positions torch's one operation is more than twice as fast as Keras' loop on torch.",
        "ours",
        _torch_gains,
    ),
    Claim(
        "08.2",
        "One operation gains more at batch 32 than at batch 512, on every stack that has one.",
        "ours",
        _small_batches_gain_more,
    ),
    Claim(
        "08.3",
        "On a CPU TensorFlow 1's fused cell is less than 1.5 times as fast as Keras' loop, at every size.",
        "ours",
        _old_cell_gains_little,
    ),
    Claim(
        "08.4",
        "A position of Keras' loop, however few samples it has, costs most on torch, where Python runs each of them.",
        "ours",
        _torch_pays_most,
    ),
    *gpus.CLAIMS,
    Claim(
        "08.6",
        "Neither the gates nor recurrent dropout nor the forget gate's bias alone moves the accuracy by three points.",
        "ours",
        _no_cause_alone,
    ),
    Claim(
        "08.7",
        "Reading the padding that a mask would skip costs accuracy.",
        "ours",
        _padding_hurts,
    ),
    Claim(
        "08.8",
        "All that differs in Keras, taken together, costs CuDNNLSTM more than three points of accuracy on sequences "
        "without padding.",
        "S4",
        _all_together,
    ),
    Claim(
        "08.9",
        "At equal epochs and an unchanged learning rate a batch of 2,048 ends with a higher test loss than one of 100.",
        "S4",
        _large_batches_learn_less,
    ),
    Claim(
        "08.17",
        "A smaller batch raises the loss: at an equal number of steps and an unchanged learning rate one of 16 ends "
        "with a higher test loss than one of 2,048.",
        "S4",
        _small_batches_learn_less_a_step,
    ),
    Claim(
        "08.10",
        "With 512 samples and 50 positions torch's loop takes more than twice as long under glibc as under tcmalloc; "
        "with 32 samples the two lie within a quarter.",
        "ours",
        _large_loop_pays_the_allocator,
    ),
    Claim(
        "08.11",
        "Under tcmalloc three prices, of a step, a position and a token, give the four sizes back within 10 % on "
        "average, on four of five stacks.",
        "ours",
        _three_prices,
    ),
    Claim(
        "08.12",
        "One operation of Keras' loop costs most on torch, where Python asks for each.",
        "ours",
        _torch_pays_most_each,
    ),
    *along.CLAIMS,
    Claim(
        "08.18",
        "With the forget gate's bias at 1 in both, as in Keras, hard gates and recurrent dropout together cost LSTM "
        "more than three points on MNIST-1D: CuDNNLSTM's accuracy rises.",
        "ours",
        _all_together_gains,
    ),
    Claim(
        "08.19",
        "At three times the usual rate, where the network learns most of what it can, both together move the accuracy "
        "by less than half as much.",
        "ours",
        _moves_less_when_trained_out,
    ),
    Claim(
        "08.21",
        "At three times the usual rate all that differs, without padding, costs CuDNNLSTM accuracy, in Keras and where "
        "its forget gate starts at 0.",
        "S4",
        _costs_when_trained_out,
    ),
    Claim(
        "08.20",
        "With the forget gate's bias at 0, reading the padding that a mask would skip costs more than thirty points.",
        "ours",
        _padding_is_fatal_without_bias,
    ),
    *map(_once, others.CLAIMS),
]
