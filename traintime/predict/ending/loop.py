"""When a training loop will end, whatever it is written in: PyTorch, JAX, NumPy."""

import atexit
import contextlib
import itertools
import operator
from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any, TypeVar

from rich.console import Console
from rich.live import Live
from rich.text import Text

from traintime.errors import InputError
from traintime.predict.ending.announce import PAUSE_S, EndEstimate, Ending, refuse_unknown
from traintime.predict.ending.progress import Progress

Batch = TypeVar("Batch")


class TrainingLoop:
    """Says when a loop of one's own will end, as traintime.Eta does for Keras' `fit`.

        loop = traintime.TrainingLoop(epochs=20, deadline="8h")
        for epoch in range(20):
            for x, y in loop.batches(loader):
                ...
            with loop.validation():
                ...

    What goes over its batches itself, such as another library's trainer, is told of in a callback: `epoch` where an
    epoch begins, `step` after each step, `validated` after a validation, `ends` (examples/ has two such callbacks).

    epochs: number of the last epoch; first_epoch, first_step: where a training goes on that was stopped, both counted
    from 0; asked: as traintime.Eta takes them: level, every, say (with tqdm's bar, `tqdm.write`), validation_steps.
    Raises InputError for any other value.

    A step is done when the loop asks for the next batch. On a GPU the card may be behind by what is queued; a loop that
    reads its loss at each step is not. `estimate` is the latest word, at any moment. A terminal shows it in one line
    below what else is printed, which is kept up to date; elsewhere, and with `say`, lines come as from traintime.Eta.
    """

    def __init__(
        self, epochs: int = 1, deadline: Any = None, *, first_epoch: int = 0, first_step: int = 0, **asked: Any
    ) -> None:
        refuse_unknown(asked, TrainingLoop, Ending)
        for name, value, least in (("epochs", epochs, 1), ("first_epoch", first_epoch, 0)):
            if type(value) is not int or value < least:
                raise InputError(name, value, "is no number of epochs", f"Give a whole number of {least} or more.")
        if first_epoch >= epochs:
            raise InputError("first_epoch", first_epoch, f"is not before the last of {epochs}", "Epochs count from 0.")
        if type(first_step) is not int or first_step < 0:
            raise InputError("first_step", first_step, "is no number of a step", "Give a whole number of 0 or more.")
        self.epochs, self._first, self._epoch = epochs, first_epoch, first_epoch
        self._done = self._first_step = first_step  # steps of this epoch, and those that the next one leaves out
        self._live: Live | None = None
        console = Console()
        if "say" not in asked and console.is_interactive and console.file.isatty():
            # Bars draw themselves on standard error, over and over, which rich would take for a line each.
            self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stderr=False)
            asked = {"every": PAUSE_S} | asked | {"say": self._show}
        self._ending = Ending(deadline, **asked)
        self._ending.argument = "steps"

    @property
    def estimate(self) -> EndEstimate | None:
        """When training will end, as known now; None where that is unknown yet (Progress.remaining)."""
        return self._ending.estimate

    def batches(self, batches: Iterable[Batch], steps: int | None = None) -> Iterator[Batch]:
        """The batches of the next epoch, each as it comes; of a training that goes on, those from `first_step` on.

        steps: how many the whole epoch has, where `first_step` and the `len` of batches do not give it; else the first
        epoch has to be over before an end can be predicted. Epochs to come count as the last whole one. Raises
        InputError where all epochs are over, and for an epoch without a batch.
        """
        if steps is None and (length := _length(batches)) is not None:
            steps = length + self._first_step
        self.epoch(steps)
        for batch in batches:
            yield batch
            self.step()
        if not self._done:
            remedy = "Give what can be gone through again, such as a list or a DataLoader."
            raise InputError("batches", type(batches).__name__, f"gave nothing in epoch {self._epoch - 1}", remedy)
        self._ending.tell(Progress.epoch_ends, False)
        if self._epoch == self.epochs and self._live:
            self._live.stop()

    def epoch(self, steps: int | None = None) -> None:
        """The next epoch begins; the first one begins the training. steps: how many it has, with those before
        `first_step`, or None. Raises InputError where all epochs are over, and for any other value.
        """
        if self._epoch >= self.epochs:
            raise InputError("epochs", self.epochs, "are over, and another begins", "Say how many there are.")
        if steps is not None and (not isinstance(steps, Integral) or steps < 1):
            remedy = "Give a whole number of 1 or more, or None."
            raise InputError(self._ending.argument, steps, "is no number of steps", remedy)
        if steps is not None and self._first_step > steps:
            remedy = "Steps count from 0 in each epoch. Say how many the whole one has."
            raise InputError("first_step", self._first_step, f"is no step of an epoch of {steps}", remedy)
        if self._epoch == self._first:
            self._ending.begins(self.epochs, steps)
        self._ending.tell(Progress.epoch_begins, self._epoch, self._ending.clock(), steps, self._first_step)
        self._epoch, self._done, self._first_step = self._epoch + 1, self._first_step, 0
        self._ending.speak(begins=True)

    def step(self) -> None:
        """A step was done. Raises InputError before the first epoch."""
        if self._epoch == self._first:
            raise InputError("step", self._done, "comes before the first epoch", "Call `epoch` where an epoch begins.")
        self._ending.step_done(self._done)
        self._done += 1
        if self._ending.due:
            self._ending.speak()

    @contextlib.contextmanager
    def validation(self) -> Iterator[None]:
        """What runs in it is validation, which comes as often as it has come so far."""
        self._ending.tell(Progress.validation_begins, self._ending.clock())
        try:
            yield
        finally:
            self._ending.tell(Progress.validation_ends, self._ending.clock())

    def validated(self) -> None:
        """A validation is over, which began when the last step was done: where nothing tells of its beginning."""
        self._ending.tell(Progress.validated, self._ending.clock())

    def ends(self) -> None:
        """Training is over, before its last epoch was where something has stopped it."""
        self._ending.tell(Progress.training_ends)
        if self._live:
            self._live.stop()

    def _show(self, line: str) -> None:
        """The line in the terminal; the verdict on a deadline comes first, where a narrow one would cut it off."""
        end, name, verdict = line.partition(" Deadline ")
        if not self._live.is_started:
            self._live.start()
            # What is stopped by an error never comes to `ends`: it leaves no terminal without a cursor.
            self._live.console.show_cursor(True)
            atexit.register(self._live.stop)
        # One line, never two: those above it may be another program's, or an error's, and are left alone.
        text = f"{name.lstrip()}{verdict} {end}" if verdict else line
        self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)


def _length(batches: Iterable[Any]) -> int | None:
    """How many batches there are, or None where they do not tell (a generator, `enumerate`)."""
    try:
        return operator.length_hint(batches) or None
    except (TypeError, NotImplementedError):
        return None


def track(
    batches: Iterable[Batch], epochs: int = 1, deadline: Any = None, *, total: int | None = None, **asked: Any
) -> Iterator[Batch]:
    """The batches of all epochs one after the other, and lines that say when the last will be done.

        for x, y in traintime.track(loader, epochs=3, deadline="8h"):
            ...

    For a loop over steps give what it goes over: `traintime.track(range(steps))`. total: batches of an epoch, for what
    does not tell, such as `enumerate(loader)` or a generator. asked: as traintime.TrainingLoop takes it; with
    `first_step` the first epoch leaves out as many batches. Raises InputError as that does.
    """
    refuse_unknown(asked, track, TrainingLoop, Ending)
    loop = TrainingLoop(epochs, deadline, **asked)
    loop._ending.argument = "total"
    for _ in range(loop._epoch, epochs):
        steps = _length(batches) if total is None else total
        rest = itertools.islice(batches, loop._first_step, None) if loop._first_step else batches
        yield from loop.batches(rest, steps)
    loop.ends()
