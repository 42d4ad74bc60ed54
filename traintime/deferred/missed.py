"""What a row misses that dense Adam would have moved without a gradient: closed form, exact for any past rates.

Adam (Kingma & Ba 2015, algorithm 1, as Keras 3 writes it: epsilon beside the root) moves a row without a gradient by
what is left of its means. With m and v its moments after its last gradient, the j-th step after that, of rate a(j),
moves it by

    a(j) b1^j m / (b2^(j/2) s + eps),  s = sqrt(v).

With x = s / (s + eps) and d(j) = 1 - b2^(j/2) the fraction is 1 / (s + eps) times 1 + d(j) x + d(j)^2 x^2 + ..., so
that what a row has missed is m / (s + eps) times a polynomial in x. Its coefficients are the same for all rows of the
same last step; each step adds a term to those of the steps before it, back to where b1^j can no longer be seen.
"""

import math

import numpy as np
from numpy.typing import NDArray

from traintime.errors import InputError

SEEN = 1e-10  # part of what a row has missed that may be left out
IN_FLOAT32 = 3e-8  # the same where numbers are float32, whose last bit is twice that
MOST = 32  # terms of the polynomial


def powers(beta_1: float, beta_2: float, seen: float = SEEN) -> NDArray[np.float64]:
    """b1^j d(j)^i, shape (horizon, terms), j from 1, i from 0: what a step of rate 1 adds, the j-th one missed.

    seen: part of all of it that may be left out, in later steps and in higher terms. Raises InputError for rates of
    decay that no short polynomial can follow.
    """
    for name, beta in (("beta_1", beta_1), ("beta_2", beta_2)):
        if not 0 <= beta < 1:
            raise InputError(name, beta, "is no rate of decay", "Give a number from 0 to less than 1.")
    horizon = math.ceil(math.log(seen) / math.log(beta_1)) if beta_1 else 0
    steps = np.arange(1, horizon + 1)
    left, d = beta_1**steps, 1 - beta_2 ** (steps / 2)
    # What the first term that is left out would add, relative to all of them, where x is largest.
    terms = next((n for n in range(1, MOST + 1) if (left * d**n).sum() <= seen * left.sum()), None)
    if terms is None:
        remedy = "Take a smaller beta_1, or a larger beta_2: the mean has to fade before the mean of squares does."
        raise InputError("beta_2", beta_2, f"decays as fast as beta_1 = {beta_1:g} does", remedy)
    return left[:, None] * d[:, None] ** np.arange(terms)
