"""The writer: puts rows into the files of a data set, one partition each, and commits them.

The invariant: without a checkpoint, one commit adds all rows of the block to the data set, or none.
With a checkpoint, a row is in the data set exactly once, as soon as the commit that adds its file
also records it, wherever a writer stops and the next one continues.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from deltalake.transaction import AddAction

from deltaproduce.datasets.absorbing import settled
from deltaproduce.datasets.tables import Change, DatasetSnapshot, DataTable
from deltaproduce.datasets.writing.checkpoints import Checkpoint
from deltaproduce.datasets.writing.files import discard, written
from deltaproduce.datasets.writing.grouping import PartitionGrouping, PartitionRows
from deltaproduce.datasets.writing.pending import Pending
from deltaproduce.datasets.writing.rows import RowTaker, is_row
from deltaproduce.described.descriptor import Description
from deltaproduce.described.partitions import Values
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.spark.frames import streamed
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.errors import ClosedError, ConflictError, DeltaProduceError, InvalidArgumentError
from deltaproduce.model import arguments
from deltaproduce.stages.sources.given.required import unchecked
from deltaproduce.times.zones import zone_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOWHERE: Final[Mapping[Values, int]] = MappingProxyType({})
_CLOSED: Final = (
    "a writer writes inside of its one `with` block: with dataset.writer() as writer: …"
)
_INPUT: Final = "input"
"""The name of an unnamed checkpoint."""
_BUFFERED: Final = 1 << 14
"""Single rows are converted to Arrow in batches of this many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How a writer writes; see `Dataset.writer`.

    Attributes:
        checkpoint: the name of its checkpoint; None without one.
    """

    roll_rows: int | None
    checkpoint: str | None
    partitioned: bool
    open_files: int

    @staticmethod
    def given(
        *, roll_rows: object, checkpoint: object, partitioned: object, open_files: object
    ) -> WriterOptions:
        """Check the arguments of a user.

        Raises:
            InvalidArgumentError: one has the wrong type.
        """
        name = None if checkpoint is False else _INPUT
        if not isinstance(checkpoint, bool):
            name = arguments.text(checkpoint, "checkpoint")
        return WriterOptions(
            roll_rows=None
            if roll_rows is None
            else arguments.integer(roll_rows, "roll_rows", least=1),
            checkpoint=name,
            partitioned=arguments.flag(partitioned, "partitioned"),
            open_files=arguments.integer(open_files, "open_files", least=1),
        )

    def checkpoint_within(self, part: Mapping[str, str | None]) -> str | None:
        """Return the name of its checkpoint in a part of a data set; None without one."""
        if self.checkpoint is None or not part:
            return self.checkpoint
        return self.checkpoint + json.dumps(part, sort_keys=True)


def opened_writer(
    engines: Engines,
    table: DataTable,
    descriptor: Description,
    within: Mapping[str, str | None],
    options: WriterOptions,
) -> DatasetWriter:
    """Return a writer, after settling an interrupted absorption; see `Dataset.writer`."""
    if options.partitioned and descriptor.by is None:
        raise InvalidArgumentError(
            f"the data set at {table.address} has no partition; describe one, be it by nothing "
            "(partition='')",
            argument="partitioned",
        )
    table.check_commits()
    snapshot = settled(table)
    table.check_rules(snapshot)
    grouping = PartitionGrouping(snapshot.descriptor, table.address, within)
    return DatasetWriter(
        engines,
        table,
        snapshot,
        grouping,
        roll_rows=options.roll_rows,
        checkpoint=options.checkpoint_within(within),
        open_files=options.open_files,
    )


class DatasetWriter:
    """Writes rows in a ``with`` block; `Dataset.writer` returns one."""

    def __init__(
        self,
        engines: Engines,
        table: DataTable,
        snapshot: DatasetSnapshot,
        grouping: PartitionGrouping,
        *,
        roll_rows: int | None,
        checkpoint: str | None,
        open_files: int,
    ) -> None:
        self._engines = engines
        self._table = table
        self._opened = snapshot
        self._descriptor: Description = snapshot.descriptor
        self._grouping = grouping
        self._roll_rows = roll_rows
        self._taker = RowTaker(self._descriptor.columns, table.address, zone_of(engines.time_zone))
        self._sure, self._checks_rows = self._taker.sure, grouping.checks_rows
        self._pending = Pending(open_files, engines.limits.local_bytes)
        self._checkpoint = None if checkpoint is None else Checkpoint.of(checkpoint, snapshot)
        self._durable: dict[Values, int] = {}
        self._next = 0 if self._checkpoint is None else self._checkpoint.resume_from
        self._rows: list[Sequence[Any]] = []
        self._files: list[AddAction] = []
        self._is_open = False
        self._is_whole = True
        self._most_buffered = _BUFFERED
        self._flush()

    @property
    def resume_from(self) -> int | None:
        """The number, from 0, of the first input row that is not durable.

        None without a checkpoint. The next writer of the same checkpoint continues there.
        """
        return None if self._checkpoint is None else self._checkpoint.resume_from

    def __enter__(self) -> DatasetWriter:
        if self._next < 0:
            raise ClosedError(_CLOSED)
        self._is_open = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._check_whole()
                self._finish()
        except DeltaProduceError as failure:
            failure.resume_from = self.resume_from
            raise
        finally:
            if isinstance(error, DeltaProduceError) and error.resume_from is None:
                error.resume_from = self.resume_from
            with suppress(DeltaProduceError):  # no commit names them
                discard(self._table, self._files)
            self._is_open = False
            self._next = -1
            self._pending.close()

    def write(self, rows: object) -> None:
        """Write one row, or several.

        Args:
            rows: one row as a tuple, named tuple, dict or dataclass; a list of such rows; a pyarrow
                Table, RecordBatch or RecordBatchReader, or any object with ``__arrow_c_stream__``,
                such as a frame of pandas or Polars; with a session a Spark DataFrame.

        Raises:
            InvalidChangesError: a row does not fit; it has its number, from 0, and column. None of
                the rows of this call is written; if they came in several tables, such as those of a
                reader, the writer refuses to go on after the first one.
            ConflictError: another writer continues from the same checkpoint.
            ClosedError: the writer is used outside of its ``with`` block.
            StorageError: a file cannot be written.
        """
        if not self._is_open:
            raise ClosedError(_CLOSED)
        if not self._is_whole:
            self._check_whole()
        try:
            if type(rows) is tuple and self._sure(rows):
                self._take_values(rows)
            elif is_row(rows):
                self._take_rows([rows])
            elif isinstance(rows, list):
                self._take_rows(rows)
            elif is_frame(rows):
                self._take_frame(rows)
            else:
                self._flush()
                self._take_tables(self._taker.tables(rows, self._next))
        except DeltaProduceError as error:
            error.resume_from = self.resume_from
            raise

    def _take_frame(self, rows: DataFrame) -> None:
        """Take the rows of a DataFrame, one of its partitions at a time."""
        self._flush()
        wanted = self._taker.frame(rows, self._next)
        batches = streamed(wanted, unchecked(self._descriptor.columns.columns))
        self._take_tables(self._taker.table(table, self._next) for table in batches)

    def _take_tables(self, tables: Iterable[pa.Table]) -> None:
        """Take tables as they come; after a wrong one that is not the first, go no further."""
        first = self._next
        try:
            for table in tables:
                self._take(table)
        except BaseException:
            self._is_whole = self._is_whole and self._next == first
            raise

    def _take_rows(self, rows: Sequence[object]) -> None:
        """Take all of these rows, or none of them."""
        first, sure = self._next + len(self._rows), self._sure
        taken = [
            row if type(row) is tuple and sure(row) else self._taker.row(row, number)
            for number, row in enumerate(rows, first)
        ]
        if self._checks_rows:
            for number, values in enumerate(taken, first):
                self._grouping.check_row(values, number, self._taker)
        begin = 0
        while begin < len(taken):
            end = begin + self._most_buffered - len(self._rows)
            self._rows += taken[begin:end]
            begin = end
            if len(self._rows) >= self._most_buffered:
                self._flush()

    def _take_values(self, values: Sequence[Any]) -> None:
        """Take one row that is sure to fit its columns."""
        rows = self._rows
        if self._checks_rows:
            self._grouping.check_row(values, self._next + len(rows), self._taker)
        rows.append(values)
        if len(rows) >= self._most_buffered:
            self._flush()

    def _flush(self) -> None:
        """Take the rows that were given one by one."""
        rows, self._rows = self._rows, []
        if rows:
            self._is_whole = False
            self._take(self._taker.of_rows(rows))
        if self._checkpoint is not None and self._roll_rows is not None:
            # A file is committed with its last row, so the writer must see that row when it comes.
            self._most_buffered = min(_BUFFERED, self._roll_rows - self._pending.largest)

    def _take(self, rows: pa.Table) -> None:
        """Take rows in the declared columns, and write the files that they complete."""
        groups = [self._left(group) for group in self._grouping.groups(rows, self._next)]
        taken = [0] * len(groups)
        self._is_whole = False
        for number, place, end in self._complete(groups):
            group = groups[place]
            self._add(group, taken[place], end)
            taken[place] = end
            file = self._written(group.partition)
            if self._checkpoint is None:
                self._files.append(file)
                continue
            waiting = [*self._pending.firsts().values(), number + 1]
            waiting += [
                int(one.numbers[begun])
                for one, begun in zip(groups, taken, strict=True)
                if begun < len(one.numbers)
            ]
            self._commit([file], min(waiting), {group.partition: number + 1})
        for group, begun in zip(groups, taken, strict=True):
            self._add(group, begun, len(group.numbers))
        self._next += len(rows)
        self._is_whole = True

    def _left(self, group: PartitionRows) -> PartitionRows:
        """Return the rows of a group that are not durable yet; a resumed input has durable ones."""
        if self._checkpoint is None:
            return group
        durable = self._durable.get(group.partition)
        if durable is None:
            durable = self._checkpoint.durable_before(group.partition, self._opened)
            self._durable[group.partition] = durable
        return group.since(durable)

    def _complete(self, groups: Sequence[PartitionRows]) -> list[tuple[int, int, int]]:
        """Return the files that these rows complete, in order.

        Returns:
            The number of a file's last row, the position of its group, and the row of the group
            before which the file ends.
        """
        if self._roll_rows is None:
            return []
        return sorted(
            (int(group.numbers[end - 1]), place, end)
            for place, group in enumerate(groups)
            for end in range(
                self._roll_rows - self._pending.count(group.partition),
                len(group.numbers) + 1,
                self._roll_rows,
            )
        )

    def _add(self, group: PartitionRows, begin: int, end: int) -> None:
        if begin < end:
            rows = group.rows.slice(begin, end - begin)
            self._pending.add(group.partition, rows, int(group.numbers[begin]))

    def _written(self, partition: Values) -> AddAction:
        rows = self._pending.take(partition)
        return written(self._table, self._descriptor, partition, rows, self._engines.limits)

    def _finish(self) -> None:
        """Write and commit the remaining rows."""
        self._flush()
        partitions = self._pending.partitions
        for partition in partitions:
            self._files.append(self._written(partition))
        files, self._files = self._files, []  # from here on, the table may have them
        if self._checkpoint is None:
            if files:
                self._commit(files)
        elif files or self._next > self._checkpoint.resume_from:
            self._commit(files, self._next, dict.fromkeys(partitions, self._next))

    def _commit(
        self,
        files: Sequence[AddAction],
        resume_from: int = 0,
        durable_before: Mapping[Values, int] = _NOWHERE,
    ) -> None:
        known = self._checkpoint
        positions = {} if known is None else known.positions(resume_from, durable_before)

        def decide() -> tuple[DatasetSnapshot, Change]:
            snapshot = settled(self._table)
            self._check_same(snapshot)
            if known is not None:
                known.check(snapshot, self._table.address)
            return snapshot, Change(adds=files, positions=positions)

        try:
            self._table.committed(decide)
        except ConflictError:
            discard(self._table, files)
            raise
        if known is not None:
            self._checkpoint = replace(known, commits=known.commits + 1, resume_from=resume_from)

    def _check_whole(self) -> None:
        """Refuse to continue after rows were only partly taken, as by a failed commit.

        Raises:
            ClosedError: rows were only partly taken.
        """
        if not self._is_whole:
            raise ClosedError(
                f"this writer of {self._table.address} failed before, and has lost its place: open "
                "another one"
            )

    def _check_same(self, snapshot: DatasetSnapshot) -> None:
        if snapshot.id != self._opened.id or snapshot.descriptor != self._descriptor:
            raise ConflictError(
                f"the data set at {self._table.address} was made again, or has another description "
                "than when this writer was opened; open another one"
            )
