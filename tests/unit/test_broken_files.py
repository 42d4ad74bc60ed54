"""Files of real machines, broken in any way: the checker never ends in a traceback, and what it lets pass can be shown.

The same 300 files at each run; 10,000 others where faults are tried in full.
"""

import json
import re
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
    """A sweep of two machines on one stack, each in a folder of its own."""
    roots = {name: tmp_path_factory.mktemp("measurements") for name in SWEEPS}
    for name, root in roots.items():
        for path in (path for pattern in ("*.json", "**/2026-jax/*.json") for path in (MEASURED / name).glob(pattern)):
            raw = json.loads(path.read_text())
            if path.name not in records.BESIDE:
                raw["invocations"] = [run for run in raw["invocations"] if run["sweep"] == SWEEPS[name]]
            if path.name in records.BESIDE or raw["invocations"]:
                target = root / path.relative_to(MEASURED)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(json.dumps(raw))
        assert [each.sentence for each in check.findings(root) if each.fault] == []
    return roots


def places(value, before: Place = ()) -> list[Place]:
    """Every place in a JSON value, of a long list the first two."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    return [before, *(place for name, each in inner for place in places(each, (*before, name)))]


@st.composite
def broken(draw, names, text_of):
    """A file's name and its broken text: one value of a real one is replaced, taken out or renamed.

    And whether it is to be shown, too, if it passes: that takes a third of a second.
    """
    name = draw(st.sampled_from(names))
    whole = json.loads(text_of(name))
    *way, last = draw(st.sampled_from([place for place in places(whole) if place]))
    inner = whole
    for key in way:
        inner = inner[key]
    kind = draw(st.sampled_from([*["likely"] * 6, *["any"] * 3, "taken out", "renamed"]))
    if kind == "likely":
        inner[last] = draw(LIKELY.get(type(inner[last]), values))
    elif kind == "taken out":
        del inner[last]
    elif kind == "renamed" and isinstance(inner, dict):
        inner[draw(st.one_of(st.text(), st.sampled_from(MARKUP)))] = inner.pop(last)
    else:
        inner[last] = draw(values)
    return name, json.dumps(whole), draw(st.sampled_from([*[False] * 5, True]))


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
def test_of_a_broken_file_the_checker_says_what_is_wrong_or_it_can_be_shown(
    whole, in_full, monkeypatch, record_property
):
    monkeypatch.setattr(machine, "this", lambda *_: EPOCH)
    files = {path.relative_to(root).as_posix(): path for root in whole.values() for path in root.rglob("*.json")}
    texts = {name: path.read_text() for name, path in files.items()}
    seen = {"refused": 0, "passed": 0, "shown": 0}

    @settings(
        max_examples=10_000 if in_full else 300,
        derandomize=not in_full,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(broken(sorted(files), lambda name: texts[name]))
    def holds(case):
        name, text, show = case
        of_machine = name.split("/")[0]
        root = whole[of_machine]
        files[name].write_text(text)
        try:
            found = list(check.findings(root))
            if any(each.fault for each in found):
                seen["refused"] += 1
                return
            seen["passed"] += 1
            table(root, of_machine)
            if show:
                seen["shown"] += 1
                html = " ".join(shown(root, of_machine))
                assert set(re.findall(r"<(\w+)", html)) <= OURS
                assert not any(word in html for word in ("alert", "onerror", "javascript"))
        finally:
            files[name].write_text(texts[name])

    holds()
    assert min(seen.values()) > 2, seen
    record_property("tried", seen["refused"] + seen["passed"])
