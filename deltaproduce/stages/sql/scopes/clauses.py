"""Scopes: the values of names in a task's query, by ``FOR x IN list`` and ``LET x = value``.

A scope depends on the scheduled date alone. The invariant: two evaluations for one date give the
same scopes in the same order, on every machine and in every session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, TypeAlias, overload

import numpy as np
import pyarrow as pa
from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from deltaproduce.engines.local.arrays import Numbers, places_within
from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.stages.sql.scopes.coded import Coded, combined, computed
from deltaproduce.stages.sql.scopes.lists import as_list, is_dated, listed
from deltaproduce.stages.sql.syntax import DEPTHS, reason, shortened, spark_dialect
from deltaproduce.times.zones import name_of
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import DataType

Scope: TypeAlias = Mapping[str, Constant]
"""The names of one task, in the order of their definitions, with their values."""

_SAMPLE: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""An arbitrary date, since types do not depend on it."""


@dataclass(frozen=True, slots=True)
class ScopeClause:
    """``FOR name IN expression``, or ``LET name = expression``.

    Attributes:
        repeats: whether it is a FOR, which creates a scope for each item of a list.
    """

    repeats: bool
    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Scopes:
    """The definition of a stage's scopes.

    Attributes:
        text: the user's text, on one line.
        sample: a scope of any date, for the names and their types.
    """

    text: str
    clauses: tuple[ScopeClause, ...]
    sample: Scope

    @staticmethod
    def read(text: str) -> Scopes:
        """Read the scopes that a text defines; one scope without names if it is empty.

        Raises:
            DefinitionError: it cannot be parsed, or a part depends on more than the date; with the
                `line` in the text.
        """
        clauses = list[ScopeClause]()
        for tokens in _parts(text):
            try:
                clauses.append(_clause(tokens, text, [clause.name for clause in clauses]))
            except DefinitionError as error:
                raise DefinitionError(str(error), line=tokens[0].line) from None
        sample = _expanded(clauses, _SAMPLE)[0]
        return Scopes(" ".join(text.split()), tuple(clauses), sample)

    @property
    def types(self) -> dict[str, DataType]:
        """The names, in order, and the types of their values."""
        return {name: value.data_type for name, value in self.sample.items()}

    @property
    def timeless(self) -> Scoped | None:
        """The scopes of every date, if they do not depend on it."""
        is_timeless = not any(is_dated(clause.expression) for clause in self.clauses)
        return self.of(_SAMPLE) if is_timeless else None

    def of(self, moment: datetime) -> Scoped:
        """Return the scopes of a date, in the order of their lists.

        Args:
            moment: the scheduled date, on the clock of the store.

        Raises:
            DefinitionError: a value cannot be computed.
        """
        return _expanded(self.clauses, moment, self.types)


@dataclass(frozen=True, slots=True)
class Scoped(Sequence[Scope]):
    """Scopes, in order.

    Attributes:
        names: the values of each name, in all scopes.
        size: the number of scopes.
        zone: the time zone in which values are computed.
    """

    names: Mapping[str, Coded]
    size: int
    zone: str

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, place: int) -> Scope: ...

    @overload
    def __getitem__(self, place: slice) -> list[Scope]: ...

    def __getitem__(self, place: int | slice) -> Scope | list[Scope]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(self.size))]
        if not -self.size <= place < self.size:
            raise IndexError(place)
        return {name: column.constant(place) for name, column in self.names.items()}

    def listed(self) -> list[Scope]:
        """Return all of them as mappings."""
        columns = [
            [known[code] for code in column.codes.tolist()]
            for column in self.names.values()
            for known in [column.constants()]
        ]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)] or [
            {} for _ in range(self.size)
        ]

    def beside(self, other: Scoped) -> Scoped:
        """Append other scopes with the same names."""
        if not self.size or not other.size:
            return self if self.size else other
        names = {
            name: Coded(
                one.data_type,
                pa.concat_arrays([one.values, other.names[name].values]),
                np.concatenate([one.codes, other.names[name].codes + len(one.values)]),
            )
            for name, one in self.names.items()
        }
        return Scoped(names, self.size + other.size, self.zone)

    def taken(self, rows: Numbers) -> Scoped:
        """Return scopes, by position."""
        names = {name: one.taken(rows) for name, one in self.names.items()}
        return Scoped(names, len(rows), self.zone)


