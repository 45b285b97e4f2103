"""TPC-H: its tables, and its 22 queries as its text has them, with values for small scales.

Comments that no query reads are left out, and so is the clerk of an order; query 19 has two of its
three alternatives. At the end of the module is what the example and the benchmark share: a
pipeline, the generator of the rows, the comparison.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from decimal import Decimal
from math import isclose
from pathlib import Path
from typing import Any, Final

import deltaproduce as dp

Answer = list[tuple[Any, ...]]
"""The rows of a query."""

SCHEMAS: Final = {
    "region": ("r_regionkey bigint", "r_name string"),
    "nation": ("n_nationkey bigint", "n_name string, n_regionkey bigint"),
    "supplier": (
        "s_suppkey bigint",
        "s_name string, s_address string, s_nationkey bigint, s_phone string, "
        "s_acctbal decimal(15,2), s_comment string",
    ),
    "part": (
        "p_partkey bigint",
        "p_name string, p_mfgr string, p_brand string, p_type string, p_size int, "
        "p_container string, p_retailprice decimal(15,2)",
    ),
    "partsupp": (
        "ps_partkey bigint, ps_suppkey bigint",
        "ps_availqty int, ps_supplycost decimal(15,2)",
    ),
    "customer": (
        "c_custkey bigint",
        "c_name string, c_address string, c_nationkey bigint, c_phone string, "
        "c_acctbal decimal(15,2), c_mktsegment string, c_comment string",
    ),
    "orders": (
        "o_orderkey bigint",
        "o_custkey bigint, o_orderstatus string, o_totalprice decimal(15,2), o_orderdate date, "
        "o_orderpriority string, o_shippriority int, o_comment string",
    ),
    "lineitem": (
        "l_orderkey bigint, l_linenumber int",
        "l_partkey bigint, l_suppkey bigint, l_quantity decimal(15,2), "
        "l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), "
        "l_returnflag string, l_linestatus string, l_shipdate date, l_commitdate date, "
        "l_receiptdate date, l_shipinstruct string, l_shipmode string",
    ),
}
"""The table -> its key columns, and its other columns."""

QUERIES: Final = {
    "q01": """
        SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS
        sum_base_price, sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
        sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS
        avg_qty, avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS
        count_order FROM lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90' day
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus
    """,
    "q02": """
        SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment FROM
        part, supplier, partsupp, nation, region WHERE p_partkey = ps_partkey AND s_suppkey =
        ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS' AND s_nationkey = n_nationkey AND
        n_regionkey = r_regionkey AND r_name = 'EUROPE' AND ps_supplycost = (SELECT
        min(ps_supplycost) FROM partsupp, supplier, nation, region WHERE p_partkey = ps_partkey
        AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
        AND r_name = 'EUROPE') ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100
    """,
    "q03": """
        SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate,
        o_shippriority FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND
        c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate < date '1995-03-15'
        AND l_shipdate > date '1995-03-15' GROUP BY l_orderkey, o_orderdate, o_shippriority
        ORDER BY revenue DESC, o_orderdate LIMIT 10
    """,
    "q04": """
        SELECT o_orderpriority, count(*) AS order_count FROM orders WHERE o_orderdate >= date
        '1993-07-01' AND o_orderdate < date '1993-07-01' + interval '3' month AND EXISTS (SELECT
        * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate) GROUP BY
        o_orderpriority ORDER BY o_orderpriority
    """,
    "q05": """
        SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM customer, orders,
        lineitem, supplier, nation, region WHERE c_custkey = o_custkey AND l_orderkey =
        o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey AND s_nationkey =
        n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA' AND o_orderdate >= date
        '1994-01-01' AND o_orderdate < date '1994-01-01' + interval '1' year GROUP BY n_name
        ORDER BY revenue DESC
    """,
    "q06": """
        SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >=
        date '1994-01-01' AND l_shipdate < date '1994-01-01' + interval '1' year AND l_discount
        BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24
    """,
    "q07": """
        SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue FROM ( SELECT n1.n_name
        AS supp_nation, n2.n_name AS cust_nation, extract(year FROM l_shipdate) AS l_year,
        l_extendedprice * (1 - l_discount) AS volume FROM supplier, lineitem, orders, customer,
        nation n1, nation n2 WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND
        c_custkey = o_custkey AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
        AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY' AND
        n2.n_name = 'FRANCE')) AND l_shipdate BETWEEN date '1995-01-01' AND date '1996-12-31')
        AS shipping GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation,
        l_year
    """,
    "q08": """
        SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) AS
        mkt_share FROM (SELECT extract(year FROM o_orderdate) AS o_year, l_extendedprice * (1 -
        l_discount) AS volume, n2.n_name AS nation FROM part, supplier, lineitem, orders,
        customer, nation n1, nation n2, region WHERE p_partkey = l_partkey AND s_suppkey =
        l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey AND c_nationkey =
        n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA' AND s_nationkey =
        n2.n_nationkey AND o_orderdate BETWEEN date '1995-01-01' AND date '1996-12-31' AND
        p_type = 'ECONOMY ANODIZED STEEL') AS all_nations GROUP BY o_year ORDER BY o_year
    """,
    "q09": """
        SELECT nation, o_year, sum(amount) AS sum_profit FROM ( SELECT n_name AS nation,
        extract(year FROM o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) -
        ps_supplycost * l_quantity AS amount FROM part, supplier, lineitem, partsupp, orders,
        nation WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
        AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND
        p_name LIKE '%green%') AS profit GROUP BY nation, o_year ORDER BY nation, o_year DESC
    """,
    "q10": """
        SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal,
        n_name, c_address, c_phone, c_comment FROM customer, orders, lineitem, nation WHERE
        c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= date '1993-10-01'
        AND o_orderdate < date '1993-10-01' + interval '3' month AND l_returnflag = 'R' AND
        c_nationkey = n_nationkey GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name,
        c_address, c_comment ORDER BY revenue DESC LIMIT 20
    """,
    "q11": """
        SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier,
        nation WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
        GROUP BY ps_partkey HAVING sum(ps_supplycost * ps_availqty) > ( SELECT sum(ps_supplycost
        * ps_availqty) * 0.01 FROM partsupp, supplier, nation WHERE ps_suppkey = s_suppkey AND
        s_nationkey = n_nationkey AND n_name = 'GERMANY') ORDER BY value DESC
    """,
    "q12": """
        SELECT l_shipmode, sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority =
        '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count, sum(CASE WHEN o_orderpriority <>
        '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count FROM
        orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND
        l_commitdate < l_receiptdate AND l_shipdate < l_commitdate AND l_receiptdate >= date
        '1994-01-01' AND l_receiptdate < date '1994-01-01' + interval '1' year GROUP BY
        l_shipmode ORDER BY l_shipmode
    """,
    "q13": """
        SELECT c_count, count(*) AS custdist FROM ( SELECT c_custkey, count(o_orderkey) AS
        c_count FROM customer LEFT OUTER JOIN orders ON c_custkey = o_custkey AND o_comment NOT
        LIKE '%special%requests%' GROUP BY c_custkey) AS c_orders GROUP BY c_count ORDER BY
        custdist DESC, c_count DESC
    """,
    "q14": """
        SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 -
        l_discount) ELSE 0 END) / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue FROM
        lineitem, part WHERE l_partkey = p_partkey AND l_shipdate >= date '1995-09-01' AND
        l_shipdate < date '1995-09-01' + interval '1' month
    """,
    "q15": """
        WITH revenue AS (SELECT l_suppkey AS supplier_no, sum(l_extendedprice * (1 -
        l_discount)) AS total_revenue FROM lineitem WHERE l_shipdate >= date '1996-01-01' AND
        l_shipdate < date '1996-01-01' + interval '3' month GROUP BY l_suppkey) SELECT
        s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue WHERE
        s_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue)
        ORDER BY s_suppkey
    """,
    "q16": """
        SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt FROM
        partsupp, part WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT
        LIKE 'MEDIUM POLISHED%' AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9) AND ps_suppkey NOT
        IN ( SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%') GROUP
        BY p_brand, p_type, p_size ORDER BY supplier_cnt DESC, p_brand, p_type, p_size
    """,
    "q17": """
        SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part WHERE p_partkey =
        l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX' AND l_quantity < ( SELECT
        0.9 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)
    """,
    "q18": """
        SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS
        total FROM customer, orders, lineitem WHERE o_orderkey IN ( SELECT l_orderkey FROM
        lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 200) AND c_custkey = o_custkey AND
        o_orderkey = l_orderkey GROUP BY c_name, c_custkey, o_orderkey, o_orderdate,
        o_totalprice ORDER BY o_totalprice DESC, o_orderdate LIMIT 100
    """,
    "q19": """
        SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, part WHERE
        (p_partkey = l_partkey AND p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX')
        AND l_quantity >= 1 AND l_quantity <= 1 + 80 AND p_size BETWEEN 1 AND 25 AND l_shipmode
        IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON') OR (p_partkey =
        l_partkey AND p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX') AND
        l_quantity >= 10 AND l_quantity <= 10 + 80 AND p_size BETWEEN 1 AND 50 AND l_shipmode IN
        ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
    """,
    "q20": """
        SELECT s_name, s_address FROM supplier, nation WHERE s_suppkey IN ( SELECT ps_suppkey
        FROM partsupp WHERE ps_partkey IN ( SELECT p_partkey FROM part WHERE p_name LIKE
        'forest%') AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem WHERE l_partkey
        = ps_partkey AND l_suppkey = ps_suppkey AND l_shipdate >= date '1994-01-01' AND
        l_shipdate < date '1994-01-01' + interval '1' year)) AND s_nationkey = n_nationkey AND
        n_name = 'CANADA' ORDER BY s_name
    """,
    "q21": """
        SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation WHERE
        s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F' AND
        l1.l_receiptdate > l1.l_commitdate AND EXISTS ( SELECT * FROM lineitem l2 WHERE
        l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey) AND NOT EXISTS (SELECT *
        FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
        AND l3.l_receiptdate > l3.l_commitdate) AND s_nationkey = n_nationkey AND n_name =
        'SAUDI ARABIA' GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100
    """,
    "q22": """
        SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal FROM ( SELECT
        substring(c_phone, 1, 2) AS cntrycode, c_acctbal FROM customer WHERE substring(c_phone,
        1, 2) IN ('13', '31', '23', '29', '30', '18', '17') AND c_acctbal > (SELECT
        avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00 AND substring(c_phone, 1, 2) IN
        ('13', '31', '23', '29', '30', '18', '17')) AND NOT EXISTS (SELECT * FROM orders WHERE
        o_custkey = c_custkey)) AS custsale GROUP BY cntrycode ORDER BY cntrycode
    """,
}
"""The query's number -> its text."""


