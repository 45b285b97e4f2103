"""One stage's step: derives the stage's changes from given rows, or from changes of its feeders.

The stage's kind decides how changes of a feeder propagate (`DerivedKind.changed`). This module
handles given rows, full production, and the difference of two versions. The invariant: only
affected keys are read and compared, unless the stage has to be produced in full, or is so small
that reading all of it costs no more.

Each step works on the driver if all its rows are there, and in Spark otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.selections import Selection
from deltaproduce.model.clustering import Clustering
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.operations.step.redefinitions import Redefinition
from deltaproduce.stages.batches import Batch
from deltaproduce.stages.inputs import StageInput
from deltaproduce.stages.productions import Produced, Production, ProductionResult
from deltaproduce.storage.parquet.shared_lookups import SharedLookups
from deltaproduce.storage.stored import Stored


def source_step(
    source: Stage,
    batch: Batch,
    content: Stored | None,
    redefined: Redefinition | None = None,
    *,
    rebuilds: bool = False,
    clustering: Clustering | None = None,
    looked_up: SharedLookups | None = None,
) -> ProductionResult | None:
    """Replace the rows of a batch's keys by its rows (S1, S9), or all rows by a snapshot.

    Args:
        content: the source's rows; None if there are none yet.
        redefined: set if the source has other columns than its tables; then the batch is a
            snapshot, or its old rows fit (`Redefinition.keeps_rows`).
        rebuilds: whether it had rows that do not count, so that having none is a change.
        clustering: the partitions to store the rows by, if windows are over them.
        looked_up: gets the old rows that are read, for stages that would read them again.

    Returns:
        The changes; None if no key's rows differ, nor its columns.
    """
    compared = source_comparison(
        source, batch, content, redefined, clustering=clustering, looked_up=looked_up
    )
    is_change = compared.counts.keys_changed or rebuilds or redefined is not None
    return ProductionResult(compared) if is_change else None


def source_comparison(
    source: Stage,
    batch: Batch,
    content: Stored | None,
    redefined: Redefinition | None = None,
    expired: Rows | None = None,
    clustering: Clustering | None = None,
    looked_up: SharedLookups | None = None,
) -> Comparison:
    """Compare a source's rows with those after a batch; see `source_step`.

    Args:
        expired: rows of the source that leave in the same step: all rows of keys that are not in
            the batch.
    """
    layout, engines, upserts = Layout.of(source), batch.engines, batch.upserts()
    if redefined is not None:
        return _widened(redefined, batch, content, expired)
    if content is None:
        is_batch = isinstance(upserts, pa.Table) and len(upserts) == batch.count  # which is held
        return Comparison.first(upserts, batch.count, layout, engines, clustering, held=is_batch)
    if batch.is_snapshot:
        return Comparison.of_all(content.rows(), upserts, layout, engines)
    keys = given = batch.keys()
    if expired is not None:
        gone = engines.of(expired).here(expired, layout.key)
        keys = keys.union(Selection.of(gone, layout.key, engines))
    here = keys.is_here
    whole = content.small and here
    rows = content.fetched() if whole else _rows_of(given, content, looked_up)
    if expired is not None and not whole:
        rows = engines.concat(given.exactly(rows), expired, layout.content)
    return Comparison.of_changed_keys(rows, keys, upserts, layout, complete=whole, sought=here)


def _rows_of(keys: Selection, content: Stored, looked_up: SharedLookups | None) -> Rows:
    """Return all rows of some keys, and perhaps of others.

    They are read by as few of the first columns as stages look rows up by, if that reads no more.
    """
    first = 0 if looked_up is None else looked_up.leading([c.name for c in keys.columns])
    if looked_up is None or not first or not isinstance(keys.keys, pa.Table):
        return content.of(keys)
    leading = keys.leading(first)
    if not content.reads_as_much(leading, keys):
        return content.of(keys)
    rows = content.of(leading)
    if isinstance(rows, pa.Table):
        looked_up.keep(keys.keys, first, leading.exactly(rows))
    return keys.exactly(rows)


def _widened(
    redefined: Redefinition, batch: Batch, content: Stored | None, expired: Rows | None
) -> Comparison:
    """Compare the rows that a source has, in its new columns, with those after a batch."""
    before = _conformed(redefined, content)
    new, count, engines = batch.upserts(), batch.count, batch.engines
    if before is not None and not batch.is_snapshot:
        layout = Layout.of(redefined.new)
        gone = batch.keys()
        if expired is not None:
            expiring = engines.of(expired).here(expired, layout.key)
            gone = gone.union(Selection.of(expiring, layout.key, engines))
        engine = engines.of(before, gone.keys, new)
        kept = engine.anti_join(before, layout.content, gone.keys, layout.key)
        new, count = engine.computed(engine.concat([kept, new], layout.content))
    return _rebuilt(redefined, before, new, count, engines)


def full_step(
    production: Production,
    inputs: Sequence[StageInput],
    content: Stored | None,
    redefined: Redefinition | None = None,
) -> ProductionResult | None:
    """Produce every key of the feeders.

    Args:
        inputs: the inputs of the stage.
        content: the stage's rows; None if there are none yet.
        redefined: set if the stage has other columns than its tables.

    Returns:
        The changes; None if no feeder has ever had rows, and the stage has none of nothing.
    """
    of_nothing = production.kind.upkeep.of_nothing
    is_made = of_nothing or any(each.step or each.before() is not None for each in inputs)
    produced = production.kind.produced(production, inputs) if is_made else None
    if redefined is None:
        return None if produced is None else production.replaced(content, *produced)
    emitted, count, ties, _ = Produced(*(produced or (empty(production.content), 0)))
    old = _conformed(redefined, content)
    new, surrogates = production.kept(old if redefined.same_values else None, emitted, count)
    compared = _rebuilt(redefined, old, new, count, production.engines)
    return ProductionResult(compared, surrogates, ties=ties)


def difference(
    stage: Stage,
    before: Stored | None,
    after: Stored | None,
    keys: Callable[[], Selection] | None,
    engines: Engines,
) -> Comparison:
    """Compare the rows of a stage in two versions.

    Args:
        before: all its rows in the first version; None if there are none.
        after: all its rows in the second version; None if there are none.
        keys: finds all keys whose values may differ, called only if there are many rows; None if
            they are unknown.
    """
    layout = Layout.of(stage)
    nothing = empty(layout.content)
    is_small = all(side is None or side.small for side in (before, after))
    sought = None if keys is None or is_small else keys()
    were, are = (nothing if side is None else _rows(side, sought) for side in (before, after))
    return Comparison.of_all(were, are, layout, engines, complete=sought is None)


def stored_step(
    stage: Stage,
    before: Stored | None,
    after: Stored | None,
    keys: Callable[[], Selection] | None,
    engines: Engines,
    redefined: Redefinition | None = None,
) -> Comparison:
    """Return the changes of a step whose outcome is stored; produce nothing.

    Args:
        before: the stage's rows; None if there are none yet.
        after: its rows after the step; None if there are none left.
        keys: finds all keys whose rows differ, as for `difference`.
        redefined: set if the stage has other columns than its tables.
    """
    if redefined is not None:
        nothing = empty(Layout.of(stage).content)
        rows, count = (nothing, 0) if after is None else (after.rows(), after.count)
        return _rebuilt(redefined, _conformed(redefined, before), rows, count, engines)
    return difference(stage, before, after, None if before is None else keys, engines)


def _conformed(redefined: Redefinition, content: Stored | None) -> Rows | None:
    """Return the old rows in the new columns; None if there are none, or the key columns differ."""
    if content is None or not redefined.same_key:
        return None
    return redefined.conformed(content.rows(), content.engines)


def _rebuilt(
    redefined: Redefinition, before: Rows | None, new: Rows, count: int, engines: Engines
) -> Comparison:
    """Compare the old rows with the rows of new tables that have other columns."""
    layout = Layout.of(redefined.new)
    if before is None:
        return Comparison.first(new, count, layout, engines)
    differ = redefined.all_differ
    return Comparison.of_all(before, new, layout, engines, all_differ=differ)


def _rows(stored: Stored, keys: Selection | None) -> Rows:
    if keys is not None:
        return keys.exactly(stored.of(keys))
    return stored.rows()
