"""The work of one training step of any Keras 3 model that is made of known layers, in closed form."""

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from traintime.errors import InputError
from traintime.predict.work import layers, optimizers
from traintime.predict.work.layers import Call, size
from traintime.workloads.base import FLOAT, FLOAT32, UPDATES, Update, Work

PROBED = "Ask traintime.estimate, which trains it for a moment (tier='probed')."


@dataclass
class LayerWork:
    """The work of one layer in a step, all its calls together. name: with the names of the models that it is in,
    "encoder/dense"; kind: its class; dtype: that it computes with; work: with the update of its trained parameters;
    where no gradient passes it and its weights need none, launches and products are the forward pass's alone.
    """

    name: str
    kind: str
    dtype: str
    work: Work = field(default_factory=Work)
    calls: int = 0


@dataclass
class ModuleMemory:
    """What one module holds in a training step, bytes, without the modules inside it. parameters, gradients, state (the
    optimizer's), saved (for the backward pass, without the batch): each tensor at the first module that has it.
    """

    name: str
    kind: str
    calls: int = 0
    parameters: int = 0
    gradients: int = 0
    state: int = 0
    saved: int = 0


@dataclass(frozen=True)
class ModelWork:
    """The work of one training step of a Keras model, or of a PyTorch module (work.torch).

    layers: LayerWork in the order of their first call, inputs included, or torch's ModuleMemory; frozen: parameters
    that nothing trains; table_parameters: in tables of embeddings whose rows the optimizer all moves at each step, and
    of which a batch reads some, so that no deferred one counts, and none that a product takes whole; tokens: of these,
    those that a batch reads at most; by_rows: parameters whose update grows with the batch, of deferred or sparse
    tables. Of a module alone: held: bytes at the most on the way forward and back, and in the update. Of a Keras model
    alone: forward: the forward pass by itself; tables: those embeddings, once for each time that a step reads one;
    batch_bytes: inputs, and targets as far as the losses tell them; compute_dtype: of most operations of products.
    """

    layers: tuple[Any, ...]
    total: Work
    frozen: int
    table_parameters: int
    tokens: int
    by_rows: int = 0
    forward: Work | None = None
    tables: tuple[Any, ...] = ()
    batch_bytes: int = 0
    compute_dtype: str = FLOAT32
    held: tuple[float, ...] = ()


