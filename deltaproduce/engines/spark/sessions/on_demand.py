"""PySpark, which is imported when something of it is first used.

A store without a session needs none of PySpark, which may not be installed, and takes half a second
to import. Modules that work in either engine get Spark's names here. The invariant: nothing of this
module imports PySpark before a DataFrame or a session is there.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame
    from pyspark.sql import Window as Window
    from pyspark.sql import functions as functions
    from typing_extensions import TypeIs
else:

    class _OnDemand:
        """Something whose attributes are those of a module, or of a class in it."""

        def __init__(self, module: str, name: str | None = None) -> None:
            self._home = module, name

        def __getattr__(self, attribute: str) -> object:
            module, name = self._home
            home = import_module(module)
            attribute_value = getattr(home if name is None else getattr(home, name), attribute)
            setattr(self, attribute, attribute_value)
            return attribute_value

    functions = _OnDemand("pyspark.sql.functions")
    Window = _OnDemand("pyspark.sql", "Window")


def is_frame(value: object) -> TypeIs[DataFrame]:
    """Return whether something is a DataFrame of Spark; nothing is before PySpark is imported."""
    sql: Any = sys.modules.get("pyspark.sql")
    return sql is not None and isinstance(value, sql.DataFrame)


def spark_errors(*names: str) -> tuple[type[PySparkException], ...]:
    """Return classes of Spark's errors, to catch them; none of them before PySpark is imported."""
    errors: Any = sys.modules.get("pyspark.errors")
    return () if errors is None else tuple(getattr(errors, name) for name in names)
