"""Locations: the places and names of a store's tables.

Pure text: only the current directory is looked up. A relative path is made absolute here, so that
it means the same to Spark, to Delta's SQL, which accepts no relative paths, and after the process
changes its directory. The invariant: two tables of a store never have the same name, and a name
says which stage and kind it belongs to, at a path and in a catalog.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from deltaproduce.engines.delta.tables import Place
from deltaproduce.errors import CorruptStoreError, DefinitionError
from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, KINDS, RUNS, UPDATES
from deltaproduce.types.ddl import identifier

_LOG: Final = "_versions"
README: Final = "_README.txt"
"""The name of a text in a store's folder for people who find it; no stage can have it."""
README_TEXT: Final = """\
A store of deltaproduce: Delta tables that belong together. A version is one state of all of them.

<stage>/content       the rows of a stage; columns that begin with _ are the library's
<stage>/key_mappings  which keys of its feeder each of its keys was made from
<stage>/updates       what each version changed: use rows up to the newest number in _versions
_versions             one row for each version; "tables" has the Delta version of each table
Other folders that begin with _ are internal, and Parquet files alone have rows that do not count.
If a stage has a folder "runs", its newest rows may be there: use deltaproduce.read.

Replace STORE by the path of this folder, STAGE by a stage, and 0 by the Delta version of the table:
  Spark SQL   SELECT max_by(tables, number)['STAGE/content'] FROM delta.`STORE/_versions`
The rows of the stage as of that version:
  Spark SQL   SELECT * FROM delta.`STORE/STAGE/content` VERSION AS OF 0
  DuckDB      SELECT * FROM delta_scan('STORE/STAGE/content', version => 0)
  Polars      polars.read_delta("STORE/STAGE/content", version=0)
As of the newest version, without Spark and without the code of the pipeline:
  Python      deltaproduce.read("STORE", "STAGE")
"""
_SQL_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
_PASSWORD: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/@]*:[^/]*@")
_SAFE_IN_PATHS: Final = "'!$&()+,;=@-._"
_FOLDER: Final = re.compile(rf"(?:[A-Za-z0-9{re.escape(_SAFE_IN_PATHS)}]|~[0-9A-F]{{2}})+")
_LONGEST_FOLDER: Final = 255
"""The most bytes of a folder's name, on the file systems of Linux, macOS and Windows."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ENDINGS: Final = tuple(f"__{kind}" for kind in (KEY_MAPPINGS, UPDATES, RUNS))
_SESSION_CATALOG: Final = "spark_catalog"
_TIME_TRAVEL: Final = re.compile(r".*@([vV][0-9]+|[0-9]{17})/*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoreTable:
    """One Delta table of a store: its name in the version log, and its address.

    The name of someone else's table at a path is the path, so that a version can be read wherever a
    process starts.
    """

    name: str
    address: str
    in_catalog: bool

    @staticmethod
    def existing(text: str) -> StoreTable:
        """Return a table of someone else, by a path or a catalog name; parsed as locations are."""
        if _is_path(text):
            path = _whole_path("table", text)
            _check_version(text)
            return StoreTable(path, path, in_catalog=False)
        parts = [part.strip("`") for part in text.split(".")]
        if not 1 <= len(parts) <= 3 or not all(parts):
            raise DefinitionError(
                f"table {text!r} is neither a path (with a '/') nor 'table' nor 'schema.table' nor "
                "'catalog.schema.table'"
            )
        return StoreTable(text, ".".join(map(identifier, parts)), in_catalog=True)

    def within(self, catalog: str, schema: str) -> StoreTable:
        """Return the same table, independent of the current catalog and schema.

        Args:
            catalog: the current catalog, which completes a name without one.
            schema: the current schema, likewise.
        """
        if not self.in_catalog:
            return self
        given = self.address.split("`.`")
        current = (catalog, schema)[: 3 - len(given)]
        return replace(self, address=".".join([*map(identifier, current), self.address]))

    @property
    def place(self) -> Place:
        """The table's place, for engines, which know no stores."""
        return Place(self.address, self.in_catalog)

    @property
    def sql(self) -> str:
        """The table as SQL text, for statements on it."""
        return self.place.sql


