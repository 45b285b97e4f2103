"""A producer's function over rows: called once per key; its emissions are typed and numbered.

Rows come partitioned and sorted by key, so a key is a run of adjacent rows. Values stream into the
function and emissions stream out: a key with more values or emissions than fit in memory is no
special case.

The invariant: every key is one call, however Spark cuts the rows into batches, and every emission
keeps the source key of its call, copied from the input's arrays, and its number in the call.

Any mistake of the user's code raises a `ProducerError`. `key_groups` groups rows by key, `types`
converts values, and `failures` carries an error out of the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from itertools import chain
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import numpy as np
import pyarrow as pa

from deltaproduce.engines.failures import BatchFunction, in_worker
from deltaproduce.engines.spark.columns import by_number
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.engines.spark.executors.failures import raised_by_producer
from deltaproduce.errors import ProducerError
from deltaproduce.model.graph import Stage
from deltaproduce.stages.functions.key_groups import Blocks, Continuation, RowBlock
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import ORDINAL, SOURCE_PREFIX, RowSchema
from deltaproduce.types.data_types import LongType, StructField, StructType
from deltaproduce.types.excerpts import described, shown
from deltaproduce.types.row_writers import EmissionWriter, emission_writer, settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["KeyValues", "calls", "output_struct", "produced", "raised_by_producer"]


def produced(rows: DataFrame, stage: Stage, run: BatchFunction) -> DataFrame:
    """Call a stage's function for every key of ``rows``, in Spark.

    Costs one pass over the rows in Python: roughly 0.3 microseconds per row of two values, and 1
    per key and per emission, plus the function's own time.

    Args:
        rows: the source key columns, then the value columns. Rows with equal keys are in one
            partition and adjacent, in the order of their values. For a join, the number of the
            row's input stands between both, followed by the value columns of all inputs, null for
            other inputs; a key's rows are in the order of the inputs.
        stage: the producer.
        run: processes one partition of the rows, as returned by `calls` for functions by key.

    Returns:
        The emissions, lazily: ``_source_<key column of the feeder>``…, the stage's key columns,
        ``_ordinal`` (the emission's number in its call, from 0), the stage's value columns. An
        error while running it becomes a ProducerError in `failures.raised_by_producer`.
    """
    return by_number(rows).mapInArrow(in_worker(run), in_spark(output_struct(stage)))


def output_struct(stage: Stage) -> StructType:
    """Return the columns of `produced`."""
    source = stage.feeders[0].schema.key.struct
    return StructType(
        [
            *(StructField(SOURCE_PREFIX + field.name, field.dataType) for field in source.fields),
            *stage.schema.key.struct.fields,
            StructField(ORDINAL, LongType()),
            *stage.schema.value.struct.fields,
        ]
    )


def calls(stage: Stage, function: Callable[..., Iterable[Any]], zone: tzinfo) -> BatchFunction:
    """Return the function that `produced` runs on one partition; cloudpickle can pickle it.

    Args:
        stage: the producer; only the schemas of its feeders are pickled with it.
        zone: the clock on which the function sees timestamps.

    Returns:
        A function from input batches to output batches, both lazy. It holds one input batch and a
        bounded number of emissions, and raises ProducerError.
    """
    name, names = stage.name, output_struct(stage).names
    source, target = stage.feeders[0].schema.key, stage.schema
    values = [merged[0].schema.value for merged in stage.inputs]
    writer = emission_writer(target, zone, stage.kind.key_use.numbered)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks = Blocks(batches, source, values, zone, stage=name)
        return _emitted(name, function, blocks, _Emissions(name, target, writer, names))

    return run


class _Call:
    """The current call: its stage and its key.

    Args:
        blocks: the input of all calls.
    """

    __slots__ = ("_blocks", "key", "stage")
    key: object

    def __init__(self, stage: str, blocks: Blocks) -> None:
        self.stage = stage
        self._blocks = blocks

    def values(self, rows: Iterator[Any]) -> KeyValues:
        """Return the values of one input for the function; a wrong pass is the call's error."""
        end = _End()
        values = KeyValues(rows, end)
        values._call, values._end = self, end
        return values

    def fail(self, error: BaseException) -> NoReturn:
        """Raise the ProducerError for an error in the call."""
        if not isinstance(error, MemoryError):  # the function held the memory
            self._blocks.check()  # an error of the input is not the function's
        stage, key = self.stage, self.key
        if isinstance(error, ProducerError) and error.stage is not None:
            raise error
        if isinstance(error, Misfit):
            message = f"stage {stage!r}, key {shown(key)}: {error}"
            raise ProducerError(message, stage=stage, key=key) from None
        message = f"stage {stage!r} failed for key {shown(key)}: {described(error)}"
        raise ProducerError(message, stage=stage, key=key) from error


class _End:
    """An iterable of nothing that knows whether it was reached."""

    is_reached = False

    def __iter__(self) -> Iterator[Any]:
        self.is_reached = True
        return _NOTHING


_NOTHING: Final[Iterator[Any]] = iter(())


class KeyValues(chain[Any]):
    """The values of one key, as they stream in: in order, once.

    A loop may stop early, and another may continue from there. A pass after the end would silently
    see nothing, so it raises ProducerError. Creation and iteration run in C: there is one object
    for each of millions of keys, most of which have few values.
    """

    __slots__ = ("_call", "_end")
    _call: _Call
    _end: _End

    def __iter__(self) -> Self:
        if self._end.is_reached:  # so all rows were read
            stage, key = self._call.stage, self._call.key
            message = (
                f"stage {stage!r}, key {shown(key)}: the values were already read to their end and "
                "stream by only once; keep them with rows = list(values) to read them again"
            )
            raise ProducerError(message, stage=stage, key=key)
        return self


_MOST_ROWS: Final = 2_000  # larger batches outlive the young generations of the garbage collector
_MOST_BYTES: Final = 4 << 20
_FIRST_ROWS: Final = 256


def _emitted(
    stage: str, function: Callable[..., Iterable[Any]], blocks: Blocks, buffer: _Emissions
) -> Iterator[pa.RecordBatch]:
    """Call the function key by key, block by block."""
    block, first = next(blocks, None), 0
    call = _Call(stage, blocks)
    while block is not None:
        buffer.start(block, first)
        continuation = Continuation(blocks, block)
        yield from _emitted_in(block, first, function, call, continuation, buffer)
        if buffer.rows:
            yield buffer.flush()
        block, first = continuation.skip()


def _emitted_in(
    block: RowBlock,
    first: int,
    function: Callable[..., Iterable[Any]],
    call: _Call,
    continuation: Continuation,
    buffer: _Emissions,
) -> Iterator[pa.RecordBatch]:
    """Call the function for the runs of a block: the hot loop, in which each helper would count."""
    rows, ends = buffer.rows, buffer.ends
    last, is_alone = len(block.keys) - 1, len(block.rows) == 1
    for index, (key, inputs) in enumerate(block.runs(first), first):
        values = inputs if index < last else continuation.with_more(inputs)
        call.key = key
        try:
            if is_alone:
                emissions = function(key, call.values(values[0]))
            else:
                emissions = function(key, *map(call.values, values))
            if type(emissions) is not GeneratorType:
                emissions = _iterator(emissions)
            try:
                for emission in emissions:
                    rows.append(settled(emission))
                    if len(rows) >= buffer.most_rows:
                        yield buffer.flush()
            except BaseException:
                _close(emissions)
                raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 all are reported
            call.fail(error)
        ends.append(len(rows))
        for _ in chain.from_iterable(inputs):  # the unread rows
            pass


def _close(emissions: Iterator[Any]) -> None:
    if isinstance(emissions, GeneratorType):
        emissions.close()


def _iterator(emissions: object) -> Iterator[Any]:
    """Return an iterator over the function's result, or refuse it."""
    if isinstance(emissions, GeneratorType):
        return emissions
    if emissions is None:
        raise Misfit("the function returned None; let it yield (key, value) pairs, or return []")
    if isinstance(emissions, str | bytes | Mapping) or not isinstance(emissions, Iterable):
        message = f"the function returned {shown(emissions)}; return an iterable of (key, value)"
        raise Misfit(message)
    return iter(emissions)


class _Emissions:
    """A bounded buffer of emissions, with the call of a block that made each of them.

    The bound is a number of rows, adapted to the size in bytes of the rows written so far.

    Attributes:
        rows: the emissions.
        ends: the number of rows at the end of each call.
        most_rows: how many rows it holds.
    """

    def __init__(
        self, stage: str, schema: RowSchema, write: EmissionWriter, names: Sequence[str]
    ) -> None:
        self.rows: list[Any] = []
        self.ends: list[int] = []
        self.most_rows = _FIRST_ROWS
        self._stage = stage
        self._schema = schema
        self._names = names
        self._write = write

    def start(self, block: RowBlock, first_call: int) -> None:
        """Start the calls for the runs of a block, from the given one on."""
        self._block = block
        self._first_call = first_call
        self._first_ordinal = 0
        self.ends.clear()

    def flush(self) -> pa.RecordBatch:
        """Return the buffer as a batch; the current call may continue in the next one."""
        size = len(self.rows)
        ends = np.array([*self.ends, size])
        starts = np.concatenate(([-self._first_ordinal], ends[:-1]))
        counts = ends - np.maximum(starts, 0)
        calls = self._first_call + np.repeat(np.arange(len(ends)), counts)
        ordinals = np.arange(size) - np.repeat(starts, counts)
        try:
            keys, values = self._write(self.rows)
        except Misfit as misfit:
            raise self._refused(calls.tolist(), misfit) from misfit.__cause__
        sources = [column.take(pa.array(calls)) for column in self._block.sources]
        arrays = [*sources, *keys, pa.array(ordinals, pa.int64()), *values]
        batch = pa.RecordBatch.from_arrays(arrays, names=self._names)
        self._first_call += len(self.ends)
        self._first_ordinal = size - int(starts[-1])
        self.ends.clear()
        self.rows.clear()
        within_bytes = _MOST_BYTES * size // max(batch.nbytes, 1)
        self.most_rows = max(1, min(_MOST_ROWS, 2 * self.most_rows, within_bytes))
        return batch

    def _refused(self, calls: Sequence[int], misfit: Misfit) -> ProducerError:
        """Find the emission that does not fit, by writing one at a time."""
        for call, emission in zip(calls, self.rows, strict=True):
            try:
                self._write([emission])
            except Misfit as error:
                key = self._block.keys[call]
                message = (
                    f"stage {self._stage!r}, key {shown(key)}: emitted {shown(emission)}, which "
                    f"does not fit key ({self._schema.key.ddl}) and value "
                    f"({self._schema.value.ddl}): {error}"
                )
                return ProducerError(message, stage=self._stage, key=key)
        return ProducerError(f"stage {self._stage!r}: {misfit}", stage=self._stage)
