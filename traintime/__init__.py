"""Measure and explain how long a model trains and how much memory it needs."""

__version__ = "0.1.0"
