"""When a training loop will end, whatever it is written in: PyTorch, JAX, NumPy."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from traintime.errors import InputError
from traintime.predict.ending import Ending
from traintime.predict.lines import EndEstimate
from traintime.predict.progress import Progress

Batch = TypeVar("Batch")


class TrainingLoop:
    """Says when a loop of one's own will end, as traintime.Eta does for Keras' `fit`.

        loop = traintime.TrainingLoop(epochs=20, deadline="8h")
        for epoch in range(20):
            for x, y in loop.batches(loader):
                ...
            with loop.validation():
                ...

    epochs: number of the last epoch; first_epoch: of the first, where a training goes on that was stopped; asked: as
    traintime.Eta takes them: level, every, say (with tqdm's bar, `tqdm.write`), validation_steps. Raises InputError for
    any other value.

    A step is done when the loop asks for the next batch. On a GPU the card may be behind by what is queued; a loop that
    reads its loss at each step is not. `estimate` is the latest word, at any moment.
    """

    def __init__(self, epochs: int = 1, deadline: Any = None, *, first_epoch: int = 0, **asked: Any) -> None:
        for name, value, least in (("epochs", epochs, 1), ("first_epoch", first_epoch, 0)):
            if type(value) is not int or value < least:
                raise InputError(name, value, "is no number of epochs", f"Give a whole number of {least} or more.")
        if first_epoch >= epochs:
            raise InputError("first_epoch", first_epoch, f"is not before the last of {epochs}", "Epochs count from 0.")
        self.epochs, self._first, self._epoch = epochs, first_epoch, first_epoch
        self._ending = Ending(deadline, **asked)

    @property
    def estimate(self) -> EndEstimate | None:
        """When training will end, as known now; None where that is unknown yet (Progress.remaining)."""
        return self._ending.estimate

    def batches(self, batches: Iterable[Batch], steps: int | None = None) -> Iterator[Batch]:
        """The batches of the next epoch, each as it comes.

        steps: how many there are, where `len` cannot tell; without either the first epoch has to be over before an end
        can be predicted. Raises InputError where all epochs are over, and for an epoch without a batch.
        """
        if self._epoch >= self.epochs:
            raise InputError("epochs", self.epochs, "are over, and another begins", "Say how many there are.")
        steps, number = steps or _length(batches), self._epoch
        if number == self._first:
            self._ending.begins(self.epochs, steps)
        else:
            self._ending.tell(Progress.epoch_ends)
        self._epoch += 1
        self._ending.tell(Progress.epoch_begins, number, self._ending.clock())
        self._ending.speak(begins=True)
        done = 0
        for batch in batches:
            yield batch
            self._ending.step_done(done)
            done += 1
            if self._ending.due:
                self._ending.speak()
        if not done:
            remedy = "Give what can be gone through again, such as a list or a DataLoader."
            raise InputError("batches", type(batches).__name__, f"gave nothing in epoch {number}", remedy)
        self._ending.tell(Progress.steps_end)

    @contextlib.contextmanager
    def validation(self) -> Iterator[None]:
        """What runs in it is validation, which comes as often as it has come so far."""
        self._ending.tell(Progress.validation_begins, self._ending.clock())
        try:
            yield
        finally:
            self._ending.tell(Progress.validation_ends, self._ending.clock())

    def ends(self) -> None:
        """Training is over, before its last epoch was where something has stopped it."""
        self._ending.tell(Progress.training_ends)


def _length(batches: Iterable[Any]) -> int | None:
    """How many batches there are, or None where they do not tell (a generator, an iterable data set)."""
    try:
        return len(batches) or None  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return None


def track(batches: Iterable[Batch], epochs: int = 1, deadline: Any = None, **asked: Any) -> Iterator[Batch]:
    """The batches of all epochs one after the other, and lines that say when the last will be done.

        for x, y in traintime.track(loader, epochs=3, deadline="8h"):
            ...

    For a loop over steps give what it goes over: `traintime.track(range(start, steps))`. asked: as
    traintime.TrainingLoop takes it. Raises InputError as that does.
    """
    loop = TrainingLoop(epochs, deadline, **asked)
    for _ in range(loop.epochs - asked.get("first_epoch", 0)):
        yield from loop.batches(batches)
    loop.ends()
