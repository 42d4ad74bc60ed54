"""Chapter 8, our own card: Keras 3's loop and cuDNN's kernel in the same rounds on a GPU of today."""

import functools

import pandas as pd

from traintime.book import claims, external, stored
from traintime.book.chapters.fused_published import KERNELS, LSTM
from traintime.book.claims import Finding, above, every, every_stack
from traintime.book.page import Prose
from traintime.book.stored import Measurements, Sides
from traintime.explain.statistics import Interval

LOOP, KERNEL = KERNELS  # the two fields' values
JAX, TORCH = "2026-jax", "2026-torch"
BATCHES, LENGTHS = (32, 512), (10, 50)
SIZES = {"batch": list(BATCHES), "length": list(LENGTHS)}


@functools.cache
def points(book: Measurements) -> pd.DataFrame:
    """A machine's LSTM on its GPU in both ways, with `how`; empty without one."""
    found = book.points(**LSTM | SIZES, device="gpu", kernel=list(KERNELS))
    return found.assign(how=found["kernel"].map(KERNELS)) if "kernel" in found else found


def card() -> Measurements:
    """The first of the book's machines that ran both ways on a GPU."""
    return stored.having(stored.of(), points)


claim = functools.partial(claims.claim, on=card)


def gains(book: Measurements, stack: str) -> dict[str, Interval]:
    """Times faster the kernel is than the loop on a stack, by batch and length."""
    return {
        f"{batch} sequences of {length} time steps": _both_ways(book, stack, batch, length).interval(
            lambda s: s[0] / s[1]
        )
        for batch in BATCHES
        for length in LENGTHS
    }


def _both_ways(book: Measurements, stack: str, batch: int, length: int) -> Sides:
    """The loop and the kernel in the same rounds."""
    ways = ({"device": "gpu", "kernel": kernel} for kernel in (LOOP, KERNEL))
    return book.sides(*ways, stack=stack, workload="lstm", batch=batch, length=length)


def time_steps(book: Measurements, stack: str, batch: int) -> pd.DataFrame:
    """The four steps behind what a time step costs: the loop's two lengths, then the kernel's."""
    rows = points(book)
    rows = rows[(rows["stack"] == stack) & (rows["batch"] == batch)]
    rows = rows.sort_values(
        ["how", "length"], key=lambda column: column.replace({KERNELS[LOOP]: 0, KERNELS[KERNEL]: 1})
    )
    if len(rows) < 2 * len(LENGTHS):
        raise KeyError("not measured")
    return rows


def time_step(book: Measurements, stack: str, batch: int, loops: float = 1.0, kernels: float = 0.0) -> Interval:
    """Seconds of one more time step: so many loops' plus so many kernels' (-5.0: whether a loop costs over five)."""
    more = LENGTHS[1] - LENGTHS[0]
    rows = time_steps(book, stack, batch)
    return book.interval(lambda s: (loops * (s[1] - s[0]) + kernels * (s[3] - s[2])) / more, rows)


@claim(
    "08.5",
    "On a GPU cuDNN's kernel is more than five times as fast as a loop of cells.",
    source="S4",
    says="does not hold",
)
def kernel_gains(book: Measurements) -> Finding:
    every_size = {f"{stack}, {size}": gain for stack in (TORCH, JAX) for size, gain in gains(book, stack).items()}
    low, high = (pick(every_size.values(), key=lambda gain: gain.value).value for pick in (min, max))
    return Finding(every_stack(every_size, above(5)).holds, f"{low:.1f} to {high:.1f} times")


@claim(
    "08.26",
    "On a GPU one more time step costs Keras' loop on torch more than five times what it costs cuDNN's kernel, with 32 "
    "and with 512 sequences.",
)
def loops_cost_more_on_torch(book: Measurements) -> Finding:
    loop = [time_step(book, TORCH, batch) for batch in BATCHES]
    parts = [time_step(book, TORCH, batch, kernels=-5.0).low > 0 for batch in BATCHES]
    kernel = [time_step(book, TORCH, batch, 0.0, 1.0) for batch in BATCHES]
    figure = " and ".join(
        f"{one.text(',.0f', 1e6)} µs against {other.text(',.0f', 1e6)} µs"
        for one, other in zip(loop, kernel, strict=True)
    )
    return Finding(every(*parts), figure)


