"""A reader's notebook in JupyterLab, in a real browser: what JupyterLab itself makes of it (versions: tests/colab)."""

import contextlib
import json
import os
import re
import socket
import subprocess
import time
import urllib.request

import nbformat
import pytest

from traintime import paths

QUICK = "03-what-limits-a-step"  # times a few steps
OTHERS = ["11-theano-vs-tensorflow", "16-predict-yours"]
CHAPTERS = [QUICK, *(pytest.param(chapter, marks=pytest.mark.rest) for chapter in OTHERS)]
TOKEN = "for-this-test"
RAW = re.compile(r"\{[\w:-]+\}`|^:::", flags=re.MULTILINE)


@pytest.fixture
def lab(html, tmp_path):
    """Address of a JupyterLab that `traintime lab` serves; what the test changes in its folder is put back."""
    before = {path: path.read_bytes() for path in paths.READER.glob("*.ipynb")}
    config = {"ServerApp": {"allow_root": True, "open_browser": False}, "IdentityProvider": {"token": TOKEN}}
    (tmp_path / "jupyter_server_config.json").write_text(json.dumps(config))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"JUPYTER_CONFIG_DIR": str(tmp_path), "JUPYTER_PREFER_ENV_PATH": "0"}
    command = [paths.ROOT / ".venv" / "bin" / "traintime", "lab", "--port", str(port)]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{address}/api?token={TOKEN}", timeout=1).close()
            break
        except OSError:
            assert server.poll() is None, (tmp_path / "log").read_text()[-2000:]
            time.sleep(0.5)
    yield address
    server.terminate()
    server.wait(120)
    for path, content in before.items():
        path.write_bytes(content)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_runs_from_top_to_bottom_and_shows_no_raw_role(lab, browser, chapter):
    path = paths.READER / f"{chapter}.ipynb"
    page = browser.new_page(viewport={"width": 1280, "height": 2400})
    page.goto(f"{lab}/lab/tree/{chapter}.ipynb?token={TOKEN}&reset")
    page.wait_for_selector(".jp-Notebook .jp-RenderedMarkdown h1", timeout=300_000)
    # What is asked of a kernel that has not started is lost.
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for(timeout=300_000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        page.wait_for_timeout(2000)
        page.keyboard.press("Control+s")
        with contextlib.suppress(nbformat.reader.NotJSONError):  # read while it was being saved
            cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
            if all(cell.execution_count for cell in cells):
                break
    seen = ""
    for pause_ms in (100, 1000):  # what is scrolled into sight is drawn when there is time
        if "Take away" not in seen:
            page.locator(".jp-WindowedPanel-outer").first.evaluate("e => e.scrollTo(0, 0)")
            for _ in range(60):
                page.wait_for_timeout(pause_ms)
                seen += page.locator(".jp-Notebook").first.inner_text() + "\n"
                page.locator(".jp-WindowedPanel-outer").first.evaluate("e => e.scrollBy(0, 1500)")
    page.close()
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.source for cell in code if not cell.execution_count] == []
    outputs = [output for cell in code for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "error"] == []
    assert sum("image/svg+xml" in output.get("data", {}) for output in outputs) >= (3 if chapter == QUICK else 1)
    assert not RAW.search(seen)
    assert "Take away" in seen
