"""Statistics, the formula and the memory of a step: no process is started here."""
