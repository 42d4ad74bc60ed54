"""PyTorch modules: trained for a moment and left as they were, and what their steps are made of."""

import random
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import traintime  # noqa: E402
from traintime.errors import InputError  # noqa: E402
from traintime.explain.terms import TERMS  # noqa: E402
from traintime.predict import advice, process  # noqa: E402
from traintime.predict.advice import CostedWork  # noqa: E402
from traintime.predict.costs import Costs, Rates  # noqa: E402
from traintime.predict.request import ModelDescription  # noqa: E402
from traintime.predict.torch_trainer import TorchTrainer, _scattered  # noqa: E402
from traintime.predict.work.torch import step_work  # noqa: E402
from traintime.workloads.base import matmul  # noqa: E402

nn, functional = torch.nn, torch.nn.functional
PAIR = (torch.randn(8, 4), torch.randn(8, 1))
OF_UPDATE = Costs("made up", dict.fromkeys(TERMS, 0.0) | {"update": 1e-9}, 0.1)


@pytest.fixture(autouse=True)
def machine_of_known_rates(monkeypatch):
    # So slow that the formula explains every step, also one that others slowed.
    monkeypatch.setattr(process, "rates", lambda: Rates(1e8, 1e7))


@pytest.fixture(autouse=True)
def one_thread():
    """Threads that wait for each other make a step on a busy machine ten times as long, now and then."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def images():
    """A module with buffers and random numbers of its own, and what trains it."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.LazyLinear(5)
    )
    x, y = torch.randn(40, 3, 10, 10), torch.randint(0, 5, (40,))
    module(x[:2])
    return {"model": module} | trained(module, (x, y), functional.cross_entropy, lr=0.01)


def trained(module, data, loss=functional.mse_loss, kind=torch.optim.Adam, **how):
    """What a module is trained with, as `estimate`, `module_memory` and TorchTrainer take it."""
    return {"loss": loss, "optimizer": kind(module.parameters(), **how), "data": data}


def of(module, data, *how, **more):
    return TorchTrainer(module, **trained(module, data, *how, **more))


def loader(data, **how):
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data), batch_size=8, **how)


def numbers(setup):
    """All that a training changes, as plain values."""
    model, state = setup["model"], setup["optimizer"].state_dict()
    moments = [each for one in state["state"].values() for each in one.values()]
    tensors = [each.tolist() for each in (*model.state_dict().values(), *moments, torch.get_rng_state())]
    gradients = [each.grad is None for each in model.parameters()]
    flags = [each.training for each in model.modules()]
    return tensors, gradients, flags, random.getstate(), str(np.random.get_state()), state["param_groups"]


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("of", ["arrays", "loader"])
def test_a_probed_module_is_as_it_was_before(of, earlier):
    setup = images()
    generator = torch.Generator().manual_seed(3)
    if of == "loader":
        setup["data"] = loader(setup["data"], shuffle=True, generator=generator)
    if earlier:  # its optimizer has moments, and parameters have gradients
        TorchTrainer(*setup.values()).train(8, 2, 1)
    setup["model"].eval()
    before, drawn = numbers(setup), generator.get_state().tolist()
    one = traintime.estimate(**setup, samples=44, batch_size=8, epochs=2, validation=10, saves=1, seconds=1)
    assert one.tier == "probed"
    assert numbers(setup) == before
    assert generator.get_state().tolist() == drawn
    assert min(one.parts[name] for name in ("steps", "last batches", "validation", "saving")) > 0
    assert sum(one.terms.values()) == pytest.approx(one.step.value)


class Slow(torch.utils.data.Dataset):
    """Samples that take a while to fetch, which two processes can do at once."""

    def __len__(self):
        return 96

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.randn(20), torch.zeros(1)


