"""The competitors, by their names on the command line."""

from __future__ import annotations

from typing import Final

from benchmarks import declarative
from benchmarks.competitor import Competitor
from benchmarks.declarative import Declarative
from benchmarks.ours import (
    TABLE_TYPES,
    Ours,
    OursByAggregates,
    OursBySql,
    OursBySqlWithoutSession,
    OursChecked,
    OursCopyOnWrite,
    OursFromArrow,
    OursInFull,
    OursMergeOnRead,
    OursWithoutSession,
    default_table_type,
)
from benchmarks.single_node import DeltaRs, DuckDb
from benchmarks.spark_peers import Merge, Recompute

COMPETITORS: Final[dict[str, type[Competitor]]] = {
    "ours": Ours,
    "ours-cow": OursCopyOnWrite,
    "ours-mor": OursMergeOnRead,
    "ours-arrow": OursFromArrow,
    "ours-here": OursWithoutSession,
    "ours-agg": OursByAggregates,
    "ours-sql": OursBySql,
    "ours-sql-here": OursBySqlWithoutSession,
    "ours-checked-here": OursChecked,
    "refresh": OursInFull,
    "recompute": Recompute,
    "merge": Merge,
    "delta-rs": DeltaRs,
    "duckdb": DuckDb,
    "sdp": Declarative,
}

OURS: Final[dict[str, type[Ours]]] = {"ours": Ours} | {
    name: kind
    for name, kind in COMPETITORS.items()
    if name in TABLE_TYPES and issubclass(kind, Ours)
}
"""This library's table types."""

ANY_WORKLOAD: Final = frozenset({*OURS, "refresh", "recompute"})
"""The competitors that can do any workload, not only W1."""

BY_FEW: Final = {
    "join": frozenset({"merge"}),
    "merge": frozenset({"merge"}),
    "no-op": frozenset({"ours-arrow"}),
}
"""Who else does a shape: the handwritten MERGE, where W1 has none, and who needs no Spark job."""


def able(shape: str) -> frozenset[str]:
    """Return the competitors that can do a shape."""
    return ANY_WORKLOAD | BY_FEW.get(shape, frozenset())


def all_of_them() -> list[str]:
    """Return all competitors that can run here, without the default table type twice."""
    default = default_table_type()
    twice = {name for name, table_type in TABLE_TYPES.items() if table_type == default}
    absent = set() if declarative.available() else {"sdp"}
    return [name for name in COMPETITORS if name not in twice | absent]
