"""Writing: how a query is written as Spark's SQL.

The invariant: `QUALIFY` stays, for a stage of first rows is kept by it; sqlglot would write
a subquery with other columns.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp, transforms
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator


class SparkText(Spark):
    """Spark's SQL, as stages are written in it."""

    class Generator(SparkGenerator):
        """Its writer."""

        TRANSFORMS: ClassVar = {
            **SparkGenerator.TRANSFORMS,
            exp.Select: transforms.preprocess(
                [
                    transforms.eliminate_distinct_on,
                    transforms.unnest_to_explode,
                    transforms.any_to_exists,
                ]
            ),
        }
