"""The comparison: which table of dbt each stage is, and how their rows differ.

The invariant: a table is compared with one stage, and a stage with one table; tables without a
stage are listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp, to_table
from sqlglot.errors import SqlglotError

from deltaproduce.projects.dbt.manifest import Manifest, ManifestError, Node
from deltaproduce.projects.dbt.sql.naming import column_name
from deltaproduce.projects.dbt.sql.translation import DIALECTS
from deltaproduce.projects.dbt.target.databases import opened, shown_address
from deltaproduce.reading import stage_tables
from deltaproduce.reading.opened import Opened
from deltaproduce.storage.versions import stage_at
from deltaproduce.sync.comparing.results import ComparedTables
from deltaproduce.sync.comparing.tables import (
    OtherTable,
    StageRows,
    UnreadableTableError,
    compared,
)


@dataclass(frozen=True, slots=True)
class DbtTable:
    """A table that dbt keeps.

    Attributes:
        id: dbt's unique id of its node.
        name: its schema and name.
        stage: the stage that it became, if that is there.
    """

    id: str
    name: tuple[str, ...]
    stage: str


@dataclass(frozen=True, slots=True)
class HowCompared:
    """What counts as equal, and how much is shown.

    Attributes:
        version: the version of the store.
        tolerance: floats are equal if they differ by at most so much of the larger one.
        sample: the most rows of a table that are shown.
    """

    version: int
    tolerance: float
    sample: int


def tables_of(manifest: Manifest, stages: Mapping[str, str]) -> list[DbtTable]:
    """Return the tables of seeds, snapshots and models.

    Args:
        stages: the stage of a table, by dbt's unique id, where the stage has another name.

    Raises:
        ManifestError: two tables are the same stage.
    """
    dialect = DIALECTS.get(manifest.adapter, "")
    claimed = set(stages.values())
    nodes = [
        node
        for sort in ("seed", "snapshot", "model")
        for node in manifest.of(sort)
        if node.materialized != "ephemeral"
    ]
    by_stage = dict[str, str]()
    tables = list[DbtTable]()
    for node in nodes:
        stage = stages.get(node.id) or ("" if node.alias in claimed else node.alias)
        other = by_stage.setdefault(stage, node.id) if stage else node.id
        if other != node.id:
            raise ManifestError(
                f"{other} and {node.id} have the same name, {node.alias}: say under [dbt.stages] "
                f'in deltaproduce.toml which stage one of them is, as in "{node.id}" = "…"'
            )
        tables.append(DbtTable(node.id, _name(node, dialect), stage))
    return tables


def compare(
    store: Opened,
    tables: Collection[DbtTable],
    address: str,
    chosen: Collection[str] | None,
    how: HowCompared,
) -> ComparedTables:
    """Compare the stages of a version with the tables of dbt's database.

    Args:
        address: the database; see `databases.opened`.
        chosen: the stages that are compared; all if None.

    Raises:
        ManifestError: there is no such database, or no stage is one of the tables.
        UnreadableTableError: the database cannot be read.
    """
    kept = store.version(how.version).stages
    there = {table.stage: table for table in tables if table.stage in kept}
    missing = [".".join(table.name) for table in tables if table.stage not in kept]
    stages = [stage for stage in kept if stage in there and (chosen is None or stage in chosen)]
    if not stages:
        of = "the project" if chosen is None else "--select"
        raise ManifestError(f"no stage of {of} is a table of the dbt project; see [dbt.stages]")
    with opened(address) as find:
        results = [
            compared(
                _stage_rows(store, stage, how.version, there_table),
                there_table,
                ".".join(there[stage].name),
                tolerance=how.tolerance,
                sample=how.sample,
            )
            for stage in stages
            for there_table in [find(there[stage].name)]
        ]
    return ComparedTables(
        shown_address(address), how.version, tuple(results), () if chosen else tuple(missing)
    )


def _stage_rows(store: Opened, stage: str, version: int, other: OtherTable) -> StageRows:
    """Return the rows of a stage, in columns of the names that they have in dbt."""
    recorded = stage_at(store.version(version), store.stage(stage))
    rows = stage_tables.content(store, stage, version, ordered=False, internal=False)
    if not isinstance(rows, pa.Table):
        rows = rows.toArrow()
    shown = [column for column in recorded.schema.key if not column.is_hidden]
    types = {
        column.name: column.data_type.simpleString()
        for column in (*recorded.schema.key, *recorded.schema.value)
    }
    names = _names_in_dbt(other)
    return StageRows(
        stage,
        rows.rename_columns([names.get(name, name) for name in rows.column_names]),
        [names.get(column.name, column.name) for column in shown],
        {names.get(name, name): kind for name, kind in types.items()},
    )


def _names_in_dbt(other: OtherTable) -> dict[str, str]:
    """Return the columns that have another name in a table of dbt; none if it cannot be read."""
    try:
        return {column_name(name): name for name in other.columns if column_name(name) != name}
    except UnreadableTableError:
        return {}


def _name(node: Node, dialect: str) -> tuple[str, ...]:
    """Return the schema and the name of a node's table, as the database has them."""
    try:
        table = to_table(node.relation or "", dialect=dialect)
    except SqlglotError:
        return tuple(part for part in (node.schema, node.alias) if part)
    return tuple(_folded(table))


def _folded(table: exp.Table) -> Iterator[str]:
    """Yield the parts of a name but for the database: in lower case where it has no quotes."""
    for part in (table.args.get("db"), table.this):
        if isinstance(part, exp.Identifier):
            yield part.name if part.quoted else part.name.lower()
