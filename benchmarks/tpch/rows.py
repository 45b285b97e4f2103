"""The rows of TPC-H in a folder, and the changes of each step, as Parquet files.

`tpchgen-cli` generates the rows once. From these the batches of all steps are made, which touch
orders and their lines, and no order twice. The orders of TPC-H's refresh functions are adjacent, as
`dbgen -U` has them: new keys lie between old ones in a thousandth of the key's range. Those of
other steps are at random places. `Rows.now` has the rows after the steps taken so far. DuckDB
writes all files, so that memory stays small at any scale.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.runs import say
from examples.flights_2013 import program
from examples.tpch import SCHEMAS, generate

THREADS: Final = 2
SEED: Final = 46
_SLICE_ROWS: Final = 100_000
_CHANGED: Final = ("orders", "lineitem")
_MEMORY: Final = "4GB"


@dataclass(frozen=True, slots=True)
class Step:
    """A batch of changes of orders and their lines.

    Attributes:
        kind: ``load``, ``insert``, ``delete`` or ``update``.
        share: the share of the orders; they are `fewest` at least.
        are_adjacent: whether no other orders lie between them, but those of other such steps.
    """

    name: str
    kind: str
    share: float = 0.0
    fewest: int = 10
    are_adjacent: bool = False

    def size(self, orders: int) -> int:
        """Return how many orders it changes."""
        return max(self.fewest, int(orders * self.share))


LOAD: Final = Step("First load", "load")
REFRESH: Final = Step("RF1", "insert", 0.001, are_adjacent=True)
STEPS: Final = (
    Step("100 orders", "insert", fewest=100),
    REFRESH,
    Step("RF2", "delete", 0.001, are_adjacent=True),
    Step("100 more orders", "insert", fewest=100),
    Step("RF1 at random places", "insert", 0.001),
    Step("RF2 at random places", "delete", 0.001),
    Step("1 % changed", "update", 0.01),
    Step("10 % changed", "update", 0.1),
)

_OTHER_VALUES: Final = {
    "o_custkey": "o_custkey % (SELECT count(*) FROM customer) + 1",
    "o_totalprice": "o_totalprice + 100",
    "o_orderdate": "o_orderdate + 31",
    "o_orderpriority": "CASE o_orderpriority WHEN '1-URGENT' THEN '5-LOW' ELSE '1-URGENT' END",
    "l_quantity": "51 - l_quantity",
    "l_extendedprice": "l_extendedprice * 1.1",
    "l_discount": "0.10 - l_discount",
    "l_returnflag": "CASE l_returnflag WHEN 'R' THEN 'A' ELSE 'R' END",
    "l_shipdate": "l_shipdate + 31",
    "l_commitdate": "l_commitdate + 31",
    "l_receiptdate": "l_receiptdate + 45",
}
"""The columns that an update changes -> their new values."""

Files = Mapping[str, Path]
"""The table -> its file."""


def reader(file: Path) -> pa.RecordBatchReader:
    """Return the rows of a file, which are read in slices as they are needed."""
    opened = pq.ParquetFile(file)
    return pa.RecordBatchReader.from_batches(opened.schema_arrow, opened.iter_batches(_SLICE_ROWS))


def count(file: Path) -> int:
    """Return the number of rows of a file."""
    return int(pq.read_metadata(file).num_rows)


@contextmanager
def connected(files: Files, temporary: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open DuckDB with a view of each file."""
    with duckdb.connect(
        config={"threads": THREADS, "memory_limit": _MEMORY, "temp_directory": str(temporary)}
    ) as connection:
        for name, file in files.items():
            connection.execute(f"CREATE VIEW {name} AS FROM '{file}'")
        yield connection


