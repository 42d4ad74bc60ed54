"""A callback for Keras 3 that says, soon after its start, when a training will end, and whether before a deadline."""

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import keras

from traintime.errors import InputError
from traintime.predict.answer import within
from traintime.predict.lines import Deadline, EndEstimate, Lines, after, rhythm
from traintime.predict.progress import Progress

SPARE = 1.25  # a deadline will be met only if this much more would do, too, where validation may come and was not seen
# An estimate takes some tenths of a millisecond: at least so many seconds lie between two, and this share of the time.
PAUSE_S, PAUSE = 1.0, 0.02


class Eta(keras.callbacks.Callback):
    """Says when `fit` will end, with an interval that narrows, and at once when a deadline will be missed.

        model.fit(x, y, epochs=20, callbacks=[traintime.Eta("8h")])

    deadline: None, seconds from the start of training, a timedelta, text such as "8h", "1h30m" or "2d 4h", or a
    datetime (local time if it has no time zone). level: share of trainings that an interval should hold. every: when
    lines come after the first one: "doubling" (of the time since the start), "epoch", or a time as for the deadline.
    say: what is called with a line, or None; it is called in the thread that called `fit`. validation_steps: batches of
    validation, if you want it counted before one was seen; 0 says that there is none. clock: seconds, monotonic; wall:
    the moment. Raises InputError for any other value.

    `estimate` is the latest word, at any moment, also from another thread. It is at the latest: EarlyStopping, say, may
    end training sooner, and nobody knows when. The end is `on_train_end`; what `fit` does after it is not in it.

    How it is told: what is left is the remaining steps times their mean duration, and as many beginnings of epochs,
    validations and ends of epochs (progress.Progress); each mean has an interval from blocks (blocks.BlockMeans).

    When a step is done, without waiting for it (as in Keras 3.15, callback_list.py). On TensorFlow, `fit` reads each
    batch's logs before the hooks run, and so waits for the batch, whatever the callbacks. On JAX and torch it hands the
    logs to a thread of a pool, which reads them, so waits until that step is done (on a GPU with torch also for what
    was queued meanwhile), and then runs the hooks; the main thread goes on to hand further steps to the device. It does
    so only while all callbacks with a hook for the end of a batch say that they may run in such a thread: `async_safe`.
    This one may: it keeps no logs, takes a lock of its own, and takes threads that pass each other as they come. So its
    hook runs when a step is *done*, on every backend, and steps that were only handed over do not look short. Where a
    model's own `train_step` returns logs that are nothing of the device, moments are those of handing over: the queue
    is bounded, so that they agree over many steps, and what is missing comes out where Keras waits, at an epoch's end.
    """

    async_safe = True

    def __init__(
        self,
        deadline: str | float | timedelta | datetime | None = None,
        *,
        level: float = 0.9,
        every: str | float | timedelta = "doubling",
        say: Callable[[str], Any] | None = print,
        validation_steps: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
        wall: Callable[[], datetime] = datetime.now,
    ) -> None:
        super().__init__()
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
            raise InputError("level", level, "is no share", "Give a number between 0 and 1, such as 0.9.")
        if validation_steps is not None and (type(validation_steps) is not int or validation_steps < 0):
            remedy = "Give a whole number of 0 or more, or None where you do not know."
            raise InputError("validation_steps", validation_steps, "is no number of batches", remedy)
        self._deadline = None if deadline is None else Deadline(deadline, wall)
        self._level, self._every, self._validation_steps = level, rhythm(every), validation_steps
        self._say, self._clock, self._wall = say, clock, wall
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._lines = Lines(self._every, level, self._deadline)
        self._next = 0.0  # when there is to be an estimate again
        self._due = False

    @property
    def estimate(self) -> EndEstimate | None:
        """When training will end, as known now; None where that is unknown yet (Progress.remaining)."""
        now = self._clock()
        with self._lock:
            progress = self._progress
            remaining = progress.remaining(now) if progress else None
            if progress is None or remaining is None:
                return None
            finished, unseen = progress.finished, progress.unseen
        wall = self._wall()
        meets = None
        if self._deadline is not None:
            left = self._deadline.left(now - progress.start, wall)
            meets = within(remaining, left, SPARE if unseen else 1.0)
        return EndEstimate(remaining, after(wall, remaining.value), finished, meets)

    # What Keras calls in the thread of `fit`. None of it touches `self.model`, which would bring JAX's weights back.

    def on_train_begin(self, logs: Any = None) -> None:
        """Start anew: the same callback may be used again."""
        now = self._clock()
        with self._lock:
            self._progress = Progress(
                self.params["epochs"], self.params.get("steps"), now, self._validation_steps, self._level
            )
        self._lines = Lines(self._every, self._level, self._deadline)
        self._next, self._due = now, False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """An epoch begins, after all callbacks were done with the one before."""
        self._tell(Progress.epoch_begins, epoch, self._clock())
        self._speak(begins=True)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Say what is due; a worker's thread does not talk."""
        if self._due:
            self._speak()

    def on_test_begin(self, logs: Any = None) -> None:
        """Validation begins, or an evaluation outside of training, which it ignores."""
        self._tell(Progress.validation_begins, self._clock())

    def on_test_end(self, logs: Any = None) -> None:
        """Validation ends; its results have been waited for."""
        self._tell(Progress.validation_ends, self._clock())

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Every hook of the epoch's batches has run: Keras has waited for them."""
        self._tell(Progress.epoch_ends)

    def on_train_end(self, logs: Any = None) -> None:
        """Nothing is left."""
        self._tell(Progress.training_ends)

    # What Keras calls in a thread of its pool, on JAX and torch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """The step was done: a moment is kept, and nothing else."""
        now = self._clock()
        self._tell(Progress.step_done, batch, now)
        if now >= self._next:
            self._due = True

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """The batch of a validation was done."""
        self._tell(Progress.validation_step_done, batch, self._clock())

    def _tell(self, event: Callable[..., None], *values: Any) -> None:
        """Tell the training under way of an event; outside of one there is nothing to tell."""
        with self._lock:
            if self._progress is not None:
                event(self._progress, *values)

    def _speak(self, begins: bool = False) -> None:
        """Say the lines that are due."""
        self._due = False
        progress, now = self._progress, self._clock()
        if not progress.observed:
            return
        elapsed = now - progress.start
        self._next = now + max(PAUSE_S, PAUSE * elapsed)
        if self._say is None:
            return
        if progress.steps is None:
            wall = self._wall()
            left = self._deadline.left(elapsed, wall) if self._deadline else 0.0
            lines = self._lines.unknown(progress.epoch + 1 >= progress.epochs, left, wall)
        else:
            estimate = self.estimate
            if estimate is None:
                return
            lines = self._lines.of(estimate, elapsed, self._wall(), begins, progress.unseen)
        for line in lines:
            # Keras' bar stands on the line where it would begin.
            bar = self._say is print and not begins and self.params.get("verbose") in (1, "auto")
            self._say(f"\n{line}" if bar else line)
