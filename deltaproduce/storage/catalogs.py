"""Catalogs: whether a session finds a store in a schema again, and the files that are there.

A name without a slash is a schema. Where the session's catalog is in memory, it forgets its tables
when the process ends, while their files stay: the next process would see an empty store, and fail
when it writes. The invariant: a store in a schema is opened only where the session knows its tables
as long as their files are there, or where somebody has made the schema in this process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from deltaproduce.errors import DefinitionError
from deltaproduce.storage.locations import Table
from deltaproduce.storage.tables import Tables

_SESSION_CATALOG: Final = "spark_catalog"
_IN_MEMORY: Final = "in-memory"
_LASTING: Final = "dp.local_session(config={'spark.sql.catalogImplementation': 'hive'})"


@dataclass(frozen=True, slots=True)
class Schema:
    """What a session whose catalog is in memory knows of a store's schema.

    Attributes:
        text: the location, as the user says it.
        address: the schema, as SQL says it.
        exists: somebody has made it in this process; or it is ``default``, which is always there.
        unknown_log: the directory of a version log that the catalog does not know, if there is one.
    """

    text: str
    address: str
    exists: bool
    unknown_log: str | None = None


def check_schema(tables: Tables, text: str) -> None:
    """Refuse a schema that is in memory only, unless somebody has made it in this process.

    Two settings are read, and where the catalog is in memory the schema is looked up.

    Args:
        tables: those of a store in a catalog.
        text: its location, as the user says it.

    Raises:
        DefinitionError: the schema is not there; or it is, but another process has left files of a
            store in its directory.
    """
    if _lasts(tables.spark, tables.location.address):
        return
    found = refusal(_looked_up(tables, text))
    if found is not None:
        raise DefinitionError(found)


def refusal(schema: Schema) -> str | None:
    """What is wrong with a schema in memory; None if a store may be in it."""
    if not schema.exists:
        return (
            f"location {schema.text!r} has no '/', so it is a schema, and this session has none of "
            f"that name. If you mean a path, write './{schema.text}'. If you mean a schema: this "
            "session's catalog is in memory and is forgotten when the process ends. Use a session "
            f"whose catalog lasts, such as {_LASTING}. For tables that only live as long as this "
            f"session, create the schema first: CREATE SCHEMA {schema.address}"
        )
    if schema.unknown_log is not None:
        return (
            f"location {schema.text!r} is a schema of this session, and another process has left "
            f"a store's files in it: {schema.unknown_log!r} is a version log that this session's "
            "catalog does not know. That process had its catalog in memory, which is forgotten. "
            f"Use another schema, a path, or a session whose catalog lasts, such as {_LASTING}; "
            "remove the files if nobody needs them"
        )
    return None


def _lasts(spark: SparkSession, address: str) -> bool:
    """Whether the catalog that a schema is in is there after the process has ended."""
    parts = address.replace("`", "").split(".")
    catalog = parts[0] if len(parts) > 1 else spark.catalog.currentCatalog()
    if catalog != _SESSION_CATALOG:
        return True
    # Other catalogs than Delta's may stand in for Spark's own, and keep tables elsewhere.
    stands_in = spark.conf.get(f"spark.sql.catalog.{_SESSION_CATALOG}", "") or ""
    implementation = spark.conf.get("spark.sql.catalogImplementation")
    return implementation != _IN_MEMORY or not stands_in.startswith("org.apache.spark.sql.delta.")


def _looked_up(tables: Tables, text: str) -> Schema:
    spark, address, log = tables.spark, tables.location.address, tables.location.log()
    if not spark.catalog.databaseExists(address):
        return Schema(text, address, exists=False)
    if tables.exists(log):
        return Schema(text, address, exists=True)
    directory = f"{spark.catalog.getDatabase(address).locationUri.rstrip('/')}/{log.name}"
    left = tables.exists(Table(log.name, directory, in_catalog=False))
    return Schema(text, address, exists=True, unknown_log=directory if left else None)
