"""What a training costs on a card that nobody here owns: seven costs fitted to what others timed on cards, and how far
they miss cards and sources that they were not fitted to.

A step costs, on any card: something as a step, something for each launch (of an operation by itself, of one in a
compiled step, of a time step of cuDNN's), and its operations, bytes and activations as many times as long as the data
sheet's peaks allow at the least (prices.FACTORS; prices.factors_of says which software pays which).

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

`python -m traintime.predict.cards` writes data/derived/cards.csv, what is missed, and card-costs.csv, the costs in use,
which are fitted to everything; a test holds that both are what the trainings give.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls
from scipy.special import ndtri

from traintime import paths
from traintime.point import Point, make_point
from traintime.predict import prices
from traintime.predict.answer import LEVEL
from traintime.predict.prices import LAYER, Array
from traintime.store import derived, records
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
WITHIN, WIDTH, COVERED = 2.0, 6.0, (0.85, 0.95)  # the goal
LEAST = {"operations": 1.0, "bytes": 1.0}  # no card passes its peaks
COLUMNS = ["left_out", "source", "device", "stack", "kernel", "key"]
COLUMNS += ["took_s", "foretold_s", "low_s", "high_s", "weight"]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Training:
    """A step that somebody timed on a card: whose figure it is, the card as data/external/hardware.csv names it, the
    software, what computes its products (prices.kernel_of), a name, its work, and seconds.
    """

    source: str
    device: str
    stack: str
    kernel: str
    key: str
    work: Work
    took_s: float

    @property
    def terms(self) -> Array:
        """Seconds of the step for a unit of each factor, shape (FACTORS,)."""
        return prices.unit_costs(self.device, self.stack, self.kernel) @ prices.design([self.work])[0]


# What counts


def trainings() -> list[Training]:
    """All steps that were published, or that we measured, on a card with all their sizes."""
    return [*_document(), *_rnn_benchmarks(), *_embedding(), *_implementations(), *_layers(), *_networks(), *_ours()]


def _of_point(source: str, device: str, stack: str, kernel: str, point: Point, took_s: float) -> Training:
    return Training(source, device, stack, kernel, point.key, point.work, took_s)


def _document() -> list[Training]:
    """The 2017 post's cells of its GPU: data/original/s0-*.csv."""
    cells = pd.concat([pd.read_csv(paths.ORIGINAL / f"s0-{name}.csv") for name in ("vocabulary", "batch")])
    return [
        _of_point(
            "2017 post",
            THE_DOCUMENTS,
            OTHERS[one.backend],
            "loop",
            make_point(vocabulary=int(one.vocabulary), batch=int(one.batch), length=int(one.length)),
            one.epoch_s / (one.sentences / one.batch),
        )
        for one in cells[cells["device"] == "GPU"].itertuples()
    ]


def _rnn_benchmarks() -> list[Training]:
    """LSTMs on a Titan X, with as many inputs as units, trained by SGD: data/external/benchmarks.csv."""
    rows = pd.read_csv(paths.EXTERNAL / "benchmarks.csv").query("name == 'rnn-benchmarks'")
    found = []
    for one in rows.itertuples():
        sizes = {"inputs": int(one.units), "units": int(one.units), "length": int(one.length), "batch": int(one.batch)}
        point = make_point("lstm", **sizes, optimizer="sgd")
        took_s = one.seconds_per_sample * one.batch
        found.append(_of_point("rnn-benchmarks", TITAN, OTHERS[one.framework], "loop", point, took_s))
    return found


def _embedding() -> list[Training]:
    """A table of embeddings with nothing behind it, trained by Adam on a K40: data/external/benchmarks.csv."""
    one = pd.read_csv(paths.EXTERNAL / "benchmarks.csv").set_index("name").loc["tensorflow-14075"]
    numbers = int(one["vocabulary"] * one["embedding"])
    work = UPDATES["adam"].work(numbers, numbers) + Work(launches=2)
    key = f"embedding-v{one['vocabulary']:.0f}-e{one['embedding']:.0f}-adam"
    stack = OTHERS[one["framework"]]
    return [Training("TensorFlow 14075", one["device"], stack, "matmul", key, work, float(one["seconds_per_step"]))]


