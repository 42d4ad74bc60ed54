"""What a training costs on a card that nobody here owns: seven costs fitted to what others timed on cards, and how far
they miss cards and sources that they were not fitted to.

A step costs, on any card: something as a step, something for each launch (of an operation by itself, of one in a
compiled step, of a time step of cuDNN's), and its operations, bytes and activations as many times as long as the data
sheet's peaks allow at the least (costs.FACTORS; costs.on_card says which software pays which).

What follows was fixed before any error of such a fit was computed, though the times themselves were known, and the
errors of the rule before it:

- What counts: `trainings`, all that others published with their sizes on a card that they named, and our own card.
- Weight: a source with n trainings weighs √n, so that a long table has neither one vote nor n.
- Fit: least squares of log(predicted / took): too high and too low by a factor count the same. No cost is below zero.
- Left out, whole: each card, and each source (`folds`). No training is judged by a fit that has seen its card, in the
  first, or its source, in the second; two that leave out the same count once.
- The interval: predicted ×/÷ the factor that nine tenths (by weight) of what is left out miss by or less. Whether it
  covers a fold is judged by the other folds alone: their errors, of fits to neither.
- Goal: nine of ten within ×/÷ 2, an interval whose ends are a factor of 6 apart at most, 85 to 95 % covered.
- At most two forms of the sum are tried, and both are reported. The first had one cost for the launches in a compiled
  step and for cuDNN's time steps, and nothing kept a peak from being passed. Of what was left out 86 % (by weight) lay
  within ×/÷ 2, and the interval spanned 6.2 and covered 89 %. The second, this one, was written after those errors.

Two derived tables hold it: cards.csv, what is missed, and card-costs.csv, the costs in use, fitted to everything.
"""

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from traintime import paths
from traintime.explain.least_squares import Array, Mask
from traintime.explain.terms import TERMS
from traintime.point import make_point
from traintime.predict import costs
from traintime.predict.answer import LEVEL
from traintime.predict.costs import FACTORS, LAYER
from traintime.predict.fits import steps_s
from traintime.store import derived
from traintime.workloads.base import FLOAT, UPDATES, Work, matmul

THE_DOCUMENTS, TITAN = "K40m", "TitanX-Maxwell"
# The software of the time, by what a source calls it. 2017-torch is no stack of ours; like the others it runs one
# operation after the other.
OTHERS = {
    "theano": "2017-theano",
    "Theano": "2017-theano",
    "TensorFlow": "2017-tensorflow",
    "Torch": "2017-torch",
    "PyTorch 0.4.0": "2017-torch",
    "Keras 2.1.6 on TensorFlow 1.8": "2017-tensorflow",
    "Keras 2.1.6 on Theano 1.0.1": "2017-theano",
}
WAYS = {"loop": "loop", "kernel a time step": "loop", "cuDNN": "cudnn"}  # of lstm-implementations.csv
EVERY_NETWORK = (32, 96, 192, 384, 768, 1536)  # images of a batch with which each network of cnn-a100.csv was trained
OURS = ("intel-xeon-family6-model207-16-cores-126-gib-nvidia-h200", "H200-SXM")
LEAST = {"operations": 1.0, "bytes": 1.0}  # no card passes its peaks
COLUMNS = ["left_out", "source", "device", "stack", "kernel", "key"]
COLUMNS += ["took_s", "predicted_s", "low_s", "high_s", "weight"]

Row = dict[str, Any]


def trainings() -> pd.DataFrame:
    """All steps that were published, or that we measured, on a card with all their sizes, a row each (_training)."""
    sources = (_document, _benchmarks, _implementations, _layers, _networks, _ours)
    return pd.DataFrame([one for source in sources for one in source()])


def _training(source: str, device: str, stack: str, kernel: str, key: str, work: Work, took_s: float) -> Row:
    """A step that somebody timed on a card: whose figure it is, the card as data/external/hardware.csv names it, the
    software, what computes its products (costs.kernel_of), a name, seconds, and for each of FACTORS seconds a unit.
    """
    row = {"source": source, "device": device, "stack": stack, "kernel": kernel, "key": key, "took_s": took_s}
    row |= dict.fromkeys(FACTORS, 0.0)
    amounts = dict(zip(TERMS, costs.design([work])[0].tolist(), strict=True))
    for term, (factor, least) in costs.on_card(device, stack, kernel).items():
        row[factor] += least * amounts[term]
    return row


def _external(name: str) -> Iterator[Any]:
    """The lines of a file of data/external."""
    return pd.read_csv(paths.EXTERNAL / f"{name}.csv").itertuples()


