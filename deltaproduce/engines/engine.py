"""The engine: the operations on rows, as a protocol: those on any rows, and those of stores.

There are three engines: `local.engine` for Arrow tables on the driver, `local.large.out_of_core`
for tables that do not fit in its memory, and `spark.engine` for DataFrames. All return the same
rows for the same rows; property tests on random rows compare them with each other. `choice` picks
the engine by the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from deltaproduce.engines.change_feed import FeedMode
from deltaproduce.engines.marks import Counts, Which
from deltaproduce.model.clustering import Clustering
from deltaproduce.model.layouts import Layout
from deltaproduce.types.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Rows: TypeAlias = "DataFrame | pa.Table"
"""Rows in Spark, or on the driver."""

Filling: TypeAlias = str | int | None
"""The values of a column: those of another column, by its name, or a number, or null."""

RowsT = TypeVar("RowsT", "DataFrame", pa.Table)


@dataclass(frozen=True, slots=True)
class FeederPart:
    """The rows of one of several feeders that are read as one.

    Attributes:
        columns: the rows' own.
        order: the columns that sort the rows of a key within this part.
        fillings: the values of each column of the whole.
    """

    rows: Rows
    columns: tuple[Column, ...]
    order: tuple[Column, ...]
    fillings: tuple[Filling, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of a comparison.

    Attributes:
        rows: the rows before and after, numbered and marked (see `marks`).
        ranged: the rows are in partitions of disjoint ranges of the key, in order.
        clustering: if given, each partition is a file of this clustering.
    """

    rows: Rows
    counts: Counts
    ranged: bool = False
    clustering: Clustering | None = None


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """What is known of rows without sources whose ``_ordinal`` is 0, 1, … within their key.

    Attributes:
        keys: the number of their keys.
        bytes: their approximate size.
    """

    keys: int
    bytes: int


class RelationalEngine(Protocol[RowsT]):
    """Operations on any rows. Rows that are elsewhere are brought to the engine."""

    def here(self, rows: Rows, columns: Sequence[Column]) -> RowsT:
        """Return the given columns of the rows, in this engine."""

    def select(self, rows: RowsT, columns: Sequence[Column], which: Which) -> RowsT:
        """Return the given columns of the rows that match ``which``, in their order."""

    def concat(self, parts: Sequence[Rows], columns: Sequence[Column]) -> RowsT:
        """Return these columns of all parts, one after the other."""

    def semi_join(self, rows: RowsT, keys: RowsT, columns: Sequence[Column]) -> RowsT:
        """Return the rows that have one of the keys, compared by these columns of both."""

    def anti_join(
        self, rows: Rows, columns: Sequence[Column], keys: Rows, by: Sequence[Column]
    ) -> RowsT:
        """Return the given columns of the rows with none of the keys, by the columns ``by``."""

    def distinct(self, rows: RowsT, columns: Sequence[Column]) -> RowsT:
        """Return the distinct values of the given columns."""

    def filled(self, rows: RowsT, columns: Sequence[Column], fillings: Sequence[Filling]) -> RowsT:
        """Return the rows in other columns, each filled as its filling says."""

    def with_all(self, rows: RowsT, column: Column, value: object) -> RowsT:
        """Return the rows with a column, perhaps a new one, which has this value in every row."""

    def computed(self, rows: RowsT) -> tuple[RowsT, int]:
        """Return the rows, materialized, and their number."""

    def sample(self, parts: Sequence[Rows], columns: Sequence[Column], most: int) -> RowsT:
        """Return ``most`` distinct rows of all parts at random, with columns matched by position.

        Args:
            parts: rows with no other columns.
        """