def pipeline(queries: Mapping[str, str]) -> dp.Pipeline:
    """Return a pipeline of all tables and some queries."""
    warehouse = dp.Pipeline("tpch")
    for name, (key, value) in SCHEMAS.items():
        warehouse.source(name, key=key, value=value)
    for name, query in queries.items():
        warehouse.sql(name, query)
    return warehouse


def generate(folder: Path, scale: float, generator: str) -> None:
    """Write the rows of each table to a Parquet file in a folder, with all of its columns."""
    command = [generator, "parquet", f"--scale-factor={scale}", f"--output-dir={folder}"]
    subprocess.run(command, check=True, capture_output=True)


def agree(mine: Answer, other: Answer) -> bool:
    """Return whether rows are equal, but for the digits of quotients, which DuckDB rounds."""

    def plain(value: Any) -> Any:
        return float(value) if isinstance(value, Decimal | int) else value

    def same(one: Any, two: Any) -> bool:
        if isinstance(one, float) and isinstance(two, float):
            return isclose(one, two, rel_tol=1e-9, abs_tol=1e-5)
        return bool(one == two)

    def order(row: tuple[Any, ...]) -> list[str]:
        return [f"{v:020.3f}" if isinstance(v, float) else str(v) for v in row]

    ones, others = (
        sorted((tuple(map(plain, row)) for row in rows), key=order) for rows in (mine, other)
    )
    return len(ones) == len(others) and all(
        all(map(same, one, two)) for one, two in zip(ones, others, strict=True)
    )
