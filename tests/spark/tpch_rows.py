"""Rows of TPC-H on a tiny scale, from a seed."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any


def rows(random: Random, customers: int = 30) -> dict[str, list[dict[str, Any]]]:
    """Rows of all tables; values are few, so that each query finds some."""
    pick, number = random.choice, random.randint
    nations = ["FRANCE", "GERMANY", "BRAZIL", "SAUDI ARABIA", "CANADA", "CHINA"]
    regions = ["EUROPE", "AMERICA", "ASIA", "MIDDLE EAST"]
    of_region = [0, 0, 1, 3, 1, 2]
    found: dict[str, list[dict[str, Any]]] = {
        "region": [{"r_regionkey": n, "r_name": name} for n, name in enumerate(regions)],
        "nation": [
            {"n_nationkey": n, "n_name": name, "n_regionkey": of_region[n]}
            for n, name in enumerate(nations)
        ],
    }

    def money(most: int) -> Decimal:
        return Decimal(number(-100, most * 100)) / 100

    found["supplier"] = [
        {
            "s_suppkey": n,
            "s_name": f"Supplier#{n}",
            "s_address": f"a{n}",
            "s_nationkey": number(0, 5),
            "s_phone": f"{number(10, 34)}-1",
            "s_acctbal": money(100),
            "s_comment": pick(["fine", "the Customer has Complaints", "quick"]),
        }
        for n in range(1, 11)
    ]
    found["part"] = [
        {
            "p_partkey": n,
            "p_name": pick(["forest green", "green lace", "almond red", "forest blue"]),
            "p_mfgr": f"Manufacturer#{number(1, 2)}",
            "p_brand": pick(["Brand#12", "Brand#23", "Brand#34", "Brand#45"]),
            "p_type": pick(
                ["PROMO BRASS", "ECONOMY ANODIZED STEEL", "MEDIUM POLISHED TIN", "LARGE BRASS"]
            ),
            "p_size": pick([1, 5, 9, 15, 14, 23, 45]),
            "p_container": pick(["SM CASE", "MED BOX", "MED BAG", "LG CASE", "JUMBO PKG"]),
            "p_retailprice": money(900),
        }
        for n in range(1, 31)
    ]
    found["partsupp"] = [
        {
            "ps_partkey": part,
            "ps_suppkey": supplier,
            "ps_availqty": number(1, 100),
            "ps_supplycost": Decimal(number(100, 9900)) / 100,
        }
        for part in range(1, 31)
        for supplier in random.sample(range(1, 11), 4)
    ]
    found["customer"] = [
        {
            "c_custkey": n,
            "c_name": f"Customer#{n}",
            "c_address": f"a{n}",
            "c_nationkey": number(0, 5),
            "c_phone": f"{pick([13, 31, 23, 29, 30, 18, 17, 40])}-{n}",
            "c_acctbal": money(100),
            "c_mktsegment": pick(["BUILDING", "MACHINERY"]),
            "c_comment": "",
        }
        for n in range(1, customers + 1)
    ]
    found["orders"], found["lineitem"] = [], []
    for order in range(1, customers * 5 + 1):
        day = date(1992, 1, 1) + timedelta(days=number(0, 2400))
        found["orders"].append(
            {
                "o_orderkey": order,
                "o_custkey": number(1, customers * 2 // 3),
                "o_orderstatus": pick(["F", "O"]),
                "o_totalprice": Decimal(number(100000, 9900000)) / 100,
                "o_orderdate": day,
                "o_orderpriority": pick(["1-URGENT", "2-HIGH", "3-MEDIUM"]),
                "o_shippriority": 0,
                "o_comment": pick(["", "special packages requests", "plain"]),
            }
        )
        for line in range(1, number(2, 6)):
            shipped = day + timedelta(days=number(1, 100))
            supply = pick(found["partsupp"])
            found["lineitem"].append(
                {
                    "l_orderkey": order,
                    "l_linenumber": line,
                    "l_partkey": supply["ps_partkey"],
                    "l_suppkey": supply["ps_suppkey"],
                    "l_quantity": Decimal(number(1, 90)),
                    "l_extendedprice": Decimal(number(90000, 9000000)) / 100,
                    "l_discount": Decimal(number(0, 10)) / 100,
                    "l_tax": Decimal(number(0, 8)) / 100,
                    "l_returnflag": pick(["R", "A", "N"]),
                    "l_linestatus": pick(["F", "O"]),
                    "l_shipdate": shipped,
                    "l_commitdate": day + timedelta(days=number(30, 90)),
                    "l_receiptdate": shipped + timedelta(days=number(1, 30)),
                    "l_shipinstruct": pick(["DELIVER IN PERSON", "NONE"]),
                    "l_shipmode": pick(["MAIL", "SHIP", "AIR", "AIR REG"]),
                }
            )
    return found
