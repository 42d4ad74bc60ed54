"""One change at a time: gains, feeds, saves, several processes, rates; on made-up data."""

import pandas as pd
import pytest
from made_up import made_up, verdict
from tables import cells

from traintime.book import markup, plots, stored
from traintime.book.chapters import faster, faster_costs, faster_transfers
from traintime.book.chapters.faster_transfers import MODELS, STACKS
from traintime.errors import InputError
from traintime.learning import results
from traintime.learning.trial import make_trial
from traintime.point import make_point

# Times as fast of each change, everywhere but where `gains` says otherwise.
GAINS = {
    "bfloat16": 1.0,
    "float16": 0.2,
    "tcmalloc": 1.0,
    "batch × 4": 1.1,
    "SGD": 1.4,
    "table frozen": 3.0,
    "shared weights": 1.0,
    "fused kernel": 4.0,
    "without XLA": 1.2,
    "without oneDNN": 0.7,
}
AS_PREDICTED = {
    ("arithmetic", "bfloat16", "2026-torch"): 1.8,
    ("table", "tcmalloc", "2026-torch"): 2.5,
    **{("loop", "batch × 4", stack): 3.0 for stack in STACKS},
}
FEEDS = {  # a step and what of it is waiting, ms
    "ready": (200, 0),
    "decoded": (230, 30),
    "decoded-ahead": (225, 1),
    "decoded-parallel": (224, 1),
    "fetched": (280, 80),
    "fetched-ahead": (201, 1),
    "fetched-parallel": (200, 1),
}

SELDOM = [{"save_every": 1}, {"save_every": 100}, {"save_every": 1, "save_aside": True}]


def runs(stack, change, model):
    """Whether a stack can run a change of a model."""
    field, _ = faster.settings(model, change)
    if field not in make_point(**MODELS[model]).fields or (change == "float16" and model != "arithmetic"):
        return False
    only = {"jit": "2026-tensorflow", "onednn": "2026-tensorflow", "algorithm": "2026-torch"}
    return only.get(field, stack) == stack


def today(gains=AS_PREDICTED, feeds=FEEDS, save=(2.0, 0.5), two=(0.1, 0.2), spe=1.3, seldom=(0.05, 0.011, 0.045)):
    """Today's stacks, each model at a tenth of a second a step; gains: (model, change, stack) -> times as fast."""
    steps = []
    for model, fields in MODELS.items():
        for stack in STACKS:
            usual = 0.2 if (model, stack) == ("arithmetic", "2026-tensorflow") else 0.1
            if usual == 0.1:  # the other is the feed of batches that lie ready
                steps.append((stack, fields, usual))
            for change in (name for name in faster.ACCELERATIONS if runs(stack, name, model)):
                times = gains.get((model, change, stack), GAINS[change])
                field, (_, other) = faster.settings(model, change)
                more = 4 if field == "batch" else 1
                steps.append((stack, fields | {field: other}, usual * more / times))
    for feed, (step, waited) in feeds.items():
        of_feed = MODELS["arithmetic"] | {"feed": feed}
        steps.append(("2026-tensorflow", of_feed, step / 1e3, {"waited_s": waited / 1e3, "own_cores": 1.9}))
    table = MODELS["table"]
    for stack in STACKS:
        for aside, cost in zip((False, True), save, strict=True):
            # One of ten steps saves: the mean holds a tenth of it.
            steps.append((stack, table | {"save_every": 10, "save_aside": aside}, 0.1 + cost / 10))
        small = {"vocabulary": 5000, "length": 10}
        steps.append((stack, small, 0.01))
        for seconds, fields in zip(seldom, SELDOM, strict=True):
            steps.append((stack, small | fields, seconds))
    for model, seconds in zip(("arithmetic", "table"), two, strict=True):
        fields = MODELS[model]
        steps.append(("2026-torch", fields | {"replicas": 2}, seconds))
    for stack in ("2026-tensorflow", "2026-jax"):
        for number, seconds in ((1, 0.01 * spe), (16, 0.01)):
            fields = {"vocabulary": 1000, "length": 10, "loop": "fit", "steps_per_execution": number}
            steps.append((stack, fields, seconds, {"fit_step_s": seconds}))
    return made_up(*steps)


@pytest.fixture(scope="module")
def usual():
    """The machine on which all predictions come true, for tests that change nothing of it."""
    return today()


def gain(book, model, change, stack):
    return faster.gains(book, model, change, [stack])[stack].value


