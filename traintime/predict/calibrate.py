"""Learn what this machine charges: a few designed models, trained for a minute, give each stack its own costs.

What the probes do not tell comes from the stack's efficiency factors at the machine's rates (prices.habits): least
squares with both, so that a cost which no probe has met is not made up, and one that they agree on is theirs.
"""

import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from traintime.errors import InputError
from traintime.explain.terms import TERMS
from traintime.measuring import machine, stacks
from traintime.measuring.measure import default_threads, run_worker
from traintime.measuring.worker import process
from traintime.point import Run
from traintime.predict import holdings, prices, resident
from traintime.predict.prices import Prices, Rates, rms
from traintime.store.records import write_atomically
from traintime.workloads.base import Work, validated

SECONDS = 60.0
MISFIT = 0.08  # of the formula for a probe, relative: what a step can differ by though its terms are right
TRUST = 0.7  # of a habit, relative: how far a machine's price lies from it, about (prices.habits, column elsewhere)
FREE = 0.1  # of a step: what a price may be moved by though the habits say that it is nothing
RATES_TIMEOUT_S = 120.0
BLOCK_S = 0.2  # of a probe: there are many, and a minute
KEPT = 0.93  # of the time, for the probes: the last of them ends up to some blocks late
STALE_DAYS = 90
SCHEMA = 6
Array = NDArray[np.float64]
CodePath = Mapping[str, str | bool | None]

# Classifiers near those of 1,500 drawn at random that tell the prices of new ones best between them (I-optimal: the
# least mean variance of what is predicted). Repeats among those were replaced by hand, so that each optimizer, a large
# table and a small model are among them. Then plain products inside and outside of the cache, and windows.
_CLASSIFIERS: tuple[tuple[int, int, int, int, int, str], ...] = (
    # vocabulary, embedding, units, length, batch, optimizer
    (2_000, 50, 32, 25, 16, "adam"),  # first, since it holds next to nothing: what a process holds that trains at all
    (10_000, 300, 128, 16, 256, "sgd"),
    (200_000, 100, 32, 16, 16, "rmsprop"),
    (20_000, 50, 64, 8, 256, "sgd"),
    (200_000, 100, 32, 8, 16, "sgd"),
    (5_000, 100, 256, 100, 16, "adam"),
    (5_000, 50, 64, 64, 256, "sgd"),
    (20_000, 300, 256, 8, 256, "rmsprop"),
    (10_000, 100, 256, 32, 16, "sgd"),
    (20_000, 50, 32, 100, 128, "adam"),
    (200_000, 50, 32, 64, 16, "sgd"),
    (200_000, 100, 32, 8, 128, "adam"),
    (50_000, 300, 128, 32, 32, "rmsprop"),
    (5_000, 200, 128, 50, 64, "adam"),
)
_SIZES = ("vocabulary", "embedding", "units", "length", "batch", "optimizer")
_FIRST, *_OTHERS = (("classifier", dict(zip(_SIZES, sizes, strict=True))) for sizes in _CLASSIFIERS)
# Its samples are large: how often `fit` holds them. Second, since a stack may put them where a larger model was.
_WIDE = ("dense", {"width": 1_500, "layers": 3, "batch": 128})
DESIGNS: tuple[tuple[str, dict[str, Any]], ...] = (
    _FIRST,
    _WIDE,
    *_OTHERS,
    ("dense", {"width": 64, "layers": 4, "batch": 16}),
    ("convolution", {"side": 32, "filters": 16, "batch": 32}),
)
OF_COPIES = DESIGNS.index(_WIDE)


