"""A producer's function over Arrow: called for a table of many whole keys, or a streamed key.

Rows come partitioned and sorted by key, as for a function over rows. They are cut between keys into
tables of bounded size; or each key streams as an iterator of batches, so that a key with more rows
than fit in memory is no special case.

The invariant: every key is in one call, with all its rows in order, however Spark cuts the rows
into batches. Every returned row belongs to a source key of its call, copied from the input's own
arrays, and has its number in the call.

No value becomes a Python object here, except in errors. `emitted_tables` says what a function may
return.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from itertools import chain, groupby, pairwise
from operator import itemgetter
from types import GeneratorType
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.errors import ProducerError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.functions.emitted_tables import EmittedTableReader, RowMisfit, SourceKeys
from deltaproduce.stages.functions.key_groups import StickyErrors, key_changes, same_key
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.excerpts import described, shown
from deltaproduce.types.python_values import python_keys

Batches: TypeAlias = Iterator[pa.RecordBatch]


def calls(
    stage: Stage,
    function: Callable[[Any], Any],
    zone: tzinfo,
    names: Sequence[str],
    *,
    streaming: bool,
) -> Callable[[Batches], Batches]:
    """Return the function that `by_key.produced` runs on one partition, for functions over Arrow.

    Args:
        stage: the producer; only the schema of its feeder is pickled with it.
        zone: the clock on which errors show the timestamps of keys.
        names: the names of the output's columns.
        streaming: call it per key, with an iterator over batches.

    Returns:
        A function from input batches to output batches, both lazy, which raises ProducerError. It
        holds about 10,000 rows, or 16 MiB, of the input, but all rows of one key in a table; and
        one result of the function.
    """
    feeder = stage.feeders[0].schema
    reader = EmittedTableReader(Layout.of(stage).sources, stage.schema)
    by_name = _Calls(stage.name, function, reader, partial(python_keys, feeder.key, zone), names)
    call = by_name.by_key if streaming else by_name.by_table
    declared = feeder.names

    def run(batches: Batches) -> Batches:
        return call(batch.rename_columns(declared) for batch in batches)

    return run


class KeyBatches(Batches):
    """The rows of one key, as they stream in, once, in batches.

    A loop may stop early, and another may continue from there. A pass after the end would silently
    see nothing, so it raises the error that ``mistake`` returns.
    """

    def __init__(self, batches: Batches, mistake: Callable[[], ProducerError]) -> None:
        self._batches = batches
        self._mistake = mistake
        self._ended = False

    def __iter__(self) -> Batches:
        if self._ended:
            raise self._mistake()
        return self

    def __next__(self) -> pa.RecordBatch:
        for batch in self._batches:
            return batch
        self._ended = True
        raise StopIteration


_MOST_ROWS: Final = 10_000
_MOST_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls of one stage's function, and the processing of their results."""

    stage: str
    function: Callable[[Any], Any]
    reader: EmittedTableReader
    read_keys: Callable[[Sequence[pa.Array]], tuple[Any, ...]]
    names: Sequence[str]

    def by_table(self, batches: Batches) -> Batches:
        """Call the function with tables of whole keys."""
        for table, arrays in _tables(batches, self._key_width):
            keys = SourceKeys(self.reader.sources, arrays)
            try:
                yield from self._written(self.function(table), keys, 0)
            except (Exception, SystemExit) as error:  # noqa: BLE001 all are reported
                self._fail(error, keys)

    def by_key(self, batches: Batches) -> Batches:
        """Call the function with the batches of one key after the other."""
        pieces = StickyErrors(_pieces_of_keys(batches, self._key_width))
        for _, numbered in groupby(pieces, key=itemgetter(0)):  # skips unread pieces
            of_key = map(itemgetter(1), numbered)
            first = next(of_key)
            arrays = [column.slice(0, 1) for column in first.columns[: self._key_width]]
            keys = SourceKeys(self.reader.sources, arrays)
            try:
                yield from self._streamed(chain((first,), of_key), keys)
            except (Exception, SystemExit) as error:  # noqa: BLE001 all are reported
                if not isinstance(error, MemoryError):  # the function held the memory
                    pieces.check()  # an error of the input is not the function's
                self._fail(error, keys)

    @property
    def _key_width(self) -> int:
        return len(self.reader.sources)

    def _streamed(self, of_key: Batches, keys: SourceKeys) -> Batches:
        def second_pass() -> ProducerError:
            key, said = self._shown(keys.arrays)
            message = (
                f"stage {self.stage!r}, {said}: the batches were already read to their end and "
                "stream by only once; keep them in a list to read them again"
            )
            return ProducerError(message, stage=self.stage, key=key)

        tables = _iterator(self.function(KeyBatches(of_key, second_pass)))
        ordinal = 0
        try:
            for table in tables:
                ordinal = yield from self._written(table, keys, ordinal)
        finally:
            if isinstance(tables, GeneratorType):
                tables.close()

    def _written(
        self, returned: object, keys: SourceKeys, ordinal: int
    ) -> Generator[pa.RecordBatch, None, int]:
        """Yield returned rows with numbers; return the number after the last."""
        for batch in self.reader.batches(returned):
            for rows in _pieces(batch):
                sources, key, values = self.reader.arrays(rows, keys)
                ordinals = pa.array(np.arange(ordinal, ordinal + len(rows)))
                ordinal += len(rows)
                arrays = [*sources, *key, ordinals, *values]
                yield pa.RecordBatch.from_arrays(arrays, names=self.names)
        return ordinal

    def _fail(self, error: BaseException, keys: SourceKeys) -> NoReturn:
        """Raise the ProducerError for an error in a call."""
        if isinstance(error, ProducerError) and error.stage is not None:
            raise error
        key, said = None, f"a table of {len(keys)} keys"
        if len(keys) == 1 or isinstance(error, RowMisfit):
            at_fault = error.source if isinstance(error, RowMisfit) else keys.arrays
            key, said = self._shown(at_fault)
        if isinstance(error, Misfit):
            message = f"stage {self.stage!r}, {said}: {error}"
            raise ProducerError(message, stage=self.stage, key=key) from error.__cause__
        message = f"stage {self.stage!r} failed for {said}: {described(error)}"
        raise ProducerError(message, stage=self.stage, key=key) from error

    def _shown(self, arrays: Sequence[pa.Array]) -> tuple[object, str]:
        """Return a key as functions over rows get it, and its name in a message."""
        (key,) = self.read_keys(arrays)
        return key, f"key {shown(key)}"