def test_a_change_is_compared_with_the_model_as_it_was(usual):
    assert gain(usual, "table", "tcmalloc", "2026-torch") == pytest.approx(2.5, rel=0.01)
    assert gain(usual, "arithmetic", "float16", "2026-jax") == pytest.approx(0.2, rel=0.01)
    # A larger batch is judged by the sample.
    assert gain(usual, "loop", "batch × 4", "2026-jax") == pytest.approx(3, rel=0.01)
    table = faster.changes(usual)
    assert list(dict.fromkeys(table["model"])) == list(MODELS)
    assert list(dict.fromkeys(table["stack"])) == STACKS
    assert table["change"].iloc[0] == "bfloat16"
    with pytest.raises(KeyError):
        gain(usual, "loop", "table frozen", "2026-jax")


def test_predictions_that_come_true_hold(usual):
    told = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 18]
    assert {number: verdict(f"13.{number}", usual) for number in told} == dict.fromkeys(told, "holds")


OFF = {("arithmetic", "bfloat16", "2026-torch"): 1.0, ("arithmetic", "float16", "2026-jax"): 1.5}
OFF |= {("arithmetic", "shared weights", "2026-torch"): 1.5}


@pytest.mark.parametrize(
    ("numbers", "changes"),
    [
        (
            [1, 2, 4, 5, 6, 7, 8, 9, 13, 16],
            {
                "gains": AS_PREDICTED | OFF,
                "feeds": FEEDS | {"fetched-ahead": (280, 80), "decoded-ahead": (202, 1)},
                "two": (0.2, 0.05),
                "save": (2.0, 1.8),
                "spe": 1.0,
                "seldom": (0.012, 0.011, 0.011),
            },
        ),
        ([11, 12, 17], {"gains": {}, "seldom": (0.05, 0.02, 0.045)}),
        ([1, 18], {"gains": AS_PREDICTED | {("loop", "bfloat16", "2026-jax"): 2.0}, "seldom": (0.05, 0.011, 0.011)}),
    ],
)
def test_predictions_that_do_not_come_true_fail(numbers, changes):
    book = today(**changes)
    assert {number: verdict(f"13.{number}", book) for number in numbers} == dict.fromkeys(numbers, "does not hold")


def test_a_save_is_what_ten_steps_take_more(usual):
    cost = faster_transfers.save_costs(usual).loc["2026-jax"]
    expected = {"step": 0.1, "in_turn": 2.0, "aside": 0.5, "share": 0.25, "steps": 20}
    assert {name: one.value for name, one in cost.items()} == pytest.approx(expected, rel=0.02)


def test_saved_at_each_and_at_every_hundredth_step_against_never(usual):
    times = faster_transfers.save_frequencies(usual).loc["2026-jax"]
    expected = {"each": 5, "hundredth": 1.1, "gain": 5 / 1.1, "aside": 5 / 4.5}
    assert {name: one.value for name, one in times.items()} == pytest.approx(expected, rel=0.01)


def test_what_no_round_measured_together_is_not_compared():
    book = today()
    book.rows.loc[book.rows["save_aside"].eq(True), "round"] += 10
    assert faster_transfers.save_costs(book).empty


def test_two_processes_against_one(usual):
    assert faster_transfers.two_processes(usual, "table").value == pytest.approx(0.5, rel=0.01)
    with pytest.raises(KeyError):
        faster_transfers.two_processes(made_up(("numpy", {}, 0.1)), "table")


def test_a_number_is_the_same_wherever_the_page_shows_it(usual):
    gain = faster_transfers.save_frequencies(usual).loc["2026-jax", "gain"]
    pair = next(pair for pair in faster.PAIRS if pair.name.startswith("every 100"))
    assert faster.pair_gains(usual, pair)["2026-jax"] == gain
    processes = next(pair for pair in faster.PAIRS if pair.change == {"replicas": 2} and pair.limit == "table")
    assert faster.pair_gains(usual, processes)["2026-torch"] == faster_transfers.two_processes(usual, "table")


def test_the_memory_of_half_precision_is_that_of_the_same_rounds():
    book = today()
    elsewhere = book.rows[(book.rows["workload"] == "lstm") & (book.rows["stack"] == "2026-jax")]
    elsewhere = elsewhere[elsewhere["key"] == make_point(**MODELS["loop"]).key]
    book.rows = pd.concat([book.rows, elsewhere.assign(sweep="another", peak_bytes=9e9)], ignore_index=True)
    row = stored.row(faster_costs.peaks(book), model="loop", stack="2026-jax", precision="mixed-bfloat16")
    assert row["share"] == stored.row(faster.changes(book), model="loop", stack="2026-jax", change="bfloat16")["memory"]


