"""Results of comparisons, as values, tables and JSON.

Pure. The invariant: of each side, rows are equal, changed, or there alone, and these numbers add up
to its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from deltaproduce.reading.diffs import values_line
from deltaproduce.shown.table import Table
from deltaproduce.shown.tabular import Tabular, one_line
from deltaproduce.types.json.plain import plain

RowSort = Literal["changed", "only_there", "only_here"]
"""Whether a key has other values, or a row has no equal on the other side."""


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """A column that is not the same on both sides.

    Attributes:
        there: its type in the other database; None if it is not there.
        here: its type in the stage; None if it is not here.
        is_compared: whether its values are compared, in a form that both types have.
    """

    name: str
    there: str | None
    here: str | None
    is_compared: bool = False

    @property
    def sentence(self) -> str:
        """What differs."""
        if self.here is None:
            return f"column {self.name} ({self.there}) is only there"
        if self.there is None:
            return f"column {self.name} ({self.here}) is only here"
        end = "" if self.is_compared else ", and is not compared: no form has values of both"
        return f"column {self.name} is {self.there} there and {self.here} here{end}"

    def as_dict(self) -> dict[str, Any]:
        """The column as JSON values."""
        names = {"column": self.name, "there": self.there, "here": self.here}
        return {**names, "compared": self.is_compared}


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A row that differs.

    Attributes:
        key: the columns of the stage's key; empty if the other table does not have them all.
        there: its values in the other database; None if it is not there. Of a changed row only the
            columns that differ.
        here: its values in the stage, likewise.
    """

    sort: RowSort
    key: Mapping[str, object]
    there: Mapping[str, object] | None
    here: Mapping[str, object] | None

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON values."""
        sides = {"key": self.key, "there": self.there, "here": self.here}
        return {"difference": self.sort, **{name: plain(side) for name, side in sides.items()}}


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """How the rows of a stage differ from those of a table.

    Attributes:
        stage: the stage.
        table: the other table's name.
        rows_there: its rows; None if it cannot be read.
        rows_here: the stage's rows; None if there is no stage.
        equal: rows that both have, as multisets.
        changed: rows there that have another one here under the same key.
        only_there: rows there that are neither.
        only_here: rows here that are neither.
        columns: columns that are not the same.
        sample: some of the rows that differ, of each sort.
        problem: why nothing is compared; empty if rows are.
    """

    stage: str
    table: str
    rows_there: int | None = None
    rows_here: int | None = None
    equal: int = 0
    changed: int = 0
    only_there: int = 0
    only_here: int = 0
    columns: tuple[ComparedColumn, ...] = ()
    sample: tuple[ComparedRow, ...] = ()
    problem: str = ""

    @property
    def differs(self) -> bool:
        """Whether a row or column differs, or nothing could be compared."""
        rows = self.changed or self.only_there or self.only_here
        columns = any(not column.is_compared for column in self.columns)
        return bool(rows or columns or self.problem)

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        counts = ("rows_there", "rows_here", "equal", "changed", "only_there", "only_here")
        return {
            "stage": self.stage,
            "table": self.table,
            **{name: getattr(self, name) for name in counts},
            "columns": [column.as_dict() for column in self.columns],
            "sample": [row.as_dict() for row in self.sample],
            "problem": self.problem,
        }

    def notes(self) -> Iterator[str]:
        """Yield sentences about it."""
        if self.problem:
            yield f"{self.stage}: {self.problem}"
        yield from (f"{self.stage}: {column.sentence}" for column in self.columns)


_HEADINGS: Final = (
    *("stage", "rows there", "rows here", "equal", "changed", "only there", "only here"),
)
_SORTS: Final[Mapping[RowSort, str]] = {
    "changed": "changed",
    "only_there": "only there",
    "only_here": "only here",
}


@dataclass(frozen=True, slots=True)
class ComparedTables(Tabular):
    """How stages differ from tables of another database.

    Attributes:
        database: the other database, without what is secret.
        version: the version of the store.
        tables: the tables, in the order of the stages.
        missing: tables there without a stage here.
    """

    database: str
    version: int
    tables: tuple[ComparedTable, ...]
    missing: tuple[str, ...] = ()

    def __repr__(self) -> str:
        differing = [one.stage for one in self.tables if one.differs]
        return one_line(self, self.database, version=self.version, differing=differing)

    @property
    def differing(self) -> int:
        """How many tables differ."""
        return sum(one.differs for one in self.tables)

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        return {
            "database": self.database,
            "version": self.version,
            "equal": not self.differing,
            "tables": [one.as_dict() for one in self.tables],
            "missing": list(self.missing),
        }

    def as_tables(self) -> tuple[Table, ...]:
        """The counts of all tables, and rows of each that has some to show."""
        title = f"there: {self.database}; here: version {self.version}"
        rows = tuple(_counts(one) for one in self.tables)
        notes = tuple(note for one in self.tables for note in one.notes())
        samples = tuple(_sample_table(one) for one in self.tables if one.sample)
        return (Table(title, _HEADINGS, rows, notes), *samples)


def _counts(one: ComparedTable) -> tuple[str | int | None, ...]:
    counts = (one.equal, one.changed, one.only_there, one.only_here)
    compared = (None,) * 4 if one.problem else counts
    return (one.stage, one.rows_there, one.rows_here, *compared)


def _sample_table(one: ComparedTable) -> Table:
    has_keys = any(row.key for row in one.sample)
    names = ("", "key", "there", "here") if has_keys else ("", "there", "here")
    rows = tuple(
        (
            _SORTS[row.sort],
            *([values_line(row.key)] if has_keys else []),
            *("" if side is None else values_line(side) for side in (row.there, row.here)),
        )
        for row in one.sample
    )
    return Table(f"{one.stage}: some rows that differ", names, rows)
