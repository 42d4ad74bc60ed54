"""The book's figures: one visual language (look), and a module for each kind of figure."""

from traintime.book.plots.changes import changed, waits
from traintime.book.plots.document import document_tables, length_band, parts, straight_lines
from traintime.book.plots.fits import predicted, residuals, shares
from traintime.book.plots.layers import along, apart, causes, losses, positions
from traintime.book.plots.look import WAY, save, short
from traintime.book.plots.mechanism import dense_update
from traintime.book.plots.memory import held, step_memory
from traintime.book.plots.noise import faults, foretold, sentinel, warm_up
from traintime.book.plots.predictions import foretellings
from traintime.book.plots.profiles import flames, own_times, per_image
from traintime.book.plots.roofline import ladder, roofline, speed_ups
from traintime.book.plots.structures import against, depths
from traintime.book.plots.sweeps import collapsed, crossing, epochs, exponents, gains, one_stack, ratios, steps, ways

__all__ = [
    "WAY",
    "against",
    "along",
    "apart",
    "causes",
    "changed",
    "collapsed",
    "crossing",
    "dense_update",
    "depths",
    "document_tables",
    "epochs",
    "exponents",
    "faults",
    "flames",
    "foretellings",
    "foretold",
    "gains",
    "held",
    "ladder",
    "length_band",
    "losses",
    "one_stack",
    "own_times",
    "parts",
    "per_image",
    "positions",
    "predicted",
    "ratios",
    "residuals",
    "roofline",
    "save",
    "sentinel",
    "shares",
    "short",
    "speed_ups",
    "step_memory",
    "steps",
    "straight_lines",
    "waits",
    "warm_up",
    "ways",
]
