"""The clock: time single training steps, keep every one of them.

A trainer (train_<api>.py) offers `step()` (one training step, device work finished before it returns, returns the
loss), `fit(inputs, targets)` (the framework's own loop over these samples; returns the clock's reading, ns, after its
last step where that can be told), `losses(n)`, `facts()` and `device_memory()`.
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


def measure(step, protocol, send=lambda message: None, after_first=lambda: None, counters=dict, now=now_ns):
    """Time as many single steps as the protocol says, and no other number; return their times and the evidence.

    Stopping on elapsed time instead would end a run preferably after a slow step, and bias the mean.
    step: callable that trains on one batch and returns its loss (a float), finished when it returns.
    protocol: `warmup` (steps after the first that do not count) and `steps` (that do).
    counters: callable that reads the operating system's counters (name -> number), see process.counters.
    Returns a dict with `first_ns` (int), `steps_ns` (list of int: the warm-up steps, then the counted ones), `warmup`
    and the first and last loss; and what the counters gained over the counted steps, with their `seconds`.
    Raises ValueError when a loss is not finite.
    """
    start = now()
    loss = first_loss = step()
    first = now() - start
    after_first()
    times = []
    before, began = counters(), now()
    last_report = now()
    for index in range(protocol["warmup"] + protocol["steps"]):
        if index == protocol["warmup"]:
            before, began = counters(), now()
        start = now()
        loss = step()
        stop = now()
        times.append(stop - start)
        if stop - last_report > 1e9:  # at most one message a second, so that reporting costs nothing
            send({"event": "steps", "done": max(index + 1 - protocol["warmup"], 0), "of": protocol["steps"]})
            last_report = now()
    seconds, after = (now() - began) / 1e9, counters()
    if not (math.isfinite(first_loss) and math.isfinite(loss)):
        raise ValueError("the loss is not finite: first {}, last {}".format(first_loss, loss))
    timed = {"first_ns": first, "steps_ns": times, "warmup": protocol["warmup"],
             "first_loss": first_loss, "last_loss": loss}
    gained = {name: round(after[name] - value, 3) for name, value in before.items()}
    return timed, dict(gained, seconds=round(seconds, 6))


def loops(fit, make, sizes, send=lambda message: None, now=now_ns):
    """Time the framework's own loop, once for each number of samples, after a short run that compiles it.

    fit: callable (inputs, targets); make: callable (samples) -> (inputs, targets), not timed; sizes: numbers of
    samples, the first of which only warms up. Returns one dict for each of the others: `sentences`, `ns` until fit
    returned, and `trained_ns` until its last step was done (absent where the framework cannot tell).
    """
    timed = []
    for number in sizes:
        samples = make(number)
        send({"event": "phase", "name": "fit over {} samples".format(number)})
        start = now()
        trained = fit(*samples)
        stop = now()
        timed.append({"sentences": number, "ns": stop - start})
        if trained is not None:
            timed[-1]["trained_ns"] = trained - start
    return timed[1:]


def bench(step, steps, blocks, now=now_ns):
    """What the timing itself costs: blocks of bare steps and of measured steps in turn, in one process.

    Returns `bare_ns` and `measured_ns`: wall time of each block of `steps` steps, both lists as long as `blocks`.
    """
    protocol = {"warmup": 0, "steps": steps - 1}
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
