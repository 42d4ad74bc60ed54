"""The work of one training step of any Keras 3 model that is made of known layers, in closed form."""

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from traintime.errors import InputError
from traintime.predict.work import layers, optimizers
from traintime.predict.work.layers import Call, tensors
from traintime.workloads.base import FLOAT, FLOAT32, UPDATES, Update, Work

PROBED = "Ask traintime.estimate, which trains it for a moment (tier='probed')."


class UnknownLayer(InputError):
    """Layers whose work is not known, so that the whole model's is not. layers: name -> class, and what is unusual."""

    def __init__(self, model: str, unknown: dict[str, str]) -> None:
        self.layers = unknown
        listed = "; ".join(f"{name} ({what})" for name, what in unknown.items())
        super().__init__("model", model, f"has layers whose work is not known: {listed}", PROBED)


@dataclass
class LayerWork:
    """The work of one layer in a step, all its calls together.

    name: with the names of the models that it is in, "encoder/dense"; kind: its class; dtype: that it computes with;
    update: of its trained parameters, a deferred table's own; cost: all but the update (where no gradient passes it and
    its weights need none, launches and products are the forward pass's alone); frozen: parameters that nothing trains;
    table: those of a table that is trained whole; rows: of a deferred table that a step reads.
    """

    name: str
    kind: str
    dtype: str
    update: Update
    cost: Work = field(default_factory=Work)
    parameters: int = 0
    trained: int = 0
    frozen: int = 0
    table: int = 0
    rows: int = 0

    @property
    def work(self) -> Work:
        """All of it, the update included."""
        return self.update.work(self.parameters, self.trained) + self.cost


@dataclass(frozen=True)
class ModelWork:
    """The work of one training step of a model.

    layers: in the order of their first call, inputs included; total: their sum; forward: the forward pass alone;
    frozen: parameters that nothing trains; table_parameters: parameters in tables of embeddings whose rows the
    optimizer all moves at each step, so that a deferred table does not count; tables: those embeddings, once for each
    time that a step reads one; input_bytes: of a batch, as the inputs' dtypes have it; target_bytes: of a batch, as far
    as the losses tell it; compute_dtype: in which most operations of the products are computed.
    """

    layers: tuple[LayerWork, ...]
    total: Work
    forward: Work
    frozen: int
    table_parameters: int
    tables: tuple[Any, ...]
    input_bytes: int
    target_bytes: int
    compute_dtype: str


