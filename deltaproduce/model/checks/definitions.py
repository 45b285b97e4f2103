"""Checks: what a version must fulfil to be published.

A `RowCheck` is a query that may return a few rows: a hidden stage keeps them. A `ShareLimit` is
about the keys that a version deletes or changes in a stage, a `RowsLimit` about how many rows it
has. Pure. The invariant: shares are compared exactly, as the decimal numbers that users write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Final, Literal, NoReturn, TypeAlias, get_args

from deltaproduce.errors import DefinitionError
from deltaproduce.types.excerpts import shown

Severity: TypeAlias = Literal["error", "warn", "quarantine"]
"""What a broken check does.

``error``: there is no version. ``warn``: the version says so. ``quarantine``: rows that are given
for a source and break it are set aside.
"""

Refusal: TypeAlias = Literal["broken", "newly broken", "never"]
"""Which broken checks of severity ``error`` keep a version from being published.

``broken``: all. ``newly broken``: those that the version before does not break, as of a repair,
which must mend a store whose rows break a check. ``never``: none, as of a deletion that has to be.
"""

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warn")
"""The severities of checks of a version; `quarantine` is one of rows that are given."""


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A query that may return a few rows.

    Attributes:
        stage: the stage that it is about: the first that it reads.
        at_most: how many rows it may return.
        table: the hidden stage that has its rows.
        keys: the stages whose whole key its rows have: each of its columns -> the check's.
    """

    name: str
    stage: str
    severity: Severity
    at_most: int
    table: str
    keys: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def is_broken(self, rows: int) -> bool:
        """Return whether so many rows break it."""
        return rows > self.at_most

    @property
    def bound(self) -> str:
        """What it allows, in words."""
        return f"at most {_rows(self.at_most)}" if self.at_most else "no rows"


@dataclass(frozen=True, slots=True)
class ShareLimit:
    """The largest share of the keys of a stage that a version may delete, or change.

    Attributes:
        what: which keys count: those without rows afterwards, or those that have other rows.
        share: of the keys that the stage had before, from 0 to 1.
    """

    name: str
    stage: str
    severity: Severity
    what: Literal["deleted", "changed"]
    share: Fraction

    def is_broken(self, keys: int, before: int) -> bool:
        """Return whether so many keys of those before break it."""
        return before > 0 and Fraction(keys, before) > self.share

    @property
    def bound(self) -> str:
        """What it allows, in words."""
        return f"at most {float(self.share):.4g} of the keys {self.what}"


@dataclass(frozen=True, slots=True)
class RowsLimit:
    """How many rows a stage must have.

    Attributes:
        least: the fewest; None for any number.
        most: the most; None for any number.
    """

    name: str
    stage: str
    severity: Severity
    least: int | None
    most: int | None

    def is_broken(self, rows: int) -> bool:
        """Return whether so many rows break it."""
        is_less = self.least is not None and rows < self.least
        return is_less or (self.most is not None and rows > self.most)

    @property
    def bound(self) -> str:
        """What it allows, in words."""
        least = [] if self.least is None else [f"at least {_rows(self.least)}"]
        most = [] if self.most is None else [f"at most {_rows(self.most)}"]
        return " and ".join([*least, *most])


Check: TypeAlias = RowCheck | ShareLimit | RowsLimit


_LARGEST: Final = 2**63


def limits(
    stage: str, deleted: object, changed: object, rows: object, severity: object
) -> list[Check]:
    """Return the limits of a stage, one for each that is given.

    Raises:
        DefinitionError: an argument is wrong, or none is given; with `stage`.
    """
    level = checked_severity(severity, stage=stage)
    shares: Sequence[tuple[Literal["deleted", "changed"], object]] = (
        ("deleted", deleted),
        ("changed", changed),
    )
    bounds: list[Check] = [
        ShareLimit(f"{stage}_{what}", stage, level, what, _share(value, what, stage=stage))
        for what, value in shares
        if value is not None
    ]
    if rows is not None:
        bounds.append(RowsLimit(f"{stage}_rows", stage, level, *_bounds(rows, stage=stage)))
    if not bounds:
        _refuse(f"a limit of {stage!r} says nothing; give deleted=, changed= or rows=", stage)
    return bounds


def checked_severity(
    value: object, known: Sequence[str] = SEVERITIES, *, stage: str | None
) -> Severity:
    """Return a severity.

    Raises:
        DefinitionError: it is another value; with `stage`.
    """
    for severity in get_args(Severity):
        if value == severity and severity in known:
            return severity  # type: ignore[no-any-return]
    advice = " or ".join(repr(one) for one in known)
    if value == "quarantine":
        advice += "; only not_null, where and among of a source whose rows you give quarantine rows"
    _refuse(f"severity is {shown(value)}; give {advice}", stage)


def checked_number(value: object, what: str, *, stage: str | None) -> int:
    """Return a number of rows.

    Raises:
        DefinitionError: it is none; with `stage`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
        _refuse(f"{what} is {shown(value)}; give a whole number of rows, from 0 on", stage)
    return value


def _share(value: object, what: str, *, stage: str) -> Fraction:
    """Return a share as its decimal number: 0.1 is a tenth, and not the double next to it."""
    is_number = isinstance(value, float | Decimal | Rational) and not isinstance(value, bool)
    try:
        share = Fraction(str(value)) if is_number else None
    except (ValueError, ArithmeticError):  # not finite
        share = None
    if share is None or not 0 <= share <= 1:
        _refuse(
            f"the limit {what} of stage {stage!r} is {shown(value)}; give a share of its keys from "
            "0 to 1, such as 0.2",
            stage,
        )
    return share


def _bounds(value: object, *, stage: str) -> tuple[int | None, int | None]:
    ends = tuple(value) if isinstance(value, tuple | list) else ()
    if len(ends) != 2 or ends == (None, None):
        _refuse(
            f"the limit rows of stage {stage!r} is {shown(value)}; give the fewest and the most, "
            "such as (1000, None)",
            stage,
        )
    what = f"the limit rows of stage {stage!r}"
    least, most = (None if end is None else checked_number(end, what, stage=stage) for end in ends)
    if least is not None and most is not None and least > most:
        _refuse(f"{what} is {shown(value)}, which no number fulfils; give the fewest first", stage)
    return least, most


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"


def _refuse(message: str, stage: str | None) -> NoReturn:
    raise DefinitionError(message, stage=stage)
