"""Functions over Arrow: some of the functions of `functions`, column by column.

They find columns by their positions, too, key first.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc


def unchanged_table(table: pa.Table) -> pa.Table:
    """As `unchanged`."""
    return _with_source_keys(table, 1)


def unchanged_wide_table(table: pa.Table) -> pa.Table:
    """As `unchanged`, for values of all types."""
    return _with_source_keys(table, 4)


def _with_source_keys(table: pa.Table, width: int) -> pa.Table:
    for name in table.column_names[:width]:
        table = table.append_column(f"_source_{name}", table.column(name))
    return table


def filtered_table(table: pa.Table) -> pa.Table:
    """As `filtered`."""
    return unchanged_table(table.filter(pc.equal(pc.bit_wise_and(table.column(1), 1), 0)))


def rekeyed_table(table: pa.Table) -> pa.Table:
    """As `rekeyed`."""
    (k, n, t), (key, number, text) = table.column_names, table.columns
    return pa.table({k: number, n: key, t: text, f"_source_{k}": key})


def by_text_table(table: pa.Table) -> pa.Table:
    """As `by_text`."""
    (k, n, t), (key, number, text) = table.column_names, table.columns
    return pa.table({t: text, n: number, f"_source_{k}": key})


def totals_table(table: pa.Table) -> pa.Table:
    """As `totals`."""
    texts = pa.table({"t": table.column("t"), "n": pc.modulo(table.column("n").fill_null(0), 1000)})
    totals = texts.group_by("t").aggregate([("n", "sum"), ("n", "count")])
    text, total = totals.column("t"), pc.modulo(totals.column("n_sum"), 1000)
    return pa.table({"k": totals.column("n_count"), "n": total, "t": text, "_source_t": text})


def flattened_table(table: pa.Table) -> pa.Table:
    """As `flattened`."""
    lists = table.column("ns").combine_chunks()
    keys = table.column("k").take(pc.list_parent_indices(lists))
    sizes = pc.list_value_length(lists).fill_null(0)
    positions = [position for size in sizes.to_pylist() for position in range(size)]
    arrays = {"k": lists.flatten(), "n": pa.array(positions, pa.int64())}
    return pa.table({**arrays, "t": keys.cast(pa.string()).fill_null("None"), "_source_k": keys})


def numbered_stream(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """As `numbered`."""
    start = 0
    for batch in batches:
        (t, n), text, end = batch.schema.names, batch.column(0), start + batch.num_rows
        numbers = pa.array(range(start, end), pa.int64())
        yield pa.record_batch({t: text, n: numbers, f"_source_{t}": text})
        start = end


def first_of_stream(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """As `first_row`."""
    yield unchanged_table(pa.Table.from_batches([next(batches)]).slice(0, 1))
