"""Points: what they accept, what they refuse, and their keys."""

import contextlib
import itertools
import re
from typing import Literal, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from traintime import workloads
from traintime.cli import plain
from traintime.errors import InputError
from traintime.point import Point, Run, axis_label, fields, make_point, sizes_fields
from traintime.workloads.base import BY_ROW

SIZES = ("vocabulary", "embedding", "units", "length", "batch")


SHARES = st.integers(0, 99_999).map(lambda number: number / 100_000)
OF_A_KIND = {bool: st.booleans(), int: st.integers(1, 3_000_000), float: SHARES}


def values(field):
    """Values that a field takes, by its type alone: a new field needs no line here."""
    if get_origin(field.annotation) is Literal:
        return st.sampled_from(get_args(field.annotation))
    of_its_kind = OF_A_KIND[plain(field.annotation)]
    return st.none() | of_its_kind if type(None) in get_args(field.annotation) else of_its_kind


def every_field(workload):
    """A strategy for each field that a point of the workload has, by name."""
    own = workloads.get(workload).model_fields | Run.model_fields
    return {name: values(field) for name, field in own.items()} | {"replicas": st.integers(1, 3)}


# Points that are possible: those fields that need others are drawn with them.
@st.composite
def possible(draw, workload):
    chosen = {name: draw(strategy) for name, strategy in every_field(workload).items()}
    if chosen["device"] == "cpu":
        chosen |= {"kernel": "auto"} | ({"allocator": "glibc"} if chosen["allocator"] == "no-pool" else {})
    chosen["replicas"] = 1 if chosen["device"] == "gpu" or chosen["loop"] != "steps" else chosen["replicas"]
    chosen["save_every"] = None if chosen["replicas"] > 1 else chosen["save_every"]
    chosen["save_aside"] = chosen["save_every"] is not None and chosen["save_aside"]
    chosen["steps_per_execution"] = 1 if chosen["loop"] == "steps" else chosen["steps_per_execution"]
    chosen["batch"] *= chosen["replicas"]
    chosen["sentences"] = chosen["batch"] + draw(st.integers(0, 1000)) if chosen["loop"] == "epoch" else None
    if workload != "blocks":
        chosen["feed"] = "ready"
    chosen["recompute"] = workloads.get(workload).recomputes and chosen["recompute"]
    if workload == "rnn":
        chosen["vocabulary"] += 1
        chosen["words"] = draw(st.none() | st.integers(1, chosen["length"]))
        chosen["mask"] = chosen["words"] is not None and chosen["mask"]
        chosen["accumulated"] = 1 if chosen["optimizer"] in BY_ROW else chosen["accumulated"]
    if workload == "convnet":
        chosen["side"] += chosen["window"]
    if workload == "blocks":
        chosen["depth"] *= 2
        chosen["shared"] = chosen["structure"] == "plain" and chosen["shared"]
    return chosen


any_point = st.sampled_from(sorted(workloads.ALL)).flatmap(
    lambda workload: possible(workload).map(lambda chosen: make_point(workload, **chosen))
)

USUAL = "rnn-v280000-e300-u128-l25-b100-adam"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({}, USUAL),
        ({"dropout": 0}, f"{USUAL}-d0"),
        (
            {"frozen": True, "dropout": 0.2, "words": 10, "mask": True, "loop": "fit"},
            f"{USUAL}-frozen-d0.2-w10-mask-fit",
        ),
    ],
)
def test_the_key_names_every_size_and_what_differs_from_the_usual(changes, key):
    """Every other name of a part is held by the stored files (test_records)."""
    assert make_point(**changes).key == key


@pytest.mark.parametrize("workload", workloads.ALL)
def test_changing_any_one_field_changes_the_key(workload):
    changed = set()

    @settings(max_examples=200)
    @given(possible(workload), possible(workload))
    def check(chosen, others):
        if others["sentences"]:  # an epoch's alone, which few of the chosen are
            chosen = chosen | {"loop": "epoch", "sentences": chosen["batch"], "replicas": 1}
            others = others | {"sentences": chosen["batch"] + others["sentences"]}
        for name, value in others.items():
            with contextlib.suppress(InputError):  # they need not fit together
                one = make_point(workload, **chosen)
                other = make_point(workload, **chosen | {name: value})
                assert (one.key == other.key) == (one == other) == (chosen[name] == value)
                changed.update([name] if one != other else [])

    check()
    fixed = {"feed": not workloads.get(workload).pictures, "recompute": not workloads.get(workload).recomputes}
    assert changed >= {name for name in every_field(workload) if not fixed.get(name)}, "no example fits together"


