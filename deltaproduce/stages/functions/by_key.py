"""A producer's function over rows: called once for each key, its emissions typed and numbered.

The rows come partitioned and sorted by key, so a key is a run of adjacent rows. The values are
handed to the function as they stream in, and what it emits streams out: a key with more values, or
more emissions, than fit in memory is no special case.

Invariant: every key is one call, however Spark cuts the rows into batches, and every emission
keeps the source key of its call, copied from the input's own arrays, and its number in the call.

What a user's code may do wrong here ends in a `ProducerError`. How rows become groups of one key is
in `key_groups`, how values are converted in `types`, how an error leaves the worker in `failures`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from itertools import chain, islice
from types import GeneratorType
from typing import Any, Final, NoReturn, Self

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from deltaproduce.engines.failures import BatchFunction, in_worker
from deltaproduce.engines.spark.failures import raised_by_producer
from deltaproduce.errors import ProducerError
from deltaproduce.model.graph import Stage
from deltaproduce.stages.functions.key_groups import Block, Blocks, Continuation, skip_all
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import ORDINAL, SOURCE_PREFIX, RowSchema
from deltaproduce.types.excerpts import described, shown
from deltaproduce.types.row_writers import EmissionWriter, emission_writer, settled

__all__ = ["Values", "calls", "output_struct", "produced", "raised_by_producer"]


def produced(rows: DataFrame, stage: Stage, run: BatchFunction) -> DataFrame:
    """Calls a stage's function for every key of ``rows``, in Spark.

    Costs one pass over the rows in Python: roughly 0.3 microseconds a row of two values, and 1 for
    each key and each emission, beside the function's own time.

    Args:
        rows: the source key columns, then the value columns. Rows with equal keys are in one
            partition and adjacent, in the order of their values. Those of a join have, between
            both, the number of the row's input, and the value columns of all inputs, where the
            others' are null; a key's rows are in the order of the inputs.
        stage: the producer.
        run: what is done to one partition of the rows, as `calls` says it of functions by key.

    Returns:
        The emissions, lazily: ``_source_<key column of the feeder>``…, the stage's key columns,
        ``_ordinal`` (the emission's number within its call, from 0), the stage's value columns.
        Running it raises what `failures.raised_by_producer` turns into a ProducerError.
    """
    numbered = rows.toDF(*map(str, range(len(rows.columns))))  # Spark misreads names with dots
    return numbered.mapInArrow(in_worker(run), output_struct(stage))


def output_struct(stage: Stage) -> StructType:
    """Returns the columns of `produced`."""
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
    """Returns what `produced` does to one partition, as a function that cloudpickle can pickle.

    Args:
        stage: the producer; of its feeders only the schemas are taken along.
        zone: the clock on which the function sees timestamps.

    Returns:
        A function from the input's batches to the output's, both lazy. It holds one input batch
        and a bounded number of emissions, and raises ProducerError.
    """
    name, names = stage.name, output_struct(stage).names
    source, target = stage.feeders[0].schema.key, stage.schema
    values = [merged[0].schema.value for merged in stage.inputs]
    writer = emission_writer(target, zone, stage.kind.numbered)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        blocks = Blocks(batches, source, values, zone, stage=name)
        return _emitted(name, function, blocks, _Emissions(name, target, writer, names))

    return run


class _Call:
    """The call that is under way: of which stage's function, and for which key."""

    __slots__ = ("key", "stage")
    key: object

    def __init__(self, stage: str) -> None:
        self.stage = stage


class Values(chain[Any]):
    """The values of one key, read as they stream in: any number of them, in order, once.

    A loop may stop early and another go on from there. Once the end was reached, a further pass
    is a mistake that would silently see nothing, so it raises ProducerError. Reading runs in C:
    there is one of these for each of millions of keys, and most have few values.
    """

    __slots__ = ("_call", "_end")
    _call: _Call
    _end: Any  # a generator: typing knows no gi_frame

    def __new__(cls, call: _Call, rows: Iterable[Any]) -> Self:
        """Returns them, from an iterable over the rows; a wrong pass is the call's error."""
        end = _end()
        values = chain.__new__(cls, rows, end)  # super() would cost a sixth of the whole
        values._end = end
        values._call = call
        return values

    def __iter__(self) -> Self:
        if self._end.gi_frame is None:  # it ran, so all rows were read
            stage, key = self._call.stage, self._call.key
            message = (
                f"stage {stage!r}, key {shown(key)}: the values were already read to their end and "
                "stream by only once; keep them with rows = list(values) to read them again"
            )
            raise ProducerError(message, stage=stage, key=key)
        return self


def _end() -> Generator[Any, None, None]:
    yield from ()


_MOST_ROWS: Final = 2_000  # more would outlive the young generations of the garbage collector
_MOST_BYTES: Final = 4 << 20
_FIRST_ROWS: Final = 256


def _emitted(
    stage: str, function: Callable[..., Iterable[Any]], blocks: Blocks, buffer: "_Emissions"
) -> Iterator[pa.RecordBatch]:
    """Calls the function key by key: the loop that everything else is made for."""
    block, first = next(blocks, None), 0
    call = _Call(stage)
    values_of = partial(Values, call)
    while block is not None:
        buffer.start(block, first)
        continuation = Continuation(blocks, block)
        last = len(block.keys) - 1
        for index, (key, inputs) in enumerate(block.runs(first), first):
            values = inputs if index < last else continuation.with_more(inputs)
            call.key = key
            try:
                emissions = function(key, *map(values_of, values))
                if type(emissions) is not GeneratorType:
                    emissions = _iterator(emissions)
                try:
                    while buffer.fill(emissions):
                        yield buffer.flush()
                except BaseException:
                    if isinstance(emissions, GeneratorType):
                        emissions.close()
                    raise
            except (Exception, SystemExit) as error:  # noqa: BLE001 all is told
                if not isinstance(error, MemoryError):  # whoever asked for it, the function held it
                    blocks.check()  # a failure of the input is not the function's
                _raise_failure(error, stage, key)
            buffer.end_call()
            skip_all(inputs)
        if buffer.rows:
            yield buffer.flush()
        block, first = continuation.skip()


def _raise_failure(error: BaseException, stage: str, key: object) -> NoReturn:
    """Raises the ProducerError for what went wrong in a call."""
    if isinstance(error, ProducerError) and error.stage is not None:
        raise error
    if isinstance(error, Misfit):
        message = f"stage {stage!r}, key {shown(key)}: {error}"
        raise ProducerError(message, stage=stage, key=key) from None
    message = f"stage {stage!r} failed for key {shown(key)}: {described(error)}"
    raise ProducerError(message, stage=stage, key=key) from error


def _iterator(emissions: object) -> Iterator[Any]:
    """Returns an iterator over what the function returned, or refuses it."""
    if isinstance(emissions, GeneratorType):
        return emissions
    if emissions is None:
        raise Misfit("the function returned None; let it yield (key, value) pairs, or return []")
    if isinstance(emissions, str | bytes | Mapping) or not isinstance(emissions, Iterable):
        message = f"the function returned {shown(emissions)}; return an iterable of (key, value)"
        raise Misfit(message)
    return iter(emissions)


class _Emissions:
    """A bounded buffer of emissions, and of which call of a block made each of them.

    Its bound is a number of rows, which adapts to the size in bytes of the rows written before.
    """

    def __init__(
        self, stage: str, schema: RowSchema, write: EmissionWriter, names: Sequence[str]
    ) -> None:
        self.rows: list[Any] = []
        self._stage = stage
        self._schema = schema
        self._names = names
        self._write = write
        self._most_rows = _FIRST_ROWS

    def start(self, block: Block, first_call: int) -> None:
        """Takes the calls for the runs of a block, from the given one on."""
        self._block = block
        self._first_call = first_call
        self._first_ordinal = 0
        self._ends: list[int] = []

    def fill(self, emissions: Iterator[Any]) -> bool:
        """Takes emissions of the current call; returns whether it stopped because it is full."""
        rows = self.rows
        rows.extend(map(settled, islice(emissions, self._most_rows - len(rows))))
        return len(rows) >= self._most_rows

    def end_call(self) -> None:
        """Ends the current call, so that the next run's begins."""
        self._ends.append(len(self.rows))

    def flush(self) -> pa.RecordBatch:
        """Returns what is buffered as a batch; the current call may go on with the next one."""
        size = len(self.rows)
        ends = np.array([*self._ends, size])
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
        self._first_call += len(self._ends)
        self._first_ordinal = size - int(starts[-1])
        self._ends, self.rows = [], []
        within_bytes = _MOST_BYTES * size // max(batch.nbytes, 1)
        self._most_rows = max(1, min(_MOST_ROWS, 2 * self._most_rows, within_bytes))
        return batch

    def _refused(self, calls: Sequence[int], misfit: Misfit) -> ProducerError:
        """Finds the emission that does not fit, by writing one at a time."""
        for call, emission in zip(calls, self.rows, strict=True):
            try:
                self._write([emission])
            except Misfit as found:
                key = self._block.keys[call]
                message = (
                    f"stage {self._stage!r}, key {shown(key)}: emitted {shown(emission)}, which "
                    f"does not fit key ({self._schema.key.ddl}) and value "
                    f"({self._schema.value.ddl}): {found}"
                )
                return ProducerError(message, stage=self._stage, key=key)
        return ProducerError(f"stage {self._stage!r}: {misfit}", stage=self._stage)
