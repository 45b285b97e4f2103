"""The history of a store: going back to a version of it, and dropping its oldest ones."""

from __future__ import annotations

from deltaproduce.model import arguments
from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, RUNS
from deltaproduce.operations.vacuum import Vacuumed
from deltaproduce.operations.writer import Writer
from deltaproduce.storage.retention import check_kept, retained
from deltaproduce.storage.versions import Version, check_there, span


def rollback(writer: Writer, version: int) -> Version:
    """See `Store.rollback`."""
    number, store = arguments.integer(version, "version"), writer.opened

    def attempt() -> Version:
        versions = span(store.log.versions(), number)
        stages = [stage.name for stage in store.graph.stages]
        check_there(versions[-1], versions[0], stages, CONTENT, KEY_MAPPINGS, RUNS)
        return writer.executor.rollback(versions)

    return writer.published(attempt)


def vacuum(
    writer: Writer,
    keep_versions: int | None,
    keep_days: float | None,
    unfinished_hours: float,
    dry_run: bool,
) -> Vacuumed:
    """See `Store.vacuum`."""
    check_kept(keep_versions, keep_days)
    hours = arguments.number(unfinished_hours, "unfinished_hours")
    arguments.flag(dry_run, "dry_run")

    def attempt() -> Vacuumed:
        versions = writer.opened.log.versions()
        kept = retained(versions, keep_versions, keep_days, writer.clock())
        if not kept:
            return Vacuumed((), (), 0, 0)
        return writer.executor.vacuum(versions, kept, hours, dry_run=dry_run)

    return writer.published(attempt)
