import keras


def model(sizes, run):
    return keras.Sequential([
        keras.Input((sizes["inputs"],), dtype="float32"),
        *[keras.layers.Dense(sizes["hidden"], activation="relu") for _ in range(sizes["layers"])],
        keras.layers.Dense(sizes["outputs"], activation="softmax"),
    ])
