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


class Apart(keras.layers.LSTM):
    """Keras' own loop on torch but for one thing: what is read of the inputs at each position is taken apart before.

    Keras 3.15 indexes it there, and the way back of each index writes zeros for all positions.
    """

    def inner_loop(self, sequences, initial_state, mask, training=False):
        import torch

        kernel, recurrent, bias = (each.value for each in (self.cell.kernel, self.cell.recurrent_kernel,
                                                           self.cell.bias))
        hidden, carried = initial_state
        outputs = []
        for of_inputs in torch.unbind(torch.matmul(sequences.permute(1, 0, 2), kernel) + bias):
            i, f, c, o = torch.chunk(of_inputs + torch.matmul(hidden, recurrent), 4, dim=1)
            carried = torch.sigmoid(f) * carried + torch.sigmoid(i) * torch.tanh(c)
            hidden = torch.sigmoid(o) * torch.tanh(carried)
            outputs.append(hidden)
        return hidden, torch.stack(outputs, dim=1), [hidden, carried]


LAYERS = {"native": Native, "apart": Apart}


def lstm(sizes, run):
    if sizes["algorithm"] == "cell":
        return keras.layers.RNN(keras.layers.LSTMCell(sizes["units"], recurrent_activation="sigmoid"))
    layer = LAYERS.get(sizes["algorithm"], keras.layers.LSTM)
    return layer(sizes["units"], recurrent_activation="sigmoid", use_cudnn=USE_CUDNN[run["kernel"]],
                 unroll=sizes["algorithm"] == "unrolled",
                 implementation=1 if sizes["algorithm"] == "per-gate" else 2)


def model(sizes, run):
    return keras.Sequential([
        keras.Input((sizes["length"], sizes["inputs"]), dtype="float32"),
        lstm(sizes, run),
        keras.layers.Dense(1),
    ])
