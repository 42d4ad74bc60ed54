import keras
from keras import layers


def filters(sizes, window=3):
    return layers.Conv2D(sizes["width"], window, padding="same", data_format="channels_last")


def convolution(sizes, inputs, window=3, weights=None):
    outputs = (weights or filters(sizes, window))(inputs)
    return layers.ReLU()(outputs) if sizes["relu"] else outputs


def plain(sizes, maps):
    shared = filters(sizes) if sizes["shared"] else None
    for _ in range(sizes["depth"]):
        maps = convolution(sizes, maps, weights=shared)
    return maps


def residual(sizes, maps):
    for _ in range(sizes["depth"] // 2):
        maps = layers.Add()([maps, convolution(sizes, convolution(sizes, maps))])
    return maps


def dense(sizes, maps):
    for _ in range(sizes["depth"]):
        maps = layers.Concatenate()([maps, convolution(sizes, maps)])
    return maps


def aggregated(sizes, maps):
    every = [maps]
    for _ in range(sizes["depth"]):
        every.append(convolution(sizes, every[-1]))
    return convolution(sizes, layers.Concatenate()(every), window=1)


STRUCTURES = {"plain": plain, "residual": residual, "dense": dense, "aggregated": aggregated}


def model(sizes, run):
    images = keras.Input((sizes["side"], sizes["side"], 3), dtype="float32")
    maps = STRUCTURES[sizes["structure"]](sizes, convolution(sizes, images))
    means = layers.GlobalAveragePooling2D(data_format="channels_last")(maps)
    return keras.Model(images, layers.Dense(sizes["outputs"], activation="softmax")(means))
