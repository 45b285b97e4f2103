"""Partitions: which ones are to exist at a date, by scopes and what the partition columns are.

The invariant: no two scopes of a date make the same partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

import pyarrow as pa
from pyspark.sql.types import DataType

from deltaproduce.errors import DefinitionError
from deltaproduce.shown.tasks import Partition, Values
from deltaproduce.stages.partitioned.scope.clauses import Scope, Scopes
from deltaproduce.stages.partitioned.scope.scalars import scalar
from deltaproduce.stages.sql.expressions.expression import Expression, items
from deltaproduce.types.atoms import arrow_type

_CHECKED: Final = 1_000
"""How many scopes a definition looks at, at most; a date looks at all."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions of a stage.

    Attributes:
        columns: the names of its partition columns, and what they are in a scope.
        types: the names, and their types.
    """

    text: str
    columns: tuple[tuple[str, Expression], ...]
    types: tuple[tuple[str, DataType], ...]
    scopes: Scopes

    @staticmethod
    def read(text: str, scopes: Scopes) -> Partitions:
        """The partition columns that a text defines: ``"day = partition_day, store"``.

        Raises:
            DefinitionError: it cannot be read, names what no scope has, or two scopes make one
                partition at any date.
        """
        columns = list[tuple[str, Expression]]()
        for part, alias in items(text):
            name, sign, value = part.partition("=")
            name = name.strip().strip("`")
            if alias is not None or not name.isidentifier():
                raise DefinitionError(
                    f"{part!r} is no partition column; write name = value, or a name of the scope"
                )
            if name.lower() in (known.lower() for known, _ in columns):
                raise DefinitionError(f"partition column {name!r} is there twice; name it once")
            columns.append((name, Expression.read(value if sign else name, list(scopes.types))))
        types = tuple((name, scalar(value, scopes.sample).data_type) for name, value in columns)
        found = Partitions(" ".join(text.split()), tuple(columns), types, scopes)
        found._keyed(islice(scopes.timeless, _CHECKED))
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _ in self.columns)

    def at(self, moment: datetime, *, stage: str) -> dict[Values, Scope]:
        """The partitions that are to exist at a date, in order, and the scope of each.

        Raises:
            DefinitionError: a value cannot be computed, or two scopes make one partition.
        """
        try:
            return self._keyed(self.scopes.of(moment))
        except DefinitionError as error:
            raise DefinitionError(f"stage {stage!r}: {error}", stage=stage) from None

    def _keyed(self, scopes: Iterable[Scope]) -> dict[Values, Scope]:
        """Scopes by the partitions that they make."""
        found = dict[Values, Scope]()
        for scope in scopes:
            values = tuple(scalar(value, scope).value for _, value in self.columns)
            if values in found:
                named = Partition("", tuple(zip(self.names, values, strict=True)))
                raise DefinitionError(
                    f"two of its scopes make partition {str(named).lstrip('/')}; let its partition "
                    "columns tell them apart"
                )
            found[values] = scope
        return found


def table_of(values: Iterable[Values], columns: Sequence[tuple[str, DataType]]) -> pa.Table:
    """Partitions as rows, in their columns."""
    rows = list(values)
    arrays = {
        name: pa.array([row[place] for row in rows], arrow_type(kind))
        for place, (name, kind) in enumerate(columns)
    }
    return pa.table({"_": pa.nulls(len(rows)), **arrays})
