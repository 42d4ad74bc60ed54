import keras

USE_CUDNN = {"auto": "auto", "cudnn": True, "loop-of-cells": False}


class Native(keras.layers.LSTM):
    """torch's own LSTM, one call for all positions, on the weights of Keras' layer; its gates have the same order."""

    def inner_loop(self, sequences, initial_state, mask, training=False):
        import torch

        kernel, recurrent, bias = (each.value for each in (self.cell.kernel, self.cell.recurrent_kernel,
                                                           self.cell.bias))
        weights = [kernel.T, recurrent.T, bias, torch.zeros_like(bias)]  # torch has two biases, which it adds
        start = tuple(state[None] for state in initial_state)
        outputs, hidden, cell = torch.lstm(sequences, start, weights, True, 1, 0.0, bool(training), False, True)
        return hidden[0], outputs, [hidden[0], cell[0]]


def model(sizes, run):
    layer = Native if sizes["algorithm"] == "native" else keras.layers.LSTM
    return keras.Sequential([
        keras.Input((sizes["length"], sizes["inputs"]), dtype="float32"),
        layer(sizes["units"], recurrent_activation="sigmoid", use_cudnn=USE_CUDNN[run["kernel"]],
              unroll=sizes["algorithm"] == "unrolled",
              implementation=1 if sizes["algorithm"] == "per-gate" else 2),
        keras.layers.Dense(1),
    ])
