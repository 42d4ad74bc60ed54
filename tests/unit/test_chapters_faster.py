"""One change at a time: gains, feeds, saves, several processes, rates; on made-up data."""

import pandas as pd
import pytest
from made_up import made_up, verdict
from tables import cells

from traintime.book.chapters import faster
from traintime.book.chapters.faster import MODELS, STACKS
from traintime.errors import InputError
from traintime.learning import results
from traintime.learning.trial import make_trial
from traintime.point import make_point

# Times as fast of each change, on every model and stack that can run it.
TIMES = {"bfloat16": 1.0, "float16": 0.2, "tcmalloc": 1.0, "batch × 4": 1.15, "SGD": 1.4, "table frozen": 3.0}
TIMES |= {"shared weights": 1.0, "fused kernel": 4.0, "without XLA": 1.2, "without oneDNN": 0.7}
PAIRS = {faster.PROCESSES: 0.5, faster.RARELY[1]: 4.0, "asynchronous, each step": 1.1, faster.AT_ONCE[1]: 1.3}
PAIRS |= {"asynchronous, every 10 steps": 2.0}
ASIDE = "saving", "asynchronous, every 10 steps"
AS_PREDICTED = {("arithmetic", "bfloat16", "2026-torch"): 1.8, ("loop", "batch × 4", "2026-jax"): 3.0}
FEEDS = {  # a step and what of it is waiting, ms
    "ready": (100, 0),
    "decoded": (115, 15),
    "decoded-ahead": (112.5, 1),
    "decoded-parallel": (112, 1),
    "fetched": (140, 40),
    "fetched-ahead": (101, 1),
    "fetched-parallel": (100, 1),
}
ONLY = {"jit": "2026-tensorflow", "onednn": "2026-tensorflow", "algorithm": "2026-torch"}  # fields of one stack


def runs(stack, change, model):
    """Whether a stack can run a change of a model."""
    field, _ = faster.settings(model, change)
    if field not in make_point(**MODELS[model]).fields or (change == "float16" and model != "arithmetic"):
        return False
    return ONLY.get(field, stack) == stack


def today(gains=AS_PREDICTED, pairs=PAIRS, feeds=FEEDS, **how):
    """Today's stacks, each usual configuration at a tenth of a second a step; gains: (model, change, stack) -> times as
    fast; pairs: change -> times as fast.
    """
    steps = {}

    def add(stack, fields, seconds, **more):
        steps[stack, make_point(**fields).key] = stack, fields, seconds, {"fit_step_s": seconds} | more

    for stack in STACKS:
        for model, fields in MODELS.items():
            add(stack, fields, 0.1)
            for change in (name for name in faster.ACCELERATIONS if runs(stack, name, model)):
                field, (_, other) = faster.settings(model, change)
                more = 4 if field == "batch" else 1
                add(stack, fields | {field: other}, 0.1 * more / gains.get((model, change, stack), TIMES[change]))
        for (_, change), (usual, other) in faster.PAIRS.items():
            if change in pairs:
                seconds = 0.3 if usual.get("save_every") == faster.EVERY else 0.1
                add(stack, usual, seconds)
                add(stack, usual | other, seconds / pairs[change])
        add(stack, faster.SMALL, 0.02)
    for feed, (step, waited) in feeds.items():
        of_feed = MODELS["arithmetic"] | {"feed": feed}
        add("2026-tensorflow", of_feed, step / 1e3, waited_s=waited / 1e3, own_cores=1.9)
    return made_up(*steps.values(), **how)


@pytest.fixture(scope="module")
def usual():
    """A machine for tests that change nothing of it."""
    return today()


def test_a_change_is_compared_with_the_model_as_it_was(usual):
    assert faster.gains(usual, "arithmetic", "float16")["2026-jax"].value == pytest.approx(0.2, rel=0.01)
    assert faster.gains(usual, "arithmetic", "float16").inverse()["2026-jax"].value == pytest.approx(5, rel=0.01)
    # A larger batch is judged by the sample.
    assert faster.gains(usual, "loop", "batch × 4")["2026-jax"].value == pytest.approx(3, rel=0.01)
    assert faster.with_batch(usual, "loop")["2026-jax"].value == pytest.approx(4 / 3, rel=0.01)
    assert not faster.gains(usual, "loop", "table frozen")
    table = faster.changes(usual)
    assert list(dict.fromkeys(table["model"])) == list(MODELS)
    assert (table["told"] == ((table["low"] > 1) | (table["high"] < 1))).all()


TORCH = ("arithmetic", "bfloat16", "2026-torch")


@pytest.mark.parametrize(
    ("number", "changes", "told"),
    [
        (6, {}, "holds"),
        (6, {"feeds": FEEDS | {"decoded-ahead": (101, 1)}}, "does not hold"),
        (6, {"feeds": FEEDS | {"decoded-ahead": (107.5, 1)}}, "inconclusive"),
        (16, {}, "holds"),
        (16, {"pairs": PAIRS | {faster.RARELY[1]: 1.2}}, "does not hold"),
        (16, {"pairs": PAIRS | {faster.RARELY[1]: 1.5}}, "inconclusive"),
        (19, {}, "holds"),
        (19, {"feeds": FEEDS | {"fetched-ahead": (200, 80)}}, "does not hold"),
        (19, {"feeds": FEEDS | {"fetched-ahead": (140, 40)}}, "inconclusive"),
        (20, {}, "holds"),
        (20, {"gains": {TORCH: 1.0}}, "does not hold"),
        (20, {"gains": {TORCH: 1.3}}, "inconclusive"),
    ],
)
def test_a_claim_holds_fails_or_stays_open(number, changes, told):
    assert verdict(f"13.{number}", today(**changes)) == told


