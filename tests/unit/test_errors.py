import inspect
import pickle

import pytest

from deltaproduce import errors
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
)

CASES = [
    (DeltaProduceError, {}),
    (DefinitionError, {"stage": "totals", "column": "amount"}),
    (InvalidChangesError, {"source": "orders", "column": "amount", "keys": (1, ("a", None))}),
    (ProducerError, {"stage": "totals", "key": (1, "a")}),
    (ConflictError, {}),
    (InvalidArgumentError, {"argument": "since"}),
    (NotFoundError, {}),
    (CorruptStoreError, {"table": "totals/content"}),
    (CommitUnknownError, {}),
    (SessionError, {}),
]
DEFAULTS = {"keys": ()}


def test_every_error_is_in_the_tree_and_in_these_tests():
    defined = {cls for _, cls in inspect.getmembers(errors, inspect.isclass)}
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
