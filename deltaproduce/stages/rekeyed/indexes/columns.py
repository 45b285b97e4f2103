"""The columns of an index, as its definition lists them.

The invariant: each is a column of the feeder, checked against its declared type if it has one, or a
named expression over one row of the feeder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from deltaproduce.errors import DefinitionError
from deltaproduce.model.declarations import check_text
from deltaproduce.stages.sql.expressions.expression import Expression, items
from deltaproduce.types.columns import RowSchema, existing_schema
from deltaproduce.types.data_types import DataType, NullType


@dataclass(frozen=True, slots=True)
class IndexColumn:
    """One column of an index.

    Attributes:
        expression: its expression over a row of the feeder.
        declared: its declared type, if it has one.
        descending: whether the index sorts it descending.
    """

    name: str
    expression: Expression
    declared: DataType | None = None
    descending: bool = False


def key_list(text: str, feeder: RowSchema, *, stage: str) -> tuple[IndexColumn, ...]:
    """Read the key columns, such as ``"email string, lower(name) AS name, id desc"``.

    Raises:
        DefinitionError: it is not such a list, or names a column that the feeder lacks; with
            `stage`.
    """
    return _listed(text, feeder, _declared, "its key", stage)


def include_list(text: str, feeder: RowSchema, *, stage: str) -> tuple[IndexColumn, ...]:
    """Read further columns, such as ``"name, a + b AS c"``.

    Raises:
        DefinitionError: as for `key_list`.
    """
    return _listed(text, feeder, _bare, "include", stage)


def check_types(
    columns: Iterable[IndexColumn], types: Mapping[str, DataType], *, stage: str
) -> None:
    """Refuse columns whose type differs from the declared one.

    Args:
        types: the types found, by name; `NullType` if not known yet.

    Raises:
        DefinitionError: with `stage` and `column`.
    """
    for column in columns:
        data_type = types[column.name]
        if (
            column.declared is None
            or column.declared == data_type
            or isinstance(data_type, NullType)
        ):
            continue
        message = (
            f"stage {stage!r}: column {column.name!r} is declared as "
            f"{column.declared.simpleString()} and is {data_type.simpleString()} in its feeder; "
            "declare that, or leave the type out"
        )
        raise DefinitionError(message, stage=stage, column=column.name)


def _listed(
    text: str,
    feeder: RowSchema,
    unnamed: Callable[[str, RowSchema], IndexColumn],
    what: str,
    stage: str,
) -> tuple[IndexColumn, ...]:
    """Read the columns of a list.

    Args:
        unnamed: reads an item without ``AS``.
    """
    check_text(text, what, stage=stage)
    try:
        return tuple(
            unnamed(part, feeder)
            if name is None
            else IndexColumn(name, Expression.read(part, feeder.names))
            for part, name in items(text)
        )
    except DefinitionError as error:
        message = f"stage {stage!r}, {what}: {error}"
        raise DefinitionError(message, stage=stage, column=error.column) from None


def _bare(part: str, feeder: RowSchema) -> IndexColumn:
    """Read a column of the feeder."""
    ((name, expression),) = Expression.listed(part, feeder.names)
    return IndexColumn(name, expression)


def _declared(part: str, feeder: RowSchema) -> IndexColumn:
    """Read a column of the feeder, perhaps with its type and direction."""
    try:
        (column,) = existing_schema(part, None, stage=part).key
    except DefinitionError:
        return _bare(part, feeder)
    name = next((n for n in feeder.names if n.lower() == column.name.lower()), None)
    if name is None:
        raise DefinitionError(
            f"{column.name!r} is not one of the columns {', '.join(feeder.names)}"
        )
    declared = column.data_type if column.is_known else None
    return IndexColumn(name, Expression.of_column(name), declared, column.descending)
