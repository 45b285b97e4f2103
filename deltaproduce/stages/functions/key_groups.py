"""Runs of equal keys in a stream of Arrow batches that is sorted by key.

A batch is cut into blocks, a block into runs: the rows of one key. Only the last run of a block may
continue in the next ones, so most keys cost one slice of an iterator; a `Continuation` handles the
last. The rows of a join come from several inputs: a run has the rows of the first, then of the
second.

The invariant: at most two blocks are held, however long a run is, unless the function reads an
input before the inputs that precede it: then these are held until they are read. Null equals null.
A stream that failed fails again at every further read, so code that swallows the failure cannot
take it for the end.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import reduce
from itertools import chain, islice, repeat
from typing import Any, Final, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.errors import ProducerError
from deltaproduce.types.columns import Columns
from deltaproduce.types.excerpts import shown
from deltaproduce.types.pandas_on_demand import in_numpy
from deltaproduce.types.python_values import python_keys
from deltaproduce.types.row_readers import RowReader, UnreadableError, row_reader

T = TypeVar("T")


class StickyErrors(Iterator[T]):
    """An iterator that, once a read failed, fails again at every further read.

    A user's function may swallow a failure; it must not be taken for the end.
    """

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._failure: BaseException | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        self.check()
        try:
            return next(self._items)
        except StopIteration:
            raise
        except BaseException as failure:
            self._failure = failure
            raise

    def check(self) -> None:
        """Raise the error of an earlier read, if there was one."""
        if self._failure is not None:
            raise self._failure


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Adjacent rows, cut into runs.

    Attributes:
        sources: the key columns, one row per run.
        keys: the same keys as Python values.
        sizes: for each input, the number of rows of each run in this block.
        rows: for each input, the values as Python values, run after run; a run must be read to its
            end before the next.
        continues: whether the first run continues the key of the block before.
    """

    sources: list[pa.Array]
    keys: list[Any]
    sizes: list[list[int]]
    rows: list[Iterator[Any]]
    continues: bool

    def runs(self, first: int) -> Iterator[tuple[Any, tuple[Iterator[Any], ...]]]:
        """Return each run from the given one on: its key, and its values for each input.

        All earlier runs have been read. A run costs no Python frame.
        """
        inputs = [
            map(islice, repeat(rows), islice(sizes, first, None))
            for rows, sizes in zip(self.rows, self.sizes, strict=True)
        ]
        return zip(islice(self.keys, first, None), zip(*inputs, strict=True), strict=True)

    def last_input(self, run: int) -> int:
        """Return the last input with rows of a run in this block."""
        return max(number for number, sizes in enumerate(self.sizes) if sizes[run])


class Blocks(StickyErrors[RowBlock]):
    """The blocks of a stream of batches.

    Args:
        batches: the key columns, then, if there are several inputs, the number of a row's input,
            then the value columns of each; equal keys are adjacent, and within them equal inputs.
        key: the key columns.
        values: for each input the value columns.
        zone: the clock on which timestamps become naive datetimes.
        stage: the stage that reads them, for errors.

    Raises:
        ProducerError: while iterating: a value has no Python object, such as a date after 9999.
    """

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        key: Columns,
        values: Sequence[Columns],
        zone: tzinfo,
        *,
        stage: str,
    ) -> None:
        readers = [row_reader(columns, zone) for columns in values]
        widths = [len(columns) for columns in values]
        reader = _BlockReader(key, zone, readers, widths, stage)
        super().__init__(reader.blocks(batches))


class Continuation:
    """The rows of a block's last run that come in further blocks.

    It reads blocks on demand. Once the run is skipped, it has no more rows.

    Args:
        blocks: the blocks that follow.
        block: the block in which the run begins.
    """

    __slots__ = ("_blocks", "_current", "_following", "_last_input", "_open", "_waiting")

    def __init__(self, blocks: Blocks, block: RowBlock) -> None:
        self._blocks = blocks
        self._following: RowBlock | None = None
        self._last_input = block.last_input(-1)
        self._current: Sequence[Iterator[Any]] = ()
        self._waiting: list[deque[Iterator[Any]]] = [deque() for _ in block.rows]
        self._open = True

    def with_more(self, inputs: Iterable[Iterator[Any]]) -> tuple[Iterator[Any], ...]:
        """Return, for each input of the run, its rows in the block, then those of later ones."""
        return tuple(
            chain(rows, chain.from_iterable(self._rows_of(number)))
            for number, rows in enumerate(inputs)
        )

    def _rows_of(self, number: int) -> Iterator[Iterator[Any]]:
        """Yield the rows of one input, one item per block; hold the rows of inputs before it."""
        waiting = self._waiting[number]
        while waiting or self._advance(number):
            if waiting:
                yield waiting.popleft()

    def skip(self) -> tuple[RowBlock | None, int]:
        """Skip the unread rest of the run.

        Returns:
            The block in which the next run starts, and its index there; None after the last.
        """
        while self._advance(len(self._waiting) - 1):
            for waiting in self._waiting:
                waiting.clear()
        skip_all(self._current)
        following = self._following
        return following, int(following is not None and following.continues)

    def _advance(self, number: int) -> bool:
        """Read a further block of the run, unless it cannot have rows of that input."""
        if not self._open or self._last_input > number:
            return False
        following = self._following = next(self._blocks, None)
        if following is None or not following.continues:
            self._open, self._current = False, ()
            return False
        self._open = len(following.keys) == 1
        self._last_input = following.last_input(0)
        _, self._current = next(following.runs(0))
        for waiting, rows in zip(self._waiting, self._current, strict=True):
            waiting.append(rows)
        return True


