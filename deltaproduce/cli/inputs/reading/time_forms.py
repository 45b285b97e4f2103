"""Forms in which dates and times are written: ISO 8601, or one in the codes of ``strptime``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TimeForm:
    """A form in which dates or times are written.

    Attributes:
        pattern: a regular expression with groups that are named as in `_CODES`.
        label: the form as messages show it.
    """

    pattern: str
    label: str


_DAY: Final = r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
_TIME: Final = r"(?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d+))?)?"
_ZONE: Final = r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)"

DATES: Final = TimeForm(f"^{_DAY}$", "2026-01-31")
TIMES: Final = TimeForm(f"^{_DAY}(?:[T ]{_TIME} ?{_ZONE}?)?$", "2026-01-31T10:30:00")

MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_MONTH: Final = "|".join(MONTHS)
_LONG_MONTH: Final = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
)
_OF_DAYS: Final = {
    "%Y": r"(?P<year>\d{4})",
    "%y": r"(?P<short_year>\d{2})",
    "%m": r"(?P<month>\d{1,2})",
    "%b": rf"(?P<month_name>(?i:{_MONTH}))",
    "%B": rf"(?P<month_name>(?i:{_LONG_MONTH}))",
    "%d": r"(?P<day>\d{1,2})",
    "%%": "%",
}
_CODES: Final = {
    **_OF_DAYS,
    "%H": r"(?P<hour>\d{1,2})",
    "%I": r"(?P<half_hour>\d{1,2})",
    "%p": r"(?P<half>(?i:am|pm))",
    "%M": r"(?P<minute>\d{1,2})",
    "%S": r"(?P<second>\d{1,2})",
    "%f": r"(?P<fraction>\d{1,6})",
    "%z": _ZONE,
}


def form_of(text: str, *, of_times: bool) -> TimeForm:
    """Return a form that is written in the codes of Python's ``strptime``, such as ``%d.%m.%Y``.

    Args:
        of_times: whether times are read, and not only dates.

    Raises:
        ValueError: a code is unknown, is there twice, or a part of the date is missing.
    """
    known, pattern, seen = _CODES if of_times else _OF_DAYS, "", list[str]()
    for part in re.findall(r"%.|[^%]+|%", text, re.DOTALL):
        if part.startswith("%") and part not in known:
            raise ValueError(f"{part!r} is not one of {', '.join(known)}")
        pattern += known.get(part, re.escape(part))
        seen += re.findall(r"\?P<(\w+)>", known.get(part, ""))
    for names in (("year", "short_year"), ("month", "month_name"), ("day",)):
        if sum(seen.count(name) for name in names) != 1:
            raise ValueError(f"it needs the {names[0]} exactly once")
    if len({*seen}) < len(seen) or {"hour", "half_hour"} <= {*seen}:
        raise ValueError("a part is there twice")
    if ("half" in seen) != ("half_hour" in seen):
        raise ValueError("%I and %p belong together")
    return TimeForm(f"^{pattern}$", text)
