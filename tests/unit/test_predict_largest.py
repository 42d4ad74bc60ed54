"""The largest batch, length or table that fits: what is found is the last that does, and what is refused."""

import numpy as np
import pytest

import traintime
from traintime.errors import InputError
from traintime.point import make_point
from traintime.predict import process
from traintime.predict.largest import TRIALS, Tried, _next, _of_module, largest
from traintime.predict.request import ModelDescription


@pytest.mark.parametrize(("of", "field"), [("batch", "batch"), ("length", "length"), ("rows", "vocabulary")])
def test_what_is_found_fits_and_one_more_does_not(of, field):
    found = largest(make_point(), of, memory="5GB", device="T4")
    assert found.memory.high <= 5e9
    point = make_point(**{field: found.surely + 1})
    assert traintime.estimate(point, samples=1_000_000, tier="formula", device="T4").memory.high > 5e9
    assert 0 < found.surely < found.likely


def test_a_batch_is_not_larger_than_the_samples_and_where_none_fits_it_says_so():
    assert largest(make_point(), "batch", memory="1000GB", samples=500, device="T4").surely == 500
    found = largest(make_point(vocabulary=2_800_000), memory="1GB", device="T4")
    assert (found.surely, found.likely) == (0, 0)
    assert "no batch fits surely: 1 takes" in str(found)


BATCHES = {"samples": 500_000}


def network():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(10, 20_000), torch.nn.ReLU(), torch.nn.Linear(20_000, 1))
    optimizer = torch.optim.Adam(module.parameters())
    x, y = np.zeros((10, 10), "float32"), np.zeros((10, 1), "float32")
    return module, {"loss": torch.nn.functional.mse_loss, "optimizer": optimizer, "data": (x, y)}


@pytest.mark.parametrize(
    ("point", "given", "said"),
    [
        (True, {"of": "width"}, "of: 'width'"),
        (True, {"memory": "much"}, "memory: 'much'"),
        (True, {"device": "A100"}, "device: 'A100' may be"),
        (True, {"samples": 0}, "samples: 0"),
        (False, {"of": "length"}, "of: 'length' is not told by a module"),
        (False, {"verify": True, "device": "T4"}, "verify"),
        (False, {"losses": 1}, "argument: 'losses'"),
    ],
)
def test_bad_input_is_refused_by_name(point, given, said):
    model, trained = (make_point(), {}) if point else network()
    with pytest.raises(InputError, match=said):
        largest(model, **{"memory": "4GB"} | trained | given)


def test_a_module_tells_the_largest_batch_and_nothing_is_trained():
    module, trained = network()
    from traintime.predict.torch_trainer import TorchTrainer

    before = [each.tolist() for each in module.parameters()]
    found = largest(module, memory="16GB", samples=10**9, **trained, device="T4")
    trainer = TorchTrainer(module, trained["loss"], trained["optimizer"], trained["data"])
    assert _of_module(trainer)(found.surely).work == ModelDescription.from_module(trainer, found.surely).work
    assert 0.99 * 16e9 < found.memory.high <= 16e9
    assert [each.tolist() for each in module.parameters()] == before


def test_what_is_found_can_be_tried_by_a_step_where_this_machine_has_room(monkeypatch):
    module, trained = network()
    room = 1.5 * process.now() + 1e9  # in which this process, whatever other tests have loaded, can train some batch
    found = largest(module, memory=room, samples=50_000, **trained, verify=True)
    assert found.surely in {one.number for one in found.tried}
    most = max(one.number for one in found.tried if one.fits(found.limit))
    assert most == 50_000 or most < min(one.number for one in found.tried if not one.fits(found.limit))
    assert str(found).splitlines()[0].startswith(f"largest batch  {most:,}")
    monkeypatch.setattr("traintime.predict.largest.machine.free_memory", lambda: 0)
    found = largest(module, memory=room, samples=50_000, **trained, verify=True)
    assert {one.memory for one in found.tried} == {None}
    assert "nothing was tried" in str(found)


def test_samples_that_the_given_object_does_not_hold_take_no_memory():
    """A DataLoader, a batch of it as an example, and that with the samples of an epoch: the same batch."""
    module, trained = network()
    torch = pytest.importorskip("torch")
    rows = [(torch.zeros(10), torch.zeros(1))] * 500_000
    loader = torch.utils.data.DataLoader(rows, batch_size=4)
    asked = {name: trained[name] for name in ("loss", "optimizer")} | {"memory": process.now() + 3e9}
    asked = [{**asked, "data": loader}] + [{**asked, "data": next(iter(loader)), **more} for more in ({}, BATCHES)]
    found = [largest(module, **each).surely for each in asked]
    assert found == pytest.approx([found[0]] * 3, rel=0.02)
    assert found[0] > 1000


@pytest.mark.parametrize("true", [1, 450, 3000, 8000, 10**6])
def test_halving_comes_near_to_the_last_that_fits(true):
    tried, number = {}, 458
    while number not in tried and len(tried) < TRIALS:
        tried[number] = Tried(number, number * 1000)
        number = _next(tried, true * 1000, 8807, 10**5)
    most = max((each for each in tried if each <= true), default=0)
    assert most <= true <= 1.3 * most or most == 10**5