class Rows:
    """The rows of a scale factor, in a folder."""

    def __init__(self, folder: Path, scale: float) -> None:
        self._folder, self._scale = folder, scale
        self.temporary = folder / "temporary"

    @property
    def now(self) -> Files:
        """The files of all rows after the steps taken so far."""
        return {name: self._folder / "now" / f"{name}.parquet" for name in SCHEMAS}

    def batch(self, step: Step) -> Files:
        """Return the files of a step's changes."""
        if step == LOAD:
            return self.now
        return {name: self._folder / step.name / f"{name}.parquet" for name in _CHANGED}

    def prepare(self) -> None:
        """Generate the rows unless they are there, and write all batches and the first rows."""
        source = self._generated()
        for name in ("now", *(step.name for step in STEPS)):
            shutil.rmtree(self._folder / name, ignore_errors=True)
            (self._folder / name).mkdir()
        orders = pq.read_table(source["orders"], columns=["o_orderkey"])["o_orderkey"].to_numpy()
        keys_of = _keys(np.sort(orders))
        with connected(source, self.temporary) as connection:
            held_back = list[pa.Table]()
            for step in STEPS:
                chosen = pa.table({"key": keys_of[step.name]})
                if step.kind == "insert":
                    held_back.append(chosen)
                connection.register("chosen", chosen)
                for name, file in self.batch(step).items():
                    join = f"SEMI JOIN chosen ON {_order_of(name)} = key"
                    columns = _columns(name, changed=step.kind == "update")
                    kind = ", 'delete' AS _change_type" if step.kind == "delete" else ""
                    _copy(connection, f"SELECT {columns}{kind} FROM {name} {join}", file)
            connection.register("chosen", pa.concat_tables(held_back))
            for name, file in self.now.items():
                join = f"ANTI JOIN chosen ON {_order_of(name)} = key" if name in _CHANGED else ""
                _copy(connection, f"SELECT {_columns(name)} FROM {name} {join}", file)

    def advance(self, step: Step) -> None:
        """Write the rows after a step."""
        batch = self.batch(step)
        for name in _CHANGED if step != LOAD else ():
            key = ", ".join(column.split()[0] for column in SCHEMAS[name][0].split(", "))
            query = f"SELECT {_columns(name)} FROM {name} ANTI JOIN '{batch[name]}' USING ({key})"
            if step.kind != "delete":
                query += f" UNION ALL SELECT {_columns(name)} FROM '{batch[name]}'"
            following = self.temporary / f"{name}.parquet"
            with connected(self.now, self.temporary) as connection:
                _copy(connection, query, following)
            following.replace(self.now[name])

    def _generated(self) -> Files:
        """Return the generated files, made before or now."""
        folder = self._folder / "generated"
        self.temporary.mkdir(parents=True, exist_ok=True)
        if not folder.exists():
            say(f"generating rows at scale factor {self._scale:g}")
            begun = self.temporary / "generated"
            shutil.rmtree(begun, ignore_errors=True)
            generate(begun, self._scale, program("tpchgen-cli") or "tpchgen-cli")
            begun.replace(folder)
        return {name: folder / f"{name}.parquet" for name in SCHEMAS}


def _keys(orders: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Return the orders of each step, given all in order; steps of adjacent ones take turns."""
    adjacent = [step for step in STEPS if step.are_adjacent]
    count = sum(step.size(len(orders)) for step in adjacent)
    shuffled = iter(np.random.default_rng(SEED).permutation(orders[count:]))
    return {
        step.name: orders[:count][adjacent.index(step) :: len(adjacent)]
        if step.are_adjacent
        else np.fromiter(shuffled, np.int64, step.size(len(orders)))
        for step in STEPS
    }


def _order_of(name: str) -> str:
    """Return the column of a changed table that has the key of the order."""
    return SCHEMAS[name][0].split()[0]


def _columns(name: str, *, changed: bool = False) -> str:
    """Return the columns of a table for a SELECT, in their types, perhaps with other values."""
    declared = _declared(name)
    return ", ".join(
        f"CAST({_OTHER_VALUES.get(one, one) if changed else one} AS {kind}) AS {one}"
        for one, kind in declared.items()
    )


def _declared(name: str) -> dict[str, str]:
    """Return the columns of a table and their types."""
    return dict(one.split(" ") for part in SCHEMAS[name] for one in part.split(", "))


def _copy(connection: duckdb.DuckDBPyConnection, query: str, file: Path) -> None:
    connection.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet)")
