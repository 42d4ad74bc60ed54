"""Files of real machines, broken at random: the checker never ends in a traceback, and what passes can be shown."""

import functools
import json
import operator
import re
from collections import Counter
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traintime import paths
from traintime.book import page
from traintime.explain import points
from traintime.measuring import check, machine
from traintime.store import records
from traintime.store.table import table

MEASURED = paths.MEASUREMENTS
EPOCH, CARD = "amd-epyc-family26-model2-2-cores-24-gib", "intel-xeon-family6-model207-16-cores-126-gib-nvidia-h200"
SWEEPS = {EPOCH: "epoch", CARD: "gpu-vocabulary"}
MARKUP = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "<!--", "`<b>`"]
MARKUP += ["$\\href{javascript:alert(1)}{x}$", "{eval}`1`", "**b**", '"onmouseover="x']
HOSTILE = [*MARKUP, "", "x" * 5_000, "\x1b[31m", "a\nb", "2026-99-01T00:00:00Z", "gpu", "numpy", "../../etc", "missing"]
HOSTILE += [0, 1, -7, 0.5, 1e308, 10**18, 10**400, float("nan"), float("inf"), True, None, [], {}, [[]], {"a": 1}]
values = st.one_of(st.sampled_from(HOSTILE), st.text(), st.integers(), st.floats())
# What may well pass for a value of the type
LIKELY = {
    int: st.one_of(st.sampled_from([1, 2, 10, 10**6, 10**9, 10**12, 10**15, 10**16]), st.integers(1, 10**6)),
    float: st.one_of(st.sampled_from([0.0, 1e-9, 1e-3, 1.0, 1e9]), st.floats(1e-6, 1e6)),
    str: st.sampled_from(["OpenBLAS Zen", "a", "0.1+x", "Intel(R) Xeon(R) CPU @ 2.0GHz", "2026-01-02T03:04:05Z"]),
}
Place = tuple[str | int, ...]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The texts of a sweep of two machines on one stack, and for each machine a folder that holds them."""
    texts, roots = {}, {name: tmp_path_factory.mktemp("measurements") for name in SWEEPS}
    for name, root in roots.items():
        for path in (path for pattern in ("*.json", "**/2026-jax/*.json") for path in (MEASURED / name).glob(pattern)):
            raw, place = json.loads(path.read_text()), path.relative_to(MEASURED)
            if path.name not in records.BESIDE:
                raw["invocations"] = [run for run in raw["invocations"] if run["sweep"] == SWEEPS[name]]
            if path.name in records.BESIDE or raw["invocations"]:
                texts[place.as_posix()] = json.dumps(raw)
                (root / place).parent.mkdir(parents=True, exist_ok=True)
                (root / place).write_text(json.dumps(raw))
        assert not any(each.fault for each in check.findings(root))
    return texts, roots


def places(value, before: Place = ()) -> list[Place]:
    """Every place in a JSON value, of a long list the first two."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    return [before, *(place for name, each in inner for place in places(each, (*before, name)))]


@st.composite
def broken(draw, texts):
    """A file's name and its broken text: one value of a real one is replaced, taken out or renamed."""
    name = draw(st.sampled_from(sorted(texts)))
    whole = json.loads(texts[name])
    *way, last = draw(st.sampled_from(places(whole)[1:]))
    inner = functools.reduce(operator.getitem, way, whole)
    kind = draw(st.sampled_from([*["likely"] * 6, *["any"] * 3, "taken out", "renamed"]))
    value = inner.pop(last)
    if kind == "renamed" and isinstance(inner, dict):
        inner[draw(st.one_of(st.text(), st.sampled_from(MARKUP)))] = value
    elif kind != "taken out":
        new = draw(LIKELY.get(type(value), values) if kind == "likely" else values)
        inner.insert(last, new) if isinstance(inner, list) else inner.update({last: new})
    return name, json.dumps(whole)


def shown(root, name):
    """All that pages and `table` make of a folder, as HTML."""
    rows = table(root, name)
    points.noise_table(rows)
    points.points(rows)
    measured = points.derive_measured(rows)
    with (
        mock.patch.object(page.derived, "read", lambda _: measured),
        mock.patch.object(page.machines, "titles", lambda: {name: name}),
    ):
        return [page.made_by(name).data]


OURS = {"details", "summary", "p", "em", "strong", "code", "div", "table", "thead", "tbody", "tr", "th", "td", "br"}


@pytest.mark.fault(
    "A measurement file from a stranger is broken at random, or hostile",
    "the checker names what is wrong, or the file can be shown; no traceback, and no markup on a page",
)
@pytest.mark.timeout(3_600)
def test_the_checker_says_what_is_wrong_with_a_file_or_it_can_be_shown(whole, in_full, monkeypatch, record_property):
    monkeypatch.setattr(machine, "this", lambda *_: EPOCH)
    texts, roots = whole
    seen = Counter()

    how = {"max_examples": 10_000, "derandomize": False} if in_full else {"max_examples": 300}

    @settings(database=None, suppress_health_check=list(HealthCheck), **how)
    # A page takes a third of a second to make: only some are.
    @given(broken(texts), st.sampled_from([*[False] * 5, True]))
    def holds(case, show):
        name, text = case
        of_machine = name.split("/")[0]
        path = roots[of_machine] / name
        path.write_text(text)
        try:
            remarks = list(check.findings(roots[of_machine]))
            if any(each.fault for each in remarks):
                seen["refused"] += 1
                return
            seen["passed"] += 1
            table(roots[of_machine], of_machine)
            if show:
                seen["shown"] += 1
                html = " ".join(shown(roots[of_machine], of_machine))
                assert set(re.findall(r"<(\w+)", html)) <= OURS
                assert not any(word in html for word in ("alert", "onerror", "javascript"))
        finally:
            path.write_text(texts[name])

    holds()
    assert min(seen[each] for each in ("refused", "passed", "shown")) > 2, seen
    record_property("tried", seen["refused"] + seen["passed"])
