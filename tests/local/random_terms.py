"""Random parts of queries: conditions, aggregates, window functions, over the columns in scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

Column = tuple[str, str]
"""A column as SQL, and whether it is a whole number (``n``), a float (``f``) or text (``s``)."""


@dataclass
class Terms:
    """Writes parts of a query; each column of one has a name of its own."""

    random: Random
    _numbers: count[int] = field(default_factory=count)

    def chance(self, share: float) -> bool:
        """Whether something happens that does so in this share of cases."""
        return self.random.random() < share

    def name(self, letter: str) -> str:
        """A name that nothing else has."""
        return f"{letter}{next(self._numbers)}"

    def of(self, columns: Sequence[Column], kind: str) -> str:
        """A column of a kind, or a constant if there is none."""
        found = [e for e, t in columns if t == kind]
        if kind == "f" and not found:
            return self.of(columns, "n")
        return self.random.choice(found) if found else ("'x'" if kind == "s" else "1")

    def constant(self, kind: str) -> str:
        """A value of a kind."""
        return self.random.choice(["'x'", "''"] if kind == "s" else ["0", "1", "2"])

    def compared(self, columns: Sequence[Column]) -> str:
        """A condition on a row."""
        one, kind = self.random.choice(columns)
        other = self.random.choice([self.of(columns, kind), self.constant(kind)])
        word = self.random.choice(["=", "<>", "<", ">=", "<=>"])
        return self.random.choice(
            [
                f"{one} {word} {other}",
                f"{one} {word} {other}",
                f"{one} IS NULL",
                f"{one} IN ({self.constant(kind)}, {other})",
                f"{one} BETWEEN {self.constant(kind)} AND {other}",
            ]
        )

    def value(self, columns: Sequence[Column]) -> Column:
        """An expression of a row."""
        number = self.of(columns, "n")
        return self.random.choice(
            [
                self.random.choice(columns),
                self.random.choice(columns),
                (f"{number} + 1", "n"),
                (f"coalesce({number}, {self.of(columns, 'n')})", "n"),
                (f"CASE WHEN {self.compared(columns)} THEN {number} ELSE 7 END", "n"),
            ]
        )

    def call(self, columns: Sequence[Column]) -> Column:
        """An aggregate function."""
        number, (text, kind) = self.of(columns, "n"), self.random.choice(columns)
        some, what = self.random.choice([(number, "n"), (self.of(columns, "f"), "f")])
        where = f" FILTER (WHERE {self.compared(columns)})" if self.chance(0.2) else ""
        return self.random.choice(
            [
                (f"count(*){where}", "n"),
                (f"count({text}){where}", "n"),
                (f"count(DISTINCT {text}){where}", "n"),
                (f"sum({some}){where}", what),
                (f"sum(DISTINCT {some})", what),
                (f"avg({some}){where}", "f"),
                (f"median({number})", "f"),
                (f"min({text}){where}", kind),
                (f"max({text}){where}", kind),
                (f"min_by({text}, {number})", kind),
                (f"max_by({number}, {text})", "n"),
                (f"mode({text})", kind),
                (f"size(collect_list({text}))", "n"),
            ]
        )

    def direction(self) -> str:
        """How a column sorts."""
        words = self.random.choice(["ASC", "DESC"]), self.random.choice(["FIRST", "LAST"])
        return f"{words[0]} NULLS {words[1]}"

    def order(self, columns: Sequence[Column], sizes: Sequence[int] = (1, 2)) -> str:
        """An ORDER BY of some columns."""
        keys = self.random.sample(columns, min(len(columns), self.random.choice(sizes)))
        return f"ORDER BY {', '.join(f'{e} {self.direction()}' for e, _ in keys)}"

    def over(self, columns: Sequence[Column], *, is_number: bool = False) -> Column:
        """A window function; where rows are equal, DuckDB gets the order of the text for Spark."""
        number, (other, kind) = self.of(columns, "n"), self.random.choice(columns)
        by = self.random.sample(columns, min(len(columns), self.random.choice([1, 1, 2])))
        partition = f"PARTITION BY {', '.join(e for e, _ in by)}"
        if self.chance(0.1):
            partition = ""
        order = self.order(columns)
        ignoring = self.random.choice(["", " IGNORE NULLS"])
        places = [
            ("row_number()", "n"),
            ("rank()", "n"),
            ("dense_rank()", "n"),
            (f"ntile({self.random.choice([1, 2, 5])})", "n"),
            *([] if is_number else [(f"lag({other}){ignoring}", kind), ("percent_rank()", "f")]),
            (f"lead({number}, {self.random.choice([1, 2])}, -1){ignoring}", "n"),
        ]
        framed = [
            ("count(*)", "n"),
            (f"sum({number})", "n"),
            *([] if is_number else [(f"min({other})", kind), (f"max({other})", kind)]),
            *([] if is_number else [(f"avg({number})", "f")]),
            (f"count({other}) FILTER (WHERE {self.compared(columns)})", "n"),
        ]
        ends = [(f"{word}({number}){ignoring}", "n") for word in ("first_value", "last_value")] + [
            (f"nth_value({number}, 2)", "n")
        ]
        match self.random.choice(["place", "place", "rows", "range", "values", "whole"]):
            case "place":
                call, frame = self.random.choice(places), ""
            case "rows":
                call, frame = self.random.choice([*framed, *ends]), f" ROWS {self._frame()}"
            case "range":
                call = self.random.choice([*framed, *ends])
                frame = self.random.choice(["", " RANGE BETWEEN CURRENT ROW AND CURRENT ROW"])
            case "values":
                call, frame = self.random.choice(framed), f" RANGE {self._frame()}"
                order = f"ORDER BY {number} {self.direction()}"
            case _:
                call, frame, order = self.random.choice(framed), "", ""
        window = " ".join(part for part in (partition, order) if part)
        return f"{call[0]} OVER ({window}{frame})", call[1]

    def _frame(self) -> str:
        start = self.random.choice(["UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW"])
        end = self.random.choice(["CURRENT ROW", "1 FOLLOWING", "UNBOUNDED FOLLOWING"])
        if self.chance(0.2):
            start, end = self.random.choice(
                [("2 PRECEDING", "1 PRECEDING"), ("1 FOLLOWING", "3 FOLLOWING")]
            )
        return f"BETWEEN {start} AND {end}"
