"""A pipeline with a stage of each kind, the history of its store, and the way it is kept.

``python kept.py`` makes the store with the current code and puts it next to this file: the tables
in ``store.zip``; in ``store.json`` the rows of every version, and the expected rows of the version
that was never finished. README.md says which code made the store.
"""

import datetime as dt
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import deltaproduce as dp

HERE = Path(__file__).parent
SCHEMA = "kept_others"
SALES = "customer string, amount decimal(9,2), day date, tags array<string>"


def kept() -> dp.Pipeline:
    """Sources that are given and one that is read in place; functions of rows and of tables."""
    pipeline = dp.Pipeline("kept")
    pipeline.source("web", key="id bigint", value=SALES)
    pipeline.source("till", key="id bigint", value=SALES)
    pipeline.source("names", key="customer string", value="name string")
    pipeline.delta_source("arrived", table=f"{SCHEMA}.arrived", key="id")
    _of_several(pipeline)
    _of_what_a_key_keeps(pipeline)
    query = (
        "SELECT customer, count(*) AS sales, max(day) AS latest FROM by_customer GROUP BY customer"
    )
    pipeline.sql("counted", query, key="customer")

    @pipeline.arrow_producer("arrived", key="place string", value="id bigint")
    def by_place(table: pa.Table) -> pa.Table:
        names = ["_source_id", "id", "place"]
        return pa.table([table["id"], table["id"], table["place"]], names)

    return pipeline


def _of_several(pipeline: dp.Pipeline) -> None:
    @pipeline.producer(
        dp.merge("web", "till"), key="customer string", value="amount decimal(9,2), day date"
    )
    def by_customer(id: int, sales: Iterator[Any]) -> Iterator[Any]:
        for sale in sales:
            yield sale.customer, (sale.amount, sale.day)

    @pipeline.producer("by_customer", "names", key="name string desc", value="total decimal(18,2)")
    def joined(customer: str, sales: Iterator[Any], names: Iterator[str]) -> Iterator[Any]:
        total = sum(sale.amount for sale in sales)
        for name in names:
            yield name, total


