"""``python -m benchmarks.record_index``: a record index, against the alternatives.

A table by day, with keys in no order. Three things are measured. Building: its time against one
pass over the table, and the index's bytes for each record. Look-ups of the files of keys: by the
index, by a join in Spark, and by DuckDB over the files. Upserts of rows of random keys, and of as
many keys of one day: by the index, by delta-rs's merge, and by Delta's ``MERGE`` in Spark, as it is
written and with the keys as literals. Each way of upserting starts from a copy of the same table,
in turn. Everything is checked: the files of keys, and sums over the table after the last upsert,
must be the same. The last output is Markdown.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import deltaproduce as dp
from benchmarks.runs import say
from benchmarks.tables import MIB, NO_FIGURE, table

DAY_ROWS: Final = 500_000
SOUGHT: Final = (10, 1_000, 100_000, 1_000_000)
CASES: Final = ("random", "one day")

Ids = NDArray[np.int64]
Upsert = Callable[[pa.Table], object]
Look = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class Figure:
    """The figures of a way after its first call, and its checked results.

    Attributes:
        seconds: the median.
        busy: the median of this process's processor seconds; None for work of Spark.
        removed, added: files of the last commit.
        written: bytes of the added files.
    """

    seconds: float
    busy: float | None
    result: object
    removed: int = 0
    added: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class Field:
    """The table and the place of a measurement.

    Attributes:
        days: the keys of each day.
    """

    work: Path
    days: Sequence[Ids]
    spark: SparkSession | None
    times: int

    @property
    def table(self) -> Path:
        """The table as it was first written."""
        return self.work / "table"

    def drawn(self, keys: int, case: str, number: int) -> Ids:
        """Draw some keys, which differ for each number."""
        draw = np.random.default_rng([keys, number, len(case)])
        every = self.days[number % len(self.days)] if case == "one day" else np.arange(self.rows)
        return draw.choice(every, min(keys, len(every)), replace=False)

    @property
    def rows(self) -> int:
        """The number of rows of the table."""
        return sum(map(len, self.days))


class Times:
    """The times of several calls: seconds, and processor seconds of this process."""

    def __init__(self) -> None:
        self._wall, self._busy = list[float](), list[float]()

    def of(self, call: Callable[[pa.Table], Any], given: pa.Table) -> Any:  # noqa: ANN401
        """Call and measure."""
        wall, busy = perf_counter(), process_time()
        found = call(given)
        self._wall.append(perf_counter() - wall)
        self._busy.append(process_time() - busy)
        return found

    def medians(self, *, busy: bool) -> tuple[float, float | None]:
        """Return the medians of all calls but the first."""
        of_busy = statistics.median(self._busy[1:]) if busy else None
        return statistics.median(self._wall[1:]), of_busy


def main(arguments: Sequence[str]) -> int:
    """Build, look up, upsert, time and check; return 1 if two ways do not agree."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record_index", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--day-rows", type=int, default=DAY_ROWS, help="in a file")
    parser.add_argument("--keys", type=int, default=1_000, help="of an upsert")
    parser.add_argument("--ways", nargs="*", choices=UPSERTS, default=list(UPSERTS))
    parser.add_argument("--times", type=int, default=2, help="measured, after the first")
    parser.add_argument("--memory", default="8g", help="of Spark's driver")
    parser.add_argument("--directory", help="where to work; a temporary one if none")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.directory) as work:
        needs = {"MERGE", "MERGE, literal IN"} & {*given.ways}
        spark = dp.local_session(memory=given.memory) if needs else None
        field = Field(Path(work), days(given.rows, given.day_rows), spark, given.times)
        make(field)
        lines = [f"## {given.rows:,} rows", "", *building(field)]
        places = dict(looked_up(field))
        changes = dict(upserted(field, given.ways, given.keys))
        lines += [*seconds_of_look_ups(places), *seconds_of_upserts(changes, given.keys)]
        say("\n".join(["", *lines]))
    return int(not (agree(places) and agree(changes)))


def days(rows: int, day_rows: int) -> list[Ids]:
    """Return the keys of each day, from everywhere."""
    ids = np.random.default_rng(1).permutation(rows)
    return [ids[first : first + day_rows] for first in range(0, rows, day_rows)]


