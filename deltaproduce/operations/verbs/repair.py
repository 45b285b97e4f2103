"""Verifying and repairing: find the damage of a store, and repair it."""

from __future__ import annotations

from functools import partial

from deltaproduce.errors import CorruptStoreError
from deltaproduce.model import arguments
from deltaproduce.model.layouts import CONTENT
from deltaproduce.operations.making.request import Request
from deltaproduce.operations.verifying.findings import Finding
from deltaproduce.operations.verifying.verification import Verifier
from deltaproduce.operations.writer import Writer
from deltaproduce.storage.attempts import Attempt
from deltaproduce.storage.versions import Version


def verify(writer: Writer, recompute: bool | int = False) -> tuple[Finding, ...]:
    """See `Store.verify`; in the time zone of the head."""
    store = writer.opened
    calls = arguments.flag_or_count(recompute, "recompute")
    try:
        versions = store.log.versions()
    except CorruptStoreError as error:
        return (Finding("", "_versions", "versions", str(error)),)
    if not versions:
        return ()
    zone = store.zone.recorded(versions[-1])
    store = writer.computing.store(zone)
    reader = store.reader.uncached()  # check the files, not cached rows
    verifier = Verifier(store.graph, store.tables, reader, versions, zone, recompute=calls)
    with writer.computing.keeping_active():
        return tuple(verifier.findings())


def repair(writer: Writer, recompute: bool | int) -> Version:
    """See `Store.repair`."""
    calls = arguments.flag_or_count(recompute, "recompute")
    return writer.published("repair", partial(_repaired, writer, calls))


def _repaired(writer: Writer, recompute: bool | int) -> Version:
    store = writer.opened
    store.log.repair(Attempt.after(store.log.last_read, writer.options.clock()))
    findings = verify(writer, recompute)
    for finding in findings:
        in_place = store.graph.stage(finding.stage).kind.intake.table if finding.stage else None
        if finding.table == CONTENT and in_place is not None:
            raise CorruptStoreError(
                f"source {finding.stage!r}: {finding.wrong}; {finding.mend}", table=finding.stage
            )
    versions = store.log.versions()
    if not findings:
        return store.log.last_read
    return writer.executor.repair(Request(operation="repair"), versions, findings)
