"""What a model learns, beside how long it takes: trials with many seeds, so that a difference can be told from luck."""
