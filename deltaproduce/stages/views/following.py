"""The rows that a view reads of its feeders to follow their changes.

A look-up by columns of a feeder's key finds the rows in its files; one by other columns reads the
columns that are wanted of all rows. The invariant: what is read is as it was before the step, also
where the feeder's table already has its new rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import Marks, distinct, empty, isin_rows
from deltaproduce.engines.selections import Selection
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.sql.operators.changes.signed import Signed, changed
from deltaproduce.storage.parquet.files import Sieve
from deltaproduce.storage.stored import Stored
from deltaproduce.types.columns import Column

_MOST_NETTED: Final = 10_000
"""The most moved rows, without their key, of which rows that cancel each other are looked for.

A row under another key cancels the old one in other columns, and is then looked up in no table.
"""


class TooManyRowsError(Exception):
    """Rows that are read are in Spark, as the driver does not hold them."""


@dataclass(frozen=True, slots=True)
class FollowedInput:
    """A feeder of a view in a version."""

    input: StageInput
    engines: Engines

    def change(self, columns: Sequence[str]) -> Signed:
        """See `Feeder.change`.

        Raises:
            TooManyRowsError: they are in Spark.
        """
        wanted = self._columns(columns)
        if self.input.changed is None:
            return Signed.added(empty(wanted)).selected(columns)
        counts = self.input.changed.counts
        gone, added = (
            self._here(rows, wanted, counts.rows_before + counts.rows_after, counts.bytes)
            for rows in self.input.moved(wanted)
        )
        change = Signed.moved(gone, added)
        own = {column.name for column in self.input.stage.schema.key}
        is_net = own <= {*columns} or len(change) > _MOST_NETTED
        if not (is_net and self.input.changed.has_one_row_a_key):
            change = change.net()
        return change.selected(columns)

    def before(self, columns: Sequence[str], keys: pa.Table | None) -> pa.Table:
        """See `Feeder.before`: rows that a view has looked up in the version are not read again.

        Raises:
            TooManyRowsError: they are in Spark.
        """
        return self.input.looked_up.rows(columns, keys, self._before, self._reads_all)

    def _reads_all(self, columns: Sequence[str], keys: pa.Table, most_bytes: int) -> bool:
        """Return whether nearly all rows are read to find keys, and all have at most some bytes."""
        stored, own = self.input.before(), self.input.stage.schema.key.names
        prefix = [name for name in keys.column_names if name in own]
        if stored is None or self.input.is_after or own[0] not in prefix:
            return False
        narrow = stored.narrowed(self._columns(columns))
        if narrow.count * narrow.row_bytes > most_bytes:
            return False
        return stored.reads_nearly_all(
            Selection(self._columns(prefix), distinct(keys.select(prefix)), self.engines)
        )

    def _before(self, columns: Sequence[str], keys: pa.Table | None) -> pa.Table:
        rows = self._read(columns, keys)
        if not self.input.is_after or self.input.changed is None:
            return rows
        change = -self.change(columns)
        if keys is not None and len(change):
            change = change.filter(isin_rows(change.rows.select(keys.column_names), keys))
        return changed(rows, change)

    def first(
        self, columns: Sequence[str], count: int, keys: pa.Table | None = None
    ) -> pa.Table | None:
        """See `Feeder.first`.

        Raises:
            TooManyRowsError: they are in Spark.
        """
        width, names = self.input.stage.kind.key_use.group_width, list(columns)
        stored = self.input.before() if width else None
        if stored is None:
            return None if not width else empty(self._columns(columns)).select(names)
        key = self.input.stage.schema.key.columns
        names_of_group = [column.name for column in key[: width - 1]]
        groups = {} if keys is None else {one: keys.column(one) for one in names_of_group}
        group_count = 1 if keys is None else len(keys)
        parts = [
            pa.table({**groups, key[width - 1].name: np.full(group_count, place, np.int32)})
            for place in (0, 1)
        ]
        sought = Selection(key[:width], pa.concat_tables(parts), self.engines)
        size = stored.count * stored.row_bytes
        first_rows = stored.first(sought, key[width:], count)
        rows = self._here(first_rows, stored.columns, stored.count, size)
        return rows.select(names)

    def _read(self, columns: Sequence[str], keys: pa.Table | None) -> pa.Table:
        names, stored = list(columns), self.input.before()
        if stored is None:
            return empty(self._columns(columns))
        if keys is None:
            return self._all(stored.narrowed(self._columns(columns))).select(names)
        narrow = stored.narrowed(self._columns([*names, *keys.column_names]))
        own = self.input.stage.schema.key.names
        prefix = [name for name in keys.column_names if name in own]
        if own[0] in prefix:
            first = distinct(keys.select(prefix))
            selection = Selection(self._columns(prefix), first, self.engines)
            size = narrow.count * narrow.row_bytes
            read_rows = self._here(narrow.of(selection), narrow.columns, narrow.count, size)
            marks = isin_rows(read_rows.select(keys.column_names), keys)
            return read_rows.filter(pa.array(marks)).select(names)
        wanted = self._columns([*names, *keys.column_names])

        def are_sought(rows: pa.Table) -> Marks:
            return isin_rows(rows.select(keys.column_names), keys)

        def sifted(rows: pa.Table) -> pa.Table:
            return rows.filter(pa.array(are_sought(rows))).select(names)

        sieve = Sieve(self._columns(keys.column_names), are_sought)
        read_rows = narrow.reduced(wanted, sifted, sieve)
        return sifted(self._all(narrow)) if read_rows is None else read_rows

    def _all(self, stored: Stored) -> pa.Table:
        """Return all rows of a feeder."""
        size = stored.count * stored.row_bytes
        return self._here(stored.rows(), stored.columns, stored.count, size)

    def _here(
        self, rows: Rows, columns: Sequence[Column], count: int | None = None, size: int = 0
    ) -> pa.Table:
        """Return rows on the driver, also if Spark has read them and there are few.

        Args:
            count: how many there are; None if it is not known.

        Raises:
            TooManyRowsError: they stay in Spark.
        """
        if isinstance(rows, pa.Table):
            return rows
        if count is None or not self.engines.is_local(count, size, in_spark=True):
            raise TooManyRowsError
        return self.engines.table(rows, columns)

    def _columns(self, names: Sequence[str]) -> tuple[Column, ...]:
        known = {column.name: column for column in self.input.content}
        return tuple(known[name] for name in dict.fromkeys(names))


def followed(inputs: Sequence[StageInput], engines: Engines) -> Mapping[str, FollowedInput]:
    """Return the feeders of a view, by name."""
    return {each.stage.name: FollowedInput(each, engines) for each in inputs}
