"""Networks of one size: the same work, what predicts a step, single changes, deep against wide; on made-up data."""

import pytest
from made_up import made_up, verdict

from traintime.book import original
from traintime.book.chapters import structure
from traintime.errors import InputError
from traintime.point import make_point

pytestmark = pytest.mark.usefixtures("few_draws")
BARE = {"structure": "residual", "depth": 8, "width": 32, "relu": False}


def by_bytes(**fields):
    """A step that takes a millisecond and a nanosecond for each byte of activations."""
    return 1e-3 + 1e-9 * structure.work(**fields).activation_bytes


def by_parameters(**fields):
    """A step that takes a microsecond for each parameter."""
    return 1e-6 * structure.work(**fields).parameters


def slow(*names, by=2.0):
    """A step that takes a tenth of a second, and `by` times as long in networks of these structures."""
    return lambda **fields: 0.1 * (by if fields["structure"] in names else 1)


def machine(cost=by_bytes, bare=0.95, **more):
    """Today's stacks: cost: of a network's fields; bare: what a step takes without ReLUs, a share."""
    networks = [structure.sizes(name, depth) for name in structure.STRUCTURES for depth in structure.DEPTHS]
    networks += [structure.sizes(name, 8) | {"side": 16} for name in structure.STRUCTURES]
    networks += [{"structure": "dense", "depth": 8, "width": 11}, {"structure": "plain", "depth": 8, "width": 16}]
    steps = [(fields, cost(**fields)) for fields in networks] + [(BARE, bare * cost(**BARE | {"relu": True}))]
    return made_up(
        *((stack, {"workload": "blocks", **fields}, s) for stack in structure.STACKS for fields, s in steps), **more
    )


def deep(convolutions=1.0, dense=1.0, **more):
    """Today's stacks: the deepest network of each kind takes so many times as long as the others."""
    times = {structure.CONVOLUTIONS: convolutions, structure.DENSE_LAYERS: dense}
    steps = [
        (fields, 0.1 * (times[kind] if fields is shapes[-1] else 1))
        for kind, shapes in structure.SHAPES.items()
        for fields in shapes
    ]
    return made_up(*((stack, fields, seconds) for stack in structure.STACKS for fields, seconds in steps), **more)


@pytest.mark.parametrize("depth", structure.DEPTHS)
def test_the_structures_of_a_depth_have_the_same_parameters_and_arithmetic(depth):
    works = [structure.work(**structure.sizes(name, depth)) for name in structure.STRUCTURES]
    for name in ("parameters", "flops"):
        counts = [getattr(work, name) for work in works]
        assert max(counts) / min(counts) < 1.05, name


@pytest.mark.parametrize(("name", "depth", "field"), [("ring", 8, "structures"), ("dense", 5, "depths")])
def test_a_size_that_nobody_worked_out_is_refused(name, depth, field):
    with pytest.raises(InputError, match=rf"{field}: .*Choose from"):
        structure.sizes(name, depth)


def deeper_residual(**fields):
    """A step that grows with the depth of the network with shortcuts, and with no other's."""
    return fields["depth"] if fields["structure"] == "residual" else 1.0


def by_neither(**fields):
    """A step that follows bytes and operations, but for a factor that no count explains."""
    flops = structure.work(**fields).flops
    return (by_bytes(**fields) + 1e-12 * flops) * (1 + 0.8 * ((fields["width"] + fields["depth"]) % 3))


def inverse(**fields):
    """A step that is the shorter the more parameters there are."""
    return 1 / by_parameters(**fields)


@pytest.mark.parametrize(
    ("number", "make", "holds", "fails", "open_"),
    [
        (1, machine, {}, {"cost": slow("residual")}, {"cost": slow()}),
        (2, machine, {}, {"cost": deeper_residual}, {"cost": slow()}),
        (3, machine, {}, {"cost": slow("aggregated")}, {"cost": slow()}),
        (4, machine, {"cost": slow("dense")}, {"cost": by_parameters}, {"cost": slow()}),
        (5, machine, {}, {"cost": by_parameters}, {"cost": by_neither}),
        (15, machine, {}, {"cost": by_parameters}, {"cost": by_neither}),
        (6, machine, {}, {"bare": 0.7}, {"bare": 0.9}),
        (7, machine, {"cost": slow()}, {"cost": slow("residual")}, {"cost": slow("residual", by=1 / 0.9)}),
        (9, machine, {"cost": by_parameters}, {"cost": inverse}, None),
        (10, machine, {"cost": by_parameters}, {"cost": inverse}, None),
        (13, deep, {"convolutions": 3.0}, {}, {"convolutions": 2.0}),
        (14, deep, {"dense": 1.5}, {}, {"dense": 1.2}),
    ],
)
def test_a_claim_holds_fails_or_stays_open(number, make, holds, fails, open_):
    """What has no interval is never open."""
    for told, made in (("holds", holds), ("does not hold", fails), ("inconclusive", open_)):
        assert made is None or verdict(f"12.{number}", make(**made)) == told


def test_single_runs_decide_nothing():
    once = machine(noise=(1.0,))
    assert {verdict(f"12.{number}", once) for number in (1, 2, 3, 4, 6, 7)} == {"inconclusive"}
    assert {verdict(f"12.{number}", deep(noise=(1.0,))) for number in (13, 14)} == {"inconclusive"}


@pytest.mark.parametrize(("kind", "more"), [(structure.CONVOLUTIONS, 1.01), (structure.DENSE_LAYERS, 1.15)])
def test_the_shapes_have_the_same_parameters_and_nearly_the_same_arithmetic(kind, more):
    """The first layer has no gradient of its inputs to compute, and is a larger part of a shallow network."""
    works = [make_point(**fields).work for fields in structure.SHAPES[kind]]
    for name, most in (("parameters", 1.01), ("flops", more)):
        counts = [getattr(work, name) for work in works]
        assert max(counts) / min(counts) < most, name


def test_the_shapes_are_none_of_the_four_structures_networks():
    """But for the one that both sweeps have."""
    found = structure.points(deep())[["depth", "width"]].drop_duplicates()
    assert found.to_numpy().tolist() == [[16, 32]]


def test_each_quantity_by_hand():
    book = machine()
    assert structure.structure_ratio(machine(slow("dense")), "dense", "residual")["2026-jax"].value == pytest.approx(2)
    assert structure.with_smaller(machine(slow("dense")))["2026-jax"].value == pytest.approx(2, rel=0.01)
    assert structure.depth_exponents(machine(slow()), "dense")["2026-jax"].value == pytest.approx(0, abs=0.01)
    assert structure.mean_errors(book, "bytes of activations").most.value < 0.01
    assert structure.mean_errors(book, "parameters").least.value > 0.2
    assert structure.fewer_is_faster(book, "activation_bytes").least.value == 1
    assert structure.misranked(book, "activation_bytes").range == "0 to 0"
    assert [verdict(f"12.{number}", original.document(original.ARITHMETIC)) for number in (11, 12)] == ["holds"] * 2
    # Convolution n joins the maps of the n - 1 before it: four more at each depth copy 4 x 4 times the maps more.
    dense = [structure.work(depth=depth, **structure.FEW).activation_bytes for depth in (4, 8, 12)]
    assert dense[2] - 2 * dense[1] + dense[0] == 4 * 16 * structure.FEW["width"] * 32 * 32 * 32
    # From Keras' output shapes the page gets 93, 122 and 90 MB.
    networks = [structure.sizes("residual", 8), structure.sizes("dense", 8), {"depth": 8} | structure.FEW]
    assert [round(structure.work(**one).activation_bytes / 1e6) for one in networks] == [93, 122, 90]
