"""TPC-H's 22 queries as views, kept up to date while orders come and go.

    pip install '.[local,examples]'    # it needs DuckDB, and the generator of the rows
    python examples/04_tpch.py [--scale 0.01] [--store FOLDER] [--spark]

`tpchgen-cli` generates the rows. All queries are stages of one pipeline. After the first version
come TPC-H's refreshes: new orders with their lines (RF1), then old ones are deleted (RF2). TPC-H
changes nothing else, so a third refresh changes customers, suppliers, parts and their costs (RF3).
The last three versions take these changes back, one by one. The example needs no Spark; `--spark`
opens its store in a session.

After each version the example compares each view with what DuckDB computes from the same rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from flights_2013 import PLAIN, check_installed, program
from rich.console import Console
from rich.table import Table
from tpch import QUERIES, SCHEMAS, Answer, agree, generate, pipeline

import deltaproduce as dp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFRESHED: Final = 0.001
"""The share of the orders that a refresh adds or deletes."""
FEWEST: Final = 10
"""A refresh has at least so many orders."""
CHANGE_TYPE: Final = "_change_type"
IN_DUCKDB: Final = {
    **QUERIES,
    "q17": QUERIES["q17"].replace("avg(l_quantity)", "CAST(avg(l_quantity) AS DECIMAL(19, 6))"),
}
"""The query -> its text for DuckDB, where an average of decimals is a float.

With this, 27.00 is less than nine tenths of 30.
"""

Rows = dict[str, pa.Table]
"""The table -> its rows."""

warehouse = pipeline(QUERIES)


def generated(folder: Path, scale: float) -> Rows:
    """Return the rows of all tables, in the columns of the sources."""
    generate(folder, scale, program("tpchgen-cli") or "tpchgen-cli")
    found = {}
    for name in SCHEMAS:
        schema = warehouse.graph().stage(name).schema
        columns = [*schema.key.names, *schema.value.names]
        rows = pq.read_table(folder / f"{name}.parquet", columns=columns)
        text = [pa.string() if kind == pa.string_view() else kind for kind in rows.schema.types]
        found[name] = rows.cast(pa.schema(zip(rows.column_names, text, strict=True)))
    return found


def of_orders(rows: Rows, keys: pa.Array, *, without: bool = False) -> Rows:
    """Return some orders with their lines, or all others."""
    found = {}
    for name, column in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        marks = pc.is_in(rows[name].column(column), keys)
        found[name] = rows[name].filter(pc.invert(marks) if without else marks)
    return found


def deletes(rows: Rows) -> Rows:
    """Return the batch that deletes rows."""
    return {
        name: table.append_column(CHANGE_TYPE, pa.array(["delete"] * len(table)))
        for name, table in rows.items()
    }


def changed_others(rows: Rows) -> Rows:
    """Return rows of the other tables with other values: each hundredth, and at least one."""

    def some(name: str) -> pa.Table:
        return rows[name].take(pa.array(range(0, len(rows[name]), 100)))

    def replaced(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
        place = table.schema.get_field_index(column)
        field = table.schema.field(place)
        return table.set_column(place, field, values.cast(field.type))

    money = pa.scalar(Decimal("500.25"), pa.decimal128(15, 2))
    customers, suppliers = some("customer"), some("supplier")
    parts, costs = some("part"), some("partsupp")
    segments = pa.array(["BUILDING"] * len(customers))
    balances = pa.array([money.as_py()] * len(customers), money.type)
    nations = pc.if_else(pc.equal(suppliers["s_nationkey"], 7), 20, 7)
    return {
        "customer": replaced(replaced(customers, "c_mktsegment", segments), "c_acctbal", balances),
        "supplier": replaced(suppliers, "s_nationkey", nations),
        "part": replaced(parts, "p_size", pa.array([15] * len(parts))),
        "partsupp": replaced(costs, "ps_supplycost", pa.array([Decimal("1.00")] * len(costs))),
    }


def key_of(name: str) -> list[str]:
    """Return the names of a table's key columns."""
    return list(warehouse.graph().stage(name).schema.key.names)


def with_upserts(rows: Rows, batch: Mapping[str, pa.Table]) -> Rows:
    """Return the rows after upserts of whole rows."""
    found = dict(rows)
    for name, changes in batch.items():
        key = key_of(name)
        others = rows[name].join(changes.select(key), key, join_type="left anti")
        found[name] = pa.concat_tables([others.select(changes.column_names), changes])
    return found


def expected(rows: Rows) -> dict[str, tuple[list[str], Answer]]:
    """Return the columns and the rows that DuckDB computes for each query."""
    import duckdb

    found = {}
    with duckdb.connect() as connection:
        for name, table in rows.items():
            connection.register(name, table)
        for name, text in IN_DUCKDB.items():
            ran = connection.execute(text)
            found[name] = [column[0] for column in ran.description], ran.fetchall()
    return found


