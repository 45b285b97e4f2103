"""``python -m benchmarks.postgres``: syncs to PostgreSQL, against ``COPY`` of the same rows.

Compares a first load of many rows, and a sync of some changed keys, with a ``COPY`` of the same
text into a table without an index. The benchmark starts its own server unless ``--to`` names one.
Each table is checked against the store by count and sums. The output is a Markdown table.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

import deltaproduce as dp
from benchmarks.runs import say
from deltaproduce.postgres.rendering import copy_text
from deltaproduce.sync import StageChanges

CHANGED = 1_000


def main(arguments: Sequence[str]) -> int:
    """Sync, time and check; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--to", help="a database in which table 'orders' may be made")
    given = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as folder,
        _address(given.to) as address,
        dp.Store(None, str(Path(folder, "store")), pipeline()) as store,
    ):
        right = [*_compared(store, address, given.rows)]
    return int(not all(right))


def pipeline() -> dp.Pipeline:
    """Return a pipeline with only a source: the cost of stages is not measured here."""
    made = dp.Pipeline("shop")
    value = "customer bigint, amount decimal(12,2), weight double, bought timestamp, note string"
    made.source("orders", key="id bigint", value=value)
    return made


def orders(ids: np.ndarray, number: int) -> pa.Table:
    """Return rows of some keys, which differ for each number."""
    micros = 1_700_000_000_000_000 + ids * 1_000_003 + number
    amounts = pa.array((ids * 7 + number) % 100_000)
    return pa.table(
        {
            "id": ids,
            "customer": (ids * 31) % 100_003,
            "amount": amounts.cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
            "weight": (ids + number) / 3,
            "bought": pa.array(micros, pa.timestamp("us", "UTC")),
            "note": pc.binary_join_element_wise("note of ", pc.cast(pa.array(ids), "string"), ""),
        }
    )


def _compared(store: dp.Store, address: str, rows: int) -> Iterator[bool]:
    say("| what | rows | sync s | store and text alone s | `COPY` alone s | right |")
    say("| --- | ---: | ---: | ---: | ---: | --- |")
    sync = dp.postgres.Sync(store, address)
    store.update({"orders": orders(np.arange(rows), 0)})
    position = None
    for what in ("first load", "changed keys", "nothing changed"):
        if what == "changed keys":
            ids = np.random.default_rng(1).choice(rows, CHANGED, replace=False)
            store.update({"orders": orders(np.sort(ids), 1)})
        changes = dp.sync.changes_since(store, position)
        (stage,) = changes.stages
        texts, alone = _timed(lambda stage=stage: [*_texts(stage)])
        copied = _copied(address, stage, texts)
        synced, seconds = _timed(sync.run)
        is_right = _is_right(store, address)
        sent = sum(text.count(b"\n") for text in texts)
        say(f"| {what} | {sent:,} | {seconds:.2f} | {alone:.2f} | {copied:.2f} | {is_right} |")
        position = changes.position
        yield is_right and synced.version == store.head.number


def _texts(stage: StageChanges) -> Iterator[bytes]:
    for batch in stage.batches():
        yield copy_text(batch, stage.columns, stage.key, stage=stage.stage)


def _copied(address: str, stage: StageChanges, texts: Sequence[bytes]) -> float:
    """Return the seconds of copying these texts, in a transaction that is committed."""
    with psycopg.connect(address) as connection:
        connection.execute(
            "CREATE TABLE alone (id bigint, customer bigint, amount numeric(12,2), "
            'weight double precision, bought timestamptz, note text COLLATE "C")'
        )
        started = perf_counter()
        with connection.cursor().copy("COPY alone FROM STDIN") as copy:
            for text in texts:
                copy.write(text)
        connection.commit()
        seconds = perf_counter() - started
        connection.execute("DROP TABLE alone")
    return seconds


def _is_right(store: dp.Store, address: str) -> bool:
    """Return whether a table has the store's rows: their number, and the sums of what changes."""
    with psycopg.connect(address) as connection:
        query = "SELECT count(*), sum(id), sum(amount), sum(weight::numeric) FROM orders"
        found = connection.execute(query).fetchone()
    rows = store.content("orders")
    expected = [len(rows), *(pc.sum(rows.column(c)).as_py() for c in ("id", "amount"))]
    weight = pc.sum(rows.column("weight")).as_py()
    return [*found[:3]] == expected and abs(float(found[3]) - weight) < 1e-6 * weight


def _timed(do: Callable[[], object]) -> tuple[object, float]:
    started = perf_counter()
    return do(), perf_counter() - started


@contextmanager
def _address(to: str | None) -> Iterator[str]:
    if to is not None:
        yield to
        return
    from tests.postgres.server import served  # needs the repository's root

    with served() as server:
        yield server.address()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
