"""The largest batch, length or table that fits: what is found is the last that does, and what is refused."""

import numpy as np
import pytest

import traintime
from traintime.errors import InputError
from traintime.point import make_point
from traintime.predict import resident
from traintime.predict.largest import TRIALS, Tried, _last, _next, _of_module, largest
from traintime.predict.request import ModelDescription

GB = 10**9


@pytest.mark.parametrize("number", [0, 1, 2, 3, 7, 8, 1000, 12345])
def test_the_last_that_fits_is_found(number):
    assert _last(lambda each: each <= number, 2**20) == number


def test_nothing_is_larger_than_the_most():
    assert _last(lambda each: True, 1000) == 1000


@pytest.mark.parametrize(("of", "field"), [("batch", "batch"), ("length", "length"), ("rows", "vocabulary")])
def test_what_is_found_fits_and_one_more_does_not(of, field):
    found = largest(make_point(), of, memory="5GB", device="T4")
    assert found.memory.high <= 5 * GB
    more = traintime.estimate(
        make_point(**{field: found.surely + 1}), samples=1_000_000, tier="formula", device="T4"
    ).memory
    assert more.high > 5 * GB
    assert 0 < found.surely < found.likely


def test_a_batch_is_not_larger_than_the_samples():
    assert largest(make_point(), "batch", memory="1000GB", samples=500, device="T4").surely == 500


def test_where_nothing_fits_it_says_so():
    found = largest(make_point(vocabulary=2_800_000), memory="1GB", device="T4")
    assert (found.surely, found.likely) == (0, 0)
    assert "no batch fits surely: 1 takes" in str(found)


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        (make_point(), {"of": "width"}, "of: 'width'"),
        (make_point("lstm"), {"of": "rows"}, "of: 'rows' is no size of lstm"),
        (make_point(), {"memory": "much"}, "memory: 'much'"),
        (make_point(), {"device": "A100"}, "device: 'A100' may be"),
    ],
)
def test_bad_input_is_refused_by_name(model, given, said):
    with pytest.raises(InputError, match=said):
        largest(model, **{"memory": "4GB"} | given)


def network():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(10, 20_000), torch.nn.ReLU(), torch.nn.Linear(20_000, 1))
    optimizer = torch.optim.Adam(module.parameters())
    x, y = np.zeros((10, 10), "float32"), np.zeros((10, 1), "float32")
    return module, {"loss": torch.nn.functional.mse_loss, "optimizer": optimizer, "data": (x, y)}


def test_a_module_tells_the_largest_batch_and_nothing_is_trained():
    module, trained = network()
    before = [each.tolist() for each in module.parameters()]
    found = largest(module, memory="16GB", samples=10**9, **trained, device="T4")
    twice = largest(module, memory="32GB", samples=10**9, **trained, device="T4")
    assert 1.9 < twice.surely / found.surely < 2.3
    assert [each.tolist() for each in module.parameters()] == before


def test_two_batches_tell_a_modules_work_at_any():
    module, trained = network()
    from traintime.predict.torch_trainer import TorchTrainer

    trainer = TorchTrainer(module, trained["loss"], trained["optimizer"], trained["data"])
    told, _ = _of_module(trainer)(1000)
    assert told.work == ModelDescription.from_module(trainer, 1000).work


def room():
    """Bytes of memory in which this process, whatever other tests have loaded, can train some batch."""
    return 1.5 * resident.now() + 1e9


def test_what_is_found_can_be_tried_by_a_step():
    module, trained = network()
    found = largest(module, memory=room(), samples=50_000, **trained, verify=True)
    assert found.surely in {one.number for one in found.tried}
    most = max(one.number for one in found.tried if one.fits(found.limit))
    assert most == 50_000 or most < min(one.number for one in found.tried if not one.fits(found.limit))
    assert str(found).splitlines()[0].startswith(f"largest batch  {most:,}")


@pytest.mark.parametrize("true", [1, 7, 450, 3000, 8000, 10**6])
def test_halving_comes_near_to_the_last_that_fits(true):
    tried, number = {}, 458
    while number not in tried and len(tried) < TRIALS:
        tried[number] = Tried(number, number * 1000)
        number = _next(tried, true * 1000, 8807, 10**5)
    most = max((each for each in tried if each <= true), default=0)
    assert most <= true <= 1.3 * most or most == 10**5


def test_what_this_machine_cannot_hold_is_not_tried(monkeypatch):
    module, trained = network()
    monkeypatch.setattr("traintime.predict.largest.machine.free_memory", lambda: 0)
    found = largest(module, memory=room(), samples=50_000, **trained, verify=True)
    assert {one.memory for one in found.tried} == {None}
    assert "nothing was tried" in str(found)


@pytest.mark.parametrize(
    ("more", "field"),
    [({"of": "length"}, "of"), ({"verify": True, "device": "T4"}, "verify"), ({"losses": 1}, "argument")],
)
def test_what_cannot_be_asked_of_a_module_is_refused(more, field):
    module, trained = network()
    with pytest.raises(InputError) as refused:
        largest(module, **{"memory": "4GB"} | trained | more)
    assert refused.value.field == field
