"""A callback for Keras 3 that says, soon after its start, when a training will end, and whether before a deadline."""

from typing import Any

import keras

from traintime.predict.ending.announce import EndEstimate, Ending, refuse_unknown
from traintime.predict.ending.progress import Progress


class Eta(keras.callbacks.Callback):
    """Says when `fit` will end, with an interval that narrows, and at once when a deadline will be missed.

        model.fit(x, y, epochs=20, callbacks=[traintime.Eta("8h")])

    deadline: None, seconds from the start of training, a timedelta, text such as "8h", "1h30m" or "2d 4h", or a
    datetime (local time if it has no time zone). level: share of trainings that an interval should hold. every: when
    lines come after the first one: "doubling" (of the time since the start), "epoch", or a time as for the deadline.
    say: what is called with a line, or None, in the thread that called `fit`. validation_steps: batches of validation,
    if you want it counted before one was seen; 0 says that there is none. clock: seconds, monotonic; wall: the moment.
    Raises InputError for any other value.

    `estimate` is the latest word, at any moment, also from another thread. It is at the latest: EarlyStopping, say, may
    end training sooner. The end is `on_train_end`; what `fit` does after it is not in it.

    What is left is the remaining steps times their mean duration, and as many beginnings of epochs, validations and
    ends of epochs (progress.Progress); each mean has an interval from blocks (blocks.BlockMeans).

    When a step is done, without waiting for it (as in Keras 3.15, callback_list.py): on TensorFlow, `fit` waits for
    each batch before the hooks run. On JAX and torch a thread of a pool waits until the step is done and runs the
    hooks, while the main thread queues further steps; it does so only while all callbacks with a hook for the end of
    a batch say that they may run in such a thread: `async_safe`. This one may: it keeps no logs, takes a lock of its
    own, and takes threads that pass each other as they come. Where a model's own `train_step` returns logs that are
    nothing of the device, moments are those of handing over: the queue is bounded, so that they agree over many steps.
    """

    async_safe = True

    def __init__(self, deadline: Any = None, **asked: Any) -> None:
        super().__init__()
        refuse_unknown(asked, Eta, Ending)
        self._ending = Ending(deadline, **asked)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy takes over, as tuners make one for each trial: nothing that a `fit` has set."""
        return self.__dict__ | vars(keras.callbacks.Callback())

    @property
    def estimate(self) -> EndEstimate | None:
        """When training will end, as known now; None where that is unknown yet (Progress.remaining)."""
        return self._ending.estimate

    # What Keras calls in the thread of `fit`. None of it touches `self.model`, which would bring JAX's weights back.

    def on_train_begin(self, logs: Any = None) -> None:
        self._ending.begins(self.params["epochs"], self.params.get("steps"))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._ending.tell(Progress.epoch_begins, epoch, self._ending.clock())
        self._ending.speak(begins=True)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Say what is due; a worker's thread does not talk."""
        if self._ending.due:
            # Keras' bar stands on the line where it would begin.
            bar = self._ending.say is print and self.params.get("verbose") in (1, "auto")
            self._ending.speak(before="\n" if bar else "")

    def on_test_begin(self, logs: Any = None) -> None:
        """Validation begins, or an evaluation outside of training, which it ignores."""
        self._ending.tell(Progress.validation_begins, self._ending.clock())

    def on_test_end(self, logs: Any = None) -> None:
        """Validation ends; its results have been waited for."""
        self._ending.tell(Progress.validation_ends, self._ending.clock())

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Every hook of the epoch's batches has run: Keras has waited for them."""
        self._ending.tell(Progress.epoch_ends)

    def on_train_end(self, logs: Any = None) -> None:
        self._ending.tell(Progress.training_ends)

    # What Keras calls in a thread of its pool, on JAX and torch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._ending.step_done(batch)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._ending.tell(Progress.validation_step_done, batch, self._ending.clock())
