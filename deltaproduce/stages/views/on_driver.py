"""Views on the driver: their rows over Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from deltaproduce.model.layouts import Layout
from deltaproduce.stages.sql.operators.computing import Computing, blaming
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.operators.numbering import numbered
from deltaproduce.stages.sql.resolve import Resolved


def computed(
    query: Resolved, contents: Mapping[str, pa.Table], layout: Layout, zone: str, *, stage: str
) -> pa.Table:
    """Return the rows of a query that the driver computes, in the columns of the content.

    Args:
        contents: the rows of the stages that it reads, by name.

    Raises:
        ProducerError: it fails for a row; with `stage`.
    """
    with blaming(stage):
        rows = rows_of(query.relation, contents, Computing(zone))
    found = numbered(rows, query.fields, query.order, layout.pair, layout.value)
    return found.select([column.name for column in layout.content])