def work(model: Any, batch_size: int, optimizer: Any = None, *, length: int | None = None) -> ModelWork:
    """The work of one training step of a built Keras 3 model, Sequential or functional, of known layers.

    batch_size: samples a step; optimizer: a Keras optimizer or its name, None for that of the compiled model; length:
    what stands for the first unknown dimension after the batch of each input that has one.

    As in workloads.base.Work, and so that the workloads' own models come out as their closed forms:
    flops and product_bytes are of matmuls alone (convolutions as products of unrolled windows), one forward,
    one backward if the weights are trained, one backward if anything is trained before the layer; all in float32.
    launches: one a layer or time step, once more on the way back; layers that drop, join or reshape have none (Keras'
    groups regularization, merging, reshaping), nor have masks. TimeDistributed counts as its layer on one large batch,
    Bidirectional as two layers.
    activation_bytes: each layer's outputs, inputs included, in the dtype that it computes with. A view is free, and
    so is an activation that is a layer's argument; a recurrent layer's time step keeps 18 numbers a unit (LSTM), 13
    (GRU) or 5, its output among them. Layers that nothing trained lies before count as well.
    parameters: all weights, once however often they are used; a deferred table without what is kept of its rows.
    Not counted: losses, metrics, regularizers, constraints.

    Where the workloads' closed forms differ: rnn leaves out its dense layer's product, the launches of the matrix that
    widens a factor and the activations of the token ids, the dropout and the dense layer, counts each row of the table
    twice as an activation, counts for a frozen table the gradient that nobody needs, and counts the update of all
    parameters as a deferred table's rows; lstm leaves out its dense layer's activation; an LSTM with a fused kernel
    (algorithm "native") is unknown here.

    Raises InputError for a model that is not built, is no graph of layers or trains by a train_step of its own, for
    shapes that are unknown, and without an optimizer; UnknownLayer, an InputError, for layers without a rule.
    """
    if type(batch_size) is not int or batch_size < 1:
        raise InputError("batch_size", batch_size, "is no number of samples", "Give a whole number of 1 or more.")
    graph = _graph(model)
    if unknown := dict(_unknown(graph.operations, "")):
        raise UnknownLayer(model.name, unknown)
    if optimizer is None:
        optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        remedy = "Call model.compile(optimizer, loss) first, or give optimizer=…."
        raise InputError("optimizer", None, "is known of no model that is not compiled", remedy)
    update = optimizers.of(optimizer)
    shapes = _shapes(graph, batch_size, length)
    trained: set[int] = {id(each) for each in model.trainable_variables}
    walk, forward = _Walk(trained, update), _Walk(set(), update)
    for each in (forward, walk):
        outputs = each.model(graph, each.inputs(graph, shapes), "")
        each.outside(model, model.name)
    works = tuple(walk.works.values())
    largest = max(works, key=lambda each: each.cost.flops)
    return ModelWork(
        works,
        _total(works, update),
        of_forward(_total(forward.works.values(), update)),
        sum(each.frozen for each in works),
        sum(each.table for each in works),
        tuple(walk.tables),
        sum(each.cost.activation_bytes for each in works if each.kind == "InputLayer"),
        sum(_target_bytes(loss, output) for loss, output in zip(losses(model), outputs, strict=False)),
        largest.dtype if largest.cost.flops else FLOAT32,
    )


