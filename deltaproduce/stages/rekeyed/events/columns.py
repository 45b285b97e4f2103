"""The columns of a stage of events, as its definition names them.

Pure. The invariant: each is a column of the events, or an expression over one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from deltaproduce.errors import DefinitionError
from deltaproduce.model.declarations import check_text
from deltaproduce.model.graph import Stage
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.projection import Projection
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import ArrayType, BooleanType, DataType, MapType, StructType
from deltaproduce.types.ddl import names_from_list
from deltaproduce.types.excerpts import meant

Named: TypeAlias = tuple[str, Expression]
"""A column's name, and its expression over an event."""

_UNORDERED = (ArrayType, MapType, StructType)


@dataclass(frozen=True, slots=True)
class EventColumns:
    """What a definition says of its events.

    Attributes:
        key: the columns of the stage's key.
        sequence: what orders the events of a key, the most significant first.
        deleted: the condition that an event is a delete; None if none is.
        values: the columns that the stage shows of an event.
        of_event: the names of the events' columns, their key first.
        event_key: how many of these are their key.
        places: all that is computed of an event -> the name of its column in `projection`.
    """

    key: tuple[Named, ...]
    sequence: tuple[Named, ...]
    deleted: Expression | None
    values: tuple[Named, ...]
    of_event: tuple[str, ...]
    event_key: int
    places: Mapping[Expression, str] = field(compare=False)

    @staticmethod
    def read(
        events: Stage,
        key: str,
        sequence: str,
        deleted: str | None,
        columns: str | None,
        *,
        stage: str,
    ) -> EventColumns:
        """Read the columns of a definition.

        Args:
            events: the stage of events.
            key: columns of the events, or ``expression AS name``.
            sequence: columns in the same form.
            deleted: a condition.
            columns: columns in the same form; all but the key if None.

        Raises:
            DefinitionError: an argument is wrong; with `stage` and, if one column is at fault,
                `column`.
        """
        schema = events.schema
        if events.kind.intake.all_columns and not schema.value.columns:
            message = (
                f"stage {stage!r}: the value columns of {events.name!r} are not declared; name "
                "them with value="
            )
            raise DefinitionError(message, stage=stage)
        names = tuple(c.name for c in (*schema.key, *schema.value) if not c.is_hidden)
        keys = _listed(key, names, "its key", stage)
        if columns is None:
            used = {one.column for _, one in keys} | {name.lower() for name, _ in keys}
            others = (n for n in names if n not in used and n.lower() not in used)
            values = tuple((name, Expression.of_column(name)) for name in others)
        else:
            values = _listed(columns, names, "its columns", stage)
        in_order = _listed(sequence, names, "its sequence", stage)
        condition = None if deleted is None else _condition(deleted, names, stage)
        computed = dict.fromkeys(one for _, one in (*keys, *in_order, *values))
        computed |= {} if condition is None else {condition: None}
        computed |= dict.fromkeys(map(Expression.of_column, names))  # they settle ties
        return EventColumns(
            keys,
            in_order,
            condition,
            values,
            names,
            sum(not c.is_hidden for c in schema.key),
            {one: f"_{place}" for place, one in enumerate(computed)},
        )

    @property
    def projection(self) -> Projection:
        """All that is computed of an event, each once."""
        return Projection(tuple((place, one) for one, place in self.places.items()))

    def tracked(self, track: str | None, *, stage: str) -> tuple[str, ...]:
        """Return the names of the columns that tell one state of a key from the next.

        Args:
            track: names of `values`; if None, all but columns of the events' key, of the sequence,
                and those that the condition of a delete reads.

        Raises:
            DefinitionError: it names another column; with `stage` and `column`.
        """
        if track is not None:
            return _tracked(track, [name for name, _ in self.values], stage)
        ordering = {one.column for _, one in self.sequence}
        deciding = () if self.deleted is None else self.deleted.columns
        untold = {*self.of_event[: self.event_key], *ordering, *deciding}
        return tuple(name for name, one in self.values if one.column not in untold)

    def check_types(self, types: Mapping[str, DataType], *, stage: str) -> None:
        """Refuse a sequence of a type without an order, and a delete that is no condition.

        Args:
            types: the types of the columns of `projection`.

        Raises:
            DefinitionError: with `stage` and `column`.
        """
        for name, one in self.sequence:
            kind = types[self.places[one]]
            if isinstance(kind, _UNORDERED):
                message = (
                    f"stage {stage!r}: its sequence {name!r} is of type {kind.simpleString()}; "
                    "give columns of numbers, text, dates or timestamps"
                )
                raise DefinitionError(message, stage=stage, column=name)
        if self.deleted is None:
            return
        kind = types[self.places[self.deleted]]
        if not isinstance(kind, BooleanType):
            message = (
                f"stage {stage!r}: deleted is {self.deleted.text!r}, which is of type "
                f"{kind.simpleString()}; write a condition, as \"op = 'D'\""
            )
            raise DefinitionError(message, stage=stage)


def event_columns(events: Stage) -> tuple[Column, ...]:
    """Return the columns of a stage that its readers see, the key first."""
    own = (*events.schema.key, *events.schema.value)
    return tuple(column for column in own if not column.is_hidden)


def _listed(text: str, names: tuple[str, ...], what: str, stage: str) -> tuple[Named, ...]:
    check_text(text, what, stage=stage)
    with _blaming(what, stage):
        return tuple(Expression.listed(text, names))


def _tracked(text: str, columns: Sequence[str], stage: str) -> tuple[str, ...]:
    """Read the names of columns of the stage, in any case."""
    check_text(text, "track", stage=stage)
    listed = names_from_list(text)
    if listed is None or any(direction is not None for _, direction in listed):
        message = f"stage {stage!r}: track is {text!r}; give names of its columns, as 'a, b'"
        raise DefinitionError(message, stage=stage)
    spelled = {name.lower(): name for name in columns}
    for name, _ in listed:
        if name.lower() not in spelled:
            message = f"stage {stage!r}: track names {name!r}; {meant(name, columns)}"
            raise DefinitionError(message, stage=stage, column=name)
    return tuple(dict.fromkeys(spelled[name.lower()] for name, _ in listed))


def _condition(text: str, names: tuple[str, ...], stage: str) -> Expression:
    check_text(text, "deleted", stage=stage)
    with _blaming("deleted", stage):
        return Expression.read(text, names)


@contextmanager
def _blaming(what: str, stage: str) -> Iterator[None]:
    try:
        yield
    except DefinitionError as error:
        message = f"stage {stage!r}, {what}: {error}"
        raise DefinitionError(message, stage=stage, column=error.column) from None
