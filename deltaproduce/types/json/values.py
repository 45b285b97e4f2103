"""Values as JSON, and back: values that a column may have, and tuples, lists and dicts of them.

JSON's own values stay unchanged: None, bools, integers, text. Any other value is a pair of a tag
and its parts: ``["date", "2026-01-31"]``.

Invariant: `read` returns what was written, in its own types, a named tuple as in `row_type`; from
anything else it creates nothing. It calls no code that the JSON names.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from deltaproduce.types.columns import row_type

Json: TypeAlias = bool | int | str | list["Json"] | None


class NotPlainError(ValueError):
    """A value without a form in this JSON, or JSON that represents no value."""


def written(value: object) -> Json:
    """Return a value as JSON.

    Raises:
        NotPlainError: it is of another type; a subclass is another type.
    """
    kind = type(value)
    match value:
        case None | bool() | int() if kind in _AS_THEY_ARE:
            return value
        case str() if kind is str and _is_unicode(value):
            return value
        case list() | tuple() if kind in _SEQUENCES.values():
            return [kind.__name__, [written(part) for part in value]]
        case dict() if kind is dict:
            return [_DICT, [[written(part) for part in parts] for parts in (value, value.values())]]
        case tuple() if names := getattr(kind, "_fields", None):
            return [_ROW, [list(names), [written(part) for part in value]]]
    if kind not in _TAGS:
        raise NotPlainError(f"a {kind.__name__} is not plain")
    tag = _TAGS[kind]
    return [tag, _ATOMS[tag][1](value)]


def read(value: object) -> object:
    """Return the value that JSON represents.

    Args:
        value: the result of `json.loads` for any text.

    Raises:
        NotPlainError: it represents none.
    """
    try:
        return _read(value)
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise NotPlainError("it is not a written value") from error


def _read(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case [str(tag), str(text)] if tag in _ATOMS:
            return _ATOMS[tag][2](text)
        case [str(tag), [*parts]] if tag in _SEQUENCES:
            return _SEQUENCES[tag](map(_read, parts))
        case [str(tag), [[*names], [*parts]]] if tag == _DICT:
            return dict(zip(map(_read, names), map(_read, parts), strict=True))
        case [str(tag), [[*names], [*parts]]] if tag == _ROW:
            row: Any = row_type(map(str, names))
            return row(*map(_read, parts))
    raise NotPlainError("it is not a written value")


def _is_unicode(text: str) -> bool:
    """Return whether JSON keeps a text: there, half a surrogate may join its other half."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _moment(value: datetime) -> str:
    return f"{value.isoformat()} {value.fold}"


def _read_moment(text: str) -> datetime:
    moment, _, fold = text.rpartition(" ")
    return datetime.fromisoformat(moment).replace(fold=int(fold))


_Atom: TypeAlias = tuple[type, Callable[[Any], str], Callable[[str], Any]]

_ATOMS: Final[Mapping[str, _Atom]] = MappingProxyType(
    {
        "float": (float, float.hex, float.fromhex),
        "bytes": (bytes, bytes.hex, bytes.fromhex),
        "decimal": (Decimal, str, Decimal),
        "date": (date, date.isoformat, date.fromisoformat),
        "datetime": (datetime, _moment, _read_moment),
    }
)
"""The values written as text: their type, how to write them, and how to read them."""

_TAGS: Final = MappingProxyType({kind: tag for tag, (kind, _, _) in _ATOMS.items()})
_SEQUENCES: Final[Mapping[str, type]] = MappingProxyType({"list": list, "tuple": tuple})
_ROW: Final = "row"
_DICT: Final = "dict"
_AS_THEY_ARE: Final = frozenset({type(None), bool, int})
