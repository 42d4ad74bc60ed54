"""Adam on rows that have waited: what they owe, and one step more. Pure functions of tensors, the same on all backends.

moments: a row of 2 E + 1 numbers for each row: first, second, and the step (of the table, from 0 to ROOM) after which
both were right. missed: the coefficients of what the row has missed since (deferred.missed), a row each. state: numbers
of the whole table, by place. sizes: E, and how many coefficients are used.
"""

from typing import Any

from keras import ops

ROOM = 65_536  # steps whose coefficients are kept, then the count begins anew; no row is further behind
# steps: of the table, below ROOM; made: of the optimizer, below CYCLE; age: steps of this optimizer here, up to ROOM;
# current: whether all rows are up to date; problem: what forbids a step (deferred.table), 0 for nothing
# log_1, log_2: logarithms of the decays, which float32 holds better than a decay of almost 1
STEPS, MADE, IDENTITY, AGE, EPSILON, LOG_1, LOG_2, CURRENT, PROBLEM = range(9)
CYCLE = 2**23  # float32 holds each whole number up to here


def owed(moments: Any, missed: Any, epsilon: Any, width: int, terms: int) -> Any:
    """By how much rows have still to move, shape (rows, width); terms: how many coefficients there are."""
    root = ops.sqrt(moments[:, width : 2 * width])
    below = root + epsilon
    x = root / below
    polynomial = missed[:, terms - 1 : terms]
    for term in reversed(range(terms - 1)):
        polynomial = polynomial * x + missed[:, term : term + 1]
    return moments[:, :width] * polynomial / -below


def settled(values: Any, moments: Any, missed: Any, state: Any, *sizes: int) -> tuple[Any, Any]:
    """Rows and their moments up to date; the moments of an optimizer that another has replaced are zero."""
    gap, width = (state[STEPS] - moments[:, -1:]) % ROOM, sizes[0]
    kept = [
        ops.where(
            gap < state[AGE], moments[:, part * width : (part + 1) * width] * ops.exp(gap * state[LOG_1 + part]), 0.0
        )
        for part in range(2)
    ]
    return values + owed(moments, missed, state[EPSILON], *sizes), ops.concatenate([*kept, gap * 0 + state[STEPS]], 1)


def stepped(
    values: Any,
    moments: Any,
    missed: Any,
    gradient: Any,
    state: Any,
    rate: Any,
    fresh: tuple[float, float],
    *sizes: int,
) -> tuple[Any, Any]:
    """Rows and their moments after one step of Adam, as Keras 3 writes it.

    rate: corrected for bias; fresh: 1 - beta_1 and 1 - beta_2.
    """
    values, moments = settled(values, moments, missed, state, *sizes)
    width = sizes[0]
    first, second = moments[:, :width], moments[:, width : 2 * width]
    first = first + (gradient - first) * fresh[0]
    second = second + (gradient * gradient - second) * fresh[1]
    values = values - first * rate / (ops.sqrt(second) + state[EPSILON])
    return values, ops.concatenate([first, second, (moments[:, -1:] + 1) % ROOM], 1)
