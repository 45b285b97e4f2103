import inspect
import pickle
from datetime import UTC, date, datetime

import pytest

from deltaproduce import errors
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

CASES = [
    (DeltaProduceError, {}),
    (DefinitionError, {"stage": "totals", "column": "amount", "file": "a.sql", "line": 3}),
    (
        InvalidChangesError,
        {
            "source": "orders",
            "column": "n",
            "columns": ("n", "t"),
            "keys": (1, ("a", None)),
            "row": 4,
            "rows": (1, 3),
            "file": "a.csv",
            "line": 7,
        },
    ),
    (ChecksFailedError, {"checks": ("a",), "tasks": ("b",)}),
    (MissingPartitionsError, {"stage": "month", "partitions": (date(2026, 1, 2), 3)}),
    (ProducerError, {"stage": "totals", "key": (1, "a"), "column": "total"}),
    (TasksFailedError, {"run": ()}),
    (ConflictError, {"attempt": "a1", "started_at": datetime(2026, 1, 2, tzinfo=UTC)}),
    (InvalidArgumentError, {"argument": "since"}),
    (NotFoundError, {}),
    (AlreadyExistsError, {"location": "/lake/events"}),
    (
        DescriptorMismatchError,
        {"location": "/lake/events", "differences": {"compression": ("zstd", "snappy")}},
    ),
    (CorruptStoreError, {"table": "totals/content"}),
    (CommitUnknownError, {}),
    (ClosedError, {}),
    (StorageError, {"table": "totals/content"}),
    (SyncError, {"stage": "totals", "column": "name", "keys": ((1, "a"),)}),
    (ViewError, {"view": "`a`.`b`", "version": 3}),
    (SessionError, {"stage": "a"}),
]
DEFAULTS = {
    "checks": (),
    "tasks": (),
    "keys": (),
    "columns": (),
    "rows": (),
    "partitions": (),
    "differences": {},
}


def test_every_error_is_in_the_tree_and_in_these_tests():
    classes = (cls for _, cls in inspect.getmembers(errors, inspect.isclass))
    defined = {cls for cls in classes if cls.__module__ == errors.__name__}
    assert defined == {cls for cls, _ in CASES}
    assert all(issubclass(cls, DeltaProduceError) for cls in defined)


@pytest.mark.parametrize(("cls", "fields"), CASES)
def test_fields_are_attributes_and_survive_pickling(cls, fields):
    error = pickle.loads(pickle.dumps(cls("what is wrong", **fields)))
    assert type(error) is cls
    assert str(error) == "what is wrong"
    assert vars(error) == fields


@pytest.mark.parametrize(("cls", "fields"), CASES)
def test_fields_have_defaults(cls, fields):
    assert vars(cls("what is wrong")) == {name: DEFAULTS.get(name) for name in fields}
