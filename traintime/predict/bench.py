"""How often the predictor is right: models drawn at random, predicted, and then trained; `traintime bench-predict`.

Each is predicted in one process and trained in two others, so that training again has an error, too.
"""

import functools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from traintime.errors import InputError, unknown
from traintime.explain.memory import memory_model
from traintime.explain.statistics import Interval
from traintime.measuring import allocators, machine
from traintime.measuring.measure import run_module
from traintime.point import make_point
from traintime.predict import process, record
from traintime.predict.costs import USUAL
from traintime.predict.estimate import estimate
from traintime.store import records

TRAINED_S = 20.0  # that a training should take, so that it is one, if nothing else is asked for
BATCHES = (20, 5000)  # fewest and most of such a training
SLOW = 6.0  # times as long as it should take it may be predicted to: one of slow steps has fewer batches than that
LONG_S, LONG_EPOCHS = 60.0, 5  # one that should take longer has epochs, whose times tell how it drifts
LEAST = 3  # but never fewer
MOST_BYTES = 2**29  # of its samples
ROUGH_S = 5.0  # that a plain loop is stepped, to say how many batches its training has
MOST_MEMORY = 0.5  # of the machine's: what is predicted, from its sizes alone, to need more is drawn anew
TIMEOUT_S = 1800.0
Step = Callable[[int], None]  # trains a loop in plain PyTorch on so many samples
WHOLE = "whole"  # sizes of the classifier; until 24 November 2026 they were narrower, and a case has no "domain"
# The sizes of each kind: a whole number between two, as likely in each octave, times a third one; or one of a list.
# First Keras models, of which the classifier is the 2017 post's kind; what the others are stands at `build` and `loop`.
KINDS: dict[str, dict[str, Any]] = {
    "classifier": {
        "vocabulary": (5_000, 2_000_000),
        "embedding": (50, 300),
        "units": (32, 512),
        "length": (8, 400),
        "batch": (8, 1024),
        "optimizer": ["adam", "sgd", "rmsprop"],
    },
    "recurrent": {"features": (4, 64), "units": (16, 96), "length": (10, 60), "batch": (16, 128)},
    "convolution-1d": {"filters": (16, 96), "length": (100, 1000), "batch": (16, 128)},
    "convolution-2d": {"filters": (8, 48), "side": (16, 64), "batch": (8, 64)},
    "attention": {
        "vocabulary": (1_000, 50_000),
        "width": (2, 12, 16),
        "heads": [2, 4],
        "length": (16, 128),
        "batch": (8, 64),
    },
    "dense": {"width": (64, 2000), "layers": [2, 3, 4, 5, 6], "batch": (16, 1024)},
}
# Classifiers of which one a tenth as large in one size is tried.
BEYOND = 10
BEYONDS = {
    "beyond-vocabulary": {"vocabulary": (5_000, 200_000, BEYOND)},
    "beyond-length": {"length": (4, 40, BEYOND)},
    "beyond-batch": {"batch": (4, 100, BEYOND)},
}
LOOPS: dict[str, dict[str, Any]] = {
    "loop-dense": {"width": (64, 1000), "batch": (16, 256)},
    "loop-lstm": {"vocabulary": (1_000, 50_000), "units": (32, 200), "length": (10, 60), "batch": (8, 64)},
    "loop-convolution": {"filters": (8, 48), "side": (16, 48), "batch": (8, 64)},
    "loop-attention": {"width": (2, 12, 16), "length": (16, 96), "batch": (8, 48)},
    "loop-bag": {"vocabulary": (20_000, 1_000_000), "width": (32, 128), "length": (10, 100), "batch": (16, 256)},
}


def over_truth(case: Mapping[str, Any]) -> dict[str, Interval]:
    """Each way's prediction over the truth, with its interval where it has one, by tier ("probed", the time; "probed
    memory", the peak) and, for the second training, "again".
    """
    names = {"one batch": "one_batch_s", "FLOPs / peak": "flops_s", "line": "line_s"}
    alone = {way: case[name] for way, name in names.items() if case.get(name) is not None}
    if len(case["fit_s"]) > 1:
        alone |= {"again": case["fit_s"][1], "again memory": case["peaks"][1]}
    found = {way: Interval(value) for way, value in alone.items()}
    for tier, one in case["predicted"].items():
        found |= {way: Interval(**one[of]) for way, of in ((tier, "total"), (f"{tier} memory", "memory")) if one[of]}
    true = {way: case["peaks" if way.endswith(" memory") else "fit_s"][0] for way in found}
    return {way: one.scaled(1 / true[way]) for way, one in found.items()}


