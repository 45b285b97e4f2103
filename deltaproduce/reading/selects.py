"""Selects: the SQL text of a query that reads one table of a stage at a version.

Pure text, except that the text for DuckDB names files, of tables without marked rows. The
invariant: the text returns the rows and columns that `stage_tables` returns for that version,
whatever is written later, until a vacuum drops the version. So each table is named at the delta
version that the version pins, and the newest rows of a pair in the runs replace those in the base,
as in `stored.Overlay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from deltaproduce.engines.delta.log import logged
from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model import arguments
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, RUNS, UPDATES, Layout
from deltaproduce.reading.opened import Opened
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.locations import StoreTable
from deltaproduce.storage.parquet.file_ranges import FileRanges
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.versions import Version, stage_at
from deltaproduce.types.columns import IS_ALIVE, VERSION, Column
from deltaproduce.types.data_types import DataType
from deltaproduce.types.ddl import ddl_of, identifier, sql_of
from deltaproduce.types.python_values import python_value

Dialect = Literal["spark", "duckdb"]
"""Whose SQL a text is."""

_KINDS: Final = (CONTENT, KEY_MAPPINGS, UPDATES)


def sql(
    store: Opened, stage: str | Stage, version: int | None, dialect: Dialect, table: str
) -> str:
    """See `Store.sql`."""
    arguments.choice(table, "table", _KINDS)
    arguments.choice(dialect, "dialect", get_args(Dialect))
    target = store.mapped(stage) if table == KEY_MAPPINGS else store.stage(stage)
    wanted = store.version(version)
    store.check_there(wanted, [target.name], table, RUNS)
    with store.noticing():
        return select(store.tables, wanted, target, table, dialect)


def select(
    tables: Tables, version: Version, stage: Stage, kind: str, dialect: Dialect = "spark"
) -> str:
    """Return the text for a table of a stage.

    Raises:
        InvalidArgumentError: no text has these rows; see `Store.sql`.
    """
    stage = stage_at(version, stage)
    figures, layout = version.stages.get(stage.name), Layout.of(stage)
    columns = layout.shown if kind == CONTENT else layout.columns(kind)
    shown = [column for column in columns if not column.is_hidden]
    spelling = _SPELLINGS[dialect]
    if figures is not None and _is_in_place(figures, kind, version.number):
        raise _of_others(figures, stage.name)
    if figures is None or kind not in figures.delta_versions:
        return _nothing(shown, spelling)
    at = _At(tables, stage.name, figures, spelling)
    if kind == UPDATES:
        whose = f"{spelling.quoted(VERSION)} = {version.number}"
        return at.rows(UPDATES, shown, whose) or _nothing(shown, spelling)
    if not figures.rows:
        return _nothing(shown, spelling)
    later = f"{spelling.quoted(VERSION)} BETWEEN {figures.base.folded + 1} AND {version.number}"
    runs = at.rows(RUNS, layout.runs, later) if figures.base.runs else None
    if runs is None:
        return at.rows(kind, shown) or _nothing(shown, spelling)
    return _overlaid(at.rows(kind, shown, alias="old"), runs, kind, shown, layout.pair, spelling)


@dataclass(frozen=True, slots=True)
class _Spelling:
    """The syntax in which dialects differ.

    Attributes:
        quoted: quotes a name.
        type_name: names a type.
        table: returns columns of a table at a delta version; None if it has no rows there.
    """

    quoted: Callable[[str], str]
    type_name: Callable[[DataType], str]
    table: Callable[[Tables, StoreTable, int, Sequence[Column]], str | None]


@dataclass(frozen=True, slots=True)
class _At:
    """The tables of a stage at the delta versions that a version pins."""

    tables: Tables
    stage: str
    figures: StageFigures
    spelling: _Spelling

    def rows(
        self, kind: str, columns: Sequence[Column], where: str = "", alias: str = ""
    ) -> str | None:
        """Return a query of a table's rows; None if it has none."""
        table = self.tables.location.table(self.stage, kind)
        delta_version = self.figures.delta_versions[kind]
        table_text = self.spelling.table(self.tables, table, delta_version, columns)
        if table_text is None:
            return None
        names = _names(columns, self.spelling, alias)
        return "\n".join(
            [
                f"SELECT {names}",
                f"FROM {table_text}" + (f" AS {alias}" if alias else ""),
                *([f"WHERE {where}"] if where else []),
            ]
        )


def _overlaid(
    base: str | None,
    runs: str,
    kind: str,
    shown: Sequence[Column],
    pair: Sequence[Column],
    spelling: _Spelling,
) -> str:
    """Return a query of the base without the pairs in the runs, and of their newest rows."""
    version, alive = spelling.quoted(VERSION), spelling.quoted(IS_ALIVE)
    pairs, distinct = _names(pair, spelling), "DISTINCT " if kind == KEY_MAPPINGS else ""
    newer = [
        f"SELECT {distinct}{_names(shown, spelling, 'run')}",
        f"FROM runs AS run SEMI JOIN newest ON {_same('run', pair, spelling)}",
        f"  AND run.{version} = newest.{version}",
        f"WHERE run.{alive}",
    ]
    older = [] if base is None else [base, f"ANTI JOIN newest ON {_same('old', pair, spelling)}"]
    return "\n".join(
        [
            f"WITH runs AS (\n{_indented(runs)}\n),",
            f"newest AS (SELECT {pairs}, max({version}) AS {version} FROM runs GROUP BY {pairs})",
            *older,
            *(["UNION ALL"] if older else []),
            *newer,
        ]
    )


