"""The page on expressions lists the driver's functions, and some that it leaves to Spark."""

import re
from pathlib import Path

from deltaproduce.stages.sql.expressions.functions.table import FUNCTIONS

PAGE = Path(__file__).parents[2] / "docs" / "expressions.md"


OF_SOME_TYPES = {"round"}


def first_cells(header: str) -> set[str]:
    """The names of functions in the first column of a table."""
    lines = PAGE.read_text().split(f"\n| {header} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = (line.split(" | ")[0] for line in lines)
    return {name for cell in cells for name in re.findall(r"`([a-z_0-9]+)[`(]", cell)}


def test_each_function_of_the_driver_is_listed() -> None:
    named = {name for name in FUNCTIONS if name.isidentifier() and name.islower()}
    assert first_cells("functions") == named


def test_what_is_left_to_spark_is_not_computed_by_the_driver() -> None:
    assert first_cells("only Spark computes")
    assert first_cells("only Spark computes") & {*FUNCTIONS} <= OF_SOME_TYPES
