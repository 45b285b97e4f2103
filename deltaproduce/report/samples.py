"""Samples: some of the rows that versions changed, as text.

The invariant: only as many rows are read as are shown, apart from the rest of their row groups; and
every value has a short, printable text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.reading.opened import Opened
from deltaproduce.report.model import SampleReport, Value
from deltaproduce.storage.versions import Version, stage_at
from deltaproduce.types import excerpts
from deltaproduce.types.columns import VERSION
from deltaproduce.types.data_types import NumericType
from deltaproduce.types.python_values import python_values

SAMPLED: Final = 3
"""This many versions of a stage are sampled."""

_LONGEST_TEXT: Final = 200


def rows_changed(
    store: Opened, stage: Stage, past: Sequence[Version], most: int
) -> Iterator[SampleReport]:
    """Yield rows of the newest versions that changed a stage, version by version.

    Args:
        past: the candidate versions, newest first.
        most: the most rows of a version; if 0, nothing is read.
    """
    changed = (
        (version, version.stages[stage.name].changed_keys)
        for version in past
        if stage.name in version.stages and version.stages[stage.name].changed_keys
    )
    for version, keys in islice(changed, SAMPLED if most else 0):
        with store.noticing():
            rows = store.reader.sample_updates(version, stage, most)
        columns = Layout.of(stage_at(version, stage)).updates
        shown = [c for c in columns if not c.is_hidden and c.name != VERSION]
        values = [texts(rows.column(column.name)) for column in shown]
        yield SampleReport(
            version.number,
            keys,
            tuple(column.name for column in shown),
            tuple(isinstance(column.data_type, NumericType) for column in shown),
            tuple(zip(*values, strict=True)),
        )


def texts(values: pa.ChunkedArray) -> list[Value]:
    """Return each value as text; times are in UTC, bytes in hexadecimal digits."""
    return [
        None if text is None else excerpts.escaped(text, limit=_LONGEST_TEXT)
        for text in _long(values)
    ]


def _long(values: pa.ChunkedArray) -> list[Value]:
    if pt.is_binary(values.type) or pt.is_large_binary(values.type):
        return [None if value is None else value.hex() for value in python_values(values)]
    if not pt.is_nested(values.type):
        pairs = zip(python_values(values), python_values(pc.cast(values, pa.string())), strict=True)
        return [value if isinstance(value, str) else text for value, text in pairs]
    return [None if value is None else excerpts.shown(value) for value in python_values(values)]
