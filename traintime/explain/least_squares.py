"""Non-negative least squares in relative error: a cost is never negative, and 1 % counts the same everywhere."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def solve(design: Array, values: Array, over: Array | None = None, scale: Array | float = 1.0) -> Array:
    """What a unit of each term costs, shape (terms,).

    design: shape (rows, terms); values: (rows,), seconds or bytes; over: what each row's error is relative to, the
    values themselves if it is not given; scale: of the terms, where they are orders of magnitude apart. Where a value
    is missing (NaN), so are all costs.
    """
    from scipy.optimize import nnls  # half a second of import, which few predictions need

    if np.isnan(values).any():
        return np.full(design.shape[1], np.nan)
    over = values if over is None else over
    return nnls(design / scale / over[:, None], values / over)[0] / scale


def left_out(design: Array, groups: Iterable[object], fitted: Callable[[Mask], Array]) -> Array:
    """What each row is by a fit to the rows of all other groups, shape (rows,).

    groups: of each row, shape (rows,); fitted: the costs by the rows that a mask chooses.
    """
    names = np.array([str(group) for group in groups])
    found = np.full(len(names), np.nan)
    for name in dict.fromkeys(names):
        here = names == name
        found[here] = design[here] @ fitted(~here)
    return found
