"""Translation: a model's SQL in its adapter's dialect, as Spark's SQL over stages.

Pure. The invariant: each table is a stage or a CTE of the query, and what sqlglot cannot say in
Spark's SQL is refused. Where the dialect computes otherwise than Spark, `differences` says it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import ErrorLevel, exp, parse
from sqlglot.errors import SqlglotError

from deltaproduce.errors import DefinitionError
from deltaproduce.projects.dbt.sql.choices import chosen
from deltaproduce.projects.dbt.sql.differences import as_spark_computes
from deltaproduce.projects.dbt.sql.moments import as_of_version, reads_date
from deltaproduce.projects.dbt.sql.naming import free_name, in_sql, rename_columns
from deltaproduce.projects.dbt.sql.wanted import Known, WantedColumns, wanted
from deltaproduce.projects.dbt.sql.writing import SparkText
from deltaproduce.stages.sql.syntax import reason, shortened

DIALECTS: Final[Mapping[str, str]] = {
    "duckdb": "duckdb",
    "postgres": "postgres",
    "redshift": "redshift",
    "snowflake": "snowflake",
    "bigquery": "bigquery",
    "spark": "spark",
    "databricks": "databricks",
}
"""Adapter -> the dialect of its SQL."""

EPHEMERAL_PREFIX: Final = "__dbt__cte__"
"""How dbt names the CTE of an ephemeral model."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A query in Spark's SQL.

    Attributes:
        sql: its text.
        reads: the ids of the nodes that it reads.
        wanted: the columns of each that it names, as far as its text tells them.
        has_date: whether it reads the date of the version.
    """

    sql: str
    reads: frozenset[str]
    wanted: WantedColumns
    has_date: bool = False


def translated(
    code: str,
    dialect: str,
    node_of: Callable[[exp.Table], str],
    stages: Mapping[str, str],
    ephemeral: Mapping[str, str],
    known: Known,
    *,
    is_check: bool = False,
) -> Translated:
    """Translate a query.

    Args:
        node_of: returns the id of the node whose table it is; raises a DefinitionError if none is.
        stages: the name of the stage of each node, by its id.
        ephemeral: the queries of ephemeral models that become CTEs, by name, those read first.
        known: the columns of nodes of which all are known.
        is_check: whether it only counts rows, so that columns without a name get one.

    Raises:
        DefinitionError: it cannot be said in Spark's SQL; with `line` if that is known.
    """
    tree = _query(code, dialect)
    for name, text in reversed([*ephemeral.items()]):
        _add_cte(tree, name, _query(text, dialect))
    if is_check:
        _name_columns(tree)
    columns = wanted(tree, node_of, known)
    reads = _over_stages(tree, node_of, stages)
    rename_columns(tree)
    computing = as_of_version(as_spark_computes(chosen(tree), dialect))
    try:
        sql = computing.sql(dialect=SparkText, pretty=True, unsupported_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        said = reason(error).replace(SparkText.__name__, "Spark")
        raise DefinitionError(f"Spark's SQL cannot say it: {said}") from None
    return Translated(sql, reads, columns, reads_date(computing))


def spark_type(data_type: str, dialect: str) -> str | None:
    """Return a type of a dialect as DDL; None if it is none that stages have."""
    try:
        kind = exp.DataType.build(data_type, dialect=dialect)
    except (SqlglotError, ValueError):
        return None
    return as_spark_computes(kind, dialect).sql(dialect="spark").lower()


def _query(code: str, dialect: str) -> exp.Query:
    try:
        trees = [one for one in parse(code, read=dialect) if one is not None]
    except SqlglotError as error:
        raise DefinitionError(f"its SQL cannot be read: {reason(error)}") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise DefinitionError(f"{shortened(code.strip())!r} is not one query")
    return trees[0]


def _name_columns(tree: exp.Query) -> None:
    """Name the columns of the result that have no name."""
    for number, column in enumerate(tree.selects, 1):
        if not isinstance(column, exp.Alias | exp.Column | exp.Star):
            named = exp.alias_(column.copy(), f"value_{number}")
            column.replace(named)


def _add_cte(tree: exp.Query, name: str, query: exp.Query) -> None:
    """Put a CTE before the others."""
    before = tree.args.get("with_")
    cte = exp.CTE(this=query, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    others = [] if before is None else before.expressions
    tree.set("with_", exp.With(expressions=[cte, *others]))


def _over_stages(
    tree: exp.Query, node_of: Callable[[exp.Table], str], stages: Mapping[str, str]
) -> frozenset[str]:
    """Rename tables to the stages that they are; return the ids of these."""
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    tables = list(tree.find_all(exp.Table))
    inner = [one for one in tables if _is_bare(one) and one.name.lower() in ctes]
    outer = [one for one in tables if one not in inner and isinstance(one.this, exp.Identifier)]
    outer = [one for one in outer if not any(one is other for other in inner)]
    nodes = [node_of(one) for one in outer]
    read = {stages[id].lower() for id in nodes}
    renamed = _renamed_ctes(ctes, read)
    for cte in tree.find_all(exp.CTE):
        if new := renamed.get(cte.alias.lower()):
            cte.args["alias"].set("this", exp.to_identifier(new))
    for table in inner:
        if new := renamed.get(table.name.lower()):
            _rename(table, new)
    for table, id in zip(outer, nodes, strict=True):
        _rename(table, stages[id])
        table.set("db", None)
        table.set("catalog", None)
    aliases = {one.alias.lower() for one in tree.find_all(exp.Table, exp.Subquery)} | ctes
    for column in tree.find_all(exp.Column):  # schema.table.column is table.column
        is_field = {column.text("db").lower(), column.text("catalog").lower()} & (aliases - {""})
        if not is_field:  # otherwise it is table.column.field
            column.set("db", None)
            column.set("catalog", None)
    return frozenset(nodes)


def _is_bare(table: exp.Table) -> bool:
    return isinstance(table.this, exp.Identifier) and not table.db and not table.catalog


def _rename(table: exp.Table, name: str) -> None:
    """Give a table another name; what its columns are qualified with stays."""
    if table.name != name and not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
    table.set("this", exp.to_identifier(name, quoted=in_sql(name) != name))


def _renamed_ctes(ctes: set[str], read: set[str]) -> dict[str, str]:
    """Return new names for CTEs whose name is reserved, or a stage's that the query reads."""
    renamed, taken = dict[str, str](), ctes | read
    for name in sorted(ctes):
        if name in read or name.startswith("_"):
            stem = name.removeprefix(EPHEMERAL_PREFIX).lstrip("_") or "cte"
            renamed[name] = free_name(f"{stem}_1", taken)
            taken.add(renamed[name])
    return renamed
