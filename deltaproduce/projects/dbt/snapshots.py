"""Snapshots: those of dbt, as histories of the rows that runs have seen.

dbt compares the rows of a query with its table when it runs. Here a source keeps each row by its
key and the time of its change, so the past stays where the file has only the present, and
`Pipeline.history` puts the states of a key in order.

Pure. The invariant: a snapshot that is taken has the rows of dbt's, and others are refused with
what to do instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp, parse_one

from deltaproduce.errors import DefinitionError
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.dbt.manifest import Node
from deltaproduce.projects.dbt.sql.naming import column_name, in_sql
from deltaproduce.stages.sql.syntax import spark_dialect
from deltaproduce.types.excerpts import shown

_OF_RUN: Final = "the moment when dbt runs, and a stage here has the same rows whenever it is made"
_CHECK: Final = (
    f"by strategy check a state begins at {_OF_RUN}: give the rows a time of change and use "
    "strategy timestamp, or read earlier versions of the stage, as in deltaproduce show --version"
)
_DELETES: Final = (
    f"by hard_deletes a row that is gone ends at {_OF_RUN}: give a delete as a row with a time, "
    "and name it in `deleted` of a history (docs/events.md)"
)
_NOT_BY_ROW: Final = (
    "its query makes a row of several: let the snapshot select rows of one source, and compute in "
    "a model that reads it"
)
_ROW_CLAUSES: Final = frozenset({"expressions", "from_", "where", "with_", "order", "kind"})
_META: Final = ("dbt_scd_id", "dbt_updated_at", "dbt_valid_from", "dbt_valid_to")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What dbt keeps of a query's rows.

    Attributes:
        key: the columns that name a row, as they are called here.
        updated_at: the column with the time of its change, likewise.
        meta: how the columns that dbt adds are called, by their usual name.
        to_current: what a current row has in place of null as its end, in the adapter's SQL.
    """

    key: tuple[str, ...]
    updated_at: str
    meta: Mapping[str, str]
    to_current: str | None

    @staticmethod
    def of(node: Node) -> Snapshot:
        """Return what a snapshot is configured to keep.

        Raises:
            DefinitionError: its rows depend on when dbt runs, or a column of it is an expression.
        """
        config = node.config
        strategy = config.get("strategy")
        if strategy == "check":
            raise DefinitionError(_CHECK)
        if strategy != "timestamp":
            raise DefinitionError(f"its strategy is {shown(strategy)}: timestamp is carried over")
        hard_deletes = config.get("hard_deletes") or "ignore"
        if hard_deletes != "ignore" or config.get("invalidate_hard_deletes"):
            raise DefinitionError(_DELETES)
        key, updated_at = config.get("unique_key"), config.get("updated_at")
        columns = [*(key if isinstance(key, list) else [key]), updated_at]
        for one in columns:
            if not isinstance(one, str) or not one.isidentifier():
                raise DefinitionError(
                    f"its unique_key or updated_at is {shown(one)}: name a column of the query"
                )
        *keys, time = map(column_name, columns)
        named: Mapping[str, Any] = config.get("snapshot_meta_column_names") or {}
        meta = {name: column_name(str(named.get(name) or name)) for name in _META}
        return Snapshot(tuple(keys), time, meta, config.get("dbt_valid_to_current") or None)

    def final_sql(
        self, history: str, columns: Iterable[str], time_type: str, current: str | None
    ) -> str:
        """Return the query of dbt's table over the history.

        Args:
            history: the stage with the history.
            columns: those of the snapshot's query.
            time_type: the type of `updated_at`, as DDL.
            current: `to_current` in Spark's SQL.
        """
        added = {
            "dbt_scd_id": self._hash(time_type),
            "dbt_updated_at": in_sql(self.updated_at),
            "dbt_valid_from": "valid_from",
            "dbt_valid_to": "valid_to" if current is None else f"coalesce(valid_to, {current})",
        }
        said = [*map(in_sql, columns)]
        said += [f"{sql} AS {in_sql(self.meta[name])}" for name, sql in added.items()]
        lines = ",\n  ".join(said)
        return f"SELECT\n  {lines}\nFROM {in_sql(history)}"

    @property
    def final_key(self) -> tuple[str, ...]:
        """The key of dbt's table."""
        return (*self.key, self.meta["dbt_valid_from"])

    def _hash(self, time_type: str) -> str:
        """Return dbt's hash of the key and the time, in Spark's SQL."""
        time = in_sql(self.updated_at)
        texts = [f"coalesce(cast({in_sql(one)} AS string), '')" for one in self.key]
        texts.append(_text_of_time(time) if time_type == "timestamp" else f"cast({time} AS string)")
        joined = ", '|', ".join(texts)
        return f"md5(concat({joined}))"


