"""Checks: what is wrong in a project, and what its definitions would break in a store.

Pure but for reading the project's files. The invariant: nothing is written, and a column that is
gone, or is another one, is told with every query that uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Stage
from deltaproduce.projects.statements import SqlFile
from deltaproduce.stages.partitioned.frames import Feeder
from deltaproduce.stages.partitioned.query import columns_used
from deltaproduce.stages.partitioned.scope.clauses import Scopes
from deltaproduce.types.columns import Column, RowSchema


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a project that would stop it, or break what uses it.

    Attributes:
        stage: the stage that it is about; empty if it is none.
        column: the column, if it is about one.
        file: where it is written, relative to the project's folder; None if nowhere.
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
        """The same as JSON has it."""
        return asdict(self)

    @staticmethod
    def of(error: DefinitionError) -> Problem:
        """What an error of a definition says."""
        return Problem(error.stage or "", error.column, error.file, error.line, str(error))


def broken(
    before: Mapping[str, RowSchema], stages: Sequence[Stage], files: Iterable[SqlFile]
) -> list[Problem]:
    """What a project's definitions break of what a store has.

    Args:
        before: the columns that the store's stages have.
        stages: those of the project.
        files: the project's SQL files.
    """
    now = {stage.name: stage.schema for stage in stages}
    partitions = {stage.name: stage.kind.partitioned_by for stage in stages}
    by_stage = {file.statement.name: file for file in files}
    feeders = [
        Feeder(name, (*schema.key, *schema.value), partitions.get(name, ()))
        for name, schema in before.items()
    ]
    uses = {name: dict(_uses(file, feeders)) for name, file in by_stage.items()}
    found = list[Problem]()
    for name, schema in before.items():
        file = by_stage.get(name)
        for problem in _of_stage(name, schema, now.get(name)):
            column = problem.column
            users = tuple(
                user
                for user, used in uses.items()
                if name in used and (column is None or column.lower() in used[name])
            )
            if not users and problem.severity == "error":
                continue
            line = None if file is None else file.statement.line
            where = None if file is None else file.name
            told = f"{problem.message}; used by {', '.join(users)}" if users else problem.message
            found.append(replace(problem, users=users, file=where, line=line, message=told))
    return found


def _of_stage(name: str, before: RowSchema, now: RowSchema | None) -> Iterator[Problem]:
    """How the columns of a stage differ; whoever uses them is yet to be found."""
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
    if keys[0] != keys[1] and all(k.lower() in there for k in keys[0]):
        message = f"the key of stage {name!r} is {', '.join(keys[1])}, and was {', '.join(keys[0])}"
        yield Problem(name, None, None, None, message)


def _is_other(one: Column, other: Column) -> bool:
    return one.is_known and other.is_known and one.data_type != other.data_type


def _type(column: Column) -> str:
    return column.data_type.simpleString()


def _uses(file: SqlFile, feeders: Sequence[Feeder]) -> Iterator[tuple[str, frozenset[str]]]:
    """The columns of stages, as they were, that a file's query uses; all of them through ``*``."""
    if not file.statement.select:
        return
    try:
        sample = Scopes.read(file.scopes or "").sample
        yield from columns_used(file.statement.select, feeders, sample).items()
    except DefinitionError:  # it uses what was not there, so nothing that is gone now
        return
