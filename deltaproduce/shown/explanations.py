"""Explanations: what keeps a stage up to date, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from deltaproduce.shown.table import Table
from deltaproduce.shown.tabular import Tabular, one_line

Mode = Literal["incremental", "recompute"]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a stage.

    Attributes:
        operator: what it does.
        mode: ``incremental`` if its cost is that of the change; ``recompute`` if it reads all of
            its inputs whenever one of them changes.
        reason: a code that says why it recomputes; None if it does not.
        inputs: the positions of the operators that it reads.
        tables: the tables that are kept for it: name, kind, and their rows and bytes; None if they
            are not known.
    """

    operator: str
    mode: Mode
    reason: str | None = None
    inputs: tuple[int, ...] = ()
    tables: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The operator as JSON values."""
        return {
            "operator": self.operator,
            "mode": self.mode,
            "reason": self.reason,
            "inputs": list(self.inputs),
            "tables": [dict(table) for table in self.tables],
        }


@dataclass(frozen=True, slots=True)
class Explanation(Tabular):
    """How a stage is kept up to date.

    Attributes:
        stage: its name.
        key: its key columns; none for one row over all.
        operators: what a step computes, inputs first.
    """

    stage: str
    key: tuple[str, ...]
    operators: tuple[Operator, ...]

    def __repr__(self) -> str:
        return one_line(self, self.stage, key=", ".join(self.key), operators=len(self.operators))

    def to_dict(self) -> dict[str, Any]:
        """The explanation as JSON values."""
        return {
            "stage": self.stage,
            "key": list(self.key),
            "operators": [operator.to_dict() for operator in self.operators],
        }

    def as_tables(self) -> tuple[Table, ...]:
        """The operators, inputs first."""
        columns: tuple[str, ...] = ("", "operator", "mode", "reason", "reads")
        has_tables = any(one.tables for one in self.operators)
        title = f"stage {self.stage}, key {', '.join(self.key) or 'none: one row over all'}"
        rows = tuple(
            (
                place,
                one.operator,
                one.mode,
                one.reason or "",
                ", ".join(map(str, one.inputs)),
                *([_kept(one.tables)] if has_tables else []),
            )
            for place, one in enumerate(self.operators)
        )
        return (Table(title, (*columns, "keeps") if has_tables else columns, rows),)


def _kept(tables: tuple[Mapping[str, Any], ...]) -> str:
    """Return what tables are, and how many rows they have if it is known."""
    texts = (
        one["kind"] if one["rows"] is None else f"{one['kind']}, {one['rows']:,} rows"
        for one in tables
    )
    return "; ".join(texts)