def kept(store: dp.Store, name: str, columns: list[str]) -> Answer:
    """Return the rows that the store has of a query."""
    content = store.content(name).select(columns)
    rows = content if isinstance(content, pa.Table) else content.toArrow()
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def differing(store: dp.Store, rows: Rows) -> list[str]:
    """Return the queries of which the store has other rows than DuckDB."""
    return [
        name
        for name, (columns, other) in expected(rows).items()
        if not agree(kept(store, name, columns), other)
    ]


def recomputed(store: dp.Store) -> dict[str, list[str]]:
    """Return the queries that run as a whole at each change -> the reasons."""
    found = {
        name: sorted({one.reason for one in store.explain(name).operators if one.reason})
        for name in QUERIES
    }
    return {name: reasons for name, reasons in found.items() if reasons}


def tables(store: dp.Store) -> dict[str, list[tuple[str, int]]]:
    """Return the hidden tables of each query: what they are for, and how many rows they have."""
    return {
        name: [
            (table["kind"], table["rows"])
            for one in store.explain(name).operators
            for table in one.tables
        ]
        for name in QUERIES
    }


def figures(store: dp.Store, names: Mapping[int, str]) -> Table:
    """Return a table of the queries, with the seconds that each version took for them."""
    table = Table("query", "rows", "hidden tables", **PLAIN)
    hidden = tables(store)
    for title in names.values():
        table.add_column(title, justify="right")
    versions = {version.number: version for version in store.versions()}
    for name in QUERIES:
        stages = [versions[number].stages.get(name) for number in names]
        seconds = ["" if stage is None else f"{stage.seconds:.3f}" for stage in stages]
        beside = ", ".join(f"{kind} {rows:,}" for kind, rows in hidden[name])
        table.add_row(name, f"{store.head.stages[name].rows:,}", beside, *seconds)
    table.add_row("all", "", "", *(f"{versions[number].seconds or 0:.2f}" for number in names))
    return table


def refreshes(rows: Rows) -> dict[str, tuple[Rows, Rows]]:
    """Return the versions, by name: the batch of each, and all rows after it."""
    keys = rows["orders"].column("o_orderkey").combine_chunks().sort()
    size = max(FEWEST, int(len(keys) * REFRESHED))
    new, old = of_orders(rows, keys[-size:]), of_orders(rows, keys[:size])
    first = {**rows, **of_orders(rows, keys[-size:], without=True)}
    later = {**rows, **of_orders(rows, keys[:size], without=True)}
    others = changed_others(rows)
    back = {
        name: rows[name].join(table.select(key_of(name)), key_of(name), join_type="left semi")
        for name, table in others.items()
    }
    return {
        "load": (first, first),
        "RF1": (new, rows),
        "RF2": (deletes(old), later),
        "RF3": (others, with_upserts(later, others)),
        "RF3 back": (back, later),
        "RF2 back": (old, rows),
        "RF1 back": (deletes(new), first),
    }


def run(
    location: Path,
    console: Console,
    steps: Mapping[str, tuple[Rows, Rows]],
    spark: SparkSession | None = None,
) -> bool:
    """Make the versions; return whether DuckDB computes the same rows at each of them."""
    wrong, names = list[str](), dict[int, str]()
    with dp.Store(spark, str(location), warehouse) as store:
        for name, (batch, now) in steps.items():
            names[store.update(batch).number] = name
            changes = ", ".join(f"{len(table):,} of {one}" for one, table in batch.items())
            console.print(f"{name}: {changes}", highlight=False, soft_wrap=True)
            wrong += [f"{one} at {name}" for one in differing(store, now)]
        console.print("\nseconds for each query, by version", highlight=False)
        console.print(figures(store, names))
        whole = recomputed(store)
        told = f"{len(QUERIES) - len(whole)} of {len(QUERIES)} queries follow changes"
        console.print(f"{told}, {'with' if spark else 'without'} a session.", highlight=False)
        for name, reasons in whole.items():
            told = f"{name} runs as a whole: {', '.join(reasons)}"
            console.print(told, highlight=False, soft_wrap=True)
    if wrong:
        console.print(f"What differs from DuckDB: {', '.join(wrong)}.")
    else:
        console.print(f"All {len(QUERIES)} queries equal DuckDB's at {len(steps)} versions.")
    return not wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(description="TPC-H's queries as views.")
    parser.add_argument("--scale", type=float, default=0.01, help="1 is 1 GB of rows")
    parser.add_argument("--store", type=Path, help="a folder for the store, which stays there")
    parser.add_argument("--spark", action="store_true", help="open the store with Spark")
    options = parser.parse_args(arguments)
    check_installed("duckdb", programs=["tpchgen-cli"])
    if options.spark:
        check_installed("pyspark", extra="spark")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        steps = refreshes(generated(Path(folder), options.scale))
        with dp.local_session() if options.spark else nullcontext() as spark:
            equal = run(options.store or Path(folder) / "store", Console(), steps, spark)
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
