"""When a training by Lightning's `Trainer` will end, also one that was resumed, and whether before a deadline.

trainer = Trainer(max_epochs=20, callbacks=[EtaCallback("8h")])
"""

from lightning.pytorch import Callback

import traintime


class EtaCallback(Callback):
    """Arguments are those of traintime.TrainingLoop."""

    def __init__(self, deadline=None, **asked):
        self.deadline, self.asked, self.loop = deadline, asked, None

    def on_train_start(self, trainer, module):
        quiet = {} if trainer.is_global_zero else {"say": None}
        batches = trainer.num_training_batches * (trainer.max_epochs if trainer.max_epochs != -1 else float("inf"))
        # Batches, of which several optimizers make a step each; steps, where these end the training.
        self.by_steps = 0 < trainer.max_steps <= batches
        total, self.done = trainer.max_steps if self.by_steps else batches, self.count(trainer)
        # Validation may come anywhere, and the last epoch may be cut short: the whole training is one epoch.
        self.loop = traintime.TrainingLoop(1, self.deadline, first_step=self.done, **self.asked | quiet)
        self.loop.epoch(int(total) if total < float("inf") else None)

    def count(self, trainer):
        return trainer.global_step if self.by_steps else trainer.fit_loop.epoch_loop.total_batch_idx + 1

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_index):
        while self.done < self.count(trainer):  # no step where gradients are accumulated
            self.loop.step()
            self.done += 1

    def on_validation_end(self, trainer, module):
        if self.loop:  # else the trial before a training, or a validation without one
            self.loop.validated()

    def on_train_end(self, trainer, module):
        self.loop.ends()
        self.loop = None
