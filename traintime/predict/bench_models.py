"""Models that nobody here has fitted anything to, drawn at random: what the predictor's bench holds it against."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Random = np.random.Generator


def _log(random: Random, low: float, high: float) -> int:
    """A whole number between two, as likely in each octave."""
    return round(math.exp(random.uniform(math.log(low), math.log(high))))


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
OPTIMIZERS = ("adam", "sgd", "rmsprop")


def classifier(random: Random) -> dict[str, Any]:
    """The 2017 post's kind: Embedding, LSTM, Dense, at any of its sizes."""
    sizes: dict[str, Any] = {size: _log(random, *bounds) for size, bounds in DOMAINS[WHOLE].items()}
    return sizes | {"optimizer": str(random.choice(OPTIMIZERS))}


BEYOND = 10  # times as large as what is tried
_TRIED = {"vocabulary": (5_000, 200_000), "length": (4, 40), "batch": (4, 100)}


def beyond(size: str) -> Callable[[Random], dict[str, Any]]:
    """Draws classifiers of which one a tenth as large in this size is tried."""

    def draw(random: Random) -> dict[str, Any]:
        return classifier(random) | {size: BEYOND * _log(random, *_TRIED[size])}

    return draw


def recurrent(random: Random) -> dict[str, Any]:
    """Two bidirectional GRUs over measured values."""
    return {
        "features": _log(random, 4, 64),
        "units": _log(random, 16, 96),
        "length": _log(random, 10, 60),
        "batch": _log(random, 16, 128),
    }


def convolution_1d(random: Random) -> dict[str, Any]:
    """Three Conv1D with pooling."""
    return {"filters": _log(random, 16, 96), "length": _log(random, 100, 1000), "batch": _log(random, 16, 128)}


def convolution_2d(random: Random) -> dict[str, Any]:
    """Four Conv2D with normalisation, one of them separable."""
    return {"filters": _log(random, 8, 48), "side": _log(random, 16, 64), "batch": _log(random, 8, 64)}


def attention(random: Random) -> dict[str, Any]:
    """Two blocks of self-attention over tokens."""
    return {
        "vocabulary": _log(random, 1_000, 50_000),
        "width": 16 * _log(random, 2, 12),
        "heads": int(random.choice([2, 4])),
        "length": _log(random, 16, 128),
        "batch": _log(random, 8, 64),
    }


def dense(random: Random) -> dict[str, Any]:
    """Layers of one width."""
    return {"width": _log(random, 64, 2000), "layers": int(random.integers(2, 7)), "batch": _log(random, 16, 1024)}


def loop_dense(random: Random) -> dict[str, Any]:
    """A loop in plain PyTorch: dense layers under AdamW, data read from memory."""
    return {"width": _log(random, 64, 1000), "batch": _log(random, 16, 256)}


def loop_lstm(random: Random) -> dict[str, Any]:
    """A loop in plain PyTorch: torch's own LSTM over embedded tokens."""
    sizes = {"vocabulary": _log(random, 1_000, 50_000), "units": _log(random, 32, 200)}
    return sizes | {"length": _log(random, 10, 60), "batch": _log(random, 8, 64)}


def loop_convolution(random: Random) -> dict[str, Any]:
    """A loop in plain PyTorch: 2-D convolutions with normalisation and a shortcut, under SGD with momentum."""
    return {"filters": _log(random, 8, 48), "side": _log(random, 16, 48), "batch": _log(random, 8, 64)}


def loop_attention(random: Random) -> dict[str, Any]:
    """A loop in plain PyTorch: two of torch's own encoder layers over vectors."""
    return {"width": 16 * _log(random, 2, 12), "length": _log(random, 16, 96), "batch": _log(random, 8, 48)}


def loop_bag(random: Random) -> dict[str, Any]:
    """A loop in plain PyTorch: a large table whose gradients are sparse, under SparseAdam."""
    sizes = {"vocabulary": _log(random, 20_000, 1_000_000), "width": _log(random, 32, 128)}
    return sizes | {"length": _log(random, 10, 100), "batch": _log(random, 16, 256)}


