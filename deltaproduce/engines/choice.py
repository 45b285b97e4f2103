"""The choice of an engine: where rows are processed, and when they move.

The invariant: only this module decides it. Rows stay where they are: on the driver while all inputs
are there, else in Spark. A result of Spark moves to the driver if the limits allow it
(`Limits.is_local`) and, where Spark has other machines, if it is estimated to be sooner there
(`limits.placement`).
Without a session, rows are always on the driver. Rows on the driver that are too many for one core
or for its memory are processed in parts (`local.large`). Users' functions are called by `calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import pyarrow as pa

from deltaproduce.engines.engine import Engine, Rows
from deltaproduce.engines.local.engine import LocalEngine
from deltaproduce.engines.local.large import parting
from deltaproduce.engines.local.large.out_of_core import OutOfCoreEngine
from deltaproduce.engines.local.large.spilling import Spill
from deltaproduce.engines.local.large.threads import side_by_side
from deltaproduce.engines.spark.checkpoints import (
    checkpoint,
    checkpoint_in_files,
    checkpoint_of_few,
    estimated_bytes,
    of_one_attempt,
)
from deltaproduce.engines.spark.engine import SparkEngine
from deltaproduce.engines.spark.executors.costs import ClusterCosts
from deltaproduce.engines.spark.executors.python_workers import are_as_beside, has_other_machines
from deltaproduce.engines.spark.frames import fetched, mapped
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.engines.spark.sessions.remote import is_remote
from deltaproduce.errors import SessionError
from deltaproduce.model.limits import Limits
from deltaproduce.model.limits.machine import cores
from deltaproduce.model.limits.placement import Cluster, Estimate, Work, estimate
from deltaproduce.shown.phases import jobs_begin
from deltaproduce.times.zones import OF_UTC, known, zone_of_machine
from deltaproduce.types.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

_LOCAL: Final = LocalEngine()
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of one store.

    Attributes:
        session: the user's; None if there is none.
        limits: the sizes up to which rows are processed on the driver.
        zone: returns the time zone in which rows are computed; None for `zone_of_session`, or the
            machine's zone.
        costs: what a session with other machines costs; None if there are none.
        memo: what is made once for the store; see `once`.
    """

    session: SparkSession | None
    limits: Limits
    zone: Callable[[], str] | None = None
    costs: ClusterCosts | None = None
    memo: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def opened(session: SparkSession | None, limits: Limits) -> Engines:
        """Return the engines of a store that is opened with this session and these limits."""
        if session is None:
            return Engines(None, limits)
        has_others = has_other_machines(session)
        if has_others:
            limits = limits.of_cluster(is_remote=is_remote(session))
        if not are_as_beside(session):
            limits = replace(limits, local_parts=1)
        return Engines(session, limits, costs=ClusterCosts(session) if has_others else None)

    def is_local(
        self,
        rows: int,
        total_bytes: int,
        *,
        read_seconds: float = 0.0,
        in_spark: bool = False,
        on_driver: bool = False,
    ) -> bool:
        """Return whether the driver processes this many rows, perhaps part by part.

        The limits allow it, and if Spark has other machines, the driver is estimated to be done
        with them no later.

        Args:
            read_seconds: how long it takes to read them.
            in_spark: whether Spark has them.
            on_driver: whether the driver has them.
        """
        if not self.limits.is_local(rows, total_bytes):
            return False
        return self._is_soon_here(Work(rows, total_bytes, read_seconds, in_spark, on_driver))

    def reads_groups(self, keys: int, rows: int, read_seconds: float = 0.0) -> bool:
        """Return whether the driver reads row groups to look keys up: always, without Spark.

        Args:
            rows: how many rows the row groups have.
            read_seconds: how long the driver takes to read them.
        """
        if self.session is None:
            return True
        if rows > self.limits.seek_rows:
            return False
        return self._is_soon_here(Work(keys, 0, read_seconds))

    @property
    def cluster(self) -> Cluster | None:
        """What is known of the executors; None if they are no other machines."""
        return None if self.costs is None else self.costs.cluster()

    def last_estimate(self, rows: int, total_bytes: int) -> Estimate | None:
        """Return what this thread has estimated since the last call, for the most rows.

        Args:
            rows: the rows of the step, which were on the driver if nothing was in question.
            total_bytes: their bytes.

        Returns:
            None if Spark has no other machines.
        """
        if self.costs is None:
            return None
        work = Work(rows, total_bytes, on_driver=True)
        return self.costs.taken() or estimate(work, self.costs.cluster())

    def _is_soon_here(self, work: Work) -> bool:
        return self.costs is None or self.costs.is_on_driver(work)

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

    def in_thread(self, called: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        """Return a function for another thread to call, with this thread's session settings."""
        if self.session is None:
            return called
        from pyspark import inheritable_thread_target

        threaded: Callable[_Given, _Result] = inheritable_thread_target(self.session)(called)
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

    def once(
        self, name: Hashable, make: Callable[[], _Result], *, is_anew: bool = False
    ) -> _Result:
        """Return what a function made at an earlier call for this name, or else makes now.

        Args:
            make: what it makes depends on the name and the store's definitions alone.
            is_anew: whether it is called in any case.
        """
        if is_anew or name not in self.memo:
            self.memo[name] = make()
        result: _Result = self.memo[name]
        return result

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

    def reads_in_parts(self, rows: int, row_bytes: int, read_seconds: float = 0.0) -> bool:
        """Return whether the driver reads rows of files in parts, all cores at once, or Spark does.

        It holds a few parts at a time, however many rows there are. Spark has no more cores if its
        tasks run on this machine.
        """
        if self.session is None:
            return True
        work = Work(rows, rows * row_bytes, read_seconds)
        return self.limits.is_local(1, 1) and self._is_soon_here(work)

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
        results = side_by_side(lambda parts: function(*parts), ranges, threads)
        return parting.gathered(results, self.limits)

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

    def concat(self, one: Rows, other: Rows, columns: Sequence[Column]) -> Rows:
        """Return these columns of both."""
        both: Rows = self.of(one, other).concat([one, other], columns)
        return both

    def computed(
        self,
        rows: DataFrame,
        columns: Sequence[Column],
        counts: Mapping[str, Expression],
        *,
        in_order: bool = True,
    ) -> tuple[Rows, dict[str, int]]:
        """Compute rows once in Spark; return them on the driver if they are few, all in one job.

        With Spark Connect it takes more than one.

        Args:
            columns: the columns that rows on the driver have; rows in Spark keep all.
            counts: the aggregates to compute over the rows, at least ``rows`` and ``bytes``.
            in_order: whether the rows stay in their order; see `of_one_attempt`.
        """
        few = None
        if self._comes_in_files(rows):
            return checkpoint_in_files(rows, counts, columns, self._comes)
        rows = of_one_attempt(rows, in_order=in_order)
        if self.limits.is_local(1, 1) and not is_remote(self.spark):
            computed, figures, few = checkpoint_of_few(rows, counts, columns)
        else:
            computed, figures = checkpoint(rows, counts)
        if few is not None and self.limits.is_fetched(figures["rows"], figures["bytes"]):
            return few, figures
        return self.settled(computed, columns, figures["rows"], figures["bytes"]), figures

    def settled(
        self, computed: DataFrame, columns: Sequence[Column], rows: int, total_bytes: int
    ) -> Rows:
        """Return rows that Spark has computed, on the driver if they are few.

        They go through the driver's heap if they fit there, or else through files, if Spark's
        workers are on this machine.
        """
        if not self.is_local(rows, total_bytes, in_spark=True):
            return computed
        if self.limits.is_fetched(rows, total_bytes):
            return fetched(computed, columns)
        if self.limits.is_local(rows, total_bytes) and self._has_workers_here:
            return mapped(computed, columns)
        return computed

    def _comes(self, counts: Mapping[str, int]) -> bool:
        """Return whether rows with these counts come to the driver, if they are in files here."""
        return self.limits.is_local(counts["rows"], counts["bytes"])

    def _comes_in_files(self, rows: DataFrame) -> bool:
        """Return whether rows that Spark has yet to compute are likely to come in files."""
        if not self.limits.is_local(1, 1) or is_remote(self.spark):
            return False
        return self.limits.may_come_in_files(estimated_bytes(rows)) and self._has_workers_here

    @property
    def _has_workers_here(self) -> bool:
        """Whether Spark's tasks can write files that the driver reads, with this interpreter."""
        return not has_other_machines(self.spark) and are_as_beside(self.spark)


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
