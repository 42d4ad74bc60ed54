"""Chapter 15: what its tables and claims make of predictions and trainings that are made up."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_up import judged, rows, verdict
from tables import cells

from traintime import cli, paths
from traintime.book import page, stored
from traintime.book.chapters import predicting, predicting_elsewhere, predicting_long, predicting_tried, question
from traintime.errors import InputError
from traintime.predict import bench, bench_models, evidence, prices
from traintime.predict.answer import Estimate, around
from traintime.predict.bench import Case


def said(tier, seconds, peak, error):
    return Estimate(
        tier, "made up", 1000, 10, 1,
        around(seconds / 100, (error, 1e6)), around(seconds, (error, 1e6)), around(seconds, (error, 1e6)),
        around(peak, (0.03, 1e6)), {"steps": seconds},
    )  # fmt: skip


def case(number, kind="attention", true=20.0, probed=1.0, formula=1.5, calibrated=1.2, batch=1.3, peak=1.0, **more):
    predicted = {
        "probed": said("probed", true * probed, 1e9 * peak, 0.12),
        "formula": said("formula", true * formula, 1e9 * peak, 0.5),
        "calibrated": said("calibrated", true * calibrated, 1e9 * peak, 0.3),
    }
    about = {"stack": "2026-jax", "kind": kind, "sizes": {"batch": 10}, "started": f"2026-01-01T00:00:{number:02}Z"}
    about |= {"machine": "made-up", "samples": 1000, "fit_s": (true, true * 1.02), "peaks": (1e9, 1e9)}
    return Case(**about | {"one_batch_s": true * batch, "flops_s": true * 0.01, "predicted": predicted} | more)


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A machine that has tried these models."""
    for name in ("cards.csv", "gpu.csv", "titan-x.csv", "units.csv", "versions.csv"):
        shutil.copy(paths.PREDICTED / name, tmp_path)
    monkeypatch.setattr(paths, "PREDICTED", tmp_path)
    (tmp_path / "withdrawn.csv").write_text("machine,started,figure,reason\n")

    def make(cases):
        # In one go, since bench.keep writes all of the file anew for each.
        if tried := [*bench.kept(tmp_path, "made-up"), *cases]:
            (tmp_path / "made-up.json").write_text(json.dumps([one.plain for one in tried]))
        return stored.Measurements(pd.DataFrame({"stack": ["2026-jax"]}), "made-up")

    return make


