"""Scopes: what the names in a task's query stand for, by ``FOR x IN list`` and ``LET x = value``.

A scope is made of the date that is scheduled, and of nothing else. The invariant: two evaluations
for one date give the same scopes in the same order, on every machine and in every session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias, overload

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType
from sqlglot import Token, TokenType
from sqlglot.errors import SqlglotError

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.errors import DefinitionError
from deltaproduce.stages.partitioned.scope.coded import Coded, combined, computed
from deltaproduce.stages.partitioned.scope.lists import as_one, is_dated, is_list, listed
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.stages.sql.syntax import DEPTHS, reason, shortened, spark_dialect
from deltaproduce.types.atoms import arrow_type

Scope: TypeAlias = Mapping[str, Constant]
"""The names of one task, in the order in which they are defined, and what they stand for."""

_SAMPLE: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Types do not depend on the date; this one is as good as any other."""


@dataclass(frozen=True, slots=True)
class Clause:
    """``FOR name IN expression``, or ``LET name = expression``.

    Attributes:
        repeats: whether it is a FOR, which makes a scope of each item of a list.
    """

    repeats: bool
    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Scopes:
    """What the scopes of a stage are made of.

    Attributes:
        text: as the user wrote it, on one line.
        sample: a scope, for the names and the types of what they stand for.
    """

    text: str
    clauses: tuple[Clause, ...]
    sample: Scope

    @staticmethod
    def read(text: str) -> Scopes:
        """The scopes that a text defines; one scope without names if it is empty.

        Raises:
            DefinitionError: it cannot be read, or a part is not determined by the date; with the
                `line` in the text.
        """
        clauses = list[Clause]()
        for tokens in _parts(text):
            try:
                clauses.append(_clause(tokens, text, [clause.name for clause in clauses]))
            except DefinitionError as error:
                raise DefinitionError(str(error), line=tokens[0].line) from None
        sample = _expanded(clauses, _SAMPLE)[0]
        return Scopes(" ".join(text.split()), tuple(clauses), sample)

    @property
    def types(self) -> dict[str, DataType]:
        """The names, in order, and the types of what they stand for."""
        return {name: value.data_type for name, value in self.sample.items()}

    @property
    def timeless(self) -> Scoped | None:
        """The scopes of all dates, if they are the same at each."""
        is_timeless = not any(is_dated(clause.expression) for clause in self.clauses)
        return self.of(_SAMPLE) if is_timeless else None

    def of(self, moment: datetime) -> Scoped:
        """The scopes of a date, in the order of their lists.

        Args:
            moment: the date that is scheduled, in UTC.

        Raises:
            DefinitionError: a value cannot be computed.
        """
        return _expanded(self.clauses, moment, self.types)


@dataclass(frozen=True, slots=True)
class Scoped(Sequence[Scope]):
    """Scopes, in order.

    Attributes:
        names: what each name stands for, in all of them.
        size: how many they are.
    """

    names: Mapping[str, Coded]
    size: int

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
        """All of them as mappings."""
        columns = [
            [known[code] for code in column.codes.tolist()]
            for column in self.names.values()
            for known in [column.constants()]
        ]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)] or [
            {} for _ in range(self.size)
        ]

    def beside(self, other: Scoped) -> Scoped:
        """These, and then others of the same names."""
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
        return Scoped(names, self.size + other.size)

    def taken(self, rows: Numbers) -> Scoped:
        """Some of them, by their places."""
        return Scoped({name: one.taken(rows) for name, one in self.names.items()}, len(rows))


def _parts(text: str) -> Iterator[list[Token]]:
    """The clauses of a text, which commas part."""
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


def _clause(tokens: Sequence[Token], text: str, known: Sequence[str]) -> Clause:
    """One clause, whose expression may name those before it."""
    words = [token.text.upper() for token in tokens[:3]]
    if len(tokens) < 4 or (words[0], words[2]) not in {("FOR", "IN"), ("LET", "=")}:
        told = shortened(text[tokens[0].start : tokens[-1].end + 1])
        raise DefinitionError(
            f"{told!r} is no part of scopes; write FOR x IN list or LET x = value"
        )
    name = tokens[1].text
    if not name.isidentifier() or name.startswith("_"):
        raise DefinitionError(f"{name!r} cannot be a name in a scope; use letters and digits")
    if name.lower() in map(str.lower, known):
        raise DefinitionError(f"{name!r} is defined twice in one scope; rename one")
    expression = Expression.read(text[tokens[3].start : tokens[-1].end + 1], known)
    return Clause(words[0] == "FOR", name, expression)


def _expanded(
    clauses: Sequence[Clause],
    moment: datetime,
    types: Mapping[str, DataType] | None = None,
) -> Scoped:
    """All scopes of a date.

    Args:
        types: those of the names; None to find them: then there is one scope, as no list is empty.
    """
    found = Scoped({}, 1)
    for clause in clauses:
        found = _extended(found, clause, moment, typing=types is None)
        if not found.size:
            nothing = np.zeros(0, np.int64)
            names = {
                name: Coded(kind, pa.array([], arrow_type(kind)), nothing)
                for name, kind in (types or {}).items()
            }
            return Scoped(names, 0)
    return found


def _extended(found: Scoped, clause: Clause, moment: datetime, *, typing: bool) -> Scoped:
    """Scopes with one more name."""
    expression = clause.expression
    used = [name for name in expression.columns if name in found.names]
    numbers, columns = combined([found.names[name] for name in used], found.size)
    each = (
        [
            {name: column.constant(row) for name, column in zip(used, columns, strict=True)}
            for row in range(int(numbers.max()) + 1)
        ]
        if clause.repeats or _names_a_list(expression, found)
        else []
    )
    if not each:
        column = computed(expression, found.names, found.size)
        return Scoped({**found.names, clause.name: column}, found.size)
    lists = [listed(expression, scope, moment, typing=typing) for scope in each]
    if clause.repeats:
        lists = [one[:1] for one in lists] if typing else lists
        return _repeated(found, clause.name, lists, numbers)
    whole = [
        as_one(items, expression, scope, moment) for items, scope in zip(lists, each, strict=True)
    ]
    values = pa.array([list(one.value) for one in whole], arrow_type(whole[0].data_type))
    column = Coded(whole[0].data_type, values, numbers)
    return Scoped({**found.names, clause.name: column}, found.size)


def _names_a_list(expression: Expression, found: Scoped) -> bool:
    column = found.names.get(expression.column or "")
    return is_list(expression, {} if column is None else {expression.text: column.constant(0)})


def _repeated(
    found: Scoped, name: str, lists: Sequence[Sequence[Constant]], numbers: Numbers
) -> Scoped:
    """A scope of each item of a list, for each scope.

    Args:
        numbers: which of the lists each scope has.
    """
    items = [item for one in lists for item in one]
    sizes = np.array([len(one) for one in lists], np.int64)
    if not items:
        return Scoped({}, 0)
    repeats = sizes[numbers]
    rows = np.repeat(np.arange(found.size), repeats)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    codes = (np.cumsum(sizes) - sizes)[numbers[rows]] + within
    kind = items[0].data_type
    values = pa.array([item.value for item in items], arrow_type(kind))
    return Scoped({**found.taken(rows).names, name: Coded(kind, values, codes)}, len(rows))