def orders(ids: Ids, day: int | Ids, number: int) -> pa.Table:
    """Return rows of some keys, which differ for each number."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": pa.array(np.broadcast_to(day, len(ids)), pa.int32()),
            "customer": pa.array(ids * 7_919 % 100_003 + number),
            "amount": pa.array((ids * 31 + number) % 100_000),
            "note": pc.binary_join_element_wise(
                "note", pa.array(ids % 1_000).cast(pa.string()), " "
            ),
        }
    )


def make(field: Field) -> None:
    """Write the table: a file for each day."""
    for day, ids in enumerate(field.days):
        rows = orders(ids, day, 0)
        write_deltalake(str(field.table), rows, mode="append", partition_by=["day"])


def building(field: Field) -> list[str]:
    """Measure building an index, and its bytes, against reading the table once."""
    uris = DeltaTable(str(field.table)).file_uris()
    wall, cpu = perf_counter(), process_time()
    for uri in uris:
        pq.read_table(uri, partitioning=None)
    one_pass = perf_counter() - wall, process_time() - cpu
    wall, cpu = perf_counter(), process_time()
    index_of(field.table).build()
    built = perf_counter() - wall, process_time() - cpu
    actions = pa.table(DeltaTable(str(place_of(field.table))).get_add_actions())
    size = pc.sum(actions.column("size_bytes")).as_py()
    say(f"{field.rows:,} rows in {len(uris)} files; built in {built[0]:.1f} s")
    rows = [
        ["one pass over the table", *(f"{figure:.1f}" for figure in one_pass), NO_FIGURE],
        ["build", *(f"{figure:.1f}" for figure in built), f"{size / field.rows:.1f}"],
    ]
    return table(["", "seconds", "processor seconds", "bytes a record"], rows)


def place_of(at: Path) -> Path:
    """Return the path of a table's index."""
    return at.with_name(f"{at.name}-index")


def index_of(at: Path) -> dp.RecordIndex:
    """Return the index of a table."""
    return dp.RecordIndex(None, str(at), "id", str(place_of(at)))


def looked_up(field: Field) -> Iterator[tuple[tuple[str, str], Figure]]:
    """Yield the figures of finding the files of more and more keys, way by way."""
    for count in SOUGHT:
        if count > field.rows:
            continue
        for name, way in looks(field).items():
            times = Times()
            for number in range(field.times + 1):
                found = times.of(way, pa.table({"id": field.drawn(count, "random", number)}))
            names = pc.replace_substring_regex(found.column("file"), "^.*/", "")
            ordered = pa.table({"id": found.column("id"), "file": names}).sort_by("id")
            told = "\n".join(ordered.column("file").to_pylist()).encode()
            result = len(ordered), pc.sum(ordered.column("id")).as_py(), sha256(told).hexdigest()
            figure = Figure(*times.medians(busy="Spark" not in name), result)
            yield (name, f"{count:,}"), figure
            say(f"{count:,} keys looked up: {name}: {figure.seconds:.3f} s")


def looks(field: Field) -> Mapping[str, Look]:
    """Return each way to find the files of keys: columns ``id`` and ``file``."""
    index, at = index_of(field.table), str(field.table)
    files = ", ".join(f"'{uri}'" for uri in DeltaTable(at).file_uris())

    def by_index(keys: pa.Table) -> pa.Table:
        found = index.lookup(keys)
        return pa.table({"id": found.column("id"), "file": found.column("_file")})

    def by_spark(keys: pa.Table) -> pa.Table:
        assert field.spark is not None
        wanted = f.broadcast(field.spark.createDataFrame(keys))
        rows = field.spark.read.format("delta").load(at).select("id", "_metadata.file_path")
        return rows.join(wanted, "id").toArrow().rename_columns(["id", "file"])

    def by_duckdb(keys: pa.Table) -> pa.Table:
        with duckdb.connect() as connection:
            connection.register("keys", keys)
            rows = f"SELECT id, filename AS file FROM read_parquet([{files}])"
            query = f"{rows} SEMI JOIN keys USING (id)"
            return connection.sql(query).to_arrow_table()

    found: dict[str, Look] = {"index": by_index, "DuckDB over the files": by_duckdb}
    return found if field.spark is None else {**found, "join in Spark": by_spark}


def upserted(
    field: Field, ways: Sequence[str], keys: int
) -> Iterator[tuple[tuple[str, str], Figure]]:
    """Yield upserts of each case, way by way; the first one does not count."""
    day_of = np.zeros(field.rows, np.int32)
    for day, ids in enumerate(field.days):
        day_of[ids] = day
    for way in ways:
        at = field.work / f"of-{way.replace(', ', '-').replace(' ', '-')}"
        shutil.copytree(field.table, at)
        upsert = UPSERTS[way](field, at)
        for case in CASES:
            times = Times()
            for number in range(field.times + 1):
                ids = field.drawn(keys, case, number)
                times.of(upsert, orders(ids, day_of[ids], number + 1))
            figure = Figure(*times.medians(busy="MERGE" not in way), sums(at), *last_commit(at))
            say(f"{keys:,} keys, {case}: {way}: {figure.seconds:.2f} s")
            yield (way, case), figure
        shutil.rmtree(at)


