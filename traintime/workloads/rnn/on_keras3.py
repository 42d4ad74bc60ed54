import keras

USE_CUDNN = {"auto": "auto", "cudnn": True, "loop-of-cells": False}


def table(sizes):
    named = {"trainable": not sizes["frozen"], "mask_zero": sizes["mask"]}
    if sizes["optimizer"] == "adam-deferred":
        from traintime import deferred

        return deferred.Embedding(sizes["vocabulary"], sizes["embedding"], most=sizes["batch"] * sizes["length"],
                                  **named)
    return keras.layers.Embedding(sizes["vocabulary"], sizes["embedding"], **named)


def model(sizes, run):
    return keras.Sequential([
        keras.Input((sizes["length"],), dtype="int32"),
        table(sizes),
        keras.layers.LSTM(sizes["units"], recurrent_activation="sigmoid", use_cudnn=USE_CUDNN[run["kernel"]]),
        keras.layers.Dropout(sizes["dropout"]),
        keras.layers.Dense(1, activation="sigmoid"),
    ])
