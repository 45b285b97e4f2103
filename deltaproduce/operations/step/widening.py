"""Widening: whether rows that are stored fit other columns of their source.

Pure. Rows fit if no value column is gone, each has a type that holds every value of it, and columns
that are new, or had nulls, take nulls. The invariant: rows that fit lose nothing in the new
columns, and are equal to the rows that a user would give in them, with nulls for what is new.
"""

from __future__ import annotations

from deltaproduce.types.columns import Column, RowSchema
from deltaproduce.types.conversions import widens


def faults(old: RowSchema, new: RowSchema) -> list[str]:
    """Return why rows in old columns do not fit the new ones, column by column; empty if they do.

    Args:
        old: the columns of the stored rows.
        new: the columns that their source is defined with.
    """
    reasons = [] if _same_key(old, new) else [f"its key is {new.key.ddl}, and was {old.key.ddl}"]
    were, are = ({c.name: c for c in schema.value} for schema in (old, new))
    gone = [name for name in were if name not in are]
    if gone:
        reasons.append(f"column {', '.join(gone)} is gone")
    for name, column in are.items():
        fault = _fault(were.get(name), column)
        if fault is not None:
            reasons.append(f"column {name} {fault}")
    came = [name for name in are if name not in were]
    if gone and came:
        reasons.append(f"column {', '.join(came)} is new: a column with a new name is another one")
    return reasons


def added(old: RowSchema, new: RowSchema) -> list[str]:
    """Return the names of value columns that are new."""
    return [name for name in new.value.names if name not in old.value.names]


def _same_key(old: RowSchema, new: RowSchema) -> bool:
    if len(old.key) != len(new.key):
        return False
    return all(
        (a.name, a.data_type, a.descending) == (b.name, b.data_type, b.descending)
        and (b.nullable or not a.nullable)
        for a, b in zip(old.key, new.key, strict=True)
    )


def _fault(old: Column | None, new: Column) -> str | None:
    if old is None:
        return None if new.nullable else "is new and NOT NULL"
    if not widens(old.data_type, new.data_type) or new.is_strict > old.is_strict:
        return f"is {new.data_type.simpleString()}, and was {old.data_type.simpleString()}"
    return "is NOT NULL, and was not" if old.nullable and not new.nullable else None