def _implementations() -> list[Training]:
    """One LSTM in several implementations on a GTX 1080: data/external/lstm-implementations.csv."""
    found = []
    for one in pd.read_csv(paths.EXTERNAL / "lstm-implementations.csv").itertuples():
        point = make_point("lstm", inputs=one.inputs, units=one.units, length=one.length, batch=one.batch)
        stack, kernel = OTHERS[one.framework], WAYS[one.way]
        device, took_s = one.device.replace(" ", ""), one.printed_ms / 1e3
        found.append(_of_point("Braun 2018", device, stack, kernel, point, took_s))
    return found


def _layers() -> list[Training]:
    """cuDNN's LSTM by itself on five cards: data/external/cudnn-lstm.csv. Its inputs are not multiplied there."""
    found = []
    for one in pd.read_csv(paths.EXTERNAL / "cudnn-lstm.csv").itertuples():
        kept = FLOAT * 18 * one.units * one.batch * one.length
        work = matmul(one.batch, one.units, 4 * one.units, copies=one.length)
        work += Work(parameters=4 * one.units**2, activation_bytes=kept, launches=2 * one.length, recurrent_bytes=kept)
        took_s = (one.forward_ms + one.backward_inputs_ms + one.backward_weights_ms) / 1e3
        key = f"lstm-u{one.units}-l{one.length}-b{one.batch}-recurrent"
        found.append(Training("DeepBench", one.device, LAYER, "cudnn", key, work, took_s))
    return found


def _networks() -> list[Training]:
    """Convolutional networks on an A100, as our fits have them: data/external/cnn-a100.csv."""
    return [
        Training(
            "A100 networks",
            "A100-80GB-PCIe",
            "2026-tensorflow",
            "convolution",
            f"cnn-d{one.depth}-f{one.filters}-b{batch}-adam",
            network(one.depth, one.filters, batch),
            one.step_s + batch * one.sample_s,
        )
        for one in pd.read_csv(paths.EXTERNAL / "cnn-a100.csv").itertuples()
        for batch in EVERY_NETWORK
    ]


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


def _ours() -> list[Training]:
    """Our own steps on our card: the mean over the invocations that count."""
    machine, device = OURS
    found = []
    for path in records.files(paths.MEASUREMENTS, machine):
        record = records.read(path)
        if records.is_sentinel(path) or record.point.run.device != "gpu":
            continue
        timings = [
            one.result.timing
            for one in record.invocations
            if one.status == "ok" and not one.disturbed and one.result is not None
        ]
        if timings:
            took_s = float(np.mean([np.mean(timing.steps_ns[timing.warmup :]) for timing in timings])) / 1e9
            kernel = "cudnn" if record.point.run.kernel == "cudnn" else "loop"
            found.append(_of_point("our H200", device, record.stack, kernel, record.point, took_s))
    return found


# The split


def folds(given: Sequence[Training]) -> dict[str, Mask]:
    """What is left out together, by name, "card …" or "source …": which of the trainings it is, shape (trainings,)."""
    found: dict[str, Mask] = {}
    for what, names in (("card", [one.device for one in given]), ("source", [one.source for one in given])):
        for name in dict.fromkeys(names):
            mask = np.array([each == name for each in names])
            if not any(np.array_equal(mask, other) for other in found.values()):
                found[f"{what} {name}"] = mask
    return found


def weights(given: Sequence[Training]) -> Array:
    """The weight of each training, shape (trainings,): those of a source with n of them have √n together."""
    sources = [one.source for one in given]
    return np.array([sources.count(each) ** -0.5 for each in sources])


# The fit