def _parts(text: str) -> Iterator[list[Token]]:
    """Yield the clauses of a text, which commas separate."""
    try:
        tokens = spark_dialect().tokenize(text)
    except SqlglotError as error:
        raise DefinitionError(f"{shortened(text)!r} cannot be read: {reason(error)}") from None
    depth, part = 0, list[Token]()
    for token in tokens:
        depth += DEPTHS.get(token.token_type, 0)
        if depth == 0 and token.token_type is TokenType.COMMA:
            yield part
            part = []
        else:
            part.append(token)
    if tokens:
        yield part or [tokens[-1]]


def _clause(tokens: Sequence[Token], text: str, known: Sequence[str]) -> ScopeClause:
    """Return one clause, whose expression may use the names before it."""
    words = [token.text.upper() for token in tokens[:3]]
    if len(tokens) < 4 or (words[0], words[2]) not in {("FOR", "IN"), ("LET", "=")}:
        clause_text = shortened(text[tokens[0].start : tokens[-1].end + 1])
        raise DefinitionError(
            f"{clause_text!r} is not a clause of scopes; write FOR x IN list or LET x = value"
        )
    name = tokens[1].text
    if not name.isidentifier() or name.startswith("_"):
        raise DefinitionError(f"{name!r} cannot be a name in a scope; use letters and digits")
    if name.lower() in map(str.lower, known):
        raise DefinitionError(f"{name!r} is defined twice in one scope; rename one")
    expression = Expression.read(text[tokens[3].start : tokens[-1].end + 1], known)
    return ScopeClause(words[0] == "FOR", name, expression)


def _expanded(
    clauses: Sequence[ScopeClause],
    moment: datetime,
    types: Mapping[str, DataType] | None = None,
) -> Scoped:
    """Return all scopes of a date.

    Args:
        types: the names' types; None to find them: then one scope results, as if no list were
            empty.
    """
    scopes = Scoped({}, 1, name_of(moment))
    for clause in clauses:
        scopes = _extended(scopes, clause, moment, typing=types is None)
        if not scopes.size:
            nothing = np.zeros(0, np.int64)
            names = {
                name: Coded(kind, pa.array([], arrow_type(kind)), nothing)
                for name, kind in (types or {}).items()
            }
            return Scoped(names, 0, scopes.zone)
    return scopes


def _extended(scopes: Scoped, clause: ScopeClause, moment: datetime, *, typing: bool) -> Scoped:
    """Extend scopes by one more name."""
    expression = clause.expression
    used = [name for name in expression.columns if name in scopes.names]
    numbers, columns = combined([scopes.names[name] for name in used], scopes.size)
    each = (
        [
            {name: column.constant(row) for name, column in zip(used, columns, strict=True)}
            for row in range(int(numbers.max()) + 1)
        ]
        if clause.repeats or _is_list(expression, scopes, moment)
        else []
    )
    if not each:
        column = computed(expression, scopes.names, scopes.size, scopes.zone)
        return replace(scopes, names={**scopes.names, clause.name: column})
    if clause.repeats:
        lists = [listed(expression, scope, moment).constants(typing=typing) for scope in each]
        return _repeated(scopes, clause.name, lists, numbers)
    whole = [listed(expression, scope, moment).whole() for scope in each]
    values = pa.array([one.value for one in whole], arrow_type(whole[0].data_type))
    column = Coded(whole[0].data_type, values, numbers)
    return replace(scopes, names={**scopes.names, clause.name: column})


def _is_list(expression: Expression, scopes: Scoped, moment: datetime) -> bool:
    """Return whether an expression is a list in these scopes, all of which have the same types."""
    used = [name for name in expression.columns if name in scopes.names]
    sample = {name: scopes.names[name].constant(0) for name in used}
    return as_list(expression, sample, moment) is not None


def _repeated(
    scopes: Scoped, name: str, lists: Sequence[Sequence[Constant]], numbers: Numbers
) -> Scoped:
    """Repeat each scope for each item of a list.

    Args:
        numbers: the number of each scope's list.
    """
    items = [item for one in lists for item in one]
    sizes = np.array([len(one) for one in lists], np.int64)
    if not items:
        return Scoped({}, 0, scopes.zone)
    repeats = sizes[numbers]
    rows = np.repeat(np.arange(scopes.size), repeats)
    codes = places_within((np.cumsum(sizes) - sizes)[numbers], repeats)
    kind = items[0].data_type
    values = pa.array([item.value for item in items], arrow_type(kind))
    names = {**scopes.taken(rows).names, name: Coded(kind, values, codes)}
    return Scoped(names, len(rows), scopes.zone)
