"""The operators of the algebra as DataFrames, for the rows of an operator below a query's last one.

A whole query runs in Spark by its own text.
"""

from deltaproduce.stages.sql.operators_in_spark.frames import frame_of, has_frame, in_order

__all__ = ["frame_of", "has_frame", "in_order"]
