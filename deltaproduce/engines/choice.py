"""The choice of an engine: where rows are processed, and when they move.

The invariant: only this module decides it. Rows stay where they are: on the driver while all inputs
are there, else in Spark. A result of Spark moves to the driver if it is small (`Limits.is_local`).
Without a session, rows are always on the driver. Rows on the driver that are too many for one core
or for its memory are processed in parts (`local.large`). A user's function runs where the rows are:
in worker processes on the driver, or in Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from deltaproduce.engines.engine import Engine, Rows
from deltaproduce.engines.failures import BatchFunction, in_worker
from deltaproduce.engines.local.arrays import empty, key_ends, whole_keys
from deltaproduce.engines.local.calls import Call, pickled
from deltaproduce.engines.local.engine import LocalEngine
from deltaproduce.engines.local.large import parting
from deltaproduce.engines.local.large.out_of_core import OutOfCoreEngine
from deltaproduce.engines.local.large.spilling import Spill
from deltaproduce.engines.local.workers import process_workers
from deltaproduce.engines.spark.checkpoints import (
    checkpoint,
    checkpoint_in_files,
    checkpoint_of_few,
    estimated_bytes,
)
from deltaproduce.engines.spark.engine import SparkEngine
from deltaproduce.engines.spark.frames import fetched, mapped
from deltaproduce.engines.spark.python_workers import (
    are_as_beside,
    as_in_spark,
    has_other_machines,
    held_by_spark,
)
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.engines.spark.sessions.remote import is_remote, parallelism
from deltaproduce.errors import SessionError
from deltaproduce.model.limits import Limits
from deltaproduce.model.machine import cores
from deltaproduce.shown.phases import jobs_begin
from deltaproduce.times.zones import OF_UTC, known, zone_of_machine
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_arrow_types

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

_LOCAL: Final = LocalEngine()
_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of one store.

    Attributes:
        session: the user's; None if there is none.
        limits: the sizes up to which rows are processed on the driver.
        zone: returns the time zone in which rows are computed; None for `zone_of_session`, or the
            machine's zone.
    """

    session: SparkSession | None
    limits: Limits
    zone: Callable[[], str] | None = None

    @staticmethod
    def opened(session: SparkSession | None, limits: Limits) -> Engines:
        """Return the engines of a store that is opened with this session and these limits."""
        if session is not None and has_other_machines(session):
            limits = limits.of_cluster()
        elif session is not None and not are_as_beside(session):
            limits = replace(limits, local_parts=1)
        return Engines(session, limits)

    @property
    def spark(self) -> SparkSession:
        """The user's session, for work in it: from now on, jobs of the operation are described.

        Raises:
            SessionError: there is none, so nothing can be done in Spark.
        """
        if self.session is None:
            raise needs_spark()
        jobs_begin()
        return self.session

    def in_thread(self, called: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
        """Return a function for another thread to call, with this thread's session settings."""
        if self.session is None:
            return called
        from pyspark import inheritable_thread_target

        threaded: Callable[_Given, _Made] = inheritable_thread_target(self.session)(called)
        return threaded

    @property
    def time_zone(self) -> str:
        """The time zone of all that depends on one, and of times given without a zone.

        It is the store's. Apart from stores it is the session's, or this machine's without a
        session.
        """
        if self.zone is not None:
            return self.zone()
        return self.zone_of_session() or zone_of_machine()

    def zone_of_session(self) -> str | None:
        """Return the time zone of the user's session; None without a session."""
        if self.session is None:
            return None
        named = self.session.conf.get("spark.sql.session.timeZone") or OF_UTC
        return known(named) or named

    def in_zone(self, zone: str) -> Engines:
        """Return the same engines, which compute in a time zone."""
        return replace(self, zone=lambda: zone)

    def of(self, *rows: Rows) -> Engine[Any]:
        """Return the engine that processes these rows together."""
        if not all(map(is_local, rows)):
            return self.distributed
        tables = [table for table in rows if isinstance(table, pa.Table)]
        if parting.are_many(sum(map(len, tables))) or not self.holds(*tables):
            return OutOfCoreEngine(self.limits)
        return _LOCAL

    def holds(self, *tables: pa.Table) -> bool:
        """Return whether a step holds these tables of the driver in memory, all at once.

        The size of whole buffers, which a table may have a part of, is known at once; that of the
        table alone takes longer than many a small step.
        """
        rows, whole = sum(map(len, tables)), sum(one.get_total_buffer_size() for one in tables)
        held = self.limits.is_held
        return held(rows, whole) or held(rows, sum(one.nbytes for one in tables))

    def spill(self) -> Spill:
        """Return a place for rows that come to the driver part by part."""
        return parting.spill_of(self.limits)

    def by_slices(
        self, rows: pa.Table, function: Callable[[pa.Table], pa.Table], *, threads: int = 1
    ) -> pa.Table:
        """Return the result of a function over rows on the driver that looks at each row alone.

        The function is called with parts of the rows that fit in memory.

        Args:
            threads: how many threads may call it, each with parts of its own.
        """
        if self._is_one([rows], threads):
            return function(rows)
        return parting.by_slices(rows, function, self.limits, threads)

    def reads_in_parts(self, rows: int, row_bytes: int) -> bool:
        """Return whether the driver reads rows of files in parts, all cores at once, or Spark does.

        It holds a few parts at a time, however many rows there are. Spark has no more cores if its
        tasks run on this machine.
        """
        if self.session is None or self.limits.is_local(rows, rows * row_bytes):
            return True
        return self.limits.is_local(1, 1) and not has_other_machines(self.session)

    def rows_of_part(self, rows: int, row_bytes: int) -> int:
        """Return how many rows of files each core reads at a time; see `reads_in_parts`."""
        return parting.rows_of_part(rows, rows * row_bytes, self.limits, cores())

    def by_ranges(
        self,
        tables: Sequence[pa.Table],
        key: Sequence[Column],
        function: Callable[..., pa.Table],
        *,
        names: Sequence[Sequence[str]] | None = None,
        threads: int = 1,
    ) -> pa.Table:
        """Return the result of a function over rows on the driver that needs all rows of a key.

        The function is called with key ranges that fit in memory, in key order.

        Args:
            names: the names of the key's columns in each table, if not those of ``key``.
            threads: how many threads may call it, each with ranges of its own.
        """
        if self._is_one(tables, threads):
            return function(*tables)
        ranges = parting.by_ranges(tables, key, self.limits, names, threads)
        made = parting.side_by_side(lambda parts: function(*parts), ranges, threads)
        return parting.gathered(made, self.limits)

    def _is_one(self, tables: Sequence[pa.Table], threads: int) -> bool:
        """Return whether tables are processed as they are, and not part by part."""
        is_one = threads == 1 or not parting.are_many(sum(map(len, tables)))
        return is_one and self.holds(*tables)

    def ranges(
        self,
        tables: Sequence[pa.Table],
        key: Sequence[Column],
        *,
        names: Sequence[Sequence[str]] | None = None,
    ) -> Iterator[tuple[pa.Table, ...]]:
        """Yield rows on the driver by key ranges that fit in memory, in key order.

        Args:
            names: see `by_ranges`.
        """
        if self.holds(*tables):
            return iter([tuple(tables)])
        return parting.by_ranges(tables, key, self.limits, names)

    @property
    def distributed(self) -> SparkEngine:
        """Spark, wherever the rows are."""
        return SparkEngine(self.spark, self.limits)

    def frame(self, rows: Rows, columns: Sequence[Column]) -> DataFrame:
        """Return the given columns of the rows as a Spark DataFrame, wherever the rows are."""
        return self.distributed.here(rows, columns)

    def table(self, rows: Rows, columns: Sequence[Column]) -> pa.Table:
        """Return the given columns of the rows as a table on the driver, wherever the rows are."""
        return fetched(rows, columns) if is_frame(rows) else _LOCAL.here(rows, columns)

    def united(self, one: Rows, other: Rows, columns: Sequence[Column]) -> Rows:
        """Return these columns of both."""
        found: Rows = self.of(one, other).united([one, other], columns)
        return found

    def computed(
        self,
        rows: DataFrame,
        columns: Sequence[Column],
        counts: Mapping[str, Expression],
    ) -> tuple[Rows, dict[str, int]]:
        """Compute rows once in Spark; return them on the driver if they are few, all in one job.

        With Spark Connect it takes more than one.

        Args:
            columns: the columns that rows on the driver have; rows in Spark keep all.
            counts: the aggregates to compute over the rows, at least ``rows`` and ``bytes``.
        """
        few = None
        if self._comes_in_files(rows):
            return checkpoint_in_files(rows, counts, columns, self._comes)
        if self.limits.is_local(1, 1) and not is_remote(self.spark):
            computed, found, few = checkpoint_of_few(rows, counts, columns)
        else:
            computed, found = checkpoint(rows, counts)
        if few is not None and self.limits.is_fetched(found["rows"], found["bytes"]):
            return few, found
        return self.settled(computed, columns, found["rows"], found["bytes"]), found

    def settled(
        self, computed: DataFrame, columns: Sequence[Column], rows: int, total_bytes: int
    ) -> Rows:
        """Return rows that Spark has computed, on the driver if they are few.

        They go through the driver's heap if they fit there, or else through files, if Spark's
        workers are on this machine.
        """
        if self.limits.is_fetched(rows, total_bytes):
            return fetched(computed, columns)
        if self.limits.is_local(rows, total_bytes) and self._has_workers_here:
            return mapped(computed, columns)
        return computed

    def _comes(self, found: Mapping[str, int]) -> bool:
        """Return whether rows with these counts come to the driver, if they are in files here."""
        return self.limits.is_local(found["rows"], found["bytes"])

    def _comes_in_files(self, rows: DataFrame) -> bool:
        """Return whether rows that Spark has yet to compute are likely to come in files."""
        if not self.limits.is_local(1, 1) or is_remote(self.spark):
            return False
        return self.limits.may_come_in_files(estimated_bytes(rows)) and self._has_workers_here

    @property
    def _has_workers_here(self) -> bool:
        """Whether Spark's tasks can write files that the driver reads, with this interpreter."""
        return not has_other_machines(self.spark) and are_as_beside(self.spark)

    def calls_beside(self, *rows: Rows) -> bool:
        """Return whether a function may run in workers on the driver, for these rows together."""
        if self.session is None:
            return all(map(is_local, rows))
        few = (
            isinstance(one, pa.Table) and self.limits.is_local(len(one), one.nbytes) for one in rows
        )
        return all(few) and are_as_beside(self.session)

    def expect_calls(self, module: str) -> None:
        """Have a worker start on the driver, as a function will soon be called; not for a session.

        Args:
            module: the module of this library that `made_beside` will get its function from.
        """
        if self.session is None:
            process_workers().expect(module)

    def made_beside(
        self,
        rows: pa.Table,
        key: Sequence[Column],
        run: BatchFunction,
        columns: Sequence[Column],
        *,
        stage: str,
    ) -> tuple[Rows, int] | None:
        """Run a function over rows in workers on the driver; return its rows and their number.

        Args:
            rows: rows for which `calls_beside` holds, at least one; equal keys are adjacent.
            key: workers may get different keys; without a key, one worker gets all rows.
            columns: the columns of the function's rows.
            stage: the function's stage.

        Returns:
            None if Spark has to call the function: it cannot be sent to a worker, returns more than
            the driver holds, or is so slow that a cluster finishes sooner. No rows computed here
            are kept then.

        Raises:
            ProducerError: the function failed.
        """
        function = pickled(in_worker(run), held_by_spark())
        if function is None:
            return None
        names = [c.name for c in key]
        parts = parting.slices(rows, self.limits)
        parts = whole_keys(parts, names) if key and not self.holds(rows) else iter([rows])
        spill = self.spill()
        for part in parts:
            made = self._called(part, names, function, columns, stage)
            if made is None:
                if self.session is None:
                    raise needs_spark()
                return None
            spill.add(made)
        found = spill.table()
        stays = self.session is None or self.limits.is_local(len(found), found.nbytes)
        return found if stays else self.frame(found, columns), len(found)

    def _called(
        self,
        rows: pa.Table,
        key: Sequence[str],
        function: bytes,
        columns: Sequence[Column],
        stage: str,
    ) -> pa.Table | None:
        """Return the rows that a function returns for its input; None if Spark has to call it."""
        call = Call(
            stage,
            function,
            as_in_spark(rows, self.time_zone),
            key_ends(rows.select(list(key))) if key else np.array([len(rows)]),
            self._most_workers,
            self.limits.held_bytes if self.session is not None else None,
            self._cores_elsewhere if key else 0,
        )
        made = call.made(process_workers())
        if made is None:
            return None
        return pa.concat_tables(in_arrow_types(part, columns) for part in made or [empty(columns)])

    @property
    def _cores_elsewhere(self) -> int:
        """The number of the session's cores on other machines."""
        if self.session is None or not has_other_machines(self.session):
            return 0
        return parallelism(self.session)

    @property
    def _most_workers(self) -> int:
        """The most processes that call a function: the number of the session's cores."""
        if self.session is None:
            return cores()
        return parallelism(self.session)


def needs_spark() -> SessionError:
    """Return the error of a store without a session that is asked for what only Spark does."""
    return SessionError(
        "this needs Spark, and the store was opened without a session: it is a query, a catalog, "
        "an operation that only Spark has, a change to a table with rows that are marked as "
        f"deleted, or a function that cannot be sent to a worker process; {OPEN_IN_SESSION}"
    )


OPEN_IN_SESSION: Final = "open it with Store(deltaproduce.local_session(), …)"
"""What to do about a store that lacks a session."""


def is_empty(rows: Rows) -> bool:
    """Return whether the rows are known to be empty."""
    return isinstance(rows, pa.Table) and not len(rows)


def is_local(rows: Rows) -> bool:
    """Return whether rows are on the driver."""
    return isinstance(rows, pa.Table)
