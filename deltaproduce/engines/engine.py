"""The engine: what is done with rows, as one protocol.

There are three: `local.engine` for Arrow tables on the driver, `local.large.out_of_core` for those
that do not fit in its memory, and `spark.engine` for DataFrames. All give the same rows for the
same rows; laws on random rows hold them against each other.
Where rows are worked on is decided in `choice`, by their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from deltaproduce.engines.change_feed import FeedMode
from deltaproduce.engines.marks import Counts, Which
from deltaproduce.model.clustering import Clustering
from deltaproduce.model.layouts import Layout
from deltaproduce.types.columns import Column

Rows: TypeAlias = DataFrame | pa.Table
"""Rows in Spark, or on the driver."""

Filling: TypeAlias = str | int | None
"""What a column is filled with: the values of another, by its name, or a number, or null."""

RowsT = TypeVar("RowsT", DataFrame, pa.Table)


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one of several feeders, which are read as one.

    Attributes:
        columns: the rows' own.
        order: what the rows of a key are sorted by, among those of this part.
        fillings: what each column of the whole is filled with.
    """

    rows: Rows
    columns: tuple[Column, ...]
    order: tuple[Column, ...]
    fillings: tuple[Filling, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison says.

    Attributes:
        rows: the rows before and after, numbered and marked (see `marks`).
        ranged: they are in partitions of disjoint ranges of the key, in order.
        clustering: each of these is a file as this says, if it says anything.
    """

    rows: Rows
    counts: Counts
    ranged: bool = False
    clustering: Clustering | None = None


class Engine(Protocol[RowsT]):
    """What is done with rows. Rows that are given may be elsewhere: they are brought here."""

    def here(self, rows: Rows, columns: Sequence[Column]) -> RowsT:
        """Some columns of the rows, here."""

    def pick(self, rows: RowsT, columns: Sequence[Column], which: Which) -> RowsT:
        """Some columns of the rows that are ``which``, in the order that they have."""

    def united(self, parts: Sequence[Rows], columns: Sequence[Column]) -> RowsT:
        """These columns of all parts, one after the other."""

    def only(self, rows: RowsT, keys: RowsT, columns: Sequence[Column]) -> RowsT:
        """Of some rows those that have one of the keys, in these columns of both."""

    def without(
        self, rows: Rows, columns: Sequence[Column], keys: Rows, by: Sequence[Column]
    ) -> RowsT:
        """Some columns of the rows that have none of the keys, in the columns ``by`` of both."""

    def distinct(self, rows: RowsT, columns: Sequence[Column]) -> RowsT:
        """Some columns of the rows, each combination of values once."""

    def computed(self, rows: RowsT) -> tuple[RowsT, int]:
        """The rows, not to be computed again, and how many they are."""

    def by_key(
        self, parts: Sequence[Part], columns: Sequence[Column], key: Sequence[Column]
    ) -> RowsT:
        """Several parts as one: a key's rows together, those of the first part first.

        Args:
            columns: of the whole; each part says what they are filled with.
        """

    def filled(self, rows: RowsT, columns: Sequence[Column], fillings: Sequence[Filling]) -> RowsT:
        """The rows in other columns, each filled with what its filling says."""

    def placed(self, rows: RowsT, layout: Layout) -> RowsT:
        """The rows of some content with ``_position``: their places in their keys, from 0."""

    def with_all(self, rows: RowsT, column: Column, value: object) -> RowsT:
        """The rows with one more column, which has this value in all of them."""

    def filed(
        self, rows: RowsT, count: int, by: Sequence[Column], order: Sequence[Column]
    ) -> RowsT:
        """The rows sorted, as they are to be written: in Spark a partition is a file.

        Args:
            count: how many they are.
            by: the first of ``order``: partitions have disjoint ranges of it.
        """

    def filed_beside(
        self, rows: RowsT, count: int, by: Sequence[Column], order: Sequence[Column]
    ) -> RowsT:
        """As `filed`, for what is written while versions go on: by half of the tasks at most."""

    def clustered(
        self, rows: RowsT, clustering: Clustering, order: Sequence[Column], least: int
    ) -> tuple[RowsT, tuple[int, ...]]:
        """As `filed`, by partitions: a file has one of so many rows, or some smaller ones.

        Args:
            order: what rows are sorted by; the column of the partitions is the first.

        Returns:
            The rows, and before which of them a file ends; in Spark a partition of the DataFrame is
            a file.
        """

    def first(
        self, new: RowsT, count: int, layout: Layout, clustering: Clustering | None = None
    ) -> Compared:
        """The comparison where there was no row before.

        Args:
            new: all rows of the content, unsorted.
            clustering: by which partitions they will be stored, if windows are over them.
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
        """Compare what is there with what is there after ``new`` has come, and some has gone.

        Args:
            before: content rows: all of the keys in question, and perhaps of others.
            gone: the keys whose rows go: source keys, in a source the keys themselves; all if None.
            new: content rows that come.
            all_differ: no row before can be equal to one after.
        """

    def updates(self, compared: RowsT, layout: Layout) -> RowsT:
        """The updates of what was compared (S7), without ``_version``, in the key's order."""

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
        """The rows that came and went after version ``since``.

        Args:
            before: rows of the content at that version: all those of the keys that have updates,
                and perhaps some of others; None if there are none.
            updates: the updates of all versions after it, up to the one that is asked for.
            times: when these versions were published, by number (`change_feed.TIMES`).

        Returns:
            `feed_columns`: of each key, for ``net``, one difference, under the last version that
            changed it; for ``complete`` one for each of those versions.
        """

    def give_numbers(
        self, before: Rows, new: Rows, layout: Layout, surrogate: str, last: int
    ) -> tuple[RowsT, int]:
        """Fill the surrogate of new rows: each key keeps its number, new ones get the next (S12).

        Args:
            before: content before the step, of all keys of the new rows at least.
            new: content rows that a function emitted.
            surrogate: the value column to be filled.
            last: the last number given out.

        Returns:
            The new rows, and the last number given out now.
        """

    def some(self, parts: Sequence[Rows], columns: Sequence[Column], most: int) -> RowsT:
        """Of all parts, in these columns of each by their place, so many distinct rows at random.

        Args:
            parts: rows that have no other columns.
        """

    def latest(self, updates: Rows, layout: Layout) -> RowsT:
        """Of each key the updates of the last version that has some, in the columns of updates.

        Args:
            updates: of one version after the other.
        """

    def folded(self, updates: Rows, layout: Layout) -> RowsT:
        """The content that a stage's updates come to (S16).

        Args:
            updates: of one version after the other.

        Returns:
            The content's columns; of no source key, and numbered within their key.
        """

    def unfolded(
        self, updates: Rows | None, content: Rows | None, layout: Layout, *, complete: bool
    ) -> int:
        """Of how many keys the rows are not those that their updates come to.

        Args:
            updates: of one version after the other, up to that of the content; None if none are.
            content: None if there are no rows.
            complete: the updates are all that there ever were; else only keys that have some count.
        """

    def faults(self, updates: Rows, layout: Layout, head: int) -> Mapping[str, int]:
        """How many keys the updates of some version speak of as no version does.

        Args:
            updates: all that are stored.
            head: the number of the newest version.

        Returns:
            `marks.FAULTS`: of versions that there are not; not numbered from 0; with words other
            than those of a version; gone, or new, or changed, when they were not there, or were.
        """

    def pair_faults(
        self, content: Rows, mappings: Rows | None, layout: Layout
    ) -> Mapping[str, int]:
        """Whether content is numbered, and key mappings are those of the content.

        Args:
            mappings: None for a source, which has none.

        Returns:
            `marks.PAIR_FAULTS`: the rows of the content; pairs of source key and key that are not
            numbered from 0; that key mappings lack; and that they have once too often.
        """