def _of_what_a_key_keeps(pipeline: dp.Pipeline) -> None:
    @pipeline.producer("web", key="customer string", value="id bigint, sale bigint", surrogate="id")
    def numbered(sale: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield value.customer, (None, sale)

    def keep(value: dt.date, example: dt.date | None) -> dt.date:
        return value if example is None else example

    @pipeline.producer("web", key="customer string", value="day date", preserve=keep)
    def first_seen(sale: int, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield value.customer, value.day


def sale(
    id: int, customer: str | None, amount: str | None = "1.00", day: int = 1
) -> dict[str, Any]:
    """A sale; without a customer the deletion of one."""
    if customer is None:
        nothing = dict.fromkeys(("customer", "amount", "day", "tags"))
        return {"id": id, **nothing, "_change_type": "delete"}
    return {
        "id": id,
        "customer": customer,
        "amount": amount and Decimal(amount),
        "day": dt.date(2026, 1, day),
        "tags": [customer, None][: id % 3],
        "_change_type": "upsert",
    }


Batch = dict[str, list[dict[str, Any]]]

NAMES = {"a": "Ann", "b": "Bob", "c": "Cy", "d": "Ann"}

UPDATES: Sequence[tuple[str | None, Batch]] = [
    (
        "first",
        {
            "web": [sale(n, "abc"[n % 3], f"{n}.50", 1 + n) for n in range(12)],
            "till": [sale(n, "bcd"[n % 3], f"{n}.25", 20 - n) for n in range(5, 9)],
            "names": [{"customer": c, "name": n} for c, n in NAMES.items()],
        },
    ),
    ("second", {"web": [sale(1, "a", "99.99", 3), sale(2, None), sale(20, "e", "7.00", 9)]}),
    (None, {"till": [sale(6, "d", "0.01", 2)], "names": [{"customer": "e", "name": "Eve"}]}),
    (
        "fourth",
        {"web": [sale(3, "b", "3.33", 4), sale(4, None)], "till": [sale(5, None), sale(9, "c")]},
    ),
    ("fifth", {"web": [sale(5, "f", "5.55", 5), sale(20, None)]}),
]
UNFINISHED: tuple[str, Batch] = (
    "unfinished",
    {"web": [sale(7, "g", "7.77", 7), sale(30, "a")], "names": [{"customer": "g", "name": "Gus"}]},
)
ARRIVED = ["(1, 'x'), (2, 'y'), (2, 'x')", "(3, 'z')"]
"""What is in the table of others at first, and what comes to it before the third version."""

TABLES = ("content", "key_mappings", "updates")

Rows = list[list[Any]]


def rows_of(rows: Iterable[Sequence[Any]]) -> Rows:
    """Rows as JSON has them."""
    return json.loads(json.dumps([[*row] for row in rows], default=str))


def contents(store: dp.Store, pipeline: dp.Pipeline, version: int) -> dict[str, Rows]:
    """All tables of a version, by stage and kind."""
    return {
        f"{stage.name}/{table}": rows_of(
            getattr(store, table)(stage, version, ordered=True).collect()
        )
        for stage in pipeline.stages
        for table in TABLES
        if stage.feeders or table != "key_mappings"
    }


def register(spark: SparkSession, folder: Path) -> None:
    """Have the table of others, of a folder, in the session's catalog."""
    spark.sql(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    spark.sql(f"CREATE SCHEMA {SCHEMA}")
    place = folder / "arrived"
    columns = "" if place.exists() else "(id bigint, place string)"
    spark.sql(f"CREATE TABLE {SCHEMA}.arrived {columns} USING delta LOCATION '{place}'")


def arrive(spark: SparkSession, rows: str) -> None:
    spark.sql(
        f"INSERT INTO {SCHEMA}.arrived SELECT CAST(a AS bigint), b FROM VALUES {rows} AS t(a, b)"
    )


def made(spark: SparkSession, folder: Path, die: Callable[[dp.Store], object]) -> dict[str, Any]:
    """Make the store in a folder; returns what its versions hold, by number.

    Args:
        die: does the update that is not finished, up to where its version would be published.
    """
    register(spark, folder)
    arrive(spark, ARRIVED[0])
    place, pipeline = str(folder / "store"), kept()
    replaced = dp.Store(spark, place, pipeline, table_type="copy_on_write")
    for update_id, batch in UPDATES[:2]:
        replaced.update(batch, update_id)
    arrive(spark, ARRIVED[1])
    replaced.update(UPDATES[2][1])
    runs = dp.Store(spark, place, pipeline)
    for update_id, batch in UPDATES[3:]:
        runs.update(batch, update_id)
    runs.rollback(4)
    runs.vacuum(keep_versions=5, unfinished_hours=0)  # the first one goes
    die(runs)
    store = dp.Store(spark, place, pipeline)
    found = {str(v.number): contents(store, pipeline, v.number) for v in store.versions()}
    return {"update_ids": store.update_ids(), "versions": found}


def main() -> None:
    from deltaproduce import failpoints, limits

    limits.SMALL_TABLE_ROWS = 0  # else all tables would be written whole

    class DiedError(BaseException):
        pass

    def crash(when: str, name: str, table: str) -> None:
        if (when, name) == ("before", "publish"):
            raise DiedError

    def die(store: dp.Store) -> None:
        try:
            with failpoints.armed(crash):
                store.update(UNFINISHED[1], UNFINISHED[0])
        except DiedError:
            return
        raise AssertionError("it was finished")

    quick = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    spark = dp.local_session("keeping", cores=2, memory="2g", config=quick)
    with tempfile.TemporaryDirectory() as made_in, tempfile.TemporaryDirectory() as finished_in:
        folder = Path(made_in)
        expected = made(spark, folder, die)
        finished = Path(shutil.copytree(folder, finished_in, dirs_exist_ok=True))
        store = dp.Store(spark, str(finished / "store"), kept())
        version = store.update(UNFINISHED[1], UNFINISHED[0])
        expected["finished"] = contents(store, kept(), version.number)
        with zipfile.ZipFile(
            HERE / "store.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9
        ) as kept_in:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.suffix != ".crc":  # Hadoop and Delta do without
                    kept_in.write(path, path.relative_to(folder))
    (HERE / "store.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    spark.stop()


if __name__ == "__main__":
    sys.exit(main())
