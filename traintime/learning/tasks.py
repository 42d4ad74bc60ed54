"""What is learned: data that ship inside packages, or are drawn here, and one set from the network."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from traintime.learning import downloads

LENGTH = 40  # positions of a padded sentence
WORDS = 20  # a vocabulary's words beside the padding
FIRST, SECOND = 1, 2  # the two words whose order is asked for
REVIEWS = {"words": 20_000, "length": 100}
MOODS = {"words": 20_000, "length": 25}


@dataclass(frozen=True)
class TaskData:
    """Inputs, float32 of shape (samples, positions, 1) or int32 tokens of shape (samples, positions), and classes.

    words: size of the vocabulary, padding (0) included; None where the inputs are numbers.
    """

    inputs: np.ndarray
    classes: np.ndarray
    test_inputs: np.ndarray
    test_classes: np.ndarray
    words: int | None = None

    @property
    def outputs(self) -> int:
        """How many classes there are."""
        return int(self.classes.max()) + 1


@functools.cache
def load(name: str) -> TaskData:
    """The task of this name; raises InputError where its data cannot be had."""
    return {"mnist1d": mnist1d, "padded": padded, "moods": moods, "imdb": imdb}[name]()


def mnist1d() -> TaskData:
    """Ten digits drawn as lines of 40 numbers, shifted, sheared and noisy (Greydanus & Kobak 2024): 4,000 and 1,000.

    Made by its authors' package, with their settings. Published: linear 32 %, dense 68 %, recurrent 91 %.
    """
    from mnist1d.data import get_dataset_args, make_dataset

    made = make_dataset(get_dataset_args())
    numbers = (np.asarray(made[name], np.float32)[..., None] for name in ("x", "x_test"))
    inputs, test_inputs = numbers
    return TaskData(inputs, np.asarray(made["y"], np.int32), test_inputs, np.asarray(made["y_test"], np.int32))


def padded(samples: int = 4000, tests: int = 1000) -> TaskData:
    """Sentences of 5 to 20 words, padded on the right to 40 positions: which of two words comes first?

    Each of the two occurs once in every sentence; the other words are drawn from the rest.
    """
    random = np.random.default_rng(0)
    number = samples + tests
    tokens = np.zeros((number, LENGTH), np.int32)
    classes = random.integers(0, 2, number).astype(np.int32)
    for row, answer in zip(tokens, classes, strict=True):
        words = random.integers(SECOND + 1, WORDS + 1, random.integers(5, 21))
        places = np.sort(random.choice(len(words), 2, replace=False))
        words[places] = (FIRST, SECOND) if answer else (SECOND, FIRST)
        row[: len(words)] = words
    return TaskData(tokens[:samples], classes[:samples], tokens[samples:], classes[samples:], WORDS + 1)


def moods(samples: int = 10_000, tests: int = 5_000) -> TaskData:
    """Sentences of words as frequent as real ones, the n-th 1/n as often as the first (Zipf): are they glad or sad?

    Each word has a mood, drawn once; a sentence is glad where its words' moods are above nothing in sum. So the rows
    of the words are all that there is to learn, and those of most words come by seldom.
    """
    random = np.random.default_rng(0)
    frequency = 1 / np.arange(1, MOODS["words"] + 1)
    tokens = random.choice(MOODS["words"], (samples + tests, MOODS["length"]), p=frequency / frequency.sum())
    mood = random.standard_normal(MOODS["words"])
    classes = (mood[tokens].sum(axis=1) > 0).astype(np.int32)
    tokens = tokens.astype(np.int32)
    return TaskData(tokens[:samples], classes[:samples], tokens[samples:], classes[samples:], MOODS["words"])


def imdb() -> TaskData:
    """25,000 reviews of films and as many to test on, their last 100 words, good or bad (Maas et al. 2011)."""
    import keras

    def read() -> Any:
        return keras.datasets.imdb.load_data(num_words=REVIEWS["words"])

    found = downloads.load("imdb.npz", read, "task", "imdb", "take a task that ships: mnist1d, padded")
    sides = []
    for reviews, classes in found:
        tokens = keras.utils.pad_sequences(reviews, maxlen=REVIEWS["length"], padding="post", truncating="pre")
        sides += [tokens.astype(np.int32), np.asarray(classes, np.int32)]
    return TaskData(*sides, REVIEWS["words"])
