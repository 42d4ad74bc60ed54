"""What how we measure claims, and how each claim is judged on a machine."""

import pandas as pd

from traintime.book import stored
from traintime.book.chapters.measuring.analysis import (
    ESTIMATES,
    PREDICTIONS,
    REPEATS,
    SLEPT,
    allocators,
    between,
    calls,
    ended_by_time,
    epochs,
    first_step,
    gain,
    gaps,
    inside,
    misses,
    most_missed,
    rank,
    sentinel,
    warm_up,
    zipf,
)
from traintime.book.claims import Claim, Finding, above, every, within
from traintime.book.stored import Measurements


def _scatter(book: Measurements) -> Finding | None:
    one, promised = between(sentinel(book)), inside(book)
    shown = f"{one.text('.0f', 100, '%')}, promised {promised:.1%}"
    return Finding(above(one, 2 * promised), shown)


def _faults(book: Measurements) -> Finding | None:
    one = rank(sentinel(book))
    return Finding(above(one, 0.3), f"rank correlation {one.text()}")


def _allocator(book: Measurements) -> Finding | None:
    row = allocators(book)
    holds = None if row["faster"] is None else row["faster"] == "tcmalloc"
    return Finding(holds, f"glibc / tcmalloc {stored.interval(row).text()}, {row['reason']}")


def _ten_runs(book: Measurements) -> Finding | None:
    noise = book.noise()
    noise = noise[noise["degrees"] >= REPEATS].set_index("stack")[10]
    if noise.empty:
        return None
    shown = f"{noise.min():.0%} ({noise.idxmin()}) to {noise.max():.0%} ({noise.idxmax()})"
    return Finding(bool(noise.max() < 0.2), shown)


def _ended(book: Measurements) -> Finding | None:
    last, others, number = ended_by_time(book)
    shown = f"last steps {last.text('.0f', 100, '%')}, others {others:.0%}, {number} runs"
    return Finding(above(last, others), shown)


def _gain(book: Measurements) -> Finding | None:
    means, medians, _ = gain(book)
    one = stored.interval(medians)
    holds = bool(means > one.high) if one.excludes(means) else None
    return Finding(holds, f"means {means:.2f}, medians {one.text()}")


def _first(book: Measurements) -> Finding | None:
    each = first_step(book)
    holds = every(*(above(one, 1.2) for one in each.values()))
    least = min(each, key=lambda stack: each[stack].value)
    return Finding(holds, f"least: {least} {each[least].text('.1f')}")


def _later(book: Measurements) -> Finding | None:
    later = warm_up(book).loc[4:]
    low, high = later.min(axis=None), later.max(axis=None)
    return Finding(bool(low > 0.7 and high < 1.4), f"{low:.2f} to {high:.2f} ({later.max().idxmax()})")


def _fit(book: Measurements) -> Finding | None:
    found = gaps(book)
    holds = every(*(within(stored.interval(row), 0.8, 1.3) for _, row in found.iterrows()))
    ends = found.loc[[found["ratio"].idxmin(), found["ratio"].idxmax()]]
    return Finding(holds, " to ".join(f"{stored.interval(row).text()} on {row['stack']}" for _, row in ends.iterrows()))


def _of_fifty(found: pd.DataFrame) -> pd.DataFrame:
    """The epochs that were foretold from fifty steps or more."""
    return found[found["steps"] >= 50]


def _foretold(book: Measurements) -> Finding | None:
    found = _of_fifty(epochs(book))
    if found.empty:
        return None
    off = misses(found).loc[PREDICTIONS, "worst"]
    shown = ", ".join(f"{ESTIMATES[name]} {worst:.0%}" for name, worst in off.items())
    return Finding(bool(off.max() < 0.2), f"worst: {shown}")


def _near(book: Measurements) -> Finding | None:
    found = _of_fifty(epochs(book))
    if found.empty:
        return None
    near = misses(found).loc[PREDICTIONS, "near"]
    shown = ", ".join(f"{ESTIMATES[name]} {number:.0f}" for name, number in near.items())
    return Finding(bool(near.min() == len(found)), f"of {len(found)} epochs: {shown}")


def _mean_is_best(book: Measurements) -> Finding | None:
    found = _of_fifty(epochs(book))
    if found.empty:
        return None
    rms = misses(found)["rms"]
    shown = f"root mean square {rms['mean']:.1%}, by the slope {rms['slope']:.1%}, {len(found)} epochs"
    return Finding(bool(rms["mean"] <= 0.06 and rms["mean"] < rms["slope"]), shown)


def _sleep(book: Measurements) -> Finding | None:
    found = calls(book)
    slept = found[found["idle_s"] > SLEPT]
    if slept.empty:
        return None
    missed = most_missed(slept)
    return Finding(missed < 0.05, f"missed by {missed:.1%} at most, {len(slept)} calls")


def _words(book: Measurements) -> Finding | None:
    found = zipf(book)
    holds = every(*(within(stored.interval(row), 0.85, 1.15) for _, row in found.iterrows()))
    return Finding(holds, f"{found['ratio'].min():.2f} to {found['ratio'].max():.2f} on {len(found)} stacks")


CLAIMS = [
    Claim(
        "02.1",
        "Runs of one and the same point scatter by more than twice what the steps inside a run promise.",
        "ours",
        _scatter,
    ),
    Claim(
        "02.2",
        "Of the runs of one point under glibc, those with more page faults take longer: rank correlation above 0.3.",
        "ours",
        _faults,
    ),
    Claim(
        "02.3",
        "At 20,000 rows TensorFlow 2.21 takes less time a step under tcmalloc than under glibc.",
        "ours",
        _allocator,
    ),
    Claim(
        "02.4",
        "With ten runs a side the noise floor is below 20 % on every stack.",
        "ours",
        _ten_runs,
    ),
    Claim(
        "02.5",
        "NumPy's runs that the clock could end do end after a slow step, 1.5 times the median or more, more often than "
        "their other steps are slow.",
        "ours",
        _ended,
    ),
    Claim(
        "02.6",
        "NumPy's gain from tcmalloc at 200,000 rows is larger by the means of the runs than by their medians.",
        "ours",
        _gain,
    ),
    Claim(
        "02.7",
        "The first step takes longer than a later one on every stack, at least 1.2 times.",
        "ours",
        _first,
    ),
    Claim(
        "02.8",
        "From the fourth step on the medians over runs lie between 0.7 and 1.4 of a later step, on every stack.",
        "ours",
        _later,
    ),
    Claim(
        "02.9",
        "One more step of `fit` takes between 0.8 and 1.3 times a single synchronised step, on every stack and size.",
        "ours",
        _fit,
    ),
    Claim(
        "02.10",
        "Fifty single steps, or short fits, foretell the training time of every epoch within 20 %.",
        "ours",
        _foretold,
    ),
    Claim(
        "02.11",
        "Fifty single steps, or short fits, foretell the training time of every epoch within 5 %.",
        "ours, as predicted",
        _near,
    ),
    Claim(
        "02.12",
        "Where `fit` on TensorFlow slept after its last step, it returned within 5 % of the time that the timer in "
        "TensorFlow's source foretells.",
        "ours",
        _sleep,
    ),
    Claim(
        "02.13",
        "Words drawn by Zipf's law instead of evenly change a step by less than 15 %, on every stack.",
        "ours",
        _words,
    ),
    Claim(
        "02.14",
        "The mean time of a step of short fits foretells whole epochs to a root mean square error of at most 6 %, and "
        "better than the slope between them does.",
        "ours, as predicted",
        _mean_is_best,
    ),
]