def _document() -> Iterator[Row]:
    """The 2017 post's cells of its GPU: data/original/s0-*.csv."""
    cells = pd.concat([pd.read_csv(paths.ORIGINAL / f"s0-{name}.csv") for name in ("vocabulary", "batch")])
    for one in cells[cells["device"] == "GPU"].itertuples():
        point = make_point(vocabulary=int(one.vocabulary), batch=int(one.batch), length=int(one.length))
        took_s, stack = one.epoch_s / (one.sentences / one.batch), OTHERS[one.backend]
        yield _training("2017 post", THE_DOCUMENTS, stack, "loop", point.key, point.work, took_s)


def _benchmarks() -> Iterator[Row]:
    """LSTMs on a Titan X, with as many inputs as units, trained by SGD; a table of embeddings alone, by Adam."""
    for one in _external("benchmarks"):
        if one.name == "rnn-benchmarks":
            sizes = {name: int(getattr(one, name)) for name in ("units", "length", "batch")}
            point = make_point("lstm", inputs=sizes["units"], **sizes, optimizer="sgd")
            took_s, stack = one.seconds_per_sample * one.batch, OTHERS[one.framework]
            yield _training("rnn-benchmarks", TITAN, stack, "loop", point.key, point.work, took_s)
        if one.name == "tensorflow-14075":
            numbers = int(one.vocabulary * one.embedding)
            work = UPDATES["adam"].work(numbers, numbers) + Work(launches=2)
            key = f"embedding-v{one.vocabulary:.0f}-e{one.embedding:.0f}-adam"
            stack = OTHERS[one.framework]
            yield _training("TensorFlow 14075", one.device, stack, "matmul", key, work, float(one.seconds_per_step))


def _implementations() -> Iterator[Row]:
    """One LSTM in several implementations on a GTX 1080."""
    for one in _external("lstm-implementations"):
        point = make_point("lstm", inputs=one.inputs, units=one.units, length=one.length, batch=one.batch)
        about = ("Braun 2018", one.device.replace(" ", ""), OTHERS[one.framework], WAYS[one.way])
        yield _training(*about, point.key, point.work, one.printed_ms / 1e3)


def _layers() -> Iterator[Row]:
    """cuDNN's LSTM by itself on five cards. Its inputs are not multiplied there."""
    for one in _external("cudnn-lstm"):
        kept = FLOAT * 18 * one.units * one.batch * one.length
        work = matmul(one.batch, one.units, 4 * one.units, copies=one.length)
        work += Work(parameters=4 * one.units**2, activation_bytes=kept, launches=2 * one.length, recurrent_bytes=kept)
        took_s = (one.forward_ms + one.backward_inputs_ms + one.backward_weights_ms) / 1e3
        key = f"lstm-u{one.units}-l{one.length}-b{one.batch}-recurrent"
        yield _training("DeepBench", one.device, LAYER, "cudnn", key, work, took_s)


def _networks() -> Iterator[Row]:
    """Convolutional networks on an A100, as our fits have them."""
    about = ("A100 networks", "A100-80GB-PCIe", "2026-tensorflow", "convolution")
    for one in _external("cnn-a100"):
        for batch in EVERY_NETWORK:
            key, took_s = f"cnn-d{one.depth}-f{one.filters}-b{batch}-adam", one.step_s + batch * one.sample_s
            yield _training(*about, key, network(one.depth, one.filters, batch), took_s)


def _ours() -> Iterator[Row]:
    """Our own steps on our card: the mean over the invocations that count."""
    machine, device = OURS
    for one in derived.measured(machine):
        run = one.point.run
        if run.device == "gpu" and (seconds := steps_s(one)):
            about = ("our H200", device, one.stack, "cudnn" if run.kernel == "cudnn" else "loop")
            yield _training(*about, one.point.key, one.point.work, float(np.mean(seconds)))


def network(depth: int, filters: int, batch: int) -> Work:
    """The work of a step of one of the networks on the A100, in closed form.

    CIFAR-10's images; depth blocks of two 3 × 3 convolutions (ReLU, zeros at the border) and a 2 × 2 max-pooling, with
    twice the filters in each next block; dense layers of 128 units and 10. Adam.
    """
    side, maps, wide = 32, 3, filters
    products, parameters, numbers = [], 0, side**2 * maps
    for _ in range(depth):
        for _ in range(2):
            products.append(matmul(batch * side**2, 9 * maps, wide, gradients=2 if products else 1))
            parameters += (9 * maps + 1) * wide
            numbers += side**2 * wide
            maps = wide
        side, wide = side // 2, 2 * wide
        numbers += side**2 * maps
    inner = side**2 * maps
    for units in (128, 10):
        products.append(matmul(batch, inner, units))
        parameters += (inner + 1) * units
        numbers += units
        inner = units
    others = Work(activation_bytes=FLOAT * batch * numbers, launches=2 * (3 * depth + 2))
    return sum(products, UPDATES["adam"].work(parameters, parameters) + others)


