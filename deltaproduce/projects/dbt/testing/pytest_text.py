"""The text of a test module: unit tests of one stage, with their rows as Python dicts.

Pure. The invariant: the text is Python as its formatter writes it, and needs neither Spark nor dbt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

_WIDTH: Final = 100
_HEAD: Final = '''"""Unit tests of {stage}, from dbt: the rows that it makes of given rows."""

{imports}
from deltaproduce import Project
from deltaproduce.testing import check_stage

PIPELINE = Project(Path(__file__).parents[1]).pipeline
'''


@dataclass(frozen=True, slots=True)
class UnitTest:
    """A unit test of a stage.

    Attributes:
        name: the name of its function.
        given: the rows of each stage that the tested one reads.
        expected: the rows that are expected, with the columns that are compared.
    """

    name: str
    description: str
    stage: str
    given: Mapping[str, Sequence[Mapping[str, Any]]]
    expected: Sequence[Mapping[str, Any]]


def module_text(stage: str, tests: Iterable[UnitTest]) -> str:
    """Return the module with the tests of a stage."""
    bodies = "".join(f"\n\n{_function(test)}" for test in tests)
    modules = {
        "datetime": [name for name in ("date", "datetime") if f" {name}(" in bodies],
        "decimal": [name for name in ("Decimal",) if f" {name}(" in bodies],
        "pathlib": ["Path"],
    }
    imports = "".join(
        f"from {module} import {', '.join(names)}\n" for module, names in modules.items() if names
    )
    return _HEAD.format(stage=stage, imports=imports) + bodies


def _function(test: UnitTest) -> str:
    lines = [f"def {test.name}() -> None:", *_docstring(test.description), "    given = {"]
    for stage, rows in test.given.items():
        lines += _rows(f"{_text(stage)}: ", rows, 8, ",")
    lines += ["    }", *_rows("expected = ", test.expected, 4, "")]
    lines += [f"    check_stage(PIPELINE, {_text(test.stage)}, given, expected)"]
    return "\n".join(lines) + "\n"


def _docstring(text: str) -> Iterator[str]:
    escaped = text.strip().replace("\\", "\\\\")
    if '"""' in escaped or escaped.endswith('"'):
        escaped = escaped.replace('"', '\\"')
    first, *others = escaped.splitlines() or [""]
    if first and not others:
        yield f'    """{first}"""'
    elif first:
        yield f'    """{first.rstrip()}'
        yield from (f"    {line.strip()}".rstrip() for line in others)
        yield '    """'


def _rows(before: str, rows: Sequence[Mapping[str, Any]], indent: int, after: str) -> Iterator[str]:
    """Yield a list of dicts, a row a line, or a column a line if the row is long."""
    margin = " " * indent
    if not rows:
        yield f"{margin}{before}[]{after}"
        return
    yield f"{margin}{before}["
    for row in rows:
        parts = [f"{_text(name)}: {_value(value)}" for name, value in row.items()]
        line = f"{margin}    {{{', '.join(parts)}}},"
        if len(line) <= _WIDTH:
            yield line
            continue
        yield f"{margin}    {{"
        yield from (f"{margin}        {part}," for part in parts)
        yield f"{margin}    }},"
    yield f"{margin}]{after}"


def _value(value: object) -> str:
    match value:
        case str():
            return _text(value)
        case datetime() | date():
            return repr(value).removeprefix("datetime.")
        case Decimal():
            return f'Decimal("{value}")'
        case float() if value != value or value in (float("inf"), float("-inf")):
            return f'float("{value}")'
        case list():
            return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
