"""Checks: errors in a project, and what its definitions would break in a store.

Pure, except that it reads the project's files. The invariant: a check writes nothing, and if a
column is gone or has changed, it reports every query that uses the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Stage
from deltaproduce.projects.statements import SqlFile
from deltaproduce.stages.sql.algebra.usage import columns_used
from deltaproduce.stages.sql.resolve import for_spark
from deltaproduce.stages.sql.scopes.clauses import Scope, Scopes
from deltaproduce.types.columns import Column, RowSchema, unknown_schema


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a project that stops it, or breaks what uses it.

    Attributes:
        stage: the stage that it is about; empty if none.
        column: the column, if it is about one.
        file: the file that contains it, relative to the project's folder; None if none.
        users: the stages whose queries use what is wrong.
        severity: an ``error`` stops a run; a ``warning`` does not.
    """

    stage: str
    column: str | None
    file: str | None
    line: int | None
    message: str
    users: tuple[str, ...] = ()
    severity: Literal["error", "warning"] = "error"

    def as_dict(self) -> dict[str, Any]:
        """The problem as JSON values."""
        return asdict(self)

    @staticmethod
    def of(error: DefinitionError) -> Problem:
        """Return the problem that a definition's error describes."""
        return Problem(error.stage or "", error.column, error.file, error.line, str(error))


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of a check.

    Attributes:
        unchecked: the stages that are not checked, because they read what is refused.
    """

    problems: list[Problem]
    unchecked: tuple[str, ...] = ()

    @property
    def has_errors(self) -> bool:
        """Whether a problem stops a run."""
        return any(one.severity == "error" for one in self.problems)


def broken(
    before: Mapping[str, RowSchema],
    stages: Sequence[Stage],
    now: Mapping[str, RowSchema],
    files: Iterable[SqlFile],
    errors: Iterable[DefinitionError],
) -> list[Problem]:
    """Return what a project's definitions break in a store.

    Args:
        before: the columns of the store's stages.
        stages: the project's stages that could be defined.
        now: their columns, with the types that are known.
        files: the project's SQL files.
        errors: why the other stages could not be defined.
    """
    by_stage = {file.statement.name: file for file in files}
    users = _Users.of(before, stages, by_stage, errors)
    problems = list[Problem]()
    for name, schema in before.items():
        file = by_stage.get(name)
        if name not in now and (file is not None or users.refused([name])):
            continue  # another problem says why it is missing
        for problem in _of_stage(name, schema, now.get(name)):
            those = users.using(name, problem.column)
            severity = "error" if users.refused(those) else problem.severity
            if not those and severity == "error":
                continue
            message = f"{problem.message}; used by {', '.join(those)}" if those else problem.message
            problems.append(
                replace(
                    problem,
                    users=those,
                    file=None if file is None else file.name,
                    line=None if file is None else file.statement.line,
                    message=message,
                    severity=severity,
                )
            )
    return problems


@dataclass(frozen=True, slots=True)
class _Users:
    """The users of stages' columns.

    Attributes:
        uses: stage -> the stages that its query reads, with the columns that it uses.
        errors: the stages that could not be defined, each with the column at fault.
    """

    uses: Mapping[str, Mapping[str, frozenset[str]]]
    errors: Sequence[tuple[str, str]]

    @staticmethod
    def of(
        before: Mapping[str, RowSchema],
        stages: Sequence[Stage],
        files: Mapping[str, SqlFile],
        errors: Iterable[DefinitionError],
    ) -> _Users:
        """Find the users in a project."""
        feeders = dict(_feeders([*before.items(), *((s.name, s.schema) for s in stages)]))
        named = {file.name: name for name, file in files.items()}
        places = ((named.get(one.file or "", one.stage), one.column) for one in errors)
        return _Users(
            {user: dict(_used(*query, feeders)) for user, query in _queries(stages, files)},
            [(stage, (column or "").lower()) for stage, column in places if stage],
        )

    def using(self, stage: str, column: str | None) -> tuple[str, ...]:
        """Return the stages that use a stage, or its column; modules count if they fail for it."""
        users = [
            user
            for user, used in self.uses.items()
            if stage in used and (column is None or column.lower() in used[stage])
        ]
        failing = (user for user, of in self.errors if column and of == column.lower())
        return tuple(dict.fromkeys([*users, *(user for user in failing if user not in self.uses)]))

    def refused(self, users: Iterable[str]) -> bool:
        """Return whether any of the users could not be defined."""
        return not {user for user, _ in self.errors}.isdisjoint(users)


def _feeders(schemas: Iterable[tuple[str, RowSchema]]) -> Iterator[tuple[str, RowSchema]]:
    """Yield stages with all columns that they had or have, whatever the type."""
    names = dict[str, dict[str, str]]()
    for stage, schema in schemas:
        for column in (*schema.key, *schema.value):
            names.setdefault(stage, {}).setdefault(column.name.lower(), column.name)
    for stage, columns in names.items():
        yield stage, unknown_schema({}, columns.values())


def _queries(
    stages: Iterable[Stage], files: Mapping[str, SqlFile]
) -> Iterator[tuple[str, tuple[str, Scope]]]:
    """Yield the queries that read the stages, by the stage that each defines, as text and scope."""
    for name, file in files.items():
        if file.statement.select:
            with suppress(DefinitionError):  # a problem that is reported separately
                yield name, (file.statement.select, Scopes.read(file.scopes or "").sample)
    for stage in stages:
        definition = stage.kind.definition
        if definition.sql is not None and stage.name not in files:
            yield stage.name, (definition.sql, definition.constants)


def _of_stage(name: str, before: RowSchema, now: RowSchema | None) -> Iterator[Problem]:
    """Yield how the columns of a stage differ; the users are not filled in."""
    if now is None:
        yield Problem(name, None, None, None, f"stage {name!r} is gone")
        return
    there = {column.name.lower(): column for column in (*now.key, *now.value)}
    had = {column.name.lower(): column for column in (*before.key, *before.value)}
    new = [column for key, column in there.items() if key not in had]
    for key, column in had.items():
        if key not in there:
            like = [other.name for other in new if other.data_type == column.data_type]
            renamed = f", perhaps renamed to {like[0]!r}" if len(like) == 1 else ""
            message = f"column {column.name!r} of stage {name!r} is gone{renamed}"
            yield Problem(name, column.name, None, None, message)
        elif _is_other(column, there[key]):
            message = (
                f"column {column.name!r} of stage {name!r} is {_type(there[key])}, and was "
                f"{_type(column)}"
            )
            yield Problem(name, column.name, None, None, message, severity="warning")
    keys = [[c.name for c in schema.key] for schema in (before, now)]
    was, is_now = ([key.lower() for key in names] for names in keys)
    if was != is_now and all(key in there for key in was):
        message = f"the key of stage {name!r} is {', '.join(keys[1])}, and was {', '.join(keys[0])}"
        yield Problem(name, None, None, None, message)


def _is_other(one: Column, other: Column) -> bool:
    return one.is_known and other.is_known and _type(one) != _type(other)


def _type(column: Column) -> str:
    return column.data_type.simpleString()


def _used(
    query: str, sample: Scope, feeders: Mapping[str, RowSchema]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the columns of stages, old or new, that a query uses; ``*`` uses all."""
    with suppress(DefinitionError):  # a problem that is reported separately
        resolved_query = for_spark(query, feeders, sample)
        yield from columns_used(resolved_query.relations).items()
