"""The rules for given changes: change types, and columns without nulls.

The invariant: wrong changes are refused in the same words wherever their rows are.
"""

from __future__ import annotations

from typing import Final, NoReturn

from deltaproduce.errors import InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.types.columns import CHANGE_TYPE, Column
from deltaproduce.types.excerpts import shown

UPSERTS: Final = ("upsert", "add", "insert", "update", "update_postimage")
DELETES: Final = ("delete",)
IGNORED: Final = ("update_preimage",)
SHOWN: Final = 10
"""How many change types a message shows."""


def not_null(source: Source) -> list[tuple[Column, tuple[str, ...]]]:
    """Return the columns that take no null, and the change types for which this holds."""
    key, value = source.schema.key, source.schema.value
    found = [(column, (*UPSERTS, *DELETES)) for column in key if not column.nullable]
    return found + [(column, UPSERTS) for column in value if not column.nullable]


def refuse_types(
    found: list[str | None], rows: int, source: Source, keys: tuple[object, ...]
) -> NoReturn:
    """Refuse unknown change types.

    Args:
        rows: how many rows have them.
        keys: a sample of their keys.
    """
    known = ", ".join((*UPSERTS, *DELETES, *IGNORED))
    _refuse(source, CHANGE_TYPE, f"is {shown(found)} in {rows} rows; known: {known}", keys)


def refuse_nulls(column: Column, rows: int, source: Source, keys: tuple[object, ...]) -> NoReturn:
    """Refuse nulls in a column that takes none; arguments as for `refuse_types`."""
    finding = f"is NOT NULL, and null in {rows} rows, of keys {shown(keys)}"
    _refuse(source, column.name, finding, keys)


def _refuse(source: Source, column: str, finding: str, keys: tuple[object, ...]) -> NoReturn:
    raise InvalidChangesError(
        f"changes of source {source.name!r}: column {column!r} {finding}",
        source=source.name,
        column=column,
        columns=(column,),
        keys=keys,
    )
