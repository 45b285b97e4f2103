"""How files store the content of a stage, as its definition says.

The invariant: it is text alone, so that it can be part of a definition and of a version;
`described.content` says what the text means for a stage's columns.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredAs:
    """How files store rows.

    Attributes:
        partition: columns, or ``expression AS name``, that partition the rows; None if they are not
            partitioned.
        order: the columns that the rows of each file are sorted by; by their key if None.
        compression: the codec of files.
    """

    partition: str | None = None
    order: str | None = None
    compression: str = "snappy"