@dataclass(frozen=True)
class Calibration:
    """The costs of one stack on one machine, and where they come from.

    seconds: of a unit of each term; error: standard deviation of the logarithm of measured over predicted (see doubt);
    first_s: what a first step took beyond the others, the median of the probes; loaded_bytes: memory of a process that
    has not begun to train, without the model; runtime_bytes: what it grows by when it trains, whatever the model;
    copies: how often `fit` holds its samples; path: the code path that the framework took,
    and who answered malloc (code_path); took_s: seconds of the probes; probes: (step measured, predicted).
    """

    machine: str
    stack: str
    date: str
    versions: Mapping[str, str] = field(hash=False)
    path: CodePath = field(hash=False)
    seconds: Mapping[str, float] = field(hash=False)
    error: float
    first_s: float
    loaded_bytes: float
    runtime_bytes: float
    copies: resident.Copies
    took_s: float
    probes: Sequence[tuple[float, float]]
    schema_version: int = SCHEMA

    @property
    def name(self) -> str:
        """Whose costs they are, and since when."""
        return f"{self.stack} on this machine under {self.path.get('allocator', 'glibc')}, calibrated {self.date[:10]}"

    def prices(self) -> Prices:
        """As the formula takes them."""
        return Prices(self.name, dict(self.seconds), self.error)


def folder() -> Path:
    """Where calibrations lie: $TRAINTIME_CALIBRATIONS, or the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TRAINTIME_CALIBRATIONS") or Path(cache) / "traintime" / "calibrations")


def file_of(stack: str, allocator: str) -> Path:
    """The file of this machine's calibration of a stack under an allocator."""
    return folder() / f"{machine.this()}-{stack}-{allocator}.json"


def calibrate(stack: str, allocator: str = "glibc", seconds: float = SECONDS) -> Calibration:
    """Train the designed models for about so many seconds in a process of their own, and store the costs.

    Raises InputError for a stack that is not here or runs no Keras 3, RuntimeError where the process fails.
    """
    chosen = stacks.get(stack)
    if chosen.api != "keras3":
        raise InputError("stack", stack, "runs no Keras 3", "Take 2026-tensorflow, 2026-jax or 2026-torch.")
    if not chosen.present:
        raise InputError("stack", stack, "is not here", f"Add it: {chosen.add_command}")
    run = validated(Run, {"allocator": allocator}, "allocator")
    # What the reader has set of the code path holds for the probes, too: else none of his would be like them.
    environment = chosen.environment(default_threads(), run) | settings(chosen.backend)
    job = {"seconds": seconds}
    command = [str(chosen.executable), "-m", "traintime.predict.calibrate"]
    answer = run_worker(command, job, environment, 4 * seconds + 120)
    if answer["status"] != "ok":
        raise RuntimeError(f"{stack}: {answer['status']}: {answer.get('error')}")
    process_data = answer["result"]
    probes = process_data.pop("probes")
    measured = np.array([each["step_s"] for each in probes])
    habits = habits_here(stack, allocator, rates_here())
    values = prices.design([Work(**each["work"]) for each in probes]) * prices.pays(stack)
    fitted, left_out = fit(values, measured, np.array([habits.seconds[term] for term in TERMS]))
    made = Calibration(
        machine=machine.this(),
        stack=stack,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        versions=chosen.versions(),
        seconds=dict(zip(TERMS, fitted.tolist(), strict=True)),
        error=doubt(left_out, float(prices.habits(_measured(stack, allocator)).loc[stack, "error"].iloc[0])),
        first_s=float(np.median([each["first_s"] for each in probes])),
        probes=list(zip(measured.tolist(), (values @ fitted).tolist(), strict=True)),
        **process_data | {"copies": resident.Copies(**process_data["copies"])},
    )
    path = file_of(stack, allocator)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(asdict(made), indent=1))
    return made


def fit(values: Array, seconds: Array, habits: Array) -> tuple[Array, float]:
    """Costs, and the error of probes left out. values: shape (probes, terms); seconds: (probes,); habits: (terms,).

    Non-negative least squares in relative error, a row for each probe and one for each efficiency factor, each over
    what it is trusted by. An efficiency factor below FREE of what a term would cost if it were a step alone (a median
    over the probes) is trusted as if it were that: a cost of 0 in a fit to other machines' points denies nothing.
    """

    def solve(at: Array, took: Array) -> Array:
        alone = [np.median(took[has] / column[has]) if (has := column > 0).any() else 0.0 for column in at.T]
        scale = np.maximum(habits, FREE * np.array(alone))
        scale = np.where(scale > 0, scale, 1.0)
        design = np.vstack([at * scale / took[:, None] / MISFIT, np.eye(len(habits)) / TRUST])
        target = np.concatenate([np.ones(len(took)) / MISFIT, habits / scale / TRUST])
        return nnls(design, target)[0] * scale

    return solve(values, seconds), rms(prices.left_out(values, seconds, range(len(seconds)), solve))


