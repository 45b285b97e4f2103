"""Views on the driver: their rows over Arrow tables, and how these change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.local.kernels.shared_sides import SharedSides
from deltaproduce.engines.selections import Selection
from deltaproduce.errors import CorruptStoreError
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.productions import Produced, Production, ProductionResult
from deltaproduce.stages.sql.algebra.relations import Relation, Scan
from deltaproduce.stages.sql.operators.changes.sharing import Sharing
from deltaproduce.stages.sql.operators.changes.signed import InconsistentError, Signed, changed
from deltaproduce.stages.sql.operators.computing import Computing, blaming
from deltaproduce.stages.sql.operators.evaluation import Stream, rows_of
from deltaproduce.stages.sql.operators.following import Following
from deltaproduce.stages.sql.operators.groups.by_states import NegativeCountError
from deltaproduce.stages.sql.operators.numbering import numbered
from deltaproduce.stages.views.dates import dated
from deltaproduce.stages.views.following import TooManyRowsError, followed
from deltaproduce.stages.views.grouped import GroupedQuery
from deltaproduce.stages.views.kept import MaterializedRelation
from deltaproduce.stages.views.kept_states import has_all_states, without_states
from deltaproduce.storage.stored import Stored
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import NO_KEY

FULL_FROM: Final = 20
"""From so many hundredths of changed rows on, a query over all rows is quicker than their change.

