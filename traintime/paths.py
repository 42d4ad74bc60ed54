"""Where things lie in a checkout."""

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
DATA = ROOT / "data"
ORIGINAL = DATA / "original"
EXTERNAL = DATA / "external"
DERIVED = DATA / "derived"
MEASUREMENTS = DATA / "measurements"
TRIALS = DATA / "trials"
PREDICTED = DATA / "predicted"
READER = ROOT / "_build" / "reader"
