"""Measurement files: one a point, written whole or not at all, gathered in one table."""
