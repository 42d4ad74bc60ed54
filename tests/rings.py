"""Which tests run when: in three rings, so that nobody waits for what a change can hardly break.

- *push*: what a change can break. `make test` runs these, and so does continuous integration at every push.
- *the rest*, marked `rest`: other software stacks and backends, environments and interruptions that take minutes each.
  A push runs one part of it, by its commit's hash; `python tests/rings.py HASH` names the part.
- *all*: both, before a release, every night, and before work on something that only the rest protects is done.

`pytest --ring NAME` runs one: `push` (the default), a part's name, or `all`.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import pytest

PUSH, ALL = "push", "all"
# A part of the rest, and words of a test's name, or of a stack that it needs, that say it is of it: a part needs few
# environments, and takes about as long as another. What no word fits is in the last part.
PARTS = {
    "2017": ["2017-", "test_interrupted", "dense_adam_does[jax"],
    "2020": ["2020-", "[tensorflow-", "test_lab"],
    "torch": ["torch"],
    "readers": [],
}
RINGS = [PUSH, *PARTS, ALL]
COUNTED = pytest.StashKey[Counter[str]]()  # tests of each ring, as they were collected


def rings_of(name: str, stacks: Iterable[str], is_rest: bool) -> list[str]:
    """The rings of a test but `all`: by its name, by the stacks that it needs, and by whether it is of the rest.

    What is run at every push, and needs what a part installs, is of that part, too: at a push it may be skipped.
    """
    words = " ".join([name, *stacks])
    of_word = [part for part, those in PARTS.items() if any(word in words for word in those)]
    if is_rest:
        return [*of_word, list(PARTS)[-1]][:1]
    return [PUSH, *of_word[:1]]


def turn(commit: str) -> str:
    """The part of the rest whose turn it is at a commit, by its hash (hexadecimal)."""
    return list(PARTS)[int(commit, 16) % len(PARTS)]


def lacks(config: pytest.Config, what: str) -> NoReturn:
    """End a test for want of something: skipped by name at a push, an error where more was asked for."""
    (pytest.skip if config.getoption("ring") == PUSH else pytest.fail)(what.removesuffix("."))


if __name__ == "__main__":
    print(turn(sys.argv[1]))