class Engine(RelationalEngine[RowsT], Protocol[RowsT]):
    """What stores do with the rows of their tables, beside the operations on any rows."""

    def by_key(
        self, parts: Sequence[FeederPart], columns: Sequence[Column], key: Sequence[Column]
    ) -> RowsT:
        """Return several parts as one: a key's rows together, those of the first part first.

        Args:
            columns: the columns of the whole; each part says how to fill them.
        """

    def with_positions(self, rows: RowsT, layout: Layout) -> RowsT:
        """Return the content's rows with ``_position``: their positions in their keys, from 0."""

    def write_layout(
        self, rows: RowsT, count: int, by: Sequence[Column], order: Sequence[Column]
    ) -> RowsT:
        """Return the rows sorted as they will be written: in Spark a partition is a file.

        Args:
            count: the number of rows.
            by: the first columns of ``order``: partitions have disjoint ranges of them.
        """

    def background_layout(
        self, rows: RowsT, count: int, by: Sequence[Column], order: Sequence[Column]
    ) -> RowsT:
        """Like `write_layout`, for writes beside new versions: by at most half of the tasks."""

    def clustered_layout(
        self, rows: RowsT, clustering: Clustering, order: Sequence[Column], least: int
    ) -> tuple[RowsT, tuple[int, ...]]:
        """Like `write_layout`, by partitions: a file has one large partition or several small.

        Args:
            order: the columns to sort by; the partitions' column is the first.
            least: the fewest rows of a large partition.

        Returns:
            The rows, and the rows before which a file ends; in Spark a partition of the DataFrame
            is a file.
        """

    def first(
        self,
        new: RowsT,
        count: int,
        layout: Layout,
        clustering: Clustering | None = None,
        numbered: NumberedRows | None = None,
        *,
        held: bool = False,
    ) -> Compared:
        """Return the comparison where no row was there before.

        Args:
            new: all rows of the content, unsorted.
            clustering: the partitions that the rows will be stored by, if windows are over them.
            numbered: what is known of them; None if they have to be numbered.
            held: whether the caller holds the rows as long as the comparison is needed.
        """

    def compare(
        self,
        before: Rows,
        gone: Rows | None,
        new: Rows,
        layout: Layout,
        *,
        all_differ: bool = False,
    ) -> Compared:
        """Compare the rows before with the rows after ``gone`` is removed and ``new`` is added.

        Args:
            before: content rows: all rows of the affected keys, and perhaps of others.
            gone: the keys whose rows are removed: source keys, in a source the keys themselves; all
                if None.
            new: content rows to add.
            all_differ: no row before can be equal to one after.
        """

    def updates(self, compared: RowsT, layout: Layout) -> RowsT:
        """Return the updates of a comparison (S7), without ``_version``, in key order."""

    def feed(
        self,
        before: Rows | None,
        updates: Rows,
        layout: Layout,
        times: pa.Table,
        *,
        since: int,
        mode: FeedMode,
    ) -> RowsT:
        """Return the rows added and removed after version ``since``.

        Args:
            before: rows of the content at that version: all rows of the keys that have updates, and
                perhaps of others; None if there are none.
            updates: the updates of all versions after it, up to the requested one.
            times: when these versions were published, by number (`change_feed.TIMES`).

        Returns:
            `feed_columns`: for ``net``, one difference per key, under the last version that changed
            it; for ``complete``, one for each of these versions.
        """

    def give_numbers(
        self, before: Rows, new: Rows, layout: Layout, surrogate: str, last: int
    ) -> tuple[RowsT, int]:
        """Fill the surrogate of new rows: each key keeps its number, new keys get the next (S12).

        Args:
            before: content before the step, of all keys of the new rows at least.
            new: content rows that a function emitted.
            surrogate: the value column to fill.
            last: the last number given out.

        Returns:
            The new rows, and the last number given out now.
        """

    def latest(self, updates: Rows, layout: Layout) -> RowsT:
        """Return the updates of each key's last updated version, in the columns of updates.

        Args:
            updates: the updates of consecutive versions.
        """

    def folded(self, updates: Rows, layout: Layout) -> RowsT:
        """Return the content that a stage's updates add up to (S16).

        Args:
            updates: the updates of consecutive versions.

        Returns:
            The content's columns; rows have no source key, and are numbered within their key.
        """

    def unfolded(
        self, updates: Rows | None, content: Rows | None, layout: Layout, *, complete: bool
    ) -> int:
        """Return the number of keys whose rows differ from what their updates add up to.

        Args:
            updates: the updates of consecutive versions, up to that of the content; None if there
                are none.
            content: None if there are no rows.
            complete: the updates are all that there ever were; if not, only keys with updates
                count.
        """

    def faults(self, updates: Rows, layout: Layout, head: int) -> Mapping[str, int]:
        """Count the keys of each version whose updates the version cannot have.

        Args:
            updates: all stored updates.
            head: the number of the newest version.

        Returns:
            `marks.FAULTS`: the version does not exist; rows are not numbered from 0; the change
            types do not fit together; the key is deleted, added or updated against its state
            before.
        """

    def pair_faults(
        self, content: Rows, mappings: Rows | None, layout: Layout
    ) -> Mapping[str, int]:
        """Check that content is numbered, and that key mappings match the content.

        Args:
            mappings: None for a source, which has none.

        Returns:
            `marks.PAIR_FAULTS`: the rows of the content; pairs of source key and key that are not
            numbered from 0; pairs that key mappings lack; and pairs that they have in excess.
        """
