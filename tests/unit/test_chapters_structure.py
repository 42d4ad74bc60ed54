"""Networks of one size in four structures: the same work, what predicts a step, single changes; on made-up data."""

import pytest
from made_up import made_up, verdict
from tables import cells

from traintime.book import original, plots, stored
from traintime.book.chapters import structure
from traintime.errors import InputError
from traintime.point import make_point

pytestmark = pytest.mark.usefixtures("few_draws")
FAST, SLOW = "2026-jax", "2026-torch"


def by_bytes(**fields):
    """A step that takes a millisecond and a nanosecond for each byte of activations."""
    return 1e-3 + 1e-9 * make_point("blocks", **fields).work.activation_bytes


def by_parameters(**fields):
    """A step that takes a microsecond for each parameter."""
    return 1e-6 * make_point("blocks", **fields).work.parameters


def networks():
    """The sweep's networks with their ReLUs and the usual compiler."""
    found = [structure.sizes(name, depth) for name in structure.STRUCTURES for depth in structure.DEPTHS]
    found += [structure.sizes(name, 8) | {"side": 16} for name in structure.STRUCTURES]
    return [*found, {"structure": "dense", "depth": 8, "width": 11}, {"structure": "plain", "depth": 8, "width": 16}]


def machine(cost=by_bytes, **more):
    """Today's stacks, each with a step of its own making: stack -> a function of a network's fields."""
    steps = [
        (stack, {"workload": "blocks", **fields}, cost(**fields)) for stack in structure.STACKS for fields in networks()
    ]
    bare = {"structure": "residual", "depth": 8, "width": 32, "relu": False}
    steps += [
        (stack, {"workload": "blocks", **bare}, 0.95 * cost(**bare | {"relu": True})) for stack in structure.STACKS
    ]
    for name in structure.STRUCTURES:
        fields = structure.sizes(name, 8)
        steps.append(("2026-tensorflow", {"workload": "blocks", **fields, "jit": "off"}, 0.5 * cost(**fields)))
    return made_up(*steps, **more)


@pytest.mark.parametrize("depth", structure.DEPTHS)
def test_the_structures_of_a_depth_have_the_same_parameters_and_arithmetic(depth):
    works = [make_point("blocks", **structure.sizes(name, depth)).work for name in structure.STRUCTURES]
    for name in ("parameters", "flops"):
        counts = [getattr(work, name) for work in works]
        assert max(counts) / min(counts) < 1.05, name


def test_half_of_the_parameters_can_write_as_many_bytes():
    few, many = (
        make_point("blocks", depth=structure.MIDDLE, **network).work for network in (structure.FEW, structure.MANY)
    )
    assert few.parameters / many.parameters == pytest.approx(0.5, abs=0.05)
    assert few.flops / many.flops == pytest.approx(0.5, abs=0.05)
    assert few.activation_bytes / many.activation_bytes == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("name", "depth", "field"), [("ring", 8, "structures"), ("dense", 5, "depths")])
def test_a_size_that_nobody_worked_out_is_refused(name, depth, field):
    with pytest.raises(InputError, match=rf"{field}: .*Choose from"):
        structure.sizes(name, depth)


def test_what_makes_the_time_predicts_it_best():
    book = machine()
    errors = structure.prediction_errors(book)
    assert set(errors.index) == set(structure.STACKS)
    assert (errors["bytes of activations"] < 0.01).all()
    assert (errors["parameters"] > 0.2).all()
    assert verdict("12.5", book) == "holds"
    other = machine(by_parameters)
    assert structure.prediction_errors(other)["parameters"].max() < 0.01
    assert verdict("12.5", other) == "does not hold"


