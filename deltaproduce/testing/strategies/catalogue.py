"""The catalogue of random stages: functions, and the columns that they read and produce."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from deltaproduce.testing.strategies.functions import (
    by_text,
    by_year,
    constant_key,
    dated,
    differences,
    filtered,
    first_given,
    first_row,
    flattened,
    identified,
    joined,
    listed,
    nothing,
    null_key,
    numbered,
    ranked,
    rekeyed,
    scattered,
    totals,
    unchanged,
    unindexed,
)
from deltaproduce.testing.strategies.tables import (
    by_text_table,
    filtered_table,
    first_of_stream,
    flattened_table,
    numbered_stream,
    rekeyed_table,
    totals_table,
    unchanged_table,
    unchanged_wide_table,
)
from deltaproduce.types.columns import Columns, RowSchema, row_schema
from deltaproduce.types.ddl import identifier


@dataclass(frozen=True, slots=True)
class Shape:
    """The key and value columns of a stage, as DDL."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A stage function, the shapes that it reads and produces, and what keys keep.

    Attributes:
        by_name: whether the function names columns, so that these cannot have other names.
    """

    function: Callable[..., Any]
    feeder: Shape
    shape: Shape
    called: Literal["by key", "with tables", "with streams"] = "by key"
    kept: Mapping[str, Any] = field(default_factory=dict)
    by_name: bool = False


ROWS = Shape("k bigint", "n bigint, t string")
BY_TEXT = Shape("t string", "n bigint")
NUMBERED = Shape("t string", "n bigint NOT NULL")
RANKED = Shape("n bigint desc, k bigint", "t string")
LISTS = Shape("k bigint", "ns array<bigint>")
WIDE = Shape(
    "d date desc, b binary, f boolean desc, p decimal(9,2)",
    "x double, y float, a decimal(38,10), h smallint, moment timestamp, day date, raw binary, "
    "tags map<string,array<string>>, s struct<`from`:int,`a.b`:string>",
)
DAYS = Shape("day date, k bigint", "n bigint, t string")
TIMES = Shape("k bigint, at timestamp desc", "n bigint, t string")
NUMBERS = Shape("k bigint, s smallint", "n bigint, t string")
INDEXED = Shape("t string", "k bigint, n bigint")
PARTITIONED = (DAYS, TIMES, NUMBERS)
"""The shapes that windows are over; other keys may have days, too."""

RULES = (
    Rule(unchanged, ROWS, ROWS),
    Rule(rekeyed, ROWS, ROWS),
    Rule(filtered, ROWS, ROWS),
    Rule(nothing, ROWS, ROWS),
    Rule(first_row, ROWS, ROWS),
    Rule(constant_key, ROWS, ROWS, by_name=True),
    Rule(null_key, ROWS, ROWS),
    Rule(differences, ROWS, ROWS),
    Rule(by_text, ROWS, BY_TEXT),
    Rule(scattered, ROWS, BY_TEXT),
    Rule(scattered, ROWS, BY_TEXT, kept={"preserve": first_given}),
    Rule(identified, ROWS, NUMBERED, kept={"surrogate": "n"}),
    Rule(totals, NUMBERED, ROWS),
    Rule(ranked, ROWS, RANKED),
    Rule(listed, ROWS, LISTS),
    Rule(totals, BY_TEXT, ROWS),
    Rule(numbered, BY_TEXT, BY_TEXT),
    Rule(joined, RANKED, ROWS),
    Rule(unchanged, RANKED, RANKED),
    Rule(flattened, LISTS, ROWS, by_name=True),
    Rule(unchanged, LISTS, LISTS),
    Rule(unchanged, WIDE, WIDE),
    Rule(first_row, WIDE, WIDE),
    Rule(by_year, WIDE, LISTS),
    Rule(dated, ROWS, DAYS),
    Rule(unchanged, DAYS, DAYS),
    Rule(by_text, DAYS, BY_TEXT),
    Rule(by_text, TIMES, BY_TEXT),
    Rule(filtered, NUMBERS, NUMBERS),
    Rule(unindexed, INDEXED, ROWS),
    Rule(unchanged_table, ROWS, ROWS, "with tables"),
    Rule(rekeyed_table, ROWS, ROWS, "with tables"),
    Rule(filtered_table, ROWS, ROWS, "with tables"),
    Rule(by_text_table, ROWS, BY_TEXT, "with tables"),
    Rule(first_of_stream, ROWS, ROWS, "with streams"),
    Rule(totals_table, BY_TEXT, ROWS, "with tables", by_name=True),
    Rule(numbered_stream, BY_TEXT, BY_TEXT, "with streams"),
    Rule(flattened_table, LISTS, ROWS, "with tables", by_name=True),
    Rule(unchanged_wide_table, WIDE, WIDE, "with tables"),
)
COLUMNS = (
    *("k", "n", "t", "ns", "day", "at", "s"),
    *("d", "b", "f", "p", "x", "y", "a", "h", "moment", "raw", "tags"),
)
"""The columns of all shapes."""


@cache
def _columns(shape: Shape) -> RowSchema:
    return row_schema(shape.key, shape.value, stage="catalogue")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The rules and shapes under other names of their columns.

    Attributes:
        names: the name of each of `COLUMNS`.
        remembering: whether rules may keep something for keys.
    """

    names: Mapping[str, str]
    remembering: bool = True

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that work under these names."""
        is_plain = all(plain == name for plain, name in self.names.items())
        return tuple(
            replace(
                rule,
                feeder=self.shape(rule.feeder),
                shape=self.shape(rule.shape),
                kept=self._kept(rule.kept),
            )
            for rule in RULES
            if (is_plain or not rule.by_name) and (self.remembering or not rule.kept)
        )

    @property
    def partitioned(self) -> tuple[Shape, ...]:
        """The shapes of `PARTITIONED`."""
        return tuple(map(self.shape, PARTITIONED))

    def shape(self, plain: Shape) -> Shape:
        """Return one of the shapes above with these names."""
        schema = _columns(plain)
        return Shape(self._renamed(schema.key), self._renamed(schema.value))

    def text(self, plain: str) -> str:
        """Return a column's name in an expression."""
        return identifier(self.names[plain])

    def _renamed(self, columns: Columns) -> str:
        return Columns(tuple(replace(c, name=self.names[c.name]) for c in columns)).ddl

    def _kept(self, kept: Mapping[str, Any]) -> Mapping[str, Any]:
        if "surrogate" not in kept:
            return kept
        return {**kept, "surrogate": self.names[kept["surrogate"]]}