@given(any_point)
def test_a_point_survives_being_stored_and_its_key_can_be_a_file_name(point):
    assert Point.model_validate(point.model_dump(mode="json")) == point
    assert make_point(**point.fields) == point
    assert re.fullmatch(rf"{point.workload}-[a-z0-9.-]+", point.key)


def test_every_field_has_a_description_and_an_axis_label():
    assert set(fields()) == {*sizes_fields(), *Run.model_fields}
    assert axis_label("vocabulary") == "vocabulary (rows of the embedding table)"
    for name in fields():
        assert re.fullmatch(rf"{name} \([^;:]+\)", axis_label(name)), axis_label(name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *itertools.product(["vocabulary", "words", "save_every"], [0, "many", 1.5, True]),
        *itertools.product(["batch"], ["100", None]),
    ],
)
def test_a_number_that_is_none_is_refused_with_field_value_and_remedy(field, value):
    with pytest.raises(InputError) as caught:
        make_point(**{field: value})
    assert (caught.value.field, caught.value.value) == (field, value)
    assert caught.value.remedy == "Give a whole number of 1 or more."


CHOICES = {
    name: get_args(field.annotation) for name, field in fields().items() if get_origin(field.annotation) is Literal
}


@pytest.mark.parametrize("field", CHOICES)
def test_an_unknown_choice_is_refused_and_the_choices_are_named(field):
    workload = next(name for name in workloads.ALL if field in {*workloads.get(name).model_fields, *Run.model_fields})
    with pytest.raises(InputError, match=f"^{field}: 'other'") as caught:
        make_point(workload, **{field: "other"})
    assert all(f"'{name}'" in str(caught.value) for name in CHOICES[field])


def test_an_unknown_field_or_workload_is_refused_and_the_known_ones_are_named():
    with pytest.raises(InputError, match="'vocabluary' is not a known field") as caught:
        make_point(vocabluary=10)
    assert all(name in caught.value.remedy for name in (*SIZES, *Run.model_fields))
    with pytest.raises(InputError, match=r"^workload: 'cnn' .*rnn"):
        make_point(workload="cnn")
    with pytest.raises(ValidationError, match="'cnn'"):
        Point.model_validate(make_point().model_dump() | {"workload": "cnn"})


@pytest.mark.parametrize(
    ("chosen", "field", "value", "problem", "remedy"),
    [
        ({"words": 26}, "words", 26, "is more than the length 25", "Give the length or less."),
        ({"words": 1, "vocabulary": 1}, "vocabulary", 1, "has no row but the padding's", "Give 2 or more."),
        ({"dropout": 1}, "dropout", 1, "is refused", "Give a value that it takes."),
        ({"loop": "epoch", "sentences": 99}, "sentences", 99, "does not fill a batch of 100", "Give more."),
        ({"loop": "epoch"}, "sentences", None, "is missing for the loop epoch", "Give the samples of the epoch."),
        ({"sentences": 5000}, "sentences", 5000, "is for the loop epoch, not steps", "or give the loop epoch."),
        (
            {"accumulated": 2, "optimizer": "adam-deferred"},
            "accumulated",
            2,
            "leaves adam-deferred no row",
            "Take 1, or",
        ),
        ({"mask": True}, "mask", True, "finds no padding to skip", "Give the number of words that are not padding."),
        ({"allocator": "no-pool"}, "allocator", "no-pool", "is for a GPU", "Take another, or give the device gpu."),
        ({"kernel": "cudnn"}, "kernel", "cudnn", "is for a GPU", "Leave it out, or give the device gpu."),
        ({"steps_per_execution": 2}, "steps_per_execution", 2, "is for the loops fit and epoch", "or take fit."),
        ({"save_aside": True}, "save_aside", True, "finds nothing to save", "Give save_every"),
        ({"replicas": 3}, "replicas", 3, "cannot share a batch of 100 evenly", "Take a batch that they divide."),
        ({"replicas": 2, "loop": "fit"}, "replicas", 2, "are for single steps on a CPU", "Leave out loop"),
        ({"feed": "decoded"}, "feed", "decoded", "makes images, which rnn does not read", "Take the workload blocks."),
        ({"recompute": True}, "recompute", True, "is nothing that rnn can do", "Take the workload dense."),
        ({"workload": "blocks", "depth": 3}, "depth", 3, "leaves a convolution without", "larger or smaller by one."),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(chosen, field, value, problem, remedy):
    with pytest.raises(InputError) as caught:
        make_point(**chosen)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
