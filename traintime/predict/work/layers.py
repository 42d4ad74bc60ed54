"""The work of each Keras layer, one rule a kind: matmuls, activations, operations that wait for one another.

A rule reads the layer's weights and the shapes of what goes in and comes out; Keras itself is not imported. At the end:
which operations of a graph there are rules for.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from traintime.workloads.base import Work, matmul, product


@dataclass(frozen=True)
class Call:
    """A layer at one place of the graph. given: the arguments of its `call` by name, tensors with the batch's size;
    needs: whether a step needs the gradient of a tensor or a weight, or of any in a nest of them.
    """

    layer: Any
    given: dict[str, Any]
    outputs: list[Any]
    needs: Callable[[Any], bool]

    @property
    def inputs(self) -> Any:
        """The first argument: a tensor, or a list of them."""
        return next(iter(self.given.values()))

    @property
    def number(self) -> int:
        """Bytes of a number that the layer computes with."""
        return itemsize(self.layer.compute_dtype)


Rule = Callable[[Call], Work]  # of one call, without the update; its launches are those of the forward pass alone


def size(tensor: Any) -> int:
    """Numbers in a tensor or a weight."""
    return math.prod(tensor.shape)


def itemsize(dtype: str) -> int:
    """Bytes of a number: 4 for float32, 1 for bool and for a float8."""
    bits = re.search(r"\d+", str(dtype))
    return max(1, int(bits.group()) // 8) if bits else 1


def nbytes(tensor: Any) -> int:
    """Bytes of a tensor."""
    return size(tensor) * itemsize(tensor.dtype)


# What a layer hands on


def handed_on(call: Call) -> Work:
    """The bytes of what comes out."""
    return Work(activation_bytes=sum(nbytes(each) for each in call.outputs))


def nothing(call: Call) -> Work:
    """The same numbers under another shape."""
    return Work()


def applied(call: Call) -> Work:
    """An operation over all numbers: an activation that is a layer, a pooling, a normalisation."""
    return handed_on(call) + Work(launches=1)


def dropped(call: Call) -> Work:
    """Numbers dropped or disturbed; none at a rate of 0."""
    return nothing(call) if getattr(call.layer, "rate", None) == 0 else handed_on(call)


def joined(call: Call) -> Work:
    """What two ways of a recurrent layer come out as; they are layers of their own."""
    return nothing(call) if call.layer.merge_mode is None else handed_on(call)


# Layers with products; the activation that a layer was given as an argument is a part of it


def multiplied(call: Call, transposed: bool = False, depthwise: bool = False) -> Work:
    """Each number of a kernel multiplies once at each place of what comes out, or of a transposed one's inputs.

    Dense: (places × I) by (I × U). A convolution: (places × window C) by (window C × F), the windows unrolled; with G
    groups G products of a G-th of the maps. Depthwise: for each map, (places × window) by (window × multiplier).
    Transposed: (places × C) by (C × window F), a convolution's gradient as a layer.
    """
    layer = call.layer
    maps = math.prod(layer.kernel.shape[-2:]) if depthwise else layer.kernel.shape[-1]
    places = size(call.inputs if transposed else call.outputs[0]) // maps
    groups, needed = getattr(layer, "groups", 1), call.needs(call.inputs)
    return _at_places(call, layer.kernel, places, maps, needed, groups) + applied(call)


def separable(call: Call) -> Work:
    """A depthwise convolution, and of its maps a convolution by 1 × 1: two operations, one after the other."""
    first, second = call.layer.depthwise_kernel, call.layer.pointwise_kernel
    between, needed = math.prod(first.shape[-2:]), call.needs(call.inputs)
    places = size(call.outputs[0]) // second.shape[-1]
    work = _at_places(call, first, places, between, needed)
    work += _at_places(call, second, places, second.shape[-1], needed or call.needs(first))
    return work + applied(call) + Work(activation_bytes=places * between * call.number, launches=1)


def _at_places(call: Call, kernel: Any, places: int, maps: int, needed: bool, groups: int = 1) -> Work:
    """maps: numbers at a place on the side of the kernel's last axis; needed: whether the input's gradient is."""
    numbers = places * (groups * math.prod(kernel.shape[:-1]) + maps) + size(kernel)
    return product(places * size(kernel), numbers, needed + call.needs(kernel))


def einsum(call: Call) -> Work:
    """A multiplication for each combination of the indices of two."""
    left, right = call.given.get("operands") or (call.inputs, call.layer.kernel)
    inputs, output = (getattr(call.layer, "subscripts", None) or call.layer.equation).replace(" ", "").split("->")
    lengths: dict[str, int] = {}
    for letters, tensor in zip(inputs.split(","), (left, right), strict=True):
        before, _, after = letters.partition("...")
        shape = tensor.shape[: len(before)] + tensor.shape[len(tensor.shape) - len(after) :]
        for label, length in zip(before + after, shape, strict=True):
            lengths[label] = max(length, lengths.get(label, 1))
    return _of_two(call, left, right, math.prod(lengths[label] for label in lengths.keys() - set(output)))


def dot(call: Call) -> Work:
    """For each sample (rows × D) by (D × columns), D the axis that is summed over: the last one of a Matmul."""
    left, right = call.inputs if isinstance(call.inputs, list | tuple) else call.given.values()
    axes = getattr(call.layer, "axes", -1)
    return _of_two(call, left, right, left.shape[axes if isinstance(axes, int) else axes[0]])


def _of_two(call: Call, left: Any, right: Any, summed: int) -> Work:
    """summed: multiplications for each number that comes out."""
    result = size(call.outputs[0])
    numbers = size(left) + size(right) + result
    return product(result * summed, numbers, call.needs(left) + call.needs(right)) + applied(call)


# Recurrent cells: the states that each keeps. LSTM: Gers et al. 2000, GRU: Cho et al. 2014.
STATES = {"LSTMCell": 2, "GRUCell": 1, "SimpleRNNCell": 1}


def cells(layer: Any) -> list[Any]:
    """The cells of a recurrent layer, in the order in which a time step goes through them."""
    return list(getattr(layer.cell, "cells", [layer.cell]))


def recurrent(call: Call) -> Work:
    """G gates (LSTM 4, GRU 3, simple 1): inputs (positions × I) by (I × G U) at once, states (batch × U) by (U × G U),
    one position after the other. A GRU that resets before it multiplies has two products of a state, of 2 U and U
    columns. A time step keeps four arrays of its gates, and its states. Slices: the inputs' product, once for each time
    step that reads it, in the loops of Keras' backend (keras pull request 22470), which an LSTM or a GRU has with
    nothing masked or dropped in it.
    """
    layer, (batch, length) = call.layer, call.inputs.shape[:2]
    masked = call.given.get("mask") is not None or getattr(call.inputs, "_keras_mask", None) is not None
    of_backend = home(layer).__name__ in ("LSTM", "GRU") and not masked and not getattr(layer, "recurrent_dropout", 0)
    wanted, work = call.needs(call.inputs), Work()
    for cell in cells(layer):
        kernel, own = cell.kernel, cell.recurrent_kernel
        columns, units, states = kernel.shape[1], cell.units, STATES[home(cell).__name__]
        work += matmul(batch * length, *kernel.shape, wanted + call.needs(kernel))
        # From here on, by the state.
        wanted = wanted or call.needs([call.given.get("initial_state"), cell.weights])
        split = (2 * units, units) if getattr(cell, "reset_after", True) is False else (columns,)
        for part in split:
            work += matmul(batch, units, part, wanted + call.needs(own), copies=length)
        of_positions = batch * length * (4 * columns + states * units) * call.number
        slices = length * batch * length * columns * call.number if of_backend and wanted else 0
        work += Work(activation_bytes=of_positions, launches=length, recurrent_bytes=of_positions, slice_bytes=slices)
    return work


def attention(call: Call) -> Work:
    """Projections of query, key and value, scores, what they weigh, projection of that; Vaswani et al. 2017.

    Scores: (queries × D) by (D × keys) a head, weighed: (queries × keys) by (keys × D). Fewer heads of keys and values
    (Ainslie et al. 2023) are repeated for the queries'. The scores are kept before and after the softmax, and once more
    where some are dropped. Operations: four projections, scores, softmax, what is weighed; one more with a gate.
    """
    layer, given = call.layer, call.given
    query, value = given["query"], given["value"]
    key = value if given.get("key") is None else given["key"]
    keys = math.prod(key.shape[axis] for axis in getattr(layer, "_attention_axes", None) or (1,))
    heads, depth = layer._query_dense.kernel.shape[-2:]
    repeats, wide = heads // layer._key_dense.kernel.shape[-2], layer._value_dense.kernel.shape[-1]

    of_query, queried, query_needed = _projected(call, query, layer._query_dense)
    of_key, keyed, key_needed = _projected(call, key, layer._key_dense, repeats)
    of_value, valued, value_needed = _projected(call, value, layer._value_dense, repeats)
    scores, mixed = queried // depth * keys, queried // depth * wide  # for each query and head
    weights_needed = query_needed or key_needed
    needed = weights_needed or value_needed
    work = of_query + of_key + of_value
    work += product(scores * depth, queried + keyed + scores, query_needed + key_needed)
    work += product(scores * wide, scores + valued + mixed, weights_needed + value_needed)
    dropout = getattr(layer, "_dropout", None) or getattr(layer, "dropout", 0)
    kept = (3 if dropout else 2) * scores + mixed
    if (gate := getattr(layer, "_gate_dense", None)) is not None:
        of_gate, _, gate_needed = _projected(call, query, gate)
        work, kept, needed = work + of_gate, kept + mixed, needed or gate_needed
    kernel, inner = layer._output_dense.kernel, heads * wide
    work += matmul(mixed // inner, inner, size(kernel) // inner, needed + call.needs(kernel))
    return work + Work(activation_bytes=kept * call.number + nbytes(call.outputs[0]), launches=4)


def _projected(call: Call, tensor: Any, part: Any, repeats: int = 1) -> tuple[Work, int, bool]:
    """(positions × I) by (I × heads D) of an inner layer: work, numbers repeated, whether their gradient is needed."""
    kernel, inner = part.kernel, tensor.shape[-1]
    rows, columns = size(tensor) // inner, size(kernel) // inner
    work = matmul(rows, inner, columns, call.needs(tensor) + call.needs(kernel))
    kept = rows * columns * (1 if repeats == 1 else 1 + repeats)
    needed = call.needs(tensor) or call.needs(part.weights)
    return work + Work(activation_bytes=kept * call.number, launches=1), rows * columns * repeats, needed


def _each(rule: Rule, names: str) -> dict[str, Rule]:
    """The same rule under several names; "1D" to "3D" where a name ends in "*"."""
    return {
        name.replace("*", f"{rank}D"): rule for name in names.split() for rank in ((1, 2, 3) if "*" in name else (0,))
    }


# Keras' own groups decide what is an operation of its own: what regularises, joins or reshapes is none, as in the
# closed forms of traintime.workloads (Dropout, Add, Concatenate, Flatten).
LAYERS: dict[str, Rule] = (
    _each(handed_on, "InputLayer Add Subtract Multiply Average Maximum Minimum Concatenate")
    | _each(handed_on, "Permute RepeatVector ZeroPadding* Cropping* UpSampling*")
    | _each(dropped, "Dropout SpatialDropout* AlphaDropout GaussianDropout GaussianNoise")
    | _each(nothing, "Flatten Reshape Identity ActivityRegularization")
    | _each(applied, "Activation ReLU LeakyReLU PReLU ELU Softmax Masking Rescaling Normalization")
    | _each(applied, "MaxPooling* AveragePooling* GlobalMaxPooling* GlobalAveragePooling*")
    | _each(applied, "AdaptiveMaxPooling* AdaptiveAveragePooling*")
    | _each(applied, "BatchNormalization LayerNormalization GroupNormalization UnitNormalization RMSNormalization")
    # Rows looked up, no product: the table's gradient, as large as the table, is the update's to zero and to read.
    | _each(applied, "Embedding")
    | _each(multiplied, "Dense Conv*")
    | _each(partial(multiplied, transposed=True), "Conv*Transpose")
    | _each(partial(multiplied, depthwise=True), "DepthwiseConv1D DepthwiseConv2D")
    | _each(separable, "SeparableConv1D SeparableConv2D")
    | _each(recurrent, "LSTM GRU SimpleRNN RNN")
    | _each(attention, "MultiHeadAttention GroupedQueryAttention")
    | {"EinsumDense": einsum, "Dot": dot, "Bidirectional": joined}
)
# Operations of keras.ops in a functional graph.
OPERATIONS: dict[str, Rule] = (
    _each(nothing, "Reshape Ravel Squeeze ExpandDims StopGradient")
    | _each(handed_on, "Add Subtract Multiply Maximum Minimum Concatenate Stack Transpose Swapaxes Moveaxis GetItem")
    | _each(handed_on, "Slice Split Unstack Tile Repeat Pad Flip Roll BroadcastTo")
    | _each(applied, "Divide TrueDivide Power Negative Absolute Abs Exp Log Log1p Expm1 Sqrt Rsqrt Square Reciprocal")
    | _each(applied, "Sin Cos Tanh Erf Clip Sign Round Floor Ceil Mod Where Cast OnesLike ZerosLike OneHot Take")
    | _each(applied, "Equal NotEqual Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr LogicalNot")
    | _each(applied, "ReLU Relu Relu6 Sigmoid Softplus Softsign Silu LogSigmoid LeakyRelu HardSigmoid HardSilu Elu")
    | _each(applied, "Selu Gelu Celu Glu Softmax LogSoftmax")
    | _each(applied, "Sum Mean Max Min Amax Amin Prod Var Std Any All Argmax Argmin Logsumexp Norm Normalize Cumsum")
    | {"Matmul": dot, "Einsum": einsum}
)

# What a user's subclass may define without computing anything else than Keras' layer does.
HARMLESS = {"build", "get_config", "from_config", "compute_output_shape", "compute_output_spec"}
HARMLESS |= {"compute_mask", "get_build_config", "build_from_config", "save_own_variables", "load_own_variables"}
HOMES = ("keras.", "traintime.deferred.")  # where classes come from that the rules are written for

# Layers that are made of others, whose work is that of those (graph.py).
MADE_OF = {
    "Sequential": lambda layer: layer._functional.operations,
    "Functional": lambda layer: layer.operations,
    "TimeDistributed": lambda layer: [layer.layer],
    "Bidirectional": lambda layer: [layer.forward_layer, layer.backward_layer],
}


def is_layer(operation: Any) -> bool:
    """Whether it is a Keras layer, and not an operation of keras.ops."""
    return any(each.__name__ == "Layer" and each.__module__.startswith(HOMES) for each in type(operation).__mro__)


def home(operation: Any) -> type:
    """The first class, from the operation's own on, that is not the user's; object where all are."""
    return next((each for each in type(operation).__mro__ if each.__module__.startswith(HOMES)), object)


def why_unknown(operation: Any) -> str:
    """What is not known about an operation: its class, and what is unusual; "" where there is a rule for it."""
    name, its = type(operation).__name__, home(operation).__name__
    table = LAYERS | MADE_OF if is_layer(operation) else OPERATIONS
    if its not in table:
        return name
    if changed := _changed(operation):
        return f"{name}: {', '.join(changed)} is not that of {its}"
    if getattr(operation, "lora_enabled", False):
        return f"{name} with LoRA"
    if getattr(operation, "quantization_mode", None):
        return f"{name}, quantized"
    if getattr(operation, "_remat_mode", None):
        return f"{name}, computed again on the way back"
    if its == "Sequential" and operation._functional is None:
        return f"{name}, which is no graph"
    if its == "Einsum" and not re.fullmatch(r"[^,]+,[^,]+->[^,]*", operation.subscripts):
        return f"{name} {operation.subscripts}"
    if its == "RNN" or "cell" in vars(operation):
        of = cells(operation)
        strange = [type(cell).__name__ for cell in of if home(cell).__name__ not in STATES or _changed(cell)]
        return f"{name} of {', '.join(strange)}" if strange else ""
    return ""


def _changed(operation: Any) -> list[str]:
    """Methods that a user's subclass computes with instead of Keras'."""
    bases = type(operation).__mro__
    own = [each for base in bases[: bases.index(home(operation))] for each in vars(base).items()]
    methods = {name for name, one in own if callable(one) or isinstance(one, property | staticmethod | classmethod)}
    special = {name for name in methods if name.startswith("__") and name != "__call__"}
    # Not what a backend's own base class has, such as torch's Module.half.
    of_keras = {name for each in home(operation).__mro__ if each.__module__.startswith(HOMES) for name in vars(each)}
    return sorted(methods & of_keras - special - HARMLESS)
