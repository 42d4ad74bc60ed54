"""What `make derived` writes into data/derived, in order: a table may rest on those before it, the verdicts on all.

`python -m traintime.derive` writes everything again, with names of tables these alone.
"""

import functools
import sys

import pandas as pd

from traintime import paths
from traintime.explain import memory, points
from traintime.predict import cards, fits, record
from traintime.store import derived
from traintime.store.table import table


@functools.cache
def measured() -> pd.DataFrame:
    """Every invocation of every machine, a row each."""
    return table(paths.MEASUREMENTS)


TABLES = {
    "sweeps": lambda: points.derive_offsets(measured()),
    "spreads": lambda: points.derive_spreads(measured()),
    "runs": lambda: points.derive_runs(measured()),
    "steps": lambda: points.derive_steps(derived.read("runs"), derived.read("spreads")),
    "measured": lambda: points.derive_measured(measured()),
    "warm-up": lambda: derived.derive_warmup(derived.measured()),
    "memory": lambda: memory.derive(derived.measured()),
    "efficiencies": fits.efficiencies,
    "peaks": record.derive_peaks,
    "times": record.derive_times,
    "sleeps": record.derive_sleeps,
    "record": record.derive,
    "holdings": fits.memory_models,
    "cards": cards.derive,
    "card-costs": cards.derive_costs,
}


def main(*names: str) -> None:
    """Write these tables, or all of them and the verdicts."""
    for name in names or TABLES:
        derived.write(name, TABLES[name]())
    if not names:
        from traintime.book import verdicts  # here: what it imports may read a table

        verdicts.update()


if __name__ == "__main__":
    main(*sys.argv[1:])
