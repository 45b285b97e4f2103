"""Views on the driver: their rows over Arrow tables, and how these change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
from deltaproduce.stages.sql.operators.groups.by_states import NegativeCountError
from deltaproduce.stages.sql.operators.numbering import numbered
from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.stages.views.following import TooManyRowsError, followed
from deltaproduce.stages.views.grouped import Grouped
from deltaproduce.storage.stored import Stored
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import NO_KEY


def computed(
    query: Resolved,
    grouped: Grouped | None,
    contents: Mapping[str, pa.Table],
    layout: Layout,
    zone: str,
    *,
    stage: str,
) -> pa.Table:
    """Return the rows of a query that the driver computes, in the columns of the content.

    Args:
        grouped: the query as groups with states, if it is of that sort.
        contents: the rows of the stages that it reads, by name.

    Raises:
        ProducerError: it fails for a row; with `stage`.
    """
    computing = Computing(zone)
    with blaming(stage):
        if grouped is not None:
            rows = rows_of(grouped.aggregate.input, contents, computing)
            return grouped.made(rows, layout, computing)
        rows = rows_of(query.relation, contents, computing)
    return _numbered(rows, query, layout)


def followed_rows(
    query: Resolved,
    grouped: Grouped | None,
    production: Production,
    inputs: Sequence[StageInput],
    content: Stored | None,
) -> Found:
    """Return what the changes of its feeders change in a view.

    Args:
        query: all of its operators follow changes.
        grouped: as for `computed`.
        inputs: its feeders; at least one has changed.
        content: its rows; None if there are none.

    Raises:
        ProducerError: it fails for a row; with `stage`.
        CorruptStoreError: a change removes rows that a feeder or the view does not have.
        TooManyRowsError: rows that it needs are in Spark.
    """
    stage, engines = production.stage, production.engines
    computing = Computing(engines.time_zone)
    following = Following(followed(inputs, engines), computing)
    try:
        with blaming(stage.name):
            if grouped is None:
                change = following.change(query.relation)
                return _applied(change, query, production, content)
            return _regrouped(grouped, following, production, content)
    except (InconsistentError, NegativeCountError) as error:
        raise CorruptStoreError(
            f"stage {stage.name!r}: a change of its feeders removes rows that are not there, so "
            "someone else has changed its content or theirs; "
            f"store.refresh({stage.name!r}) makes it again"
        ) from error


def _applied(
    change: Signed, query: Resolved, production: Production, content: Stored | None
) -> Found:
    """Return what a change of the query's rows makes of the stored rows of its keys."""
    layout = Layout.of(production.stage)
    columns = (*layout.pair, *layout.value)
    own = pa.table(
        {
            column.name: pa.repeat(pa.scalar(True, pa.bool_()), len(change))
            if column.name == NO_KEY.names[0]
            else change.rows.column(query.fields[column.name]).cast(arrow_type(column.data_type))
            for column in columns
        }
    )

    def after(known: pa.Table) -> pa.Table:
        rows = changed(known.select([c.name for c in columns]), Signed(own, change.counts))
        names = {field: rows.column(name) for name, field in query.fields.items()}
        return _numbered(pa.table(names), query, layout)

    return _replaced(own.select([c.name for c in layout.key]), after, production, content)


def _regrouped(
    grouped: Grouped, following: Following, production: Production, content: Stored | None
) -> Found:
    """Return what a change of its groups' rows makes of a view's stored rows."""
    layout = Layout.of(production.stage)

    def after(known: pa.Table) -> pa.Table:
        if not len(following.change(grouped.aggregate.input)):
            return known
        return grouped.changed(known, following, layout)

    return _replaced(grouped.keys(following, layout), after, production, content)


def _replaced(
    keys: pa.Table,
    after: Callable[[pa.Table], pa.Table],
    production: Production,
    content: Stored | None,
) -> Found:
    """Return what changes if the rows of some keys are replaced.

    Args:
        keys: the keys, which may repeat.
        after: returns their rows after the change, from those before.
    """
    layout, engines = Layout.of(production.stage), production.engines
    touched = Selection.of(keys, layout.key, engines)
    if content is None:
        rows = after(empty(layout.content))
        return production.first(rows, len(rows))
    whole = touched.is_here and (content.small or content.is_nearly_all(touched))
    before = _here(content.fetched() if whole else content.of(touched))
    new = after(touched.exactly(before))
    return Found(
        Comparison.of_some(before, touched, new, layout, complete=whole, sought=touched.is_here)
    )


def _numbered(rows: pa.Table, query: Resolved, layout: Layout) -> pa.Table:
    """Return rows in the columns of the content, numbered within their keys."""
    found = numbered(rows, query.fields, query.order, layout.pair, layout.value)
    return found.select([column.name for column in layout.content])


def _here(rows: Rows) -> pa.Table:
    if not isinstance(rows, pa.Table):
        raise TooManyRowsError
    return rows