def folds(given: pd.DataFrame) -> dict[str, Mask]:
    """What is left out together, by name, "card …" or "source …": which of the trainings it is, shape (trainings,)."""
    found: dict[str, Mask] = {}
    for what, names in (("card", given["device"]), ("source", given["source"])):
        for name in names.unique():
            mask = (names == name).to_numpy()
            if not any(np.array_equal(mask, other) for other in found.values()):
                found[f"{what} {name}"] = mask
    return found


def weights(given: pd.DataFrame) -> Array:
    """The weight of each training, shape (trainings,): those of a source with n of them have √n together."""
    sources = list(given["source"])
    return np.array([sources.count(each) ** -0.5 for each in sources])


def fit(terms: Array, seconds: Array, weight: Array) -> Array:
    """The factors, shape (FACTORS,): least squares of log(predicted / took), none below zero or LEAST.

    terms: seconds for a unit of each factor, shape (trainings, FACTORS); seconds, weight: shape (trainings,).
    """
    from scipy.optimize import least_squares, nnls  # half a second of import, which a prediction does not need

    root = np.sqrt(weight)
    scale = np.maximum((terms / seconds[:, None]).max(axis=0), 1e-300)  # seconds a step and shares: orders apart
    units = terms / seconds[:, None] / scale
    least = scale * np.array([LEAST.get(name, 0.0) for name in FACTORS])
    start = np.maximum(nnls(units * root[:, None], root)[0], least) + 1e-3
    found = least_squares(lambda factors: root * np.log(units @ factors), start, bounds=(least, np.inf), xtol=1e-12)
    return np.where(terms.any(axis=0), np.where(found.x < least + 1e-9, least, found.x) / scale, 0.0)


def quantile(errors: Array, weight: Array) -> float:
    """The error that a share of LEVEL of all, by weight, does not exceed."""
    order = np.argsort(errors)
    summed = np.cumsum(weight[order])
    return float(errors[order][np.searchsorted(summed, LEVEL * summed[-1])])


def held_out(given: pd.DataFrame) -> pd.DataFrame:
    """A row for each training and fold that it is left out in, columns COLUMNS: predicted_s by the trainings outside
    the fold, low_s and high_s by the errors of the other folds.
    """
    # Row by row: in which order a sum is made decides its last digit.
    terms, seconds = np.array(given[list(FACTORS)], order="C"), given["took_s"].to_numpy()
    masks, weight = folds(given), weights(given)
    shared = weight / sum(mask.astype(float) for mask in masks.values())  # a training of two folds counts half in each

    def without(left_out: Mask) -> Array:
        unknown = ~terms[~left_out].any(axis=0)  # costs that nothing which is left has paid
        found = terms @ fit(terms[~left_out], seconds[~left_out], weight[~left_out])
        return np.where((terms[:, unknown] > 0).any(axis=1), np.nan, found)

    parts = []
    for name, mask in masks.items():
        others, of_others = [], []
        for other in masks.values():
            missed = np.abs(np.log(seconds / without(mask | other)))
            rest = other & ~mask & ~np.isnan(missed)
            others.append(missed[rest])
            of_others.append(shared[rest])
        predicted, factor = without(mask), np.exp(quantile(np.concatenate(others), np.concatenate(of_others)))
        its = given.assign(left_out=name, predicted_s=predicted, low_s=predicted / factor, high_s=predicted * factor)
        parts.append(its.assign(weight=shared).loc[mask, COLUMNS])
    return pd.concat(parts, ignore_index=True)


@functools.cache
def derive() -> pd.DataFrame:
    """What each training is predicted to take by costs that it was not fitted to (held_out)."""
    return held_out(trainings())


def derive_costs() -> pd.DataFrame:
    """The costs fitted to all trainings: columns factor (FACTORS, and "error", the standard deviation of a logarithm
    whose interval at LEVEL has nine tenths of those left out) and value.
    """
    given, left_out = trainings(), derive()
    terms = np.array(given[list(FACTORS)], order="C")
    found = dict(zip(FACTORS, fit(terms, given["took_s"].to_numpy(), weights(given)), strict=True))
    missed = np.abs(np.log(left_out["predicted_s"] / left_out["took_s"])).to_numpy()
    found["error"] = quantile(missed, left_out["weight"].to_numpy()) / ndtri(0.5 + LEVEL / 2)
    return pd.DataFrame({"factor": list(found), "value": list(found.values())})