def test_single_runs_decide_nothing():
    once = today(noise=(1.0,))
    assert {verdict(f"13.{number}", once) for number in (6, 16, 19, 20)} == {"inconclusive"}


def test_what_was_measured_in_common_rounds_is_divided(usual):
    assert faster.recovered(usual)["ahead"].value == pytest.approx((115 - 112.5) / 15, rel=0.01)
    assert faster.gains(usual, *ASIDE)["2026-jax"].value == pytest.approx(2, rel=0.01)
    assert faster.gains(usual, "table", faster.PROCESSES)["2026-torch"].value == pytest.approx(0.5, rel=0.01)
    apart = today()
    apart.rows.loc[apart.rows["save_aside"].eq(True), "round"] += 10
    assert not faster.gains(apart, *ASIDE)


def test_memory_is_compared():
    book = today()
    book.rows.loc[(book.rows["precision"] == "mixed-bfloat16") & (book.rows["workload"] == "lstm"), "peak_bytes"] = 5e8
    memory = faster.changes(book).query("change == 'bfloat16'").groupby("model", sort=False)["memory"].max()
    assert memory.to_dict() == {"arithmetic": 1.0, "table": 1.0, "loop": 0.5}


def test_a_change_is_listed_below_the_bottleneck_that_it_helps(usual):
    """Gains from a tenth up, significant ones in bold; all others are in the folded table alone."""
    rows = cells(faster.bottleneck_table(usual, usual))
    limits = [row[0] for row in rows if row[0].startswith("<strong>")]
    assert limits == [f"<strong>{words}: {seen}</strong>" for words, seen in faster.LIMITS.values()]
    listed = {row[0].split(" ")[0]: row[1:] for row in rows}
    assert listed["fused"] == ["", "", "<strong>4.0</strong>"]
    assert "float16" not in listed
    assert "float16" in faster.tried_table(usual, usual).data


def test_a_samples_wait_is_the_workers(worker_module):
    assert worker_module("feeds", "blocks").WAIT_S == faster.WAIT_S


def trained(losses):
    """Two seeds a rate with these training losses, epoch by epoch."""
    seeds = [(make_trial(rate=rate), curve, seed) for rate, curve in losses.items() for seed in (0, 1)]
    more = {"accuracy": 0.5, "loss": 1.0, "seconds": 1.0}
    return pd.DataFrame(
        [one.model_dump() | more | {"key": one.key, "seed": seed, "training_loss": curve} for one, curve, seed in seeds]
    )


@pytest.mark.parametrize(
    ("losses", "epochs", "told"),
    [
        ({0.0001: [4, 3, 2, 1.5], 0.001: [3, 1.4, 1.2, 1.1]}, {"0.0001": 4, "0.001": 2}, "holds"),
        ({0.0001: [4, 3, 2, 1.5], 0.001: [3, 2, 2, 1.5]}, {"0.0001": 4, "0.001": 4}, "does not hold"),
        ({0.001: [2.0, 1.0]}, {}, "not measured"),
        ({}, {}, "not measured"),
    ],
)
def test_epochs_are_counted_to_the_loss_that_the_smallest_rate_reaches(losses, epochs, told, monkeypatch, tmp_path):
    tried = trained(losses) if losses else results.table(tmp_path)
    monkeypatch.setattr(faster, "trials", lambda: tried)
    assert {rate: one.value for rate, one in faster.epochs().items()} == epochs
    shown, another = (
        made_up(("numpy", {}, 0.1), machine=name) for name in (faster.chapter_machine().machine, "another")
    )
    assert (verdict("13.14", shown), verdict("13.14", another)) == (told, "not measured")
    assert not faster.learned()


def test_what_is_learned_with_the_better_of_two_rates(monkeypatch):
    ways = ({}, 0.8), ({"optimizer": "sgd", "rate": 0.1}, 0.5), ({"optimizer": "sgd", "rate": 1.0}, 0.6)
    trials = [(make_trial(**faster.SENTENCES | way).model_dump(), accuracy) for way, accuracy in ways]
    rows = [fields | {"accuracy": accuracy + more} for fields, accuracy in trials for more in (0, 0.02)]
    monkeypatch.setattr(faster, "trials", lambda: pd.DataFrame(rows))
    assert {name: one.value for name, one in faster.learned().items()} == {"SGD": pytest.approx(-0.2)}


@pytest.mark.parametrize(("model", "changes", "field"), [("ring", [], "model"), ("loop", ["magic"], "change")])
def test_an_unknown_model_or_change_is_refused(model, changes, field):
    with pytest.raises(InputError, match=rf"^{field}: "):
        faster.sweeps(model, changes, ["2026-jax"])
