from keras.layers import Dense
from keras.models import Sequential


def model(sizes, run):
    return Sequential(
        [Dense(sizes["hidden"], activation="relu", input_shape=(sizes["inputs"],))]
        + [Dense(sizes["hidden"], activation="relu") for _ in range(sizes["layers"] - 1)]
        + [Dense(sizes["outputs"], activation="softmax")])
