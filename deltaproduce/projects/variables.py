"""Variables: the values of ``[vars]``, which a project's SQL files use by name.

Pure. The invariant: a variable keeps the type that the project file gives it, whoever overrides its
value.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime
from math import isfinite
from typing import Any, Final, NoReturn

from deltaproduce.projects.sections import ProjectFileError
from deltaproduce.types.excerpts import meant, shown

_WANTED: Final = "a text, a number, true or false, a date, or a list of one of these"


def variables(said: Mapping[str, Any], given: Mapping[str, object]) -> dict[str, Any]:
    """Return the variables of a project.

    Args:
        said: the variables in its file.
        given: values that override them; a text may stand for a value of another type.

    Raises:
        ProjectFileError: a name or a value is refused, or the file has no such variable.
    """
    lower = list[str]()
    for name, value in said.items():
        if not name.isidentifier() or name.startswith("_") or name.lower() in lower:
            _refuse(f"{name!r} cannot be a name, or is one twice; use letters and digits")
        lower.append(name.lower())
        _check(name, value)
    values = dict(said)
    for name, value in given.items():
        if name not in said:
            _refuse(f"there is no variable {shown(name)}; {meant(name, said)}")
        values[name] = _alike(name, value, said[name])
    return values


def sql_of(value: object) -> str:
    """Return a value as SQL."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return f'"{value}"' if "'" in value else f"'{value}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case list():
            return f"array({', '.join(map(sql_of, value))})"
    return repr(value)


def let(variables: Mapping[str, object], names: Iterable[str]) -> str:
    """Return the variables as the start of ``scopes``."""
    return ", ".join(f"LET {name} = {sql_of(variables[name])}" for name in names)


def _alike(name: str, value: object, said: object) -> object:
    """Convert an overriding value to the type of the value that it replaces."""
    result = value
    if isinstance(value, str) and not isinstance(said, str):
        try:
            result = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            _refuse(f"{name} is {shown(value)}, and {shown(said)} in the file; give such a value")
    result = list(result) if isinstance(result, tuple) else result
    if isinstance(said, list) and isinstance(result, list):
        result = [_as_float(item, said[0]) for item in result]
    result = _as_float(result, said)
    _check(name, result)
    if _kinds(result) != _kinds(said):
        _refuse(f"{name} is {shown(result)}, and {shown(said)} in the file; give such a value")
    return result


def _as_float(value: object, said: object) -> object:
    """Return a whole number as a float if it replaces a float, and is one exactly."""
    if isinstance(said, float) and type(value) is int:
        with suppress(OverflowError):
            return float(value) if float(value) == value else value
    return value


def _check(name: str, value: object) -> None:
    items = value if isinstance(value, list) else [value]
    known = all(isinstance(item, str | int | float | date) for item in items)
    if not items or not known or len(_kinds(value)) > 2 or isinstance(items[0], datetime):
        _refuse(f"{name} is {shown(value)}; give {_WANTED}")
    for item in items:
        if isinstance(item, str) and _is_unwritten(item):
            _refuse(f"{name} is {shown(value)}; leave out backslashes, ${{ and one sort of quotes")
        if isinstance(item, float) and not isfinite(item):
            _refuse(f"{name} is {shown(value)}; give a finite number")


def _is_unwritten(text: str) -> bool:
    """Return whether SQL would misread a text, however it is quoted."""
    return "\\" in text or "${" in text or {"'", '"'} <= {*text}


def _kinds(value: object) -> set[type]:
    """Return the type of a value; for a list also the types of its items."""
    return {list, *map(type, value)} if isinstance(value, list) else {type(value)}


def _refuse(fault: str) -> NoReturn:
    raise ProjectFileError(f"deltaproduce.toml: [vars] {fault}")
