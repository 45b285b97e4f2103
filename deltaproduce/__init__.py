"""Incremental views for Spark: derived Delta tables that stay right while their inputs change."""

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
from deltaproduce.executor import Progress
from deltaproduce.findings import Finding
from deltaproduce.lineages import Lineage
from deltaproduce.pipeline import Merged, Pipeline, merge
from deltaproduce.plan import Step
from deltaproduce.remains import Forgotten, Remaining
from deltaproduce.session import local_session
from deltaproduce.stages import Producer, Source
from deltaproduce.store import Store
from deltaproduce.vacuum import Vacuumed
from deltaproduce.versions import StageFigures, Version

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
