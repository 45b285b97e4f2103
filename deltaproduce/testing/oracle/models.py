"""Models: what the oracle runs in place of a kind, in plain Python.

A kind that the oracle does not know gets one by `by_key.register` or `of_all.register`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, singledispatch
from typing import Any, Protocol, TypeAlias

from deltaproduce.model.kind import Kind
from deltaproduce.stages.aggregates.kind import Aggregate
from deltaproduce.stages.functions.kinds import ByKey, OverTables
from deltaproduce.stages.rekeyed.events.kind import EventsKind
from deltaproduce.stages.rekeyed.indexes.columns import IndexColumn
from deltaproduce.stages.rekeyed.indexes.kind import Index
from deltaproduce.stages.sources.rejected.kind import Rejected
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.model import value_of
from deltaproduce.testing.oracle.events import states_of_events
from deltaproduce.testing.oracle.groups import grouped, parts


class KeyRows(Protocol):
    """One source key and its rows, as the oracle passes them to a `Model`.

    Attributes:
        key: as a function gets it.
        values: the values of each input, in order, as a function gets them.
    """

    @property
    def key(self) -> Any: ...  # noqa: ANN401, D102 see the class

    @property
    def values(self) -> Sequence[Sequence[Any]]: ...  # noqa: D102 see the class

    def table(self) -> Any:  # noqa: ANN401 a pyarrow Table
        """Return the rows of the only input as a pyarrow Table."""

    def emissions(self, table: Any) -> Iterable[tuple[Any, Any]]:  # noqa: ANN401
        """Return the rows of a table computed from `table`, as pairs of target key and value."""


Model: TypeAlias = Callable[[KeyRows], Iterable[tuple[Any, Any]]]
"""A stage's function of one source key's rows, in plain Python: pairs of target key and value."""


ModelOfAll: TypeAlias = Callable[
    [Iterable[Mapping[str, Any]]], Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]
]
"""A stage's function of all rows of its feeders, by column name, in plain Python: keys, values."""


@singledispatch
def by_key(kind: Kind) -> Model | None:
    """Return the model of a kind whose rows each belong to one source key; None if it has none.

    It emits None in the column that is `numbered`, and values that are yet to be `settled`.
    """
    del kind
    return None


@by_key.register
def _(kind: ByKey) -> Model:
    return lambda rows: kind.function(rows.key, *map(iter, rows.values))


@by_key.register
def _(kind: OverTables) -> Model:
    def model(rows: KeyRows) -> Iterable[tuple[Any, Any]]:  # called with one key's rows at a time
        table = rows.table()
        returned = kind.function(iter(table.to_batches()) if kind.streaming else table)
        for emitted in returned if kind.streaming else (returned,):
            yield from rows.emissions(emitted)

    return model


@by_key.register
def _(kind: Index) -> Model:
    def model(rows: KeyRows) -> Iterator[tuple[Any, Any]]:
        keys, values = kind.read
        of_key = dict(zip(keys, _items(rows.key, keys), strict=True))
        for value in rows.values[0]:
            row = of_key | dict(zip(values, _items(value, values), strict=True))
            yield _record(kind.key, row), _record(kind.value, row)

    return model


@singledispatch
def of_all(kind: Kind) -> ModelOfAll | None:
    """Return the model of a kind whose rows do not belong to one source key; None if none."""
    del kind
    return None


@of_all.register
def _(kind: Aggregate) -> ModelOfAll:
    return partial(grouped, **_arguments(kind))


@of_all.register
def _(kind: EventsKind) -> ModelOfAll:
    return partial(states_of_events, kind=kind)


@singledispatch
def keys_of(kind: Kind, row: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
    """Return the keys that a row is of, in a kind with a model `of_all`; some may have no rows."""
    model = of_all(kind)
    assert model is not None
    return (key for key, _ in model([row]))


@keys_of.register
def _(kind: EventsKind, row: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
    """Rows of a key are made of all its events, also of deletes."""
    return [tuple(value_of(one, row) for _, one in kind.columns.key)]


@singledispatch
def of_parts(kind: Kind) -> ModelOfAll | None:
    """Return a model like `of_all`, with the parts of each value in its place, to be merged."""
    del kind
    return None


@of_parts.register
def _(kind: Aggregate) -> ModelOfAll:
    return partial(parts, **_arguments(kind))


@singledispatch
def broken_rules(kind: Kind, row: Mapping[str, Any]) -> list[str]:
    """Return the rules that a row of a source breaks, if its kind has rows that are set aside."""
    del kind, row
    return []


@broken_rules.register
def _(kind: Rejected, row: Mapping[str, Any]) -> list[str]:
    return [
        rule.name
        for rule in kind.rules
        if value_of(Expression.read(rule.breaks, [*row]), row) is True
    ]


@singledispatch
def settled(kind: Kind, value: Any, example: Any) -> Any:  # noqa: ANN401 as the user's functions
    """Return the value to store in place of an emitted one.

    Args:
        example: the key's value before, or its first value; None if there is neither.
    """
    del kind, example
    return value


@settled.register
def _(kind: ByKey, value: Any, example: Any) -> Any:  # noqa: ANN401 as the user's functions
    return value if kind.preserve is None else kind.preserve(value, example)


def _arguments(kind: Aggregate) -> dict[str, Any]:
    """Return what a kind is made of; the oracle has the parts of merged values."""
    given = {a for _, call in kind.values if not call.merges for a in call.arguments}
    arguments: tuple[Expression, ...] = tuple(o for o in kind.arguments if o.name in given)
    return {"key": kind.key, "values": kind.values, "arguments": arguments, "where": kind.where}


def _items(given: Any, names: Sequence[str]) -> tuple[Any, ...]:  # noqa: ANN401 as functions get it
    """Return a key or value of the oracle by column: with one column it is bare."""
    return (given,) if len(names) == 1 else tuple(given)


def _record(columns: Sequence[IndexColumn], row: Mapping[str, Any]) -> Any:  # noqa: ANN401 as emitted
    values = tuple(value_of(column.expression, row) for column in columns)
    return values[0] if len(values) == 1 else values
