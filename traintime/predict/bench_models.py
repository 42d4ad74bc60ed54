"""Models that nobody here has fitted anything to, drawn at random: what the predictor's bench holds it against."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

# The sizes of the document's kind, least and most: all that it has tried, and more. Until 24 November 2026 they were
# narrower, as each case says that was drawn then (bench.Case.domain).
DOMAINS: dict[str, dict[str, tuple[int, int]]] = {
    "narrow": {
        "vocabulary": (5_000, 300_000),
        "embedding": (50, 300),
        "units": (32, 256),
        "length": (8, 100),
        "batch": (16, 256),
    },
    "whole": {
        "vocabulary": (5_000, 2_000_000),
        "embedding": (50, 300),
        "units": (32, 512),
        "length": (8, 400),
        "batch": (8, 1024),
    },
}
NARROW, WHOLE = DOMAINS

# The sizes of each kind: a whole number between two, as likely in each octave, times a third one; or one of a list.
# First Keras models, of which the classifier is the 2017 post's kind; what the others are stands at their networks.
KINDS: dict[str, dict[str, Any]] = {
    "classifier": DOMAINS[WHOLE] | {"optimizer": ["adam", "sgd", "rmsprop"]},
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
    before = draw("classifier", random) if kind in BEYONDS else {}
    return before | {size: _one(values, random) for size, values in (KINDS | BEYONDS | LOOPS)[kind].items()}


def _one(values: Any, random: np.random.Generator) -> Any:
    if isinstance(values, list):
        return random.choice(values).item()
    low, high, *times = values
    return math.prod(times) * round(math.exp(random.uniform(math.log(low), math.log(high))))


# Loops in plain PyTorch

_SAMPLES = 4096  # that a loop reads from memory


def loop(kind: str, size: dict[str, Any]) -> Callable[[int], None]:
    """A kind of plain PyTorch loop at these sizes: a function that trains on one batch of n samples."""
    import torch

    network, inputs, optimizer = _NETWORKS[kind](torch, size)
    targets = torch.randint(10, (_SAMPLES,))

    def step(n: int) -> None:
        chosen = torch.randint(_SAMPLES, (n,))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(inputs[chosen]), targets[chosen]).backward()
        optimizer.step()

    return step


def _network(torch: Any, forward: Callable[[Any, Any], Any], **parts: Any) -> Any:
    """A module of these parts, by name, that computes forward(module, inputs)."""

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, part in parts.items():
                self.add_module(name, part)

        def forward(self, inputs: Any) -> Any:
            return forward(self, inputs)

    return Network()


def _loop_dense(torch: Any, size: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Dense layers under AdamW."""
    layers = [torch.nn.Linear(size["width"], size["width"]), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(size["width"], 10))
    return network, torch.randn(_SAMPLES, size["width"]), torch.optim.AdamW(network.parameters())


def _loop_lstm(torch: Any, size: dict[str, Any]) -> tuple[Any, Any, Any]:
    """torch's own LSTM over embedded tokens."""
    network = _network(
        torch,
        lambda module, tokens: module.out(module.memory(module.words(tokens))[0][:, -1]),
        words=torch.nn.Embedding(size["vocabulary"], size["units"]),
        memory=torch.nn.LSTM(size["units"], size["units"], batch_first=True),
        out=torch.nn.Linear(size["units"], 10),
    )
    tokens = torch.randint(size["vocabulary"], (_SAMPLES, size["length"]))
    return network, tokens, torch.optim.AdamW(network.parameters())


def _loop_convolution(torch: Any, size: dict[str, Any]) -> tuple[Any, Any, Any]:
    """2-D convolutions with normalisation and a shortcut, under SGD with momentum."""

    def forward(module: Any, image: Any) -> Any:
        hidden = torch.relu(module.first(image))
        hidden = torch.relu(hidden + module.normal(module.second(hidden)))
        return module.out(hidden.mean((2, 3)))

    network = _network(
        torch,
        forward,
        first=torch.nn.Conv2d(3, size["filters"], 3, padding=1),
        second=torch.nn.Conv2d(size["filters"], size["filters"], 3, padding=1),
        normal=torch.nn.BatchNorm2d(size["filters"]),
        out=torch.nn.Linear(size["filters"], 10),
    )
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)
    return network, torch.randn(_SAMPLES, 3, size["side"], size["side"]), optimizer


