"""Whether the sweeps of one machine were what the method asks for: interleaved, repeated where disturbed, complete.

Only invocations that recorded the sources that measured them are held to it; older ones were made by other rules.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from traintime.measuring.history import Withdrawal
from traintime.point import Point
from traintime.store import code
from traintime.store.records import Invocation

LONG_PAUSE = 3600.0  # seconds between two starts of one round that a reader should know of

Key = TypeVar("Key")


@dataclass(frozen=True)
class Remark:
    """One sentence about a folder. fault: something to mend; otherwise a note, so that nothing is silent."""

    sentence: str
    fault: bool = True


def note(sentence: str) -> Remark:
    """A remark that is no fault."""
    return Remark(sentence, False)


@dataclass(frozen=True)
class StoredRun:
    """One stored invocation with its place: the file's name, its number in it, and the point on its stack."""

    file: str
    index: int
    stack: str
    key: str
    point: Point
    sentinel: bool
    invocation: Invocation

    @property
    def where(self) -> str:
        """File and key, as every sentence begins."""
        return f"{self.file}: key invocations.{self.index}"

    @property
    def thing(self) -> tuple[bool, str, str]:
        """What was run: two runs of one thing are repeats."""
        return self.sentinel, self.stack, self.key


def check(machine: str, runs: list[StoredRun], withdrawn: list[Withdrawal], at_least: int) -> Iterator[Remark]:
    """Everything to say of the machine's sweeps. runs: all of the machine's; at_least: rounds of each point."""
    coded = [run for run in runs if run.invocation.code]
    for group in grouped(coded, lambda run: (run.thing, run.invocation.sweep, code.same(run.invocation.code))).values():
        yield from _one_protocol(group)
    for name, group in grouped(coded, lambda run: run.invocation.sweep).items():
        yield from _sweep(machine, name, group, withdrawn, at_least)


