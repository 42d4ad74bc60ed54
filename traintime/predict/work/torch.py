"""The work of one training step of a PyTorch module, and the memory that each of its modules holds, without a step.

A batch of the right size goes forward and back through torch's fake tensors, which have shapes and no numbers: a model
that does not fit into this machine, or is on the device meta, can be asked about. Where its way depends on numbers
(Hugging Face's BERT asks whether its mask is all ones), a forward pass of two samples says which way it goes. Products
are counted by torch.utils.flop_counter, what is saved for the backward pass by saved-tensor hooks, and what is held at
the most by when each tensor comes and goes, those of the optimizer's update among them.
"""

import contextlib
import copy
import itertools
import math
import warnings
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from traintime.errors import InputError
from traintime.predict.probe import words
from traintime.predict.torch_trainer import TorchTrainer
from traintime.predict.work import optimizers
from traintime.predict.work.graph import PROBED, ModelWork, ModuleMemory
from traintime.workloads.base import FLOAT, Work

WHOLE = "the module itself"
# Times their bytes that tensors which come and go on the way forward and back take, since an allocator cannot close all
# gaps that they leave; and bytes that torch loads with its first step. Of five modules on a processor.
GAPS, BEGIN = 1.3, 2e7
TABLES = (torch.nn.Embedding, torch.nn.EmbeddingBag)


def step_work(trainer: TorchTrainer, samples: int) -> ModelWork:
    """One training step with so many samples (a DataLoader's batch is as large as it is). Raises InputError where the
    module cannot be followed without numbers.
    """
    try:
        try:
            return _followed(trainer, samples, [])
        except DataDependentOutputException:
            return _followed(trainer, samples, _asked(trainer))
    except InputError:
        raise
    except Exception as error:
        problem = f"cannot be followed without numbers ({type(error).__name__}: {words(error)})"
        name = type(trainer.module).__name__
        raise InputError("model", name, problem, PROBED) from error


def _asked(trainer: TorchTrainer) -> list[Any]:
    """What the module asks of its numbers in a forward pass of a DataLoader's batch, or of two samples (batch norm)."""
    buffers = {name: each.clone() for name, each in trainer.module.named_buffers()}
    with trainer.restored(values=False), _uncompiled(), _Products() as asked:
        _called(trainer, buffers, lambda: trainer.loss_of(trainer.batch(2)))
    return asked.answers


def _followed(trainer: TorchTrainer, samples: int, answers: list[Any]) -> ModelWork:
    """One step without numbers. answers: to what the module asks of them."""
    memory, products = _Memory(trainer.module), _Products(answers)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    named = {**dict(trainer.module.named_parameters()), **dict(trainer.module.named_buffers())}
    with mode:  # what is on the device meta as it will be on a processor
        state = {name: torch.empty_like(each, device="cpu") for name, each in named.items() if each.is_meta}
        state = {name: each.requires_grad_(named[name].requires_grad) for name, each in state.items()}
        state |= {name: mode.from_tensor(each) for name, each in named.items() if not each.is_meta}
    with trainer.restored(values=False):
        batch = trainer.batch(1)

        def blank(each: torch.Tensor) -> torch.Tensor:  # of so many samples, or as large as a DataLoader's is
            shape = each.shape if trainer.own_batches else (samples, *each.shape[1:])
            return torch.empty(shape, dtype=each.dtype, device=each.device)

        with mode:
            batch = tree_map_only(torch.Tensor, blank, batch)
        memory.known |= {_storage(each) for each in [*state.values(), *_tensors(batch)]}
        products.hold([*state.values(), *_tensors(batch)])
        begun = products.live
        begins = register_module_forward_pre_hook(memory.begins)
        ends = register_module_forward_hook(memory.ends, always_call=True)

        def step() -> None:
            # What is computed again on the way back is saved for a moment, and is in the peak alone.
            with saved_tensors_hooks(memory.saves, lambda tensor: tensor):
                loss = trainer.loss_of(batch)
            loss.backward()

        with _uncompiled(), mode, products, begins, ends:
            _called(trainer, state, step)
            there, passing = products.live, products.peak - begun
            products.peak, products.given = products.live, itertools.repeat(1.0)  # asked for the number of the step
            updated = _update(trainer.optimizer, {id(each): state[name] for name, each in named.items()})
            state_bytes = products.live - there if updated else 0  # `updated` keeps what the first update has made
    back = begun + GAPS * passing + memory.unseen + state_bytes
    memory.factors = {id(each) for name, each in named.items() if _storage(state[name]) in products.factors}
    return _summed(trainer, memory, products, batch, tuple(BEGIN + each for each in (back, products.peak)))


