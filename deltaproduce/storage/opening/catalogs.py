"""Catalogs: checks that a session knows the tables of a store in a schema while their files exist.

A name without a slash is a schema. If the session's catalog is in memory, it forgets its tables
when the process ends, while their files stay: the next process would see an empty store, and fail
when it writes. The invariant: a store in a schema is opened only if the session knows its tables as
long as their files exist, or if somebody has created the schema in this process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from deltaproduce.errors import DefinitionError
from deltaproduce.storage.locations import StoreTable
from deltaproduce.storage.tables.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SESSION_CATALOG: Final = "spark_catalog"
_IN_MEMORY: Final = "in-memory"
_LASTING: Final = "dp.local_session(config={'spark.sql.catalogImplementation': 'hive'})"


@dataclass(frozen=True, slots=True)
class Schema:
    """A store's schema as a session with a catalog in memory knows it.

    Attributes:
        text: the location, as the user gives it.
        address: the schema, as SQL names it.
        exists: whether somebody has created it in this process; or it is ``default``, which always
            exists.
        unknown_log: the directory of a version log that the catalog does not know, if there is one.
    """

    text: str
    address: str
    exists: bool
    unknown_log: str | None = None


def check_schema(tables: Tables, text: str) -> None:
    """Refuse a schema that is in memory only, unless somebody has created it in this process.

    Reads two settings, and looks up the schema if the catalog is in memory.

    Args:
        tables: the tables of a store in a catalog.
        text: its location, as the user gives it.

    Raises:
        DefinitionError: the schema does not exist; or it does, but another process has left files
            of a store in its directory.
    """
    if _lasts(tables.spark, tables.location.address):
        return
    location = refusal(_looked_up(tables, text))
    if location is not None:
        raise DefinitionError(location)


def refusal(schema: Schema) -> str | None:
    """Return why a schema in memory is refused; None if a store may be in it."""
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
    """Return whether the catalog of a schema outlasts the process."""
    parts = address.replace("`", "").split(".")
    catalog = parts[0] if len(parts) > 1 else spark.catalog.currentCatalog()
    if catalog != _SESSION_CATALOG:
        return True
    # Catalogs other than Delta's may replace Spark's own, and keep tables elsewhere.
    stands_in = spark.conf.get(f"spark.sql.catalog.{_SESSION_CATALOG}", "") or ""
    implementation = spark.conf.get("spark.sql.catalogImplementation")
    return implementation != _IN_MEMORY or not stands_in.startswith("org.apache.spark.sql.delta.")


def _looked_up(tables: Tables, text: str) -> Schema:
    spark, address, log = tables.spark, tables.location.address, tables.location.log()
    if not spark.catalog.databaseExists(address):
        return Schema(text, address, exists=False)
    if tables.reader.exists(log):
        return Schema(text, address, exists=True)
    directory = f"{spark.catalog.getDatabase(address).locationUri.rstrip('/')}/{log.name}"
    left = tables.reader.exists(StoreTable(log.name, directory, in_catalog=False))
    return Schema(text, address, exists=True, unknown_log=directory if left else None)
