"""Which joins are made of FROM and WHERE: by equalities, and the same ones each time."""

from __future__ import annotations

import pytest
from tpch import QUERIES, SCHEMAS

from deltaproduce.stages.sql.algebra.relations import Filter, Join, Matched, Relation
from deltaproduce.stages.sql.resolve import resolved
from deltaproduce.types.columns import row_schema

STAGES = {name: row_schema(*columns, stage=name) for name, columns in SCHEMAS.items()}


def joins(text: str) -> list[Join]:
    relations = resolved(text, STAGES).relation.walk()
    return [one for one in relations if isinstance(one, Join)]


def outline(relation: Relation) -> tuple[object, ...]:
    return (type(relation).__name__, *map(outline, relation.inputs))


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_of_tpch_joins_each_row_with_each(name: str) -> None:
    """But for the one row of a subquery that does not depend on the others."""
    for join in joins(QUERIES[name]):
        of_one = [side for side in join.inputs if outline(side)[0] in ("Project", "Aggregate")]
        assert join.equal or of_one, join.label


@pytest.mark.parametrize("name", ["q02", "q08", "q21"])
def test_a_query_is_the_same_relations_whenever_it_is_read(name: str) -> None:
    """Also where relations that are not needed any more have been removed from memory."""
    first = outline(resolved(QUERIES[name], STAGES).relation)
    for _ in range(25):
        assert outline(resolved(QUERIES[name], STAGES).relation) == first


def test_what_each_branch_has_is_joined_by_though_the_condition_may_fail() -> None:
    text = (
        "SELECT count(*) AS n FROM part, lineitem WHERE (p_partkey = l_partkey AND p_size < 10 DIV "
        "p_partkey) OR (p_partkey = l_partkey AND l_linenumber + 1 > p_size)"
    )
    (join,) = joins(text)
    assert len(join.equal) == 1
    filters = [one.label for one in resolved(text, STAGES).relation.walk()]
    assert any("DIV" in told for told in filters)  # it is computed of joined rows


LINES = "SELECT o_custkey, l_tax FROM orders, lineitem WHERE o_orderkey = l_orderkey AND "
LARGE = "(SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 3)"


def is_filtered(side: Relation) -> bool:
    return isinstance(side, Filter) and isinstance(side.inputs[0], Matched)


@pytest.mark.parametrize("column", ["o_orderkey", "o_custkey"])
def test_rows_are_among_groups_with_a_having_before_they_are_joined(column: str) -> None:
    (join,) = joins(f"{LINES} {column} IN {LARGE}")
    assert [is_filtered(side) for side in join.inputs] == [True, False]


def test_conditions_on_the_input_come_before_it() -> None:
    (join,) = joins(f"{LINES} o_orderkey IN {LARGE} AND o_totalprice > 5")
    assert isinstance(join.left.inputs[0].inputs[0], Filter)


@pytest.mark.parametrize(
    "condition",
    [
        f"o_orderkey NOT IN {LARGE}",
        f"(o_orderkey IN {LARGE} OR o_totalprice > 5)",
        "o_orderkey IN (SELECT l_orderkey FROM lineitem WHERE l_tax > 3)",
        f"o_custkey + l_suppkey IN {LARGE}",
        f"o_custkey * 2 IN {LARGE}",
    ],
)
def test_other_subqueries_are_asked_of_joined_rows(condition: str) -> None:
    """Where IN does not decide, may fail, is about two tables, or leaves nobody knows how many."""
    (join,) = joins(LINES + condition)
    assert not any(map(is_filtered, join.inputs))
