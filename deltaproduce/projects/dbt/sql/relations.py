"""Relations: which node a table of a model's SQL is.

Pure. The invariant: a table is found by its whole name if the text has it, and by what it has
otherwise; the database's rule for case does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp, to_table
from sqlglot.errors import SqlglotError

from deltaproduce.errors import DefinitionError
from deltaproduce.projects.dbt.manifest import Node


@dataclass(frozen=True, slots=True)
class Relations:
    """The tables of a dbt project.

    Attributes:
        nodes: name, schema and database of a table, in lower case -> its node. A name with fewer
            parts is there, too.
    """

    nodes: Mapping[tuple[str, ...], str]

    @staticmethod
    def of(nodes: Iterable[Node], dialect: str) -> Relations:
        """Return the tables of nodes, of which the first counts if several have one table."""
        ids = dict[tuple[str, ...], str]()
        for node in nodes:
            parts = _parts(node, dialect)
            for count in range(len(parts), 0, -1):
                ids.setdefault(parts[:count], node.id)
            if place := external_location(node):
                ids.setdefault((place.lower(),), node.id)
        return Relations(ids)

    def id_of(self, node: Node, dialect: str) -> str:
        """Return the node that a node's table belongs to: a source may be a model's table."""
        return self.nodes[_parts(node, dialect)]

    def node_of(self, table: exp.Table) -> str:
        """Return the node of a table.

        Raises:
            DefinitionError: it is none of the project.
        """
        parts = [table.name, table.db, table.catalog]
        key = tuple(part.lower() for part in parts if part)
        if key not in self.nodes:
            name = ".".join(reversed([part for part in parts if part]))
            raise DefinitionError(
                f"it reads {name!r}, which is no model, seed or source of the project: "
                "name it with ref or source"
            )
        return self.nodes[key]


def external_location(node: Node) -> str | None:
    """Return the file that dbt-duckdb reads a source from; None if it is a table."""
    metas = [node.config.get("meta"), node.values.get("meta"), node.values.get("source_meta")]
    for meta in (one for one in metas if isinstance(one, dict)):
        place = meta.get("external_location")
        if isinstance(place, str):
            names = {"name": node.name, "identifier": node.alias, "schema": node.schema}
            for name, value in names.items():
                place = place.replace(f"{{{name}}}", value)
            return place
    return None


def _parts(node: Node, dialect: str) -> tuple[str, ...]:
    """Return a table's name, schema and database."""
    try:
        table = to_table(node.relation or "", dialect=dialect) if node.relation else None
    except SqlglotError:
        table = None
    if table is None:
        parts = [node.alias, node.schema, str(node.values.get("database") or "")]
    else:
        parts = [table.name, table.db, table.catalog]
    return tuple(part.lower() for part in parts if part)
