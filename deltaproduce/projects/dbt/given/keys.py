"""Keys: the columns that a dbt project says to be unique.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltaproduce.projects.dbt.manifest import Manifest, Node


def unique_columns(manifest: Manifest) -> dict[str, list[tuple[str, ...]]]:
    """Return the columns that are said to be unique, by the node's id, the best first."""
    columns_of = dict[str, list[tuple[str, ...]]]()
    for node in manifest.nodes.values():
        for id, columns in _said(node):
            if columns not in columns_of.setdefault(id, []):
                columns_of[id].append(columns)
    return columns_of


def _said(node: Node) -> Iterator[tuple[str, tuple[str, ...]]]:
    unique_key = node.config.get("unique_key")
    if node.sort == "model" and unique_key:
        columns = unique_key if isinstance(unique_key, list) else [unique_key]
        if all(isinstance(one, str) and one.isidentifier() for one in columns):
            yield node.id, tuple(columns)
    test = node.values.get("test_metadata")
    attached = node.values.get("attached_node")
    if not isinstance(test, dict) or not isinstance(attached, str) or node.config.get("where"):
        return
    kwargs = test.get("kwargs") or {}
    column = kwargs.get("column_name")
    if test.get("name") == "unique" and isinstance(column, str) and column.isidentifier():
        yield attached, (column,)
    if test.get("name") == "unique_combination_of_columns":
        together = kwargs.get("combination_of_columns")
        if isinstance(together, list) and all(str(one).isidentifier() for one in together):
            yield attached, tuple(map(str, together))
