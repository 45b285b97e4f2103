"""Incremental views for Spark: derived Delta tables that stay right while their inputs change."""

from deltaproduce.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptStoreError,
    DefinitionError,
    DeltaProduceError,
    InvalidChangesError,
    NotFoundError,
    ProducerError,
    SessionError,
)
from deltaproduce.executor import Progress
from deltaproduce.pipeline import Pipeline, Producer, Source
from deltaproduce.session import local_session
from deltaproduce.store import Store
from deltaproduce.versions import StageFigures, Version

__all__ = [
    "CommitUnknownError",
    "ConflictError",
    "CorruptStoreError",
    "DefinitionError",
    "DeltaProduceError",
    "InvalidChangesError",
    "NotFoundError",
    "Pipeline",
    "Producer",
    "ProducerError",
    "Progress",
    "SessionError",
    "Source",
    "StageFigures",
    "Store",
    "Version",
    "local_session",
]
