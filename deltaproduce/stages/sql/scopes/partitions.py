"""Partitions: the expected ones at a date, from scopes and definitions of partition columns.

The invariant: no two scopes of a date make the same partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers, codes, numbered
from deltaproduce.errors import DefinitionError
from deltaproduce.shown.tasks import Partition, Values
from deltaproduce.stages.sql.expressions.expression import Expression, items
from deltaproduce.stages.sql.scopes.clauses import Scoped, Scopes
from deltaproduce.stages.sql.scopes.coded import computed
from deltaproduce.stages.sql.scopes.scalars import scalar
from deltaproduce.stages.sql.scopes.tables import table_of, values_at
from deltaproduce.times.zones import OF_UTC
from deltaproduce.types.columns import check_column_name
from deltaproduce.types.data_types import DataType
from deltaproduce.types.ddl import name_from, quoted

_SAMPLE_DATES: Final = (
    datetime(2001, 1, 1, tzinfo=UTC),
    datetime(2013, 7, 17, 13, 30, tzinfo=UTC),
    datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC),
)
"""Dates of all sorts: what fails at each of them is a mistake in the definition."""


@dataclass(frozen=True, slots=True)
class ExpectedPartitions:
    """The expected partitions of a stage.

    Attributes:
        columns: the names of its partition columns, with their expressions over a scope.
        types: the names, with their types.
    """

    text: str
    columns: tuple[tuple[str, Expression], ...]
    types: tuple[tuple[str, DataType], ...]
    scopes: Scopes

    @staticmethod
    def read(text: str, scopes: Scopes) -> ExpectedPartitions:
        """Read the partition columns that a text defines: ``"day = partition_day, store"``.

        Raises:
            DefinitionError: it cannot be parsed, names what no scope has, or two scopes make one
                partition at any date; if scopes depend on it, at each of some dates.
        """
        columns = list[tuple[str, Expression]]()
        for part, alias in items(text):
            before, sign, value = part.partition("=")  # no name of a column has it
            name = name_from(before)
            if alias is not None or name is None:
                raise DefinitionError(
                    f"{part!r} is not a partition column; write name = value, or a name of the "
                    "scope"
                )
            check_column_name(name)
            if name.lower() in (known.lower() for known, _ in columns):
                raise DefinitionError(f"partition column {name!r} is there twice; name it once")
            read = value if sign else quoted(name)
            columns.append((name, Expression.read(read, list(scopes.types))))
        types = tuple(
            (name, scalar(value, scopes.sample, OF_UTC).data_type) for name, value in columns
        )
        partitions = ExpectedPartitions(" ".join(text.split()), tuple(columns), types, scopes)
        if scopes.timeless is not None:
            partitions._planned(scopes.timeless)
        else:
            partitions._check_dates()
        return partitions

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _ in self.columns)

    def at(self, moment: datetime, *, stage: str) -> PlannedPartitions:
        """Return the expected partitions at a date, in order, and the scope of each.

        Raises:
            DefinitionError: a value cannot be computed, or two scopes make one partition.
        """
        try:
            return self._planned(self.scopes.of(moment))
        except DefinitionError as error:
            raise DefinitionError(f"stage {stage!r}: {error}", stage=stage) from None

    def _check_dates(self) -> None:
        """Check that there is a date without two scopes of one partition."""
        for moment in _SAMPLE_DATES[1:]:
            try:
                self._planned(self.scopes.of(moment))
            except DefinitionError:
                continue
            return
        self._planned(self.scopes.of(_SAMPLE_DATES[0]))

    def _planned(self, scopes: Scoped) -> PlannedPartitions:
        """Return the partitions of scopes."""
        if not scopes.size:
            return PlannedPartitions(table_of([], self.types), scopes)
        columns = {
            name: computed(value, scopes.names, scopes.size, scopes.zone).array
            for name, value in self.columns
        }
        planned = PlannedPartitions(pa.table({"_": pa.nulls(scopes.size), **columns}), scopes)
        numbers = numbered(
            [np.zeros(scopes.size, np.int64), *map(codes, planned.partitions.columns)]
        )
        twice = np.flatnonzero(np.bincount(numbers)[numbers] > 1)
        if len(twice):
            values = planned.values(int(twice[0]))
            named = Partition("", tuple(zip(self.names, values, strict=True)))
            raise DefinitionError(
                f"two of its scopes make partition {str(named).lstrip('/')}; let its partition "
                "columns tell them apart"
            )
        return planned


@dataclass(frozen=True, slots=True)
class PlannedPartitions:
    """Expected partitions, in order.

    Attributes:
        table: one row each, in the partition columns, after one column of nulls.
        scopes: the scope of each.
    """

    table: pa.Table
    scopes: Scoped

    def __len__(self) -> int:
        return self.scopes.size

    @property
    def partitions(self) -> pa.Table:
        """The partition columns."""
        return self.table.drop_columns(["_"])

    def values(self, row: int) -> Values:
        """Return the values of one partition."""
        return tuple(values_at(self.partitions, [row])[0])

    def beside(self, other: PlannedPartitions) -> PlannedPartitions:
        """Append other partitions."""
        return PlannedPartitions(
            pa.concat_tables([self.table, other.table]), self.scopes.beside(other.scopes)
        )

    def taken(self, rows: Numbers) -> PlannedPartitions:
        """Return partitions, by position."""
        return PlannedPartitions(self.table.take(pa.array(rows)), self.scopes.taken(rows))


def are_kept(retention: str) -> bool:
    """Return whether partitions that are no longer expected are kept.

    Raises:
        DefinitionError: the word is unknown.
    """
    if retention not in {"keep", "tasks"}:
        raise DefinitionError(f"retention is {retention!r}; use 'keep' or 'tasks'")
    return retention == "keep"
