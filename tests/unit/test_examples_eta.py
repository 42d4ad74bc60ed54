"""The examples that tell of a training's end in other libraries' trainers: each in that library's own, where it is."""

import importlib.util

import pytest

from traintime import paths

STEPS = 40  # of an epoch


def callback(library, *given, **asked):
    path = paths.ROOT / "examples" / f"eta_{library}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module.EtaCallback(*given, **asked)


def held(told, steps, resumed=0):
    """Whether the shares done are those of this run, from the second step on, and the last word says how it ended."""
    assert [share for share, _ in told[1:]] == pytest.approx([n / (steps - resumed) for n in range(2, len(told) + 1)])
    assert len(told) == steps - resumed
    assert told[-1][1].remaining.value < 1


@pytest.mark.filterwarnings("ignore")
def test_hugging_face(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not here")
    pytest.importorskip("accelerate", reason="accelerate is not here, which its Trainer needs")
    torch = pytest.importorskip("torch", reason="torch is not here")

    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Linear(1, 1)

        def forward(self, x=None, labels=None):
            found = self.weight(x)
            return {"loss": ((found - labels) ** 2).mean(), "logits": found}

    data = [{"x": torch.ones(1), "labels": torch.ones(1)} for _ in range(4 * STEPS)]

    def trained(resume=False, **given):
        eta, told = callback("huggingface", "1h", say=lines.append), []

        class Look(transformers.TrainerCallback):
            def on_step_end(self, args, state, control, **kwargs):
                told.append((eta.loop.estimate and eta.loop.estimate.finished, eta.loop.estimate))

        settings = transformers.TrainingArguments(
            str(tmp_path),
            per_device_train_batch_size=4,
            use_cpu=True,
            disable_tqdm=True,
            report_to=[],
            eval_strategy="steps",
            eval_steps=20,
            save_strategy="steps",
            save_steps=30,
            **given,
        )
        trainer = transformers.Trainer(
            Line(), settings, train_dataset=data, eval_dataset=data[:40], callbacks=[eta, Look()]
        )
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-60") if resume else None)
        trainer.evaluate()
        return told

    lines = []
    held(trained(num_train_epochs=3), 3 * STEPS)
    assert lines and "Deadline (1 h after the start): will be met." in lines[0]
    held(trained(resume=True, num_train_epochs=3), 3 * STEPS, 60)
    held(trained(max_steps=50), 50)


@pytest.mark.filterwarnings("ignore")
def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch", reason="lightning is not here")
    torch = pytest.importorskip("torch", reason="torch is not here")

    class Line(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Linear(1, 1)

        def training_step(self, batch, index):
            return ((self.weight(batch) - 1) ** 2).mean()

        def validation_step(self, batch, index):
            return self.training_step(batch, index)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    def trained(resume=None, **given):
        eta, told = callback("lightning", "1h", say=lines.append), []

        class Look(lightning.Callback):
            def on_train_batch_end(self, trainer, *_):
                if len(told) < trainer.global_step - first:
                    told.append((eta.loop.estimate and eta.loop.estimate.finished, eta.loop.estimate))

            def on_train_start(self, trainer, module):
                nonlocal first
                first = trainer.global_step

        first = 0
        trainer = lightning.Trainer(
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[eta, Look()],
            default_root_dir=tmp_path,
            **given,
        )
        loader = torch.utils.data.DataLoader(torch.ones(4 * STEPS, 1), batch_size=4)
        trainer.fit(Line(), loader, loader, ckpt_path=resume)
        return told, trainer

    lines = []
    told, trainer = trained(max_epochs=2)
    held(told, 2 * STEPS)
    assert lines and "Deadline (1 h after the start): will be met." in lines[0]
    trainer.save_checkpoint(tmp_path / "two")
    held(trained(str(tmp_path / "two"), max_epochs=3)[0], 3 * STEPS, 2 * STEPS)
    held(trained(max_steps=50, val_check_interval=20)[0], 50)
    held(trained(max_epochs=2, accumulate_grad_batches=2)[0], STEPS)