Measured: joins cross between 10 and 25, and the sum of TPC-H's queries above 20 (decision 60).
"""


def compute(
    kept: MaterializedRelation, production: Production, inputs: Sequence[StageInput]
) -> tuple[pa.Table, int] | None:
    """Return all rows of a stage, and their number; None if rows that it reads are in Spark.

    Rows of its largest feeder are read and computed in parts, if each makes rows by itself.

    Raises:
        ProducerError: an expression fails for a row; with `stage`.
    """
    feeders = {each.stage.name: each for each in inputs}
    stream = Stream.of(kept.made_of, {name: each.count for name, each in feeders.items()})
    _, computing = computings(production)
    with blaming(production.stage.owner):
        rows = None if stream is None else _streamed(kept, stream, feeders, computing)
        if rows is None:
            contents = _contents(kept.made_of.walk(), feeders)
            if contents is None:
                return None
            rows = kept.part(rows_of(kept.made_of, contents, computing), computing)
        computed_rows = _completed(kept, rows, Layout.of(production.stage), computing)
    return computed_rows, len(computed_rows)


def _streamed(
    kept: MaterializedRelation,
    stream: Stream,
    feeders: Mapping[str, StageInput],
    computing: Computing,
) -> pa.Table | None:
    """Return what `MaterializedRelation.part` makes of all rows, read in parts.

    None if a feeder is not read in parts on the driver.
    """
    beside = {id(one): one for one in stream.beside}
    contents = _contents((scan for one in beside.values() for scan in one.walk()), feeders)
    if contents is None:
        return None
    known = {  # in one piece, as each part takes rows of them
        place: rows_of(one, contents, computing).combine_chunks() for place, one in beside.items()
    }
    computing = replace(computing, shared=SharedSides(known.values()))

    def part(content: pa.Table) -> pa.Table:
        rows = content.combine_chunks()  # once, and not for each expression
        return kept.part(stream.rows(rows, known, computing), computing)

    feeder = feeders[stream.scan.feeder]
    columns = {column.name: column for column in feeder.content}
    return feeder.reduced([columns[name] for name in dict.fromkeys(stream.scan.columns)], part)


def _contents(
    relations: Iterable[Relation], feeders: Mapping[str, StageInput]
) -> dict[str, pa.Table] | None:
    """Return all rows of the stages that are scanned; None if some are in Spark."""
    columns, contents = defaultdict[str, set[str]](set), dict[str, pa.Table]()
    for one in relations:
        if isinstance(one, Scan):
            columns[one.feeder].update(one.columns)
    for name, read in columns.items():
        wanted = [column for column in feeders[name].content if column.name in read]
        rows = feeders[name].all_rows(wanted)
        rows = empty(wanted) if rows is None else rows
        if not isinstance(rows, pa.Table):
            return None
        contents[name] = rows
    return contents


def computings(production: Production) -> tuple[Computing, Computing]:
    """Return the computation of expressions before a version and after it."""
    zone, (was, is_now) = production.engines.time_zone, production.dates
    return Computing(zone, dated(was)), Computing(zone, dated(is_now))


def _completed(
    kept: MaterializedRelation, parts: pa.Table, layout: Layout, computing: Computing
) -> pa.Table:
    """Return all rows of a stage from those of its parts, in the columns of its content.

    Args:
        parts: what `MaterializedRelation.part` made of each.
    """
    if kept.grouped is not None:
        return kept.grouped.completed(parts, layout, computing)
    return _numbered(parts, kept, layout)


def compared(
    production: Production,
    content: Stored | None,
    produced: tuple[Rows, int] | Produced | None,
) -> ProductionResult | None:
    """Return what differs between stored rows and those that are made again.

    States are compared unless Spark has made some rows.
    """
    if produced is None or content is None or not production.stage.schema.states:
        return produced and production.replaced(content, *produced)
    layout, sides = Layout.of(production.stage), (content.rows(), produced[0])
    if not all(has_all_states(side, layout) for side in sides):
        sides = without_states(sides[0], layout), without_states(sides[1], layout)
    return ProductionResult(Comparison.of_all(*sides, layout, production.engines))


def followed_rows(
    kept: MaterializedRelation,
    production: Production,
    inputs: Sequence[StageInput],
    content: Stored | None,
) -> ProductionResult:
    """Return what the changes of its feeders change in a view.

    Args:
        kept: what it keeps; all operators follow changes.
        inputs: its feeders; at least one has changed.
        content: its rows; None if there are none.

    Raises:
        ProducerError: it fails for a row; with `stage`.
        CorruptStoreError: a change removes rows that a feeder or the view does not have.
        TooManyRowsError: rows that it needs are in Spark.
    """
    stage, engines = production.stage, production.engines
    was, is_now = computings(production)
    following = Following(
        followed(inputs, engines),
        is_now,
        None if was == is_now else was,
        Sharing(production.shared, kept.relation),
    )
    try:
        with blaming(stage.owner):
            if kept.grouped is None:
                change = following.change(kept.relation)
                return _applied(change, kept, production, content)
            return _regrouped(kept.grouped, following, production, content)
    except (InconsistentError, NegativeCountError) as error:
        raise CorruptStoreError(
            f"stage {stage.owner!r}: a change of its feeders removes rows that are not there, so "
            "someone else has changed its content or theirs; "
            f"store.refresh({stage.name!r}) makes it again"
        ) from error


def _applied(
    change: Signed, kept: MaterializedRelation, production: Production, content: Stored | None
) -> ProductionResult:
    """Return what a change of rows makes of the stored rows of its keys."""
    layout = Layout.of(production.stage)
    if not len(change):
        return ProductionResult(Comparison.unchanged(layout, production.engines))
    columns = (*layout.pair, *layout.value)
    column_arrays = kept.columns_of(change.rows)
    own = pa.table(
        {
            column.name: pa.repeat(pa.scalar(True, pa.bool_()), len(change))
            if column.name == NO_KEY.names[0]
            else column_arrays.column(column.name).cast(arrow_type(column.data_type))
            for column in columns
        }
    )

    def after(known: pa.Table) -> pa.Table:
        rows = changed(known.select([c.name for c in columns]), Signed(own, change.counts))
        for field in dict.fromkeys(key.field.id for key in kept.order):
            name = next(name for name, one in kept.fields.items() if one == field)
            rows = rows.append_column(field, rows.column(name))
        return _numbered(rows, kept, layout)

    return _replaced(own.select([c.name for c in layout.key]), after, production, content)


def _regrouped(
    grouped: GroupedQuery, following: Following, production: Production, content: Stored | None
) -> ProductionResult:
    """Return what a change of its groups' rows makes of a view's stored rows."""
    layout, projects = Layout.of(production.stage), grouped.projects
    if following.is_anew(grouped.aggregate, *projects):
        rows = following.rows_after(grouped.aggregate.input)
        computed_rows = grouped.compute(rows, layout, following.after)
        return production.replaced(content, computed_rows, len(computed_rows))

    if not len(following.change(grouped.aggregate.input)):
        return ProductionResult(Comparison.unchanged(layout, production.engines))

    def after(known: pa.Table) -> pa.Table:
        return grouped.changed(known, following, layout)

    return _replaced(grouped.keys(following, layout), after, production, content)


def _replaced(
    keys: pa.Table,
    after: Callable[[pa.Table], pa.Table],
    production: Production,
    content: Stored | None,
) -> ProductionResult:
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
    compared = production.replaced_keys(
        content, touched, lambda before: after(touched.exactly(_here(before)))
    )
    return ProductionResult(compared)


def _numbered(rows: pa.Table, kept: MaterializedRelation, layout: Layout) -> pa.Table:
    """Return rows in the columns of the content, numbered within their keys.

    Args:
        rows: as `MaterializedRelation.columns_of` returns them.
    """
    names = {name: name for name in rows.column_names}
    numbered_rows = numbered(rows, names, kept.order, layout.pair, layout.value)
    return numbered_rows.select([column.name for column in layout.content])


def _here(rows: Rows) -> pa.Table:
    if not isinstance(rows, pa.Table):
        raise TooManyRowsError
    return rows
