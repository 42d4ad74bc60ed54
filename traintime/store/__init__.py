"""Measurement files: one a point, written whole or not at all, upgraded when they are read, gathered in one table."""
