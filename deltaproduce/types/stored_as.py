"""How files keep the content of a stage, as its definition says it.

The invariant: it is text alone, so that it can be part of a definition and of a version; what the
text means of a stage's columns is said elsewhere (`described.content`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredAs:
    """How files keep rows.

    Attributes:
        partition: columns, or ``expression AS name``, by which rows are kept apart; None if they
            are not.
        order: the columns that the rows of each file are sorted by; by their key if None.
        compression: the codec of files.
    """

    partition: str | None = None
    order: str | None = None
    compression: str = "snappy"