def doubt(left_out: float, formula: float) -> float:
    """The error that a calibration is given, from that of its probes left out and that of the formula for this stack.

    Both standard deviations of logarithms. Few probes tell their own error badly: it came out at a third of what new
    models then missed by on one stack, and at twice that on another. So it counts half, and half the formula's own
    misfit of the many points that it was fitted to.
    """
    return math.sqrt((left_out**2 + formula**2) / 2)


def stored(stack: str, allocator: str | None = None) -> Calibration:
    """This machine's calibration of a stack, under the allocator that answers here.

    Raises InputError where there is none, or where it is another machine's, stale, of other versions, or was made on
    another code path.
    """
    allocator = allocator or who_answers()
    path = file_of(stack, allocator)
    again = f"Run: traintime calibrate --stack {stack}" + (f" --allocator {allocator}" if allocator != "glibc" else "")
    if not path.exists():
        raise InputError("calibration", f"{stack} under {allocator}", "is not there", again)
    found = read(path)
    if (days := (datetime.now(UTC) - datetime.fromisoformat(found.date)).days) > STALE_DAYS:
        raise InputError("calibration", path.name, f"is {days} days old", again)
    if found.machine != machine.this():
        raise InputError("calibration", path.name, f"is of another machine ({found.machine})", again)
    chosen = stacks.get(stack)
    now = chosen.versions()
    if dict(found.versions) != now:
        other = ", ".join(f"{name} {now.get(name)}" for name in now if found.versions.get(name) != now[name])
        raise InputError("calibration", path.name, f"is of other versions than {other}", again)
    if parts := differing(found.path, code_path(chosen.backend) | {"allocator": allocator}):
        raise InputError("calibration", path.name, f"was made on another code path: {parts}", again)
    return found


def read(path: Path) -> Calibration:
    """The calibration in a file. Raises InputError for any other file."""
    try:
        found = json.loads(path.read_text())
        if found.get("schema_version") != SCHEMA or set(found["seconds"]) != set(TERMS):
            raise ValueError("another layout")
        return Calibration(**found | {"copies": resident.Copies(**found["copies"])})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        problem = f"is no calibration ({error})"
        raise InputError("calibration", path.name, problem, "Run: traintime calibrate") from None


def who_answers() -> str:
    """The allocator of this process; the usual one where nobody can tell."""
    return process.allocator() or prices.USUAL


# The same model on the same machine costs something else with oneDNN switched off, or where the kernel hands out memory
# in larger pages: costs that were measured on one code path say nothing of another. Variables by which a reader chooses
# that of each backend; sources: TensorFlow's release notes of 2.9; "CPU Dispatcher Control" (oneDNN's documentation);
# "XLA compiler flags" (JAX's); aten/src/ATen/native/cpu/README.md in torch; the README of OpenBLAS.
EVERY = ("OPENBLAS_CORETYPE",)
SETTINGS = {
    "tensorflow": ("TF_ENABLE_ONEDNN_OPTS", "ONEDNN_MAX_CPU_ISA", *EVERY),
    "jax": ("XLA_FLAGS", *EVERY),
    "torch": ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", *EVERY),
}
NOT_SET = "not set"


def settings(backend: str) -> dict[str, str]:
    """What the reader has set of a backend's code path, by variable; nothing where all is left to the framework."""
    return {name: os.environ[name] for name in SETTINGS[backend] if name in os.environ}


def code_path(backend: str) -> dict[str, str | bool | None]:
    """The code path of a backend in this process: what the reader has set, and what the libraries chose themselves;
    None for what cannot be read off, because it is not loaded, say.
    """
    path = process.code_path() | {name: os.environ.get(name, NOT_SET) for name in SETTINGS[backend]}
    return path | ({"onednn": _onednn()} if backend == "tensorflow" else {})


