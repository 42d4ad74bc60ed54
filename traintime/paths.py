"""Where things lie in a checkout."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORKER = Path(__file__).resolve().parent / "worker"
LOCKS = ROOT / "env"
STACKS = ROOT / ".stacks"
PROFILES = ROOT / "profiles"
CHAPTERS = ROOT / "chapters"
ORIGINAL = ROOT / "data" / "original"
EXTERNAL = ROOT / "data" / "external"
MEASUREMENTS = ROOT / "data" / "measurements"
