"""What batch size claims, and how each claim is judged on a machine."""

from traintime.book.chapters.batch.analysis import (
    LARGE,
    SMALL,
    SWEPT,
    apart,
    by_batch,
    bytes_a_sentence,
    critical_batches,
    gain,
    lines,
    order,
    peaks,
)
from traintime.book.claims import Claim, Finding, above, below, every
from traintime.book.stored import Measurements


def _line_fits(book: Measurements) -> Finding:
    errors = {stack: fit.mean_error for stack, fit in lines(book, by_batch(book, SWEPT)).items()}
    close = [stack for stack, error in errors.items() if error <= 0.1]
    if len(errors) < 6:
        raise KeyError("fewer than six stacks ran")
    worst = max(errors, key=errors.__getitem__)
    shown = f"{len(close)} of {len(errors)} stacks; {errors[worst]:.0%} on {worst} at most"
    return Finding(len(close) >= 6, shown)


def _gains_less_than_eight(book: Measurements) -> Finding:
    gains = gain(book, by_batch(book))
    holds = every(*(verdict for each in gains.values() for verdict in (above(each, 1), below(each, LARGE / SMALL))))
    slow, fast = (pick(gains, key=lambda stack: gains[stack].value) for pick in (min, max))
    return Finding(holds, f"{gains[slow].text('.1f')} times on {slow} to {gains[fast].text('.1f')} times on {fast}")


def _software_decides(book: Measurements) -> Finding:
    least, most, ratio = apart(lines(book, by_batch(book)))
    return Finding(above(ratio, 3), f"{ratio.text('.0f')} times, {most} over {least}")


def _follows_the_price(book: Measurements) -> Finding:
    correlation = order(book, lines(book, by_batch(book)))
    return Finding(above(correlation, 0.5), correlation.text(".2f"))


def _memory_is_no_limit(book: Measurements) -> Finding:
    found = by_batch(book)
    peak, at = peaks(found), critical_batches(lines(book, found))["critical"]
    needed = (bytes_a_sentence(peak) * at).dropna()
    shares = needed / peak.loc[needed.index, SMALL]
    if shares.empty:
        raise KeyError("no batch above 128 ran")
    return Finding(bool(shares.max() < 1), f"{shares.max():.0%} of the peak on {shares.idxmax()} at most")


CLAIMS: list[Claim] = [
    Claim(
        "05.1",
        "A fixed part and a part per sentence give each stack's steps at batches of 8 to 1,024 back with a mean error "
        "of at most 10 %, on at least six stacks.",
        "ours",
        _line_fits,
    ),
    Claim(
        "05.2",
        "Eight times the batch, from 128 to 1,024, makes an epoch faster, by less than eight times, on every stack.",
        "S0, C3",
        _gains_less_than_eight,
    ),
    Claim(
        "05.3",
        "The critical batch differs by more than 3 times between the stacks of one machine.",
        "ours",
        _software_decides,
    ),
    Claim(
        "05.4",
        "The critical batch is the larger, the more a row of the table costs: their rank correlation over the stacks "
        "is above 0.5.",
        "ours",
        _follows_the_price,
    ),
    Claim(
        "05.5",
        "At the critical batch the sentences add less to the peak of memory than it is at a batch of 128.",
        "ours",
        _memory_is_no_limit,
    ),
]
