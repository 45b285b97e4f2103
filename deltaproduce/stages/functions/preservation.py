"""Preservation: a stored value may depend on one that its target key had before (S12).

A stage's ``preserve`` function gets each emitted value together with an example: the first value
that the key had before the step, or else the first one that is stored for it. The invariant: it is
called once for each emitted row, in key order, and its result replaces the value; key, source key
and emission number stay. One worker gets all rows of a step up to a limit
(`Limits.preserved_rows`), so that its calls are sequential; beyond, each worker gets a range of
keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from deltaproduce.engines.calls import calls_beside
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.failures import BatchFunction, in_worker
from deltaproduce.engines.local.arrays import factorize, in_order
from deltaproduce.engines.spark.columns import by_number, cols, of, order, same, struct_of
from deltaproduce.engines.spark.sessions.on_demand import Window
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.errors import ProducerError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, Layout
from deltaproduce.stages.functions.key_groups import key_changes, same_key
from deltaproduce.stages.productions import Production
from deltaproduce.times.zones import zone_of
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.excerpts import described, shown
from deltaproduce.types.python_values import python_keys
from deltaproduce.types.row_readers import RowReader, UnreadableError, row_reader
from deltaproduce.types.row_writers import RowsWriter, rows_writer, settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PreserveFunction: TypeAlias = Callable[[Any, Any], Any]

_EXAMPLE: Final = "_example"
_HAS_EXAMPLE: Final = "_has_example"
_PLACE: Final = "_place"
_PART_ROWS: Final = 10_000


def preserved(
    production: Production, before: Rows, new: Rows, count: int, preserve: PreserveFunction
) -> Rows:
    """Call a stage's ``preserve`` for every new row.

    Args:
        before: content before the step, at least of all keys of the new rows.
        new: rows that the function emitted, in the content's columns.
        count: the number of new rows.
        preserve: the stage's function of that name.

    Returns:
        The rows to store, computed.

    Raises:
        ProducerError: the function failed.
    """
    if not count:
        return new
    stage, engines = production.stage, production.engines
    run = calls(stage, preserve, zone_of(engines.time_zone))
    tasks = engines.limits.preserving_tasks(count)
    if calls_beside(engines, before, new):
        layout = Layout.of(stage)
        by = layout.key if tasks > 1 else ()
        rows = engines.by_ranges(
            [engines.of(before).here(before, layout.content), new],
            layout.key,
            lambda old, arriving: _with_examples(old, arriving, layout),
        )
        beside = production.beside(rows, by, run)
        if beside is not None:
            return beside[0]
    content = production.content
    old, arriving = engines.frame(before, content), engines.frame(new, content)
    return production.computed(_in_tasks(old, arriving, tasks, stage, run))[0]


def _with_examples(before: pa.Table, new: pa.Table, layout: Layout) -> pa.Table:
    """Return the input of `calls` for rows on the driver."""
    old, rows = in_order(before, layout.order(CONTENT)), in_order(new, layout.order(CONTENT))
    names = [c.name for c in layout.key]
    keys = factorize(pa.concat_tables([old.select(names), rows.select(names)]).columns)
    first = np.full(keys.max(initial=-1) + 1, -1)
    first[keys[: len(old)][::-1]] = np.arange(len(old))[::-1]  # of equal keys, the first row wins
    places = first[keys[len(old) :]]
    known = pa.array(places, mask=places < 0)
    rows = rows.select([c.name for c in layout.content])
    for number, column in enumerate(layout.value):
        rows = rows.append_column(f"{_EXAMPLE}_{number}", old.column(column.name).take(known))
    return rows.append_column(_HAS_EXAMPLE, pa.array(places >= 0))


def _in_tasks(
    before: DataFrame, new: DataFrame, tasks: int, stage: Stage, run: BatchFunction
) -> DataFrame:
    """Return the same in Spark, with one task per range of keys, lazily."""
    key, value = stage.schema.key, stage.schema.value
    layout = Layout.of(stage)
    columns, order_columns = layout.content, layout.order(CONTENT)
    in_key = Window.partitionBy(*cols(key)).orderBy(*order(order_columns))
    first = before.withColumn(_PLACE, f.row_number().over(in_key)).where(f.col(_PLACE) == 1)
    example = f.struct(*cols(value)).alias(_EXAMPLE)
    known = first.select(*cols(key), example, f.lit(True).alias(_HAS_EXAMPLE))
    joined = new.join(known, same(new, known, key), "left_outer")
    rows = joined.select(
        *(of(new, c.name) for c in columns),
        known[_EXAMPLE],
        f.coalesce(known[_HAS_EXAMPLE], f.lit(False)).alias(_HAS_EXAMPLE),
    )
    together = rows.repartitionByRange(tasks, *order(key))
    together = together.sortWithinPartitions(*order(order_columns))
    flat = together.select(
        *cols(columns),
        *(f.col(_EXAMPLE)[c.name].alias(f"{_EXAMPLE}_{n}") for n, c in enumerate(value)),
        _HAS_EXAMPLE,
    )
    return by_number(flat).mapInArrow(in_worker(run), struct_of(columns))


def calls(stage: Stage, preserve: PreserveFunction, zone: tzinfo) -> BatchFunction:
    """Return a worker's function, which can be pickled.

    Args:
        preserve: the stage's function of that name.
        zone: the clock on which it sees timestamps.

    Returns:
        A function from batches of content columns, the columns of an example and whether there is
        one, sorted by key, to batches of content columns; both lazy. It raises ProducerError.
    """
    key, value = stage.schema.key, stage.schema.value
    names = [c.name for c in Layout.of(stage).content]
    first = names.index(value.names[0])
    values = slice(first, first + len(value))
    forms = _Forms(
        partial(python_keys, key, zone), row_reader(value, zone), rows_writer(value, zone)
    )
    name = stage.name

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hook = _Hook(name, preserve, forms)
        for batch in batches:
            for offset in range(0, batch.num_rows, _PART_ROWS):
                columns = batch.slice(offset, _PART_ROWS).columns
                content, (*example, known) = columns[: len(names)], columns[len(names) :]
                content[values] = hook.stored(content[: len(key)], content[values], example, known)
                yield pa.RecordBatch.from_arrays(content, names=names)

    return run


@dataclass(frozen=True, slots=True)
class _Forms:
    """Keys and values as arrays, and as the function sees them."""

    read_keys: Callable[[Sequence[pa.Array]], tuple[Any, ...]]
    read_values: RowReader
    write_values: RowsWriter


class _Hook:
    """The calls of one partition, with the example of the current key."""

    def __init__(self, stage: str, function: PreserveFunction, forms: _Forms) -> None:
        self._stage = stage
        self._function = function
        self._forms = forms
        self._last_key: list[pa.Array] | None = None
        self._has_example = False
        self._example: Any = None  # None may be an example, too

    def stored(
        self,
        keys: list[pa.Array],
        given: list[pa.Array],
        example: list[pa.Array],
        has_example: pa.Array,
    ) -> list[pa.Array]:
        """Return the value columns of rows as they are to be stored.

        Args:
            given: the value columns as the function has emitted them.
            example: the value columns of each row's example.
            has_example: whether there is one.
        """
        values, examples = self._read(given, keys), self._read(example, keys)
        starts = [self._last_key is None or not same_key(self._last_key, keys)]
        starts += key_changes(keys).tolist()
        known, example_values = has_example.to_pylist(), []
        for row, (value, example) in enumerate(zip(values, examples, strict=True)):
            if starts[row]:
                self._has_example = known[row]
                self._example = example if known[row] else None
            try:
                result = settled(self._function(value, self._example))
                if not self._has_example:
                    result = self._example = self._read_back(result)
                    self._has_example = True
            except (Exception, SystemExit) as error:
                raise self._failed(error, [column.slice(row, 1) for column in keys]) from error
            example_values.append(result)
        self._last_key = [column.slice(len(column) - 1) for column in keys]
        return self._written(example_values, keys)

    def _read(self, arrays: list[pa.Array], keys: list[pa.Array]) -> Iterator[Any]:
        try:
            return self._forms.read_values(arrays)
        except UnreadableError:
            for row in range(len(arrays[0])):
                try:
                    self._forms.read_values([array.slice(row, 1) for array in arrays])
                except UnreadableError as error:
                    raise self._failed(error, [column.slice(row, 1) for column in keys]) from None
            raise

    def _read_back(self, result: object) -> object:
        """Return a stored value as reading returns it, so that examples have one form."""
        (value,) = self._forms.read_values(self._forms.write_values([result]))
        return value

    def _written(self, values: list[Any], keys: list[pa.Array]) -> list[pa.Array]:
        try:
            return self._forms.write_values(values)
        except Misfit:
            for row, result in enumerate(values):
                try:
                    self._forms.write_values([result])
                except Misfit as misfit:
                    key = [column.slice(row, 1) for column in keys]
                    raise self._failed(misfit, key) from misfit.__cause__
            raise

    def _failed(self, error: BaseException, keys: list[pa.Array]) -> ProducerError:
        (key,) = self._forms.read_keys(keys)
        is_clear = isinstance(error, Misfit | UnreadableError)
        what = str(error) if is_clear else described(error)
        message = f"stage {self._stage!r}: preserve failed for key {shown(key)}: {what}"
        column = getattr(error, "column", None) if is_clear else None
        return ProducerError(message, stage=self._stage, key=key, column=column)
