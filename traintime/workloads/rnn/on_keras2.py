from keras.layers import LSTM, Dense, Dropout, Embedding
from keras.models import Sequential


def model(sizes, run):
    return Sequential([
        Embedding(sizes["vocabulary"], sizes["embedding"], input_length=sizes["length"],
                  trainable=not sizes["frozen"], mask_zero=sizes["mask"]),
        # Keras 2 defaults to a piecewise linear gate, Keras 3 to the sigmoid: named, so that all do the same work.
        LSTM(sizes["units"], recurrent_activation="sigmoid"),
        Dropout(sizes["dropout"]),
        Dense(1, activation="sigmoid"),
    ])
