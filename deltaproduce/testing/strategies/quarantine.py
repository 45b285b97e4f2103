"""Rules by which sources set rows aside."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from deltaproduce.model.graph import Stage
from deltaproduce.pipeline import Pipeline
from deltaproduce.testing.strategies.names import column_name
from deltaproduce.types.data_types import IntegralType
from deltaproduce.types.ddl import quoted


@st.composite
def set_aside(draw: st.DrawFn, pipeline: Pipeline, source: Stage, name: str) -> Stage:
    """Draw rules by which a source sets rows aside; the result is a stage made from these rows.

    The rules are about nulls in any column, and about numbers. The stage counts the rows by rule.

    Args:
        draw: given by Hypothesis.
        pipeline: the source's.
        source: its rows are given.
        name: the stage's.
    """
    columns = [column for column in source.schema.value if column.is_known]
    rules: list[dict[str, Any]] = [{"not_null": quoted(column.name)} for column in columns]
    numbers = [column.name for column in columns if isinstance(column.data_type, IntegralType)]
    rules += [{"among": {one: [-1, 0, 1, 2, 3]}} for one in numbers]
    chosen = draw(st.lists(st.sampled_from(rules), min_size=1, max_size=2, unique_by=str))
    conditions = [{"where": f"{quoted(one)} >= 0"} for one in numbers]
    chosen += draw(st.lists(st.sampled_from(conditions), max_size=1)) if conditions else []
    for rule in draw(st.permutations(chosen)):
        source.expect(**rule, severity="quarantine")
    query = (
        f"SELECT _rule AS {quoted(draw(column_name('its_rule')))}, count(*) AS rejected_rows, "
        f"max(_version) AS newest FROM {quoted(f'{source.name}__rejected')} GROUP BY _rule"
    )
    return pipeline.sql(name, query)
