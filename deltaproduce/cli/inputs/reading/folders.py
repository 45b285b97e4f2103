"""Values in the names of folders, as in ``day=2026-01-01/part.csv``.

Spark and Hive write them so: dates and times in ISO 8601, odd characters as ``%`` and two digits, a
null as a name of its own. The invariant: a value in a name fits the declared type of its column as
a text in a file does, or the file is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

import pyarrow as pa

from deltaproduce.cli.inputs.reading.faults import FileFault, Unfit
from deltaproduce.cli.inputs.reading.texts import Forms, converted
from deltaproduce.types import data_types as t
from deltaproduce.types.columns import Column

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The text of a null, also of an empty text, in the name of a folder."""


def folders_of(path: str) -> Mapping[str, Sequence[str]]:
    """Return the texts in the names of a file's folders, by column in lower case."""
    pairs = [part.split("=", 1) for part in path.split("/")[:-1] if "=" in part.lstrip("=")]
    texts: dict[str, list[str]] = {}
    for name, text in pairs:
        texts.setdefault(unquote(name).lower(), []).append(unquote(text))
    return texts


def repeated(text: str, column: Column, forms: Forms, rows: int) -> pa.Array:
    """Return the values of a column for the rows of a file: the same for all.

    Raises:
        FileFault: the text does not fit the column.
    """
    if isinstance(column.data_type, t.StructType | t.ArrayType | t.MapType):
        kind = column.data_type.simpleString()
        raise FileFault(f"the name of a folder has no {kind}", column=column.name)
    texts = pa.array([None if text == NULL else text], pa.string())
    try:
        (value,) = converted(texts, column.data_type, Forms(forms.zone))
    except Unfit as unfit:
        finding = f"{unfit.finding}, in the name of its folder"
        raise FileFault(finding, column=column.name) from None
    return pa.repeat(value, rows)
