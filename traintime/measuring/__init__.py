"""Start a worker in a software stack, time its steps, keep what it saw; check what is kept."""
