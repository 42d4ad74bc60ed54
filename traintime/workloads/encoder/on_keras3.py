import keras
from keras import layers


def model(sizes, run):
    width = sizes["embedding"]
    hidden = vectors = keras.Input((sizes["length"], width), dtype="float32")
    for _ in range(sizes["layers"]):
        seen = layers.MultiHeadAttention(sizes["heads"], -(-width // sizes["heads"]))(hidden, hidden)
        hidden = layers.LayerNormalization(epsilon=1e-6)(layers.Add()([hidden, seen]))
        fed = layers.Dense(width)(layers.Dense(4 * width, activation="relu")(hidden))
        hidden = layers.LayerNormalization(epsilon=1e-6)(layers.Add()([hidden, fed]))
    means = layers.GlobalAveragePooling1D()(hidden)
    return keras.Model(vectors, layers.Dense(sizes["outputs"], activation="softmax")(means))