def test_a_bench_keeps_what_it_tried_though_nobody_says_where(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(bench, "run", lambda *_: iter([case(1), case(2)]))
    monkeypatch.setattr("sys.argv", ["traintime", "bench-predict"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert bench.kept(tmp_path / "traintime" / "predicted", "made-up") == [case(1), case(2)]
    assert str(tmp_path / "traintime" / "predicted" / "made-up.json") in capsys.readouterr().err


GOOD = [case(number, probed=1 + 0.01 * (number % 5)) for number in range(40)]
BAD = [case(n, probed=2.0 + 0.01 * n, formula=4.0, calibrated=2.5, batch=1.0, peak=2.0) for n in range(20)]


@pytest.mark.parametrize(("cases", "expected"), [(GOOD, "holds"), (BAD, "does not hold")], ids=["good", "bad"])
def test_a_good_predictor_holds_and_a_bad_one_does_not(book, cases, expected):
    tried = book(cases)
    labels = [f"15.{number}" for number in range(1, 6)]
    assert {label: verdict(label, tried) for label in labels} == dict.fromkeys(labels, expected)


def test_few_models_leave_it_open(book):
    few = book([case(0, probed=1.3), case(1, probed=0.9), case(2, probed=1.12)])
    assert verdict("15.1", few) == "inconclusive"


def test_calibrations_are_judged_by_kinds_that_no_probe_has_trained(book):
    seen = book([case(1, kind="dense", calibrated=9.0), case(2, calibrated=1.1), case(3, calibrated=1.12)])
    assert verdict("15.3", seen) == "holds"


@pytest.mark.parametrize(
    ("started", "labels"),
    [
        ("2026-11-23T09:00:00Z", ("15.11", "15.12")),
        ("2026-11-23T15:00:00Z", ("15.13", "15.14")),
        ("2026-11-23T18:40:00Z", ("15.16", "15.17")),
    ],
)
def test_a_calibration_is_judged_among_those_of_its_own_prices(started, labels, book):
    about = {"kind": "classifier", "started": started}

    def models(calibrated):
        for allocator in ("glibc", "tcmalloc"):
            for number in range(20):
                times = calibrated + 0.02 * (number % 3)
                yield case(number, calibrated=times, allocator=allocator, **about)

    tried = book(models(1.1))
    assert [verdict(label, tried) for label in labels] == ["holds", "holds"]
    others = {f"15.{number}" for number in (11, 12, 13, 14, 16, 17)} - set(labels)
    assert {verdict(label, tried) for label in others} == {"not measured"}
    assert verdict(labels[0], book(models(3.0))) != "holds"


def test_the_memory_of_a_probe_is_judged_where_the_allocator_keeps_it(book):
    about = {"kind": "classifier", "allocator": "tcmalloc", "started": "2026-11-24T00:00:00Z"}
    tried = book(case(number, peak=1.1 + 0.01 * (number % 3), **about) for number in range(12))
    assert verdict("15.15", tried) == "holds"
    worse = book(case(number, peak=2.0 + 0.01 * number, **about) for number in range(40))
    assert verdict("15.15", worse) == "does not hold"


def test_what_was_printed_and_not_kept_counts_without_its_intervals(book, tmp_path):
    head = "machine,ended,stack,allocator,kind,fit_s,again,calibrated,probed memory,FLOPs / peak"
    line = "made-up,2027-01-01T00:00:00Z,2026-jax,glibc,classifier,20.0,0.02,-0.1,0.01,-1.0"
    (tmp_path / "printed.csv").write_text(f"{head}\n{line}\n{line.replace('made-up', 'another')}\n")
    found = predicting_tried.cases(book([case(1), case(2)]))
    assert found["number"].nunique() == 3
    of_it = found[found["number"] < 0].set_index("way")
    assert of_it["times"].to_dict() == pytest.approx(
        {"again": 1.02, "calibrated": 0.9, "probed memory": 1.01, "FLOPs / peak": 0.005}
    )
    assert of_it["held"].isna().all()
    assert set(found["stack"]) == {"2026-jax"}


def test_what_is_withdrawn_has_no_memory_and_keeps_its_time(book, tmp_path):
    made = book([case(1, peak=3.0), case(2)])
    (tmp_path / "withdrawn.csv").write_text(f"machine,started,figure,reason\nmade-up,{case(1).started},memory,ours\n")
    assert predicting_tried.cases(made)["way"].value_counts()[["probed memory", "probed"]].tolist() == [1, 2]


def test_the_card_of_the_document_is_judged_on_the_document():
    assert judged("15.6", question.document()).figure.endswith("of 6 cells within 50 %")


def test_what_others_timed_is_judged_by_what_was_first_foretold():
    rows = predicting_elsewhere.others()
    assert len(rows) == 8
    stored_ = pd.read_csv(paths.PREDICTED / "titan-x.csv")
    assert rows["foretold_s"].tolist() == stored_["foretold_s"].tolist()
    assert verdict("15.7", question.document()) == "does not hold"


def made_of_units(factor):
    """A machine that took this times what was foretold for LSTMs of other units."""
    foretold, machine = pd.read_csv(paths.PREDICTED / "units.csv"), next(iter(stored.named()))
    rates, parts = prices.own_rates(machine), []
    for stack, of_stack in foretold.groupby("stack"):
        took = of_stack["fixed_s"] + of_stack["operations"] / rates.flops + of_stack["bytes"] / rates.bytes
        seconds = dict(zip(zip(of_stack["units"], of_stack["batch"], strict=True), took, strict=True))
        points = [{"workload": "lstm", "units": units, "batch": batch} for units, batch in seconds]
        parts.append(rows(stack, points, lambda f, s=seconds: factor * s[f["units"], f["batch"]]))
    return stored.Measurements(pd.concat(parts, ignore_index=True).assign(machine=machine), machine)


@pytest.mark.parametrize(("factor", "said"), [(0.3, "holds"), (0.9, "does not hold")])
def test_other_units_tell_whether_the_habits_are_to_blame(factor, said):
    machine = made_of_units(factor)
    assert verdict("15.9", machine) == said
    found = predicting_elsewhere.of_units(machine)
    assert len(found) == 32
    assert found["times"].to_numpy() == pytest.approx(factor, rel=0.1)


def test_machine_a_is_odd_in_one_stack_alone():
    assert verdict("15.8", stored.of(predicting_elsewhere.ODD)) == "holds"


@pytest.mark.parametrize("kind", list(bench_models.KINDS | bench_models.BEYONDS | bench_models.LOOPS))
def test_draws_differ_and_are_plain_values(kind):
    drawn = [bench_models.draw(kind, np.random.default_rng(seed)) for seed in range(5)]
    assert json.loads(json.dumps(drawn)) == drawn
    assert len({json.dumps(one) for one in drawn}) == 5


def test_a_kind_that_is_not_known_is_refused():
    with pytest.raises(InputError, match="kind: 'rnn'"):
        next(bench.run(["jax"], 1, kinds=["rnn"]))
    with pytest.raises(InputError, match="allocator: 'mimalloc' is refused"):
        next(bench.run(["jax"], 1, kinds=["dense"], allocator="mimalloc"))


def test_each_withdrawal_is_of_a_model_that_was_tried_and_has_its_reason():
    with (paths.DATA / "predicted" / "withdrawn.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        started = [one.started for one in bench.kept(paths.DATA / "predicted", row["machine"])]
        assert row["started"] in started
        assert row["reason"]


def test_the_numbers_of_the_page_need_nothing_measured(book):
    assert predicting_tried.cases(book([])).empty
    assert all(isinstance(value, str) for value in predicting.numbers(book([])).values())
    assert "Not measured yet" in predicting.tier_table([book([])]).data


def larger(number, size, scaled=1.1, line=0.5, **more):
    """A model of which one a tenth as large in this size was tried: 20 s, foretold at so many times that."""
    predicted = {"scaled": said("scaled", 20.0 * scaled, 1e9, 0.2)}
    about = {"batch": 1.0, "flops_s": None, "line_s": 20.0 * line, "kind": f"beyond-{size}"}
    about |= {"started": f"2026-11-23T22:40:{number:02}Z"}
    return replace(case(number, **about | more), predicted=predicted, one_batch_s=None)


def test_a_scaled_answer_is_judged_beside_the_line_and_apart_from_models_that_were_tried(book):
    sizes = [size for size in ("vocabulary", "length", "batch") for _ in range(3)]
    tried = book([case(0)] + [larger(n, size, scaled=1.1 - 0.01 * n) for n, size in enumerate(sizes, start=1)])
    assert [verdict(label, tried) for label in ("15.18", "15.19")] == ["holds"] * 2
    assert verdict("15.20", tried) == "inconclusive"  # nine of nine tell no nine in ten
    assert predicting_tried.cases(tried)["number"].nunique() == 1
    assert len(predicting_tried.tried(tried)) == 1
    found = predicting_tried.beyond(tried)
    assert set(found["way"]) == {"again", "again memory", "scaled", "scaled memory", "line"}
    assert found["size"].value_counts().nunique() == 1
    (row,) = [row for row in cells(predicting.tier_table([tried])) if row[0].startswith("scaled")]
    assert row[1] == "9 (20.2 to 20 s)"
    assert row[5] == "9 of 9"


def test_a_bad_scaling_does_not_hold(book):
    bad = book(larger(number, "length", scaled=3.0 + 0.1 * number, line=1.1) for number in range(20))
    assert {verdict(label, bad) for label in ("15.18", "15.19", "15.20")} == {"does not hold"}
    (row,) = [row for row in cells(predicting.tier_table([bad])) if row[0].startswith("scaled")]
    assert row[5] == "0 of 20"


def test_scaled_from_two_batch_sizes_is_judged_by_its_own_models_and_without_the_sleep(book):
    about = {"fit_s": (40.0, 40.0), "done_s": (20.0, 20.0), "started": "2026-11-23T23:10:00Z"}
    found = book(larger(number, "length", scaled=1.05 + 0.01 * (number % 3), **about) for number in range(12))
    assert verdict("15.21", found) == "holds"
    assert verdict("15.22", found) == "does not hold"  # half of it was sleep, which this interval did not reach
    assert {verdict(label, found) for label in ("15.18", "15.19", "15.20")} == {"not measured"}


def test_a_case_that_kept_when_its_last_step_was_done_is_kept_whole(book, tmp_path):
    one = larger(1, "batch", fit_s=(30.0, 32.0), done_s=(20.0, 22.0))
    book([one])
    assert bench.kept(tmp_path, "made-up") == [one]
    assert (one.true_s, one.busy_s) == (31.0, 21.0)
    assert case(2).busy_s == case(2).true_s
    done = predicting_tried.beyond(book([])).set_index(["number", "way"])["done"]
    assert done[0, "scaled"] == pytest.approx(22 / 21)


def anew(number, **more):
    """A model that was drawn from the whole of the sizes, since a calibration knows what a process holds."""
    about = {"started": f"2026-11-25T00:00:{number:02}Z", "domain": "whole"}
    return case(number, **about | more)


NEW = [f"15.{number}" for number in range(23, 33)]


def test_new_models_are_judged_by_new_claims_and_old_ones_never(book):
    old = book(case(n, kind="classifier", started=f"2026-11-23T18:00:{n:02}Z", calibrated=1.1) for n in range(12))
    assert {verdict(label, old) for label in NEW} == {"not measured"}
    before = verdict("15.16", old), verdict("15.17", old), verdict("15.15", old)
    with_new = book(anew(n, kind="classifier", calibrated=9.0, peak=9.0) for n in range(12))
    assert (verdict("15.16", with_new), verdict("15.17", with_new), verdict("15.15", with_new)) == before
    assert verdict("15.23", with_new) == "does not hold"


def test_a_model_of_the_narrow_sizes_is_no_new_one_whenever_it_was_drawn(book):
    late = book(anew(n, domain="narrow", kind="classifier") for n in range(12))
    assert {verdict(label, late) for label in NEW} == {"not measured"}


@pytest.mark.parametrize("good", [True, False])
def test_each_new_claim_can_hold_and_can_fail(good, book):
    off = 0.02 if good else 1.5
    cases = []
    for stack in ("2026-tensorflow", "2026-jax", "2026-torch"):
        for n in range(20):
            for allocator in ("glibc", "tcmalloc"):
                about = {"stack": stack, "allocator": allocator, "probed": 1 + off + 0.001 * n, "peak": 1 + off}
                about |= {"calibrated": 1.15 if good else 3.0, "batch": 1.001 if good else 8.0, "fit_s": (20.0, 20.2)}
                cases.append(anew(n, kind="classifier", **about))
    for n in range(12):
        info = 5e8 if good else 1e9
        about = {"stack": "2026-torch", "probed": 1 + off, "peak": 1 + off, "torchinfo_bytes": info + n}
        cases.append(anew(n, kind="loop-bag", **about))
        scaled = 1.1 if good else 3.0
        cases.append(larger(n, "length", scaled=scaled + 0.01 * n, domain="whole", started="2026-11-25T00:00:00Z"))
    found = book(cases)
    verdicts = {label: verdict(label, found) for label in NEW}
    assert verdicts == dict.fromkeys(NEW, "holds" if good else "does not hold")
    assert {verdict(label, found) for label in ("15.18", "15.19", "15.20")} == {"not measured"}


@pytest.mark.parametrize("good", [True, False])
def test_memory_is_judged_anew_since_the_process_tells_what_it_holds(good, book):
    """And what was foretold before counts for none of it, nor the other way round."""
    seen = 1.02 if good else 1.5
    stacks = ("2026-tensorflow", "2026-jax", "2026-torch")
    cases = [
        anew(n, kind=kind, stack=stack, started=f"2027-01-01T00:00:{n:02}Z", peak=seen)
        for stack in stacks
        for kind in ("recurrent", "classifier")
        for n in range(20)
    ]
    found = book([*cases, *(anew(n, kind="recurrent", stack="2026-jax", peak=9.0) for n in range(12))])
    assert {verdict(f"15.{n}", found) for n in range(33, 37)} == {"holds" if good else "does not hold"}
    assert verdict("15.23", found) == "does not hold"


def test_a_chapter_shows_every_machine_that_tried_models(book, tmp_path):
    two = list(stored.named())[:2]
    for name in two:
        bench.keep(replace(case(1), machine=name), tmp_path)
    assert [one.machine for one in predicting_tried.machines()] == two
    books = predicting_tried.machines()
    assert all(one.title in predicting.domain_table(books).data for one in books)
    probed = cells(predicting.tier_table(books))[0]
    assert probed[1:] == [f"{text}<br>{text}" for text in ("1 (20.2 to 20 s)", "1 %", "1 of 1", "1.5", "1 of 1")]
    cards = set(predicting_elsewhere.on_cards()["machine"])
    assert set(predicting.over_truth(books)["machine"]) == {one.title for one in books} | cards


def test_no_machine_at_all_leaves_the_books_own(book):
    assert [one.machine for one in predicting_tried.machines()] == [stored.reference()]
    assert predicting.numbers(stored.of())["predict-jax"] == "(not measured)"


def test_the_numbers_of_a_machine_are_of_what_it_tried(book):
    tried = book([case(1, calibrated=9.0), case(2, calibrated=0.5), case(3, kind="convolution-2d", calibrated=0.5)])
    numbers = predicting.numbers(tried)
    assert numbers["predict-models"] == "3"


def test_trainings_on_cards_have_a_row_of_their_own():
    table = predicting_elsewhere.on_cards()
    counts = table["machine"].value_counts().to_dict()
    assert [counts[name] for name in ("our H200, fused kernel", "our H200, loop", "K40m")] == [14, 8, 6]
    assert set(table["stack"]) <= set(prices.known()), "layers alone, and Torch, are no steps of the book's stacks"
    lines = predicting_elsewhere.card_row()["models"].split("<br>")
    assert [line.partition("\u00a0")[0] for line in lines] == [str(counts[name]) for name in table["machine"].unique()]


def test_what_was_left_out_is_told_by_card_and_source_and_all_by_weight():
    table = cells(predicting_elsewhere.cards_table())
    rows, found = predicting_elsewhere.left_out(), predicting_elsewhere.of_all()
    assert [row[0] for row in table] == [*rows["left_out"].unique(), "all, by weight"]
    assert int(table[-1][1]) == len(rows) == sum(int(row[1]) for row in table[:-1])
    twice = rows["times"].between(0.5, 2)
    assert found["within"] == pytest.approx(rows["weight"][twice].sum() / rows["weight"].sum())
    assert found["within"] != pytest.approx(twice.mean(), abs=1e-3), "by weight, and not by number"
    wide = np.exp(2 * 1.6449 * prices.on_cards())
    assert found["width"] == pytest.approx(wide, rel=1e-3)


def test_the_goal_on_cards_is_judged_where_a_card_was_measured():
    assert verdict("15.38", stored.of()) == "not measured"
    assert verdict("15.38", predicting_elsewhere.card()) == "does not hold"


def on_card(factor):
    """A machine whose H200 took this times what was predicted of it, fused and as a loop."""
    foretold = pd.read_csv(paths.PREDICTED / "gpu.csv").query("device == 'H200-SXM'").set_index(["stack", "key"])
    fields = {"workload": "lstm", "units": 128, "batch": 32, "length": 50, "device": "gpu"}
    points = [fields | {"kernel": kernel} for kernel in ("cudnn", "loop-of-cells")]
    said = foretold.loc["2026-torch", "lstm-i32-u128-l50-b32-adam-gpu-cudnn"]["foretold_s"]
    machine = stored.Measurements(rows("2026-torch", points, lambda _: factor * said), "made-up")
    machine.description = {"gpus": [{"name": "NVIDIA H200"}]}
    return machine


@pytest.mark.parametrize(("factor", "expected"), [(1.0, "holds"), (4.7, "inconclusive"), (9.0, "does not hold")])
def test_a_card_is_judged_by_what_was_predicted_of_it_kernel_and_loop_apart(factor, expected):
    machine = on_card(factor)
    assert verdict("15.37", machine) == expected
    assert [part.split(" ")[0] for part in judged("15.37", machine).figure.split("; ")] == ["fused", "loop"]


def test_another_card_is_not_judged_by_it():
    machine = on_card(1.0)
    machine.description = {"gpus": [{"name": "NVIDIA A100"}]}
    assert verdict("15.37", machine) == "not measured"


def test_the_first_table_says_for_whom_each_way_is():
    table = cells(predicting.lead_table(predicting_tried.shown_anew()))
    assert [row[1] for row in table] == ["probed", "scaled", "formula", "formula"]
    assert all(row[2].endswith("%") for row in table)
    assert all("of" in row[4].split() for row in table[:3]) and table[3][4].endswith("%"), "the cards' by weight"
    assert table[-1][-1].split() == [str(predicting_elsewhere.on_cards()["device"].nunique()), "cards"]


def test_the_foot_names_the_profile_once():
    text = page.made_by(None, *list(stored.named())[:2]).data
    assert text.count("under the profile") == 1
    assert text.count("Stored measurements") == 2


@pytest.mark.parametrize(
    ("took", "says"),
    [(20.0, "**inside**"), (60.0, "**outside** the interval of"), (2.0, "it took less than predicted")],
)
def test_a_training_outside_of_its_interval_is_said_to_be(took, says):
    text = predicting.landed(said("probed", 20.0, 1e9, 0.12), took).data
    assert says in text
    assert ("90%" in text) == (took != 20.0)


@pytest.mark.parametrize("where", ["probe", "training"])
def test_a_disturbed_training_is_not_compared_with_its_interval(where, monkeypatch):
    monkeypatch.setattr(predicting.process, "crowd", lambda *_: 1.5 * (where == "training"))
    told = (f"others used 1.5 of 2 processors: {evidence.BUSY}",) if where == "probe" else ()
    text = predicting.landed(replace(said("probed", 20.0, 1e9, 0.12), warnings=told), 60.0).data
    assert "judges nothing" in text
    assert "**" not in text


# Trainings of ten minutes


def long_training(number, probed=1.0, epochs=(150.0, 101.0, 100.0, 104.0, 145.0), **more):
    took = sum(epochs)
    return case(number, true=took, probed=probed, fit_s=(took,), peaks=(1e9,), epochs=5, epochs_s=epochs, **more)


def test_a_long_training_has_a_table_of_its_own_and_counts_nowhere_else(book):
    tried = book([case(1), long_training(2, probed=1.05)])
    one = predicting_long.trainings(tried).iloc[0]
    assert (one["took_s"], one["held"]) == (600.0, True)
    assert one["error"] == pytest.approx(0.05)
    assert one["spread"] == pytest.approx(0.45), "without the first, which compiles"
    assert predicting.cases(tried)["number"].nunique() == 1
    assert ">10<" in predicting_long.table(tried).data
    assert "outside" not in predicting_long.table(tried).data


def test_a_long_training_whose_probe_is_withdrawn_is_shown_and_judges_nothing(book):
    tried = book([long_training(1), long_training(2, probed=11.0)])
    gone = f"made-up,{predicting_tried.kept(paths.PREDICTED, 'made-up')[1].started},time,others were busy\n"
    (paths.PREDICTED / "withdrawn.csv").write_text(f"machine,started,figure,reason\n{gone}")
    assert predicting_long.counted(tried)["error"].tolist() == pytest.approx([0.0])
    assert len(predicting_long.trainings(tried)) == 2
    assert predicting_long.table(tried).data.count("withdrawn") == 1


@pytest.mark.parametrize(
    ("probed", "epochs", "expected"),
    [
        (1.02, (100.0, 100.0, 101.0, 102.0, 103.0), "holds"),
        (2.0, (100.0, 100.0, 150.0, 102.0, 103.0), "does not hold"),
    ],
)
def test_long_trainings_are_judged(probed, epochs, expected, book):
    tried = book([long_training(number, probed + 0.001 * number, epochs) for number in range(40)])
    assert {label: verdict(label, tried) for label in ("15.39", "15.40", "15.42")} == dict.fromkeys(
        ("15.39", "15.40", "15.42"), expected
    )
    assert verdict("15.41", tried) == "holds", "of intervals alone"


def test_without_a_long_training_nothing_is_said_of_them(book):
    tried = book([case(1)])
    assert verdict("15.39", tried) == "not measured"
    assert predicting_long.trainings(tried).empty
