"""Vacuuming: drop the oldest versions, with the files that only they need."""

from __future__ import annotations

from deltaproduce.model import arguments
from deltaproduce.operations.vacuum import Vacuumed
from deltaproduce.operations.writer import Writer
from deltaproduce.storage.decisions.retention import check_kept, retained


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
        kept = retained(versions, keep_versions, keep_days, writer.options.clock())
        if not kept:
            return Vacuumed((), (), 0, 0)
        return writer.executor.vacuum(versions, kept, hours, dry_run=dry_run)

    return writer.published("vacuum", attempt)
