"""What Lighthouse and axe say of the built pages: `make bench-pages`.

Lighthouse opens each page three times as a slow phone does, from a server that compresses what it sends, as those of
static pages do. axe looks at the pages in light and dark. Both come from npm, once, into _build/node.
"""

import contextlib
import functools
import gzip
import http.server
import json
import os
import shutil
import statistics
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from traintime import paths
from traintime.book import printed
from traintime.errors import InputError

PACKAGES = ("lighthouse@12.2.3", "axe-core@4.10.3")
NODE = paths.BUILD / "node"
PAGES = ("index.html", "calculator.html", "chapters/03-vocabulary.html", "chapters/14-one-formula.html")
GOALS = {"performance": 95, "accessibility": 95, "best-practices": 95, "seo": 95}  # of 100
TIMES = 3
PHONE = {"width": 390, "height": 844}


class Compressing(http.server.SimpleHTTPRequestHandler):
    """A folder's files, compressed."""

    def do_GET(self) -> None:
        """Answer one request."""
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        body = gzip.compress(path.read_bytes())
        self.send_response(200)
        for name, value in (
            ("Content-Type", self.guess_type(str(path))),
            ("Content-Encoding", "gzip"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "max-age=600"),  # as on GitHub Pages
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which the folder's files are served meanwhile."""
    handler = functools.partial(Compressing, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def install() -> None:
    """Fetch Lighthouse and axe, where they are not here yet.

    Raises InputError without npm, RuntimeError with npm's words where it fails.
    """
    if not shutil.which("npm"):
        raise InputError("bench-pages", "npm", "is not here", "Install Node.js with npm and try again.")
    NODE.mkdir(parents=True, exist_ok=True)
    answer = subprocess.run(
        ["npm", "install", "--prefix", str(NODE), "--no-audit", "--no-fund", "--prefer-offline", *PACKAGES],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise RuntimeError(f"npm failed:\n{answer.stderr[-3000:]}")


def scores(address: str) -> dict[str, float]:
    """Lighthouse's scores of a page by category, of 100; "kilobytes": what the page moved. Raises RuntimeError."""
    command = [str(NODE / "node_modules" / ".bin" / "lighthouse"), address, "--output=json", "--quiet"]
    command += [f"--only-categories={','.join(GOALS)}", "--chrome-flags=--headless=new --no-sandbox --disable-gpu"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise RuntimeError(f"Lighthouse failed on {address}:\n{answer.stderr[-3000:]}")
    report = json.loads(answer.stdout)
    found = {name: 100 * category["score"] for name, category in report["categories"].items()}
    return found | {"kilobytes": report["audits"]["total-byte-weight"]["numericValue"] / 1000}


def violations(address: str) -> list[str]:
    """What axe finds on the pages, on a phone, in light and dark; a line each."""
    found = []
    with printed.chromium() as browser:
        for name in PAGES:
            for scheme in ("light", "dark"):
                page = browser.new_page(viewport=PHONE, color_scheme=scheme)
                page.goto(f"{address}/{name}")
                page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
                page.add_script_tag(path=NODE / "node_modules" / "axe-core" / "axe.min.js")
                for rule in page.evaluate("axe.run().then(found => found.violations)"):
                    places = "; ".join(" ".join(node["target"]) for node in rule["nodes"][:3])
                    found.append(f"{name}, {scheme}: {rule['id']} ({rule['impact']}), {len(rule['nodes'])}: {places}")
                page.close()
    return found


def main() -> None:
    """Print the median of three scores of each page next to its goal, and what axe finds."""
    built = paths.BUILD / "html"
    if not (built / "index.html").exists():
        raise InputError("bench-pages", str(built), "is not built", "Build the book first: make book.")
    install()
    table = Table("", *(f"{name} (goal {goal})" for name, goal in GOALS.items()), "KB moved")
    with served(built) as address:
        for name in PAGES:
            runs = [scores(f"{address}/{name}") for _ in range(TIMES)]
            table.add_row(name, *(f"{statistics.median(run[key] for run in runs):.0f}" for key in runs[0]))
        found = violations(address)
    console = Console()
    console.print(table)
    console.print(f"Medians of {TIMES}; the machine's load in the last minute: {os.getloadavg()[0]:.1f}")
    console.print("axe: " + ("\n".join(found) or "nothing found"), markup=False)