def by_index(field: Field, at: Path) -> Upsert:
    del field
    index = index_of(at)
    index.build()
    return index.upsert


def by_merge(field: Field, at: Path) -> Upsert:
    return _merging(field, at, literals=False)


def by_merge_in(field: Field, at: Path) -> Upsert:
    return _merging(field, at, literals=True)


def _merging(field: Field, at: Path, *, literals: bool) -> Upsert:
    def upsert(rows: pa.Table) -> object:
        assert field.spark is not None
        ids = ", ".join(map(str, rows.column("id").to_pylist()))
        more = f" AND t.id IN ({ids})" if literals else ""
        return field.spark.sql(
            f"MERGE INTO delta.`{at}` t USING {{rows}} s ON t.id = s.id{more} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            rows=field.spark.createDataFrame(rows),
        ).collect()

    return upsert


def by_delta_rs(field: Field, at: Path) -> Upsert:
    del field

    def upsert(rows: pa.Table) -> object:
        merge = DeltaTable(str(at)).merge(rows, "t.id = s.id", "s", "t")
        return merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return upsert


UPSERTS: Final[Mapping[str, Callable[[Field, Path], Upsert]]] = {
    "index": by_index,
    "delta-rs": by_delta_rs,
    "MERGE": by_merge,
    "MERGE, literal IN": by_merge_in,
}


def sums(at: Path) -> object:
    """Return sums that distinguish the contents of a table."""
    uris = DeltaTable(str(at)).file_uris()
    columns = (pq.read_table(uri, columns=["id", "customer"], partitioning=None) for uri in uris)
    found = [(len(c), pc.sum(c[1]).as_py(), _product(c)) for c in columns]
    return tuple(map(sum, zip(*found, strict=True)))


def _product(columns: pa.Table) -> int:
    one, other = (np.asarray(column, np.int64) for column in columns.columns)
    return int((one % 9_973 * other).sum())


def last_commit(at: Path) -> tuple[int, int, int]:
    """Return the number of files that it removed and added, and the bytes of the added ones."""
    version = DeltaTable(str(at)).version()
    text = (at / "_delta_log" / f"{version:020}.json").read_text()
    actions: list[Mapping[str, Any]] = [json.loads(line) for line in text.splitlines()]
    adds = [action["add"]["size"] for action in actions if "add" in action]
    return sum("remove" in action for action in actions), len(adds), sum(adds)


def agree(found: Mapping[tuple[str, str], Figure]) -> bool:
    """Return whether all ways of each case have the same result."""
    by_case: dict[str, set[object]] = {}
    for (_, case), figure in found.items():
        by_case.setdefault(case, set()).add(figure.result)
    wrong = [case for case, results in by_case.items() if len(results) > 1]
    if wrong:
        say(f"NOT THE SAME: {', '.join(wrong)}")
    return not wrong


def seconds_of_look_ups(found: Mapping[tuple[str, str], Figure]) -> list[str]:
    """Return a row for each way."""
    ways, counts = (list(dict.fromkeys(pair[n] for pair in found)) for n in (0, 1))
    rows = [
        [f"{way}{which}", *(shown(getattr(found[way, count], name), 3) for count in counts)]
        for name, which in (("seconds", ""), ("busy", ", processor"))
        for way in ways
        if getattr(found[way, counts[0]], name) is not None
    ]
    return table(["seconds, by keys looked up", *counts], rows)


def shown(figure: float | None, digits: int) -> str:
    return NO_FIGURE if figure is None else f"{figure:.{digits}f}"


def seconds_of_upserts(found: Mapping[tuple[str, str], Figure], keys: int) -> list[str]:
    """Return a row for each case and way: seconds, and their ratio to the index's."""
    rows = []
    for (way, case), figure in found.items():
        own = found.get(("index", case))
        ratio = NO_FIGURE if own is None else f"{figure.seconds / own.seconds:.1f}"
        files = f"{figure.removed:,}", f"{figure.added:,}", f"{figure.written / MIB:.1f}"
        rows.append([case, way, f"{figure.seconds:.2f}", ratio, shown(figure.busy, 2), *files])
    figures = ["seconds", "x", "processor", "files removed", "added", "MiB written"]
    header = [f"{keys:,} keys", "by", *figures]
    return table(header, sorted(rows, key=lambda row: CASES.index(row[0])), texts=2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
