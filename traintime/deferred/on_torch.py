"""Rows of torch's parameters, read and written where they lie, in few operations: each costs a launch on a GPU.

The numbers of a table are known here, too, as long as nobody else writes its tensor: nothing waits for a GPU.
"""

import contextlib
import functools
import weakref
from collections.abc import Callable
from contextlib import nullcontext as outside  # noqa: F401 (of a graph that is being made: there is none)
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy as numbers  # noqa: F401 (what computes with the numbers of a table)
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from traintime.deferred import table
from traintime.deferred.arithmetic import AGE, CYCLE, EPSILON, ROOM, STEPS, settled  # noqa: F401 (as one)
from traintime.errors import InputError

EACH = 64  # steps in which some rows are brought up to date once


class Seen(NamedTuple):
    """What a lookup has read: for the step, if none has written since."""

    ids: torch.Tensor
    moments: torch.Tensor
    rows: torch.Tensor  # up to date
    versions: tuple[int, ...]


def on_gpu() -> bool:
    """Whether the table will lie in the memory of a GPU."""
    return torch.cuda.is_available()


def drawn(one: Any) -> Any:
    """What the table starts from, as it is: torch gives memory back."""
    return one


def more(layer: Any, one: Any, made: Callable[..., Any]) -> list[Any]:
    """Variables that only this backend needs: none. What torch saves of the layer has all rows up to date."""
    layer.register_state_dict_pre_hook(lambda module, *_: module.settle())
    return []


def _stop_others(optimizer: Any, *_: Any) -> None:
    """Raise InputError where an optimizer of torch's own is about to train a table."""
    for group in optimizer.param_groups:
        for one in (getattr(parameter, "table", None) for parameter in group["params"] if parameter.grad is not None):
            if one is not None:
                raise table.problem(4, one.path)


register_optimizer_step_pre_hook(_stop_others)


def alive(one: Any) -> bool:
    """Whether the variables are there."""
    return one._value is not None


def take(variable: keras.Variable, ids: torch.Tensor) -> torch.Tensor:
    """These rows of a variable."""
    return variable.value.detach().index_select(0, ids)


def put(variable: keras.Variable, ids: torch.Tensor, values: torch.Tensor, kind: Any = 0) -> None:
    """Write rows in their places."""
    variable.value.detach().index_copy_(0, ids.long(), values)


def _versions(one: Any) -> tuple[int, ...]:
    return tuple(variable.value._version for variable in (one, one.moments, one.missed))


def _known(variable: Any) -> Any:
    """What stands in a variable, without a look at it while its tensor is the same and nobody has written it."""
    tensor = variable.value
    kept = getattr(variable, "known", None)
    if kept is None or kept[0] is not tensor or kept[1] != tensor._version:
        kept = variable.known = tensor, tensor._version, tensor.detach().cpu().numpy().copy()
    return kept[2]


def _wrote(variable: Any, number: Any) -> None:
    variable.known = variable.value, variable.value._version, number


def known(state: Any, iterations: Any, identity: Any) -> tuple[Any, Any, Any]:
    """Numbers of a table and of an optimizer."""
    return _known(state), _known(iterations) % CYCLE, _known(identity)


