"""What a reader of a format finds in a file: rows in declared types, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from deltaproduce.cli.inputs.reading.faults import FileFault
from deltaproduce.types.columns import Column

Declared = Mapping[str, Column]
"""The columns that are read, by their names in lower case."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some rows of a file.

    Attributes:
        names: the columns of the file, as it spells them; those that are known so far.
        rows: the number of rows.
        columns: declared name -> values in its type, of the columns that the rows have.
        is_whole: whether ``names`` are all columns of the file.
    """

    names: tuple[str, ...]
    rows: int
    columns: Mapping[str, pa.Array]
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Absence:
    """What is known of the columns that a file lacks.

    Attributes:
        columns: declared columns that are the same in all its rows: null, unless a folder says
            otherwise.
        folders: the texts of those of them whose values are in the names of its folders.
        fault: what is wrong with the others; None if nothing more is known than that they lack.
    """

    columns: frozenset[str] = frozenset()
    folders: Mapping[str, str] = field(default_factory=dict)
    fault: FileFault | None = None


NO_ABSENCE: Final = Absence()