def _onednn() -> bool | None:
    """Whether TensorFlow runs its matmuls through oneDNN, which it decides by the processor if nobody else does
    (as the workers read it off: measuring/worker/train_keras3.py, which imports nothing of the package).
    """
    if "tensorflow" not in sys.modules:
        return None
    try:
        from tensorflow.python.util import _pywrap_util_port

        return bool(_pywrap_util_port.IsMklEnabled())
    except (ImportError, AttributeError):
        return None


def differing(then: CodePath, now: CodePath) -> str:
    """Where two code paths differ, in words; "" where they do not, as far as both are known."""
    both = [name for name, value in then.items() if value is not None and now.get(name) is not None]
    return ", ".join(f"{name} was {then[name]}, is {now[name]}" for name in both if then[name] != now[name])


def rates_here() -> Rates:
    """What this machine reaches, measured now; takes some seconds.

    By a process of its own: an allocator that keeps its memory would keep the half gibibyte that it takes, and a probe
    of this process would count it as the model's. Raises RuntimeError where that process fails.
    """
    answer = run_worker([sys.executable, "-m", "traintime.measuring.machine"], {}, dict(os.environ), RATES_TIMEOUT_S)
    if answer["status"] != "ok":
        raise RuntimeError(f"measuring this machine's rates: {answer['status']}: {answer.get('error')}")
    rates = answer["result"]
    return Rates(rates["matmul_flop_per_s"], rates["bandwidth_bytes_per_s"])


def habits_here(stack: str, allocator: str, rates: Rates) -> Prices:
    """A stack's efficiency factors at this machine's rates; under the usual allocator where they are not known under
    this one.
    """
    return prices.of_rates("this machine", rates, stack, _measured(stack, allocator))


def prices_here(stack: str) -> Prices:
    """This machine's calibration of a stack where there is one that counts, else its efficiency factors at this
    machine's rates.
    """
    allocator = who_answers()
    try:
        return stored(stack, allocator).prices()
    except InputError:
        return habits_here(stack, allocator, rates_here())


def _measured(stack: str, allocator: str) -> str:
    """The allocator, or the usual one where the stack's efficiency factors are not known under this one."""
    return allocator if stack in prices.known(allocator) else prices.USUAL


def _probe(seconds: float) -> dict[str, Any]:
    """Train the designs in this process: the work and the step of each."""
    import keras

    from traintime.predict import bench_models
    from traintime.predict.keras_trainer import TRIED_BYTES, KerasTrainer
    from traintime.predict.probe import trained
    from traintime.predict.work import work

    start, probes, loaded, runtime, copies = time.perf_counter(), [], 0.0, 0.0, resident.ONCE
    for place, (kind, sizes) in enumerate(DESIGNS):
        left = start + KEPT * seconds - time.perf_counter()
        if left <= 0:
            break
        keras.utils.clear_session()
        model, batch = bench_models.build(kind, dict(sizes)), sizes["batch"]
        until = time.perf_counter() + left / (len(DESIGNS) - place)
        trainer = KerasTrainer(model)
        before = resident.now()
        seen = trained(trainer, batch, until, time.perf_counter, BLOCK_S)
        total = work(model, batch).total
        probes.append({"step_s": seen.step_s, "first_s": seen.start_s, "work": asdict(total)})
        if not place:  # it has next to no weights
            loaded = before
            runtime = resident.peak() - loaded - holdings.of_stack(trainer.stack).of_model(total)
        if place == OF_COPIES:
            copies = trainer.copies(batch, TRIED_BYTES // trainer.sample_bytes)
    path = code_path(keras.backend.backend()) | {"allocator": who_answers()}
    about = {"loaded_bytes": loaded, "runtime_bytes": max(runtime, 0.0), "copies": asdict(copies), "path": path}
    return {"probes": probes, "took_s": time.perf_counter() - start} | about


def main() -> None:
    """Answer one job on its channel."""
    job = json.loads(sys.stdin.read())
    answer = {"event": "result", "status": "ok", "result": _probe(job["seconds"])}
    os.write(job["channel"], json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