# JAX, which other tests have loaded, warns of every fork.
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:Exception ignored in. <function _at_fork")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_counts_as_fast_as_it_is(workers):
    module = nn.Linear(20, 1)
    data = torch.utils.data.DataLoader(Slow(), batch_size=8, num_workers=workers)
    one = traintime.estimate(module, **trained(module, data), epochs=9, seconds=4)
    assert (one.samples, one.batch_size) == (len(Slow()), 8), "the loader's own"
    assert one.limited_by.startswith("waiting for data")
    assert all(each.time > 0.5 for each in one.helps), "a larger batch waits as much longer"
    assert one.step.value > 0.6 * 0.08 / max(workers, 1), "a busy machine takes longer, none less"
    assert one.parts["steps"] == pytest.approx(9 * (len(Slow()) // 8) * one.step.value)


class Lengths(torch.utils.data.IterableDataset):
    """Sentences that become longer."""

    def __len__(self):
        return 64

    def __iter__(self):
        return ((torch.randn(length, 20), torch.zeros(length, 1)) for length in range(1, 65))


def test_batches_come_from_all_over_a_sorted_epoch_or_it_is_said():
    data = list(Lengths())
    lengths = [len(x[0]) for x, _ in _scattered(torch.utils.data.DataLoader(data))]
    assert sorted(lengths) == list(range(1, 65)) != lengths
    shuffled, module = torch.utils.data.DataLoader(data, shuffle=True), nn.Linear(20, 1)
    assert _scattered(shuffled) is shuffled
    ordered, iterable = map(torch.utils.data.DataLoader, (data, Lengths()))
    for source, told in ((ordered, False), (shuffled, False), (iterable, True)):
        one = traintime.estimate(module, **trained(module, source), seconds=1)
        assert one.samples == 64
        assert any("differ in size" in each for each in one.warnings) == told


def test_an_epoch_is_what_the_sampler_takes_and_no_random_number_is_drawn():
    data, module = torch.utils.data.TensorDataset(torch.randn(64, 20), torch.zeros(64, 1)), nn.Linear(20, 1)
    before = torch.get_rng_state()
    for sampler, samples in (
        (torch.utils.data.SubsetRandomSampler(range(16)), 16),
        (torch.utils.data.RandomSampler(data, num_samples=24), 24),
    ):
        how = trained(module, torch.utils.data.DataLoader(data, 8, sampler=sampler))
        assert traintime.estimate(module, **how, seconds=1).samples == samples
    assert torch.equal(torch.get_rng_state(), before)


def test_the_copy_that_is_kept_is_none_of_the_trainings_memory():
    module = nn.Linear(4096, 4096)
    trainer = of(module, (torch.randn(8, 4096), torch.zeros(8, 4096)))
    with trainer.restored():
        assert trainer.kept_bytes == sum(each.nbytes for each in module.parameters())
        trainer.forget_peak()
        assert process.now() - trainer.peak_bytes() == pytest.approx(trainer.kept_bytes, rel=0.3)


def test_a_module_of_half_precision_is_half_as_large_and_says_so():
    def described(dtype):
        data = torch.randn(8, 64, dtype=dtype), torch.zeros(8, 64, dtype=dtype)
        return ModelDescription.from_module(of(nn.Linear(64, 64, dtype=dtype), data), 8)

    half, whole = described(torch.bfloat16), described(torch.float32)
    assert 2 * half.work.parameters == whole.work.parameters
    assert (half.dtype, whole.dtype) == ("bfloat16", "float32")


def test_a_module_that_is_compiled_stays_so():
    compiled = torch.compile(nn.Linear(20, 1), backend="eager")
    traintime.module_memory(compiled, **trained(compiled, (torch.randn(8, 20), torch.zeros(8, 1))))
    graphs = torch._dynamo.utils.counters["stats"]
    before = graphs["unique_graphs"]
    compiled(torch.randn(8, 20))
    assert graphs["unique_graphs"] > before


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_a_sparse_table_is_updated_where_it_was_read(kind):
    def described(sparse):
        module = nn.Sequential(kind(5000, 8, sparse=sparse), nn.Flatten(), nn.LazyLinear(1))
        rows = torch.randint(0, 5000, (40, 6))
        module(rows)
        return ModelDescription.from_module(of(module, (rows, torch.zeros(40, 1)), kind=torch.optim.SGD), 10)

    dense, sparse = described(False), described(True)
    assert dense.work.trained - sparse.work.trained == 8 * (5000 - 10 * 6)
    assert (dense.frozen, sparse.frozen) == (0, 8 * 5000)
    assert (dense.by_rows, sparse.by_rows) == (0, 10 * 6 * 8), "these rows grow with the batch"
    assert any("sparse=True" in one.what for one in advice.helps(CostedWork(dense, OF_UPDATE), 10))
    assert not any("sparse" in one.what for one in advice.helps(CostedWork(sparse, OF_UPDATE), 10))


class WithItsLoss(nn.Module):
    """As Hugging Face's models are: arguments by name, the loss among what comes out."""

    def __init__(self, as_dict):
        super().__init__()
        self.words, self.out, self.as_dict = nn.Embedding(50, 8), nn.Linear(8, 50), as_dict

    def forward(self, input_ids, labels):
        scores = self.out(self.words(input_ids))
        loss = functional.cross_entropy(scores.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": scores} if self.as_dict else (loss, scores)


@pytest.mark.parametrize("as_dict", [False, True])
def test_a_module_may_have_its_own_loss(as_dict):
    module = WithItsLoss(as_dict)
    ids = torch.randint(0, 50, (30, 6))
    rows = [{"input_ids": row, "labels": row} for row in ids]
    batches = torch.utils.data.DataLoader(rows, batch_size=10)
    for data, size in ((batches, None), ({"input_ids": ids, "labels": ids}, 10)):
        how = trained(module, data, None, torch.optim.AdamW)
        one = traintime.estimate(module, **how, samples=30, batch_size=size, seconds=1)
        assert one.batch_size == 10
        assert one.terms


def test_the_work_of_dense_layers_is_the_closed_form():
    module = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3))
    work = step_work(of(module, (torch.randn(5, 20), torch.randn(5, 3))), 32).total
    form = matmul(32, 20, 64, gradients=1) + matmul(32, 64, 3)
    assert work.flops == form.flops
    assert work.product_bytes == pytest.approx(form.product_bytes, rel=0.05)  # biases are read, too
    assert work.parameters == work.trained == 20 * 64 + 64 + 64 * 3 + 3
    assert work.update_bytes == 32 * work.trained


def test_frozen_parameters_are_not_trained():
    module = nn.Sequential(nn.Linear(20, 64), nn.Linear(64, 3))
    for each in module[0].parameters():
        each.requires_grad = False
    table = traintime.module_memory(module, **trained(module, (torch.randn(5, 20), torch.randn(5, 3))))
    assert table.loc["0", ["gradients", "state"]].tolist() == [0, 0]
    assert table.loc["1", ["parameters", "gradients", "state"]].tolist() == [4 * 195, 4 * 195, 8 * 195]


class Steps(nn.Module):
    """A recurrent layer in one call, its last output."""

    def __init__(self, kind, **how):
        super().__init__()
        self.layer, self.out = kind(16, 32, batch_first=True, **how), nn.Linear(64 if how else 32, 1)

    def forward(self, x):
        return self.out(self.layer(x)[0][:, -1])


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
@pytest.mark.parametrize("both", [False, True])
def test_a_recurrent_layer_counts_its_products(kind, gates, both):
    module = Steps(kind, **({"bidirectional": True} if both else {}))
    work = step_work(of(module, (torch.randn(6, 10, 16), torch.randn(6, 1))), 6).total
    columns, ways = gates * 32, 1 + both
    inputs, states = matmul(60, 16, columns, gradients=1).flops, matmul(60, 32, columns).flops
    last = matmul(6, 32 * ways, 1).flops
    # In one call the gradient of the inputs is computed whether anybody needs it or not.
    least, most = ways * (inputs + states) + last, ways * (3 * inputs / 2 + states) + last
    assert least * 0.9 <= work.flops <= most * 1.01
    assert work.recurrent_bytes >= 60 * ways * 32 * 4 * 2


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 3)), (20,)),
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()), (3, 9, 9)),
        (nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True), (7, 16)),
    ],
)
def test_what_is_kept_for_the_way_back_is_what_torch_keeps(module, shape):
    """Told without numbers, it is the same to the byte as in a step with numbers."""
    inputs = torch.randn(12, *shape)
    trainer = of(module, (inputs, torch.zeros_like(module(inputs))))
    batch, saved = trainer.batch(12), {}

    def pack(tensor):
        saved[tensor.untyped_storage().data_ptr()] = tensor  # kept, so that no address is taken twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        trainer.loss_of(batch).backward()
    for each in (*module.parameters(), *module.buffers(), *batch):  # there anyway
        saved.pop(each.untyped_storage().data_ptr(), None)
    counted = sum(one.saved for one in step_work(trainer, 12).layers)
    assert counted == sum(each.untyped_storage().nbytes() for each in saved.values())


