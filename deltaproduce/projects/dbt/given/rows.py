"""Rows: what a seed or a source of dbt is here, with its columns and where its rows are.

Pure. The invariant: a column whose type nobody says is text, and marked for the user to fill in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Final

from deltaproduce.errors import DefinitionError
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.dbt.given import seeds
from deltaproduce.projects.dbt.manifest import Node
from deltaproduce.projects.dbt.sql.naming import column_name, in_sql
from deltaproduce.projects.dbt.sql.relations import external_location
from deltaproduce.projects.dbt.sql.translation import spark_type
from deltaproduce.projects.file import Mode, has_scheme

_FORMATS: Final = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_NO_KEYS: Final = ("double", "float", "array", "map", "struct", "variant")
"""The beginnings of types that are no key."""


@dataclass(frozen=True, slots=True)
class SeedFiles:
    """What is known of rows beside the manifest.

    Attributes:
        texts: the text of the file of each seed, by its id.
        places: the path of the file of each seed, from the new project's folder, by its id.
        catalog: the types of columns in the database, by the node's id and the column's name.
    """

    texts: Mapping[str, str]
    places: Mapping[str, str]
    catalog: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class RowSource:
    """A source of the new project.

    Attributes:
        node: what it is in dbt; None if it is of the new project alone.
        columns: their types as DDL, by name.
        key: its key columns.
        guessed: the columns whose type nobody says.
        format: the format of its files; None if the user has to say where its rows are.
        path: where they are.
        mode: whether the files are all rows, or rows that are added to those that came before.
        optional: the columns that its files lack.
        renamed: columns that have another name in its files, which is the value.
    """

    node: Node | None
    columns: Mapping[str, str]
    key: tuple[str, ...]
    guessed: tuple[str, ...] = ()
    format: str | None = None
    path: str = ""
    mode: Mode = "snapshot"
    delimiter: str = ","
    optional: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)

    def define(self, pipeline: Pipeline, name: str) -> None:
        """Define the source in a pipeline.

        Raises:
            DefinitionError: it is not valid.
        """
        columns = {in_sql(one): kind for one, kind in self.columns.items()}
        keys = [in_sql(one) for one in self.key]
        pipeline.source(
            name,
            key=", ".join(f"{one} {columns[one]}" for one in keys),
            value=", ".join(f"{one} {kind}" for one, kind in columns.items() if one not in keys),
        )

    def kept_by(self, key: Iterable[str]) -> RowSource:
        """Return a source of the same files that keeps each row that it was given, by a key.

        Raises:
            DefinitionError: it lacks a column of the key, or has no others.
        """
        spelled = {name.lower(): name for name in self.columns}
        if lacking := [one for one in key if one.lower() not in spelled]:
            raise DefinitionError(f"its source has no column {lacking[0]!r}")
        own = tuple(dict.fromkeys(spelled[one.lower()] for one in key))
        if len(own) == len(self.columns):
            raise DefinitionError(
                "no columns of its source are known besides the key and the time: add them to its "
                "YAML file with data_type, or run dbt docs generate"
            )
        is_elsewhere = has_scheme(self.path)  # changes are taken from files of this machine
        return replace(
            self,
            key=own,
            mode="changes",
            format=None if is_elsewhere else self.format,
            path="" if is_elsewhere else self.path,
        )


def source_of(
    node: Node,
    given: SeedFiles,
    unique: Iterable[tuple[str, ...]],
    used: Mapping[str, str],
    dialect: str,
) -> RowSource:
    """Return the source that a seed or source becomes.

    Args:
        unique: columns that tests say to be unique.
        used: the columns that models use, with what their use says of their types, for a source of
            which nobody says the columns.

    Raises:
        DefinitionError: its file cannot be read, or nobody says its columns.
    """
    said = {one.name: one.data_type for one in node.columns}
    said |= _cased(given.catalog.get(node.id, {}), said)
    types = {name: spark_type(kind, dialect) if kind else None for name, kind in said.items()}
    if node.sort == "seed":
        return _named(_seed(node, given, unique, dialect))
    lower = {name.lower() for name in types}
    types |= {name: None for name in used if name.lower() not in lower}
    if not types:
        raise DefinitionError(
            "the manifest has no columns of it: add them to its YAML file with data_type, or run "
            "dbt docs generate, which writes target/catalog.json"
        )
    guessed = tuple(name for name, kind in types.items() if kind is None)
    likely = {name.lower(): kind for name, kind in used.items()}
    columns = {name: kind or likely.get(name.lower(), "string") for name, kind in types.items()}
    place = external_location(node) or ""
    form = _FORMATS.get(PurePath(place).suffix.lower(), "parquet") if place else None
    return _named(RowSource(node, columns, _key(columns, unique), guessed, form, place))


def one_row(name: str) -> RowSource:
    """Return a source of one row, whose file is beside the stages."""
    return RowSource(
        None, {"row": "int", "note": "string"}, ("row",), (), "csv", f"seeds/{name}.csv"
    )


def _seed(
    node: Node, given: SeedFiles, unique: Iterable[tuple[str, ...]], dialect: str
) -> RowSource:
    if node.id not in given.texts:
        raise DefinitionError(f"its file {node.path!r} is not there")
    delimiter = str(node.config.get("delimiter") or ",")
    configured = node.config.get("column_types") or {}
    said = {name: spark_type(str(kind), dialect) for name, kind in configured.items()}
    unknown = [name for name, kind in said.items() if kind is None]
    if unknown:
        raise DefinitionError(f"column_types has a type of {unknown[0]!r} that Spark has not")
    types = {name: kind for name, kind in said.items() if kind is not None}
    columns = seeds.columns(given.texts[node.id], delimiter, types)
    key = _key(columns, unique)
    return RowSource(node, columns, key, (), "csv", given.places[node.id], delimiter=delimiter)


def _named(source: RowSource) -> RowSource:
    """Return a source with the names that its columns have here."""
    return replace(
        source,
        columns={column_name(name): kind for name, kind in source.columns.items()},
        key=tuple(map(column_name, source.key)),
        guessed=tuple(map(column_name, source.guessed)),
        renamed={column_name(name): name for name in source.columns if column_name(name) != name},
    )


def _key(columns: Mapping[str, str], unique: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the key: what is unique, or the first column that can be one, which may repeat."""
    spelled = {name.lower(): name for name in columns if not columns[name].startswith(_NO_KEYS)}
    for names in unique:
        if all(name.lower() in spelled for name in names):
            return tuple(spelled[name.lower()] for name in names)
    if not spelled:
        raise DefinitionError("no column of it can be a key: all are floats, or have parts")
    return (next(iter(spelled.values())),)


def _cased(in_database: Mapping[str, str], said: Iterable[str]) -> dict[str, str]:
    """Return types under the names that the project writes."""
    spelled = {name.lower(): name for name in said}
    return {spelled.get(name.lower(), name): kind for name, kind in in_database.items()}
