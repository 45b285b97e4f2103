"""Modules of tests whose functions Spark's workers get with their code: they cannot import them."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from pyspark import cloudpickle


@contextmanager
def travelling(*modules: ModuleType) -> Iterator[None]:
    """Classes and functions of some modules travel with their code."""
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