def run(
    backends: list[str],
    cases: int,
    seed: int | None = None,
    seconds: float = 20.0,
    kinds: list[str] | None = None,
    trained_s: float = TRAINED_S,
) -> Iterator[dict[str, Any]]:
    """Draw, predict and train so many models of each kind on each backend; each as soon as it is done (_case). seed:
    None for others at every run; seconds: of each probe; trained_s: of each training, about, beyond LONG_S in epochs;
    kinds: None for all. Raises InputError for a kind that is not known, RuntimeError where a process fails.
    """
    every = [*KINDS, *BEYONDS, *LOOPS]
    for kind in kinds or ():
        if kind not in every:
            raise unknown("kind", kind, every)
    random = np.random.default_rng(seed)
    for _ in range(cases):
        for kind in kinds or every:
            for backend in backends:
                if kind not in LOOPS or backend == "torch":
                    sizes, redrawn = _fitting(backend, kind, functools.partial(draw, kind, random))
                    job = {"kind": kind, "sizes": sizes, "allocator": USUAL, "trained_s": trained_s}
                    yield _case(backend, job, seconds) | {"redrawn": redrawn}


def _fitting(backend: str, kind: str, draw: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], int]:
    """Sizes that need at most MOST_MEMORY of this machine by the memory model, and how many draws did not: of the 2017
    post's kind alone, since no other could fill a machine.
    """
    sizes, redrawn = draw(), 0
    if kind == "classifier" or kind in BEYONDS:
        held, limit = memory_model(f"2026-{backend}"), MOST_MEMORY * machine.describe()["memory_bytes"]
        while held.peak_bytes(make_point(**sizes).work, sizes["optimizer"]) > limit:
            sizes, redrawn = draw(), redrawn + 1
    return sizes, redrawn


def folder() -> Path:
    """Where what was tried is kept if nothing else is said: in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "traintime" / "predicted"


def keep(case: dict[str, Any], folder: Path) -> Path:
    """Add the case to what this machine has tried so far, and say in which file; nothing there is touched."""
    path = folder / f"{case['machine']}.json"
    with records.lock(path):
        records.write_atomically(path, json.dumps([*kept(folder, case["machine"]), case], indent=1))
    return path


def kept(folder: Path, machine_key: str) -> list[dict[str, Any]]:
    """What a machine has tried; [] where it has tried nothing. Raises InputError for a broken file."""
    path = folder / f"{machine_key}.json"
    cases = records.parsed(path) if path.exists() else []
    if not isinstance(cases, list):
        raise InputError("measurement file", path.name, "is no JSON list", "Name another folder with --to.")
    return cases


def _case(backend: str, job: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A model, and what came of it, as plain values: seconds of the whole `fit`, bytes at the peak.

    fit_s, peaks: of the processes that trained it; done_s: until the last step, after which `fit` may sleep on
    TensorFlow; predicted: by tier, Estimate.to_dict(); spent_s: seconds that each answer took; allocator: who answered
    malloc; domain: of the sizes (WHOLE); redrawn: draws before it that needed too much memory;
    predictor_version: see record.versions; epochs_s: seconds of each epoch of the first training, if long. Cases up to
    version 9 lack some of these, and have what people do without a predictor: one_batch_s: the second batch, timed,
    times the batches; line_s: on the line through two smaller models; flops_s: the operations at the machine's rate.
    """
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {name: job[name] for name in ("kind", "sizes", "allocator")}
    if job["kind"] in LOOPS:  # in a process of its own: what it held would be found in the probe's memory
        job |= _ask(backend, job | {"task": "size"})
    about |= _ask(backend, job | {"task": "predict", "seconds": seconds})
    training = job | {"task": "train", "samples": about["samples"], "epochs": about["epochs"]}
    trainings = [_ask(backend, training) for _ in range(2)]
    about["epochs_s"] = trainings[0]["epochs_s"] if job["trained_s"] > LONG_S else None
    about |= {name: [one[name] for one in trainings] for name in ("fit_s", "done_s")}
    about |= {"stack": f"2026-{backend}", "started": started, "machine": machine.this()}
    about |= {"peaks": [one["peak"] for one in trainings], "domain": WHOLE}
    return about | {"predictor_version": int(record.versions().index.max())}


