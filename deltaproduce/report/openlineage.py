"""OpenLineage: versions as events for a lineage catalog.

A stage is a job, which reads its feeders and writes its own dataset; a version is a run of the job,
and of the pipeline, its parent. The invariant: a run's id follows from the attempt that published
the version, so a repeated event belongs to the same run.

The only module that uses OpenLineage's client, which is an extra. Source: the specification of
OpenLineage, and its rules for the names of datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

from deltaproduce.errors import SyncError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT
from deltaproduce.reading.opened import Opened
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.locations import StoreTable
from deltaproduce.storage.versions import Version, find
from deltaproduce.types.ddl import ddl_of

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent
    from openlineage.client.generated.base import DatasetFacet

_PRODUCER: Final = "urn:python:deltaproduce"
_UNTOUCHED: Final = StageFigures("skipped")
_CATALOG: Final = "spark"
"""The namespace of tables in a catalog, whose address is unknown."""


def sent(
    store: Opened,
    pipeline: str,
    version: int | None,
    namespace: str,
    emit: Callable[[Any], object] | None,
) -> int:
    """See `Store.emit_openlineage`."""
    try:
        from openlineage.client import OpenLineageClient
    except ModuleNotFoundError as error:
        message = "OpenLineage's client is not installed: pip install 'deltaproduce[openlineage]'"
        raise SyncError(message) from error
    sent_version = store.log.head() if version is None else find(store.log.versions(), version)
    facts = tuple(events(store, pipeline, sent_version.shown(), namespace))
    done = 0
    try:
        send = OpenLineageClient().emit if emit is None else emit
        for event in facts:
            send(event)
            done += 1
    except Exception as error:
        message = (
            f"version {sent_version.number} is made; of its {len(facts)} events for OpenLineage "
        )
        raise SyncError(f"{message}{done} were sent: {error}") from error
    return len(facts)


def events(store: Opened, pipeline: str, version: Version, namespace: str) -> Iterator[RunEvent]:
    """Yield one event of the pipeline, with its checks, and one of each touched stage."""
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import parent_run

    time = "" if version.committed_at is None else version.committed_at.isoformat()
    done = partial(RunEvent, eventTime=time, producer=_PRODUCER, eventType=RunState.COMPLETE)
    whole = _run_id(store, version, "")
    asserted = list(_asserted(store, version))
    yield done(run=Run(whole), job=Job(namespace, pipeline), inputs=asserted)
    parent = parent_run.ParentRunFacet(
        parent_run.Run(whole), parent_run.Job(namespace, pipeline), producer=_PRODUCER
    )
    for stage in store.defined:
        figures = version.stages.get(stage.name, _UNTOUCHED)
        if figures.mode != _UNTOUCHED.mode:
            yield done(
                run=Run(_run_id(store, version, stage.name), {"parent": parent}),
                job=Job(namespace, f"{pipeline}.{stage.name}"),
                inputs=list(_inputs(store, stage, figures)),
                outputs=[_output(store, stage, figures)],
            )


def _asserted(store: Opened, version: Version) -> Iterator[InputDataset]:
    """Yield the stages that checks are about, with what the checks of a version found."""
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as quality

    for stage in dict.fromkeys(check.stage for check in version.checks):
        assertions = [
            quality.Assertion(assertion=check.name, success=not check.broken)
            for check in version.checks
            if check.stage == stage
        ]
        facet = quality.DataQualityAssertionsDatasetFacet(assertions, producer=_PRODUCER)
        place = _name_of(store.tables.location.table(stage, CONTENT))
        yield InputDataset(*place, {"dataQualityAssertions": facet})


def _inputs(store: Opened, stage: Stage, figures: StageFigures) -> Iterator[InputDataset]:
    """Yield the inputs of a stage: its feeders, or the foreign table that a source reads."""
    from openlineage.client.event_v2 import InputDataset

    for feeder in dict.fromkeys(feeder.name for feeder in stage.merged):
        yield InputDataset(*_name_of(store.tables.location.table(feeder, CONTENT)))
    if figures.origin.table:
        yield InputDataset(*_name_of(store.tables.access.existing(figures.origin.table)))


def _output(store: Opened, stage: Stage, figures: StageFigures) -> OutputDataset:
    """Return a stage's output in a version: columns, Delta version, and the number of new rows."""
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import (
        dataset_version_dataset,
        output_statistics_output_dataset,
        schema_dataset,
    )

    columns = (*stage.schema.key, *stage.schema.value)
    fields = [
        schema_dataset.SchemaDatasetFacetFields(one.name, ddl_of(one.data_type).lower())
        for one in columns
        if one.is_known and not one.is_hidden
    ]
    delta_version = figures.delta_versions.get(CONTENT)
    schema = schema_dataset.SchemaDatasetFacet(fields, producer=_PRODUCER)
    facets: dict[str, DatasetFacet] = {"schema": schema}
    if delta_version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
            str(delta_version), producer=_PRODUCER
        )
    written = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=figures.rows_added, producer=_PRODUCER
    )
    place = _name_of(store.tables.location.table(stage.name, CONTENT))
    return OutputDataset(*place, {"outputStatistics": written}, facets=facets)


def _name_of(table: StoreTable) -> tuple[str, str]:
    """Return the namespace and name of a table by OpenLineage's rules for files."""
    if table.in_catalog:
        return _CATALOG, table.address.replace("`", "")
    parts = urlsplit(table.address)
    if parts.scheme in ("", "file"):
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")


def _run_id(store: Opened, version: Version, stage: str) -> str:
    attempt = version.number if version.attempt is None else version.attempt.id
    return str(uuid5(NAMESPACE_URL, f"{store.tables.location.address}#{attempt}/{stage}"))
