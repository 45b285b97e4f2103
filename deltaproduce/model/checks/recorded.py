"""The results of checks in the version log, as JSON.

Pure. The invariant: results read back as they were written, but for values that JSON cannot give
back, which are their text from the start; and text that no store has written is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from deltaproduce.model.checks.results import SAMPLED, CheckResult
from deltaproduce.types.excerpts import shown
from deltaproduce.types.json.fields import Kind, fields, is_integer, is_text, is_texts
from deltaproduce.types.json.values import Json, NotPlainError, read, written

_LONGEST: Final = 1_000
"""The most characters of a text, or bytes of a value, that a sample keeps."""


def to_json(results: Sequence[CheckResult]) -> list[dict[str, Any]]:
    """Return results as they are stored."""
    return [
        {
            "name": one.name,
            "stage": one.stage,
            "severity": one.severity,
            "rows": one.rows,
            "broken": one.broken,
            "broken_before": one.broken_before,
            "allows": one.allows,
            "columns": list(one.sample[0]) if one.sample else [],
            "sample": [[written(value) for value in row.values()] for row in one.sample],
        }
        for one in results
    ]


def from_json(value: object) -> tuple[CheckResult, ...] | None:
    """Return results from what `to_json` has returned; None if no store has written it."""
    if not isinstance(value, list):
        return None
    known = [_result(one) for one in value]
    return None if None in known else tuple(one for one in known if one is not None)


def storable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a sample with values that can be stored: others, and long ones, as text."""
    return {name: _storable(value) for name, value in row.items()}


def _storable(value: object) -> Any:  # noqa: ANN401 of the value's type
    try:
        text: Json = written(value)
    except NotPlainError:
        return shown(value)
    is_short = len(str(text)) <= _LONGEST
    return value if is_short else shown(value, limit=_LONGEST)


def _result(value: object) -> CheckResult | None:
    known = fields(value, _FIELDS, required=_FIELDS)
    if known is None:
        return None
    columns, rows = known.pop("columns"), known.pop("sample")
    try:
        sample = tuple(dict(zip(columns, map(read, row), strict=True)) for row in rows)
    except (NotPlainError, ValueError):
        return None
    return CheckResult(**known, sample=sample)


def _is_sample(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= SAMPLED
        and all(isinstance(row, list) for row in value)
    )


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


_FIELDS: Final[Mapping[str, Kind]] = {
    "name": is_text,
    "stage": is_text,
    "severity": is_text,
    "rows": is_integer,
    "broken": _is_flag,
    "broken_before": _is_flag,
    "allows": is_text,
    "columns": is_texts,
    "sample": _is_sample,
}
