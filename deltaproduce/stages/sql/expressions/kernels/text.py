"""Text by code points, as in Spark."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.kernels.failures import Kernel


def _joined(_: pa.DataType, *parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _part(_: pa.DataType, text: pa.Array, start: pa.Array, length: pa.Array) -> pa.Array:
    """Return ``substring`` from one position, counted from 1, for all rows."""
    if not len(text):
        return text
    first = max(start[0].as_py() - 1, 0)
    return pc.utf8_slice_codeunits(text, first, first + max(length[0].as_py(), 0))


def _like(_: pa.DataType, text: pa.Array, pattern: pa.Array) -> pa.Array:
    """Return ``LIKE`` with one pattern for all rows, escaped by backslashes."""
    return pc.match_like(text, pattern[0].as_py()) if len(text) else pa.array([], pa.bool_())


TEXT: Final[Mapping[str, Kernel]] = MappingProxyType(
    {
        "concat": _joined,
        "length": lambda wanted, text: pc.utf8_length(text).cast(wanted),
        "trim": lambda _, text: pc.utf8_trim(text, characters=" "),
        "ltrim": lambda _, text: pc.utf8_ltrim(text, characters=" "),
        "rtrim": lambda _, text: pc.utf8_rtrim(text, characters=" "),
        "substring": _part,
        "like": _like,
    }
)
"""By the names in terms."""
