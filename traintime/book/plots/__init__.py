"""The book's figures: one visual language (look), and a module for each kind of figure."""

from traintime.book.plots.document import document_tables, length_band, parts, straight_lines
from traintime.book.plots.fits import predicted, residuals, shares
from traintime.book.plots.look import WAY, save, short
from traintime.book.plots.mechanism import dense_update
from traintime.book.plots.noise import faults, foretold, sentinel, warm_up
from traintime.book.plots.roofline import ladder, roofline, speed_ups
from traintime.book.plots.sweeps import collapsed, crossing, epochs, exponents, gains, one_stack, ratios, steps, ways

__all__ = [
    "WAY",
    "collapsed",
    "crossing",
    "dense_update",
    "document_tables",
    "epochs",
    "exponents",
    "faults",
    "foretold",
    "gains",
    "ladder",
    "length_band",
    "one_stack",
    "parts",
    "predicted",
    "ratios",
    "residuals",
    "roofline",
    "save",
    "sentinel",
    "shares",
    "short",
    "speed_ups",
    "steps",
    "straight_lines",
    "warm_up",
    "ways",
]
