"""Fingerprints of stages, which detect a changed definition.

A `Fingerprint` has two parts, so that a plan can say what changed: the layout of a stage's tables,
or the function that fills them.

Invariant: equal definitions have equal fingerprints in every process. Comments, formatting,
docstrings, the decorator and the place in the file do not count. A function counts with its code,
its defaults, and the functions and plain values in its closure; other objects count with their
type. What a function refers to by a global name does not count: following such names has no end,
and `Store.refresh` is there for it.

A fingerprint comes with the text of the definition, for people: the text says what changed, and
never whether something changed.
"""

import ast
import datetime
import decimal
import difflib
import functools
import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType
from typing import Final

from deltaproduce.model.graph import Producer, Source, Stage
from deltaproduce.shown.tabular import one_line


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The sha256 hex digests of a stage's two halves; a source's `function` is that of no text.

    Attributes:
        function: `NOT_COMPUTED` in a version that has the stage's tables, but nothing that it made.
        text: what its user has written, at most `LONGEST_TEXT` characters of it; None if unknown.
            Fingerprints that differ only in it are equal.
    """

    layout: str
    function: str
    text: str | None = field(default=None, compare=False)

    @property
    def is_of_source(self) -> bool:
        """Whether the stage is a source: nothing makes its rows."""
        return self.function == _digest("")


@dataclass(frozen=True, slots=True)
class Altered:
    """One changed part of a stage's definition.

    Attributes:
        part: ``key columns``, ``value columns``, ``source key columns``, ``what it reads``,
            ``time zone``; or what makes the stage's rows: ``function``, ``query`` or
            ``definition``.
        before: the old one; None if unknown.
        after: the new one; None if unknown.
    """

    part: str
    before: str | None = None
    after: str | None = None

    def __repr__(self) -> str:
        return one_line(self, self.part, self.before, self.after)

    @property
    def sentence(self) -> str:
        """The change in words: for a text only that it changed, or why there is no `diff` of it."""
        if self.part in MAKERS:
            return f"{self.part} changed{self._without_diff()}"
        if self.before is None or self.after is None:
            return f"{self.part} changed"
        return f"{self.part} changed: {self.before or 'none'} -> {self.after or 'none'}"

    @property
    def diff(self) -> str:
        """The changed lines of a text, as a unified diff without file names.

        Empty if one side is unknown, if both are the same, and for a part that is no multi-line
        text.
        """
        if self.part not in MAKERS or self.before is None or self.after is None:
            return ""
        before, after = (text.splitlines() for text in (self.before, self.after))
        return "\n".join(list(difflib.unified_diff(before, after, lineterm=""))[2:])

    def _without_diff(self) -> str:
        if self.before is None:
            return "; the text that it had is not known"
        if self.after is None:
            return "; the text that it has is not known"
        if self.before != self.after:
            return ""
        if len(self.before) == LONGEST_TEXT:
            return f"; the first {LONGEST_TEXT:,} characters of its text did not"
        return "; its text did not: a value that it takes from around it is another one"

    def as_dict(self) -> dict[str, str | None]:
        """Return the change as JSON has it."""
        return {"part": self.part, "before": self.before, "after": self.after, "diff": self.diff}


MAKERS: Final = ("function", "query", "definition")
"""The values of `Definition.maker`: the parts of a definition that are texts of several lines."""

LONGEST_TEXT: Final = 20_000
"""The most characters of a definition's text that are kept: about 500 lines."""

NOT_COMPUTED: Final = ""
"""The function of a stage that was rolled back to before its first version."""


def fingerprint(stage: Stage) -> Fingerprint:
    """Return the fingerprint of a stage.

    It stays the same under another minor version of Python unless a function has no source text, as
    in some interactive sessions, or next to a second lambda in the same statement: then its
    bytecode counts.
    """
    layout = {
        "kind": type(stage).__name__,
        "name": stage.name,
        "inputs": [[feeder.name for feeder in merged] for merged in stage.inputs],
        "key": stage.schema.key.ddl,
        "value": stage.schema.value.ddl,
        "source key": stage.feeders[0].schema.key.ddl if stage.feeders else "",
        "surrogate": stage.kind.key_use.numbered,
    }
    if stage.schema.states:
        layout["states"] = stage.schema.states.ddl
    return Fingerprint(
        _digest(json.dumps(layout, sort_keys=True)), _digest(_making(stage)), _text(stage)
    )


