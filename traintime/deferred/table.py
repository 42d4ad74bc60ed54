"""The table as a variable, and what is kept of its rows: read by lookups, written by deferred.Adam alone."""

import importlib
import sys
import threading
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from traintime.deferred.arithmetic import AGE, CURRENT, CYCLE, EPSILON, IDENTITY, MADE, PROBLEM, ROOM, STEPS
from traintime.errors import InputError

BACKENDS = ("tensorflow", "torch", "jax")
TERMS = 12  # coefficients of a step, at most
BLOCK = 16_384  # rows that are brought up to date at once
TRAINS = ("fit", "train_on_batch")  # methods of a model
JAX = keras.backend.backend() == "jax"
INSTEAD = "Write model.compile(traintime.deferred.Adam(...)), or take keras.layers.Embedding."

# By number, since a graph of JAX's can raise nothing: it writes the number down, to be told when it has ended.
PROBLEMS = {
    1: (
        "gradients",
        "were changed on their way to the optimizer, or are of a lookup in a scan, a vmap or a checkpoint",
        "On JAX scale the loss in their place, clip none of them, add up losses, and look all rows up at once.",
    ),
    2: ("inputs", "were given a number that is no row", "Look at the data, or give the layer more rows."),
    3: (
        "optimizer",
        "was last trained by another one, or at another step of this one",
        "Compile the model with a new traintime.deferred.Adam, or restore table and optimizer together.",
    ),
    5: (
        "gradients",
        "have a part that no lookup made",
        "Use the table by lookups alone, without a penalty on it, or take keras.layers.Embedding.",
    ),
    4: ("optimizer", "is a table that only traintime.deferred.Adam can train", INSTEAD),
}


def rows_of() -> Any:
    """The module that reads and writes rows of this backend's variables. Raises InputError where there is none."""
    name = keras.backend.backend()
    if name not in BACKENDS:
        remedy = f"Set KERAS_BACKEND to one of: {', '.join(BACKENDS)}; or take keras.layers.Embedding."
        raise InputError("backend", name, "has no deferred embedding yet", remedy)
    return importlib.import_module(f"traintime.deferred.on_{name}")


def problem(kind: int, path: str) -> InputError:
    """The error for what a step found wrong with a table."""
    field, what, remedy = PROBLEMS[kind]
    return InputError(field, path, what, remedy)


