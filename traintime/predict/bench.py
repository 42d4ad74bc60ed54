"""How often the predictor is right: models drawn at random, predicted, and then trained; `traintime bench-predict`.

Each is predicted in one process and trained in two others, so that what measuring again would miss by stands beside
what the prediction misses by. Beside it, in the same run, what people do without it.
"""

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from traintime.measuring.measure import run_worker
from traintime.predict import bench_models, resident
from traintime.predict.answer import Estimate

TRAINED_S = 20.0  # that a training should take, so that it is one
BATCHES = (20, 5000)  # fewest and most of a training
MOST_BYTES = 2**29  # of its samples
TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Case:
    """A model, and what came of it: seconds of the whole `fit`, bytes at the peak.

    fit_s, peaks: of the two processes that trained it; one_batch_s: its second batch, timed, times its batches;
    flops_s: its operations at the machine's own rate; probed, formula: the predictions.
    """

    stack: str
    kind: str
    sizes: dict[str, Any]
    samples: int
    fit_s: tuple[float, float]
    peaks: tuple[float, float]
    one_batch_s: float
    flops_s: float
    probed: Estimate
    formula: Estimate

    @property
    def plain(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self) | {"probed": self.probed.to_dict(), "formula": self.formula.to_dict()}

    @property
    def true_s(self) -> float:
        """Seconds of the training: the mean of the two."""
        return float(np.mean(self.fit_s))

    def errors(self) -> dict[str, float]:
        """Each way's prediction over the truth, less one; "again": the second training over the first."""
        peak = float(np.mean(self.peaks))
        return {
            "again": self.fit_s[1] / self.fit_s[0] - 1,
            "probed": self.probed.total.value / self.true_s - 1,
            "formula": self.formula.total.value / self.true_s - 1,
            "one batch": self.one_batch_s / self.true_s - 1,
            "flops": self.flops_s / self.true_s - 1,
            "probed peak": self.probed.memory.value / peak - 1 if self.probed.memory else math.nan,
            "formula peak": self.formula.memory.value / peak - 1 if self.formula.memory else math.nan,
        }

    def inside(self) -> dict[str, bool]:
        """Whether the truth, one training, lies in each interval; the peak likewise."""
        return {
            "probed": self.fit_s[0] in self.probed.total,
            "formula": self.fit_s[0] in self.formula.total,
            "probed peak": bool(self.probed.memory and self.peaks[0] in self.probed.memory),
            "formula peak": bool(self.formula.memory and self.peaks[0] in self.formula.memory),
        }


def run(backends: list[str], cases: int, seed: int | None = None, seconds: float = 20.0) -> Iterator[Case]:
    """Draw, predict and train so many models of each kind on each backend; each as soon as it is done.

    seed: None for others at every run. Raises RuntimeError where a process of it fails.
    """
    random = np.random.default_rng(seed)
    for _ in range(cases):
        for kind, draw in bench_models.KINDS.items():
            for backend in backends:
                yield _case(backend, kind, draw(random), seconds)


def _case(backend: str, kind: str, sizes: dict[str, Any], seconds: float) -> Case:
    about = {"kind": kind, "sizes": sizes, "seconds": seconds}
    predicted = _ask(backend, about | {"task": "predict"})
    samples = predicted["samples"]
    trained = [_ask(backend, about | {"task": "train", "samples": samples}) for _ in range(2)]
    return Case(
        f"2026-{backend}",
        kind,
        sizes,
        samples,
        (trained[0]["fit_s"], trained[1]["fit_s"]),
        (trained[0]["peak"], trained[1]["peak"]),
        predicted["one_batch_s"] * math.ceil(samples / sizes["batch"]),
        predicted["flops_s"] * samples / sizes["batch"],
        Estimate.from_dict(predicted["probed"]),
        Estimate.from_dict(predicted["formula"]),
    )


def _ask(backend: str, job: dict[str, Any]) -> dict[str, Any]:
    environment = dict(os.environ) | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"}
    answer = run_worker([sys.executable, "-m", "traintime.predict.bench"], job, environment, TIMEOUT_S)
    if answer["status"] != "ok":
        raise RuntimeError(f"{backend} {job['kind']} {job['sizes']}: {answer['status']}: {answer.get('error')}")
    return answer["result"]


def _predict(model: Any, job: dict[str, Any]) -> dict[str, Any]:
    from traintime.predict import tiers
    from traintime.predict.estimate import estimate
    from traintime.predict.keras_trainer import KerasTrainer
    from traintime.predict.work import work

    batch, trainer = job["sizes"]["batch"], KerasTrainer(model)
    # About as many samples as take the time that a training should have, and a last batch that is not full.
    rough = estimate(model, samples=batch, batch_size=batch, tier="formula").step.value
    batches = int(np.clip(TRAINED_S / rough, *BATCHES))
    batches = max(BATCHES[0], min(batches, MOST_BYTES // (batch * trainer.sample_bytes)))
    asked = {"samples": batches * batch + batch // 3, "batch_size": batch}
    formula = estimate(model, **asked, tier="formula")
    probed = estimate(model, **asked, tier="probed", seconds=job["seconds"], keep=False)
    x, y = trainer.samples(batch)
    model.train_on_batch(x, y)
    start = time.perf_counter()
    model.train_on_batch(x, y)
    one = time.perf_counter() - start
    found = {"samples": asked["samples"], "probed": probed.to_dict(), "formula": formula.to_dict(), "one_batch_s": one}
    return found | {"flops_s": work(model, batch).total.flops / tiers.rates_here().flops}


def _train(model: Any, job: dict[str, Any]) -> dict[str, Any]:
    from traintime.predict.keras_trainer import KerasTrainer

    x, y = KerasTrainer(model).samples(job["samples"])
    start = time.perf_counter()
    model.fit(x, y, batch_size=job["sizes"]["batch"], verbose=0)
    return {"fit_s": time.perf_counter() - start, "peak": resident.peak()}


def main() -> None:
    """Answer one job on its channel."""
    job = json.loads(sys.stdin.read())
    model = bench_models.build(job["kind"], job["sizes"])
    result = (_predict if job["task"] == "predict" else _train)(model, job)
    os.write(job["channel"], json.dumps({"event": "result", "status": "ok", "result": result}).encode() + b"\n")


if __name__ == "__main__":
    main()
