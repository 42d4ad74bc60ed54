"""Where things lie in a checkout; of an installed package, which has no checkout, the data that came with it."""

from pathlib import Path

from traintime.errors import InputError

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent
WORKER = PACKAGE / "measuring" / "worker"
DEFERRED = PACKAGE / "deferred"
LOCKS = ROOT / "env"
STACKS = ROOT / ".stacks"
PROFILES = ROOT / "profiles"
CHAPTERS = ROOT / "chapters"
FIGURES = ROOT / "figures"
DATA = PACKAGE / "data" if (PACKAGE / "data").is_dir() else ROOT / "data"
ORIGINAL = DATA / "original"
EXTERNAL = DATA / "external"
DERIVED = DATA / "derived"
MEASUREMENTS = DATA / "measurements"
TRIALS = DATA / "trials"
PREDICTED = DATA / "predicted"
BUILD = ROOT / "_build"
READER = BUILD / "reader"


def of_checkout(place: Path) -> Path:
    """The file or folder; raises InputError for one of a checkout where the package is installed without."""
    if DATA.parent == PACKAGE and place.is_relative_to(ROOT):
        remedy = "Run the command in a copy of the repository, after make setup: .venv/bin/traintime."
        raise InputError("folder", place.name, "needs a checkout of the book, and traintime came without one", remedy)
    return place
