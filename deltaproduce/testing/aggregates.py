"""The laws of users' own aggregates: what must hold for an update to equal a refresh.

States are compared by their values, and by their values after more rows. The invariant: every
difference that is found also shows in the stage after some series of changes.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

import pyarrow as pa
from typing_extensions import override

from deltaproduce.engines.local.arrays import same_rows
from deltaproduce.stages.sql.states.functions.own.over_arrow import of_groups
from deltaproduce.stages.sql.states.own_aggregates import OwnAggregate
from deltaproduce.types.atoms import Misfit, arrow_type
from deltaproduce.types.excerpts import described
from deltaproduce.types.forms import Form

_Rows: TypeAlias = tuple[tuple[Any, ...], ...]

_FIRST_VALUES: Final = 4
_SHORTEST: Final = 2
"""All series of up to this many of the first values are tried."""
_SERIES: Final = 40
"""This many more series are drawn."""
_LONGEST: Final = 6
_SEED: Final = 23


def check_aggregate(aggregate: object, values: Iterable[Any]) -> None:
    """Test the laws of an aggregate for `agg.own`, on short series of some values.

    - *arguments unchanged*: no method changes its arguments;
    - *determinism*: equal arguments give equal results;
    - *types*: a state is of ``state`` and a value of ``type``, and no method fails;
    - *round trip*: a state that was stored and read is as good as before;
    - *identity*: merging ``zero()`` with a state gives that state; ``identity_of``, if there is
      one, is true of ``zero()``, and of other states only if merging them changes nothing either;
    - *associativity* and *commutativity* of ``merge``;
    - *order independence*: rows may be added in any order;
    - *parts*: adding all rows equals merging the states of parts of them;
    - *subtraction*: ``subtract(merge(a, b), b)``, if there is one, gives ``a``;
    - *groups*: for methods over whole columns: a group's state and value are the same alone and
      together with other groups, in any order of the rows of different groups.

    Two states are equal if their values are equal, also after more rows. Sums of doubles fail,
    because they depend on the order; use decimals or whole numbers.

    Args:
        aggregate: as for `agg.own`.
        values: of rows: bare for one argument, tuples for several. Include edge cases, and None if
            columns may be null.

    Raises:
        AssertionError: a law does not hold; the message names the law and the values.
        DefinitionError: the object is not an aggregate.
    """
    rows = tuple(value if isinstance(value, tuple) else (value,) for value in values)
    if not rows:
        raise AssertionError("check_aggregate is given no values; give some, None among them")
    declared = OwnAggregate.of(aggregate)
    methods_class = _Methods if declared.inputs is None else _ArrowMethods
    methods = methods_class(declared, Form.of(declared.state, UTC), Form.of(declared.value, UTC))
    series = [_Parts(methods, *map(methods.of, parts)) for parts in _series(rows)]
    for law, states in _LAWS.items():
        for parts in series:
            for one, other in states(parts):
                parts.check_same(law, one, other)


def _series(rows: _Rows) -> Iterator[tuple[_Rows, _Rows, _Rows]]:
    """Yield series of rows in three parts, some of them empty; short series come first."""
    chance = random.Random(_SEED)
    lengths = range(_SHORTEST + 1)
    short = (itertools.product(rows[:_FIRST_VALUES], repeat=length) for length in lengths)
    drawn = (tuple(chance.choices(rows, k=chance.randint(1, _LONGEST))) for _ in range(_SERIES))
    for series in itertools.chain(*short, ((row,) for row in rows), drawn):
        first, second = sorted(chance.choices(range(len(series) + 1), k=2))
        yield series[:first], series[first:second], series[second:]


@dataclass(frozen=True, slots=True)
class _State:
    """A state, both as methods get it and as it is stored.

    Attributes:
        rows: the rows that were added to it.
    """

    value: Any
    stored: pa.Array
    rows: _Rows


@dataclass(frozen=True, slots=True)
class _Methods:
    """The methods of an aggregate; each call is made twice, and its arguments are checked."""

    aggregate: OwnAggregate
    states: Form
    results: Form

    def of(self, rows: _Rows) -> _State:
        """Return the state of rows, added one by one."""
        return self.added(self._state("zero", ()), rows)

    def added(self, state: _State, rows: _Rows) -> _State:
        """Return a state with more rows."""
        for row in rows:
            state = self._state("add", (*state.rows, row), state.value, *row)
        return state

    def merged(self, one: _State, other: _State) -> _State:
        """Return the state of the rows of both."""
        return self._state("merge", (*one.rows, *other.rows), one.value, other.value)

    def subtracted(self, one: _State, other: _State) -> _State:
        """Return a state without the rows of another."""
        return self._state("subtract", one.rows, one.value, other.value)

    def result(self, state: _State) -> pa.Array:
        """Return the value of a state, as it is stored."""
        return self._called("result", self.results, state.rows, state.value)[1]

    def read(self, state: _State) -> _State:
        """Return a state after storing and reading it."""
        return _State(self.states.read(state.stored)[0], state.stored, state.rows)

    def beside_others(self, *states: _State) -> Iterator[tuple[_State, _State]]:
        """Yield states computed alone and with other groups; none if each is computed alone."""
        del states
        yield from ()

    def is_identity(self, state: _State) -> bool:
        """Return the result of `identity_of`."""
        try:
            return bool(self.aggregate.methods.identity_of(copy.deepcopy(state.value)))
        except Exception as error:  # noqa: BLE001 any of the user's
            self.fail("types", state.rows, f"identity_of raises {described(error)}", error)

    def fail(self, law: str, rows: _Rows, why: str, cause: BaseException | None = None) -> NoReturn:
        """Report which law does not hold, and for which values."""
        values = [row[0] if len(row) == 1 else row for row in rows]
        raise AssertionError(f"{self.aggregate.name}, {law}, values {values!r}: {why}") from cause

    def _state(self, method: str, rows: _Rows, *given: Any) -> _State:  # noqa: ANN401 the user's
        return _State(*self._called(method, self.states, rows, *given), rows)

    def _called(
        self,
        method: str,
        form: Form,
        rows: _Rows,
        *given: Any,  # noqa: ANN401 the user's
    ) -> tuple[Any, pa.Array]:
        """Return the result of a method, as methods get it and as it is stored."""
        again = self._copied(given)
        before = repr(given)
        returned, stored = self._once(method, form, rows, given)
        if repr(given) != before:
            why = f"{method} was given {before}, which became {given!r}"
            self.fail("arguments unchanged", rows, why)
        other, others = self._once(method, form, rows, again)
        if not _same(stored, others):
            self.fail("determinism", rows, f"{method} returns {returned!r}, and then {other!r}")
        return returned, stored

    def _copied(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Copy arguments, which methods may change."""
        return copy.deepcopy(given)

    def _once(
        self, method: str, form: Form, rows: _Rows, given: tuple[Any, ...]
    ) -> tuple[Any, pa.Array]:
        try:
            returned = getattr(self.aggregate.methods, method)(*given)
        except Exception as error:  # noqa: BLE001 any of the user's
            self.fail("types", rows, f"{method} raises {described(error)}", error)
        try:
            return form.seen(returned), form.written([returned])
        except Misfit as misfit:
            self.fail("types", rows, f"{method} returns {returned!r}: {misfit}")


