"""Expectations as queries: each rule of `Stage.expect` as the SELECT of the rows that break it.

Pure. The invariant: names in a query are quoted, so a column of any name is that column; and null
passes every rule but ``not_null``, as it passes a condition in SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from math import isfinite

from deltaproduce.errors import DefinitionError
from deltaproduce.model.arguments import text_fault
from deltaproduce.model.checks.expecting import Expectation
from deltaproduce.model.graph import Stage
from deltaproduce.stages.sql.expressions.literals import literal
from deltaproduce.stages.sql.expressions.terms import Constant
from deltaproduce.types.columns import RowSchema
from deltaproduce.types.data_types import BooleanType, DateType, StringType
from deltaproduce.types.ddl import identifier, names_from_list
from deltaproduce.types.excerpts import meant, shown


@dataclass(frozen=True, slots=True)
class ExpectedRule:
    """One rule of an expectation.

    Attributes:
        name: the name of its check.
        select: the query of the rows that break it.
        breaks: a condition that is true for the rows that break it; None if other rows matter, too.
    """

    name: str
    select: str
    breaks: str | None = None


def rules(
    expectation: Expectation, schemas: Mapping[str, RowSchema], *, stage: str
) -> tuple[ExpectedRule, ...]:
    """Return the rules of what is expected of a stage.

    Args:
        schemas: the columns of the stages that are defined.

    Raises:
        DefinitionError: a rule or a column is refused, or there is none; with `stage`.
    """
    making = _Rules(schemas, stage)
    every = tuple(making.rules(expectation))
    if not every:
        raise making.refused(
            "nothing is expected; give not_null=, unique=, where=, among= or refers="
        )
    if expectation.name is None:
        return every
    if fault := text_fault(expectation.name):
        raise making.refused(f"name is {shown(expectation.name)}; give {fault}")
    if len(every) > 1:
        raise making.refused(
            f"name is {shown(expectation.name)}, and there are {len(every)} rules: "
            f"{', '.join(one.name for one in every)}; call expect for each rule that has a name"
        )
    return (ExpectedRule(expectation.name, every[0].select, every[0].breaks),)


def check_quarantine(stage: Stage, expected: Sequence[ExpectedRule], *, at_most: int) -> None:
    """Refuse rules by which no row of a stage can be set aside.

    Raises:
        DefinitionError: with `stage`.
    """
    name, fault = stage.name, ""
    others = [rule.name for rule in expected if rule.breaks is None]
    if not stage.kind.intake.takes_rows:
        fault = f"{name!r} is no source whose rows you give; use 'error' or 'warn'"
    elif others:
        fault = f"{others[0]} is not about one row; use not_null, where or among"
    elif at_most:
        fault = f"at_most is {at_most}, and each row that breaks a rule is set aside; leave it out"
    if fault:
        message = f"stage {name!r}: severity is 'quarantine', and {fault}"
        raise DefinitionError(message, stage=name)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of a stage, as they are made.

    Attributes:
        schemas: the columns of all stages.
    """

    schemas: Mapping[str, RowSchema]
    stage: str

    def rules(self, expectation: Expectation) -> Iterator[ExpectedRule]:
        """Yield the rules."""
        if expectation.not_null is not None:
            for name in self._columns(expectation.not_null, "not_null"):
                yield self._of_rows(f"not_null_{name}", f"{identifier(name)} IS NULL")
        if expectation.unique is not None:
            yield self._unique(self._columns(expectation.unique, "unique"))
        if expectation.where is not None:
            yield self._where(expectation.where)
        for name, values in self._by_column(expectation.among, "among"):
            yield self._among(name, values)
        for name, target in self._by_column(expectation.refers, "refers"):
            yield self._refers(name, target)

    def _of_rows(self, name: str, breaks: str) -> ExpectedRule:
        query = f"SELECT * FROM {identifier(self.stage)} WHERE {breaks}"
        return ExpectedRule(f"{self.stage}_{name}", query, breaks)

    def _unique(self, names: Sequence[str]) -> ExpectedRule:
        listed = ", ".join(map(identifier, names))
        there = " AND ".join(f"{identifier(name)} IS NOT NULL" for name in names)
        times = _new_name("times", names)
        query = (
            f"SELECT {listed}, count(*) AS {times} FROM {identifier(self.stage)} WHERE {there} "
            f"GROUP BY {listed} HAVING count(*) > 1"
        )
        return ExpectedRule(f"{self.stage}_unique_{'_'.join(names)}", query)

    def _where(self, condition: object) -> ExpectedRule:
        if fault := text_fault(condition):
            raise self.refused(f"where is {shown(condition)}; give {fault}")
        return self._of_rows("where", f"NOT (\n{condition}\n)")  # the text may end in a comment

    def _among(self, name: str, values: object) -> ExpectedRule:
        if isinstance(values, str | bytes) or not isinstance(
            values, list | tuple | set | frozenset
        ):
            raise self.refused(f"among of {name!r} is {shown(values)}; give a list of values", name)
        if not values:
            raise self.refused(
                f"among of {name!r} is empty; give the values that it may have", name
            )
        listed = ", ".join(self._literal(value, name) for value in values)
        return self._of_rows(f"among_{name}", f"NOT ({identifier(name)} IN ({listed}))")

    def _literal(self, value: object, column: str) -> str:
        match value:
            case bool():
                return literal(Constant(BooleanType(), value))
            case int():
                return str(value)
            case float() if isfinite(value):
                return f"{value!r}" if "e" in repr(value) else f"{value!r}E0"
            case Decimal() if value.is_finite():
                return f"{value:f}"
            case str():
                return literal(Constant(StringType(), value))
            case datetime():
                return f"TIMESTAMP '{value.isoformat()}'"
            case date():
                return literal(Constant(DateType(), value))
        advice = "null passes anyway" if value is None else "give text, a number, a bool or a date"
        raise self.refused(f"among of {column!r} has {shown(value)}; {advice}", column)

    def _refers(self, name: str, target: object) -> ExpectedRule:
        feeder, column = self._target(name, target)
        own = self.schemas[self.stage]
        keys = [one.name for one in own.key if not one.is_hidden and one.name != name]
        listed = ", ".join(f"o.{identifier(one)}" for one in (*keys, name))
        query = (
            f"SELECT {listed} FROM {identifier(self.stage)} AS o WHERE o.{identifier(name)} "
            f"IS NOT NULL AND NOT EXISTS (SELECT 1 AS one FROM {identifier(feeder)} AS t "
            f"WHERE t.{identifier(column)} = o.{identifier(name)})"
        )
        return ExpectedRule(f"{self.stage}_refers_{name}", query)

    def _target(self, name: str, target: object) -> tuple[str, str]:
        """Return the stage and the column that a column refers to."""
        for stage, schema in self.schemas.items():
            for column in _visible(schema):
                if target in (f"{stage}.{column}", f"{identifier(stage)}.{identifier(column)}"):
                    return stage, column
        known = (
            f"{s}.{column}" for s, schema in self.schemas.items() for column in _visible(schema)
        )
        raise self.refused(
            f"{name!r} refers to {shown(target)}, which is no column of a stage that is defined "
            f"before; {meant(target, known)}",
            name,
        )

    def _columns(self, text: object, rule: str) -> list[str]:
        """Return the columns that a list names, in the stage's spelling."""
        listed = names_from_list(text) if isinstance(text, str) else None
        if not listed or any(direction is not None for _, direction in listed):
            raise self.refused(f"{rule} is {shown(text)}; name columns, such as 'a, b'")
        names = [self._column(name, rule) for name, _ in listed]
        if len({*names}) < len(names):
            raise self.refused(f"{rule} is {shown(text)}, which names a column twice")
        return names

    def _by_column(self, given: object, rule: str) -> Iterator[tuple[str, object]]:
        if given is None:
            return
        if not isinstance(given, Mapping) or not given:
            raise self.refused(f"{rule} is {shown(given)}; give a dict of columns")
        for name, value in given.items():
            yield self._column(name, rule), value

    def _column(self, name: object, rule: str) -> str:
        columns = _visible(self.schemas[self.stage])
        spelled = {column.lower(): column for column in columns}
        if not isinstance(name, str) or name.lower() not in spelled:
            message = f"{rule} names {shown(name)}, which is no column; {meant(name, columns)}"
            raise self.refused(message, name if isinstance(name, str) else None)
        return spelled[name.lower()]

    def refused(self, fault: str, column: str | None = None) -> DefinitionError:
        """Return the error for a rule."""
        message = f"stage {self.stage!r}: {fault}"
        return DefinitionError(message, stage=self.stage, column=column)


def _visible(schema: RowSchema) -> list[str]:
    """Return the names of the columns that users see."""
    return [column.name for column in (*schema.key, *schema.value) if not column.is_hidden]


def _new_name(wanted: str, names: Sequence[str]) -> str:
    """Return a name that is none of some others."""
    taken = {name.lower() for name in names}
    while wanted in taken:
        wanted += "_"
    return wanted