def _update(optimizer: torch.optim.Optimizer, instead: dict[int, torch.Tensor]) -> torch.optim.Optimizer:
    """The optimizer after a first update of these tensors, which makes its state; that alone if it asks for numbers."""
    one = copy.copy(optimizer)
    groups = [[instead[id(each)] for each in group["params"] if id(each) in instead] for group in one.param_groups]
    one.param_groups = [{**group, "params": its} for group, its in zip(one.param_groups, groups, strict=True)]
    one.state = defaultdict(dict)
    try:
        one.step()
    except Exception:  # whatever an optimizer asks of its numbers
        for each in itertools.chain(*groups):
            one.state[each] = {n: torch.empty_like(each) for n in range(optimizers.of_torch(optimizer).slots)}
    return one


def _called(trainer: TorchTrainer, state: dict[str, torch.Tensor], call: Callable[[], Any]) -> Any:
    """What is called while the module trains with these tensors in the place of its own of those names."""
    trainer.module.train()
    whole = torch.nn.Module()
    whole.module, whole.forward = trainer.module, call
    return torch.func.functional_call(whole, {f"module.{name}": each for name, each in state.items()}, ())


@contextlib.contextmanager
def _uncompiled() -> Iterator[None]:
    """A context in which torch.compile's modules run as written: without numbers they could never be compiled again."""
    with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Using `torch.compile", UserWarning)  # of the hooks here
        yield


def _summed(
    trainer: TorchTrainer, memory: "_Memory", products: "_Products", batch: Any, held: tuple[int, int]
) -> ModelWork:
    update, groups = optimizers.of_torch(trainer.optimizer), trainer.optimizer.param_groups
    trained_ids = {id(each) for group in groups for each in group["params"] if each.requires_grad}
    counted: set[int] = set()
    tied = Counter(id(each) for _, each in trainer.module.named_parameters(remove_duplicate=False))
    parameters = trained = table = tokens = by_rows = frozen = saved = recurrent = 0
    for name, module in trainer.module.named_modules():
        one = memory.modules[name]
        saved, recurrent = saved + one.saved, recurrent + one.saved * isinstance(module, torch.nn.RNNBase)
        for each in module.parameters(recurse=False):
            if id(each) in counted:
                continue
            counted.add(id(each))
            moved, numbers = id(each) in trained_ids, each.nbytes // FLOAT  # as many float32 as it is large
            one.parameters, parameters = one.parameters + each.nbytes, parameters + numbers
            one.state += each.nbytes * update.slots * moved
            frozen += numbers * (not moved)
            if moved and isinstance(module, TABLES) and tied[id(each)] == 1 and id(each) not in memory.factors:
                read = min(memory.rows[name] * module.embedding_dim * each.element_size() // FLOAT, numbers)
                if module.sparse:  # its gradient, and so its update, has the rows that a batch reads
                    # One copy less, of a weight with its gradient and slots: a part of the table counts as frozen.
                    frozen += numbers // (1 + update.slots)
                    by_rows, numbers = by_rows + read, read
                else:
                    table, tokens = table + numbers, tokens + read
            trained += numbers * moved
            one.gradients += FLOAT * numbers * each.requires_grad
    work = update.work(parameters, trained) + Work(
        flops=products.flops,
        product_bytes=products.bytes,
        activation_bytes=saved + sum(each.nbytes for each in _tensors(batch)),
        launches=2 * memory.launches,
        recurrent_bytes=recurrent,
    )
    return ModelWork(tuple(memory.modules.values()), work, frozen, table, tokens, by_rows, held=held)


OF_NUMBERS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default)


class _Products(TorchDispatchMode):
    """Counts the matmuls that torch is asked for: operations, and the bytes of factors and results; and the bytes that
    tensors take, now (live) and at the most (peak).

    given: answers, in order, to what is asked of numbers: `if`, `.item()`, torch.equal. What is asked beyond is kept.
    """

    def __init__(self, given: Iterable[Any] = ()) -> None:
        super().__init__()
        self.flops = self.bytes = self.live = self.peak = 0
        self.answers: list[Any] = []
        self.given = iter(given)
        self.factors: set[int] = set()  # storages
        self._held: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in OF_NUMBERS and (answer := next(self.given, None)) is not None:
            return answer
        out = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        self.hold(_tensors(out))
        if func in OF_NUMBERS:
            self.answers.append(out)
        if packet in FURTHER:
            flops = FURTHER[packet](args)
        elif packet in flop_registry:
            flops = flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        else:
            return out
        self.flops += flops
        self.bytes += sum(each.nbytes for each in _tensors((args, out)))
        self.factors |= {_storage(each) for each in _tensors(args)}
        return out

    def hold(self, tensors: list[torch.Tensor]) -> None:
        """Count what these take until nothing refers to it any more."""
        for storage in (each.untyped_storage() for each in tensors):
            if storage._cdata not in self._held:
                self._held.add(storage._cdata)
                self.live += storage.nbytes()
                self.peak = max(self.peak, self.live)
                weakref.finalize(storage, self._free, storage._cdata, storage.nbytes())

    def _free(self, storage: int, size: int) -> None:
        self._held.discard(storage)
        self.live -= size


def _of_recurrent(args: Any) -> int:
    """Forward products of a recurrent layer in one call. args: inputs, then two matrices, or a list with vectors."""
    inputs = args[0]
    numbers = sum(each.numel() for each in _tensors(args[1:3]) if each.ndim == 2)
    return 2 * math.prod(inputs.shape[:-1]) * numbers


ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
ATTENTION_BACK = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
# What torch's table leaves out: layers in one call, and attention on a processor.
FURTHER = {
    torch.ops.aten.mkldnn_rnn_layer: _of_recurrent,
    torch.ops.aten.mkldnn_rnn_layer_backward: lambda args: 2 * _of_recurrent(args),
    torch.ops.aten._cudnn_rnn: _of_recurrent,
    torch.ops.aten._cudnn_rnn_backward: lambda args: 2 * _of_recurrent(args),
    ATTENTION: lambda args: sdpa_flop_count(*(each.shape for each in args[:3])),
    ATTENTION_BACK: lambda args: sdpa_backward_flop_count(*(each.shape for each in args[:4])),
}


class _Memory:
    """Follows a forward pass from module to module, and what is saved in each for the backward pass."""

    def __init__(self, module: torch.nn.Module) -> None:
        named = list(module.named_modules())
        self.modules = {name: ModuleMemory(name or WHOLE, type(each).__name__) for name, each in named}
        self.known: set[int] = set()  # storages that are parameters, the batch's, or counted already
        self.unseen = 0  # bytes that recurrent layers keep beyond what torch tells
        self.factors: set[int] = set()  # ids of parameters that are factors of products: tied tables
        self.launches = 0  # modules without modules inside that were called: a kernel at the least
        self.rows: Counter[str] = Counter()  # that were read from tables, by the module's name
        self._names = {id(each): name for name, each in named}
        self._stack = [""]
        self._kept: list[torch.Tensor] = []  # so that no storage is freed and its address taken by another

    def begins(self, module: Any, given: Any) -> None:
        self._stack.append(self._names.get(id(module), self._stack[-1]))

    def ends(self, module: Any, given: Any, outputs: Any) -> None:
        self._stack.pop()
        name = self._names.get(id(module))
        if name is None:
            return
        one = self.modules[name]
        one.calls += 1
        self.launches += next(module.children(), None) is None
        if isinstance(module, torch.nn.RNNBase):
            told, (least, held) = one.saved, _of_steps(module, given[0])
            one.saved = max(told, one.calls * least)
            self.unseen += max(one.calls * held - told, 0)
        if isinstance(module, TABLES):
            bags = isinstance(module, torch.nn.EmbeddingBag)
            read = _tensors(given)[0].numel() if bags and given else outputs.numel() // module.embedding_dim
            self.rows[name] += read

    def saves(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = _storage(tensor)
        if storage not in self.known:
            self.known.add(storage)
            self._kept.append(tensor)
            self.modules[self._stack[-1]].saved += tensor.untyped_storage().nbytes()
        return tensor


def _of_steps(module: torch.nn.RNNBase, inputs: torch.Tensor) -> tuple[int, int]:
    """Bytes that torch's fake tensors do not tell: of gates and states at the least; and what a processor's kernels
    hold, as measured on torch 2.13 (of an LSTM three fifths of oneDNN's workspace, before the way back).
    """
    units, ways = module.hidden_size, module.num_layers * (2 if module.bidirectional else 1)
    least, kept, further = {"LSTM": (6, 0, 0), "GRU": (5, 10, 2)}.get(module.mode, (2, 2.5, 2))
    workspace = (8 + 7 * max(1.0, module.input_size / units)) * (module.mode == "LSTM")
    numbers = math.prod(inputs.shape[:-1]) * units * inputs.element_size()
    return ways * least * numbers, round((ways * (kept + 0.6 * workspace) + further + 0.4 * workspace) * numbers)


def _tensors(thing: Any) -> list[torch.Tensor]:
    """Every tensor in a nest of lists, tuples and dicts, but sparse gradients, which are as small as a batch."""
    return [each for each in tree_leaves(thing) if isinstance(each, torch.Tensor) and each.layout == torch.strided]


def _storage(tensor: torch.Tensor) -> int:
    """What tells one tensor's memory from another's."""
    return tensor.untyped_storage()._cdata
