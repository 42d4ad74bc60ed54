"""The book's figures: one visual language (look), and a module for each kind of figure."""

from traintime.book.plots.lines import (
    one_stack,
    steps,
)
from traintime.book.plots.look import save, short
from traintime.book.plots.rows import (
    causes,
)
from traintime.book.plots.special import (
    drawing,
    timeline,
)
