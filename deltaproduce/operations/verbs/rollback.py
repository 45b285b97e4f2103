"""Rolling back: publish a version that equals an earlier one."""

from __future__ import annotations

from deltaproduce.model import arguments
from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, RUNS
from deltaproduce.operations.writer import Writer
from deltaproduce.storage.versions import Version, check_there, span


def rollback(writer: Writer, version: int, update_id: str | None) -> Version:
    """See `Store.rollback`."""
    number, store = arguments.integer(version, "version"), writer.opened
    name = None if update_id is None else arguments.text(update_id, "update_id")

    def attempt() -> Version:
        every, known = store.log.versions(), store.log.with_ids()
        if name is not None and name in known:
            return known[name]
        versions = span(every, number)
        stages = [stage.name for stage in store.graph.stages]
        check_there(versions[-1], versions[0], stages, CONTENT, KEY_MAPPINGS, RUNS)
        return writer.executor.rollback(versions, name)

    return writer.published("rollback", attempt)
