"""The operators of the algebra as DataFrames, for hidden tables and for views that have some.

Another query runs in Spark by its own text.
"""

from deltaproduce.stages.sql.operators_in_spark.frames import frame_of, has_frame, in_order
from deltaproduce.stages.sql.operators_in_spark.texts import sort_text

__all__ = ["frame_of", "has_frame", "in_order", "sort_text"]
