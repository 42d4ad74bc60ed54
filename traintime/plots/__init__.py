"""The book's figures: one visual language (look), and a module for each kind of figure."""

from traintime.plots.document import document_tables, length_band, parts, straight_lines
from traintime.plots.fits import predicted, residuals, shares
from traintime.plots.look import WAY, save, short
from traintime.plots.sweeps import epochs, exponents, ratios, steps, ways

__all__ = [
    "WAY",
    "document_tables",
    "epochs",
    "exponents",
    "length_band",
    "parts",
    "predicted",
    "ratios",
    "residuals",
    "save",
    "shares",
    "short",
    "steps",
    "straight_lines",
    "ways",
]
