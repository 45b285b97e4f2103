"""The texts of TPC-H's queries, with the values that its specification validates answers with.

The example's texts have values for small scales in four of them, so that these find some rows.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from examples.tpch import QUERIES

_FRACTION: Final = Decimal("0.0001")
_Q19: Final = """
    SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, part WHERE
    (p_partkey = l_partkey AND p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX',
    'SM PACK', 'SM PKG') AND l_quantity >= 1 AND l_quantity <= 1 + 10 AND p_size BETWEEN 1 AND 5
    AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON') OR
    (p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX',
    'MED PKG', 'MED PACK') AND l_quantity >= 10 AND l_quantity <= 10 + 10 AND p_size BETWEEN 1
    AND 10 AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON') OR
    (p_partkey = l_partkey AND p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX',
    'LG PACK', 'LG PKG') AND l_quantity >= 20 AND l_quantity <= 20 + 10 AND p_size BETWEEN 1 AND
    15 AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
"""


def queries(scale: float) -> dict[str, str]:
    """Return each query's text at a scale factor."""
    fraction = format(_FRACTION / Decimal(str(scale)), "f")
    return QUERIES | {
        "q11": _with("q11", "* 0.01 FROM", f"* {fraction} FROM"),
        "q17": _with("q17", "0.9 * avg", "0.2 * avg"),
        "q18": _with("q18", "> 200)", "> 300)"),
        "q19": _Q19,
    }


def _with(name: str, value: str, other: str) -> str:
    """Return a query's text with another value.

    Raises:
        ValueError: the text does not have the value once.
    """
    text = " ".join(QUERIES[name].split())
    if text.count(value) != 1:
        raise ValueError(f"query {name} has {value!r} {text.count(value)} times; expected it once")
    return text.replace(value, other)
