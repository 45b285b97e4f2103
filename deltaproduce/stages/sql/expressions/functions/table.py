"""All functions and operators that the driver computes, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from deltaproduce.stages.sql.expressions.functions.comparisons import COMPARISONS
from deltaproduce.stages.sql.expressions.functions.conditions import CONDITIONS
from deltaproduce.stages.sql.expressions.functions.constructors import CONSTRUCTORS
from deltaproduce.stages.sql.expressions.functions.dates import DATES
from deltaproduce.stages.sql.expressions.functions.nested import NESTED
from deltaproduce.stages.sql.expressions.functions.operators import OPERATORS
from deltaproduce.stages.sql.expressions.functions.rounding import ROUNDING
from deltaproduce.stages.sql.expressions.functions.rules import Rule
from deltaproduce.stages.sql.expressions.functions.text.cases import CASES
from deltaproduce.stages.sql.expressions.functions.text.digests import DIGESTS
from deltaproduce.stages.sql.expressions.functions.text.searching import SEARCHING
from deltaproduce.stages.sql.expressions.functions.text.strings import TEXT
from deltaproduce.stages.sql.expressions.functions.times import TIMES
from deltaproduce.stages.sql.expressions.functions.tried import TRIED
from deltaproduce.stages.sql.expressions.terms import Term

FUNCTIONS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **OPERATORS,
        **ROUNDING,
        **TRIED,
        **COMPARISONS,
        **CONDITIONS,
        **DATES,
        **TIMES,
        **TEXT,
        **CASES,
        **SEARCHING,
        **DIGESTS,
        **NESTED,
        **CONSTRUCTORS,
    }
)
"""In lower case; operators by their signs."""


def called(name: str, arguments: Sequence[Term], zone: str) -> Term | None:
    """Return the call of a function; None if it is left to Spark.

    Args:
        name: in lower case.
        zone: the session's time zone.
    """
    rule = FUNCTIONS.get(name)
    return None if rule is None else rule(arguments, zone)