def test_a_change_is_marked_where_its_interval_excludes_one_and_no_cell_is_nought():
    book = today(gains=AS_PREDICTED | {("arithmetic", "float16", "2026-jax"): 0.004})
    table = faster.changes(book)
    assert (table["told"] == ((table["low"] > 1) | (table["high"] < 1))).all()
    float16 = next(row for row in cells(faster.change_table(book)) if row[0] == "arithmetic: float16")
    assert float16[2].startswith("0.004")


def test_a_samples_wait_is_the_workers(worker_module):
    assert worker_module("feeds", "blocks").WAIT_S == faster_transfers.WAIT_S


def trained(losses):
    """Two seeds a rate with these training losses, epoch by epoch."""
    rows = []
    for rate, curve in losses.items():
        trial = make_trial(rate=rate)
        for seed in (0, 1):
            row = {"key": trial.key, "seed": seed, "accuracy": 0.5, "loss": 1.0, "seconds": 1.0}
            rows.append(trial.model_dump() | row | {"training_loss": curve})
    return pd.DataFrame(rows)


def test_epochs_are_counted_to_the_loss_that_the_smallest_rate_reaches(monkeypatch):
    tried = trained({0.0001: [4, 3, 2, 1.5], 0.001: [3, 1.4, 1.2, 1.1], 0.1: [9, 9, 9, 9]})
    monkeypatch.setattr(faster_costs, "trials", lambda: tried)
    table = faster_costs.epochs_by_rate()
    assert table["epochs"].tolist()[:2] == [4, 2]
    assert table["reached"].tolist() == [1, 1, 0]


@pytest.mark.parametrize("losses", [{0.001: [2.0, 1.0]}, {}])
def test_one_rate_is_no_comparison(losses, monkeypatch, tmp_path):
    tried = trained(losses) if losses else results.table(tmp_path)
    monkeypatch.setattr(faster_costs, "trials", lambda: tried)
    assert faster_costs.epochs_by_rate().empty
    with pytest.raises(KeyError):
        faster_costs.accuracy_change("bfloat16")


@pytest.mark.parametrize(("model", "changes", "field"), [("ring", [], "model"), ("loop", ["magic"], "change")])
def test_an_unknown_model_or_change_is_refused(model, changes, field):
    with pytest.raises(InputError, match=rf"^{field}: "):
        faster.sweeps(model, changes, ["2026-jax"])


def test_a_run_asks_for_both_sides_of_each_change():
    asked = faster.sweeps("table", ["batch × 4", "SGD"], ["2026-jax"])
    assert asked["batch × 4"]["batch"] == [100, 400]
    assert asked["SGD"]["optimizer"] == ["adam", "sgd"]


def test_a_number_of_the_prose_is_named_by_model_change_and_stack(usual):
    full = faster.PROSE.values(usual) | faster_transfers.SAVING_PROSE.values(usual)
    starts = {"fst-table-tcmalloc-torch": "2.5", "fst-each-jax": "5.0", "fst-arithmetic-float16-slower-jax": "5.0"}
    assert {name: full[name][: len(text)] for name, text in starts.items()} == starts


def test_what_was_trained_is_judged_on_the_chapters_machine_alone(usual, monkeypatch):
    book, other = usual, made_up(("numpy", {}, 0.1), machine="another")
    monkeypatch.setattr(stored, "having", lambda first, found: book)
    monkeypatch.setattr(stored, "of", lambda name="": book)
    for number in (14, 15):
        assert verdict(f"13.{number}", book) != "not measured"
        assert verdict(f"13.{number}", other) == "not measured"


# What to try first


def rows_of(table, limit):
    """The rows of a limit: its first cell stands in its first row alone."""
    found, here = [], ""
    for first, *rest in cells(table):
        here = first or here
        if here.startswith(limit):
            found.append(rest)
    return found


def test_what_to_try_first_is_ordered_by_gain_and_priced(usual):
    first, *others = rows_of(faster.first_table(usual, usual), "update of a table")
    assert first[0] == "table frozen"
    assert first[1].startswith("<strong>3.0") and "(2." in first[1]
    assert first[-1] == "peak memory × 1.00; accuracy: not measured"
    *helped, unknown = others
    assert [row[0] for row in helped] == ["tcmalloc", "SGD", "without XLA", "batch × 4"]
    assert all(row[-1].startswith("peak memory × 1.00") for row in helped)
    assert unknown[0].startswith("deferred rows") and unknown[1] == "not measured yet"


