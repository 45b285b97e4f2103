"""The date of a version, ``:as_of``, as the expressions of views name it.

It is a date, or a timestamp where it has a time; null while none was named.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

from deltaproduce.errors import InvalidArgumentError
from deltaproduce.stages.sql.expressions.terms import Constant, Constants
from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.stages.sql.syntax import AS_OF
from deltaproduce.types.data_types import DateType, TimestampType

NO_DATE: Final[Constants] = {AS_OF: Constant(DateType(), None)}
"""What a query is resolved with: the types of its columns are those that it has with a date."""


def dated(as_of: date | None) -> Constants:
    """Return the date of a version as a constant.

    Args:
        as_of: an aware datetime if it has a time.
    """
    kind = TimestampType() if isinstance(as_of, datetime) else DateType()
    return {AS_OF: Constant(kind, as_of)}


def is_dated(query: Resolved) -> bool:
    """Return whether a query names the date."""
    return AS_OF in query.constants


def check_date(query: Resolved, constants: Constants, *, stage: str) -> None:
    """Refuse a date with a time for a query that has other columns then, or that Spark computes.

    Dates that are compared with a time become timestamps, which fails after the year 294247.

    Raises:
        InvalidArgumentError: with `argument`.
    """
    if is_dated(query) and query.only_in_spark is None and not query.fits(constants, may_fail=True):
        raise with_time(stage)


def with_time(stage: str) -> InvalidArgumentError:
    """Return the error for a date that has a time, where a query's columns have one of a date."""
    return InvalidArgumentError(
        f"as_of has a time, so :as_of is a timestamp, with which the query of stage {stage!r} has "
        "other types or needs Spark; give a date, or write CAST(:as_of AS date) in the query",
        argument="as_of",
    )
