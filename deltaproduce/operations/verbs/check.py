"""Checking: evaluate all checks over the head."""

from __future__ import annotations

from deltaproduce.model.checks.results import CheckResults
from deltaproduce.operations.writer import Writer


def check(writer: Writer) -> CheckResults:
    """See `Store.check`."""
    head = writer.opened.log.head()
    store, executor = writer.computing.now()
    with store.noticing(), writer.computing.keeping_active():
        return executor.checked(head)