def grouped(runs: Iterable[StoredRun], key: Callable[[StoredRun], Key]) -> dict[Key, list[StoredRun]]:
    """The runs by what the key makes of them, in their order."""
    groups: dict[Key, list[StoredRun]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(groups)


def _one_protocol(runs: list[StoredRun]) -> Iterator[Remark]:
    first = runs[0].invocation.protocol
    for run in runs:
        if (protocol := run.invocation.protocol) != first:
            sweep, usual = run.invocation.sweep, f"{first.text} within {first.timeout_s:g} s"
            own = f"{protocol.text} within {protocol.timeout_s:g} s"
            yield Remark(f"{run.where}.protocol is {own}, others of the sweep {sweep} have {usual}")


def _sweep(
    machine: str, name: str, runs: list[StoredRun], withdrawn: list[Withdrawal], at_least: int
) -> Iterator[Remark]:
    """One sweep: what the newest sources of each stack measured; what older ones did is kept, and compared with none.

    A round is closed once a later one has begun; what the last one lacks may be on its way.
    """
    # Sources differ by workload, and the sentinel is always of one.
    codes = {_kind(run): code.same(run.invocation.code) for run in sorted(runs, key=lambda run: run.invocation.started)}
    newest = [run for run in runs if code.same(run.invocation.code) == codes[_kind(run)]]
    if older := len(runs) - len(newest):
        yield note(f"{machine}: {older} invocations of the sweep {name} were measured by older sources than the rest")
    if off := sum(run.invocation.rates_off for run in runs):
        yield note(
            f"{machine}: {off} invocations of the sweep {name} ran while the machine's rates had left their range"
        )
    yield from _once(newest, name)
    yield from _repeats(machine, name, newest, withdrawn)
    points = [run for run in newest if not run.sentinel]
    firsts = [run for run in points if not run.invocation.again]
    yield from _interleaved(machine, name, firsts)
    yield from _complete(machine, name, points, withdrawn, at_least)
    watched = {run.stack for run in runs if run.sentinel}
    for stack in sorted({run.stack for run in _closed(points)} - watched):
        yield Remark(f"{machine}/sentinel/{stack}: no run in the sweep {name}, so nobody can tell drift")


def _kind(run: StoredRun) -> tuple[str, str]:
    return run.stack, run.key.partition("-")[0]


def _closed(runs: list[StoredRun]) -> list[StoredRun]:
    """The runs of all rounds but the last."""
    last = max((run.invocation.round for run in runs), default=0)
    return [run for run in runs if run.invocation.round < last]


def _once(runs: list[StoredRun], sweep: str) -> Iterator[Remark]:
    times: Counter[tuple[object, ...]] = Counter()
    for run in runs:
        place = (run.thing, run.invocation.round, run.invocation.again)
        times[place] += 1
        if times[place] == 2:
            again = " again" if run.invocation.again else ""
            yield Remark(f"{run.where}: round {run.invocation.round} of the sweep {sweep} has it{again} already")


def _repeats(machine: str, sweep: str, runs: list[StoredRun], withdrawn: list[Withdrawal]) -> Iterator[Remark]:
    """What crashed or was disturbed is run once more in its round, and nothing else is, least of all for its value.

    A sentinel that was disturbed at the end of a killed sweep stays as it is: the resumed sweep needs it no more. What
    lost time to its host before that counted is waited for, and no error.
    """
    closed = {run.invocation.round for run in _closed([run for run in runs if not run.sentinel])}
    gone = {(row.stack, row.key) for row in withdrawn}
    waiting = []
    for (_, number), group in grouped(runs, lambda run: (run.thing, run.invocation.round)).items():
        first = next((run for run in group if not run.invocation.again), None)
        again = next((run for run in group if run.invocation.again), None)
        if first is None and again and (again.stack, again.key) not in gone:
            yield Remark(f"{again.where}.again is true, but round {number} of the sweep {sweep} has nothing it repeats")
        if first and again and first.invocation.settled:
            yield Remark(f"{again.where}.again is true, but what it repeats neither crashed nor was disturbed")
        if first and not again and not first.invocation.settled:
            late = first.invocation.stolen_before_it_counted
            if number in closed and not first.sentinel and not late:
                happened = "was disturbed" if first.invocation.disturbed else first.invocation.status
                yield Remark(f"{first.where} {happened}, and round {number} of the sweep {sweep} has no repeat of it")
            else:
                waiting.append(first)
    if waiting:
        number = len(waiting)
        yield note(f"{machine}: {number} invocations of the sweep {sweep} have no repeat yet, first {waiting[0].where}")


def _interleaved(machine: str, sweep: str, firsts: list[StoredRun]) -> Iterator[Remark]:
    """Both sides of a comparison stand in one round, and no other round of the sweep lies between them in time.

    A killed sweep goes on with the round that it was in, so the rule holds for it; the pause is noted. What was
    disturbed is repeated within its round or, after a kill, as the first thing later: repeats are left out.
    """
    rounds = sorted(grouped(firsts, lambda run: run.invocation.round).items())
    for place, (number, group) in enumerate(rounds):
        later = [run for _, runs in rounds[place + 1 :] for run in runs]
        following = min(later, key=_started, default=None)
        late = [run for run in group if following and _started(run) > _started(following)]
        if following and late:
            last, begin = max(late, key=_started), _started(following)
            yield Remark(
                f"{last.where}.started is {_started(last)}, in round {number} of the sweep {sweep}, after round"
                f" {following.invocation.round} had begun ({begin}): {len(late)} of the round's {len(group)} runs are"
                " not interleaved with what they are compared with"
            )
        times = sorted(datetime.fromisoformat(_started(run)) for run in group)
        pause = max(((b - a).total_seconds() for a, b in itertools.pairwise(times)), default=0.0)
        if pause > LONG_PAUSE:
            yield note(f"{machine}: round {number} of the sweep {sweep} was interrupted for {pause / 3600:.1f} hours")


def _started(run: StoredRun) -> str:
    return run.invocation.started


def _complete(
    machine: str, sweep: str, points: list[StoredRun], withdrawn: list[Withdrawal], at_least: int
) -> Iterator[Remark]:
    """Every closed round has every point of the sweep; a point that has enough rounds all the same is only noted."""
    closed = {run.invocation.round for run in _closed(points)}
    last = max((run.invocation.round for run in points), default=0)
    gone = Counter((row.stack, row.key) for row in withdrawn)
    things = grouped(points, lambda run: run.thing)
    for group in things.values():
        rounds = {run.invocation.round for run in group}
        missing = sorted(closed - rounds)
        if missing:
            which = f"round{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
            sentence = f"{group[0].file}: key invocations lacks {which} of the sweep {sweep}"
            enough = len(rounds) >= at_least or len(missing) <= gone[group[0].stack, group[0].key]
            yield Remark(sentence, fault=not enough)
    in_last = sum(any(run.invocation.round == last for run in group) for group in things.values())
    whole = len(closed) + (in_last == len(things))
    if things and (in_last < len(things) or whole < at_least):
        under_way = f"round {last} has {in_last} of {len(things)} configurations"
        yield note(
            f"{machine}: the sweep {sweep} is unfinished: {under_way}; whole rounds {whole} of {at_least} at least"
        )