def of_forward(work: Work) -> Work:
    """The work of a forward pass from its products and launches and a step's activations, of which it writes each once:
    a third of what a step pays for, which also reads them and their gradients.
    """
    kept = {name: getattr(work, name) // 3 for name in ("activation_bytes", "recurrent_bytes")}
    return replace(work, trained=0, update_flops=0, update_bytes=0, slice_bytes=0, **kept)


# The targets


def losses(model: Any) -> list[Any]:
    """The loss of each output: given by the outputs' names, in their order, in their structure, or one for all; None
    for an output without.
    """
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


def _target_bytes(loss: Any, output: Any) -> int:
    """Bytes of an output's targets: a class number, or as many float32 numbers as its own; none without a loss."""
    numbers = layers.size(output) // (output.shape[-1] if takes_classes(loss) else 1)
    return FLOAT * numbers if loss is not None else 0


# The graph


def _graph(model: Any) -> Any:
    """The functional model that a model is. Raises InputError where it is not one."""
    name = getattr(model, "name", model)
    bases = [each.__name__ for each in type(model).__mro__ if each.__module__.startswith("keras.")]
    if "Model" not in bases:
        raise InputError("model", type(model).__name__, "is no Keras 3 model", "Give a keras.Model.")
    if not getattr(model.train_step, "__module__", "").startswith("keras."):
        problem = "has a train_step of its own, whose work its layers do not tell"
        raise InputError("model", name, problem, PROBED)
    if bases[0] == "Sequential" and model._functional is None:
        remedy = "Call model.build(input_shape), or put keras.Input(shape) first."
        raise InputError("model", name, "is not built, so that its shapes are unknown", remedy)
    if layers.why_unknown(model):
        problem = "computes in a call of its own, and is no graph of layers that could be read"
        raise InputError("model", name, problem, PROBED)
    return model._functional if bases[0] == "Sequential" else model


def _unknown(operations: Iterable[Any], path: str) -> Iterator[tuple[str, str]]:
    """Name and class of each operation without a rule, in models and wrappers inside, too."""
    for operation in operations:
        full = path + operation.name
        if why := layers.why_unknown(operation):
            yield full, why
        elif inner := layers.MADE_OF.get(layers.rule_name(operation)):
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
            remedy = "Say how long samples are: length=…."
            if length is not None:
                remedy = "Give keras.Input its sizes: length stands for the first unknown one alone."
            shape = str(tuple(tensor.shape))
            raise InputError(f"input {tensor.name}", shape, "has a dimension that is unknown", remedy)
        found.append((batch_size, *rest))
    return found


def refuse_other_batch(inputs: Iterable[Any], batch_size: int) -> None:
    """Raise InputError where an input declares another batch size."""
    for tensor in inputs:
        if (declared := tensor.shape[0]) not in (None, batch_size):
            remedy = f"Take {declared}, or leave the batch's size out of keras.Input."
            raise InputError("batch_size", batch_size, f"is not the {declared} that input {tensor.name} has", remedy)


# The walk


def _total(works: Iterable[LayerWork], update: Update) -> Work:
    """The sum over the layers; the optimizer's part divided once, where gradients of several steps are added up."""
    own = [each for each in works if each.update is update]
    others = [each.update.work(each.parameters, each.trained) for each in works if each.update is not update]
    start = update.work(sum(each.parameters for each in own), sum(each.trained for each in own))
    return sum([*others, *(each.cost for each in works)], start)


class _Walk:
    """Goes through a graph in the order in which it is computed, with the shapes of a batch.

    trained: ids of the variables that the optimizer moves, none for a forward pass alone; update: its update of one;
    works: by the layers' ids.
    """

    def __init__(self, trained: set[int], update: Update) -> None:
        import keras

        self.keras, self.trained, self.update = keras, trained, update
        self.works: dict[int, LayerWork] = {}
        self.tables: list[Any] = []  # embeddings that are trained whole, once for each call
        self._reached: dict[int, Any] = {}  # tensors whose gradient a step needs; kept, so that ids stay theirs
        self._counted: dict[int, Any] = {}  # weights

    def needs(self, value: Any) -> bool:
        """Whether a step needs the gradient of a tensor or of a weight."""
        return id(value) in self._reached or id(value) in self.trained

    def inputs(self, graph: Any, shapes: list[tuple[int, ...]]) -> list[Any]:
        """A tensor for each input of the whole model."""
        made = []
        for place, shape in zip(graph.inputs, shapes, strict=True):
            made.append(self.keras.KerasTensor(shape, dtype=place.dtype))
            layer = place._keras_history.operation
            cost = Work(activation_bytes=layers.nbytes(made[-1]))
            self.works[id(layer)] = LayerWork(layer.name, "InputLayer", place.dtype, self.update, cost)
        return made

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
        name, full = layers.rule_name(operation), path + operation.name
        if name in ("Sequential", "Functional"):
            given = self.keras.tree.flatten(arguments[0] if arguments else named["inputs"])
            graph = operation._functional if name == "Sequential" else operation
            outputs = self.model(graph, given, f"{full}/")
            self.outside(operation, full)
            return outputs
        if name == "TimeDistributed":
            inputs = arguments[0] if arguments else named["inputs"]
            return [self._over_time(operation, inputs, f"{full}/")]
        outputs = self._specified(operation, arguments, named, dtypes, full)
        if name == "Bidirectional":
            self._both_ways(operation, *arguments, **named, path=f"{full}/")
            rule = layers.nothing if operation.merge_mode is None else layers.handed_on
        else:
            rule = (layers.LAYERS if layers.is_layer(operation) else layers.OPERATIONS)[name]
        weights = operation.weights if layers.is_layer(operation) else []
        given = inspect.signature(operation.call).bind(*arguments, **named).arguments
        self._add(Call(operation, given, outputs, self.needs), rule, name, full, weights)
        return outputs

    def _both_ways(
        self, wrapper: Any, sequences: Any, initial_state: Any = None, *rest: Any, path: str, **named: Any
    ) -> None:
        """Two layers on the same inputs; a first half of the states is one's, the second the other's."""
        states = list(initial_state or [])
        half = len(states) // 2
        for layer, own in ((wrapper.forward_layer, states[:half]), (wrapper.backward_layer, states[half:])):
            self.call(layer, (sequences,), {"initial_state": own} if own else {}, path)

    def _over_time(self, wrapper: Any, inputs: Any, path: str) -> Any:
        """A layer on every slice of time: on a batch as many times as large, the slices being independent."""
        batch, length, *rest = inputs.shape
        slices = self.keras.KerasTensor((batch * length, *rest), dtype=inputs.dtype)
        self._pass_on(slices, self.needs(inputs))
        (output,) = self.call(wrapper.layer, (slices,), {}, path)
        whole = self.keras.KerasTensor((batch, length, *output.shape[1:]), dtype=output.dtype)
        self._pass_on(whole, self.needs(output))
        return whole

    def _pass_on(self, tensor: Any, needed: bool) -> None:
        if needed:
            self._reached[id(tensor)] = tensor

    def _specified(self, operation: Any, arguments: Any, named: Any, dtypes: list[str] | None, name: str) -> list[Any]:
        """Tensors of the shapes that come out. Raises InputError where Keras cannot tell, or refuses, a shape."""
        flatten, trace = self.keras.tree.flatten, self.keras.Operation.compute_output_spec
        try:
            outputs = flatten(operation.compute_output_spec(*arguments, **named))
            if any(None in each.shape for each in outputs):  # the layer was made for any length: trace it for this one
                outputs = flatten(trace(operation, *arguments, **named))
        except ValueError as error:
            sizes = ", ".join(str(tuple(each.shape)) for each in tensors((arguments, named)))
            problem = f"is nothing that it can take ({error})"
            raise InputError(name, sizes, problem, "Give another length or batch size.") from error
        for each in outputs:
            if None in each.shape:
                shape = str(tuple(each.shape))
                raise InputError(name, shape, "has a dimension that depends on the data", PROBED)
        kinds = dtypes or [each.dtype for each in outputs]
        return [self.keras.KerasTensor(each.shape, dtype=kind) for each, kind in zip(outputs, kinds, strict=True)]

    def _add(self, call: Call, rule: layers.Rule, name: str, full: str, weights: list[Any]) -> None:
        """Add the call's cost to the layer's, and its weights if they were not counted yet."""
        kind = type(call.layer).__name__
        dtype = getattr(call.layer, "compute_dtype", None) or call.outputs[0].dtype
        layer = self.works.setdefault(id(call.layer), LayerWork(full, kind, dtype, self.update))
        needed = any(self.needs(each) for each in [*tensors(call.given), *weights])
        floats = [each for each in call.outputs if "float" in each.dtype]
        if name == "StopGradient" or not floats:
            needed = False
        for each in floats:
            self._pass_on(each, needed)
        cost = rule(call)
        # A mask is computed beside what it masks.
        launches = 0 if all(each.dtype == "bool" for each in call.outputs) else cost.launches * (2 if needed else 1)
        layer.cost += replace(cost, launches=launches)
        before = layer.trained
        self._count(layer, weights)
        if layers.is_deferred(call.layer):  # its update writes the rows that a batch reads, each once
            layer.rows = min(call.layer.input_dim, layer.rows + layers.size(call.inputs))
            layer.trained = layer.rows * call.layer.output_dim * bool(layer.trained)
            layer.update = UPDATES["adam-deferred"]
        elif name == "Embedding":
            layer.table += layer.trained - before
            self.tables += [call.layer] * bool(layer.table)

    def _count(self, layer: LayerWork, weights: list[Any]) -> None:
        for each in weights:
            if id(each) not in self._counted:
                self._counted[id(each)] = each
                layer.parameters += layers.size(each)
                kind = "trained" if id(each) in self.trained else "frozen"
                setattr(layer, kind, getattr(layer, kind) + layers.size(each))

    def outside(self, model: Any, name: str) -> None:
        """Weights of a model that no layer of its graph has: no gradient comes to them, no step trains them."""
        rest = [each for each in model.weights if id(each) not in self._counted]
        if rest:
            layer = LayerWork(name, type(model).__name__, model.compute_dtype, self.update)
            self._count(layer, rest)
            layer.trained = 0
            self.works[id(model)] = layer