def fit(terms: Array, seconds: Array, weight: Array) -> Array:
    """The factors, shape (FACTORS,): least squares of log(predicted / took), none below zero or LEAST.

    terms: seconds for a unit of each factor, shape (trainings, FACTORS); seconds, weight: shape (trainings,).
    """
    root = np.sqrt(weight)
    scale = np.maximum((terms / seconds[:, None]).max(axis=0), 1e-300)  # seconds a step and shares: orders apart
    units = terms / seconds[:, None] / scale
    least = scale * np.array([LEAST.get(name, 0.0) for name in prices.FACTORS])
    start = np.maximum(nnls(units * root[:, None], root)[0], least) + 1e-3
    found = least_squares(lambda factors: root * np.log(units @ factors), start, bounds=(least, np.inf), xtol=1e-12)
    return np.where(terms.any(axis=0), np.where(found.x < least + 1e-9, least, found.x) / scale, 0.0)


def quantile(errors: Array, weight: Array) -> float:
    """The error that a share of LEVEL of all, by weight, does not exceed."""
    order = np.argsort(errors)
    summed = np.cumsum(weight[order])
    return float(errors[order][np.searchsorted(summed, LEVEL * summed[-1])])


def held_out(given: Sequence[Training]) -> pd.DataFrame:
    """A row for each training and fold that it is left out in: columns COLUMNS, of which foretold_s is predicted by the
    factors of all trainings outside the fold, and low_s and high_s are its interval by the errors of the other folds.
    """
    terms, seconds = np.array([one.terms for one in given]), np.array([one.took_s for one in given])
    masks, weight = folds(given), weights(given)
    shared = weight / sum(mask.astype(float) for mask in masks.values())  # a training of two folds counts half in each

    def predicted(without: Mask) -> Array:
        unknown = ~terms[~without].any(axis=0)  # costs that nothing which is left has paid
        found = terms @ fit(terms[~without], seconds[~without], weight[~without])
        return np.where((terms[:, unknown] > 0).any(axis=1), np.nan, found)

    parts = []
    for name, mask in masks.items():
        others, of_others = [], []
        for other in masks.values():
            missed = np.abs(np.log(seconds / predicted(mask | other)))
            rest = other & ~mask & ~np.isnan(missed)
            others.append(missed[rest])
            of_others.append(shared[rest])
        foretold, factor = predicted(mask), np.exp(quantile(np.concatenate(others), np.concatenate(of_others)))
        for place in np.flatnonzero(mask):
            one = given[place]
            about = (name, one.source, one.device, one.stack, one.kernel, one.key, one.took_s)
            ends = (foretold[place], foretold[place] / factor, foretold[place] * factor, shared[place])
            parts.append(dict(zip(COLUMNS, (*about, *ends), strict=True)))
    return pd.DataFrame(parts)


# What is kept


def derive() -> pd.DataFrame:
    """What each training is predicted to take by costs that it was not fitted to (held_out)."""
    return held_out(trainings())


def costs(left_out: pd.DataFrame) -> pd.DataFrame:
    """The costs fitted to all trainings, and how far those left out are missed: columns factor (each of prices.FACTORS,
    and "error", the standard deviation of a logarithm whose interval at LEVEL has nine tenths of them) and value.
    """
    given = trainings()
    terms, seconds = np.array([one.terms for one in given]), np.array([one.took_s for one in given])
    found = dict(zip(prices.FACTORS, fit(terms, seconds, weights(given)), strict=True))
    missed = np.abs(np.log(left_out["foretold_s"] / left_out["took_s"])).to_numpy()
    found["error"] = quantile(missed, left_out["weight"].to_numpy()) / ndtri(0.5 + LEVEL / 2)
    return pd.DataFrame({"factor": list(found), "value": list(found.values())})


if __name__ == "__main__":
    table = derive()
    for name, rows in (("cards", table), ("card-costs", costs(table))):
        derived.write(name, rows)
