"""The columns of an index, as its definition lists them.

The invariant: each is a column of the feeder, whose type is checked where one is declared, or an
expression over one row of it, which has a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql.types import DataType, NullType

from deltaproduce.errors import DefinitionError
from deltaproduce.model.declarations import check_text
from deltaproduce.stages.sql.expressions.expression import Expression, items
from deltaproduce.types.columns import RowSchema, existing_schema


@dataclass(frozen=True, slots=True)
class IndexColumn:
    """One column of an index.

    Attributes:
        expression: what it is of a row of the feeder.
        declared: its type, if the definition says one.
        descending: whether the index sorts it so.
    """

    name: str
    expression: Expression
    declared: DataType | None = None
    descending: bool = False


def key_list(text: str, feeder: RowSchema, *, stage: str) -> tuple[IndexColumn, ...]:
    """The key columns, as ``"email string, lower(name) AS name, id desc"``.

    Raises:
        DefinitionError: it is no such list, or names what the feeder does not have; with `stage`.
    """
    return _listed(text, feeder, _declared, "its key", stage)


def include_list(text: str, feeder: RowSchema, *, stage: str) -> tuple[IndexColumn, ...]:
    """Further columns, as ``"name, a + b AS c"``.

    Raises:
        DefinitionError: as `key_list` does.
    """
    return _listed(text, feeder, _bare, "include", stage)


def check_types(
    columns: Iterable[IndexColumn], types: Mapping[str, DataType], *, stage: str
) -> None:
    """Refuse columns of another type than the definition says.

    Args:
        types: those that are found, by name; `NullType` for what is not known yet.

    Raises:
        DefinitionError: with `stage` and `column`.
    """
    for column in columns:
        found = types[column.name]
        if column.declared is None or column.declared == found or isinstance(found, NullType):
            continue
        message = (
            f"stage {stage!r}: column {column.name!r} is declared as "
            f"{column.declared.simpleString()} and is {found.simpleString()} in its feeder; "
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
    """The columns of a list.

    Args:
        unnamed: reads a part without ``AS``.
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
    """A column of the feeder."""
    expression = Expression.read(part, feeder.names)
    if expression.column is None:
        raise DefinitionError(f"{part!r} has no name; write {part} AS name")
    return IndexColumn(expression.column, expression)


def _declared(part: str, feeder: RowSchema) -> IndexColumn:
    """A column of the feeder, perhaps with its type and direction."""
    try:
        (column,) = existing_schema(part, None, stage=part).key
    except DefinitionError:
        return _bare(part, feeder)
    name = next((n for n in feeder.names if n.lower() == column.name.lower()), None)
    if name is None:
        raise DefinitionError(f"{column.name!r} is none of the columns {', '.join(feeder.names)}")
    declared = column.data_type if column.is_known else None
    return IndexColumn(name, Expression.of_column(name), declared, column.descending)
