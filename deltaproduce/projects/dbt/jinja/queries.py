"""Queries: the SQL of a model, compiled by dbt or rendered here.

Pure. The invariant: a model is taken as in a full run, so an incremental one is never the text that
dbt compiled for a table that was there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from deltaproduce.errors import DefinitionError
from deltaproduce.projects.dbt.jinja.rendering import Renderer
from deltaproduce.projects.dbt.jinja.tables import KnownTables
from deltaproduce.projects.dbt.manifest import Manifest, Node
from deltaproduce.projects.dbt.sql.translation import EPHEMERAL_PREFIX

_OF_TABLE: Final = re.compile(r"\b(is_incremental|this|should_full_refresh)\b")


def query_of(node: Node, renderer: Renderer, tables: KnownTables) -> str:
    """Return the SQL of a model as in a full run.

    Raises:
        DefinitionError: it is not compiled, and rendering it needs a database.
    """
    if node.language != "sql":
        raise DefinitionError(
            f"it is written in {node.language}: write it as a function, see docs/guide.md"
        )
    if node.compiled_code is None:
        return renderer.rendered(node, tables)
    if node.materialized != "incremental" or not _asks_of_its_table(node, renderer.manifest):
        return node.compiled_code
    return renderer.rendered(node, tables)


def _asks_of_its_table(node: Node, manifest: Manifest) -> bool:
    """Return whether what dbt compiles may depend on the table that is there."""
    depends = node.values.get("depends_on") or {}
    macros = (manifest.macros.get(id) for id in depends.get("macros") or ())
    texts = [str(one.get("macro_sql")) for one in macros if one and one["package_name"] != "dbt"]
    return any(_OF_TABLE.search(text) for text in [node.raw_code, *texts])


def ephemeral_of(
    node: Node, manifest: Manifest, renderer: Renderer, tables: KnownTables
) -> dict[str, str]:
    """Return the queries of the ephemeral models that a rendered node reads, those read first.

    Raises:
        DefinitionError: as for `query_of`.
    """
    queries = dict[str, str]()
    for one in _ephemeral(node.depends_on, manifest):
        queries |= ephemeral_of(one, manifest, renderer, tables)
        queries[f"{EPHEMERAL_PREFIX}{one.name}"] = renderer.rendered(one, tables)
    return queries


def _ephemeral(ids: Iterable[str], manifest: Manifest) -> Iterator[Node]:
    for id in ids:
        node = manifest.nodes.get(id)
        if node is not None and node.sort == "model" and node.materialized == "ephemeral":
            yield node
