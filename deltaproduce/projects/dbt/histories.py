"""Taking snapshots: each as four stages, or left out with a reason.

The stages are the rows that runs have seen, the snapshot's query over them, their history, and that
with dbt's columns.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltaproduce.errors import DefinitionError, DeltaProduceError
from deltaproduce.projects.dbt import texts
from deltaproduce.projects.dbt.carried import Conversion, LeftOut
from deltaproduce.projects.dbt.given.rows import RowSource
from deltaproduce.projects.dbt.jinja.queries import query_of
from deltaproduce.projects.dbt.jinja.rendering import Renderer
from deltaproduce.projects.dbt.manifest import Node
from deltaproduce.projects.dbt.snapshots import (
    Snapshot,
    SnapshotHistory,
    expression_of,
    given_columns,
)
from deltaproduce.projects.dbt.sql.naming import free_name, in_sql


@dataclass(frozen=True, slots=True)
class SnapshotQuery:
    """A snapshot whose rows are those of a seed or source.

    Attributes:
        text: its query in the adapter's SQL.
        read: the id of the seed or source.
        given: its columns that are the snapshot's key and, last, its time.
    """

    node: Node
    snapshot: Snapshot
    text: str
    read: str
    given: tuple[str, ...]

    def wanted(self) -> dict[str, str]:
        """Return the columns that the seed or source must have, with their likely types."""
        *keys, time = self.given
        return {**dict.fromkeys(keys, "string"), time: "timestamp"}


def queries(conversion: Conversion, renderer: Renderer) -> Iterator[SnapshotQuery]:
    """Yield the snapshots that may be taken; note why others are not."""
    for node in conversion.manifest.of("snapshot"):
        text = node.raw_code
        try:
            snapshot = Snapshot.of(node)
            text = query_of(node, renderer, conversion.jinja_tables())
            query = conversion.translated(text, {})
            if query.has_date:
                raise DefinitionError("its query reads the day: let a model that reads it do that")
            read = [*query.reads]
            if len(read) != 1 or not _is_given(conversion, read[0]):
                raise DefinitionError(
                    f"it reads {', '.join(sorted(query.reads)) or 'no table'}: only the rows of a "
                    "seed or source keep their past, so take a snapshot of that"
                )
            columns = given_columns(query.sql, (*snapshot.key, snapshot.updated_at))
            yield SnapshotQuery(node, snapshot, text, read[0], columns)
        except DefinitionError as error:
            conversion.left_out.append(LeftOut(node.id, node.path, str(error), text))


def _is_given(conversion: Conversion, id: str) -> bool:
    node = conversion.manifest.node(id)
    return node is not None and node.sort in {"seed", "source"}


def take(conversion: Conversion, one: SnapshotQuery) -> None:
    """Take a snapshot as a history, or note why not.

    Four stages: the rows that runs have seen, the snapshot's query over them, their history, and
    that with dbt's columns.
    """
    node, snapshot, pipeline = one.node, one.snapshot, conversion.pipeline
    name = conversion.names[node.id]
    taken = {*conversion.names.values(), *(stage.name for stage in pipeline.stages)}
    rows, states, history = (
        free_name(f"{name}__{part}", taken) for part in ("rows", "states", "history")
    )
    key = ", ".join(map(in_sql, snapshot.key))
    time = in_sql(snapshot.updated_at)
    try:
        source = _source(conversion, one.read).kept_by(one.given)
        query = conversion.translated(one.text, {}, names={**conversion.names, one.read: rows})
        source.define(pipeline, rows)
        schema = pipeline.sql(states, query.sql, key=f"{key}, {time}").schema
        values = ", ".join(in_sql(column.name) for column in schema.value)
        states_of_key = SnapshotHistory(
            history, states, key, sequence=time, columns=f"{values}, {time}", track=time
        )
        states_of_key.define(pipeline)
        columns = [column.name for column in (*schema.key, *schema.value)]
        time_type = source.columns[source.key[-1]]
        sql = snapshot.final_sql(history, columns, time_type, _current(conversion, snapshot))
        pipeline.sql(name, sql, key=", ".join(map(in_sql, snapshot.final_key)))
    except DeltaProduceError as error:
        conversion.left_out.append(LeftOut(node.id, node.path, str(error), one.text))
        return
    conversion.sources[rows] = source
    conversion.histories.append(states_of_key)
    conversion.taken[node.id] = name
    keyed_by = (*snapshot.key, snapshot.updated_at)
    conversion.files |= {
        f"stages/{rows}.sql": texts.source_text(source, rows),
        f"stages/{states}.sql": texts.keyed_text(states, query.sql, keyed_by),
        f"stages/{name}.sql": texts.stage_text(node, name, sql, snapshot.final_key),
    }


def _source(conversion: Conversion, id: str) -> RowSource:
    source = conversion.sources.get(conversion.taken.get(id, ""))
    if source is None:
        raise DefinitionError(f"it reads {id}, whose rows are not carried over as a source")
    return source


def _current(conversion: Conversion, snapshot: Snapshot) -> str | None:
    """Return what ends a current row, in Spark's SQL; None if it is null."""
    if snapshot.to_current is None:
        return None
    return expression_of(conversion.translated(f"SELECT {snapshot.to_current} AS a", {}).sql)