class Checkpointed(nn.Module):
    """Blocks whose way forward is computed again on the way back."""

    def __init__(self, reentrant):
        super().__init__()
        wide = [nn.Sequential(nn.Linear(16, 256), nn.GELU(), nn.Linear(256, 16)) for _ in range(4)]
        self.first, self.blocks, self.reentrant = nn.Linear(16, 16), nn.ModuleList(wide), reentrant

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=self.reentrant)
        return x


def test_what_is_computed_again_is_saved_in_neither_kind_of_checkpoint():
    data, saved = (torch.randn(64, 16), torch.randn(64, 16)), []
    for reentrant in (False, True):
        module = Checkpointed(reentrant)
        saved.append(traintime.module_memory(module, **trained(module, data), batch_size=64)["saved"].sum())
    assert saved == [64 * 16 * 4 * 5] * 2, "each block's inputs, and the last one's outputs"


@pytest.mark.parametrize("foreach", [False, True])
def test_what_is_held_at_the_most_is_what_comes_and_goes(foreach):
    """In the update of a deep module: weights, gradients and moments, and of a weight, or of all at once, roots."""
    deep = nn.Sequential(*[nn.Linear(256, 256, bias=False) for _ in range(8)])
    one = ModelDescription.from_module(of(deep, (PAIR[0].repeat(1, 64),) * 2, foreach=foreach), 8)
    copies = (one.held[1] - 2e7) / (4 * one.work.parameters)
    assert copies == pytest.approx(5 if foreach else 4 + 3 / 8, abs=0.15)
    wide, rows = nn.Sequential(nn.Linear(4, 4000), nn.GELU(), nn.Linear(4000, 1)), 1000
    one = ModelDescription.from_module(of(wide, PAIR), rows)
    there_and_back = (one.held[0] - 2e7) / (4 * 4000 * rows)
    assert 1.3 * 3 < there_and_back < 1.3 * 4.3, "outputs of two layers, and a gradient or two"
    small = ModelDescription.from_module(of(deep, (PAIR[0].repeat(1, 64),) * 2, kind=torch.optim.SGD), 8)
    moments = ModelDescription.from_module(of(deep, (PAIR[0].repeat(1, 64),) * 2), 8)
    assert moments.held[0] - small.held[0] == pytest.approx(2 * 4 * small.work.parameters, rel=0.01)
    assert moments.beyond_idle == pytest.approx(max(moments.held))