def _ask(backend: str, job: dict[str, Any]) -> dict[str, Any]:
    environment = dict(os.environ) | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment |= allocators.environment(job["allocator"], backend)
    patience_s = max(TIMEOUT_S, 2 * SLOW * job["trained_s"])
    answer = run_module("traintime.predict.bench", job, environment, patience_s)
    if answer["status"] != "ok":
        raise RuntimeError(f"{backend} {job['kind']} {job['sizes']}: {answer['status']}: {answer.get('error')}")
    return answer["result"]


def draw(kind: str, random: np.random.Generator) -> dict[str, Any]:
    """Sizes of a model of this kind."""
    sizes = draw("classifier", random) if kind in BEYONDS else {}
    for size, values in (KINDS | BEYONDS | LOOPS)[kind].items():
        if isinstance(values, list):
            sizes[size] = random.choice(values).item()
        else:
            low, high, *times = values
            sizes[size] = math.prod(times) * round(math.exp(random.uniform(math.log(low), math.log(high))))
    return sizes


def build(kind: str, sizes: dict[str, Any]) -> Any:
    """The compiled Keras model of a kind at these sizes."""
    import keras
    from keras import layers

    size, classes = sizes, 10
    match kind:
        case "recurrent":  # two bidirectional GRUs over measured values
            inputs, classes = keras.Input((size["length"], size["features"])), 5
            hidden = layers.Bidirectional(layers.GRU(size["units"], return_sequences=True))(inputs)
            hidden = layers.Bidirectional(layers.GRU(size["units"]))(hidden)
        case "convolution-1d":  # three Conv1D with pooling
            inputs = hidden = keras.Input((size["length"], 4))
            for _ in range(3):
                hidden = layers.Conv1D(size["filters"], 5, padding="same", activation="relu")(hidden)
                hidden = layers.MaxPooling1D(2)(hidden)
            hidden = layers.GlobalAveragePooling1D()(hidden)
        case "convolution-2d":  # four Conv2D with normalisation, one of them separable
            inputs = keras.Input((size["side"], size["side"], 3))
            hidden = layers.Conv2D(size["filters"], 3, padding="same", activation="relu")(inputs)
            hidden = layers.BatchNormalization()(layers.Conv2D(size["filters"], 3, padding="same")(hidden))
            hidden = layers.MaxPooling2D(2)(layers.ReLU()(hidden))
            hidden = layers.SeparableConv2D(2 * size["filters"], 3, padding="same", activation="relu")(hidden)
            hidden = layers.Conv2D(2 * size["filters"], 3, padding="same", activation="relu")(hidden)
            hidden = layers.GlobalAveragePooling2D()(hidden)
        case "attention":  # two blocks of self-attention over tokens
            inputs, classes = keras.Input((size["length"],), dtype="int32"), 4
            hidden = layers.Embedding(size["vocabulary"], size["width"])(inputs)
            for _ in range(2):
                seen = layers.MultiHeadAttention(size["heads"], size["width"] // size["heads"])(hidden, hidden)
                hidden = layers.LayerNormalization()(layers.Add()([hidden, seen]))
                fed = layers.Dense(size["width"])(layers.Dense(4 * size["width"], activation="relu")(hidden))
                hidden = layers.LayerNormalization()(layers.Add()([hidden, fed]))
            hidden = layers.GlobalAveragePooling1D()(hidden)
        case "dense":  # layers of one width
            inputs = hidden = keras.Input((size["width"],))
            for _ in range(size["layers"]):
                hidden = layers.Dense(size["width"], activation="relu")(hidden)
        case _:  # the classifier: Embedding, LSTM, Dense
            inputs, classes = keras.Input((size["length"],), dtype="int32"), 2
            words = layers.Embedding(size["vocabulary"], size["embedding"])(inputs)
            hidden = layers.Dropout(0.5)(layers.LSTM(size["units"])(words))
    model = keras.Model(inputs, layers.Dense(classes, activation="softmax")(hidden))
    model.compile(size.get("optimizer", "adam"), "sparse_categorical_crossentropy")
    return model


_SAMPLES = 4096  # that a loop reads from memory


def loop(kind: str, size: dict[str, Any]) -> Callable[[int], None]:
    """A kind of plain PyTorch loop at these sizes: a function that trains on one batch of n samples."""
    import torch
    from torch import nn, optim

    each: dict[str, Any] = {}  # layers by name, where they do not follow one another
    named = ("vocabulary", "width", "units", "filters", "length")
    rows, width, units, filters, length = (size.get(name, 0) for name in named)
    match kind:
        case "loop-lstm":  # torch's own LSTM over embedded tokens
            each = {"words": nn.Embedding(rows, units), "out": nn.Linear(units, 10)}
            each["memory"] = nn.LSTM(units, units, batch_first=True)
            inputs, optimize = torch.randint(rows, (_SAMPLES, length)), optim.AdamW
        case "loop-convolution":  # 2-D convolutions with normalisation and a shortcut, under SGD with momentum
            each = {"first": nn.Conv2d(3, filters, 3, padding=1), "second": nn.Conv2d(filters, filters, 3, padding=1)}
            each |= {"normal": nn.BatchNorm2d(filters), "out": nn.Linear(filters, 10)}
            inputs = torch.randn(_SAMPLES, 3, size["side"], size["side"])
            optimize = functools.partial(optim.SGD, lr=0.01, momentum=0.9)
        case "loop-attention":  # two of torch's own encoder layers over vectors
            layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
            each = {"layers": nn.TransformerEncoder(layer, 2), "out": nn.Linear(width, 10)}
            inputs, optimize = torch.randn(_SAMPLES, length, width), optim.Adam
        case "loop-bag":  # a large table whose gradients are sparse; what reads it is not trained: its are not sparse
            words = nn.EmbeddingBag(rows, width, sparse=True)
            network = nn.Sequential(words, nn.Linear(width, 10).requires_grad_(False))
            inputs, optimize = torch.randint(rows, (_SAMPLES, length)), optim.SparseAdam
        case _:  # dense layers
            network = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
            inputs, optimize = torch.randn(_SAMPLES, width), optim.AdamW
    network = nn.ModuleDict(each) if each else network
    optimizer = optimize([weight for weight in network.parameters() if weight.requires_grad])
    targets = torch.randint(10, (_SAMPLES,))

    def convolved(given: Any) -> Any:
        hidden = each["first"](given).relu()
        return each["out"]((hidden + each["normal"](each["second"](hidden))).relu().mean((2, 3)))

    outputs = {
        "loop-lstm": lambda given: each["out"](each["memory"](each["words"](given))[0][:, -1]),
        "loop-convolution": convolved,
        "loop-attention": lambda given: each["out"](each["layers"](given).mean(1)),
    }.get(kind, network)

    def step(n: int) -> None:
        chosen = torch.randint(_SAMPLES, (n,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(outputs(inputs[chosen]), targets[chosen]).backward()
        optimizer.step()

    return step


# In the processes that predict and train


def _training(step_s: float, batch: int, trained_s: float, most: float = math.inf) -> dict[str, int]:
    """About as many samples as take the time that a training should have, if a step takes so many seconds (slow ones
    as many as SLOW allows), and a last batch that is not full; a long one has several epochs, of `most` batches.
    """
    wanted = np.clip(trained_s / step_s, BATCHES[0], BATCHES[1] * trained_s / TRAINED_S)
    batches = max(int(min(wanted, SLOW * trained_s / step_s)), LEAST)
    epochs = max(LONG_EPOCHS, math.ceil(batches / max(most, 1))) if trained_s > LONG_S else 1
    batches = max(LEAST, min(batches // epochs, most))
    return {"samples": batches * batch + batch // 3, "batch_size": batch, "epochs": epochs}


def _answers(training: dict[str, int], asked: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Estimates of a training by tier, and the seconds that each took. asked: by tier, what else `estimate` takes."""
    predicted, spent_s = {}, {}
    for tier, arguments in asked.items():
        start = time.perf_counter()
        predicted[tier] = estimate(**training, **arguments).to_dict()
        spent_s[tier] = time.perf_counter() - start
    about = {name: training[name] for name in ("samples", "epochs")}
    return about | {"predicted": predicted, "spent_s": spent_s}


def _predict(model: Any, job: dict[str, Any]) -> dict[str, Any]:
    """By the formula and probed; a classifier of BEYONDS from one a tenth as large in one size."""
    from traintime.predict.keras_trainer import KerasTrainer

    sizes, batch = job["sizes"], job["sizes"]["batch"]
    step_s = estimate(model, samples=batch, batch_size=batch, tier="formula").step.value
    training = _training(step_s, batch, job["trained_s"], MOST_BYTES // (batch * KerasTrainer(model).sample_bytes))
    trained = {"model": model, "seconds": job["seconds"], "keep": False}
    if job["kind"] not in BEYONDS:
        formula = {"model": model, "tier": "formula"}
        return _answers(training, {"formula": formula, "probed": trained | {"tier": "probed"}})
    size = job["kind"].removeprefix("beyond-")
    small = sizes | {size: sizes[size] // BEYOND}
    smaller = {"probe": build(job["kind"], small), "probe_batch": small["batch"]}
    return _answers(training, {"scaled": trained | smaller})


def _train(model: Any, job: dict[str, Any]) -> dict[str, Any]:
    import keras

    from traintime.predict.keras_trainer import KerasTrainer

    done, ends = [], []
    noted = keras.callbacks.LambdaCallback(
        on_train_end=lambda _: done.append(time.perf_counter()),
        on_epoch_end=lambda epoch, _: ends.append(time.perf_counter()),
    )
    x, y = KerasTrainer(model).samples(job["samples"])
    start = time.perf_counter()
    model.fit(x, y, batch_size=job["sizes"]["batch"], epochs=job["epochs"], verbose=0, callbacks=[noted])
    took = time.perf_counter() - start
    epochs_s = np.diff([start, *ends]).tolist()
    return {"fit_s": took, "done_s": done[0] - start, "epochs_s": epochs_s, "peak": process.peak()}


def _size_loop(step: Step, job: dict[str, Any]) -> dict[str, int]:
    """The training of a loop, whose steps nobody can count: by the shortest step of some."""
    batch, times = job["sizes"]["batch"], list[float]()
    while sum(times) < ROUGH_S or len(times) < LEAST:
        start = time.perf_counter()
        step(batch)
        times.append(time.perf_counter() - start)
    return _training(min(times), batch, job["trained_s"])


def _predict_loop(step: Step, job: dict[str, Any]) -> dict[str, Any]:
    training = {"samples": job["samples"], "batch_size": job["sizes"]["batch"], "epochs": job["epochs"]}
    return _answers(training, {"probed": {"step": step, "seconds": job["seconds"]}})


def _train_loop(step: Step, job: dict[str, Any]) -> dict[str, Any]:
    batch, ends = job["sizes"]["batch"], [time.perf_counter()]
    for _ in range(job["epochs"]):
        for begun in range(0, job["samples"], batch):
            step(min(batch, job["samples"] - begun))
        ends.append(time.perf_counter())
    took = ends[-1] - ends[0]
    return {"fit_s": took, "done_s": took, "epochs_s": np.diff(ends).tolist(), "peak": process.peak()}


def main() -> None:
    """Answer one job on its channel."""
    job = json.loads(sys.stdin.read())
    made, tasks = build, {"predict": _predict, "train": _train}
    if job["kind"] in LOOPS:
        made, tasks = loop, {"size": _size_loop, "predict": _predict_loop, "train": _train_loop}
    result = tasks[job["task"]](made(job["kind"], job["sizes"]), job)
    os.write(job["channel"], json.dumps({"event": "result", "status": "ok", "result": result}).encode() + b"\n")


if __name__ == "__main__":
    main()
