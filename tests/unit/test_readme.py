"""What README says to type, as it stands there."""

import functools
import re

import pytest

import traintime
from traintime import paths
from traintime.predict import record
from traintime.predict.estimate import estimate

# Keras' own, of NumPy 2, wherever it hands a weight to NumPy.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

README = (paths.ROOT / "README.md").read_text()


@pytest.fixture
def shortly(monkeypatch):
    """Every question is probed for a second."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("keras")
    monkeypatch.setattr(traintime, "estimate", functools.partial(estimate, seconds=1), raising=False)
    return torch


def test_what_readme_says_of_a_models_estimate_runs(shortly, capsys):
    torch = shortly
    (first,) = (block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "estimate(" in block)
    names = {}
    exec(first, names)
    assert capsys.readouterr().out.startswith("training ")
    data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.zeros(64, 1))
    names |= {"module": (module := torch.nn.Linear(4, 1)), "loss": torch.nn.functional.mse_loss, "traintime": traintime}
    names |= {"optimizer": torch.optim.SGD(module.parameters(), lr=0.1)}
    names |= {"loader": torch.utils.data.DataLoader(data, batch_size=8), "train": lambda n: sum(range(10 * n))}
    calls = re.findall(r"`(traintime\.(?:estimate|largest)\(.*?\))`", README)
    assert len(calls) == 4
    for call in calls:
        assert str(eval(call, names)), call


def test_readme_quotes_the_record_that_an_answer_quotes():
    """As do the front page, whose answer is chapter 16's, and the first table of that chapter."""
    came = record.of("probed", "2026-jax")
    assert re.search(r"evidence +probed, [^;]* on jax[^;]*; (.*)\n", README)[1] == came.brief
    table = (paths.ROOT / "tests" / "golden" / "16.json").read_text().replace("\u2011", "-")
    probed = re.findall(r" \| (\d+) of (\d+) \|", re.search(r"(?s)probed: (.*?)scaled: ", table)[1])
    assert [sum(map(int, column)) for column in zip(*probed, strict=True)] == [came.held, came.models]
