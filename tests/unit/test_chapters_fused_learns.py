"""What the fused LSTM learns: claims of trainings and what each setting does to the accuracy; on made-up trainings."""

import numpy as np
import pandas as pd
import pytest
from made_up import made_up, verdict
from tables import cells

from traintime.book import chapters, plots
from traintime.book.chapters import fused_learns
from traintime.learning.trial import make_trial

LABELS = ["08.8", "08.9", "08.17", "08.21"]


def machine(**more):
    """A machine that measured nothing of this chapter, as none has to."""
    return made_up(("numpy", {"vocabulary": 5_000}, 1.0), **more)


def trained(accuracies, seeds=20):
    """Trainings of (fields, mean accuracy), seeds scattered by one point; the loss is what the accuracy lacks."""
    scatter, rows = np.linspace(-1, 1, seeds), []
    scatter *= 0.01 / scatter.std(ddof=1) if seeds > 1 else 0
    for trial, accuracy in ((make_trial(**fields), accuracy) for fields, accuracy in accuracies):
        fields = {"key": trial.key, **trial.model_dump()}
        ends = [{"accuracy": accuracy + off, "loss": 1 - accuracy - off} for off in scatter]
        rows += [fields | {"seed": seed} | end for seed, end in enumerate(ends)]
    return pd.DataFrame(rows)


def layers(early=0.0, late=0.0, outside=0.0, seeds=20):
    """Trainings in which all that differs gains so much: at the usual rate, at three times that, there without bias."""
    usual, faster = fused_learns.TASKS[fused_learns.DIGITS], fused_learns.TASKS[fused_learns.LATE]
    sides = [(usual, 0.5 + early), (usual | fused_learns.BOTH, 0.5)]
    sides += [(faster, 0.5 + late), (faster | fused_learns.BOTH, 0.5)]
    return trained([*sides, (faster | fused_learns.NO_BIAS, 0.5 + outside)], seeds)


def losses(small, large, seeds=20, **more):
    """Trainings with a batch of 16 and of 100, and with one of 2,048, that end with these losses."""
    ends = {16: small, 100: small, 2048: large}
    return trained([({"batch": batch, **more}, 1 - loss) for batch, loss in ends.items()], seeds)


SAID = ["holds", "does not hold", "inconclusive"]


@pytest.mark.parametrize(
    ("label", "tables"),
    [
        ("08.8", [layers(early=-0.06), layers(early=0.06), layers(early=-0.03)]),
        ("08.21", [layers(0, -0.05, -0.05), layers(0, 0.05, -0.05), layers(0, 0, -0.05)]),
        ("08.9", [losses(0.2, 0.5), losses(0.5, 0.2), losses(0.5, 0.5)]),
        ("08.17", [losses(0.5, 0.2, steps=400), losses(0.2, 0.5, steps=400), losses(0.5, 0.5, steps=400)]),
    ],
)
def test_a_claim_of_trainings_is_judged_on_the_machine_that_the_chapter_shows(label, tables, monkeypatch):
    shown = machine(machine=fused_learns.lstm_machine().machine)
    for table, said in zip(tables, SAID, strict=True):
        monkeypatch.setattr(fused_learns, "trials", lambda table=table: table)
        assert (verdict(label, shown), verdict(label, machine())) == (said, "not measured")


def test_single_seeds_decide_nothing(monkeypatch):
    shown = machine(machine=fused_learns.lstm_machine().machine)
    for table in (layers(-0.06, -0.05, -0.05, seeds=1), losses(0.2, 0.5, seeds=1), losses(0.5, 0.2, 1, steps=400)):
        monkeypatch.setattr(fused_learns, "trials", lambda table=table: table)
        assert {verdict(label, shown) for label in LABELS} == {"not measured"}


def test_its_claims_keep_the_numbers_that_they_had_in_chapter_8():
    assert [claim.label for claim in chapters.of("17-fused-learns")] == LABELS
    assert not {claim.label for claim in chapters.of("08-fused-lstm")} & set(LABELS)


def test_a_cause_gains_what_the_fused_kernels_way_has_more(monkeypatch):
    """Three points are three standard deviations of one point, or 2.1 of a difference."""
    monkeypatch.setattr(fused_learns, "trials", lambda: layers(early=0.05, late=-0.02, outside=-0.04))
    assert fused_learns.gained(fused_learns.DIGITS)[fused_learns.IN_KERAS].value == pytest.approx(0.05)
    assert fused_learns.gained(fused_learns.LATE)[fused_learns.OUTSIDE].value == pytest.approx(-0.04)
    assert fused_learns.effect(fused_learns.DIGITS)["cudnn"] == pytest.approx(0.55)
    assert fused_learns.chance_of_three_points(fused_learns.DIGITS) == pytest.approx(0.0169, abs=1e-4)
    assert fused_learns.resolved(fused_learns.DIGITS, 20) == pytest.approx(2.024 * 0.01 * np.sqrt(2 / 20), rel=1e-3)
    assert "all three" in set(fused_learns.shown()["cause"])


def test_batches_are_told_apart_by_epochs_steps_and_rate(monkeypatch):
    trials = [{"batch": batch, **more} for batch in (100, 400) for more in ({}, {"steps": 800})]
    trials += [{"batch": 400, "rate": 0.002}, {"rate": 0.01}]  # the last is of another question
    rows = trained([(fields, 0.9 - make_trial(**fields).batch / 1000) for fields in trials], seeds=3)
    monkeypatch.setattr(fused_learns, "trials", lambda: rows)
    table = fused_learns.batches()
    ways = {"equal epochs, rate fixed": [100, 400], "equal epochs, rate scaled": [100, 400]}
    ways |= {"equal steps, rate fixed": [100, 400], "equal steps, rate scaled": [100]}
    assert table.groupby("way")["batch"].agg(list).to_dict() == ways
    assert [fused_learns.losses("equal epochs, rate fixed")[batch].alone for batch in (100, 400)] == ["0.20", "0.50"]


def test_the_table_of_settings_has_the_change_of_each_alone(monkeypatch):
    usual, padded = fused_learns.TASKS[fused_learns.LATE], fused_learns.TASKS[fused_learns.PADDED]
    sides = [(usual, 0.5), (usual | {"gates": "hard"}, 0.51), (usual | {"recurrent_dropout": 0.2}, 0.5)]
    sides += [(usual | fused_learns.BOTH, 0.5), (usual | fused_learns.NO_BIAS, 0.47)]
    sides += [(padded, 0.5), (padded | {"mask": True}, 0.5)]
    monkeypatch.setattr(fused_learns, "trials", lambda: trained(sides))
    changes = {row[0]: row[3] for row in cells(fused_learns.settings_table())}
    assert changes["<code>recurrent_activation</code>"].startswith("−1.0 (")
    assert changes["forget gate's bias"].startswith("if 0: −3.0 (")
    assert changes["random seed"] == "± 1.0 (standard deviation)"


def test_each_training_is_a_dot(monkeypatch):
    usual, faster = (fused_learns.TASKS[name] for name in fused_learns.SHOWN)
    sides = [(each | side, 0.5) for each in (usual, faster) for side in (fused_learns.BOTH, {})]
    monkeypatch.setattr(fused_learns, "trials", lambda: trained(sides, seeds=3))
    table = fused_learns.each_seed()
    assert table.groupby(["rate", "layer"], sort=False).size().tolist() == [3, 3, 3, 3]
    (axis,) = plots.seeds(table).axes
    labels = [label.get_text() for label in axis.get_yticklabels()]
    assert [label for label in labels if "LSTM" in label] == ["LSTM", "CuDNNLSTM"] * 2
