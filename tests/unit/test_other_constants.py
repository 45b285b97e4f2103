"""A query that is resolved once, for many values of its constants: the rows that each gives."""

from datetime import date
from itertools import product

import pyarrow as pa
import pytest

from deltaproduce.stages.sql.expressions.terms import Constant, Constants
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.resolve import Resolved, resolved
from deltaproduce.types.columns import row_schema
from deltaproduce.types.data_types import DateType, DoubleType, IntegerType, StringType

STAGES = {"t": row_schema("k int", "day date, price decimal(9,3), word string", stage="t")}
ROWS = pa.table(
    {
        "k": pa.array([1, 2, 3], pa.int32()),
        "day": [date(2022, 3, 1), None, date(2022, 3, 31)],
        "price": pa.array(["1.235", "-7.000", None]).cast(pa.decimal128(9, 3)),
        "word": ["a%b", "2022-03-31", None],
    }
)
SCOPES: list[Constants] = [
    {
        "n": Constant(IntegerType(), n),
        "at": Constant(DateType(), at),
        "w": Constant(StringType(), w),
    }
    for n, at, w in (
        (0, date(2022, 3, 1), "month"),
        (1, date(2022, 3, 31), "a\\%b"),
        (2, None, "none"),
        (None, date(2022, 3, 31), "month"),
        (0, date(2022, 3, 2), None),
    )
]
ALIKE = (
    "SELECT k, day, n + k AS m FROM t WHERE day = at",
    "WITH a AS (SELECT k, at AS d FROM t) SELECT a.k, d, b.word FROM a JOIN t b ON a.k = b.k + n",
    "SELECT day, count(*) AS c, sum(k * n) AS s FROM t GROUP BY day HAVING max(k) > n",
    "SELECT k FROM t WHERE word IN (SELECT w FROM t) OR EXISTS (SELECT 1 FROM t u WHERE u.k = n)",
    "SELECT k, n AS x FROM t UNION ALL SELECT k, k + 1 FROM t WHERE day < at",
)
DECIDED_BY_VALUE = (
    "WITH a AS (SELECT k, round(price, n) AS r FROM t) SELECT k, CAST(r AS STRING) AS s FROM a",
    "SELECT k, trunc(day, w) AS d FROM t",
    "SELECT k, word LIKE w AS is_like FROM t WHERE k > n OR k <= n",
    "SELECT k, substring(word, 1, n) AS s FROM t",
    "SELECT k, date_trunc(w, day) AS d, n FROM t WHERE k > n",
)


def made(query: Resolved, scope: Constants) -> pa.Table:
    rows = rows_of(query.relation, {"t": ROWS}, Computing("UTC", scope))
    columns = [rows.column(one.field.id).combine_chunks() for one in query.columns]
    return pa.table(columns, query.names)


@pytest.mark.parametrize("text", [*ALIKE, *DECIDED_BY_VALUE])
def test_where_other_values_fit_the_rows_are_those_of_a_query_resolved_with_them(text: str) -> None:
    known = [resolved(text, STAGES, scope) for scope in SCOPES]
    fits = 0
    for one, (scope, anew) in product(known, zip(SCOPES, known, strict=True)):
        if one.only_in_spark is None and one.fits(scope):
            assert anew.only_in_spark is None
            assert made(one, scope).equals(made(anew, scope))
            fits += 1
    assert fits


@pytest.mark.parametrize("text", ALIKE)
def test_values_fit_of_which_no_type_depends(text: str) -> None:
    first = resolved(text, STAGES, SCOPES[0])
    assert first.only_in_spark is None
    assert all(first.fits(scope) for scope in SCOPES)


def test_values_that_decide_about_types_do_not_fit() -> None:
    first = resolved(DECIDED_BY_VALUE[0], STAGES, SCOPES[0])
    assert {scope["n"].value for scope in SCOPES if first.fits(scope)} == {0}


def test_a_value_of_another_type_does_not_fit() -> None:
    first = resolved("SELECT k + n AS m FROM t", STAGES, SCOPES[0])
    assert not first.fits({**SCOPES[0], "n": Constant(DoubleType(), 1.0)})
    wrong = {**SCOPES[0], "n": Constant(DateType(), date(2022, 3, 1))}
    assert not resolved("SELECT k * n AS m FROM t", STAGES, SCOPES[0]).fits(wrong)
