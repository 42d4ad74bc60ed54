"""Habits and costs: how they are fitted, and what is made of them."""

import math

import numpy as np
import pytest

from traintime.errors import InputError
from traintime.explain.terms import TERMS, by_part
from traintime.measuring import machine
from traintime.point import make_point
from traintime.predict import costs, fits, process
from traintime.predict.costs import Costs, Rates
from traintime.store import derived


def test_a_step_is_the_sum_of_its_terms():
    seconds = dict(zip(TERMS, [0.001, 1e-5, 1e-11, 1e-10, 1e-10, 2e-10, 1e-9, 3e-11], strict=True))
    costed, work = Costs("made up", seconds, 0.1), make_point(vocabulary=1000).work
    parts = costed.parts(work)
    amounts = {"overhead": 1, "launch": work.launches, "update": work.update_bytes, "slice": work.slice_bytes}
    for term, amount in amounts.items():
        assert parts[term] == pytest.approx(seconds[term] * amount)
    assert costed.step_s(work) == pytest.approx(sum(parts.values())) == pytest.approx(sum(by_part(parts).values()))


def test_costs_are_found_again_from_steps_that_have_them():
    truth = np.array([0.002, 2e-5, 1e-11, 5e-11, 1e-10, 2e-10, 4e-10, 8e-11])
    points = [make_point(name) for name in ("dense", "blocks", "convnet", "lstm", "rnn")]
    points += [make_point(units=256, length=100, batch=32), make_point(units=16, length=5, batch=8)]
    points += [make_point(vocabulary=20_000, optimizer=name) for name in ("sgd", "rmsprop", "momentum")]
    values = costs.design([point.work for point in points])
    assert fits.solve(values, values @ truth) == pytest.approx(truth, rel=1e-6)
    assert fits.left_out(values, values @ truth, range(len(points))) == pytest.approx(0, abs=1e-6)


def test_what_is_left_out_together_has_no_part_in_what_predicts_it():
    values, seconds = np.ones((4, 1)), np.array([1.0, 1.0, 4.0, 4.0])
    assert fits.left_out(values, seconds, ["a", "a", "b", "b"]) == pytest.approx(np.log([1 / 4, 1 / 4, 4, 4]))


def test_of_terms_in_proportion_the_first_has_the_cost_whatever_the_rounding():
    values = np.array([[1.0, 0.0, 3.0, 1.0], [1.0, 0.0, 7.0, 2.0], [1.0, 0.0, 1.0, 5.0]])
    values = np.column_stack([values, values[:, 2] * 3e9])
    for nudge in (1 - 1e-15, 1, 1 + 1e-15):
        found = fits.solve(values * [1, 1, nudge, 1, 1], values @ [0.5, 0, 2, 1, 1e-9])
        assert found == pytest.approx([0.5, 0, 5, 1, 0])


def test_what_one_stack_alone_pays_is_no_other_ones():
    paid = {name: costs.of_rates("x", Rates(1e11, 1e10), name).seconds["slice"] for name in costs.known()}
    assert {name for name, seconds in paid.items() if seconds} <= {"2026-torch"}  # a fit may find that it costs nothing


def test_memory_that_is_kept_makes_an_update_cheaper():
    """Under glibc an update's byte costs the mapping of its memory, too, where the stack gives it back."""
    rates, work = Rates(1e11, 1e10), make_point().work
    for stack in ("2020-tensorflow", "2026-torch", "2017-theano"):
        usual, kept = (costs.of_rates("x", rates, stack, allocator) for allocator in (costs.USUAL, costs.KEEPS))
        of_update = [sum(each.parts(work)[term] for term in ("update", "elementwise")) for each in (kept, usual)]
        assert of_update[0] < of_update[1]
        assert kept.of.endswith("under tcmalloc")
    with pytest.raises(InputError, match=r"allocator: 'jemalloc' was not measured with 2026-torch. Take glibc or tc"):
        costs.of_rates("x", rates, "2026-torch", "jemalloc")
    with pytest.raises(InputError, match=r"allocator: 'tcmalloc' was not measured with 2020-theano. It is known of: "):
        costs.of_rates("x", rates, "2020-theano", costs.KEEPS)


def test_a_processor_has_the_efficiencies_of_processors_and_a_card_those_of_cards():
    sheet = costs.sheets().set_index(["device", "name"])["value"]
    flops, moved = sheet["i7-7700K", "float32 peak"], sheet["i7-7700K", "bandwidth peak"]
    rates = Rates(flops * costs.REACHED["float32 peak"], moved * costs.REACHED["bandwidth peak"])
    expected, found = costs.of_rates("it", rates, "2026-torch"), costs.published("i7-7700K", "2026-torch")
    assert (dict(found.seconds), found.error) == (pytest.approx(dict(expected.seconds)), expected.error)
    on_card, fitted = costs.published("T4", "2026-torch"), derived.read("card-costs", "factor")["value"]
    assert [found.of, on_card.of] == ["2026-torch on i7-7700K", "2026-torch on T4"]
    assert [on_card.seconds["overhead"], on_card.error] == list(fitted[["step", "error"]])


def test_every_device_has_both_rates_and_costs():
    work = make_point().work
    for device in costs.sheets()["device"].unique():
        for stack in costs.known():
            assert costs.published(device, stack, costs.kernel_of(stack, work)).step_s(work) > 0


def test_no_stack_is_surer_than_the_evidence():
    """Where kinds or machines were too few to leave one out, the others' median stands in."""
    rows = costs.efficiencies().groupby("stack")[["error", "kinds", "elsewhere"]].first()
    for stack in rows.index:
        error = costs.of_rates("x", Rates(1e11, 1e10), stack).error
        assert error >= rows.loc[stack].max()
        assert error >= rows["kinds"].median() or not math.isnan(rows.loc[stack, "kinds"])


def test_this_machine_s_rates_are_measured_by_another_process(monkeypatch):
    """What they take must not be counted as a probed model's: an allocator may keep it."""
    monkeypatch.setattr(machine, "rates", lambda: pytest.fail("measured in this process"))
    rates = process.rates()
    assert min(rates.bytes, rates.flops) > 1e8


def test_rates_that_cannot_be_measured_are_an_error_that_says_why(monkeypatch):
    monkeypatch.setattr(process, "run_module", lambda *_: {"status": "crashed", "error": "exit status 1"})
    with pytest.raises(RuntimeError, match="rates: crashed: exit status 1"):
        process.rates()
