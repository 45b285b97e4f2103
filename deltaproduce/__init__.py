"""Incremental views for Spark: derived Delta tables that stay right while their inputs change."""

from deltaproduce.engines.spark.session import local_session
from deltaproduce.errors import (
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
from deltaproduce.model.graph import Producer, Source
from deltaproduce.operations.executor import Progress
from deltaproduce.operations.findings import Finding
from deltaproduce.operations.step.plan import Step
from deltaproduce.operations.vacuum import Vacuumed
from deltaproduce.pipeline import Merged, Pipeline, merge
from deltaproduce.reading.lineages import Lineage
from deltaproduce.reading.remains import Forgotten, Remaining
from deltaproduce.storage.versions import StageFigures, Version
from deltaproduce.store import Store

__all__ = [
    "CommitUnknownError",
    "ConflictError",
    "CorruptStoreError",
    "DefinitionError",
    "DeltaProduceError",
    "Finding",
    "Forgotten",
    "InvalidArgumentError",
    "InvalidChangesError",
    "Lineage",
    "Merged",
    "NotFoundError",
    "Pipeline",
    "Producer",
    "ProducerError",
    "Progress",
    "Remaining",
    "SessionError",
    "Source",
    "StageFigures",
    "Step",
    "StorageError",
    "Store",
    "Vacuumed",
    "Version",
    "local_session",
    "merge",
]