def work(model: Any, batch_size: int, optimizer: Any = None, *, length: int | None = None) -> ModelWork:
    """The work of one training step of a built Keras 3 model, Sequential or functional, of known layers.

    batch_size: samples a step; optimizer: a Keras optimizer or its name, None for that of the compiled model; length:
    what stands for the first unknown dimension after the batch of each input that has one.

    As in workloads.base.Work: flops and product_bytes are of matmuls alone (convolutions as products of unrolled
    windows), one forward, one backward if the weights are trained, one backward if anything is trained before the
    layer. launches: one a layer or time step, once more on the way back; layers that drop, join or reshape have none,
    nor have masks. activation_bytes: each layer's outputs, inputs included, in the dtype that it computes with; a view
    is free, and so is an activation that is a layer's argument; a recurrent layer's time step keeps 18 numbers a unit
    (LSTM), 13 (GRU) or 5. parameters: all weights, once. Not counted: losses, metrics, regularizers, constraints.

    Where the workloads' closed forms differ: rnn leaves out its dense layer's product and activations, the launches of
    the matrix that widens a factor and the activations of the token ids and the dropout, counts each row of the table
    twice as an activation, for a frozen table the gradient that nobody needs, and the update of all parameters as a
    deferred table's rows; lstm leaves out its dense layer's activation.

    Raises InputError for a model that is not built, is no graph of known layers or trains by a train_step of its own,
    for shapes that are unknown, and without an optimizer.
    """
    graph = _graph(model)
    if unknown := "; ".join(_unknown(graph.operations, "")):
        raise InputError("model", model.name, f"has layers whose work is not known: {unknown}", PROBED)
    if optimizer is None and (optimizer := getattr(model, "optimizer", None)) is None:
        remedy = "Call model.compile(optimizer, loss) first, or give optimizer=…."
        raise InputError("optimizer", None, "is known of no model that is not compiled", remedy)
    walk = _Walk({id(each) for each in model.trainable_variables}, optimizers.of(optimizer))
    inputs = [walk.input(*each) for each in zip(graph.inputs, _shapes(graph, batch_size, length), strict=True)]
    outputs = walk.model(graph, inputs, "")
    walk.outside(model, model.name)
    works = tuple(walk.works.values())
    largest = max(works, key=lambda each: each.work.flops)
    read = [each for each in walk.tables if not walk.given.intersection(map(id, each.weights))]
    tables = {id(each): each for each in read}.values()
    table = sum(size(weight) for each in tables for weight in each.weights)
    looked_up = sum(each.work.activation_bytes // FLOAT for each in works if each.kind == "Embedding")
    targets = [
        size(output) // (output.shape[-1] if takes_classes(loss) else 1)  # a class number, or as many as come out
        for loss, output in zip(losses(model), outputs, strict=False)
        if loss is not None
    ]
    total, dtype = sum((each.work for each in works), Work()), largest.dtype if largest.work.flops else FLOAT32
    about = {"by_rows": walk.by_rows, "forward": of_forward(walk.forward), "tables": tuple(read)}
    about |= {"batch_bytes": sum(map(layers.nbytes, inputs)) + FLOAT * sum(targets), "compute_dtype": dtype}
    return ModelWork(works, total, walk.frozen, table, min(looked_up, table), **about)


def of_forward(work: Work) -> Work:
    """A forward pass alone: the products and launches given, a third of a step's activations, and no update."""
    kept = {name: getattr(work, name) // 3 for name in ("activation_bytes", "recurrent_bytes")}
    return replace(work, trained=0, update_flops=0, update_bytes=0, slice_bytes=0, **kept)


def losses(model: Any) -> list[Any]:
    """The loss of each output, in their order; None for an output without."""
    import keras

    loss = getattr(model, "loss", None)
    outputs = None if isinstance(model, keras.Sequential) else model.output
    names = sorted(outputs) if isinstance(outputs, dict) else getattr(model, "output_names", [])
    if isinstance(loss, dict) and set(loss) <= set(names):
        return [loss.get(name) for name in names]
    return keras.tree.flatten(loss) if isinstance(loss, dict | list | tuple) else [loss] * len(model.outputs)


def takes_classes(loss: Any) -> bool:
    """Whether a loss takes the number of a class in the place of a number for each class."""
    text = loss if isinstance(loss, str) else getattr(loss, "__name__", "") or getattr(loss, "name", "")
    return "sparse" in (text or "").lower()


def _graph(model: Any) -> Any:
    """The functional model that a model is. Raises InputError where it is not one."""
    bases = [each.__name__ for each in type(model).__mro__ if each.__module__.startswith("keras.")]
    if "Model" not in bases:
        raise InputError("model", type(model).__name__, "is no Keras 3 model", "Give a keras.Model.")
    if not getattr(model.train_step, "__module__", "").startswith("keras."):
        problem = "has a train_step of its own, whose work its layers do not tell"
        raise InputError("model", model.name, problem, PROBED)
    if bases[0] == "Sequential" and model._functional is None:
        remedy = "Call model.build(input_shape), or put keras.Input(shape) first."
        raise InputError("model", model.name, "is not built, so that its shapes are unknown", remedy)
    if layers.why_unknown(model):
        problem = "computes in a call of its own, and is no graph of layers that could be read"
        raise InputError("model", model.name, problem, PROBED)
    return model._functional if bases[0] == "Sequential" else model


def _unknown(operations: Iterable[Any], path: str) -> Iterator[str]:
    """Name and class of each operation without a rule, in models and wrappers inside, too."""
    for operation in operations:
        full = path + operation.name
        if why := layers.why_unknown(operation):
            yield f"{full} ({why})"
        elif inner := layers.MADE_OF.get(layers.home(operation).__name__):
            yield from _unknown(inner(operation), f"{full}/")


def _shapes(graph: Any, batch_size: int, length: int | None) -> list[tuple[int, ...]]:
    """The shape of each input, the batch's size included. Raises InputError for dimensions that stay unknown."""
    if length is not None and (type(length) is not int or length < 1):
        raise InputError("length", length, "is no length", "Give a whole number of 1 or more.")
    if length is not None and not any(None in tensor.shape[1:] for tensor in graph.inputs):
        sizes = ", ".join(str(tuple(tensor.shape)) for tensor in graph.inputs)
        raise InputError("length", length, f"finds no unknown dimension in {sizes}", "Leave it out.")
    refuse_other_batch(graph.inputs, batch_size)
    found = []
    for tensor in graph.inputs:
        rest = list(tensor.shape[1:])
        if None in rest and length is not None:
            rest[rest.index(None)] = length
        if None in rest:
            alone = "Give keras.Input its sizes: length stands for the first unknown one alone."
            remedy, shape = alone if length else "Say how long samples are: length=….", str(tuple(tensor.shape))
            raise InputError(f"input {tensor.name}", shape, "has a dimension that is unknown", remedy)
        found.append((batch_size, *rest))
    return found


def refuse_other_batch(inputs: Iterable[Any], batch_size: int) -> None:
    """Raise InputError where an input declares another batch size."""
    for tensor in inputs:
        if (declared := tensor.shape[0]) not in (None, batch_size):
            remedy = f"Take {declared}, or leave the batch's size out of keras.Input."
            raise InputError("batch_size", batch_size, f"is not the {declared} that input {tensor.name} has", remedy)


class _Walk:
    """Goes through a graph in the order of computing. trained: ids of variables; works: by the layers' ids."""

    def __init__(self, trained: set[int], update: Update) -> None:
        import keras

        self.keras, self.trained, self.update = keras, trained, update
        self.works: dict[int, LayerWork] = {}
        self.forward = Work()
        self.frozen = 0  # parameters that nothing trains
        self.by_rows = 0  # those of deferred tables that a step writes
        self.tables: list[Any] = []  # embeddings that are trained whole, once for each call
        self.given: set[int] = set()  # weights that operations take as they are: each of their rows has a gradient
        self._reached: dict[int, Any] = {}  # tensors whose gradient a step needs; kept, so that ids stay theirs
        self._counted: set[int] = set()  # weights

    def needs(self, nest: Any) -> bool:
        """Whether a step needs the gradient of a tensor or a weight, or of any in a nest of them."""
        return any(id(each) in self._reached or id(each) in self.trained for each in self.keras.tree.flatten(nest))

    def input(self, place: Any, shape: tuple[int, ...]) -> Any:
        """A tensor for an input of the whole model."""
        tensor, layer = self.keras.KerasTensor(shape, dtype=place.dtype), place._keras_history.operation
        work = Work(activation_bytes=layers.nbytes(tensor))
        self.works[id(layer)] = LayerWork(layer.name, "InputLayer", place.dtype, work, 1)
        self.forward += work
        return tensor

    def model(self, graph: Any, given: list[Any], path: str) -> list[Any]:
        """What comes out of a functional model for these inputs."""
        values = {id(place): tensor for place, tensor in zip(graph.inputs, given, strict=True)}
        for depth in sorted(graph._nodes_by_depth, reverse=True):
            for node in graph._nodes_by_depth[depth]:
                if node.is_input:
                    continue
                arguments, named = node.arguments.fill_in(values)
                outputs = self.call(node.operation, arguments, named, path, [each.dtype for each in node.outputs])
                values |= {id(place): tensor for place, tensor in zip(node.outputs, outputs, strict=True)}
        return [values[id(place)] for place in graph.outputs]

    def call(self, operation: Any, arguments: Any, named: Any, path: str, dtypes: list[str] | None = None) -> list[Any]:
        """What comes out of an operation, its work added to the others. dtypes: of what comes out, if known."""
        name, full = layers.home(operation).__name__, path + operation.name
        if name in ("Sequential", "Functional"):
            given = self.keras.tree.flatten(arguments[0] if arguments else named["inputs"])
            outputs = self.model(operation._functional if name == "Sequential" else operation, given, f"{full}/")
            self.outside(operation, full)
            return outputs
        if name == "TimeDistributed":
            inputs = arguments[0] if arguments else named["inputs"]
            batch, length, *rest = inputs.shape  # its slices are independent: a batch as many times as large
            (output,) = self.call(operation.layer, (self._reshaped(inputs, (batch * length, *rest)),), {}, f"{full}/")
            return [self._reshaped(output, (batch, length, *output.shape[1:]))]
        self.given |= {id(each) for each in self.keras.tree.flatten((arguments, named))} & self.trained
        outputs = self._specified(operation, arguments, named, dtypes, full)
        of_layer = layers.is_layer(operation)
        rule = (layers.LAYERS if of_layer else layers.OPERATIONS)[name]
        weights = operation.weights if of_layer else []
        given = inspect.signature(operation.call).bind(*arguments, **named).arguments
        call = Call(operation, given, outputs, self.needs)
        if name == "Bidirectional":  # two layers on the same inputs, each with its half of the states
            states = list(given.get("initial_state") or [])
            half = len(states) // 2
            for one, own in ((operation.forward_layer, states[:half]), (operation.backward_layer, states[half:])):
                self.call(one, (call.inputs,), {"initial_state": own} if own else {}, f"{full}/")
        cost, alone = rule(call), rule(replace(call, needs=lambda _: False))
        floats = [each for each in outputs if "float" in each.dtype]
        needed = bool(floats) and name != "StopGradient" and self.needs([given, weights])
        if needed:
            self._reached |= {id(each): each for each in floats}
        # A mask is computed beside what it masks.
        launches = 0 if all(each.dtype == "bool" for each in outputs) else cost.launches
        self.forward += replace(alone, launches=launches)
        dtype = getattr(operation, "compute_dtype", None) or outputs[0].dtype
        layer = self.works.setdefault(id(operation), LayerWork(full, type(operation).__name__, dtype))
        layer.work, layer.calls = layer.work + replace(cost, launches=launches * (2 if needed else 1)), layer.calls + 1
        parameters, trained = self._first(weights)
        if layers.home(operation).__module__.startswith("traintime."):  # writes the rows that a batch reads, each once
            width, before = operation.output_dim, layer.work.trained
            written = min(operation.input_dim * width, before + size(call.inputs) * width) if self.needs(weights) else 0
            layer.work += UPDATES["adam-deferred"].work(parameters, written - before)
            self.by_rows += written - before
            return outputs
        layer.work += self.update.work(parameters, trained)
        if name == "Embedding" and self.needs(weights):
            self.tables.append(operation)
        return outputs

    def _reshaped(self, tensor: Any, shape: tuple[int, ...]) -> Any:
        """The numbers of a tensor in another shape."""
        made = self.keras.KerasTensor(shape, dtype=tensor.dtype)
        if self.needs(tensor):
            self._reached[id(made)] = made
        return made

    def _specified(self, operation: Any, arguments: Any, named: Any, dtypes: list[str] | None, name: str) -> list[Any]:
        """Tensors of the shapes that come out. Raises InputError where Keras cannot tell, or refuses, a shape."""
        flatten, trace = self.keras.tree.flatten, self.keras.Operation.compute_output_spec
        try:
            outputs = flatten(operation.compute_output_spec(*arguments, **named))
            if any(None in each.shape for each in outputs):  # the layer was made for any length: trace it for this one
                outputs = flatten(trace(operation, *arguments, **named))
        except ValueError as error:
            given = [each for each in flatten((arguments, named)) if isinstance(each, self.keras.KerasTensor)]
            sizes = ", ".join(str(tuple(each.shape)) for each in given)
            problem = f"is nothing that it can take ({error})"
            raise InputError(name, sizes, problem, "Give another length or batch size.") from error
        for each in outputs:
            if None in each.shape:
                shape = str(tuple(each.shape))
                raise InputError(name, shape, "has a dimension that depends on the data", PROBED)
        kinds = dtypes or [each.dtype for each in outputs]
        return [self.keras.KerasTensor(each.shape, dtype=kind) for each, kind in zip(outputs, kinds, strict=True)]

    def _first(self, weights: list[Any]) -> tuple[int, int]:
        """Parameters in weights that were not counted yet, and of these those that are trained."""
        fresh = [each for each in weights if id(each) not in self._counted]
        self._counted |= {id(each) for each in fresh}
        parameters, trained = sum(map(size, fresh)), sum(size(each) for each in fresh if id(each) in self.trained)
        self.frozen += parameters - trained
        return parameters, trained

    def outside(self, model: Any, name: str) -> None:
        """Weights of a model that no layer of its graph has: no gradient comes to them, no step trains them."""
        if parameters := self._first(model.weights)[0]:
            work = Work(parameters=parameters)
            self.works[id(model)] = LayerWork(name, type(model).__name__, model.compute_dtype, work)
