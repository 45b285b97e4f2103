"""Plain queries of tasks: which the driver computes, and which it leaves to Spark."""

import pytest

from deltaproduce.stages.partitioned.on_driver import Plain
from deltaproduce.types.columns import plain_columns

COLUMNS = tuple(plain_columns("day string, kind string, part struct<kind: string>, n int"))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("SELECT n, Kind AS k FROM sales WHERE sales.day = d", {"n": ("n",), "k": ("kind",)}),
        ("SELECT s.n + 1 AS more FROM sales AS s WHERE S.N > 1;", {"more": ("n",)}),
        ("SELECT n AS kind, kind AS other FROM sales", {"kind": ("n",), "other": ("kind",)}),
        ("SELECT sales.*, 1 AS one FROM sales", {c.name: (c.name,) for c in COLUMNS} | {"one": ()}),
    ],
)
def test_one_stage_s_rows_by_expressions_are_plain(text, read):
    found = Plain.of(text, COLUMNS)
    assert found is not None
    assert {name: one.columns for name, one in found.outputs} == read


@pytest.mark.parametrize(
    "text",
    [
        "SELECT part.kind AS kind FROM sales",
        "SELECT sales.part.kind AS kind FROM sales",
        "SELECT n FROM sales WHERE part.kind = 'a'",
        "SELECT part.* FROM sales",
        "SELECT * EXCEPT (n) FROM sales",
        "SELECT a AS n FROM sales AS s (a, b, c, e)",
        "SELECT kind, n FROM sales PIVOT (sum(n) FOR day IN ('a'))",
        "SELECT n FROM sales TABLESAMPLE (5 ROWS)",
        "SELECT n AS d, d AS e FROM sales",  # not the scope's d
        "SELECT DISTINCT n FROM sales",
        "SELECT n FROM sales LIMIT 1",
        "SELECT n FROM sales, sales AS other",
        "SELECT 1 AS n WHERE EXISTS (SELECT 1 FROM sales)",
        "SELECT (SELECT max(n) FROM sales) AS n",
    ],
)
def test_what_is_more_is_left_to_spark(text):
    """It would be another query without the part that the driver does not know."""
    assert Plain.of(text, COLUMNS) is None
