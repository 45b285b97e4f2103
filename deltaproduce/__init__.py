"""Incremental views on Delta Lake: derived tables that stay correct while their inputs change.

A name is imported when it is first used, so importing the package costs nothing: Spark's types,
which most names need, take half a second. The package can be imported without PySpark; a name that
needs its types then raises a SessionError that says what to install.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from deltaproduce import postgres, sync, testing
    from deltaproduce.datasets.dataset import Dataset
    from deltaproduce.datasets.staged import StageDataset
    from deltaproduce.datasets.writing.writer import DatasetWriter
    from deltaproduce.described.descriptor import Descriptor
    from deltaproduce.engines.change_feed import FeedMode
    from deltaproduce.engines.spark.sessions.session import local_session
    from deltaproduce.errors import (
        AlreadyExistsError,
        ChecksFailedError,
        ClosedError,
        CommitUnknownError,
        ConflictError,
        CorruptStoreError,
        DefinitionError,
        DeltaProduceError,
        DescriptorMismatchError,
        InvalidArgumentError,
        InvalidChangesError,
        MissingPartitionsError,
        NotFoundError,
        ProducerError,
        SessionError,
        StorageError,
        SyncError,
        TasksFailedError,
        ViewError,
    )
    from deltaproduce.model.checks.definitions import Check, Severity
    from deltaproduce.model.checks.results import CheckResult, CheckResults
    from deltaproduce.model.fingerprints import Altered
    from deltaproduce.model.graph import Graph, Producer, Source, Stage
    from deltaproduce.model.limits import Limits
    from deltaproduce.model.retention import Expire
    from deltaproduce.model.window_moves import WindowMove
    from deltaproduce.model.windows import Window, window
    from deltaproduce.operations.making.options import OnConflict
    from deltaproduce.operations.reports.planned_checks import PlannedCheck
    from deltaproduce.operations.reports.plans import Loss, Plan, PlannedStep
    from deltaproduce.operations.step.plan import Policy, Step, TableType
    from deltaproduce.operations.streams import StreamWriter
    from deltaproduce.operations.vacuum import Vacuumed
    from deltaproduce.operations.verifying.findings import Finding
    from deltaproduce.pipeline import Incremental, Merged, Pipeline, Stored, merge
    from deltaproduce.projects.checks import Problem
    from deltaproduce.projects.project import Project
    from deltaproduce.reading.diffs import Diff, KeyDiff, StageDiff
    from deltaproduce.reading.lineages import Lineage
    from deltaproduce.reading.lookups import Lookup
    from deltaproduce.reading.recorded.reader import Reader, open, read  # noqa: F401 see __all__
    from deltaproduce.reading.recorded.stages import RecordedStage
    from deltaproduce.reading.remains import Forgotten, Remaining
    from deltaproduce.reading.selects import Dialect
    from deltaproduce.record_index.decisions.buckets import HashFunction
    from deltaproduce.record_index.index import RecordIndex
    from deltaproduce.record_index.results import (
        Changed,
        ChangeStrategy,
        RecordIndexStats,
        WrongEntry,
    )
    from deltaproduce.shown.explanations import Explanation, Operator
    from deltaproduce.shown.phases import Progress
    from deltaproduce.shown.table import Table
    from deltaproduce.shown.tasks import Backfill, FailedTask, Partition, Run, Size, Task
    from deltaproduce.stages.functions.kinds import ArrowFunction, ProduceFunction
    from deltaproduce.stages.functions.preservation import PreserveFunction
    from deltaproduce.stages.scheduled.kinds import ForeignFunction
    from deltaproduce.stages.sql.states import agg
    from deltaproduce.stages.sql.states.agg import AggregateCall
    from deltaproduce.storage.figures import StageFigures
    from deltaproduce.storage.parquet.lookups import Strategy
    from deltaproduce.storage.versions import Version
    from deltaproduce.store import Store
    from deltaproduce.types.columns import SchemaLike

_HOMES: Final = MappingProxyType(
    {
        "AggregateCall": "deltaproduce.stages.sql.states.agg",
        "AlreadyExistsError": "deltaproduce.errors",
        "Altered": "deltaproduce.model.fingerprints",
        "ArrowFunction": "deltaproduce.stages.functions.kinds",
        "ChangeStrategy": "deltaproduce.record_index.results",
        "Backfill": "deltaproduce.shown.tasks",
        "Check": "deltaproduce.model.checks.definitions",
        "CheckResult": "deltaproduce.model.checks.results",
        "CheckResults": "deltaproduce.model.checks.results",
        "ChecksFailedError": "deltaproduce.errors",
        "Changed": "deltaproduce.record_index.results",
        "ClosedError": "deltaproduce.errors",
        "CommitUnknownError": "deltaproduce.errors",
        "ConflictError": "deltaproduce.errors",
        "CorruptStoreError": "deltaproduce.errors",
        "Dataset": "deltaproduce.datasets.dataset",
        "DatasetWriter": "deltaproduce.datasets.writing.writer",
        "DefinitionError": "deltaproduce.errors",
        "DeltaProduceError": "deltaproduce.errors",
        "Descriptor": "deltaproduce.described.descriptor",
        "DescriptorMismatchError": "deltaproduce.errors",
        "Dialect": "deltaproduce.reading.selects",
        "Diff": "deltaproduce.reading.diffs",
        "Expire": "deltaproduce.model.retention",
        "Explanation": "deltaproduce.shown.explanations",
        "FailedTask": "deltaproduce.shown.tasks",
        "FeedMode": "deltaproduce.engines.change_feed",
        "Finding": "deltaproduce.operations.verifying.findings",
        "ForeignFunction": "deltaproduce.stages.scheduled.kinds",
        "Forgotten": "deltaproduce.reading.remains",
        "Graph": "deltaproduce.model.graph",
        "HashFunction": "deltaproduce.record_index.decisions.buckets",
        "Incremental": "deltaproduce.pipeline",
        "InvalidArgumentError": "deltaproduce.errors",
        "InvalidChangesError": "deltaproduce.errors",
        "KeyDiff": "deltaproduce.reading.diffs",
        "Limits": "deltaproduce.model.limits",
        "Lineage": "deltaproduce.reading.lineages",
        "Lookup": "deltaproduce.reading.lookups",
        "Loss": "deltaproduce.operations.reports.plans",
        "Merged": "deltaproduce.pipeline",
        "MissingPartitionsError": "deltaproduce.errors",
        "NotFoundError": "deltaproduce.errors",
        "OnConflict": "deltaproduce.operations.making.options",
        "Operator": "deltaproduce.shown.explanations",
        "Partition": "deltaproduce.shown.tasks",
        "Pipeline": "deltaproduce.pipeline",
        "Plan": "deltaproduce.operations.reports.plans",
        "PlannedCheck": "deltaproduce.operations.reports.planned_checks",
        "PlannedStep": "deltaproduce.operations.reports.plans",
        "Policy": "deltaproduce.operations.step.plan",
        "PreserveFunction": "deltaproduce.stages.functions.preservation",
        "Problem": "deltaproduce.projects.checks",
        "ProduceFunction": "deltaproduce.stages.functions.kinds",
        "Producer": "deltaproduce.model.graph",
        "ProducerError": "deltaproduce.errors",
        "Progress": "deltaproduce.shown.phases",
        "Project": "deltaproduce.projects.project",
        "Reader": "deltaproduce.reading.recorded.reader",
        "RecordIndex": "deltaproduce.record_index.index",
        "RecordIndexStats": "deltaproduce.record_index.results",
        "RecordedStage": "deltaproduce.reading.recorded.stages",
        "Remaining": "deltaproduce.reading.remains",
        "Run": "deltaproduce.shown.tasks",
        "SchemaLike": "deltaproduce.types.columns",
        "SessionError": "deltaproduce.errors",
        "Severity": "deltaproduce.model.checks.definitions",
        "Size": "deltaproduce.shown.tasks",
        "Source": "deltaproduce.model.graph",
        "Stage": "deltaproduce.model.graph",
        "StageDataset": "deltaproduce.datasets.staged",
        "StageDiff": "deltaproduce.reading.diffs",
        "StageFigures": "deltaproduce.storage.figures",
        "Step": "deltaproduce.operations.step.plan",
        "StorageError": "deltaproduce.errors",
        "Store": "deltaproduce.store",
        "Stored": "deltaproduce.pipeline",
        "Strategy": "deltaproduce.storage.parquet.lookups",
        "StreamWriter": "deltaproduce.operations.streams",
        "SyncError": "deltaproduce.errors",
        "Table": "deltaproduce.shown.table",
        "TableType": "deltaproduce.operations.step.plan",
        "Task": "deltaproduce.shown.tasks",
        "TasksFailedError": "deltaproduce.errors",
        "Vacuumed": "deltaproduce.operations.vacuum",
        "Version": "deltaproduce.storage.versions",
        "ViewError": "deltaproduce.errors",
        "Window": "deltaproduce.model.windows",
        "WindowMove": "deltaproduce.model.window_moves",
        "WrongEntry": "deltaproduce.record_index.results",
        "agg": "deltaproduce.stages.sql.states",
        "local_session": "deltaproduce.engines.spark.sessions.session",
        "merge": "deltaproduce.pipeline",
        "open": "deltaproduce.reading.recorded.reader",
        "postgres": "deltaproduce",
        "read": "deltaproduce.reading.recorded.reader",
        "sync": "deltaproduce",
        "testing": "deltaproduce",
        "window": "deltaproduce.model.windows",
    }
)

__all__ = [  # without `open`, which a star import would put in the place of Python's
    "AggregateCall",
    "AlreadyExistsError",
    "Altered",
    "ArrowFunction",
    "Backfill",
    "ChangeStrategy",
    "Changed",
    "Check",
    "CheckResult",
    "CheckResults",
    "ChecksFailedError",
    "ClosedError",
    "CommitUnknownError",
    "ConflictError",
    "CorruptStoreError",
    "Dataset",
    "DatasetWriter",
    "DefinitionError",
    "DeltaProduceError",
    "Descriptor",
    "DescriptorMismatchError",
    "Dialect",
    "Diff",
    "Expire",
    "Explanation",
    "FailedTask",
    "FeedMode",
    "Finding",
    "ForeignFunction",
    "Forgotten",
    "Graph",
    "HashFunction",
    "Incremental",
    "InvalidArgumentError",
    "InvalidChangesError",
    "KeyDiff",
    "Limits",
    "Lineage",
    "Lookup",
    "Loss",
    "Merged",
    "MissingPartitionsError",
    "NotFoundError",
    "OnConflict",
    "Operator",
    "Partition",
    "Pipeline",
    "Plan",
    "PlannedCheck",
    "PlannedStep",
    "Policy",
    "PreserveFunction",
    "Problem",
    "ProduceFunction",
    "Producer",
    "ProducerError",
    "Progress",
    "Project",
    "Reader",
    "RecordIndex",
    "RecordIndexStats",
    "RecordedStage",
    "Remaining",
    "Run",
    "SchemaLike",
    "SessionError",
    "Severity",
    "Size",
    "Source",
    "Stage",
    "StageDataset",
    "StageDiff",
    "StageFigures",
    "Step",
    "StorageError",
    "Store",
    "Stored",
    "Strategy",
    "StreamWriter",
    "SyncError",
    "Table",
    "TableType",
    "Task",
    "TasksFailedError",
    "Vacuumed",
    "Version",
    "ViewError",
    "Window",
    "WindowMove",
    "WrongEntry",
    "agg",
    "local_session",
    "merge",
    "postgres",
    "read",
    "sync",
    "testing",
    "window",
]


def __getattr__(name: str) -> object:
    """A public name, from where it is defined (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        return version("deltaproduce")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from deltaproduce.errors import packages_named

    with packages_named():
        if home == __name__:
            return import_module(f"{home}.{name}")
        attribute: object = getattr(import_module(home), name)
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    return [*globals(), *__all__]
