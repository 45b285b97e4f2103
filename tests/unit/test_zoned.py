"""Which expressions and queries depend on the time zone."""

import pytest

from deltaproduce.stages.sql.text import QueryText
from deltaproduce.stages.sql.zoned import depends_on_zone
from deltaproduce.types.data_types import (
    ArrayType,
    DateType,
    LongType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

TYPES = {
    "id": LongType(),
    "day": DateType(),
    "text": StringType(),
    "t": TimestampType(),
    "u": TimestampType(),
    "moments": ArrayType(TimestampType()),
    "local": TimestampNTZType(),
}
DEPENDENT = """
date(t)
to_date(t)
cast(t AS date)
cast(t AS string)
cast(text AS timestamp)
cast(day AS timestamp)
year(t)
hour(t)
hour(text)
date_trunc('day', t)
date_format(t, 'yyyy-MM')
date_format(text, 'yyyy-MM')
t > timestamp'2026-01-01'
t > day
t = text
t || ''
extract(hour FROM text)
day + interval 1 hour
from_unixtime(id)
unix_timestamp(text)
months_between(day, day)
to_json(struct(t))
date(moments[0])
case when id > 0 then t end
coalesce(day, t)
least(t, u, text)
""".strip().splitlines()
INDEPENDENT = """
t
id + 1
date(local)
year(day)
date_format(day, 'yyyy-MM')
cast(text AS date)
day > '2026-01-01'
t IS NOT NULL
t > u
(t) = (u)
coalesce(t, u)
moments
count(t)
extract(year FROM day)
""".strip().splitlines()
DEPENDENT_QUERIES = """
SELECT id, date(t) AS d FROM orders
SELECT id, date(x) AS d FROM (SELECT id, t AS x FROM orders) AS o
WITH o(a, b) AS (SELECT id, t FROM orders) SELECT a, date(b) AS d FROM o
SELECT id, t AS x, date(x) AS d FROM orders
SELECT id, date(max(t)) AS d FROM orders GROUP BY id
SELECT o.id FROM orders o WHERE hour(o.t) = 1
SELECT id, sum(id) OVER (ORDER BY t RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) s FROM o
""".strip().splitlines()
INDEPENDENT_QUERIES = """
SELECT * FROM orders
SELECT id, t FROM orders
SELECT id, max(t) AS m FROM orders GROUP BY id ORDER BY m
SELECT o.id, o.t AS x FROM orders o JOIN orders p ON o.t = p.t WHERE o.t < p.u
SELECT id, row_number() OVER (PARTITION BY t ORDER BY u) AS n FROM orders
SELECT id, day FROM orders WHERE day = '2026-01-01'
""".strip().splitlines()


def depends(query: str) -> bool:
    return depends_on_zone(QueryText.read(query).tree, TYPES)


@pytest.mark.parametrize("text", DEPENDENT)
def test_expressions_that_depend_on_it(text: str) -> None:
    assert depends(f"SELECT {text} AS x FROM orders")


@pytest.mark.parametrize("text", INDEPENDENT)
def test_expressions_that_do_not(text: str) -> None:
    assert not depends(f"SELECT {text} AS x FROM orders")


@pytest.mark.parametrize("query", DEPENDENT_QUERIES)
def test_queries_that_depend_on_it(query: str) -> None:
    assert depends(query)


@pytest.mark.parametrize("query", INDEPENDENT_QUERIES)
def test_queries_that_do_not(query: str) -> None:
    assert not depends(query)