def _text_of_time(time: str) -> str:
    """Return a timestamp as DuckDB writes it: without zeros at the end of a second's fraction."""
    fraction = f"lpad(cast(pmod(unix_micros({time}), 1000000) AS string), 6, '0')"
    shortened = f"trim(TRAILING '.' FROM trim(TRAILING '0' FROM concat('.', {fraction})))"
    return f"date_format({time}, 'yyyy-MM-dd HH:mm:ss'), {shortened}"


def expression_of(sql: str) -> str:
    """Return the one expression that a query selects, in Spark's SQL."""
    query = parse_one(sql, read=spark_dialect())
    assert isinstance(query, exp.Select)
    return query.selects[0].unalias().sql(dialect="spark")


def given_columns(sql: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the table that a query reads which some columns of its result are.

    Args:
        sql: the query, in Spark's SQL.

    Raises:
        DefinitionError: a row of the result is made of several, or such a column is computed.
    """
    selects = _by_rows(parse_one(sql, read=spark_dialect()))
    return tuple(_given(selects, column) for column in columns)


def _by_rows(query: exp.Expr) -> list[exp.Select]:
    """Return the SELECTs of a query that makes each row of one row, the outermost first."""
    ctes = {cte.alias.lower(): cte.this for cte in query.find_all(exp.CTE)}
    selects, inner = list[exp.Select](), query
    while True:
        if not isinstance(inner, exp.Select) or "from_" not in inner.args:
            raise DefinitionError(_NOT_BY_ROW)
        if {name for name, value in inner.args.items() if value} - _ROW_CLAUSES:
            raise DefinitionError(_NOT_BY_ROW)
        selects.append(inner)
        table = inner.args["from_"].this
        if {name for name, value in table.args.items() if value} - {"this", "alias"}:
            raise DefinitionError(_NOT_BY_ROW)
        named = ctes.pop(table.name.lower(), None) if isinstance(table, exp.Table) else table.this
        if named is None:
            break
        inner = named
    others = len([*query.find_all(exp.Select)]) - len(selects)
    if others or query.find(exp.AggFunc, exp.Window, exp.UDTF, exp.SetOperation):
        raise DefinitionError(_NOT_BY_ROW)
    return selects


def _given(selects: Sequence[exp.Select], column: str) -> str:
    """Return the column of the innermost table that a column of the outermost SELECT is."""
    name = column
    for select in selects:
        named = [one for one in select.selects if one.output_name.lower() == name.lower()]
        stars = [one for one in select.selects if one.is_star]
        if named and isinstance(named[0].unalias(), exp.Column) and not named[0].is_star:
            name = named[0].unalias().name
        elif named or not stars or any(_is_edited(one) for one in stars):
            raise DefinitionError(
                f"its column {column!r} is computed: use a column of the source as unique_key "
                "and updated_at"
            )
    return name


def _is_edited(star: exp.Expr) -> bool:
    """Return whether ``*`` has EXCEPT, REPLACE or RENAME."""
    own = star.find(exp.Star)
    return own is not None and any(own.args.values())


@dataclass(frozen=True, slots=True)
class SnapshotHistory:
    """The arguments of a `Pipeline.history`."""

    name: str
    events: str
    key: str
    sequence: str
    columns: str
    track: str

    def define(self, pipeline: Pipeline) -> None:
        """Define the stage in a pipeline."""
        pipeline.history(
            self.name,
            self.events,
            key=self.key,
            sequence=self.sequence,
            columns=self.columns,
            track=self.track,
        )
