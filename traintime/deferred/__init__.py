"""Dense Adam's training of a large embedding table at the price of the rows that a batch uses.

`Embedding` stands in for keras.layers.Embedding and `Adam` for keras.optimizers.Adam: a lookup reads, and only the
optimizer writes. `missed` is the closed form behind them.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    # Keras takes seconds to import and needs a backend: only who wants the layer pays for it.
    if name == "Embedding":
        from traintime.deferred.embedding import Embedding

        return Embedding
    if name == "Adam":
        from traintime.deferred.adam import Adam

        return Adam
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
