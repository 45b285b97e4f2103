"""SQL producers on the driver: a stage's query over the rows of the affected source keys.

The relation of the query, which returns the source key, too, is computed over Arrow tables. The
invariant: its rows are those that Spark returns.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.stages.queries.query import Query, keyed
from deltaproduce.stages.sql.operators.computing import Computing, blaming
from deltaproduce.stages.sql.operators.evaluation import rows_of
from deltaproduce.stages.sql.operators.numbering import numbered
from deltaproduce.stages.sql.resolve import Resolved


def plan(stage: Stage, query: Query) -> Resolved | str:
    """Return the query as the driver computes it; or the part of it that only Spark computes.

    Raises:
        DefinitionError: it does not fit the types of the feeders' columns; with `stage`.
    """
    schemas = {feeder.name: feeder.schema for feeder in stage.feeders}
    _, resolved = keyed(query.text, schemas, stage=stage.name)
    return resolved if resolved.only_in_spark is None else resolved.only_in_spark


def computed(
    stage: Stage, resolved: Resolved, contents: Mapping[str, pa.Table], zone: str
) -> pa.Table:
    """Return the rows of a query, in the columns of the stage's content.

    Args:
        contents: the rows of the feeders, by name.

    Raises:
        ProducerError: it fails for a row; with `stage`.
    """
    layout = Layout.of(stage)
    with blaming(stage.name):
        rows = rows_of(resolved.relation, contents, Computing(zone))
    content = numbered(rows, resolved.fields, resolved.order, layout.pair, layout.value)
    return content.select([column.name for column in layout.content])