def key_changes(columns: Sequence[pa.Array]) -> NDArray[np.bool_]:
    """Return, for each row but the first, whether its key differs from that of the row before."""
    changes = reduce(pc.or_, map(_column_changes, columns))
    changed: NDArray[np.bool_] = np.from_dlpack(changes.cast(pa.uint8())).view(np.bool_)
    return changed  # `to_numpy` would import pandas


def same_key(key: Sequence[pa.Array], keys: Sequence[pa.Array]) -> bool:
    """Compare the only row of one with the first row of the other."""
    pairs = zip(key, keys, strict=True)
    return not any(
        key_changes([pa.concat_arrays([one, other.slice(0, 1)]) for one, other in pairs])
    )


def skip_all(parts: Iterable[Iterator[Any]]) -> None:
    """Read iterators to their ends."""
    for rows in parts:
        for _ in rows:
            pass


_BLOCK_ROWS: Final = 10_000
_Places: TypeAlias = NDArray[np.int64] | None
"""A subset of a block's rows; all of them if None."""


@dataclass(frozen=True, slots=True)
class _BlockReader:
    key: Columns
    zone: tzinfo
    read_values: Sequence[RowReader]
    value_widths: Sequence[int]
    stage: str

    @property
    def key_width(self) -> int:
        return len(self.key)

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[RowBlock]:
        last_key: list[pa.Array] | None = None
        read_keys = row_reader(self.key, self.zone)
        for batch in batches:
            for offset in range(0, batch.num_rows, _BLOCK_ROWS):
                columns = batch.slice(offset, _BLOCK_ROWS).columns
                yield self._block(columns, last_key, read_keys)
                last_key = [column.slice(len(column) - 1) for column in columns[: self.key_width]]

    def _block(
        self, columns: list[pa.Array], last_key: list[pa.Array] | None, read_keys: RowReader
    ) -> RowBlock:
        keys = columns[: self.key_width]
        starts = np.concatenate(([0], np.flatnonzero(key_changes(keys)) + 1))
        sources = [column.take(pa.array(starts)) for column in keys]
        inputs = self._inputs(columns)
        try:
            return RowBlock(
                sources=sources,
                keys=list(read_keys(sources)),
                sizes=[_sizes(starts, places, len(columns[0])) for places, _ in inputs],
                rows=self._values(inputs),
                continues=last_key is not None and same_key(last_key, sources),
            )
        except UnreadableError as error:
            raise self._unreadable(columns, error, read_keys) from error

    def _inputs(self, columns: list[pa.Array]) -> list[tuple[_Places, list[pa.Array]]]:
        """Return, for each input, the places of its rows, and its value columns there."""
        if len(self.value_widths) == 1:
            return [(None, columns[self.key_width :])]
        numbers, first = in_numpy(columns[self.key_width]), self.key_width + 1
        inputs: list[tuple[_Places, list[pa.Array]]] = []
        for number, width in enumerate(self.value_widths):
            places = np.flatnonzero(numbers == number)
            values = [column.take(pa.array(places)) for column in columns[first : first + width]]
            inputs.append((places, values))
            first += width
        return inputs

    def _values(self, inputs: list[tuple[_Places, list[pa.Array]]]) -> list[Iterator[Any]]:
        readers = zip(self.read_values, inputs, strict=True)
        return [read(columns) for read, (_, columns) in readers]

    def _unreadable(
        self, columns: list[pa.Array], error: UnreadableError, read_keys: RowReader
    ) -> ProducerError:
        """Name the key and the column of the first row that cannot be read."""
        key = None
        for index in range(len(columns[0])):
            row = [column.slice(index, 1) for column in columns]
            try:
                (key,) = python_keys(self.key, self.zone, row[: self.key_width])
                list(read_keys(row[: self.key_width]))
                self._values(self._inputs(row))
            except UnreadableError as refusal:
                error = refusal
                break
        message = (
            f"stage {self.stage!r} cannot read the rows of key {shown(key)}: {error}; correct or "
            "remove it"
        )
        return ProducerError(message, stage=self.stage, key=key, column=error.column)


def _sizes(starts: NDArray[np.int64], places: _Places, rows: int) -> list[int]:
    """Return how many rows each run has, over all rows or those at the given places."""
    ends = np.append(starts, rows)
    bounds = ends if places is None else np.searchsorted(places, ends)
    sizes: list[int] = np.diff(bounds).tolist()
    return sizes


def _column_changes(column: pa.Array) -> pa.Array:
    before, after = column.slice(0, len(column) - 1), column.slice(1)
    changed = pc.not_equal(before, after)
    if column.null_count == 0:
        return changed
    return pc.coalesce(changed, pc.not_equal(before.is_null(), after.is_null()))
