"""The clock: time single training steps, keep every one of them.

A trainer is what a workload's build() returns. It offers `step()` (one training step, device work finished
before it returns, returns the loss), `fit(tokens, labels)` (the framework's own loop over these sentences; returns
the clock's reading, ns, after its last step where that can be told),
`losses(n)`, `facts()` and `device_memory()`.
"""

import math
import time


class Stopwatch:
    """Seconds between one lap and the next."""

    def __init__(self, clock=time.perf_counter):
        self.clock = clock
        self.started = clock()

    def lap(self):
        now = self.clock()
        seconds, self.started = now - self.started, now
        return seconds


def clock_ns():
    # perf_counter_ns is new in Python 3.7; a double still resolves well below a microsecond here.
    return int(time.perf_counter() * 1e9)


now_ns = getattr(time, "perf_counter_ns", clock_ns)


def measure(step, protocol, send=lambda message: None, now=now_ns, after_first=lambda: None):
    """Time single steps until there are enough of them; return all of their times.

    step: callable that trains on one batch and returns its loss (a float), finished when it returns.
    protocol: `warmup` (steps after the first that will not count), `steps` and `seconds` (counted steps last at
    least this many and this long), `limit_s` (but stop after this long) and `fewest` (never with fewer steps).
    Returns `first_ns` (int), `steps_ns` (list of int: the warm-up steps, then the counted ones), `warmup` and
    the first and last loss. Raises ValueError when a loss is not finite.
    """
    start = now()
    loss = first_loss = step()
    first = now() - start
    after_first()
    times = []
    counted_ns = 0
    last_report = now()
    while True:
        start = now()
        loss = step()
        stop = now()
        times.append(stop - start)
        if len(times) > protocol["warmup"]:
            counted_ns += times[-1]
        counted = len(times) - protocol["warmup"]
        enough = counted >= protocol["steps"] and counted_ns >= protocol["seconds"] * 1e9
        too_long = counted >= protocol["fewest"] and counted_ns >= protocol["limit_s"] * 1e9
        if enough or too_long:
            break
        if stop - last_report > 1e9:  # at most one message a second, so that reporting costs nothing
            send({"event": "steps", "done": max(counted, 0), "of": protocol["steps"]})
            last_report = now()
    if not (math.isfinite(first_loss) and math.isfinite(loss)):
        raise ValueError("the loss is not finite: first {}, last {}".format(first_loss, loss))
    return {"first_ns": first, "steps_ns": times, "warmup": protocol["warmup"],
            "first_loss": first_loss, "last_loss": loss}


def loops(fit, make, sizes, send=lambda message: None, now=now_ns):
    """Time the framework's own loop, once for each number of sentences, after a short run that compiles it.

    fit: callable (tokens, labels); make: callable (sentences) -> (tokens, labels), not timed; sizes: sentences,
    the first of which only warms up. Returns one dict for each of the others: `sentences`, `ns` until fit returned,
    and `trained_ns` until its last step was done.
    """
    timed = []
    for number in sizes:
        data = make(number)
        send({"event": "phase", "name": "fit over {} sentences".format(number)})
        start = now()
        trained = fit(*data)
        stop = now()
        timed.append({"sentences": number, "ns": stop - start, "trained_ns": (trained or stop) - start})
    return timed[1:]


def bench(step, steps, blocks, now=now_ns):
    """What the timing itself costs: blocks of bare steps and of measured steps in turn, in one process.

    Returns `bare_ns` and `measured_ns`: wall time of each block of `steps` steps, both lists as long as `blocks`.
    """
    protocol = {"warmup": 0, "steps": steps - 1, "seconds": 0, "limit_s": float("inf"), "fewest": 1}
    for _ in range(5):
        step()
    bare, measured = [], []

    def bare_block():
        start = now()
        for _ in range(steps):
            step()
        bare.append(now() - start)

    def measured_block():
        start = now()
        measure(step, protocol, now=now)
        measured.append(now() - start)

    for index in range(blocks):
        # Alternate which comes first, so that a drift of the machine favours neither.
        for block in (bare_block, measured_block) if index % 2 else (measured_block, bare_block):
            block()
    return {"bare_ns": bare, "measured_ns": measured, "steps": steps}
