"""Dates and times that are written as text, in a form of `time_forms`.

The invariants: the whole text is used, each part is in its range, and nothing is left out: a year
is no date, and a time is none either. The years are 1 to 9999.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaproduce.cli.inputs.reading.faults import Unfit, no_value
from deltaproduce.cli.inputs.reading.time_forms import MONTHS, TimeForm
from deltaproduce.types.pandas_on_demand import in_numpy

Micros: TypeAlias = NDArray[np.int64]
"""Microseconds since 1970: of a moment, or of what a clock shows."""

_RANGES: Final = {
    "year": (1, 9999),
    "month": (1, 12),
    "day": (1, 31),
    "hour": (0, 23),
    "half_hour": (1, 12),
    "minute": (0, 59),
    "second": (0, 59),
}
_SECOND: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1)
_LEAST: Final = -62_135_596_800 * _SECOND
_END: Final = 253_402_300_800 * _SECOND
"""The first moments of the years 1 and 10000, in UTC."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times that were read.

    Attributes:
        texts: what was read.
        there: the rows that are not null.
        clock: what a clock shows, for each of these rows.
        offsets: the microseconds that this clock is ahead of UTC.
        zoned: whether a text says so.
    """

    texts: pa.Array
    there: NDArray[np.int64]
    clock: Micros
    offsets: Micros
    zoned: NDArray[np.bool_]

    def local(self) -> pa.Array:
        """Return the times of a clock that nobody names; none of them has a zone."""
        return _array(self.clock, self.there, len(self.texts), pa.timestamp("us"))

    def moments(self, read: Callable[[Micros], Micros]) -> pa.Array:
        """Return the moments.

        Args:
            read: returns the moments of the times without a zone.

        Raises:
            Unfit: one is before the year 1 or after 9999 in UTC.
        """
        micros = self.clock - self.offsets
        bare = ~self.zoned
        if bare.any():
            micros[bare] = read(self.clock[bare])
        outside = np.flatnonzero((micros < _LEAST) | (micros >= _END))
        if outside.size:
            place = int(self.there[outside[0]])
            text = self.texts[place].as_py()
            raise Unfit(place, no_value(text, "timestamp", "it is out of range in UTC"))
        return _array(micros, self.there, len(self.texts), pa.timestamp("us", "UTC"))


def dates(texts: pa.Array, form: TimeForm) -> pa.Array:
    """Return texts as dates.

    Raises:
        Unfit: with the first text that is none.
    """
    there, parts = _parts(texts, form, "date")
    days = _days(texts, there, parts, "date")
    return _array(days, there, len(texts), pa.date32())


def times(texts: pa.Array, form: TimeForm, *, zoned: bool) -> Times:
    """Return texts as times.

    Args:
        zoned: whether they may have a time zone.

    Raises:
        Unfit: with the first text that is none.
    """
    kind = "timestamp" if zoned else "timestamp_ntz"
    there, parts = _parts(texts, form, kind)
    clock = _days(texts, there, parts, kind) * (86_400 * _SECOND)
    if "half" in parts:
        afternoon = in_numpy(pc.equal(pc.utf8_lower(parts["half"]), "pm"), bool)
        hours = _numbers(texts, there, parts, "half_hour", kind) % 12 + 12 * afternoon
        clock += hours * (3600 * _SECOND)
    for name, seconds in (("hour", 3600), ("minute", 60), ("second", 1)):
        if name in parts:
            clock += _numbers(texts, there, parts, name, kind) * (seconds * _SECOND)
    if "fraction" in parts:
        clock += _micros(texts, there, parts["fraction"], kind)
    offsets, has_zone = np.zeros(len(there), np.int64), np.zeros(len(there), bool)
    if "zone" in parts:
        has_zone = in_numpy(pc.not_equal(parts["zone"], ""), bool)
        offsets = _offsets(texts, there, parts["zone"], kind)
    if has_zone.any() and not zoned:
        _refuse(texts, there, has_zone, kind, "it has a time zone")
    return Times(texts, there, clock, offsets, has_zone)


def instants(clock: Micros, zone: tzinfo) -> Micros:
    """Return the moments at which a zone's clocks show these times, as Spark takes them.

    A time that clocks show twice is the earlier one. One that they never show, because they are put
    forward, counts from before: 02:30 is 03:30.
    """
    if zone is UTC:
        return clock
    return clock - np.fromiter((_ahead(one, zone) for one in clock.tolist()), np.int64, len(clock))


def _ahead(clock: int, zone: tzinfo) -> int:
    offset = (_EPOCH + timedelta(microseconds=clock)).replace(tzinfo=zone).utcoffset()
    assert offset is not None
    return offset // timedelta(microseconds=1)


def _parts(
    texts: pa.Array, form: TimeForm, kind: str
) -> tuple[NDArray[np.int64], dict[str, pa.Array]]:
    """Return the rows that are not null, and the parts of their texts by name."""
    there = np.flatnonzero(in_numpy(texts.is_valid()))
    groups = pc.extract_regex(texts.drop_null(), form.pattern)
    if groups.null_count:
        wrong = in_numpy(groups.is_null())
        _refuse(texts, there, wrong, kind, f"write it as {form.label}")
    names = [field.name for field in groups.type]
    return there, _spelled_out(dict(zip(names, groups.flatten(), strict=True)))


def _spelled_out(parts: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Return parts with the year and the month in digits; a short year is one of 1969 to 2068."""
    groups = dict(parts)
    if "short_year" in parts:
        year = parts["short_year"].cast(pa.int64())
        whole = pc.if_else(pc.less(year, 69), pc.add(year, 2000), pc.add(year, 1900))
        groups["year"] = whole.cast(pa.string())
    if "month_name" in parts:
        short = pc.utf8_slice_codeunits(pc.utf8_lower(parts["month_name"]), 0, 3)
        number = pc.index_in(short, value_set=pa.array(MONTHS))
        groups["month"] = pc.add(number, 1).cast(pa.string())
    return groups


