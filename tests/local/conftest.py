"""No test here starts Java."""

from collections.abc import Iterator

import pytest
from pyspark import SparkContext


@pytest.fixture(autouse=True)
def without_java() -> Iterator[None]:
    """No test here may start Java; in a process that has it, that cannot be seen."""
    had = SparkContext._gateway is not None
    yield
    assert had or SparkContext._gateway is None
