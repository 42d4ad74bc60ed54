"""The order of these tests: those that can share a process of a stack follow each other."""

from pathlib import Path

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Each stack's tests of a workload beside each other; the files of other folders stay where they are."""
    places = [place for place, item in enumerate(items) if Path(__file__).parent in item.path.parents]
    for place, item in zip(places, sorted((items[place] for place in places), key=_shared), strict=True):
        items[place] = item


def _shared(item):
    given = item.callspec.params if hasattr(item, "callspec") else {}
    # A test that no stack here can run is parametrised by nothing, which has no order.
    return str(given.get("stack", "")), str(given.get("workload", ""))