def test_a_module_on_meta_is_asked_about_as_it_will_be():
    def described(device):
        module = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, device=device)
        x = torch.randn(8, 6, 64)
        return {"model": module} | trained(module, (x, x)) | {"samples": 80, "batch_size": 8}

    there, here = (traintime.estimate(**described(device), tier="formula") for device in ("meta", "cpu"))
    assert there.memory.value == pytest.approx(here.memory.value, rel=0.01)
    assert "Its time here is unknown" in there.warnings[0]
    assert "not probed: it has no numbers" in str(traintime.estimate(**described("meta")))
    assert traintime.estimate(**described("meta"), device="T4").total.value > 0


class Tied(nn.Module):
    """Its output is the table again, without a layer."""

    def __init__(self, table, how):
        super().__init__()
        self.words, self.how = table, how

    def forward(self, ids):
        return self.how(self.words(ids), self.words.weight)


@pytest.mark.parametrize(
    "how", [lambda x, table: x @ table.T, functional.linear, lambda x, table: torch.einsum("bld,vd->blv", x, table)]
)
def test_a_table_that_a_product_takes_whole_is_no_table_of_rows(how):
    ids = torch.randint(0, 5000, (8, 4))
    module = Tied(nn.Embedding(5000, 8), how)
    one = ModelDescription.from_module(of(module, (ids, ids), lambda y, ids: y.mean()), 8)
    assert one.table == 0
    assert not any("table" in each.what for each in advice.helps(CostedWork(one, OF_UPDATE), 8))


def test_what_does_not_fit_here_or_is_asked_of_a_card_is_told_and_nothing_is_changed():
    setup = images()
    before = numbers(setup)
    asked = {name: setup[name] for name in ("loss", "optimizer", "data")}
    small, large = (traintime.module_memory(setup["model"], **asked, batch_size=each) for each in (8, 8_000))
    assert large["saved"].sum() == pytest.approx(1000 * small["saved"].sum(), rel=0.05)
    assert (large["parameters"] == small["parameters"]).all()
    one = traintime.estimate(**setup, samples=50_000, batch_size=256, device="A100-80GB-SXM")
    assert (one.tier, one.memory.value > 0) == ("formula", True)
    assert numbers(setup) == before


def test_shared_parameters_count_once_and_depth_sums():
    module = WithItsLoss(False)
    module.out.weight = module.words.weight
    ids = torch.randint(0, 50, (30, 6))
    each = traintime.module_memory(module, **trained(module, {"input_ids": ids, "labels": ids}, None))
    assert each["parameters"].sum() == 4 * (50 * 8 + 50)
    assert ModelDescription.from_module(of(module, {"input_ids": ids, "labels": ids}, loss=None), 10).table == 0
    whole = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), nn.Linear(4, 1))
    table = traintime.module_memory(whole, **trained(whole, (torch.randn(8, 4), torch.randn(8, 1))), depth=1)
    assert table.loc["0", "parameters"] == 4 * 2 * 20
    assert table.loc["0", "kind"] == "Sequential"


