"""The book's figures: one visual language (look), and a module for each kind of figure."""

from traintime.book.plots.bars import implementations, parts, shares
from traintime.book.plots.lines import (
    along,
    apart,
    crossing,
    one_stack,
    predicted,
    ratios,
    residuals,
    steps,
    warm_up,
    ways,
)
from traintime.book.plots.look import WAY, save, short
from traintime.book.plots.rows import (
    causes,
    epoch_errors,
    over_truth,
    positions,
)
from traintime.book.plots.special import (
    document_tables,
    drawing,
    length_band,
    sentinel,
    timeline,
)