def test_more_bytes_at_the_same_arithmetic_take_longer():
    book = machine()
    ratios = stored.chosen(structure.ratios(book), above="dense", below="residual")
    assert ratios["depth"].tolist() == structure.DEPTHS * 3
    assert all(rows["ratio"].is_monotonic_increasing for _, rows in ratios.groupby("stack"))
    assert [verdict(f"12.{number}", book) for number in (1, 2, 3)] == ["holds"] * 3
    flat = machine(lambda **fields: 0.1)
    assert [verdict(f"12.{number}", flat) for number in (2, 3)] == ["inconclusive"] * 2


def test_a_smaller_network_may_be_the_slower_one():
    assert verdict("12.4", machine(by_parameters)) == "does not hold"
    slow = machine(lambda **fields: 0.2 if fields["structure"] == "dense" else 0.1)
    assert verdict("12.4", slow) == "holds"
    assert structure.with_smaller(slow)[SLOW].value == pytest.approx(2, rel=0.01)


def test_a_square_and_what_relus_and_shortcuts_add_are_counted():
    arithmetic = original.document(original.ARITHMETIC)
    assert [verdict(label, arithmetic) for label in ("12.11", "12.12")] == ["holds"] * 2
    assert [verdict(label, machine()) for label in ("12.11", "12.12")] == ["not measured"] * 2
    # Convolution n joins the maps of the n - 1 before it: four more at each depth copy 4 x 4 times the maps more.
    dense = [structure._values(depth, **structure.FEW) for depth in (4, 8, 12)]
    assert dense[2] - 2 * dense[1] + dense[0] == 16 * structure.FEW["width"] * 32 * 32 * 32


def test_fewer_parameters_are_faster_where_they_make_the_time():
    assert min(structure.fewer_is_faster(machine(by_parameters)).values()) == 1
    assert max(structure.fewer_is_faster(machine(lambda **fields: 1 / by_parameters(**fields))).values()) == 0
    assert [verdict(label, machine(by_parameters)) for label in ("12.9", "12.10")] == ["holds"] * 2
    assert verdict("12.10", machine(lambda **fields: 1 / by_parameters(**fields))) == "does not hold"
    assert min(structure.fewer_is_faster(machine(), "activation_bytes").values()) == 1


def test_single_changes_have_ratios():
    book = machine()
    assert structure.relu_ratios(book)[FAST].value == pytest.approx(1 / 0.95, rel=0.01)
    assert structure.xla_ratio(book, "dense").value == pytest.approx(2, rel=0.01)
    assert [verdict(f"12.{number}", book) for number in (6, 8)] == ["holds"] * 2
    names = {row[0] for row in cells(structure.changed_table(book))}
    assert names == {"without ReLUs", "without shortcuts", "without XLA"}


def test_tables_have_a_row_for_each_network():
    book = machine()
    assert [row[0] for row in cells(structure.work_table())] == structure.STRUCTURES
    assert len(cells(structure.here_table(book))) == len(structure.points(book))
    assert len(cells(structure.predicted_table(book))) == 3


def test_the_figure_has_a_panel_a_stack_and_a_line_a_structure():
    found = structure.points(machine())
    figure = plots.depths(structure.matched(found))
    assert [axis.get_title(loc="left") for axis in figure.axes] == structure.STACKS
    assert {len(axis.get_lines()) >= 4 for axis in figure.axes} == {True}


def test_what_predicts_a_step_lies_on_the_diagonal():
    found = structure.left_out(machine())
    panels = plots.left_out(found, structure.ALONE).axes
    assert [axis.get_title(loc="left") for axis in panels] == structure.ALONE
    _, *stacks = panels[2].get_lines()
    assert len(stacks) == len(structure.STACKS)
    assert all(line.get_ydata() == pytest.approx(line.get_xdata(), rel=0.05) for line in stacks)


def test_the_bytes_that_the_recipe_prints_are_the_formulas():
    """From Keras' output shapes the page gets 93, 122 and 90 MB."""
    networks = [structure.sizes("residual", 8), structure.sizes("dense", 8), {"depth": 8} | structure.FEW]
    counted = [round(make_point("blocks", **fields).work.activation_bytes / 1e6) for fields in networks]
    assert counted == [93, 122, 90]