KINDS: dict[str, Callable[[Random], dict[str, Any]]] = {
    each.__name__.replace("_", "-"): each
    for each in (classifier, recurrent, convolution_1d, convolution_2d, attention, dense)
}


BEYONDS = {f"beyond-{size}": beyond(size) for size in _TRIED}
LOOPS: dict[str, Callable[[Random], dict[str, Any]]] = {
    each.__name__.replace("_", "-"): each
    for each in (loop_dense, loop_lstm, loop_convolution, loop_attention, loop_bag)
}
_HELD = 4096  # samples that a loop reads from memory


@dataclass(frozen=True)
class PlainLoop:
    """A plain PyTorch loop: its network, samples that it reads, and `step(n)`, which trains on one batch of n."""

    network: Any
    inputs: Any
    step: Callable[[int], Any]


def loop(kind: str, size: dict[str, Any]) -> PlainLoop:
    """A kind of plain PyTorch loop at these sizes."""
    import torch

    network, inputs, optimizer = _NETWORKS[kind](torch, size)
    targets = torch.randint(10, (_HELD,))

    def step(n: int) -> None:
        chosen = torch.randint(_HELD, (n,))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(inputs[chosen]), targets[chosen]).backward()
        optimizer.step()

    return PlainLoop(network, inputs, step)


def _loop_dense(torch: Any, size: dict[str, Any]) -> tuple[Any, Any, Any]:
    layers = [torch.nn.Linear(size["width"], size["width"]), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(size["width"], 10))
    return network, torch.randn(_HELD, size["width"]), torch.optim.AdamW(network.parameters())


