"""Storage of content: random ``stored=`` for the stages of a pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from hypothesis import strategies as st

from deltaproduce.model.graph import with_hidden
from deltaproduce.pipeline import Pipeline
from deltaproduce.testing.strategies.names import column_name
from deltaproduce.types.columns import RowSchema
from deltaproduce.types.data_types import BooleanType, DateType, IntegralType
from deltaproduce.types.ddl import quoted
from deltaproduce.types.stored_as import StoredAs

_APART: Final = (BooleanType, DateType, IntegralType)
"""The types that can partition content, because a partition can have each of their values."""


@st.composite
def stored_as(draw: st.DrawFn, schema: RowSchema) -> StoredAs | None:
    """Draw how the content of a stage with these columns is stored; None for the default."""
    is_said = draw(st.sampled_from((True, False)))
    if not is_said:
        return None
    columns = [c for c in (*schema.key, *schema.value) if c.is_known and not c.is_hidden]
    apart = [c for c in columns if isinstance(c.data_type, _APART)]
    whole = [c for c in apart if isinstance(c.data_type, IntegralType)]
    parts = [quoted(c.name) for c in draw(st.permutations(apart))[: draw(st.integers(0, 2))]]
    has_bucket = draw(st.booleans())
    if whole and has_bucket:
        name = draw(column_name("its_bucket", [c.name.lower() for c in columns]))
        parts.append(f"{quoted(draw(st.sampled_from(whole)).name)} % 3 AS {quoted(name)}")
    order = [
        f"{quoted(c.name)}{draw(st.sampled_from(('', ' DESC')))}"
        for c in draw(st.permutations(apart))[: draw(st.integers(0, 2))]
    ]
    return StoredAs(
        draw(st.none()) if not parts else ", ".join(parts),
        ", ".join(order) or None,
        draw(st.sampled_from(("snappy", "zstd", "uncompressed"))),
    )


@st.composite
def stored_otherwise(draw: st.DrawFn, pipeline: Pipeline) -> Pipeline:
    """Draw the same pipeline, with stages that are stored in random ways."""
    copy, stages = Pipeline(pipeline.name), dict[str, Any]()
    for stage in pipeline.stages:
        for one in with_hidden(stage):
            stages[one.name] = one.fed_by(stages)
        files = None if stage.kind.intake.rows_of else draw(stored_as(stage.schema))
        stages[stage.name] = copy.add(replace(stages[stage.name], stored=files))
    return copy