def _refuse(
    texts: pa.Array, there: NDArray[np.int64], wrong: NDArray[np.bool_], kind: str, why: str
) -> None:
    place = int(there[np.flatnonzero(wrong)[0]])
    raise Unfit(place, no_value(texts[place].as_py(), kind, why))


def _numbers(
    texts: pa.Array, there: NDArray[np.int64], parts: dict[str, pa.Array], name: str, kind: str
) -> NDArray[np.int64]:
    """Return a part as numbers in its range; 0 where it is left out."""
    numbers = in_numpy(_whole(parts[name]))
    least, most = _RANGES[name]
    wrong = (numbers < least) | (numbers > most)
    if wrong.any():
        _refuse(texts, there, wrong, kind, f"there is no such {name}")
    return numbers


def _whole(digits: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64())


def _days(
    texts: pa.Array, there: NDArray[np.int64], parts: dict[str, pa.Array], kind: str
) -> NDArray[np.int64]:
    """Return the days since 1970."""
    year, month, day = (
        _numbers(texts, there, parts, name, kind) for name in ("year", "month", "day")
    )
    months = (year - 1970) * 12 + month - 1
    first, following = (_first_days(of) for of in (months, months + 1))
    wrong = day > following - first
    if wrong.any():
        _refuse(texts, there, wrong, kind, "its month has no such day")
    return first + day - 1


def _first_days(months: NDArray[np.int64]) -> NDArray[np.int64]:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _micros(
    texts: pa.Array, there: NDArray[np.int64], digits: pa.Array, kind: str
) -> NDArray[np.int64]:
    """Return the microseconds of fractions of a second; more digits must be zeros."""
    wrong = in_numpy(pc.match_substring_regex(digits, "^.{6}.*[1-9]"), bool)
    if wrong.any():
        _refuse(texts, there, wrong, kind, "it has more than six digits after the second")
    padded = pc.utf8_rpad(pc.utf8_slice_codeunits(digits, 0, 6), 6, "0")
    return in_numpy(padded.cast(pa.int64()))


def _offsets(
    texts: pa.Array, there: NDArray[np.int64], zones: pa.Array, kind: str
) -> NDArray[np.int64]:
    known = zones.dictionary_encode()
    ahead = [_offset(zone) for zone in known.dictionary.to_pylist()]
    offsets = np.array(ahead, np.int64)[in_numpy(known.indices)] if ahead else np.zeros(0, np.int64)
    wrong = np.abs(offsets) > 18 * 3600 * _SECOND
    if wrong.any():
        _refuse(texts, there, wrong, kind, "there is no such time zone")
    return offsets


def _offset(zone: str) -> int:
    """Return the microseconds that a zone is ahead of UTC; too many if there is no such zone."""
    if zone in {"", "Z", "z"}:
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    seconds = (hours * 60 + minutes) * 60 if minutes < 60 else 86_400
    return (-seconds if zone[0] == "-" else seconds) * _SECOND


def _array(
    values: NDArray[Any], there: NDArray[np.int64], size: int, kind: pa.DataType
) -> pa.Array:
    """Return values in their rows; the other rows are null."""
    wide = np.zeros(size, np.int64)
    wide[there] = values
    mask = np.ones(size, bool)
    mask[there] = False
    whole = pa.array(wide.astype(np.int32) if pa.types.is_date(kind) else wide, mask=mask)
    return whole.cast(kind)
