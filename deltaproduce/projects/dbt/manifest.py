"""The manifest of a dbt project, `target/manifest.json`, as values.

Pure. The invariant: a `Manifest` comes from a schema version that is known, and what is missing in
a node has the value that dbt gives it. Nodes keep dbt's unique ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from deltaproduce.errors import DefinitionError
from deltaproduce.types.excerpts import shown

OLDEST_SCHEMA: Final = 12
"""The schema version of dbt 1.8's manifests."""
_SCHEMA: Final = re.compile(r"/manifest/v([0-9]+)(?:\.json)?$")


class ManifestError(DefinitionError):
    """A manifest that cannot be read as one."""


@dataclass(frozen=True, slots=True)
class DescribedColumn:
    """What a dbt project says of a column.

    Attributes:
        data_type: its type in the adapter's SQL; None if the project does not say it.
    """

    name: str
    data_type: str | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A node or source of a manifest.

    Attributes:
        id: dbt's unique id.
        sort: its resource type, such as ``model``, ``seed`` or ``source``.
        name: its name, by which `ref` finds it.
        alias: the name of its table.
        package: the package that defines it.
        path: its file, relative to the folder of its package.
        root: the folder of its package, where the manifest says it; empty elsewhere.
        relation: its table as the database names it; None if it has none.
        raw_code: its text with Jinja.
        compiled_code: its SQL; None if it is not compiled.
        columns: the columns that the project says something about.
        depends_on: the ids of the nodes that it reads.
        values: all that the manifest says of it.
    """

    id: str
    sort: str
    name: str
    alias: str
    package: str
    path: str
    root: str
    relation: str | None
    raw_code: str
    compiled_code: str | None
    columns: tuple[DescribedColumn, ...]
    depends_on: tuple[str, ...]
    values: Mapping[str, Any]

    @property
    def config(self) -> Mapping[str, Any]:
        """Its configuration."""
        return _mapping(self.values, "config")

    @property
    def materialized(self) -> str:
        """How dbt keeps it, such as ``view``, ``table``, ``incremental`` or ``ephemeral``."""
        return str(self.config.get("materialized") or "view")

    @property
    def schema(self) -> str:
        """The schema of its table."""
        return _text(self.values, "schema")

    @property
    def description(self) -> str:
        """Its description."""
        return _text(self.values, "description")

    @property
    def language(self) -> str:
        """The language that it is written in."""
        return _text(self.values, "language") or "sql"

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return tuple(map(str, self.values.get("tags") or ()))

    @property
    def group(self) -> str:
        """Its group; empty if it has none."""
        return _text(self.values, "group") or _text(self.config, "group")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A dbt project, as its manifest tells it.

    Attributes:
        project: the name of the root project.
        adapter: the type of its adapter, such as ``duckdb``.
        dbt_version: the version of dbt that wrote it.
        nodes: models, seeds, snapshots, tests and so on, by unique id.
        sources: its sources, by unique id.
        macros: the text of each macro, by unique id.
        others: how many there are of what is not about tables, by word.
    """

    project: str
    adapter: str
    dbt_version: str
    nodes: Mapping[str, Node]
    sources: Mapping[str, Node]
    macros: Mapping[str, Mapping[str, Any]]
    unit_tests: Mapping[str, Mapping[str, Any]]
    others: Mapping[str, int]

    def of(self, sort: str) -> Iterator[Node]:
        """Yield the nodes of a resource type, in the order of their names."""
        chosen = (node for node in self.nodes.values() if node.sort == sort)
        yield from sorted(chosen, key=lambda node: (node.name, node.id))

    def node(self, id: str) -> Node | None:
        """Return a node or source; None if there is none."""
        return self.nodes.get(id) or self.sources.get(id)


_OTHERS: Final = ("exposures", "metrics", "semantic_models", "saved_queries", "functions")


def parsed(text: str) -> Manifest:
    """Return the manifest that a text is.

    Raises:
        ManifestError: it is no manifest, or one of a schema version that is too old.
    """
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ManifestError(f"the manifest is not JSON: {error}") from None
    metadata = values.get("metadata") if isinstance(values, dict) else None
    if not isinstance(metadata, dict):
        raise ManifestError("the manifest has no metadata, so it is none of dbt's: run dbt parse")
    _check_schema(metadata)
    adapter = metadata.get("adapter_type")
    if not isinstance(adapter, str):
        raise ManifestError(f"the manifest's adapter_type is {shown(adapter)}; run dbt parse again")
    return Manifest(
        project=str(metadata.get("project_name") or ""),
        adapter=adapter,
        dbt_version=str(metadata.get("dbt_version") or ""),
        nodes={id: _node(id, one) for id, one in _mapping(values, "nodes").items()},
        sources={id: _node(id, one) for id, one in _mapping(values, "sources").items()},
        macros=_mapping(values, "macros"),
        unit_tests=_mapping(values, "unit_tests"),
        others={word: len(_mapping(values, word)) for word in _OTHERS if values.get(word)},
    )


def _check_schema(metadata: Mapping[str, Any]) -> None:
    said = metadata.get("dbt_schema_version")
    matched = _SCHEMA.search(said) if isinstance(said, str) else None
    if matched is None:
        message = f"the manifest's dbt_schema_version is {shown(said)}, which is none of dbt's"
        raise ManifestError(f"{message}; run dbt parse")
    if int(matched[1]) < OLDEST_SCHEMA:
        version = shown(metadata.get("dbt_version"))
        message = f"the manifest has schema version {matched[1]}, of dbt {version}"
        raise ManifestError(
            f"{message}; {OLDEST_SCHEMA} and newer are read: run dbt parse with dbt 1.8 or newer"
        )


def _node(id: str, values: Mapping[str, Any]) -> Node:
    name = str(values["name"])
    alias = values.get("identifier") or values.get("alias") or name
    depends = _mapping(values, "depends_on").get("nodes") or ()
    return Node(
        id=id,
        sort=str(values["resource_type"]),
        name=name,
        alias=str(alias),
        package=_text(values, "package_name"),
        path=_text(values, "original_file_path"),
        root=_text(values, "root_path"),
        relation=values.get("relation_name") or None,
        raw_code=_text(values, "raw_code"),
        compiled_code=values.get("compiled_code") or None,
        columns=tuple(
            DescribedColumn(
                str(one.get("name") or name), one.get("data_type"), _text(one, "description")
            )
            for name, one in _mapping(values, "columns").items()
        ),
        depends_on=tuple(map(str, depends)),
        values=values,
    )


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = values.get(key)
    return value if isinstance(value, dict) else {}


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""
