"""Data sets: a rolling writer against plain pyarrow, and many processes that find one at once.

    python -m benchmarks.datasets [--rows 4000000] [--runs 5]

Both write the same rows into files of the same number of rows, with the same compression, on one
machine. The writer checks types and nulls, writes statistics, and commits; pyarrow does none of
that. Runs of the two alternate; medians are compared.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import deltaproduce as dp

SCHEMA = "id bigint NOT NULL, kind string, amount double, day date"
ROLL_ROWS = 500_000
BATCH_ROWS = 50_000
CALLERS = 500


def batches(rows: int) -> list[pa.Table]:
    """Return rows as they may arrive: in tables of some thousands."""
    random = np.random.default_rng(1)
    kinds = np.array(["page", "form", "click", "error"])
    return [
        pa.table(
            {
                "id": pa.array(np.arange(start, start + BATCH_ROWS)),
                "kind": pa.array(kinds[random.integers(0, 4, BATCH_ROWS)]),
                "amount": pa.array(random.random(BATCH_ROWS)),
                "day": pa.array(random.integers(20_000, 20_365, BATCH_ROWS), pa.int32()).cast(
                    pa.date32()
                ),
            }
        )
        for start in range(0, rows, BATCH_ROWS)
    ]


def by_writer(place: Path, given: list[pa.Table]) -> None:
    """Write with the writer, which is measured."""
    dataset = dp.Dataset.create(None, place, schema=SCHEMA)
    with dataset.writer(roll_rows=ROLL_ROWS) as writer:
        for table in given:
            writer.write(table)


def by_pyarrow(place: Path, given: list[pa.Table]) -> None:
    """Write the same files with plain pyarrow."""
    place.mkdir()
    for number, part in enumerate(rolled(given)):
        pq.write_table(part, place / f"{number}.parquet", compression="snappy")


def rows_by_writer(place: Path, given: list[tuple[object, ...]]) -> None:
    """Write rows one by one."""
    dataset = dp.Dataset.create(None, place, schema=SCHEMA)
    with dataset.writer(roll_rows=ROLL_ROWS) as writer:
        for row in given:
            writer.write(row)


def rows_by_pyarrow(place: Path, given: list[tuple[object, ...]]) -> None:
    """Write the same rows with plain pyarrow, which takes columns."""
    place.mkdir()
    kinds = pa.int64(), pa.string(), pa.float64(), pa.date32()
    for start in range(0, len(given), ROLL_ROWS):
        columns = zip(*given[start : start + ROLL_ROWS], strict=True)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
        part = pa.table(arrays, names=["id", "kind", "amount", "day"])
        pq.write_table(part, place / f"{start}.parquet", compression="snappy")


def rolled(given: list[pa.Table]) -> Iterator[pa.Table]:
    each = ROLL_ROWS // BATCH_ROWS
    for start in range(0, len(given), each):
        yield pa.concat_tables(given[start : start + each])


def seconds(run: Callable[[Path], None]) -> float:
    folder = Path(tempfile.mkdtemp(prefix="benchmark-"))
    try:
        start = time.perf_counter()
        run(folder / "d")
        return time.perf_counter() - start
    finally:
        shutil.rmtree(folder)


def find_at_once(place: Path) -> None:
    with ThreadPoolExecutor(CALLERS) as threads:
        list(
            threads.map(
                lambda _: dp.Dataset.find_or_create(None, place, schema=SCHEMA), range(CALLERS)
            )
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    tables = batches(given.rows)
    few = [row for table in tables[:10] for row in zip(*table.to_pydict().values(), strict=True)]
    pairs = {
        "tables": (lambda p: by_writer(p, tables), lambda p: by_pyarrow(p, tables), given.rows),
        "rows": (lambda p: rows_by_writer(p, few), lambda p: rows_by_pyarrow(p, few), len(few)),
    }
    found: dict[str, object] = {}
    for name, (ours, alone, rows) in pairs.items():
        runs = [(seconds(ours), seconds(alone)) for _ in range(given.runs + 1)][1:]
        mine, theirs = (median(times) for times in zip(*runs, strict=True))
        found[name] = {
            "rows": rows,
            "writer_rows_per_second": round(rows / mine),
            "pyarrow_rows_per_second": round(rows / theirs),
            "share": round(theirs / mine, 2),
        }
    found["seconds_of_500_find_or_create"] = round(seconds(find_at_once), 2)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