def _unique(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows in order, and where in it each of these is found first; on a GPU as many as there were: nothing waits."""
    if not ids.is_cuda:
        return torch.unique(ids, return_inverse=True)
    used = ids.sort().values
    return used, torch.searchsorted(used, ids)


def _moves(one: Any, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Moments of these rows, and two numbers whose quotient is what they owe (arithmetic.owed)."""
    moments = one.moments.value.detach().index_select(0, ids)
    missed = one.missed.value.detach().index_select(0, moments[:, -1].int())
    width = one.shape[1]
    root = moments[:, width : 2 * width].sqrt()
    below = root + float(_known(one.state)[EPSILON])
    x, polynomial = root.div_(below), missed[:, one.terms - 1 : one.terms]
    for term in reversed(range(one.terms - 1)):
        polynomial = torch.addcmul(missed[:, term : term + 1], polynomial, x)
    return moments, moments[:, :width] * polynomial, below


class Lookup(torch.autograd.Function):
    """Rows up to date. Each is read once, so that its gradients come added up."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, one: Any, ids: torch.Tensor) -> torch.Tensor:
        used, places = _unique(ids)
        rows = one.shape[0]
        if not ids.is_cuda and len(used):  # a GPU says it later, by itself
            for row in (int(used[0]), int(used[-1])):
                if not 0 <= row < rows:
                    problem = f"is no row of {one.path}, which has {rows}: 0 to {rows - 1}"
                    raise InputError("inputs", row, problem, table.PROBLEMS[2][2])
        moments, moves, below = _moves(one, used)
        rows = values.index_select(0, used).addcdiv_(moves, below, value=-1)
        ctx.one, ctx.seen, ctx.places = one, Seen(used, moments, rows, _versions(one)), places
        return rows.index_select(0, places)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        ids = ctx.seen.ids
        total = gradient.new_zeros(len(ids), gradient.shape[1]).index_add_(0, ctx.places, gradient)
        ctx.one.brought = ctx.seen
        kind = {"is_coalesced": not ids.is_cuda, "check_invariants": False}
        return torch.sparse_coo_tensor(ids[None], total, ctx.one.shape, **kind), None, None


def _came(one: Any, parameter: torch.Tensor) -> None:
    """Know the gradient again that is of one lookup alone."""
    gradient, seen = parameter.grad, one.brought
    alone = gradient.is_sparse and gradient._nnz() == len(seen.ids)
    one.seen = (weakref.ref(gradient), gradient._version, seen) if alone else None


@torch.compiler.disable
def read(one: Any, ids: torch.Tensor) -> torch.Tensor:
    """The rows of these numbers."""
    values = one.value
    if values.requires_grad and getattr(values, "table", None) is not one:
        values.register_post_accumulate_grad_hook(functools.partial(_came, one))
        values.table = one
    return Lookup.apply(values, one, ids)


def split(one: Any, given: dict[int, Any]) -> tuple[Any, Any, Any]:
    """Rows and their gradients (None: there are none). Raises InputError for those of all rows."""
    gradient = given.get(id(one))
    if gradient is None:
        return None, None, 0
    if not gradient.is_sparse:
        remedy = "Hand on the sparse one that backward() makes of a lookup, or take keras.layers.Embedding."
        raise InputError("gradients", one.path, "have one that is dense: changed, or of another use", remedy)
    return gradient._indices()[0], gradient, 0


def _added(step: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows, their moments, the rows up to date, and their gradients added up, at each place of a row the same."""
    one, ids, total, known = step.table, step.ids, step.gradient._values(), getattr(step.table, "seen", None)
    if known and known[0]() is step.gradient and known[1] == step.gradient._version:
        seen = known[2]
        if seen.versions == _versions(one):
            if ids.is_cuda:
                total = total.index_select(0, torch.searchsorted(ids, ids))
            return seen.ids, seen.moments, seen.rows, total
    ids, places = _unique(ids)
    total = total.new_zeros(len(ids), total.shape[1]).index_add_(0, places, total)
    if ids.is_cuda:
        total = total.index_select(0, torch.searchsorted(ids, ids))
    moments, moves, below = _moves(one, ids)
    return ids, moments, take(one, ids).addcdiv_(moves, below, value=-1), total


def _of(one: Any, optimizer: Any) -> tuple[torch.Tensor, ...]:
    """What never changes: logarithms of both decays, shape (1, 2); `fresh`, shape (1, 2, 1); powers of missed steps."""
    if getattr(one, "fixed", (None,))[0] is not optimizer:
        fixed = (
            optimizer.own[None, 1:],
            np.array(optimizer.fresh, "float32")[None, :, None],
            optimizer.powers[::-1].copy(),
        )
        one.fixed = optimizer, *(torch.from_numpy(each).to(one.value.device) for each in fixed)
    return one.fixed[1:]


@torch.compiler.disable
@torch.no_grad()
def write(step: Any, optimizer: Any) -> None:
    """One step of a table (arithmetic.stepped)."""
    one, before, after = step.table, step.before, step.after
    if step.ids is not None:
        logs, fresh, powers = _of(one, optimizer)
        ids, moments, values, total = _added(step)
        steps, age, epsilon = int(before[STEPS]), int(before[AGE]), float(before[EPSILON])
        rate = _rate(optimizer)
        gap = (steps - moments[:, -1:]).remainder_(ROOM)
        means = moments[:, :-1].unflatten(1, (2, -1)) * (gap * logs).exp_()[:, :, None]
        if age < ROOM:  # moments of an optimizer that this one has replaced
            means.masked_fill_((gap >= age)[:, :, None], 0.0)
        means.lerp_(torch.stack([total, total * total], 1), fresh)
        values = values.addcdiv(means[:, 0] * rate, means[:, 1].sqrt().add_(epsilon), value=-1)
        put(one, ids, values)
        put(one.moments, ids, torch.cat([means.flatten(1), gap.fill_((steps + 1) % ROOM)], 1))
        _miss(one, steps + 1, rate, powers[max(len(powers) - age, 0) :])
    after = after.astype("float32")
    one.state.value.copy_(torch.from_numpy(after), non_blocking=True)
    _wrote(one.state, after)
    if step.ids is not None and after[STEPS] % EACH == 0:
        start, count = one.turn(int(after[STEPS]), EACH)
        turn = torch.arange(start, start + count, device=one.value.device).remainder_(one.shape[0])
        for variable, new in zip(one.by_row, one.settled(turn), strict=True):
            put(variable, turn, new)


def _rate(optimizer: Any) -> torch.Tensor:
    """alpha, with the optimizer's count of steps as it is known here."""
    step = np.float32(_known(optimizer.iterations) + 1)
    beta_1, beta_2 = (np.float32(beta) ** step for beta in (optimizer.beta_1, optimizer.beta_2))
    rate = keras.ops.convert_to_tensor(optimizer.learning_rate).detach()
    return rate * float(np.sqrt(1 - beta_2) / (1 - beta_1))


def _miss(one: Any, step: int, rate: torch.Tensor, powers: torch.Tensor) -> None:
    """To the rows of j steps ago this step is the j-th that they miss; none has missed anything since it."""
    missed, first = one.missed.value.detach(), step - len(powers)
    parts = [(max(first, 0), step, powers[max(-first, 0) :])]
    if first < 0:
        parts.append((ROOM + first, ROOM, powers[:-first]))
    for start, stop, some in parts:
        if stop > start:
            missed[start:stop, : one.terms].addcmul_(some, rate)
    missed[step % ROOM].zero_()


@contextlib.contextmanager
def refusing(optimizer: Any, steps: list[Any], variables: list[Any]) -> Any:
    """A context in which nothing is written where a step may not be. Raises InputError."""
    for step in steps:
        if int(step.kind):
            raise table.problem(int(step.kind), step.table.path)
    made = _known(optimizer.iterations)
    yield
    _wrote(optimizer.iterations, made + 1)
