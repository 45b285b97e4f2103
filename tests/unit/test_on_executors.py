"""What goes wrong on executors alone: code that they cannot load, and rows that go with them."""

import pytest
from pyspark.errors import PythonException

from deltaproduce import ProducerError, SessionError
from deltaproduce.engines.failures import WorkerError, in_worker
from deltaproduce.engines.spark.executors.failures import raised_by_producer
from deltaproduce.engines.spark.executors.lost_rows import are_lost, persistent

LOADING = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "serializers.py", line 472, in loads
    return cloudpickle.loads(obj, encoding=encoding)
"""
LOST = "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_45_0 not found!"


@pytest.mark.parametrize(
    ("said", "module", "kind"),
    [
        ("ModuleNotFoundError: No module named 'pricing'", "pricing", ModuleNotFoundError),
        (
            "ModuleNotFoundError: No module named 'shop.pricing'",
            "shop.pricing",
            ModuleNotFoundError,
        ),
        (
            "AttributeError: Can't get attribute 'doubled' on <module 'pricing' from 'p.py'>",
            "pricing",
            AttributeError,
        ),
    ],
)
def test_a_function_that_executors_cannot_load_is_told_with_how_to_ship_it(said, module, kind):
    error = raised_by_producer(PythonException(f"{LOADING}{said}\n"), "prices")
    assert isinstance(error, ProducerError)
    assert error.stage == "prices"
    assert type(error.__cause__) is kind
    for named in (repr(module), f"addPyFile('{module.partition('.')[0]}.py')", "addArtifacts"):
        assert named in str(error)


def test_what_no_function_brought_is_not_told_so():
    """The library's own packages, an action without a function, and rows that quote an error."""
    missing = "ModuleNotFoundError: No module named"
    assert raised_by_producer(PythonException(f"{LOADING}{missing} 'pyarrow'"), "s") is None
    assert raised_by_producer(PythonException(f"{LOADING}{missing} 'mine'"), None) is None
    assert raised_by_producer(RuntimeError(f"{LOADING}{missing} 'mine'"), "s") is None


def test_a_function_that_lacks_a_module_when_it_is_called_is_told_the_same():
    def lacking(_):
        error = ProducerError("stage 's', key 7: it failed", stage="s", key=7)
        raise error from ModuleNotFoundError("No module named 'pricing'")
        yield

    with pytest.raises(WorkerError) as caught:
        [*in_worker(lacking)(iter(()))]
    told = raised_by_producer(RuntimeError(str(caught.value)))
    assert isinstance(told, ProducerError)
    assert (told.stage, told.key) == ("s", 7)
    assert isinstance(told.__cause__, ModuleNotFoundError)
    assert str(told).startswith("stage 's', key 7: it failed")
    assert "addPyFile('pricing.py')" in str(told)


def test_an_attempt_is_made_again_when_its_rows_are_lost(caplog):
    failures = [RuntimeError(LOST), RuntimeError("a job failed")]
    failures[1].__cause__ = RuntimeError(LOST)
    assert all(map(are_lost, failures))
    made = []

    def attempt():
        made.append(len(made))
        if failures:
            raise failures.pop()
        return "a version"

    assert persistent(attempt) == "a version"
    assert made == [0, 1, 2]
    assert caplog.text.count("computed again") == 2


def test_other_errors_are_raised_at_once_and_the_last_loss_is_explained():
    made = []

    def failing(error):
        made.append(error)
        raise error

    with pytest.raises(ValueError, match="another"):
        persistent(lambda: failing(ValueError("another")))
    assert len(made) == 1
    made.clear()
    with pytest.raises(SessionError, match="executors were lost") as caught:
        persistent(lambda: failing(RuntimeError(LOST)))
    assert len(made) == 4
    assert caught.value.__cause__ is made[-1]