@dataclass(frozen=True, slots=True)
class _ArrowMethods(_Methods):
    """Methods that take whole columns: a state is a stored array of one item."""

    @override
    def of(self, rows: _Rows) -> _State:
        return self._state("add", rows, *self._added([rows]))

    @override
    def added(self, state: _State, rows: _Rows) -> _State:
        """All rows at once, since rows are added to no state."""
        return self.of((*state.rows, *rows))

    @override
    def merged(self, one: _State, other: _State) -> _State:
        both = pa.concat_arrays([one.value, other.value])
        return self._state("merge", (*one.rows, *other.rows), pa.array([0, 0]), 1, both)

    @override
    def read(self, state: _State) -> _State:
        return state

    @override
    def beside_others(self, *states: _State) -> Iterator[tuple[_State, _State]]:
        states = (*states, self.of(()))
        parts = [state.rows for state in states]
        rows = tuple(itertools.chain.from_iterable(parts))
        added = self._together("add", rows, parts, *self._added(parts))
        yield from zip(states, added, strict=True)
        pairs = [*zip(states, (*states[1:], *states[:1]), strict=True)]
        both = [(*one.rows, *other.rows) for one, other in pairs]
        groups = pa.array([*range(len(pairs)), *range(len(pairs))])
        each = [state.value for side in zip(*pairs, strict=True) for state in side]
        merged = self._together("merge", rows, both, groups, len(pairs), pa.concat_arrays(each))
        yield from ((self.merged(*pair), one) for pair, one in zip(pairs, merged, strict=True))
        if self.aggregate.subtracts:
            gone = [other for _, other in pairs]
            given = (pa.concat_arrays([s.value for s in of_values]) for of_values in (merged, gone))
            left = self._together("subtract", rows, [one.rows for one, _ in pairs], *given)
            apart = map(self.subtracted, merged, gone)
            yield from zip(apart, left, strict=True)
        alone = pa.concat_arrays([self.result(state) for state in states])
        values = pa.concat_arrays([state.value for state in states])
        _, answers = self._called("result", self.results, rows, values)
        if not _same(alone, answers):
            self.fail("groups", rows, f"the values are {answers!r}, and alone {alone!r}")

    def _together(
        self,
        method: str,
        rows: _Rows,
        those: Iterable[_Rows],
        *given: Any,  # noqa: ANN401 the user's
    ) -> list[_State]:
        """Return the states of groups."""
        _, returned = self._called(method, self.states, rows, *given)
        each = zip(range(len(returned)), those, strict=True)
        return [_State(returned.slice(n, 1), returned.slice(n, 1), one) for n, one in each]

    def _added(self, those: Sequence[_Rows]) -> tuple[Any, ...]:
        """Return the arguments of `add` for the rows of groups, which take turns."""
        turns = itertools.zip_longest(*those)
        rows = [(n, row) for turn in turns for n, row in enumerate(turn) if row is not None]
        groups = pa.array([n for n, _ in rows], pa.int64())
        columns = (
            pa.array([row[n] for _, row in rows], arrow_type(column.data_type))
            for n, column in enumerate(self.aggregate.inputs or ())
        )
        return groups, len(those), *columns

    @override
    def _copied(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arrays do not change."""
        return given

    def _once(
        self, method: str, form: Form, rows: _Rows, given: tuple[Any, ...]
    ) -> tuple[Any, pa.Array]:
        size = given[1] if method in ("add", "merge") else len(given[0])
        try:
            returned = getattr(self.aggregate.methods, method)(*given)
        except Exception as error:  # noqa: BLE001 any of the user's
            self.fail("types", rows, f"{method} raises {described(error)}", error)
        try:
            stored = of_groups(returned, size, form.column, UTC)
        except Misfit as misfit:
            self.fail("types", rows, f"{method}: {misfit}")
        return stored, stored


@dataclass(frozen=True, slots=True)
class _Parts:
    """The states of rows in three parts, and for each law the states that must be equal."""

    methods: _Methods
    a: _State
    b: _State
    c: _State

    def check_same(self, law: str, one: _State, other: _State) -> None:
        """Check that two states have equal values, now and after more rows."""
        rows = max(one.rows, other.rows, key=len)
        self._check_value(law, rows, one, other)
        more = (self.methods.merged(state, self.c) for state in (one, other))
        self._check_value(law, (*rows, *self.c.rows), *more)

    def round_trip(self) -> Iterator[tuple[_State, _State]]:
        """A state that was stored takes rows and merges as before."""
        read = self.methods.read(self.a)
        yield self.a, read
        yield self.methods.added(self.a, self.b.rows), self.methods.added(read, self.b.rows)

    def identity(self) -> Iterator[tuple[_State, _State]]:
        """Merging ``zero()``, or what `identity_of` calls an identity, changes no state."""
        zero, merged = self.methods.of(()), self.methods.merged
        yield self.a, merged(zero, self.a)
        yield self.a, merged(self.a, zero)
        if self.methods.aggregate.tells_identity:
            if not self.methods.is_identity(zero):
                self.methods.fail("identity", (), "identity_of(zero()) is false")
            if self.methods.is_identity(self.a):
                yield self.b, merged(self.a, self.b)

    def associativity(self) -> Iterator[tuple[_State, _State]]:
        """Three states are merged from either end."""
        merged = self.methods.merged
        first, last = merged(self.a, self.b), merged(self.b, self.c)
        yield merged(first, self.c), merged(self.a, last)

    def commutativity(self) -> Iterator[tuple[_State, _State]]:
        """Either state is merged into the other."""
        yield self.methods.merged(self.a, self.b), self.methods.merged(self.b, self.a)

    def order(self) -> Iterator[tuple[_State, _State]]:
        """Rows are added in another order."""
        rows = (*self.a.rows, *self.b.rows, *self.c.rows)
        added = self.methods.of(rows)
        yield added, self.methods.of(rows[::-1])
        yield added, self.methods.of((*self.b.rows, *self.c.rows, *self.a.rows))

    def parts(self) -> Iterator[tuple[_State, _State]]:
        """Adding rows to a state equals merging their own state with it."""
        added = self.methods.added(self.a, self.b.rows)
        yield added, self.methods.merged(self.a, self.b)

    def groups(self) -> Iterator[tuple[_State, _State]]:
        """States are the same alone and together with other groups."""
        yield from self.methods.beside_others(self.a, self.b, self.c)

    def subtraction(self) -> Iterator[tuple[_State, _State]]:
        """Subtracting one part of a merged state gives the other part."""
        if self.methods.aggregate.subtracts:
            both = self.methods.merged(self.a, self.b)
            yield self.a, self.methods.subtracted(both, self.b)
            yield self.b, self.methods.subtracted(both, self.a)

    def _check_value(self, law: str, rows: _Rows, one: _State, other: _State) -> None:
        results = [self.methods.result(state) for state in (one, other)]
        if not _same(*results):
            (first,), (second,) = (result.to_pylist() for result in results)
            self.methods.fail(law, rows, f"the value is {first!r} one way, {second!r} the other")


_LAWS: Final = MappingProxyType(
    {
        "round trip": _Parts.round_trip,
        "identity": _Parts.identity,
        "associativity": _Parts.associativity,
        "commutativity": _Parts.commutativity,
        "order independence": _Parts.order,
        "parts": _Parts.parts,
        "groups": _Parts.groups,
        "subtraction": _Parts.subtraction,
    }
)
"""Laws that others depend on come first, so that the named law is the broken one."""


def _same(one: pa.Array, other: pa.Array) -> bool:
    """Return whether two values are the same, as stores compare them."""
    return one.equals(other) or same_rows(*(pa.table({"value": array}) for array in (one, other)))
