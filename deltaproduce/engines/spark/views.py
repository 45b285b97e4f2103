"""Views in a catalog's schema: their listing, properties, creation and removal.

Names of schemas and views are quoted already; a view has one commit, its own, which is not Delta's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def names_in(spark: SparkSession, schema: str) -> dict[str, bool]:
    """Return a schema's tables and views, as the catalog spells them -> whether it is a view."""
    tables = spark.sql(f"SHOW TABLES IN {schema}").collect()
    views = spark.sql(f"SHOW VIEWS IN {schema}").collect()
    are_views = {row.viewName for row in views if not row.isTemporary}
    names = {row.tableName for row in tables if not row.isTemporary}
    return {name: name in are_views for name in names | are_views}


def properties(spark: SparkSession, view: str) -> dict[str, str]:
    """Return the properties of a view."""
    rows = spark.sql(f"SHOW TBLPROPERTIES {view}").collect()
    return {row.key: row.value for row in rows}


def replace(spark: SparkSession, view: str, text: str, properties: Mapping[str, str]) -> None:
    """Create a view of a query, or replace an existing one.

    Args:
        properties: its properties.
    """
    named = ", ".join(f"{_literal(name)} = {_literal(value)}" for name, value in properties.items())
    spark.sql(f"CREATE OR REPLACE VIEW {view} TBLPROPERTIES ({named}) AS\n{text}")


def drop(spark: SparkSession, view: str) -> None:
    """Remove a view, if it exists."""
    spark.sql(f"DROP VIEW IF EXISTS {view}")


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
