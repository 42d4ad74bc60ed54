"""When a training by Hugging Face's `Trainer` will end, also one that was resumed, and whether before a deadline.

trainer = Trainer(model, args, train_dataset=dataset, callbacks=[EtaCallback("8h")])
"""

from transformers import TrainerCallback

import traintime


class EtaCallback(TrainerCallback):
    """Arguments are those of traintime.TrainingLoop."""

    def __init__(self, deadline=None, **asked):
        self.deadline, self.asked, self.loop = deadline, asked, None

    def on_train_begin(self, args, state, control, **kwargs):
        quiet = {} if state.is_world_process_zero else {"say": None}
        # Evaluations may come anywhere, and the last epoch may be cut short: the whole training is one epoch.
        self.loop = traintime.TrainingLoop(1, self.deadline, first_step=state.global_step, **self.asked | quiet)
        self.loop.epoch(state.max_steps)

    def on_step_end(self, args, state, control, **kwargs):
        self.loop.step()

    def on_evaluate(self, args, state, control, **kwargs):
        if self.loop:  # else an evaluation without a training
            self.loop.validated()

    def on_train_end(self, args, state, control, **kwargs):
        self.loop.ends()
        self.loop = None