def _iterator(returned: object) -> Iterator[Any]:
    """Return an iterator over a streaming function's result, or refuse it."""
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        message = f"the function returned {type(returned).__name__} {shown(returned)}"
        raise Misfit(f"{message}; let it yield pyarrow RecordBatches or Tables, or return []")
    return iter(returned)


def _tables(batches: Batches, width: int) -> Iterator[tuple[pa.Table, list[pa.Array]]]:
    """Cut a stream into tables of whole keys: of about `_MOST_ROWS`, or of one key.

    Returns:
        Tables, and the key columns of each with one row per key.
    """
    held: list[tuple[pa.RecordBatch, Numbers]] = []
    n_rows = n_bytes = 0
    for piece, starts in _cut(batches, width):
        begins_table = not held
        held.append((piece, starts))
        n_rows, n_bytes = n_rows + piece.num_rows, n_bytes + piece.nbytes
        if (n_rows >= _MOST_ROWS or n_bytes >= _MOST_BYTES) and len(starts) > begins_table:
            end = int(starts[-1])  # the last key may continue
            held[-1] = piece.slice(0, end), starts[:-1]
            yield _whole(held, width)
            rest = piece.slice(end)
            held = [(rest, np.zeros(1, np.int64))]
            n_rows, n_bytes = rest.num_rows, rest.nbytes
    if held:
        yield _whole(held, width)


def _whole(
    held: Sequence[tuple[pa.RecordBatch, Numbers]], width: int
) -> tuple[pa.Table, list[pa.Array]]:
    table = pa.Table.from_batches([piece for piece, _ in held if piece.num_rows])
    firsts = pa.Table.from_batches(
        [piece.select(list(range(width))).take(pa.array(starts)) for piece, starts in held]
    )
    return table, [column.combine_chunks() for column in firsts.columns]


def _pieces_of_keys(batches: Batches, width: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut a stream into pieces of one key each, and number the keys."""
    number = 0
    for piece, starts in _cut(batches, width):
        ends = [*starts.tolist(), piece.num_rows]
        if ends[0]:
            yield number, piece.slice(0, ends[0])
        for start, end in pairwise(ends):
            number += 1
            yield number, piece.slice(start, end - start)


def _cut(batches: Batches, width: int) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
    """Cut a stream into pieces of bounded size, with the rows of each at which a key begins."""
    last: list[pa.Array] | None = None
    for batch in batches:
        for piece in _pieces(batch):
            keys = piece.columns[:width]
            starts = np.flatnonzero(key_changes(keys)) + 1
            if last is None or not same_key(last, keys):
                starts = np.concatenate(([0], starts))
            yield piece, starts
            last = [column.slice(len(column) - 1) for column in keys]


def _pieces(batch: pa.RecordBatch) -> Batches:
    n_rows = max(1, min(_MOST_ROWS, _MOST_BYTES * batch.num_rows // max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, n_rows):
        yield batch.slice(start, n_rows)
