import keras

USE_CUDNN = {"auto": "auto", "cudnn": True, "loop-of-cells": False}


def model(sizes, run):
    return keras.Sequential([
        keras.Input((sizes["length"],), dtype="int32"),
        keras.layers.Embedding(sizes["vocabulary"], sizes["embedding"], trainable=not sizes["frozen"],
                               mask_zero=sizes["mask"]),
        keras.layers.LSTM(sizes["units"], recurrent_activation="sigmoid", use_cudnn=USE_CUDNN[run["kernel"]]),
        keras.layers.Dropout(sizes["dropout"]),
        keras.layers.Dense(1, activation="sigmoid"),
    ])
