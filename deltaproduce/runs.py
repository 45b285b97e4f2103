"""Runs of equal keys in a stream of Arrow batches that is sorted by key.

A batch is cut into blocks, a block into runs: the rows of one key. Only the last run of a block may
go on in the next ones, so most keys cost a slice of an iterator; a `Continuation` follows the last.

Invariant: at most two blocks are held, however long a run is, and null equals null. A stream that
failed fails again at every further read: no one who swallows the failure can take it for the end.

It stands apart because it is a matter of keys alone: no produce function, no emissions.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from functools import reduce
from itertools import islice
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.errors import ProducerError
from deltaproduce.failures import shown
from deltaproduce.rows import RowReader, UnreadableError, row_reader
from deltaproduce.schemas import RowSchema


@dataclass(frozen=True, slots=True)
class Block:
    """Some adjacent rows, cut into runs.

    Attributes:
        sources: the key columns, one row a run.
        keys: the same keys as Python values.
        sizes: how many rows each run has here.
        rows: the values as Python values, run after run; whoever reads a run reads it to its end
            before the next.
        continues: whether the first run belongs to the key of the block before.
    """

    sources: list[pa.Array]
    keys: list[Any]
    sizes: list[int]
    rows: Iterator[Any]
    continues: bool

    def next_rows(self, run: int) -> Iterator[Any]:
        """Returns the values of a run, those before having been read."""
        return islice(self.rows, self.sizes[run])


class Blocks(Iterator[Block]):
    """The blocks of a stream of batches.

    Args:
        batches: the key columns, then the value columns; equal keys are adjacent.
        schema: the declared columns of the batches.
        zone: the clock on which timestamps become naive datetimes.
        stage: the stage that reads them, for errors.

    Raises:
        ProducerError: when iterated: a value has no Python object, such as a date after 9999.
    """

    def __init__(
        self, batches: Iterator[pa.RecordBatch], schema: RowSchema, zone: tzinfo, *, stage: str
    ) -> None:
        reader = _BlockReader(
            row_reader(schema.key, zone), row_reader(schema.value, zone), len(schema.key), stage
        )
        self._blocks = reader.blocks(batches)
        self._failure: BaseException | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Block:
        self.check()
        try:
            return next(self._blocks)
        except StopIteration:
            raise
        except BaseException as failure:
            self._failure = failure
            raise

    def check(self) -> None:
        """Raises what reading the stream raised before, if it did."""
        if self._failure is not None:
            raise self._failure


class Continuation(Iterator[Iterator[Any]]):
    """Those rows of a block's last run that come in further blocks: one item a block.

    It reads blocks as needed. Once the run was skipped, it has no more items.
    """

    __slots__ = ("_blocks", "_following", "_open", "_rows")

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._following: Block | None = None
        self._rows: Iterator[Any] = iter(())
        self._open = True

    def __next__(self) -> Iterator[Any]:
        if not self._open:
            raise StopIteration
        following = self._following = next(self._blocks, None)
        if following is None or not following.continues:
            self._open = False
            raise StopIteration
        self._open = len(following.keys) == 1
        self._rows = following.next_rows(0)
        return self._rows

    def skip(self) -> tuple[Block | None, int]:
        """Passes over what was not read of the run.

        Returns:
            The block in which the next run starts, and its index there; None after the last.
        """
        skip(self)
        skip(self._rows)
        following = self._following
        return following, int(following is not None and following.continues)


def skip(rows: Iterator[Any]) -> None:
    """Reads an iterator to its end."""
    deque(rows, maxlen=0)


_BLOCK_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class _BlockReader:
    read_keys: RowReader
    read_values: RowReader
    key_width: int
    stage: str

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Block]:
        last_key: list[pa.Array] | None = None
        for batch in batches:
            for offset in range(0, batch.num_rows, _BLOCK_ROWS):
                columns = batch.slice(offset, _BLOCK_ROWS).columns
                yield self._block(columns, last_key)
                last_key = [column.slice(len(column) - 1) for column in columns[: self.key_width]]

    def _block(self, columns: list[pa.Array], last_key: list[pa.Array] | None) -> Block:
        keys = columns[: self.key_width]
        starts = np.concatenate(([0], np.flatnonzero(_changes(keys)) + 1))
        sources = [column.take(pa.array(starts)) for column in keys]
        try:
            return Block(
                sources=sources,
                keys=list(self.read_keys(sources)),
                sizes=np.diff(starts, append=len(columns[0])).tolist(),
                rows=self.read_values(columns[self.key_width :]),
                continues=last_key is not None and _equal(last_key, sources),
            )
        except UnreadableError as error:
            raise self._unreadable(columns, error) from error

    def _unreadable(self, columns: list[pa.Array], error: UnreadableError) -> ProducerError:
        """Names the key of the first row that cannot be read, unless it is the key itself."""
        where, key = "a key", None
        for index in range(len(columns[0])):
            row = [column.slice(index, 1) for column in columns]
            try:
                (key,) = self.read_keys(row[: self.key_width])
                where = f"the values of key {shown(key)}"
                self.read_values(row[self.key_width :])
            except UnreadableError:
                break
        message = f"stage {self.stage!r} cannot read {where}: {error}; correct or remove it"
        return ProducerError(message, stage=self.stage, key=key)


def _changes(columns: list[pa.Array]) -> NDArray[np.bool_]:
    """Returns, for each row but the first, whether its key differs from the one before."""
    changes = reduce(pc.or_, map(_column_changes, columns))
    changed: NDArray[np.bool_] = changes.to_numpy(zero_copy_only=False)
    return changed


def _column_changes(column: pa.Array) -> pa.Array:
    before, after = column.slice(0, len(column) - 1), column.slice(1)
    changed = pc.not_equal(before, after)
    if column.null_count == 0:
        return changed
    return pc.coalesce(changed, pc.not_equal(before.is_null(), after.is_null()))


def _equal(key: list[pa.Array], keys: list[pa.Array]) -> bool:
    """Compares the only row of one with the first of the other."""
    pairs = zip(key, keys, strict=True)
    return not any(_changes([pa.concat_arrays([one, other.slice(0, 1)]) for one, other in pairs]))