@claim(
    "08.27",
    "On a GPU one more time step of the loop that JAX compiles costs two to five times what it costs cuDNN's kernel.",
    says="inconclusive",
)
def compiled_loops_cost_more(book: Measurements) -> Finding:
    def lies(batch: int) -> bool | None:
        """Whether the loop's time step lies between two and five of the kernel's; None where the runs do not tell."""
        over_two, under_five = (time_step(book, JAX, batch, kernels=-each) for each in (2.0, 5.0))
        if over_two.high < 0 or under_five.low > 0:
            return False
        return True if over_two.low > 0 and under_five.high < 0 else None

    figure = " and ".join(
        f"{time_step(book, JAX, batch).text(',.0f', 1e6)} µs against "
        f"{time_step(book, JAX, batch, 0.0, 1.0).text(',.0f', 1e6)} µs"
        for batch in BATCHES
    )
    return Finding(every(*map(lies, BATCHES)), figure)


# What the page shows

IN_FIGURE = {  # stack, kernel -> layer, framework, way as plots.implementations takes them
    (TORCH, LOOP): ("loop", "Keras 3, torch", "loop"),
    (JAX, LOOP): ("loop", "Keras 3, JAX", "compiled"),
    (TORCH, KERNEL): ("cuDNN", "Keras 3, torch", "cuDNN"),
    (JAX, KERNEL): ("cuDNN", "Keras 3, JAX", "cuDNN"),
}
# Of the six published implementations those that the figure needs: framework as published -> as a reader sees it.
PUBLISHED = {"Keras 2.1.6 on TensorFlow 1.8": "Keras 2", "PyTorch 0.4.0": "PyTorch 0.4"}


def of_way(book: Measurements, stack: str, kernel: str) -> Interval:
    """Seconds of one more time step with few sequences in one way."""
    return time_step(book, stack, BATCHES[0], float(kernel == LOOP), float(kernel == KERNEL))


def implementations(book: Measurements) -> pd.DataFrame:
    """A time step of few sequences: published ones on a GTX 1080, a whole step over its 1,000 time steps, then what one
    more costs on our card. Columns device, framework, layer, way, position_s and, of ours, low and high, s.
    """
    theirs = external.lstm_implementations().query(f"layer != 'cuDNNLSTM' and batch == {BATCHES[0]}")
    theirs = theirs.assign(framework=theirs["framework"].map(PUBLISHED)).dropna(subset="framework")
    card = book.card.removeprefix("NVIDIA ")
    ours = [
        {"device": card, "framework": framework, "layer": layer, "way": way}
        | {"position_s": more.value, "low": more.low, "high": more.high}
        for which, (layer, framework, way) in IN_FIGURE.items()
        for more in [of_way(book, *which)]
    ]
    return pd.concat([theirs, pd.DataFrame(ours)], ignore_index=True)


def _range(intervals: dict[str, Interval]) -> str:
    values = [each.value for each in intervals.values()]
    return f"{min(values):.1f} to {max(values):.1f}"


PROSE = Prose(
    "fus-card",
    name=lambda book: book.card.removeprefix("NVIDIA "),
    torch_gain=lambda book: _range(gains(book, TORCH)),
    jax_gain=lambda book: _range(gains(book, JAX)),
    torch_loop=lambda book: f"{of_way(book, TORCH, LOOP).value * 1e6:,.0f} µs",
    torch_kernel=lambda book: f"{of_way(book, TORCH, KERNEL).text(',.0f', 1e6)} µs",
    jax_loop=lambda book: f"{of_way(book, JAX, LOOP).value * 1e6:,.0f} µs",
    jax_kernel=lambda book: f"{of_way(book, JAX, KERNEL).text(',.0f', 1e6)} µs",
    torch_step=lambda book: f"{time_steps(book, TORCH, BATCHES[0])['step_s'].iloc[-1] * 1e3:.1f} ms",
)