@dataclass(frozen=True, slots=True)
class Location:
    """The place of a store's tables: below a path, or in a schema of a catalog."""

    address: str
    in_catalog: bool

    @staticmethod
    def parse(text: str) -> Location:
        """Parse a path, which has a ``/`` or a scheme, or else ``schema`` or ``catalog.schema``."""
        if _is_path(text):
            return Location(_whole_path("location", text), in_catalog=False)
        parts = text.split(".")
        if not 1 <= len(parts) <= 2 or not all(parts):
            raise DefinitionError(
                f"location {text!r} is neither a path (with a '/') nor 'schema' nor "
                "'catalog.schema'"
            )
        _check_schema(text, parts)
        return Location(".".join(identifier(part.strip("`")) for part in parts), in_catalog=True)

    def within(self, catalog: str) -> Location:
        """Return the same location, independent of the current catalog.

        Args:
            catalog: the current catalog, which completes a schema without one.
        """
        if not self.in_catalog or "`.`" in self.address:
            return self
        return replace(self, address=f"{identifier(catalog)}.{self.address}")

    @property
    def place(self) -> Place:
        """The place of the store, for engines, which know no stores."""
        return Place(self.address, self.in_catalog)

    def table(self, stage: str, kind: str) -> StoreTable:
        """Return the table that holds ``kind`` (content, key_mappings, updates or runs) of a stage.

        Raises:
            CorruptStoreError: there is no such kind, or the table would be outside of the store.
        """
        if kind not in KINDS:
            raise _outside(f"{stage}/{kind}", self.address)
        if self.in_catalog:
            return self.named(stage if kind == CONTENT else f"{stage}__{kind}")
        return self.named(f"{_folder(stage)}/{kind}")

    def log(self) -> StoreTable:
        """Return the version log's table."""
        return self.named(_LOG)

    def named(self, name: str) -> StoreTable:
        """Return the table with a name from the version log.

        Raises:
            CorruptStoreError: it would be outside of the store.
        """
        is_outside = name.count("/") > 1 or not {"", ".", ".."}.isdisjoint(name.split("/"))
        if is_outside and not self.in_catalog:
            raise _outside(name, self.address)
        return StoreTable(name, self._address(name), self.in_catalog)

    def has(self, table: StoreTable) -> bool:
        """Return whether a table is one of this store's, and not someone else's."""
        return table == StoreTable(table.name, self._address(table.name), self.in_catalog)

    def among(self, paths: Iterable[str]) -> tuple[StoreTable, ...]:
        """Return the Delta tables that may be this store's, given their paths relative to it.

        A folder with its own version log is another store's, with everything in it; and no stage
        has a folder whose name is written otherwise than here.
        """
        parts = [tuple(path.split("/")) for path in paths]
        nested = {folder for folder, kind in parts if kind == _LOG}
        return tuple(
            self.named(f"{folder}/{kind}")
            for folder, kind in parts
            if kind in KINDS and folder not in nested and _FOLDER.fullmatch(folder)
        )

    def _address(self, name: str) -> str:
        return f"{self.address}.{identifier(name)}" if self.in_catalog else f"{self.address}/{name}"

    def check(self, stages: Sequence[str]) -> None:
        """Refuse stage names that cannot be table names here."""
        for stage in stages:
            if self.in_catalog:
                self._check_name(stage)
            elif len(folder := _folder(stage)) > _LONGEST_FOLDER:
                raise DefinitionError(
                    f"stage {stage!r} cannot have a folder: its name would be {folder!r}, of "
                    f"{len(folder)} characters, and {_LONGEST_FOLDER} are possible; use a shorter "
                    "name",
                    stage=stage,
                )

    def _check_name(self, stage: str) -> None:
        if not _SQL_NAME.fullmatch(stage) or stage.lower().endswith(_ENDINGS):
            raise DefinitionError(
                f"stage {stage!r} cannot be a table in {self.address}: use letters, digits "
                f"and _, and no ending {', '.join(_ENDINGS)}, or keep the store at a path",
                stage=stage,
            )


@lru_cache(maxsize=4096)
def _folder(stage: str) -> str:
    """Return the name of a stage's folder: the stage's, in letters that every reader takes alike.

    Of any other character each byte is ``~`` and two hexadecimal digits. Engines disagree about
    paths with ``%``, spaces and letters beyond ASCII: delta-rs and DuckDB decode the first, and
    Polars encodes the others.
    """
    return quote(stage, safe=_SAFE_IN_PATHS).replace("~", "~7E").replace("%", "~")


def _whole_path(what: str, text: str) -> str:
    """Return an absolute path, without ``.``, ``..`` and a trailing slash.

    A path with a scheme stays unchanged: its file system interprets it.

    Raises:
        DefinitionError: it contains a password, and paths are stored, and shown in errors, plans
            and logs; or it contains a reference that Spark replaces by a setting or a variable,
            even in quotes.
    """
    if match := _PASSWORD.match(text):
        raise DefinitionError(
            f"the path {match[1]}…{text[match.end() :]!r} has a password in it, which would be "
            "shown wherever the path is: leave it out, and set it in Spark's configuration"
        )
    if "${" in text:
        raise DefinitionError(
            f"{what} {text!r} has a '${{': in a statement Spark replaces such a name by its value, "
            "so it would be another path; rename the directory"
        )
    return text.rstrip("/") if _SCHEME.match(text) else os.path.abspath(text)


def _outside(name: str, address: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"there is no table {name!r} in the store {address}: someone else has changed the version "
        "log, or the names in it; restore it from a backup",
        table=_LOG,
    )


def _check_version(path: str) -> None:
    """Refuse the path of a table that Delta would take for another path, at a version."""
    if _TIME_TRAVEL.fullmatch(path):
        raise DefinitionError(
            f"table {path!r} ends like a path that names a version or a time of a Delta table: "
            "give the table's own path, without what comes from '@' on, or rename its directory"
        )


def _check_schema(text: str, parts: Sequence[str]) -> None:
    """Refuse names of a catalog's schema in which Spark cannot hold tables."""
    *catalog, schema = (part.strip("`") for part in parts)
    others = catalog not in ([], [_SESSION_CATALOG])
    names = ((catalog[0], "-") if catalog else (schema, "")), (schema, "-" if others else "")
    for name, more in names:
        if not re.fullmatch(f"[A-Za-z0-9_{more}]+", name):
            raise DefinitionError(
                f"location {text!r}: {name!r} is not a name that Spark takes for a schema or a "
                "catalog; use letters from a to z, digits and _, or keep the store at a path, "
                "which has a '/'"
            )


def is_relative(text: str) -> bool:
    """Return whether a text is a path that depends on the current directory."""
    return _is_path(text) and not _SCHEME.match(text) and not os.path.isabs(text)


def _is_path(text: str) -> bool:
    """Return whether a text has a slash or a scheme, or is ``.`` or ``..``."""
    return "/" in text or "\\" in text or text in (".", "..") or bool(_SCHEME.match(text))
