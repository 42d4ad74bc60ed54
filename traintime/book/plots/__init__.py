"""The book's figures: one visual language (look), and a module for each kind of figure."""

from traintime.book.plots.changes import changed, tried, waits
from traintime.book.plots.document import document_tables, length_band, parts
from traintime.book.plots.fits import over_truth, predicted, residuals, shares
from traintime.book.plots.layers import along, apart, causes, implementations, losses, positions
from traintime.book.plots.look import WAY, save, short
from traintime.book.plots.mechanism import (
    against_cache,
    dense_update,
    joined_maps,
    replayed_row,
    rounds,
    tiers,
    timeline,
)
from traintime.book.plots.memory import copies, freed, held_parts, memory_of_a_step
from traintime.book.plots.noise import epoch_errors, sentinel, warm_up
from traintime.book.plots.profiles import image_and_pages, own_times, relative_to_one
from traintime.book.plots.roofline import cards, ladder, roofline, speed_ups
from traintime.book.plots.structures import depths, left_out
from traintime.book.plots.sweeps import (
    by_width,
    collapsed,
    crossing,
    epochs,
    exponents,
    gains,
    one_stack,
    ratios,
    steps,
    ways,
)
