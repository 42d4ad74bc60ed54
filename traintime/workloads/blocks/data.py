"""What the network is trained on, and the shapes of its weights. Runs inside a stack's Python, 3.6 and newer."""

import numpy

LOSS = "categorical_crossentropy"


def samples(sizes, count, random):
    """Images, float32 of shape (count, side, side, 3) between 0 and 1, and classes, one-hot, float32."""
    images = random.random_sample((count, sizes["side"], sizes["side"], 3)).astype("float32")
    classes = numpy.zeros((count, sizes["outputs"]), dtype="float32")
    classes[numpy.arange(count), random.randint(0, sizes["outputs"], size=count)] = 1
    return images, classes


def shapes(sizes):
    """Shapes of the weights in Keras' order: filters and bias of each convolution, dense kernel, bias.

    (3, 3, maps read, W), (W,), ...; joined once, a last (1, 1, maps read, W), (W,); (maps, O), (O,).
    """
    width, depth, structure = sizes["width"], sizes["depth"], sizes["structure"]
    reads = [3] + [width * place if structure == "dense" else width for place in range(1, depth + 1)]
    convolutions = [(3, 3, maps, width) for maps in (reads[:2] if sizes["shared"] else reads)]
    if structure == "aggregated":
        convolutions.append((1, 1, (depth + 1) * width, width))
    maps = (depth + 1) * width if structure == "dense" else width
    weights = [shape for filters in convolutions for shape in (filters, (width,))]
    return weights + [(maps, sizes["outputs"]), (sizes["outputs"],)]
