"""The book's figures: one visual language (look), and a module for each kind of figure."""

from traintime.book.plots.bars import implementations, parts, shares, waits
from traintime.book.plots.lines import (
    along,
    crossing,
    one_stack,
    predicted,
    ratios,
    residuals,
    steps,
    warm_up,
)
from traintime.book.plots.look import save, short
from traintime.book.plots.rows import (
    causes,
    epoch_errors,
    over_truth,
    positions,
    tried,
)
from traintime.book.plots.special import (
    document_tables,
    drawing,
    length_band,
    sentinel,
    timeline,
)
