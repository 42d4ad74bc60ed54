"""The book's figures: one visual language (look), and a module for each kind of figure."""

from traintime.plots.document import document_tables, length_band, parts, straight_lines
from traintime.plots.look import save, short
from traintime.plots.sweeps import steps, ways

__all__ = ["document_tables", "length_band", "parts", "save", "short", "steps", "straight_lines", "ways"]
