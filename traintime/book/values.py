"""What a machine's measurements give by name (mostly a stack), with how it is written: judged, or put into a sentence.

    claim(5, "With the table frozen, a row costs less than 5 % …", lambda book: shares(book, "frozen") < 0.05)

judges, and in a chapter's text `{eval}` with `shares(book, "frozen").most` writes the largest share.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from traintime.book.claims import Finding, Limits
from traintime.book.stored import measured
from traintime.errors import unknown
from traintime.explain.statistics import Estimated, Interval
from traintime.measuring import stacks

FEW = 3  # values that a figure shows all of; of more it shows the one that decides


@dataclass(frozen=True)
class Value(Estimated):
    """One of Values: an interval with its name and how it is written. As a text it has its ends; `alone` has none."""

    name: str = ""
    spec: str = ".2f"
    scale: float = 1.0
    unit: str = ""
    exact: bool = False

    def __str__(self) -> str:
        return self.alone if self.exact else self.text(self.spec, self.scale, self.unit)

    @property
    def alone(self) -> str:
        """The value as a text without its ends."""
        return Interval(self.value).text(self.spec, self.scale, self.unit)

    @property
    def named(self) -> str:
        """The value with its name: "59% on numpy"."""
        return f"{self.alone} on {self.name}"

    @property
    def ends(self) -> str:
        """The interval as a text without the value: "1.10 to 1.31"."""
        return f"{self.low * self.scale:{self.spec}} to {self.high * self.scale:{self.spec}} {self.unit}".rstrip()


class Exact(Interval):
    """A value that is counted or computed, and has no error."""

    def text(self, spec: str = ".2f", scale: float = 1.0, unit: str = "") -> str:
        """The value alone."""
        return Interval(self.value).text(spec, scale, unit)


class Values(Mapping[str, Value]):
    """Intervals by name. `values > 1` is a Finding: whether every one lies there.

    spec, scale, unit: how each is written (Interval.text). A name, or a place, that was not measured is a KeyError:
    a claim that looks for it is not measured, and a page says so in its sentence; a mistyped stack is an InputError.
    missing: what was not found where there are none.
    """

    def __init__(
        self,
        by_name: Mapping[Any, Interval],
        spec: str = ".2f",
        scale: float = 1.0,
        unit: str = "",
        missing: str = "not measured",
    ) -> None:
        self.by_name = by_name
        self.missing = missing
        self.how = {"spec": spec, "scale": scale, "unit": unit}

    def __getitem__(self, name: str) -> Value:
        of = self._interval(name)
        return Value(of.value, of.low, of.high, of.degrees, str(name), exact=isinstance(of, Exact), **self.how)

    def _interval(self, name: str) -> Interval:
        """Raises InputError for what is no stack where all others are."""
        if name not in stacks.KNOWN and self.by_name and self.by_name.keys() <= stacks.KNOWN.keys():
            raise unknown("stack", name, list(stacks.KNOWN))
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    @property
    def in_order(self) -> list[Value]:
        """All of them from the least to the largest. Raises KeyError without any."""
        return sorted(measured(list(self.values()), self.missing), key=lambda number: number.value)

    @property
    def least(self) -> Value:
        """The smallest."""
        return self.in_order[0]

    @property
    def most(self) -> Value:
        """The largest."""
        return self.in_order[-1]

    @property
    def next_most(self) -> Value:
        """The second largest."""
        return self.in_order[-2]

    @property
    def mean(self) -> str:
        """The arithmetic mean of the values as a text."""
        values = [number.value for number in self.in_order]
        return Interval(sum(values) / len(values)).text(**self.how)

    @property
    def range(self) -> str:
        """The smallest and the largest as a text: "3.2 to 22"."""
        unit = self.how["unit"]
        return f"{self.least.alone.removesuffix(unit).rstrip()} to {self.most.alone}"

    def only(self, *names: str) -> "Values":
        """Those of these names. Raises KeyError where one is missing."""
        return type(self)({name: self._interval(name) for name in names}, **self.how)

    def inverse(self, work: float = 1) -> "Values":
        """Times as long, of times as fast: with so many times the work."""
        turned = {
            name: replace(of, value=work / of.value, low=work / of.high, high=work / of.low)
            for name, of in self.by_name.items()
        }
        return type(self)(turned, **self.how)

    def written(self, spec: str = ".2f", scale: float = 1.0, unit: str = "") -> "Values":
        """The same in another form."""
        return type(self)(self.by_name, spec, scale, unit)

    def within(self, low: float, high: float) -> Finding:
        """Whether every one lies between two limits. Raises KeyError without any.

        One value refutes it where its interval is outside though it is one of so many (Interval.one_of). The figure:
        all values, or of many the one nearest to a limit, or the farthest that refutes.
        """
        limits, values = Limits(low, high), measured(self.by_name, self.missing)
        each = [limits(value) for value in values.values()]
        of_so_many = [limits(value.one_of(len(values))) for value in values.values()]
        holds = False if False in of_so_many else True if set(each) == {True} else None
        texts = {name: f"{name} {value.text(**self.how)}".strip() for name, value in values.items()}
        if len(texts) <= FEW:
            return Finding(holds, "; ".join(texts.values()))
        deciding = [name for name, one in zip(values, of_so_many, strict=True) if one is holds is False]
        told = min(deciding or values, key=lambda name: limits.margin(values[name]))
        how = "farthest" if deciding and not holds else "closest"
        return Finding(holds, f"{texts[told]}, the {how} of {len(values)}")

    def __gt__(self, limit: float) -> Finding:
        return self.within(limit, float("inf"))

    def __lt__(self, limit: float) -> Finding:
        return self.within(-float("inf"), limit)


def exact(by_name: Mapping[Any, float], spec: str = ".2f", scale: float = 1.0, unit: str = "") -> Values:
    """Values that are counted or computed and have no error: a count, an arithmetic, one maximum over errors."""
    return Values({name: Exact(value, value, value) for name, value in by_name.items()}, spec, scale, unit)


def quantity(find: Callable[..., Values]) -> Callable[..., Values]:
    """A function that gives Values of a machine: worked out once, and empty where the machine lacks its points."""

    @functools.cache
    @functools.wraps(find)
    def given(*asked: Any, **more: Any) -> Values:
        try:
            return find(*asked, **more)
        except (KeyError, IndexError) as problem:
            return Values({}, missing=str(problem))

    return given
