import keras


def model(sizes, run):
    return keras.Sequential([
        keras.Input((sizes["side"], sizes["side"], 1), dtype="float32"),
        keras.layers.Conv2D(sizes["filters"], sizes["window"], activation="relu", data_format="channels_last"),
        keras.layers.MaxPooling2D(2, data_format="channels_last"),
        keras.layers.Flatten(),
        keras.layers.Dense(sizes["outputs"], activation="softmax"),
    ])
