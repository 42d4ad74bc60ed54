"""What is saved, when, and that aside nothing is lost that the training changes meanwhile."""

from types import SimpleNamespace

import numpy as np
import pytest


@pytest.fixture
def saver(worker_module, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    made = []

    def make(every, aside):
        made.append(worker_module("saving").Saver(every, aside))
        return made[-1]

    yield make
    for each in made:
        each.folder.cleanup()


def model():
    weights, slots = [np.zeros(3, np.float32)], [np.ones((2, 2), np.float32)]
    return SimpleNamespace(weights=weights, optimizer=SimpleNamespace(variables=slots))


def saved(saver):
    with np.load(saver.file) as file:
        return [file[name] for name in file.files]


def test_weights_and_slots_are_saved_every_so_many_steps(saver, tmp_path):
    trained, saving = model(), saver(2, aside=False)
    saving.after_step(trained)
    assert not list(tmp_path.rglob("*.npz"))
    trained.weights[0] += 1
    saving.after_step(trained)
    assert [part.tolist() for part in saved(saving)] == [[1, 1, 1], [[1, 1], [1, 1]]]


def test_aside_what_is_saved_is_what_it_was_at_that_step(saver):
    trained, saving = model(), saver(1, aside=True)
    saving.after_step(trained)
    trained.weights[0] += 5
    saving.writing.join()
    assert saved(saving)[0].tolist() == [0, 0, 0]
    saving.after_step(trained)
    saving.writing.join()
    assert saved(saving)[0].tolist() == [5, 5, 5]
