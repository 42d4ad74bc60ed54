"""The largest batch, length or table that fits: what is found is the last that does, and what is refused."""

import pytest

import traintime
from traintime.errors import InputError
from traintime.point import make_point
from traintime.predict.largest import _last, largest

GB = 10**9


@pytest.mark.parametrize("number", [0, 1, 2, 3, 7, 8, 1000, 12345])
def test_the_last_that_fits_is_found(number):
    assert _last(lambda each: each <= number, 2**20) == number


def test_nothing_is_larger_than_the_most():
    assert _last(lambda each: True, 1000) == 1000


@pytest.mark.parametrize(("of", "field"), [("batch", "batch"), ("length", "length"), ("rows", "vocabulary")])
def test_what_is_found_fits_and_one_more_does_not(of, field):
    found = largest(make_point(), of, memory="4GB", device="T4")
    assert found.memory.high <= 4 * GB
    more = traintime.estimate(
        make_point(**{field: found.surely + 1}), samples=1_000_000, tier="formula", device="T4"
    ).memory
    assert more.high > 4 * GB
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
