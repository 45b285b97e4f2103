"""Views on the driver: their rows over Arrow tables, and how these change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.errors import CorruptStoreError
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.productions import Found, Production
from deltaproduce.stages.sql.operators.changes.signed import InconsistentError, Signed, changed
from deltaproduce.stages.sql.operators.computing import Computing, blaming
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.operators.following import Following
from deltaproduce.stages.sql.operators.numbering import numbered
from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.stages.views.following import TooManyRowsError, followed
from deltaproduce.storage.stored import Stored
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import NO_KEY


def computed(
    query: Resolved, contents: Mapping[str, pa.Table], layout: Layout, zone: str, *, stage: str
) -> pa.Table:
    """Return the rows of a query that the driver computes, in the columns of the content.

    Args:
        contents: the rows of the stages that it reads, by name.

    Raises:
        ProducerError: it fails for a row; with `stage`.
    """
    with blaming(stage):
        rows = rows_of(query.relation, contents, Computing(zone))
    found = numbered(rows, query.fields, query.order, layout.pair, layout.value)
    return found.select([column.name for column in layout.content])


def followed_rows(
    query: Resolved,
    production: Production,
    inputs: Sequence[StageInput],
    content: Stored | None,
) -> Found:
    """Return what the changes of its feeders change in a view.

    Args:
        query: all of its operators follow changes.
        inputs: its feeders; at least one has changed.
        content: its rows; None if there are none.

    Raises:
        ProducerError: it fails for a row; with `stage`.
        CorruptStoreError: a change removes rows that a feeder or the view does not have.
        TooManyRowsError: rows that it needs are in Spark.
    """
    stage, engines = production.stage, production.engines
    feeders, computing = followed(inputs, engines), Computing(engines.time_zone)
    try:
        with blaming(stage.name):
            change = Following(feeders, computing).change(query.relation)
        return _applied(change, query, production, content)
    except InconsistentError as error:
        raise CorruptStoreError(
            f"stage {stage.name!r}: {error}, so someone else has changed its content, or that of a "
            f"stage that it reads; store.refresh({stage.name!r}) makes it again"
        ) from error


def _applied(
    change: Signed, query: Resolved, production: Production, content: Stored | None
) -> Found:
    """Return the stored rows of the keys that a change touches, before and after it."""
    layout, engines = Layout.of(production.stage), production.engines
    columns = (*layout.pair, *layout.value)
    own = pa.table(
        {
            column.name: pa.repeat(pa.scalar(True, pa.bool_()), len(change))
            if column.name == NO_KEY.names[0]
            else change.rows.column(query.fields[column.name]).cast(arrow_type(column.data_type))
            for column in columns
        }
    )
    touched = Selection.of(own.select([c.name for c in layout.key]), layout.key, engines)
    if content is None:
        before, whole = empty(layout.content), True
    else:
        whole = content.small or content.is_nearly_all(touched)
        before = _here(content.fetched() if whole else content.of(touched))
    known = touched.exactly(before).select([c.name for c in columns])
    after = changed(known, Signed(own, change.counts))
    visible = {field: after.column(name) for name, field in query.fields.items()}
    new = numbered(pa.table(visible), query.fields, query.order, layout.pair, layout.value)
    new = new.select([column.name for column in layout.content])
    if content is None:
        return production.first(new, len(new))
    return Found(
        Comparison.of_some(before, touched, new, layout, complete=whole, sought=touched.is_here)
    )


def _here(rows: Rows) -> pa.Table:
    if not isinstance(rows, pa.Table):
        raise TooManyRowsError
    return rows
