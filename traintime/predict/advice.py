"""What a step is limited by, and what would help, the cost of each change by the same formula."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from traintime.explain.terms import PARTS
from traintime.predict.answer import WAIT, Help
from traintime.predict.costs import Costs
from traintime.predict.request import DEFERRED, SPARSE, ModelDescription
from traintime.workloads.base import UPDATES, Work

BY_SAMPLE = ("flops", "product_bytes", "activation_bytes", "recurrent_bytes", "slice_bytes")
TIMES = 4  # of the batch, where a larger one is costed
WORTH = 0.95  # of the time or of the memory: what saves less is not worth a line
MOST = 4
SPARSE_WITH = {  # by the optimizer of a table of PyTorch's
    "sgd": "sparse=True for the tables, the same SGD",
    "adam": "sparse=True and SparseAdam, which learns differently",
}
# Rows of a table at which a deferred step takes as long as a dense one (chapter 17, machine D; a test compares them).
DEFERRED_ABOVE = {"2026-tensorflow": 9_000, "2026-jax": 47_000, "2026-torch": 9_000}
SLICES = "a loop over inputs that torch.unbind took apart (chapter 9)"
ALLOCATOR = "tcmalloc in the place of glibc's malloc (LD_PRELOAD)"
PRECISION = "half precision has no known cost here: what it saves depends on model, stack and processor (chapter 14)"


@dataclass(frozen=True)
class CostedWork:
    """A model's work in a step and its costs. keeping: those under ALLOCATOR, where they are known and other ones."""

    model: ModelDescription
    costs: Costs
    keeping: Costs | None = None

    @cached_property
    def terms(self) -> dict[str, float]:
        """Seconds of a step by term."""
        return self.costs.parts(self.model.work)


def limited_by(parts: Mapping[str, float]) -> str:
    """The largest part of a step in words, with its share. parts: seconds a step (terms.by_part), and WAIT."""
    name = max(parts, key=lambda part: parts[part])
    why = "another number of workers, or samples prepared once" if name == WAIT else PARTS[name].explanation
    return f"{name}, {parts[name] / sum(parts.values()):.0%} of a step: {why}"


def helps(costed: CostedWork, batch: int, waits: float = 0.0) -> tuple[Help, ...]:
    """Changes that save time or memory, the one that saves most time first. waits: share of a step that none saves."""
    model, per_sample = costed.model, sum(costed.terms.values()) / batch
    idle, held = model.memory.idle, model.beyond_idle
    changes = [(*each, costed.costs) for each in _changes(model, batch)]
    changes += [(ALLOCATOR, model, batch, costed.keeping)] if costed.keeping else []
    worthwhile = []
    for what, changed, samples, costs in changes:
        time = waits + (1 - waits) * costs.step_s(changed.work) / samples / per_sample
        one = Help(what, time, (idle + changed.beyond_idle) / (idle + held))
        if min(one.time, one.memory) < WORTH and one.time < 1 / WORTH:
            worthwhile.append(one)
    return tuple(sorted(worthwhile, key=lambda one: one.time)[:MOST])


def _changes(model: ModelDescription, batch: int) -> Iterator[tuple[str, ModelDescription, int]]:
    """What is changed, the model and its step then, and the step's samples."""
    work, table, optimizer, many = model.work, model.table, model.optimizer, batch * TIMES
    larger = replace(work, **{name: getattr(work, name) * TIMES for name in BY_SAMPLE})
    more = (TIMES - 1) * model.by_rows
    larger = _with_update(larger, work.trained + more, 1 + more / max(work.trained, 1))
    yield f"batches {TIMES} times as large ({many})", replace(model, work=larger), many
    if (update := UPDATES.get(optimizer)) and update.slots:
        shares = UPDATES["sgd"].bytes / update.bytes, UPDATES["sgd"].flops / update.flops
        plain = replace(model, work=_with_update(work, work.trained, *shares), how="sgd")
        yield "SGD, which learns differently", plain, batch
    if work.slice_bytes:
        yield SLICES, replace(model, work=replace(work, slice_bytes=0)), batch
    if table <= model.tokens:
        return
    share, used = table / work.trained, model.tokens / table

    def of_rows(dearer: float = 1.0) -> Work:
        shares = (1 - share + share * used * each for each in (1, dearer))
        return _with_update(work, work.trained - table + model.tokens, *shares)

    if model.row_by_row == DEFERRED and optimizer == "adam" and model.rows > DEFERRED_ABOVE.get(model.stack, math.inf):
        deferred = of_rows(UPDATES[DEFERRED].flops / UPDATES["adam"].flops)
        yield "traintime.deferred for the tables, the same Adam", replace(model, work=deferred, how=DEFERRED), batch
    if model.row_by_row == SPARSE and optimizer in SPARSE_WITH:
        without = replace(model, frozen=model.frozen + table) if optimizer == "sgd" else model
        yield SPARSE_WITH[optimizer], replace(without, work=of_rows()), batch
    if work.trained > table:  # else nothing would be left to train
        frozen = _with_update(work, work.trained - table, 1 - share)
        yield "tables left untrained (frozen)", replace(model, work=frozen, how="frozen"), batch
    half = _with_update(work, work.trained - table // 2, 1 - share / 2)
    half = replace(half, parameters=work.parameters - table // 2)
    yield "half of the tables' rows", replace(model, work=half), batch


def _with_update(work: Work, trained: int, share: float, operations: float | None = None) -> Work:
    """The step with this many parameters trained, at this share of the update's bytes, and of its operations."""
    moved = round(work.update_bytes * share)
    flops = round(work.update_flops * (share if operations is None else operations))
    return replace(work, trained=trained, update_flops=flops, update_bytes=moved)
