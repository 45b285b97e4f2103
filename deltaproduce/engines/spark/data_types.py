"""Types of columns as Spark's, and Spark's as types of columns, where rows enter or leave Spark.

The invariant: a type and the one that it becomes have the same JSON, which is Spark's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from deltaproduce.types.data_types import DataType, StructField, StructType, type_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as sparks


@overload
def in_spark(data_type: StructType) -> sparks.StructType: ...
@overload
def in_spark(data_type: DataType) -> sparks.DataType: ...
def in_spark(data_type: DataType) -> sparks.DataType:
    """Return a type as Spark's."""
    from pyspark.sql.types import StructType as StructInSpark

    if isinstance(data_type, StructType):
        return StructInSpark.fromJson(data_type.jsonValue())
    alone = StructType([StructField("value", data_type)])
    return StructInSpark.fromJson(alone.jsonValue()).fields[0].dataType


def frame_struct(rows: DataFrame) -> StructType:
    """Return the columns of a DataFrame, which Spark analyses for it."""
    struct = type_of(rows.schema)
    assert isinstance(struct, StructType)
    return struct
