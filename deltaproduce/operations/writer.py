"""The writer: an opened store, as publishing operations use it.

It opens a store, and retries operations that conflict with other writers. The invariant: the
arguments of a call are checked before anything is read or written, and a closed store publishes
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, get_args

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.spark.executors.lost_rows import persistent
from deltaproduce.engines.spark.sessions.descriptions import describing
from deltaproduce.engines.spark.sessions.session import check_session
from deltaproduce.errors import (
    ConflictError,
    InvalidArgumentError,
)
from deltaproduce.model import arguments
from deltaproduce.model.graph import Stage
from deltaproduce.operations.analysis import analysed
from deltaproduce.operations.computing import StoreSessions
from deltaproduce.operations.executor import Executor
from deltaproduce.operations.making.options import OnConflict, StoreOptions
from deltaproduce.operations.step.plan import check_policy
from deltaproduce.operations.views import Views
from deltaproduce.pipeline import Pipeline
from deltaproduce.reading.opened import Opened
from deltaproduce.reading.readers import StageReader
from deltaproduce.reading.store_zone import StoreZone
from deltaproduce.shown.live import live
from deltaproduce.shown.phases import Listener, Watch, watching
from deltaproduce.storage.opening.places import tables_at
from deltaproduce.storage.version_log import VersionLog
from deltaproduce.types.excerpts import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RETRYING: Final = Retrying(
    retry=retry_if_exception_type(ConflictError),
    wait=wait_random_exponential(multiplier=0.1, max=10),
    stop=stop_after_attempt(20),
    reraise=True,
)
_Outcome = TypeVar("_Outcome")


@dataclass(frozen=True, slots=True)
class Writer:
    """An opened store, with the executors of its operations.

    Attributes:
        opened: the store in the user's session.
        computing: the store in the session that has its time zone.
        options: how the store was opened.
        listeners: receive the progress of an operation.
        views: the views that show the head, if there are any.
    """

    opened: Opened
    computing: StoreSessions
    options: StoreOptions
    listeners: tuple[Listener, ...] = ()
    views: Views | None = None

    def published(
        self,
        operation: str,
        attempt: Callable[[], _Outcome],
        on_conflict: OnConflict | None = None,
    ) -> _Outcome:
        """Return what an attempt publishes; retry after a lost executor, or a conflict if wanted.

        Args:
            operation: the name of the operation, for the listeners.

        Raises:
            ClosedError: the store was closed.
            ViewError: the version is published, but a view could not be brought to the head.
        """
        wanted = self.options.on_conflict if on_conflict is None else on_conflict
        arguments.choice(wanted, "on_conflict", get_args(OnConflict))
        self.computing.check_open()
        session = self.opened.engines.session
        described = None if session is None else partial(describing, session)
        watch = Watch(operation, self.listeners, described)
        with watching(watch), self.opened.noticing(), self.computing.keeping_active():
            whole = attempt if wanted == "raise" else partial(_RETRYING.copy(), attempt)
            version = persistent(whole)
        if self.views is not None:
            self.views.follow()
        return version

    @property
    def executor(self) -> Executor:
        """The executor in the session that has the store's time zone, as of the last read head."""
        return self.computing.now()[1]

    def view(self, stage: str | Stage, version: int) -> str:
        """Create a view of a stage at a version; see `Store.create_view`."""
        if self.views is None:
            raise InvalidArgumentError(
                "this store keeps no views: open it with the schema that they are to be in, "
                "Store(…, views='analytics')",
                argument="views",
            )
        self.computing.check_open()
        with self.opened.noticing():
            return self.views.create(stage, version)

    def compact(self) -> None:
        """Compact all tables now; see `Store.compact`."""
        self.computing.check_open()
        with self.opened.noticing():
            self.executor.compact(self.opened.log.head())


def defining(spark: object, location: object, pipeline: object) -> Pipeline:
    """Return the pipeline of a store, if its arguments come in their order.

    Raises:
        InvalidArgumentError: they do not, or it is none.
    """
    if isinstance(spark, str | os.PathLike) or isinstance(location, Pipeline):
        place = shown(spark if isinstance(spark, str | os.PathLike) else "lake/shop")
        raise InvalidArgumentError(
            f"the session comes first: Store(None, {place}, pipeline) without Spark, or "
            f"Store(deltaproduce.local_session(), {place}, pipeline)",
            argument="spark",
        )
    if not isinstance(pipeline, Pipeline):
        message = f"pipeline is a {type(pipeline).__name__}; give the Pipeline"
        raise InvalidArgumentError(message, argument="pipeline")
    return pipeline


def opened(
    spark: SparkSession | None,
    location: str | os.PathLike[str],
    pipeline: Pipeline,
    options: StoreOptions,
) -> Writer:
    """Open a store; read no row, and write nothing. See `Store`."""
    arguments.place(location, "location")
    options = options.checked()
    if spark is not None:
        check_session(spark)
    engines = Engines.opened(spark, options.limits)
    tables = tables_at(engines, location, [stage.name for stage in pipeline.stages])
    log = VersionLog(tables)
    graph = pipeline.graph()
    check_policy(graph, options.policy)
    analysis = analysed(graph, tables, log.head)
    zone = StoreZone(log, options.time_zone, engines.zone_of_session)
    engines = replace(engines, zone=zone)

    def executor_of(opened: Opened) -> Executor:
        return Executor(opened, StageReader(opened.tables, from_files=True), options)

    reader = StageReader(tables, from_files=spark is None)
    opened_store = Opened(
        engines,
        analysis.graph,
        tuple(pipeline.stages),
        tables,
        log,
        reader,
        zone,
        analysis.needing,
    )
    listener = options.progress or live()
    listeners = () if listener is None else (listener,)
    shows = None if options.views is None else Views.opened(opened_store, options.views)
    needing = analysis.needing[analysis.unknown[0]] if analysis.unknown else None
    computing = StoreSessions(opened_store, executor_of, needing)
    return Writer(opened_store, computing, options, listeners, shows)
