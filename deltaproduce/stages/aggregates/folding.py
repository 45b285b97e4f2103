"""Folding: states of groups are added up and become the rows of a stage.

A stage's stored states and those of added and removed rows have the same form: a key, and its
measures. The sum of all states of a key gives the key's row. The invariant: the rows that
`Folding.rows` returns depend on the sums alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, factorize, firsts_of
from deltaproduce.errors import CorruptStoreError, ProducerError
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.aggregates.grouping import Grouping
from deltaproduce.stages.sql.states.measures import GroupError
from deltaproduce.times.zones import zone_of
from deltaproduce.types.columns import ORDINAL, Column
from deltaproduce.types.excerpts import shown
from deltaproduce.types.pandas_on_demand import in_numpy
from deltaproduce.types.python_values import python_keys


@dataclass(frozen=True, slots=True)
class Folding:
    """The conversion of feeder rows to states, and of states to rows.

    Attributes:
        layout: the stage's layout.
        stage: its name.
        zone: the session's time zone, in which an error shows a key.
    """

    grouping: Grouping
    layout: Layout
    stage: str
    zone: str

    def rows(self, states: pa.Table) -> pa.Table:
        """Return the rows of a stage.

        Args:
            states: key columns and measure columns; all states of each key.

        Returns:
            Rows in the columns of the content; no row for a key without feeder rows.

        Raises:
            ProducerError: a value does not fit its type, or a user function failed; with `stage`
                and `key`.
            CorruptStoreError: a key has fewer than zero rows, so its stored state is wrong.
        """
        keys, sums = self._added_up(states)
        counts = in_numpy(sums[0])
        for group in np.flatnonzero(counts < 0)[:1]:
            raise CorruptStoreError(
                f"stage {self.stage!r}, key {shown(self._key(keys, group))}: after this change it "
                f"has {counts[group]} rows, so someone else has changed its content; "
                f"store.refresh({self.stage!r}) makes it again"
            )
        alive = counts > 0
        if not alive.all():
            keys, sums = keys.filter(pa.array(alive)), [s.filter(pa.array(alive)) for s in sums]
        kept = []
        for (measure, name), one in zip(self.grouping.named, sums, strict=True):
            with self._blaming(keys, name):
                kept.append(measure.settled(one))
        columns = {name: keys.column(name) for name in keys.column_names}
        columns[ORDINAL] = pa.array(np.zeros(len(keys), np.int64))
        for result in self.grouping.answers:
            with self._blaming(keys, result.name):
                columns[result.name] = result.function.finish([kept[n] for n in result.states])
        columns |= {c.name: state for c, state in zip(self._measured, kept, strict=True)}
        return pa.table({c.name: columns[c.name] for c in self.layout.content})

    def added_up(self, states: pa.Table) -> pa.Table:
        """Return the distinct keys of states, with the sum of each measure."""
        keys, sums = self._added_up(states)
        return pa.table([*keys.columns, *sums], [c.name for c in self.states])

    def of_rows(self, rows: pa.Table, signs: Numbers, key: Sequence[str]) -> pa.Table:
        """Return the states of rows, one row per key.

        Args:
            rows: rows of the feeder.
            signs: whether each was added (1) or removed (-1).
            key: the columns of the feeder that form the key.
        """
        keys = rows.select(list(key)).rename_columns([c.name for c in self.layout.key])
        groups, firsts = _grouped_by(keys)
        sums = keys.take(pa.array(firsts))
        states = []
        for measure, name in self.grouping.named:
            arguments = [self.grouping.arguments[place] for place in measure.arguments]
            values = _together([rows.column(one).combine_chunks() for one in arguments])
            with self._blaming(sums, name):
                states.append(measure.here(values, signs, groups, len(firsts)))
        return pa.table([*sums.columns, *states], [c.name for c in self.states])

    @property
    def states(self) -> tuple[Column, ...]:
        """The columns of states in rows."""
        return (*self.layout.key, *self._measured)

    @property
    def _measured(self) -> tuple[Column, ...]:
        """The columns of its measures."""
        return self.grouping.states.columns

    def _added_up(self, states: pa.Table) -> tuple[pa.Table, list[pa.Array]]:
        keys = states.select([c.name for c in self.layout.key])
        groups, firsts = _grouped_by(keys)
        group_keys, sums = keys.take(pa.array(firsts)), []
        for (measure, name), column in zip(self.grouping.named, self._measured, strict=True):
            with self._blaming(group_keys, name):
                one = states.column(column.name).combine_chunks()
                sums.append(measure.added(one, groups, len(firsts)))
        return group_keys, sums

    @contextmanager
    def _blaming(self, keys: pa.Table, value: str) -> Iterator[None]:
        """Add the key and the value at fault to a group's error."""
        try:
            yield
        except GroupError as error:
            key = self._key(keys, error.group)
            message = f"stage {self.stage!r}, key {shown(key)}: value {value!r} {error}"
            raise ProducerError(
                message, stage=self.stage, key=key, column=value
            ) from error.__cause__

    def _key(self, keys: pa.Table, group: int) -> object:
        """Return a key as functions get it."""
        key, zone = self.layout.schema.key, zone_of(self.zone)
        return python_keys(key, zone, keys.slice(group, 1).columns)[0]


def _together(arrays: Sequence[pa.Array]) -> pa.Array | None:
    """Return a measure's input, one item per row: a struct if it has several arguments."""
    if len(arrays) > 1:
        return pa.StructArray.from_arrays(arrays, [str(n) for n in range(len(arrays))])
    return arrays[0] if arrays else None


def _grouped_by(keys: pa.Table) -> tuple[Numbers, Numbers]:
    """Return the number of each row's key, and the first row of each key."""
    groups = factorize(keys.columns)
    return groups, firsts_of(groups)
