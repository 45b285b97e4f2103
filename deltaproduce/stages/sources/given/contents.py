"""The change types of given changes, and how changes are refused for their contents.

The invariant: wrong changes are refused in the same words wherever their rows are.
"""

from __future__ import annotations

from typing import Final, NoReturn

from deltaproduce.errors import InvalidChangesError
from deltaproduce.model.graph import Source
from deltaproduce.types.columns import CHANGE_TYPE
from deltaproduce.types.excerpts import shown

UPSERTS: Final = ("upsert", "add", "insert", "update", "update_postimage")
DELETES: Final = ("delete",)
IGNORED: Final = ("update_preimage",)
SHOWN: Final = 10
"""How many change types a message shows."""


def refuse_types(
    values: list[str | None], rows: int, source: Source, keys: tuple[object, ...]
) -> NoReturn:
    """Refuse unknown change types.

    Args:
        rows: how many rows have them.
        keys: a sample of their keys.
    """
    known = ", ".join((*UPSERTS, *DELETES, *IGNORED))
    refuse_column(source, CHANGE_TYPE, f"is {shown(values)} in {rows} rows; known: {known}", keys)


def refuse_column(source: Source, column: str, finding: str, keys: tuple[object, ...]) -> NoReturn:
    """Refuse changes for what is in a column.

    Args:
        finding: what is wrong with it.
        keys: a sample of the keys of wrong rows.

    Raises:
        InvalidChangesError: always.
    """
    raise InvalidChangesError(
        f"changes of source {source.name!r}: column {column!r} {finding}",
        source=source.name,
        column=column,
        columns=(column,),
        keys=keys,
    )
