"""A producer's function over Arrow: called for a table of many whole keys, or a key that streams.

The rows come partitioned and sorted by key, as for a function over rows. They are cut between keys
into tables of bounded size; or each key is handed over as an iterator of batches, so that one with
more rows than fit in memory is no special case.

Invariant: every key is in one call, with all its rows in order, however Spark cuts the rows into
batches. Every row that comes back belongs to a source key of its call, copied from the input's own
arrays, and has its number in the call.

No value becomes a Python object here, except in errors. What a function may return is in
`emitted_tables`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
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
from deltaproduce.stages.functions.emitted_tables import RowMisfit, SourceKeys, TableReader
from deltaproduce.stages.functions.key_groups import StickyErrors, key_changes, same_key
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.excerpts import described, shown
from deltaproduce.types.row_readers import RowReader, UnreadableError, row_reader

Batches: TypeAlias = Iterator[pa.RecordBatch]


def calls(
    stage: Stage,
    function: Callable[[Any], Any],
    zone: tzinfo,
    names: Sequence[str],
    *,
    streaming: bool,
) -> Callable[[Batches], Batches]:
    """Returns what `by_key.produced` does to one partition if the function takes Arrow.

    Args:
        stage: the producer; of its feeder only the schema is taken along.
        zone: the clock on which errors show the timestamps of keys.
        names: the names of the output's columns.
        streaming: call it for each key, with an iterator over batches.

    Returns:
        A function from the input's batches to the output's, both lazy, which raises ProducerError.
        It holds some 10,000 rows, or 16 MiB, of the input, but in a table all of one key; and what
        the function returns at a time.
    """
    feeder = stage.feeders[0].schema
    reader = TableReader(Layout.of(stage).sources, stage.schema)
    by_name = _Calls(stage.name, function, reader, row_reader(feeder.key, zone), names)
    call = by_name.by_key if streaming else by_name.by_table
    declared = feeder.names

    def run(batches: Batches) -> Batches:
        return call(batch.rename_columns(declared) for batch in batches)

    return run


class KeyBatches(Batches):
    """The rows of one key as they stream in, once, in batches.

    A loop may stop early and another go on from there. Once the end was reached, a further pass
    raises what ``mistake`` makes, since it would silently see nothing.
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
    """How one stage's function is called, and what is made of what it returns."""

    stage: str
    function: Callable[[Any], Any]
    reader: TableReader
    read_keys: RowReader
    names: Sequence[str]

    def by_table(self, batches: Batches) -> Batches:
        """Calls the function with tables of whole keys."""
        for table, arrays in _tables(batches, self._key_width):
            keys = SourceKeys(self.reader.sources, arrays)
            try:
                yield from self._written(self.function(table), keys, 0)
            except (Exception, SystemExit) as error:  # noqa: BLE001 all is told
                self._fail(error, keys)

    def by_key(self, batches: Batches) -> Batches:
        """Calls the function with the batches of one key after the other."""
        pieces = StickyErrors(_pieces_of_keys(batches, self._key_width))
        for _, numbered in groupby(pieces, key=itemgetter(0)):  # skips what is left unread
            of_key = map(itemgetter(1), numbered)
            first = next(of_key)
            arrays = [column.slice(0, 1) for column in first.columns[: self._key_width]]
            keys = SourceKeys(self.reader.sources, arrays)
            try:
                yield from self._streamed(chain((first,), of_key), keys)
            except (Exception, SystemExit) as error:  # noqa: BLE001 all is told
                if not isinstance(error, MemoryError):  # whoever asked for it, the function held it
                    pieces.check()  # a failure of the input is not the function's
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
        """Yields what came back, its rows numbered; returns the number after the last."""
        for batch in self.reader.batches(returned):
            for rows in _pieces(batch):
                sources, key, values = self.reader.arrays(rows, keys)
                ordinals = pa.array(np.arange(ordinal, ordinal + len(rows)))
                ordinal += len(rows)
                arrays = [*sources, *key, ordinals, *values]
                yield pa.RecordBatch.from_arrays(arrays, names=self.names)
        return ordinal

    def _fail(self, error: BaseException, keys: SourceKeys) -> NoReturn:
        """Raises the ProducerError for what went wrong in a call."""
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
        """Returns a key as functions over rows get it, and how a message names it."""
        try:
            (key,) = self.read_keys(arrays)
        except UnreadableError as error:
            return None, f"a key that Python cannot read ({error})"
        return key, f"key {shown(key)}"


def _iterator(returned: object) -> Iterator[Any]:
    """Returns an iterator over what a streaming function returned, or refuses it."""
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        message = f"the function returned {type(returned).__name__} {shown(returned)}"
        raise Misfit(f"{message}; let it yield pyarrow RecordBatches or Tables, or return []")
    return iter(returned)


def _tables(batches: Batches, width: int) -> Iterator[tuple[pa.Table, list[pa.Array]]]:
    """Cuts a stream into tables of whole keys: of about so many rows, or of one key.

    Returns:
        Tables, and the key columns of each with one row a key.
    """
    held: list[tuple[pa.RecordBatch, Numbers]] = []
    n_rows = n_bytes = 0
    for piece, starts in _cut(batches, width):
        begins_table = not held
        held.append((piece, starts))
        n_rows, n_bytes = n_rows + piece.num_rows, n_bytes + piece.nbytes
        if (n_rows >= _MOST_ROWS or n_bytes >= _MOST_BYTES) and len(starts) > begins_table:
            end = int(starts[-1])  # the last key may go on
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
    """Cuts a stream into pieces of one key each, and numbers the keys."""
    number = 0
    for piece, starts in _cut(batches, width):
        ends = [*starts.tolist(), piece.num_rows]
        if ends[0]:
            yield number, piece.slice(0, ends[0])
        for start, end in pairwise(ends):
            number += 1
            yield number, piece.slice(start, end - start)


def _cut(batches: Batches, width: int) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
    """Cuts a stream into pieces of bounded size, and tells at which rows of each a key begins."""
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
