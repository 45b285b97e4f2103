"""The page docs/sql.md has each reason why operators recompute, and the operator of each rule."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import deltaproduce
from deltaproduce.stages.sql.operators.following import LOOKED_UP, RULES
from deltaproduce.stages.sql.resolve import resolved
from deltaproduce.stages.views import kind
from deltaproduce.stages.views.plan import modes
from deltaproduce.types.columns import row_schema

PAGE = Path(deltaproduce.__file__).parent.parent / "docs" / "sql.md"


def test_the_page_has_each_reason() -> None:
    """As the first cell of a row; `LARGE_CHANGE` is a reason of a step, below the table."""
    of_code = {
        value for module in (kind, modes) for name, value in vars(module).items() if name == value
    }
    of_page = set(re.findall(r"^\| `([A-Z_]+)` \|", PAGE.read_text(), re.MULTILINE))
    assert of_page == of_code - {kind.LARGE_CHANGE}
    assert kind.LARGE_CHANGE in PAGE.read_text()


OF_PAGE = {
    "ProjectRelation": "`SELECT` of expressions",
    "Filter": "`WHERE`",
    "Values": "`VALUES`",
    "Join": "inner join",
    "Matched": "`EXISTS`, `IN`, `NOT IN`",
    "Single": "a scalar subquery",
    "AggregateRelation": "`GROUP BY`",
    "Distinct": "`DISTINCT`",
    "SetOperation": "`INTERSECT`",
    "Limit": "`ORDER BY … LIMIT`",
    "Expand": "`ROLLUP`, `CUBE`, `GROUPING SETS`",
    "Generate": "`LATERAL VIEW`",
    "WindowRelation": "window functions with `PARTITION BY`",
}


def test_each_operator_has_both_functions_and_is_on_the_page() -> None:
    assert set(RULES) == set(LOOKED_UP)
    assert {one.__name__ for one in RULES} == set(OF_PAGE)
    page = PAGE.read_text()
    assert all(words in page for words in OF_PAGE.values())


SALES = {
    "sales": row_schema(
        "id bigint",
        "customer string, at int, state string, rate double",
        stage="sales",
    )
}


@pytest.mark.parametrize(
    ("call", "has_frame"),
    [
        ("max(at)", True),
        ("max_by(state, at)", True),
        ("percentile(at, 0.5)", True),
        ("sort_array(collect_list(at))[0]", True),
        ("min_by(rate, at)", False),
    ],
)
def test_spark_makes_no_hidden_tables_of_functions_that_choose_among_equal_ends(
    call: str, has_frame: bool
) -> None:
    """It has no such function, or takes any of the ends; the query's own text is edited for it."""
    text = f"SELECT customer, {call} AS x FROM sales GROUP BY customer ORDER BY x LIMIT 3"
    query = resolved(text, SALES)
    for with_session in (False, True):
        view = kind.View.defined(text, None, SALES, stage="v")
        plan = replace(view, with_session=with_session).planned(query, SALES, stage="v")
        follows = has_frame or not with_session
        assert {*plan.reasons.values()} == (set() if follows else {modes.NO_DELTA_RULE})
        assert bool(plan.tables) == follows