def _loop_attention(torch: Any, size: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Two of torch's own encoder layers over vectors."""
    layer = torch.nn.TransformerEncoderLayer(size["width"], 4, 4 * size["width"], batch_first=True)
    network = _network(
        torch,
        lambda module, values: module.out(module.layers(values).mean(1)),
        layers=torch.nn.TransformerEncoder(layer, 2),
        out=torch.nn.Linear(size["width"], 10),
    )
    return network, torch.randn(_SAMPLES, size["length"], size["width"]), torch.optim.Adam(network.parameters())


def _loop_bag(torch: Any, size: dict[str, Any]) -> tuple[Any, Any, Any]:
    """A large table whose gradients are sparse, under SparseAdam; what reads it is not trained: its are not sparse."""
    network = _network(
        torch,
        lambda module, tokens: module.out(module.words(tokens)),
        words=torch.nn.EmbeddingBag(size["vocabulary"], size["width"], sparse=True),
        out=torch.nn.Linear(size["width"], 10).requires_grad_(False),
    )
    tokens = torch.randint(size["vocabulary"], (_SAMPLES, size["length"]))
    return network, tokens, torch.optim.SparseAdam(network.words.parameters())


_NETWORKS = dict(zip(LOOPS, (_loop_dense, _loop_lstm, _loop_convolution, _loop_attention, _loop_bag), strict=True))

# Keras models


def build(kind: str, sizes: dict[str, Any]) -> Any:
    """The compiled Keras model of a kind at these sizes."""
    import keras
    from keras import layers

    size = dict(sizes)
    optimizer = size.pop("optimizer", "adam")
    inputs, hidden, classes = _BODIES["classifier" if kind in BEYONDS else kind](layers, keras, size)
    model = keras.Model(inputs, layers.Dense(classes, activation="softmax")(hidden))
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model


def _classifier(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    """Embedding, LSTM, Dense."""
    tokens = keras.Input((size["length"],), dtype="int32")
    words = layers.Embedding(size["vocabulary"], size["embedding"])(tokens)
    return tokens, layers.Dropout(0.5)(layers.LSTM(size["units"])(words)), 2


def _recurrent(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    """Two bidirectional GRUs over measured values."""
    values = keras.Input((size["length"], size["features"]))
    first = layers.Bidirectional(layers.GRU(size["units"], return_sequences=True))(values)
    return values, layers.Bidirectional(layers.GRU(size["units"]))(first), 5


def _convolution_1d(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    """Three Conv1D with pooling."""
    signal = keras.Input((size["length"], 4))
    hidden = signal
    for _ in range(3):
        hidden = layers.Conv1D(size["filters"], 5, padding="same", activation="relu")(hidden)
        hidden = layers.MaxPooling1D(2)(hidden)
    return signal, layers.GlobalAveragePooling1D()(hidden), 10


def _convolution_2d(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    """Four Conv2D with normalisation, one of them separable."""
    image = keras.Input((size["side"], size["side"], 3))
    hidden = layers.Conv2D(size["filters"], 3, padding="same", activation="relu")(image)
    hidden = layers.BatchNormalization()(layers.Conv2D(size["filters"], 3, padding="same")(hidden))
    hidden = layers.MaxPooling2D(2)(layers.ReLU()(hidden))
    hidden = layers.SeparableConv2D(2 * size["filters"], 3, padding="same", activation="relu")(hidden)
    hidden = layers.Conv2D(2 * size["filters"], 3, padding="same", activation="relu")(hidden)
    return image, layers.GlobalAveragePooling2D()(hidden), 10


def _attention(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    """Two blocks of self-attention over tokens."""
    tokens = keras.Input((size["length"],), dtype="int32")
    hidden = layers.Embedding(size["vocabulary"], size["width"])(tokens)
    for _ in range(2):
        seen = layers.MultiHeadAttention(size["heads"], size["width"] // size["heads"])(hidden, hidden)
        hidden = layers.LayerNormalization()(layers.Add()([hidden, seen]))
        fed = layers.Dense(size["width"])(layers.Dense(4 * size["width"], activation="relu")(hidden))
        hidden = layers.LayerNormalization()(layers.Add()([hidden, fed]))
    return tokens, layers.GlobalAveragePooling1D()(hidden), 4


def _dense(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    """Layers of one width."""
    values = keras.Input((size["width"],))
    hidden = values
    for _ in range(size["layers"]):
        hidden = layers.Dense(size["width"], activation="relu")(hidden)
    return values, hidden, 10


_BODIES = dict(zip(KINDS, (_classifier, _recurrent, _convolution_1d, _convolution_2d, _attention, _dense), strict=True))
