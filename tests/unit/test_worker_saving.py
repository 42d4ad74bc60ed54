"""What is saved, when, and that aside nothing is lost that the training changes meanwhile."""

from types import SimpleNamespace

import numpy as np
import pytest


@pytest.mark.parametrize("aside", [False, True])
def test_weights_and_slots_are_saved_every_so_many_steps_as_they_were_then(worker_module, tmp_path, monkeypatch, aside):
    monkeypatch.setenv("HOME", str(tmp_path))
    weights, slots = [np.zeros(3, np.float32)], [np.ones((2, 2), np.float32)]
    trained = SimpleNamespace(weights=weights, optimizer=SimpleNamespace(variables=slots))
    saver = worker_module("saving").Saver(2, aside)
    try:
        saver.after_step(trained)
        assert not list(tmp_path.rglob("*.npz"))
        for value in (1, 5):
            weights[0][:] = value
            saver.after_step(trained)
            weights[0] += 7
            if aside:
                saver.writing.join()
            with np.load(saver.file) as file:
                assert [file[name].tolist() for name in file.files] == [[value] * 3, [[1, 1], [1, 1]]]
            saver.after_step(trained)
    finally:
        saver.folder.cleanup()
