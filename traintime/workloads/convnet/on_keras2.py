from keras.layers import Conv2D, Dense, Flatten, MaxPooling2D
from keras.models import Sequential


def model(sizes, run):
    return Sequential([
        Conv2D(sizes["filters"], sizes["window"], activation="relu", data_format="channels_last",
               input_shape=(sizes["side"], sizes["side"], 1)),
        MaxPooling2D(2, data_format="channels_last"),
        Flatten(),
        Dense(sizes["outputs"], activation="softmax"),
    ])