def test_every_comparison_stands_in_one_of_the_two_tables(usual):
    tried = faster.comparisons(usual, usual)
    listed = cells(faster.first_table(usual, usual)) + cells(faster.rest_table(usual, usual))
    assert sorted(row[1] for row in listed) == sorted(tried.drop_duplicates(["limit", "change"])["change"])
    assert set(faster.ACCELERATIONS) < set(tried["change"])
    expected = {
        "16 steps per execution",
        "every 100 steps, not every step",
        "fetching: ahead",
        "two processes of one thread",
    }
    assert expected < set(tried["change"])
    assert list(dict.fromkeys(tried["limit"])) == ["arithmetic", "table", "loop", "data", "saving", "starts"]


def test_what_nobody_measured_says_so(usual):
    rows = rows_of(faster.first_table(usual, made_up(("numpy", {}, 0.1))), "saving")
    each = next(row for row in rows if row[0].startswith("every 100"))
    assert each[1:4] == ["not measured yet"] * 3
    assert each[4] == "memory: not measured; up to 99 steps lost in a crash"


@pytest.mark.parametrize("apart", [False, True])
def test_a_comparison_of_disturbed_runs_is_shown_as_that(apart):
    """Whether the disturbed side has no other runs, or those that are left lie in no round of both."""
    book = today()
    sgd = (book.rows["stack"] == "2026-torch") & (book.rows["optimizer"] == "sgd")
    dense = book.rows["key"] == make_point(**MODELS["table"]).key
    if apart:
        book.rows.loc[sgd & (book.rows["round"] > 0), "disturbed"] = True
        book.rows.loc[dense & (book.rows["stack"] == "2026-torch") & (book.rows["round"] == 0), "disturbed"] = True
    else:
        book.rows.loc[sgd, "disturbed"] = True
    row = stored.row(faster.comparisons(book, book), limit="table", change="SGD", stack="2026-torch")
    assert row["disturbed"] and not row["told"]
    listed = rows_of(faster.first_table(book, book), "update of a table")
    cell = next(cells_of for cells_of in listed if cells_of[0] == "SGD")[3]
    assert cell.startswith("1.4") and cell.endswith("<em>all disturbed</em>")


def test_a_price_is_what_the_peaks_and_the_trainings_say():
    book = today()
    half = (book.rows["precision"] == "mixed-bfloat16") & (book.rows["workload"] == "lstm")
    book.rows.loc[half & (book.rows["stack"] == "2026-jax"), "peak_bytes"] = 0.5e9
    table = faster.rest_table(book, book)
    price = next(row for row in rows_of(table, "loop over") if row[0] == "bfloat16")[-1]
    points = markup.signs(faster_costs.accuracy_change("bfloat16").text("+.1f", 100))
    assert price == f"peak memory × 0.50 to 1.00; accuracy {points} points, digits"
    shared = next(row for row in rows_of(table, "matmuls") if "shared" in row[0])
    assert "parameters × 0.1" in shared[-1]


def test_what_is_learned_with_the_better_of_two_rates(monkeypatch):
    rows = []
    usual = {"task": "moods", "units": 32, "epochs": 5}
    for fields, accuracies in (
        (usual, (0.8, 0.82)),
        (usual | {"optimizer": "sgd", "rate": 0.1}, (0.5, 0.52)),
        (usual | {"optimizer": "sgd", "rate": 1.0}, (0.6, 0.62)),
    ):
        rows += [make_trial(**fields).model_dump() | {"accuracy": accuracy} for accuracy in accuracies]
    monkeypatch.setattr(faster_costs, "trials", lambda: pd.DataFrame(rows))
    assert faster_costs.accuracy_change("SGD").value == pytest.approx(-0.2)
    with pytest.raises(KeyError):
        faster_costs.accuracy_change("bfloat16")


def test_the_figures_have_a_panel_a_model_and_a_bar_a_feed(usual):
    figure = plots.changed(faster.changes(usual))
    assert [axis.get_title(loc="left") for axis in figure.axes] == list(MODELS)
    assert len(plots.waits(faster_transfers.feeds(usual)).axes[0].patches) == 2 * len(FEEDS)
    helped = faster.worth_trying(usual, usual)
    ticks = [label.get_text() for label in plots.tried(helped).axes[0].get_yticklabels()]
    of_limits = helped.groupby("limit", sort=False)["change"]
    assert ticks == [name for limit, changes in of_limits for name in (limit, *dict.fromkeys(changes))]
    assert "shared weights" not in ticks