class ByNumbers(nn.Module):
    """Its way depends on numbers: what it asks of them leads through its layers or around them."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm, self.around = nn.Linear(4, 1), nn.BatchNorm1d(1), nn.Linear(4, 1)

    def forward(self, x):
        if x.sum().item() > -1e9 and torch.all(x == x):
            return self.norm(self.layer(x))
        return self.around(x)


@pytest.mark.parametrize("batches", [False, True])
def test_which_way_a_module_goes_is_asked_of_a_batch_and_nothing_is_changed(batches):
    module = ByNumbers()
    arrays = (torch.randn(80, 4), torch.randn(80, 1))
    how = trained(module, loader(arrays) if batches else arrays)
    setup = {"model": module} | how
    before = numbers(setup)
    one = traintime.estimate(**setup, samples=80, batch_size=8, tier="formula")
    assert one.step.value > 0
    calls = traintime.module_memory(module, **how, batch_size=8)["calls"]
    assert {name: calls[name] for name in ("layer", "norm", "around")} == {"layer": 1, "norm": 1, "around": 0}
    assert numbers(setup) == before


class ByShapes(nn.Linear):
    """How large its tensors are depends on numbers."""

    def forward(self, x):
        return super().forward(x[x[:, 0] > 0])


def test_a_module_that_cannot_be_followed_is_probed_and_says_so():
    module = ByShapes(4, 1)
    asked = trained(module, PAIR, lambda y, wanted: y.mean()) | {"samples": 80, "batch_size": 8}
    one = traintime.estimate(module, **asked, seconds=1)
    assert one.terms is None
    assert any("cannot be followed" in note for note in one.notes)
    with pytest.raises(InputError, match="cannot be followed"):
        traintime.estimate(module, **asked, tier="formula")


class Raises(nn.Linear):
    def forward(self, x):
        raise ValueError("shapes that do not fit")


OTHER = torch.optim.SGD([torch.zeros(3, requires_grad=True)])  # which trains nothing of the module


def optimized(module):
    return {"model": module, "optimizer": torch.optim.SGD(module.parameters())}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"optimizer": None}, "optimizer"),
        ({"optimizer": OTHER}, "optimizer"),
        ({"optimizer": [OTHER] * 2}, "optimizer"),
        ({"data": torch.utils.data.TensorDataset(*PAIR)}, "data"),
        ({"loss": nn.MSELoss}, "loss"),
        ({"loss": "mse"}, "loss"),
        ({"loss": None}, "loss"),
        ({"data": None}, "data"),
        ({"data": (PAIR[0], PAIR[1][:5])}, "data"),
        ({"data": (PAIR[0][:0], PAIR[1][:0])}, "data"),
        ({"data": PAIR[0]}, "data"),
        ({"data": iter([])}, "data"),
        ({"data": iter([PAIR] * 3)}, "data: .* ended after 3 batches"),
        ({"data": [(1, 2, 3)] * 2}, "data"),
        ({"data": loader(PAIR), "batch_size": 5}, "batch_size"),
        ({"batch_size": None}, "batch_size"),
        ({"probe_batch": 2}, "probe_batch"),
        ({"model": nn.LazyLinear(3)}, "model"),
        (optimized(nn.Linear(4, 1, device="meta")) | {"tier": "probed"}, "model"),
        (optimized(Raises(4, 1)), "model: .*shapes that do not fit"),
    ],
)
def test_what_cannot_be_trained_is_refused_by_name(asked, said):
    module = nn.Linear(4, 1)
    usual = {"model": module} | trained(module, PAIR) | {"samples": 800, "batch_size": 4, "seconds": 1}
    with pytest.raises(InputError, match=rf"^{said}\b"):
        traintime.estimate(**usual | asked)


def test_a_file_may_return_a_module_and_what_trains_it(tmp_path):
    from traintime.predict.file import ask

    file = tmp_path / "train.py"
    file.write_text("""
import torch

def build():
    module = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    data = torch.randn(80, 4), torch.randn(80, 1)
    return {"model": module, "loss": torch.nn.functional.mse_loss, "optimizer": optimizer, "data": data}

def more():
    return build() | {"epochs": 3}
""")
    one = ask(f"{file}:build", samples=800, batch_size=8, seconds=1.0)
    assert one["tier"] == "probed"
    assert one["terms"]
    with pytest.raises(InputError, match="returned a dict with epochs"):
        ask(f"{file}:more", samples=800, batch_size=8, seconds=1.0)
