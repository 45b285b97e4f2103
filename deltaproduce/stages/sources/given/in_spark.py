"""Batches given as DataFrames, or too large for the driver: checked by Spark.

The invariant: given rows are computed once, in order, and counted in the same job. If rows are few,
the job brings them to the driver, which checks them: `on_driver` does the same, and laws compare
the two. Expressions are SQL text: to build them in Python, a batch would call Java hundreds of
times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.spark.columns import cast_by_name, col, cols
from deltaproduce.engines.spark.data_types import frame_struct
from deltaproduce.engines.spark.frames import row_bytes
from deltaproduce.engines.spark.sessions.on_demand import Window, is_frame
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.model.graph import Source
from deltaproduce.stages.batches import IS_DELETE, Batch, computing, sample_keys
from deltaproduce.stages.sources.given.contents import (
    DELETES,
    IGNORED,
    SHOWN,
    UPSERTS,
    refuse_types,
)
from deltaproduce.stages.sources.given.on_driver import batch_of_table
from deltaproduce.stages.sources.given.required import required, unchecked
from deltaproduce.stages.sources.given.unique import check_in_spark
from deltaproduce.types.columns import (
    CHANGE_TYPE,
    CHANGE_TYPE_COLUMN,
    ORDINAL,
    ORDINAL_COLUMN,
    Column,
)
from deltaproduce.types.ddl import identifier

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

_GIVEN = "_given"
"""The user's order of rows, while ``_ordinal`` is their place."""


def batch_of_frame(
    given: DataFrame, source: Source, engines: Engines, *, is_snapshot: bool = False
) -> Batch:
    """Check the contents of changes, or of all rows, and compute them once.

    Args:
        given: a DataFrame with the source's columns, in types that fit.

    Raises:
        InvalidChangesError: see `batches`.
    """
    controls = _controls(given)
    with computing(source):
        conformed = _conformed(given, source, controls)
        brought = unchecked((*source.schema.key, *source.schema.value, *controls.values()))
        rows, counts = engines.computed(conformed, brought, _counted(source, controls))
    if not is_frame(rows):
        names = [ORDINAL if name == _GIVEN else name for name in rows.column_names]
        table = rows.rename_columns(names)
        return batch_of_table(table, source, engines, is_snapshot=is_snapshot)
    rows = rows.withColumns({CHANGE_TYPE: f.expr(_change_type(controls))})
    _check_change_types(rows, counts["unknown"], source, engines)
    for number, one in enumerate(required(source)):
        nulls = counts[_nulls(number)]
        if nulls:
            wrong = rows.where(one.condition).where(f.col(CHANGE_TYPE).isin(*one.types))
            one.refuse(nulls, source, sample_keys(wrong, source, engines))
    if source.kind.intake.unique:
        upserts = rows.where(f.col(CHANGE_TYPE).isin(*UPSERTS))
        check_in_spark(upserts, rows, source, engines)
    final = _final(rows, source, ordered=ORDINAL in controls)
    batch = Batch(source, final, counts["rows"], engines, is_snapshot)
    if counts["upserts"] and counts["deletes"]:
        batch.check_not_mixed()
    return batch


def _controls(given: DataFrame) -> dict[str, Column]:
    """Return the control columns that given rows have, as `_conformed` names them."""
    columns = (CHANGE_TYPE, CHANGE_TYPE_COLUMN), (ORDINAL, Column(_GIVEN, ORDINAL_COLUMN.data_type))
    names = {name.lower() for name in given.columns}
    return {name: column for name, column in columns if name in names}


def _conformed(given: DataFrame, source: Source, controls: Mapping[str, Column]) -> DataFrame:
    """Return the declared columns in their types, with each row's place in the DataFrame (S6).

    In Spark the parts of any column may be null: it casts nothing to a type that says otherwise.
    Control columns that are not given would be the same for all rows, so they are left out.
    """
    by_name = {field.name.lower(): field for field in frame_struct(given)}
    wanted = {c.name: c for c in (*source.schema.key, *source.schema.value)}
    declared = (
        f"{cast_by_name(by_name[name.lower()], c.data_type)} AS {identifier(c.name)}"
        for name, c in {**wanted, **controls}.items()
    )
    rows = given.selectExpr(*declared, f"monotonically_increasing_id() AS {ORDINAL}")
    return rows.where(f"coalesce(NOT {_is_one_of(controls, IGNORED)}, true)")


def _counted(source: Source, controls: Mapping[str, Column]) -> dict[str, Expression]:
    counted = {
        "rows": "true",
        "upserts": _is_one_of(controls, UPSERTS),
        "deletes": _is_one_of(controls, DELETES),
        "unknown": f"NOT coalesce({_is_one_of(controls, (*UPSERTS, *DELETES))}, false)",
    }
    for number, one in enumerate(required(source)):
        is_wrong = f"{one.condition} AND {_is_one_of(controls, one.types)}"
        counted[_nulls(number)] = is_wrong
    counts = {name: f.expr(f"count_if({condition})") for name, condition in counted.items()}
    size = f.sum(row_bytes((*source.schema.key, *source.schema.value)))
    return {**counts, "bytes": f.coalesce(size, f.lit(0))}


def _is_one_of(controls: Mapping[str, Column], types: Sequence[str]) -> str:
    """The condition, as SQL text, that a row has one of some change types."""
    return f"{_change_type(controls)} IN ({', '.join(map(repr, types))})"


def _change_type(controls: Mapping[str, Column]) -> str:
    """The change type of a row, as SQL text: an upsert, if none is given."""
    return CHANGE_TYPE if CHANGE_TYPE in controls else "'upsert'"


def _nulls(number: int) -> str:
    return f"nulls in {number}"


def _check_change_types(rows: DataFrame, unknown: int, source: Source, engines: Engines) -> None:
    if not unknown:
        return
    other = f.coalesce(~f.col(CHANGE_TYPE).isin(*UPSERTS, *DELETES), f.lit(True))
    wrong = rows.where(other)
    values = [row[0] for row in wrong.select(CHANGE_TYPE).distinct().limit(SHOWN).collect()]
    refuse_types(values, unknown, source, sample_keys(wrong, source, engines))


def _final(rows: DataFrame, source: Source, *, ordered: bool) -> DataFrame:
    """Return rows in the form of `Batch`, in the user's order if ``ordered``, else as given."""
    in_key = Window.partitionBy(*cols(source.schema.key)).orderBy(_GIVEN, ORDINAL)
    ordinal = f.row_number().over(in_key).cast("bigint") if ordered else f.col(ORDINAL)
    is_delete = f.col(CHANGE_TYPE).isin(*DELETES)
    values = (  # those of deletes are not checked
        f.when(~is_delete, col(c.name)).alias(c.name) if c.is_strict else col(c.name)
        for c in source.schema.value
    )
    return rows.select(
        *cols(source.schema.key),
        ordinal.alias(ORDINAL),
        *values,
        is_delete.alias(IS_DELETE.name),
    )