class Owned(keras.Variable):
    """A variable that deferred.Adam alone may train. Any other optimizer of Keras asks it, and is told no."""

    table: Any = None

    @property
    def overwrite_with_gradient(self) -> bool:
        """Raises InputError: whoever asks would train the table in another way."""
        if JAX:
            rows_of().spare()
        raise problem(4, self.path)

    def numpy(self) -> Any:
        """A copy, all rows up to date. Nothing is written: another thread may train meanwhile."""
        place = [one is self for one in self.table.by_row]
        return self.table.copy(place.index(True)) if any(place) else ops.convert_to_numpy(self.value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.numpy().astype(dtype or np.float32, copy=False)


@dataclass(frozen=True)
class Step:
    """A step of a table that is coming: which rows (None: it has no gradient and stays), and its state before, after.

    kind: the problem that forbids it, 0 for none.
    """

    table: "Table"
    ids: Any
    gradient: Any
    before: Any
    after: Any
    kind: Any


class Table(Owned):
    """The rows as steps write them, some of them behind.

    moments, state: as in deferred.arithmetic; missed: what a row misses since each step, shape (ROOM, TERMS), of which
    `terms` are used.
    """

    moments: Any
    missed: Any
    state: Any
    terms, writes = TERMS, 0

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers in a row, and coefficients that are used."""
        return self.shape[1], self.terms

    @property
    def by_row(self) -> tuple[Any, Any]:
        """What has a row for each row."""
        return self, self.moments

    def now(self, ids: Any) -> tuple[Any, Any, Any]:
        """These rows as they were written, their moments, and what they have missed."""
        take = rows_of().take
        moments = take(self.moments, ids)
        return take(self, ids), moments, take(self.missed, ops.cast(moments[:, -1], "int32"))

    def settled(self, ids: Any) -> tuple[Any, Any]:
        """These rows and their moments up to date."""
        return rows_of().settled(*self.now(ids), self.state.value, *self.sizes)

    def step(self, given: dict[int, Any], optimizer: Any) -> Step:
        """What a step of the optimizer will do, by the gradients of variables by their id; nothing is written.

        An optimizer that begins finds moments of zero, as Keras' own does; any other has to follow its last step here.
        """
        rows = rows_of()
        ids, gradient, kind = rows.split(self, given)
        xp, moves = rows.numbers, int(ids is not None)
        state, made, identity = rows.known(self.state, optimizer.iterations, optimizer.identity)
        own = optimizer.own
        begins = (made == 0) & (state[IDENTITY] != identity)
        follows = begins | ((state[IDENTITY] == identity) & (made == state[MADE]))
        fits = xp.all(state[EPSILON:CURRENT] == own) | (state[CURRENT] == 1)  # what is owed is owed as of before
        kind = xp.where(state[PROBLEM] > 0, state[PROBLEM], xp.where(follows & fits, kind, 3))
        # Of a table that nobody has trained all moments are zero, whoever's they are.
        steps, age = state[STEPS], xp.where(begins, xp.where(state[IDENTITY] == 0, ROOM, 0), state[AGE])
        before = xp.stack([steps, made, identity, age, *own, state[CURRENT], state[PROBLEM]])
        age, current = xp.where(age < ROOM, age + moves, age), state[CURRENT] * (1 - moves)
        after = xp.stack([(steps + moves) % ROOM, (made + 1) % CYCLE, identity, age, *own, current, state[PROBLEM]])
        return Step(self, ids, gradient, before, after, kind)

    def turn(self, steps: Any, each: int = 1) -> tuple[Any, int]:
        """Rows whose turn it is to be brought up to date, before ROOM runs out: where they begin, and how many.

        each: steps in which this is asked for once. The count of steps begins anew now and then: half of ROOM will do.
        """
        per = -(-self.shape[0] // ((ROOM // 2 - 1) // each))
        turns = -(-self.shape[0] // per)
        return (steps // each % turns) * per, per

    def settle(self) -> None:
        """Bring all rows up to date, as dense Adam would have left them.

        Raises InputError for what a step had found wrong, and while another thread trains them.
        """
        rows = rows_of()
        if not rows.alive(self):
            return
        state = self._state()
        if state[CURRENT]:
            return
        self._alone()
        for ids in self._blocks():
            for variable, values in zip(self.by_row, self.settled(ids), strict=True):
                rows.put(variable, ids, values)
        state[CURRENT] = 1
        self.state.assign(state)

    def _blocks(self) -> Any:
        for start in range(0, self.shape[0], BLOCK):
            yield ops.arange(start, min(start + BLOCK, self.shape[0]), dtype="int32")

    def _state(self) -> Any:
        """A copy of the numbers of the table. Raises InputError, once, for what a step has found wrong."""
        state = ops.convert_to_numpy(self.state.value).copy()
        if kind := int(state[PROBLEM]) or (JAX and rows_of().moved(self)):
            state[PROBLEM] = 0
            self.state.assign(state)
            raise problem(kind, self.path)
        return state

    def copy(self, place: int) -> Any:
        """The table (0) or its moments (1) in NumPy, all rows up to date. Raises InputError as `settle` does."""
        self._state()
        whole, start = np.empty(self.by_row[place].shape, np.float32), 0
        for ids in self._blocks():
            whole[start : start + len(ids)] = ops.convert_to_numpy(self.settled(ids)[place])
            start += len(ids)
        return whole

    def assign(self, value: Any) -> Any:
        """Set all rows. What they owed, those owed that they replace."""
        self.writes += 1
        if self.table is not None and rows_of().alive(self):  # else it is being made, or Keras puts back what it took
            behind = not ops.convert_to_numpy(self.state.value)[CURRENT]
            if behind and not JAX and ops.is_tensor(value):
                remedy = "Call the layer's settle() before you compute it, or hand on NumPy's numbers."
                raise InputError("embeddings", self.path, "is set by a tensor while its rows are behind", remedy)
            value = value.numpy() if isinstance(value, Table) else value
            self.settle()
            if JAX:  # which gives a step the memory of what it replaces, whoever has it
                value = np.array(value)
        elif self.table is not None and not JAX:
            remedy = "Set it between two steps, in a callback for instance."
            raise InputError("embeddings", self.path, "is a table that is set within a step", remedy)
        return super().assign(value)

    def begin(self, optimizer: Any) -> None:
        """Let an optimizer know the table: what is owed by other decays is paid first."""
        if rows_of().alive(self):
            state = ops.convert_to_numpy(self.state.value)  # empty where a graph will make it
            if state.size and (state[EPSILON:CURRENT] != optimizer.own).any():
                self.settle()
        self.terms = optimizer.powers.shape[1]

    def moments_of(self, optimizer: Any) -> tuple[Any, Any]:
        """The moments of this optimizer in NumPy, up to date: zero until its first step."""
        moments, width = self.copy(1), self.shape[1]
        if self._state()[IDENTITY] != ops.convert_to_numpy(optimizer.identity.value):
            moments[:] = 0
        return moments[:, :width], moments[:, width : 2 * width]

    def adopt(self, first: Any, second: Any, optimizer: Any) -> None:
        """Go on with these moments of this optimizer, shape (rows, E) each."""
        self.settle()
        state = self._state()
        self.moments.assign(np.concatenate([first, second, np.full((len(first), 1), state[STEPS])], 1))
        state[MADE] = int(ops.convert_to_numpy(optimizer.iterations.value)) % CYCLE
        state[IDENTITY], state[AGE] = float(ops.convert_to_numpy(optimizer.identity.value)), ROOM
        state[EPSILON:CURRENT] = optimizer.own
        self.state.assign(state)

    def _alone(self) -> None:
        # Two threads that write the same rows would lose steps. Only who writes all rows looks, so that no step pays.
        for thread, frame in sys._current_frames().items():
            while thread != threading.get_ident() and frame is not None:
                model = frame.f_locals.get("self") if frame.f_code.co_name in TRAINS else None
                if isinstance(model, keras.Model) and any(one is self for one in model.trainable_variables):
                    remedy = "Do it in a callback, or take get_weights(), which only reads."
                    raise InputError("embeddings", self.path, "is a table that another thread trains", remedy)
                frame = frame.f_back


def write(step: Step, optimizer: Any) -> None:
    """One step of dense Adam in a graph: these rows now, all others when they are next read or written."""
    rows, table = rows_of(), step.table
    if step.ids is not None:
        rate, steps = optimizer.alpha(), ops.cast(step.before[STEPS], "int32")
        ids, now, total = rows.added(step)
        moved = rows.stepped(*now, total, step.before, rate, optimizer.fresh, *table.sizes)
        for variable, values in zip(table.by_row, moved, strict=True):
            rows.put(variable, ids, values, step.kind)
        # To the rows of j steps ago it is the j-th step that they miss; none has missed anything since this one.
        back = np.arange(len(optimizer.powers) + 1, dtype="int32")[:, None]
        adds = np.pad(optimizer.powers, [[1, 0], [0, TERMS - table.terms]])
        alive = ops.cast(ops.convert_to_tensor(back) <= ops.cast(step.before[AGE], "int32"), "float32")
        places = (steps + 1 - ops.convert_to_tensor(back[:, 0])) % ROOM
        kept = rows.take(table.missed, places) * (back > 0).astype("float32")
        rows.put(table.missed, places, kept + rate * alive * adds, step.kind)
    rows.end(step)
