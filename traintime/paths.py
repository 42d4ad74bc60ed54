"""Where things lie in a checkout; of an installed package, which has no checkout, the data that came with it."""

import sysconfig
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent
WORKER = PACKAGE / "measuring" / "worker"
DEFERRED = PACKAGE / "deferred"
LOCKS = ROOT / "env"
STACKS = ROOT / ".stacks"
PROFILES = ROOT / "profiles"
CHAPTERS = ROOT / "chapters"
FIGURES = ROOT / "figures"
INSTALLED = Path(sysconfig.get_path("data")) / "share" / "traintime" / "data"
DATA = ROOT / "data" if (ROOT / "data" / "derived").is_dir() or not INSTALLED.is_dir() else INSTALLED
ORIGINAL = DATA / "original"
EXTERNAL = DATA / "external"
DERIVED = DATA / "derived"
MEASUREMENTS = DATA / "measurements"
TRIALS = DATA / "trials"
PREDICTED = DATA / "predicted"
BUILD = ROOT / "_build"
READER = BUILD / "reader"
TABLES = BUILD / "tables"
