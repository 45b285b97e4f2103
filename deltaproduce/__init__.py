"""Incremental views for Spark: derived Delta tables that stay right while their inputs change."""

from deltaproduce.engines.spark.sessions.session import local_session
from deltaproduce.errors import (
    ClosedError,
    CommitUnknownError,
    ConflictError,
    CorruptStoreError,
    DefinitionError,
    DeltaProduceError,
    InvalidArgumentError,
    InvalidChangesError,
    NotFoundError,
    ProducerError,
    SessionError,
    StorageError,
)
from deltaproduce.model.graph import Graph, Producer, Source, Stage
from deltaproduce.model.limits import Limits
from deltaproduce.operations.executor import Progress
from deltaproduce.operations.findings import Finding
from deltaproduce.operations.step.plan import Policy, Step, TableType
from deltaproduce.operations.streams import StreamWriter
from deltaproduce.operations.vacuum import Vacuumed
from deltaproduce.operations.writer import OnConflict
from deltaproduce.pipeline import Merged, Pipeline, merge
from deltaproduce.reading.change_feed import FeedMode
from deltaproduce.reading.lineages import Lineage
from deltaproduce.reading.remains import Forgotten, Remaining
from deltaproduce.stages.functions.kinds import ArrowFunction, ProduceFunction
from deltaproduce.stages.functions.preservation import PreserveFunction
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.versions import Version
from deltaproduce.store import Store
from deltaproduce.types.columns import SchemaLike

__all__ = [
    "ArrowFunction",
    "ClosedError",
    "CommitUnknownError",
    "ConflictError",
    "CorruptStoreError",
    "DefinitionError",
    "DeltaProduceError",
    "FeedMode",
    "Finding",
    "Forgotten",
    "Graph",
    "InvalidArgumentError",
    "InvalidChangesError",
    "Limits",
    "Lineage",
    "Merged",
    "NotFoundError",
    "OnConflict",
    "Pipeline",
    "Policy",
    "PreserveFunction",
    "ProduceFunction",
    "Producer",
    "ProducerError",
    "Progress",
    "Remaining",
    "SchemaLike",
    "SessionError",
    "Source",
    "Stage",
    "StageFigures",
    "Step",
    "StorageError",
    "Store",
    "StreamWriter",
    "TableType",
    "Vacuumed",
    "Version",
    "local_session",
    "merge",
]
