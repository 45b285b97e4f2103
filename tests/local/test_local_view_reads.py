"""What a small change of a view reads: of TPC-H's queries, and of each operator of docs/sql.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from test_local_tpch import deleted, tpch
from tpch_rows import rows

import deltaproduce as dp

SMALL_PARTS = dp.Limits(small_table_rows=0, group_rows=16, replaced_percent=900)
"""A look-up by keys reads some rows of a table, as it does of a large one."""
MOST = {
    "q01": (16, 0),
    "q02": (0, 300),  # what a supplier supplies is found by no key
    "q03": (16, 16),
    "q04": (16, 0),
    "q05": (96, 0),
    "q06": (0, 0),
    "q07": (128, 0),
    "q08": (160, 0),
    "q09": (256, 2700),  # lines of a part and a supplier are found by no key
    "q10": (16, 980),  # orders of a customer are found by no key
    "q11": (0, 32),
    "q12": (64, 0),
    "q13": (64, 0),
    "q14": (32, 0),
    "q15": (16, 16),
    "q16": (0, 16),
    "q17": (2400, 0),  # lines of a part are found by no key
    "q18": (200, 0),
    "q19": (16, 0),
    "q20": (16, 16),
    "q21": (16, 16),
    "q22": (32, 300),  # all customers have another average
}
"""Query -> how many rows it reads at most, with its hidden tables, for an order with its lines, and
for a row of another table. There are 750 orders, 2,317 lines, 150 customers, 120 of parts and
suppliers, 30 parts."""
DIMENSIONS = {
    "customer": "c_acctbal",
    "part": "p_retailprice",
    "supplier": "s_acctbal",
    "partsupp": "ps_supplycost",
}


def small_changes(
    data: Mapping[str, list[dict[str, Any]]], *, are_many: bool
) -> Iterator[tuple[int, dict[str, list[dict[str, Any]]]]]:
    """Changes, each with the place of its number in `MOST`."""
    for order in data["orders"][5 :: 83 if are_many else 250]:
        lines = [one for one in data["lineitem"] if one["l_orderkey"] == order["o_orderkey"]]
        yield (
            0,
            {
                "orders": deleted([order], "o_orderkey"),
                "lineitem": deleted(lines, "l_orderkey", "l_linenumber"),
            },
        )
        yield 0, {"orders": [order], "lineitem": lines}
    for name, column in DIMENSIONS.items():
        for row in data[name][3 : 11 if are_many else 4 : 4]:
            yield 1, {name: [{**row, column: row[column] + 1}]}


def test_a_small_change_reads_few_rows_for_each_query(tmp_path: Path, long_run: bool) -> None:
    """At most the numbers of `MOST`, and some of nearly all that is stated."""
    data, read = rows(Random(11), customers=150), {name: [0, 0] for name in MOST}
    location, pipeline = str(tmp_path / "store"), tpch()
    hidden = {
        name: [table["name"] for one in pipeline.explain(name).operators for table in one.tables]
        for name in MOST
    }
    with dp.Store(None, location, pipeline, policy="incremental", limits=SMALL_PARTS) as store:
        store.update(data)
        for place, change in small_changes(data, are_many=long_run):
            store.update(change)
            stages = store._opened.log.head().stages
            for name, known in read.items():
                assert stages[name].mode != "full"
                rows_read = sum(stages[one].rows_read for one in (name, *hidden[name]))
                known[place] = max(known[place], rows_read)
    for name, (of_order, of_other) in MOST.items():
        assert read[name][0] <= of_order, (name, read[name])
        assert read[name][1] <= of_other, (name, read[name])
    assert sum(map(sum, read.values())) > sum(map(sum, MOST.values())) / 2
