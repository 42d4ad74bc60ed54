import keras

USE_CUDNN = {"auto": "auto", "cudnn": True, "loop-of-cells": False}


def table(sizes):
    width = sizes["factor"] or sizes["embedding"]
    named = {"trainable": not sizes["frozen"], "mask_zero": sizes["mask"]}
    if sizes["optimizer"] == "adam-deferred":
        from traintime import deferred

        return deferred.Embedding(sizes["vocabulary"], width, most=sizes["batch"] * sizes["length"], **named)
    return keras.layers.Embedding(sizes["vocabulary"], width, **named)


def widened(sizes):
    """What makes a row's numbers of fewer, where the table is kept as a product of two matrices."""
    return [keras.layers.Dense(sizes["embedding"], use_bias=False)] if sizes["factor"] else []


def model(sizes, run):
    return keras.Sequential([
        keras.Input((sizes["length"],), dtype="int32"),
        table(sizes),
        *widened(sizes),
        keras.layers.LSTM(sizes["units"], recurrent_activation="sigmoid", use_cudnn=USE_CUDNN[run["kernel"]]),
        keras.layers.Dropout(sizes["dropout"]),
        keras.layers.Dense(1, activation="sigmoid"),
    ])
