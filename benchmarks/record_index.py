"""``python -m benchmarks.record_index``: upserts by a record index, beside what else one would do.

A table whose rows are in no order, and random keys of it that get other values. Beside the index:
Delta's ``MERGE`` by Spark, as it is written and with the keys as literals, and delta-rs's merge.
Each starts from a copy of the same table, is timed in turn, and is checked: the sum of a column
must be the same as the index's. Further: what the index takes to be built, beside one pass over
the table, and its bytes a record. What is printed is a Markdown table.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

import deltaproduce as dp
from benchmarks.runs import say

FILE_ROWS = 500_000
WAYS = ("index", "merge", "merge-in", "delta-rs")


def main(arguments: Sequence[str]) -> int:
    """Build, upsert, time and check; returns 1 if two ways do not agree."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record_index", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, nargs="*", default=[10, 1_000])
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--memory", default="4g", help="of Spark's driver")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made(place / "table", given.rows)
        building(place)
        sums: dict[tuple[int, int], set[int]] = {}
        for way in given.ways:
            for keys, number, seconds in upserts(place, way, given):
                sums.setdefault((keys, number), set()).add(total(place / way))
                if number == given.times:
                    say(f"| {way} | {keys:,} | {statistics.median(seconds[1:]):.2f} |")
    return int(any(len(found) > 1 for found in sums.values()))


def made(table: Path, rows: int) -> None:
    """A table of random order: each file has keys from everywhere."""
    ids = np.random.default_rng(1).permutation(rows)
    for first in range(0, rows, FILE_ROWS):
        write_deltalake(str(table), orders(ids[first : first + FILE_ROWS], 0), mode="append")


def orders(ids: np.ndarray, number: int) -> pa.Table:
    """Rows of some keys, others for each number."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "customer": pa.array(ids * 7_919 % 100_003 + number),
            "amount": pa.array((ids * 31 + number) % 100_000),
            "note": pc.binary_join_element_wise(
                "note", pa.array(ids % 1_000).cast(pa.string()), " "
            ),
        }
    )


def building(place: Path) -> None:
    """What an index takes to be built, and in bytes, beside reading the table once."""
    table = DeltaTable(str(place / "table"))
    start = perf_counter()
    read = sum(len(pq.read_table(uri)) for uri in table.file_uris())
    one_pass = perf_counter() - start
    index = dp.RecordIndex(None, str(place / "table"), "id", str(place / "built"))
    start = perf_counter()
    index.build()
    seconds = perf_counter() - start
    files = DeltaTable(str(place / "built")).get_add_actions().column("size_bytes").to_pylist()
    say(f"{read:,} rows in {len(table.file_uris())} files")
    say(f"build {seconds:.1f} s, one pass {one_pass:.1f} s, {sum(files) / read:.1f} bytes a record")
    say("| way | keys | seconds |\n| --- | --- | --- |")


def upserts(
    place: Path, way: str, given: argparse.Namespace
) -> Iterator[tuple[int, int, list[float]]]:
    """Upserts of random keys, the first of which is not counted."""
    table = place / way
    shutil.copytree(place / "table", table)
    upsert = WAY[way](place, table, given.memory)
    draw = np.random.default_rng(2)
    for keys in given.keys:
        seconds = list[float]()
        for number in range(given.times + 1):
            rows = orders(draw.choice(given.rows, keys, replace=False), number + 1)
            start = perf_counter()
            upsert(rows)
            seconds.append(perf_counter() - start)
            yield keys, number, seconds
    shutil.rmtree(table)


def by_index(place: Path, table: Path, memory: str) -> Callable[[pa.Table], object]:
    del place, memory
    index = dp.RecordIndex(None, str(table), "id", f"{table} index")
    index.build()
    return index.upsert


def by_merge(place: Path, table: Path, memory: str) -> Callable[[pa.Table], object]:
    return _merging(table, memory, literals=False)


def by_merge_in(place: Path, table: Path, memory: str) -> Callable[[pa.Table], object]:
    return _merging(table, memory, literals=True)


def _merging(table: Path, memory: str, *, literals: bool) -> Callable[[pa.Table], object]:
    spark = dp.local_session(config={"spark.driver.memory": memory})

    def upsert(rows: pa.Table) -> object:
        ids = ", ".join(map(str, rows.column("id").to_pylist()))
        more = f" AND t.id IN ({ids})" if literals else ""
        return spark.sql(
            f"MERGE INTO delta.`{table}` t USING {{rows}} s ON t.id = s.id{more} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            rows=spark.createDataFrame(rows),
        ).collect()

    return upsert


def by_delta_rs(place: Path, table: Path, memory: str) -> Callable[[pa.Table], object]:
    def upsert(rows: pa.Table) -> object:
        merge = DeltaTable(str(table)).merge(rows, "t.id = s.id", "s", "t")
        return merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return upsert


WAY = {
    "index": by_index,
    "merge": by_merge,
    "merge-in": by_merge_in,
    "delta-rs": by_delta_rs,
}


def total(table: Path) -> int:
    """What tells one content of a table from another one."""
    uris = DeltaTable(str(table)).file_uris()
    columns = (pq.read_table(uri, columns=["customer", "amount"]) for uri in uris)
    return sum(pc.sum(c).as_py() for found in columns for c in found.columns)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