def _same(side: str, pair: Sequence[Column], spelling: _Spelling) -> str:
    """Return a condition that a row belongs to a newest pair; null equals null."""
    names = [spelling.quoted(column.name) for column in pair]
    return " AND ".join(f"{side}.{name} IS NOT DISTINCT FROM newest.{name}" for name in names)


def _nothing(columns: Iterable[Column], spelling: _Spelling) -> str:
    """Return a query of these columns without rows."""
    nulls = (
        f"CAST(NULL AS {spelling.type_name(c.data_type)}) AS {spelling.quoted(c.name)}"
        for c in columns
    )
    return f"SELECT {', '.join(nulls)}\nWHERE false"


def _names(columns: Iterable[Column], spelling: _Spelling, alias: str = "") -> str:
    before = f"{alias}." if alias else ""
    return ", ".join(before + spelling.quoted(column.name) for column in columns)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _is_in_place(figures: StageFigures, kind: str, number: int) -> bool:
    """Return whether rows are in someone else's table; for updates see `Reader.updates`."""
    has_begun = figures.past.begun == number and figures.past.begun_at >= 0
    return bool(figures.origin.table) and (kind == CONTENT or has_begun)


def _of_others(figures: StageFigures, stage: str) -> InvalidArgumentError:
    table, pinned = figures.origin.table, figures.delta_versions[CONTENT]
    return InvalidArgumentError(
        f"source {stage!r} is read in place, so its rows are those of the table {table!r} at delta "
        f"version {pinned}: read that one by SQL, or store.content({stage!r})",
        argument="stage",
    )


def _in_spark(
    tables: Tables, table: StoreTable, delta_version: int, columns: Sequence[Column]
) -> str:
    del tables, columns
    return f"{table.sql} VERSION AS OF {delta_version}"


def _in_duckdb(
    tables: Tables, table: StoreTable, delta_version: int, columns: Sequence[Column]
) -> str | None:
    """Return a table as its Parquet files at a delta version, or as what DuckDB's extension reads.

    Files do not say which of their rows are marked as deleted; the extension reads that in the log.
    Partition columns are in the table's log, not in its files, so the text contains their values.

    Raises:
        InvalidArgumentError: only Spark finds the table.
    """
    paths = tables.reader.paths(table, delta_version)  # paths without wildcards
    if paths is None:
        return f"delta_scan({_duckdb_text(_uri(tables, table))}, version => {delta_version})"
    listed = tables.reader.listed(table, delta_version)
    assert listed is not None  # there are paths
    parts: dict[str, list[str]] = {}
    values = map(FileRanges(listed, len(paths)).values, range(len(paths)))
    for path, of_file in zip(paths, values, strict=True):
        own = [c for c in columns if c.name in of_file]
        constants = "".join(f", {_duckdb_value(python_value(of_file[c.name]), c)}" for c in own)
        parts.setdefault(constants, []).append(path)
    if not any(parts):
        return _read_parquet(paths) if paths else None
    read = (
        f"SELECT *{constants} FROM {_read_parquet(files)}" for constants, files in parts.items()
    )
    return f"({' UNION ALL BY NAME '.join(read)})"  # older files have another order


def _uri(tables: Tables, table: StoreTable) -> str:
    uri = tables.reader.uri(table)
    if uri is None:
        raise InvalidArgumentError(
            f"only Spark finds table {table.name!r}, so there is no text for DuckDB; "
            'dialect="spark" is one for Spark',
            argument="dialect",
        )
    return uri


def _read_parquet(paths: Iterable[str]) -> str:
    names = ", ".join(map(_duckdb_text, paths))
    return f"read_parquet([{names}], hive_partitioning = false)"


def _duckdb_value(value: object, column: Column) -> str:
    """Return a column's value, with the column's name."""
    text = logged(value, column.data_type)
    written = "NULL" if text is None else _duckdb_text(text)
    return f"CAST({written} AS {_duckdb_type(column.data_type)}) AS {_duckdb_name(column.name)}"


def _duckdb_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _duckdb_type(data_type: DataType) -> str:
    from sqlglot import exp

    type_text = exp.DataType.build(ddl_of(data_type), dialect="spark")
    for field in type_text.find_all(exp.ColumnDef):
        field.set("constraints", None)  # DuckDB has no NOT NULL there
    return type_text.sql(dialect="duckdb")


def _duckdb_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_SPELLINGS: Final[Mapping[Dialect, _Spelling]] = {
    "spark": _Spelling(identifier, sql_of, _in_spark),
    "duckdb": _Spelling(_duckdb_name, _duckdb_type, _in_duckdb),
}
