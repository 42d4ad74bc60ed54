"""Models that nobody here has fitted anything to, drawn at random: what the predictor's bench holds it against."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

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
