"""One pipeline written twice: over rows, and over Arrow tables."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from deltaproduce import Pipeline
from deltaproduce.testing.strategies import functions, tables

ROWS: Any = {"key": "k bigint", "value": "n bigint, t string"}
BY_TEXT: Any = {"key": "t string", "value": "n bigint"}


def in_rows() -> Pipeline:
    """A filter, a re-key and a group as functions over rows."""
    pipeline = Pipeline("forms")
    source = pipeline.source("source", **ROWS)

    @pipeline.producer(source, **ROWS)
    def even(k: int, values: Iterator[Any]) -> Iterator[Any]:
        """In an order that a query can have too."""
        some = [value for value in values if value.n is not None and value.n % 2 == 0]
        for value in sorted(some, key=lambda v: (v.n, v.t is not None, (v.t or "").encode())):
            yield k, value

    by_text = pipeline.producer(even, **BY_TEXT, name="by_text")(functions.by_text)
    pipeline.producer(by_text, **ROWS, name="totals")(functions.totals)
    return pipeline


def in_rows_and_arrow() -> Pipeline:
    """Those, and beside them the same stages over tables."""
    pipeline = in_rows()

    @pipeline.arrow_producer("source", **ROWS)
    def even_arrow(table: pa.Table) -> pa.Table:
        order = [("n", "ascending", "at_start"), ("t", "ascending", "at_start")]
        return tables.filtered_table(table).sort_by(order)

    by_text = pipeline.arrow_producer(even_arrow, **BY_TEXT, name="by_text_arrow")
    by_text = by_text(tables.by_text_table)
    pipeline.arrow_producer(by_text, **ROWS, name="totals_arrow")(tables.totals_table)
    return pipeline
