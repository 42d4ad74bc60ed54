from keras.layers import LSTM, Dense
from keras.models import Sequential

# Keras' own numbers. What it does by default differs between its versions: 0 in 2.0.4, 2 in 2.3.1.
IMPLEMENTATION = {"per-gate": 1, "combined": 2}


class Native(LSTM):
    """TensorFlow 1's fused cell, one operation for all positions, on the weights of Keras' layer."""

    def call(self, inputs, mask=None, training=None, initial_state=None):
        import tensorflow as tf
        from tensorflow.contrib.rnn.python.ops import lstm_ops  # knows the operation's gradient

        operations = getattr(lstm_ops, "gen_rnn_ops", None) or lstm_ops.gen_lstm_ops
        weights = getattr(self, "cell", self)
        kernel = tf.concat([weights.kernel, weights.recurrent_kernel], axis=0)
        in_order = [0, 2, 1, 3]  # Keras' gates are i, f, c, o; the operation's i, c, f, o
        kernel, bias = (tf.concat([tf.split(part, 4, axis=axis)[gate] for gate in in_order], axis=axis)
                        for part, axis in ((kernel, 1), (weights.bias, 0)))
        positions_first = tf.transpose(inputs, [1, 0, 2])
        start = tf.zeros(tf.stack([tf.shape(inputs)[0], self.units]))
        peepholes = tf.zeros([self.units])
        states = operations.block_lstm(
            seq_len_max=tf.cast(tf.shape(positions_first)[0], tf.int64), x=positions_first, cs_prev=start,
            h_prev=start, w=kernel, wci=peepholes, wcf=peepholes, wco=peepholes, b=bias, forget_bias=0.0,
            cell_clip=-1.0, use_peephole=False)
        return states.h[-1]


def model(sizes, run):
    # Keras 2 defaults to a piecewise linear gate, Keras 3 to the sigmoid: named, so that all do the same work.
    options = {"recurrent_activation": "sigmoid", "input_shape": (sizes["length"], sizes["inputs"])}
    if sizes["algorithm"] in IMPLEMENTATION:
        options["implementation"] = IMPLEMENTATION[sizes["algorithm"]]
    layer = Native if sizes["algorithm"] == "native" else LSTM
    return Sequential([
        layer(sizes["units"], unroll=sizes["algorithm"] == "unrolled", **options),
        Dense(1),
    ])
