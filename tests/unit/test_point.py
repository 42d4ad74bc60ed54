"""Points: what they accept, what they refuse, and their keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from traintime.errors import InputError
from traintime.point import RnnPoint, make_point

SIZES = ("vocabulary", "embedding", "units", "length", "batch")
points = st.builds(
    RnnPoint,
    **{name: st.integers(1, 3_000_000) for name in SIZES},
    optimizer=st.sampled_from(["adam", "sgd"]),
    frozen=st.booleans(),
    dropout=st.integers(0, 99).map(lambda percent: percent / 100),
    device=st.sampled_from(["cpu", "gpu"]),
)


def test_the_default_is_the_point_of_the_2017_document():
    point = make_point()
    sizes = (point.vocabulary, point.embedding, point.units, point.length, point.batch, point.dropout)
    assert sizes == (280_000, 300, 128, 25, 100, 0.5)
    assert point.key == "rnn-v280000-e300-u128-l25-b100-adam"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"optimizer": "sgd"}, "rnn-v280000-e300-u128-l25-b100-sgd"),
        ({"frozen": True}, "rnn-v280000-e300-u128-l25-b100-adam-frozen"),
        ({"dropout": 0}, "rnn-v280000-e300-u128-l25-b100-adam-d0"),
        ({"dropout": 0.25, "device": "gpu"}, "rnn-v280000-e300-u128-l25-b100-adam-d0.25-gpu"),
        ({"vocabulary": 1, "embedding": 2, "units": 3, "length": 4, "batch": 5}, "rnn-v1-e2-u3-l4-b5-adam"),
    ],
)
def test_the_key_names_every_size_and_what_differs_from_the_usual(changes, key):
    assert make_point(**changes).key == key


@given(points, points)
def test_two_points_share_a_key_only_if_they_are_the_same(one, other):
    assert (one.key == other.key) == (one == other)


def test_two_dropout_rates_that_are_close_have_two_keys():
    assert make_point(dropout=0.1234567).key != make_point(dropout=0.1234568).key


@given(points)
def test_a_point_survives_being_stored(point):
    assert make_point(**point.model_dump(mode="json")) == point


def test_a_point_cannot_be_changed():
    with pytest.raises(ValidationError):
        make_point().vocabulary = 5


@pytest.mark.parametrize("value", [0, -1, "many", 1.5, "100", True, None])
@pytest.mark.parametrize("field", SIZES)
def test_a_bad_size_is_refused_with_field_value_and_remedy(field, value):
    with pytest.raises(InputError) as caught:
        make_point(**{field: value})
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.remedy == "Give a whole number of 1 or more."
    assert str(caught.value).startswith(f"{field}: {value!r} is refused")


@pytest.mark.parametrize("value", [1, -0.1, 2, "half", float("nan")])
def test_a_dropout_rate_outside_zero_to_one_is_refused(value):
    with pytest.raises(InputError, match=r"^dropout: "):
        make_point(dropout=value)


@pytest.mark.parametrize(("field", "known"), [("optimizer", ("adam", "sgd")), ("device", ("cpu", "gpu"))])
def test_an_unknown_choice_is_refused_and_the_choices_are_named(field, known):
    with pytest.raises(InputError, match=f"^{field}: 'other'") as caught:
        make_point(**{field: "other"})
    assert all(name in str(caught.value) for name in known)


def test_an_unknown_field_is_refused_and_the_fields_are_named():
    with pytest.raises(InputError, match="'vocabluary' is not a known field") as caught:
        make_point(vocabluary=10)
    assert all(name in caught.value.remedy for name in SIZES)


def test_an_unknown_workload_is_refused_and_the_workloads_are_named():
    with pytest.raises(InputError, match=r"workload: 'cnn' is not a known workload. Choose one of: .*rnn"):
        make_point(workload="cnn")