def _loop_lstm(torch: Any, size: dict[str, Any]) -> tuple[Any, Any, Any]:
    class Reader(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(size["vocabulary"], size["units"])
            self.memory = torch.nn.LSTM(size["units"], size["units"], batch_first=True)
            self.out = torch.nn.Linear(size["units"], 10)

        def forward(self, tokens: Any) -> Any:
            return self.out(self.memory(self.words(tokens))[0][:, -1])

    network = Reader()
    tokens = torch.randint(size["vocabulary"], (_HELD, size["length"]))
    return network, tokens, torch.optim.AdamW(network.parameters())


def _loop_convolution(torch: Any, size: dict[str, Any]) -> tuple[Any, Any, Any]:
    class Shortcut(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Conv2d(3, size["filters"], 3, padding=1)
            self.second = torch.nn.Conv2d(size["filters"], size["filters"], 3, padding=1)
            self.normal = torch.nn.BatchNorm2d(size["filters"])
            self.out = torch.nn.Linear(size["filters"], 10)

        def forward(self, image: Any) -> Any:
            hidden = torch.relu(self.first(image))
            hidden = torch.relu(hidden + self.normal(self.second(hidden)))
            return self.out(hidden.mean((2, 3)))

    network = Shortcut()
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)
    return network, torch.randn(_HELD, 3, size["side"], size["side"]), optimizer


def _loop_attention(torch: Any, size: dict[str, Any]) -> tuple[Any, Any, Any]:
    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = torch.nn.TransformerEncoderLayer(size["width"], 4, 4 * size["width"], batch_first=True)
            self.layers = torch.nn.TransformerEncoder(layer, 2)
            self.out = torch.nn.Linear(size["width"], 10)

        def forward(self, values: Any) -> Any:
            return self.out(self.layers(values).mean(1))

    network = Encoder()
    return network, torch.randn(_HELD, size["length"], size["width"]), torch.optim.Adam(network.parameters())


def _loop_bag(torch: Any, size: dict[str, Any]) -> tuple[Any, Any, Any]:
    class Bag(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.EmbeddingBag(size["vocabulary"], size["width"], sparse=True)
            self.out = torch.nn.Linear(size["width"], 10).requires_grad_(False)  # its gradients are not sparse

        def forward(self, tokens: Any) -> Any:
            return self.out(self.words(tokens))

    network = Bag()
    tokens = torch.randint(size["vocabulary"], (_HELD, size["length"]))
    return network, tokens, torch.optim.SparseAdam(network.words.parameters())


_NETWORKS = {
    "loop-dense": _loop_dense,
    "loop-lstm": _loop_lstm,
    "loop-convolution": _loop_convolution,
    "loop-attention": _loop_attention,
    "loop-bag": _loop_bag,
}


def build(kind: str, sizes: dict[str, Any]) -> Any:
    """The compiled Keras model of a kind at these sizes."""
    import keras
    from keras import layers

    size, kind = dict(sizes), "classifier" if kind in BEYONDS else kind
    optimizer = size.pop("optimizer", "adam")
    inputs, hidden, classes = _BODIES[kind](layers, keras, size)
    model = keras.Model(inputs, layers.Dense(classes, activation="softmax")(hidden))
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model


def _classifier(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    tokens = keras.Input((size["length"],), dtype="int32")
    words = layers.Embedding(size["vocabulary"], size["embedding"])(tokens)
    return tokens, layers.Dropout(0.5)(layers.LSTM(size["units"])(words)), 2


def _recurrent(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    values = keras.Input((size["length"], size["features"]))
    first = layers.Bidirectional(layers.GRU(size["units"], return_sequences=True))(values)
    return values, layers.Bidirectional(layers.GRU(size["units"]))(first), 5


def _convolution_1d(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    signal = keras.Input((size["length"], 4))
    hidden = signal
    for _ in range(3):
        hidden = layers.Conv1D(size["filters"], 5, padding="same", activation="relu")(hidden)
        hidden = layers.MaxPooling1D(2)(hidden)
    return signal, layers.GlobalAveragePooling1D()(hidden), 10


def _convolution_2d(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    image = keras.Input((size["side"], size["side"], 3))
    hidden = layers.Conv2D(size["filters"], 3, padding="same", activation="relu")(image)
    hidden = layers.BatchNormalization()(layers.Conv2D(size["filters"], 3, padding="same")(hidden))
    hidden = layers.MaxPooling2D(2)(layers.ReLU()(hidden))
    hidden = layers.SeparableConv2D(2 * size["filters"], 3, padding="same", activation="relu")(hidden)
    hidden = layers.Conv2D(2 * size["filters"], 3, padding="same", activation="relu")(hidden)
    return image, layers.GlobalAveragePooling2D()(hidden), 10


def _convolution(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    image = keras.Input((size["side"], size["side"], 3))
    hidden = image
    for _ in range(3):
        hidden = layers.Conv2D(size["filters"], 3, padding="same", activation="relu")(hidden)
    return image, layers.GlobalAveragePooling2D()(hidden), 10


def _attention(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    tokens = keras.Input((size["length"],), dtype="int32")
    hidden = layers.Embedding(size["vocabulary"], size["width"])(tokens)
    for _ in range(2):
        seen = layers.MultiHeadAttention(size["heads"], size["width"] // size["heads"])(hidden, hidden)
        hidden = layers.LayerNormalization()(layers.Add()([hidden, seen]))
        fed = layers.Dense(size["width"])(layers.Dense(4 * size["width"], activation="relu")(hidden))
        hidden = layers.LayerNormalization()(layers.Add()([hidden, fed]))
    return tokens, layers.GlobalAveragePooling1D()(hidden), 4


def _dense(layers: Any, keras: Any, size: dict[str, Any]) -> tuple[Any, Any, int]:
    values = keras.Input((size["width"],))
    hidden = values
    for _ in range(size["layers"]):
        hidden = layers.Dense(size["width"], activation="relu")(hidden)
    return values, hidden, 10


_BODIES = {
    "convolution": _convolution,  # a calibration's, never drawn
    "classifier": _classifier,
    "recurrent": _recurrent,
    "convolution-1d": _convolution_1d,
    "convolution-2d": _convolution_2d,
    "attention": _attention,
    "dense": _dense,
}
