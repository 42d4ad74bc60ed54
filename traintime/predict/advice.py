"""What a step is limited by, and what would help, the cost of each change by the same formula."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from traintime.explain.terms import PARTS
from traintime.measuring import stacks
from traintime.predict.answer import Help
from traintime.predict.holdings import Held
from traintime.predict.prices import Prices
from traintime.predict.request import ModelDescription
from traintime.workloads.base import BY_ROW, SLOTS, UPDATE_BYTES, UPDATE_FLOPS, Work

BY_SAMPLE = ("flops", "product_bytes", "activation_bytes", "recurrent_bytes", "slice_bytes")
TIMES = 4  # of the batch, where a larger one is priced
WORTH = 0.95  # of the time or of the memory: what saves less is not worth a line
MOST = 4
DEFERRED = "adam-deferred"
SLICES = "a loop that takes its inputs apart first (torch.unbind, chapter 8); RNN(LSTMCell(n)) does, and saves less"
ALLOCATOR = "an allocator that keeps its memory (tcmalloc in the place of glibc's, by LD_PRELOAD)"
PRECISION = "half precision (keras.config.set_dtype_policy('mixed_bfloat16') before the model is made)"


def limited_by(parts: Mapping[str, float]) -> str:
    """The largest part of a step in words, with its share. parts: seconds of a step by part (terms.by_part)."""
    name = max(parts, key=lambda part: parts[part])
    return f"{name}, {parts[name] / sum(parts.values()):.0%} of a step: {PARTS[name].explanation}"


def helps(
    known: ModelDescription, batch: int, prices: Prices, held: Held, beside: Mapping[str, Prices] = MappingProxyType({})
) -> tuple[Help, ...]:
    """Changes that save time or memory, the one that saves most time first.

    batch: samples a step; beside: the costs of the same step run in another way.
    """
    per_sample, memory = prices.step_s(known.work) / batch, held.peak_bytes(known.work, known.how)
    found = []
    changed = [(*each, prices) for each in _changes(known, batch)]
    changed += [(what, known.work, batch, known.how, others) for what, others in beside.items()]
    for what, work, samples, how, priced in changed:
        one = Help(what, priced.step_s(work) / samples / per_sample, held.peak_bytes(work, how) / memory)
        if min(one.time, one.memory) < WORTH and one.time < 1 / WORTH:
            found.append(one)
    return tuple(sorted(found, key=lambda one: one.time)[:MOST])


def _changes(known: ModelDescription, batch: int) -> Iterator[tuple[str, Work, int, str]]:
    """What is changed, the work of a step then, its samples, and how memory is held."""
    work, table, optimizer = known.work, known.table, known.optimizer
    larger = {name: getattr(work, name) * TIMES for name in BY_SAMPLE}
    yield f"batches {TIMES} times as large ({batch * TIMES})", replace(work, **larger), batch * TIMES, known.how
    if SLOTS.get(optimizer):
        shares = (each["sgd"] / each[optimizer] for each in (UPDATE_BYTES, UPDATE_FLOPS))
        yield "SGD, which learns differently", _with_update(work, work.trained, *shares), batch, "sgd"
    if work.slice_bytes:
        yield SLICES, replace(work, slice_bytes=0), batch, known.how
    if table > known.tokens:
        share = table / work.trained
        frozen = _with_update(work, work.trained - table, 1 - share)
        used = known.tokens / table
        dearer = UPDATE_FLOPS[DEFERRED] / UPDATE_FLOPS["adam"]
        shares = (1 - share + share * used * each for each in (1, dearer))
        deferred = _with_update(work, work.trained - table + known.tokens, *shares)
        if optimizer == "adam" and stacks.get(known.stack).api == BY_ROW[DEFERRED]:
            yield "traintime.deferred.Embedding: the same Adam, rows when they are used", deferred, batch, DEFERRED
        yield "tables left untrained (frozen)", frozen, batch, "frozen"
        half = replace(
            _with_update(work, work.trained - table // 2, 1 - share / 2), parameters=work.parameters - table // 2
        )
        yield "half of the tables' rows", half, batch, known.how


def _with_update(work: Work, trained: int, share: float, operations: float | None = None) -> Work:
    """The step with this many parameters trained, at this share of the update's bytes, and of its operations."""
    moved = round(work.update_bytes * share)
    flops = round(work.update_flops * (share if operations is None else operations))
    return replace(work, trained=trained, update_flops=flops, update_bytes=moved)