def _making(stage: Stage) -> str:
    """Return the text that defines a stage's rows; empty for a source."""
    if isinstance(stage, Source):
        return ""
    computed_by = (
        described(stage.kind.definition.identity) if stage.revision is None else stage.revision
    )
    return f"{stage.kind.word}: {computed_by}"


def _text(stage: Stage) -> str | None:
    """Return the text that a user wrote for a stage; None if the stage is hidden or has none."""
    if stage.hidden is not None:
        return None
    text = stage.kind.definition.text([feeder.name for feeder in stage.merged])
    return None if text is None else text[:LONGEST_TEXT]


_ATOMS: Final = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type(...),
    decimal.Decimal,
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
)

_STORED_NAMES: Final[Mapping[str, str]] = {
    "deltaproduce.model.graph.Producer": "deltaproduce.stages.Producer",
    "deltaproduce.model.graph.Source": "deltaproduce.stages.Source",
}
"""The names of our classes in stored fingerprints, wherever the classes are now."""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def described(value: object, outer: tuple[object, ...] = ()) -> str:
    """Describe a value by a text that is the same in every process.

    Args:
        value: a function, or a value in its defaults, closure or constants.
        outer: the values that contain this one, to stop at cycles.
    """
    if type(value) in _ATOMS:
        return repr(value)
    if any(value is one for one in outer):
        return "<cycle>"
    parts = [described(part, (*outer, value)) for part in _parts(value)]
    if isinstance(value, set | frozenset):
        parts.sort()
    named = value if isinstance(value, type) or inspect.isbuiltin(value) else type(value)
    name = f"{named.__module__}.{named.__qualname__}"
    return f"{_STORED_NAMES.get(name, name)}({', '.join(parts)})"


def _parts(value: object) -> Iterable[object]:
    """Return the visible parts of a value; most objects show only their type."""
    match value:
        case list() | tuple() | set() | frozenset():
            return value
        case dict():
            return value.items()
        case functools.partial():
            return value.func, value.args, value.keywords
        case Producer():
            return (value.kind.definition.identity,)
        case MethodType():
            return (value.__func__,)
        case FunctionType():
            code = _source(value) or value.__code__
            return code, value.__defaults__, value.__kwdefaults__, _closure(value)
        case CodeType():
            return value.co_code, value.co_names, value.co_varnames, value.co_consts
    call = inspect.getattr_static(type(value), "__call__", None)
    return (call,) if isinstance(call, FunctionType) else ()


def _closure(function: FunctionType) -> dict[str, object]:
    closure: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            closure[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            closure[name] = ...
    return closure


def _source(function: FunctionType) -> str | None:
    """Return the normal form of a function's source text; None if the source is not available."""
    code = function.__code__
    # Of a function, and not of what it wraps. Of bare code Python would look for the module in the
    # files of all modules, which takes longer than all else that a small update does.
    bare = FunctionType(code, function.__globals__, closure=function.__closure__)
    try:
        lines = inspect.getsource(bare)
        # An indented function goes under an `if`, as dedenting would alter its string literals.
        tree = ast.parse(f"if True:\n{lines}" if lines[0].isspace() else lines)
    except (OSError, TypeError, SyntaxError):
        return None
    if code.co_name == "<lambda>":
        lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
        return ast.unparse(lambdas[0]) if len(lambdas) == 1 else None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            return ast.unparse(_bare(node))
    return None


def _bare(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
    """Remove the decorators and the docstring."""
    function.decorator_list = []
    if ast.get_docstring(function, clean=False) is not None:
        function.body = function.body[1:] or [ast.Pass()]
    return function
