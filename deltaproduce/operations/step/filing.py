"""Filing: the order, and the files, in which the rows of a stage's content are written.

Files are ordered by key, unless a window is over the stage, or its definition describes the files;
the definition takes precedence. The invariant: each given row is written exactly once, whatever
file it goes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from deltaproduce.described.content import beside, columns_by, sorted_by, text_of
from deltaproduce.described.descriptor import Description
from deltaproduce.described.partitioned_rows import refused, with_partitions
from deltaproduce.described.partitions import PartitionColumn
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.delta.tables import ROWS_PER_FILE
from deltaproduce.engines.engine import Rows
from deltaproduce.errors import InvalidChangesError, ProducerError
from deltaproduce.model.clustering import Clustering
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, Layout
from deltaproduce.model.partitions import SORTS
from deltaproduce.storage.edits import Edit
from deltaproduce.types.columns import Column
from deltaproduce.types.excerpts import shown


@dataclass(frozen=True, slots=True)
class Filing:
    """How files keep the content of one stage.

    Attributes:
        clustering: the partitions to cluster by, if windows are over it.
        description: how its definition describes the files, if it does.
    """

    clustering: Clustering | None = None
    description: Description | None = None

    @property
    def text(self) -> str:
        """The description as versions record it; empty if the definition has none."""
        return text_of(self.description)

    @property
    def partitions(self) -> tuple[PartitionColumn, ...]:
        """The columns that the description partitions content by."""
        return () if self.description is None else self.description.partitions

    @property
    def by_partitions(self) -> Clustering | None:
        """The partitions to cluster by, unless a description takes precedence."""
        return self.clustering if self.description is None else None

    def orders(self, layout: Layout) -> tuple[tuple[Column, ...], ...]:
        """Return the possible orders of the rows, the wanted one first.

        A table may be older than the window over it, or than the end of one.
        """
        by, clustering = layout.order(CONTENT), self._clustering_of(layout)
        firsts = [] if clustering is None else [clustering.column]
        firsts += [by[0], *(c for c in layout.schema.key if c.data_type.simpleString() in SORTS)]
        orders = tuple(
            (first, *(c for c in by if c.name != first.name)) for first in dict.fromkeys(firsts)
        )
        if self.description is None:
            return orders
        return tuple(sorted_by(self.description, order) for order in orders)

    def write_layout(
        self, edit: Edit, layout: Layout, count: int, engines: Engines, *, asides: bool = False
    ) -> Edit | None:
        """Return the edit with its rows sorted into files; None if they are to be filed by key.

        Args:
            edit: an edit of the content, with rows in no order.
            count: the number of its rows.
            asides: whether versions go on meanwhile; then it uses half of the session's tasks.
        """
        if self.description is not None:
            return self._by_description(edit, layout, count, engines, asides=asides)
        clustering = self._clustering_of(layout)
        if clustering is None or not edit.overwrite:
            return None
        order = clustering.order(layout.order(CONTENT))
        least = engines.limits.partition_rows_of(count)
        rows, ends = engines.of(edit.rows).clustered_layout(edit.rows, clustering, order, least)
        return replace(edit, rows=rows, file_ends=ends, file_rows=ROWS_PER_FILE)

    def partitions_of(
        self, rows: Rows, columns: Sequence[Column], engines: Engines
    ) -> pa.Table | None:
        """Return the distinct partitions that rows are in; None if the rows are in Spark.

        Args:
            columns: the rows' columns, at least those of the content that partitions depend on.
        """
        if not isinstance(rows, pa.Table):
            return None
        by = self.partitions
        partitioned = with_partitions(rows, columns, by, engines)
        distinct: pa.Table = engines.of(partitioned).distinct(partitioned, columns_by(by))
        return distinct

    def within(
        self, rows: pa.Table, columns: Sequence[Column], partitions: pa.Table, engines: Engines
    ) -> pa.Table:
        """Return the rows that are in some partitions.

        Args:
            columns: as for `partitions_of`, of which the partitions are.
        """
        by = self.partitions
        partitioned = with_partitions(rows, columns, by, engines)
        kept = engines.of(partitioned, partitions).semi_join(
            partitioned, partitions, columns_by(by)
        )
        return kept.select([c.name for c in columns])

    def _by_description(
        self, edit: Edit, layout: Layout, count: int, engines: Engines, *, asides: bool
    ) -> Edit:
        """Return the edit with one file per partition, or several for a large partition."""
        assert self.description is not None
        by, order = self.description.partitions, self.orders(layout)[0]
        own, partition = beside(by), columns_by(by)
        rows = with_partitions(edit.rows, edit.columns, by, engines)
        engine = engines.of(rows)
        write_layout = engine.background_layout if asides else engine.write_layout
        names = {column.name for column in partition}
        lookup = {c.name: c for c in (*edit.lookup, *self.description.in_order)}
        return replace(
            edit,
            rows=write_layout(rows, count, order, order),
            columns=(*edit.columns, *own),
            lookup=tuple(c for c in lookup.values() if c.name not in names),
            file_rows=ROWS_PER_FILE,
            partition=partition,
            compression=self.description.compression,
            beside=own,
        )

    def _clustering_of(self, layout: Layout) -> Clustering | None:
        fits = self.clustering is not None and self.clustering.fits(layout.key)
        return self.clustering if fits else None


def check_partitions(rows: Rows, stage: Stage, description: Description) -> None:
    """Refuse content rows that fit no possible partition.

    Raises:
        InvalidChangesError: for rows of a source; with `source`, `column` and `keys`.
        ProducerError: for rows of another stage; with `stage`.
    """
    layout = Layout.of(stage)
    wrong_rows = refused(rows, layout.content, layout.key, description.partitions)
    if wrong_rows is None:
        return
    values, column, finding = wrong_rows
    key = values[0] if len(values) == 1 else values
    name = stage.owner
    said = f"{name!r} is stored by {column!r}, which {finding}, of key {shown(key)}"
    if stage.feeders:
        raise ProducerError(f"stage {said}", stage=name)
    raise InvalidChangesError(f"source {said}", source=name, column=column, keys=(key,))
