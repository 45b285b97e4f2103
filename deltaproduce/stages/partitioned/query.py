"""The query of a partitioned stage: its feeders, its references to the scope, and its edits.

The invariant: `TaskQuery.sql` returns the user's text, with views in place of stages and literals
in place of the scope's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from deltaproduce.stages.partitioned.conditions import Read, reads_of
from deltaproduce.stages.sql.resolve import Resolved, in_tasks
from deltaproduce.stages.sql.scopes.clauses import Scope
from deltaproduce.types.columns import RowSchema
from deltaproduce.types.data_types import DataType, NullType

Outputs: TypeAlias = tuple[tuple[str, DataType], ...]
"""The columns of rows: names and types; `NullType` if only Spark knows the type."""

UNKNOWN: Final = NullType()


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """A query that runs for one scope at a time.

    Attributes:
        resolved: what its text says with a scope of any date.
        reads: the places where it reads feeders.
        outputs: its columns, with the types that are known.
    """

    resolved: Resolved
    reads: tuple[Read, ...]
    outputs: Outputs

    @property
    def text(self) -> str:
        """The user's text."""
        return self.resolved.text

    @property
    def feeders(self) -> tuple[str, ...]:
        """The names of the stages that it reads, each once, in the order of their mention."""
        return self.resolved.feeders

    def sql(self, views: Mapping[str, str], scope: Scope) -> str:
        """Return the query of one task.

        Args:
            views: feeder -> view name.
        """
        return self.resolved.sql(views, scope)


def read_query(
    text: str,
    stages: Mapping[str, RowSchema],
    partitioned: Mapping[str, tuple[str, ...]],
    sample: Scope,
) -> TaskQuery:
    """Read a query.

    Args:
        text: one SELECT in Spark's SQL, which names stages as its tables.
        stages: the columns of the stages that it may read.
        partitioned: the partition columns of each.
        sample: a scope of any date, for its names and their types.

    Raises:
        DefinitionError: it cannot be parsed, names something unknown, or is not deterministic.
    """
    resolved = in_tasks(text, stages, sample)
    columns = {name: _partition(stages[name], partitioned[name]) for name in resolved.feeders}
    outputs = tuple((name, resolved.types.get(name, UNKNOWN)) for name in resolved.names)
    return TaskQuery(resolved, reads_of(resolved, columns), outputs)


def _partition(schema: RowSchema, names: tuple[str, ...]) -> dict[str, DataType]:
    """Return the partition columns of a stage, with their types."""
    types = {c.name: c.data_type for c in (*schema.key, *schema.value)}
    return {name: types[name] for name in names}
