"""Statements: the SQL files of a project as stages and checks of its pipeline, feeders first.

The invariant: an error names file and line, as ``stages/x.sql:3: …``, and a stage is defined after
everything that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlglot import exp

from deltaproduce.errors import DefinitionError, NotFoundError
from deltaproduce.model.checks.definitions import checked_number, checked_severity
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.headers import Statement, parsed, place_of, words
from deltaproduce.projects.sections import ProjectFileError
from deltaproduce.projects.variables import let
from deltaproduce.stages.sql.resolve import for_spark
from deltaproduce.stages.sql.scopes.clauses import Scopes
from deltaproduce.stages.sql.scopes.partitions import ExpectedPartitions, are_kept
from deltaproduce.stages.sql.text import QueryText
from deltaproduce.storage.locations import is_relative


@dataclass(frozen=True, slots=True)
class SqlFile:
    """One SQL file of a project.

    Attributes:
        name: its path, relative to the project's folder.
        folder: the project's folder.
        reads: the names of the tables that its query reads, in lower case.
        vars: the variables that it uses.
    """

    name: str
    folder: Path
    statement: Statement
    reads: frozenset[str]
    vars: Mapping[str, Any]

    @staticmethod
    def read(
        path: Path, folder: Path, vars: Mapping[str, Any], *, is_check: bool = False
    ) -> SqlFile:
        """Read a file.

        Args:
            vars: the variables that it may use.
            is_check: whether it defines a check.

        Raises:
            ProjectFileError: the file cannot be read; with `file` and `line`.
        """
        name = path.relative_to(folder).as_posix()
        with located(name):
            try:
                text = path.read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                raise DefinitionError(f"it cannot be read: {error}", line=1) from None
            statement = parsed(text, path.stem, is_check=is_check)
            reads = frozenset[str]()
            if statement.sort != "EXTERNAL":
                with shifted(statement.select_line):
                    reads = _reads(statement.select)
            texts = [clause.text for clause in statement.clauses.values() if not clause.is_text]
            used = words(statement.select).union(*map(words, texts))
        own = {var: value for var, value in vars.items() if var.lower() in used}
        return SqlFile(name, folder, statement, reads, own)

    @property
    def scopes(self) -> str | None:
        """Its scopes, preceded by the variables that it uses."""
        own = self.statement.text("scopes")
        if own is None and self.statement.sort == "EXTERNAL":
            return None
        return ", ".join(filter(None, (let(self.vars, self.vars), own))) or None

    def at(self, error: DefinitionError) -> ProjectFileError:
        """Place an error that a store finds in the file's stage.

        Args:
            error: its line, if it has one, counts from the start of the query.
        """
        first = self.statement.select_line or self.statement.line
        error.line = first + (error.line or 1) - 1
        return _located_error(error, self.name, first)

    def define(self, pipeline: Pipeline) -> None:
        """Define the file's stage or source.

        Raises:
            ProjectFileError: something in the file is wrong; with `file` and `line`.
        """
        with located(self.name, self.statement.line):
            if self.statement.sort == "EXTERNAL":
                with self._at_column("columns", "key", "partition"):
                    self._external(pipeline)
            elif self.statement.sort == "CHECK":
                self._check(pipeline)
            else:
                with self._at_column("key"):
                    self._stage(pipeline)

    @contextmanager
    def _at_column(self, *clauses: str) -> Iterator[None]:
        """Place errors about a column at the line of the clause that names it.

        An error about a column that the query names, too, keeps its line.
        """
        try:
            yield
        except DefinitionError as error:
            for word in clauses:
                clause = self.statement.clauses.get(word)
                place = None if clause is None else place_of(error.column, clause.text)
                if clause is None or place is None or place_of(error.column, self.statement.select):
                    continue
                line = clause.line + place - 1
                raise DefinitionError(
                    str(error), stage=error.stage, column=error.column, line=line
                ) from None
            raise

    def _stage(self, pipeline: Pipeline) -> None:
        said, name = self.statement, self.statement.name
        if said.text("partition") is not None:
            self._check_scopes()
            retention = (said.text("retention") or "keep").lower()
            with shifted(said.clauses["retention"].line if "retention" in said.clauses else 1):
                are_kept(retention)
            with shifted(said.select_line):
                pipeline.partitioned(
                    name,
                    said.select,
                    key=said.text("key"),
                    partition=said.text("partition") or "",
                    scopes=self.scopes,
                    retention=retention,
                )
            return
        for clause in ("scopes", "retention"):
            if clause in said.clauses:
                line = said.clauses[clause].line
                raise DefinitionError(f"{clause} needs a clause partition (…)", line=line)
        with shifted(said.select_line):
            pipeline.sql(name, self._query(pipeline), key=said.text("key"))

    def _check(self, pipeline: Pipeline) -> None:
        said, given = self.statement, dict[str, Any]()
        if "severity" in said.clauses:
            clause = said.clauses["severity"]
            with shifted(clause.line):
                given["severity"] = checked_severity(clause.text.lower(), stage=said.name)
        if "at_most" in said.clauses:
            clause = said.clauses["at_most"]
            number = int(clause.text) if clause.text.isdecimal() else clause.text
            with shifted(clause.line):
                given["at_most"] = checked_number(number, "at_most", stage=said.name)
        with shifted(said.select_line):
            pipeline.check(said.name, self._query(pipeline), **given)

    def _query(self, pipeline: Pipeline) -> str:
        """Return its query, with variables as literals."""
        query = self.statement.select
        if not self.vars:
            return query
        known = {s.name: s.schema for s in pipeline.stages if not s.kind.intake.all_columns}
        values = Scopes.read(let(self.vars, self.vars)).sample
        return for_spark(query, known, values).with_literals(values)

    def _check_scopes(self) -> None:
        """Parse scopes and partition columns, so that an error in them names its line."""
        said = self.statement.clauses
        with shifted(said["scopes"].line if "scopes" in said else self.statement.line):
            scopes = Scopes.read(self.scopes or "")
        if "partition" in said:
            with shifted(said["partition"].line):
                ExpectedPartitions.read(said["partition"].text, scopes)

    def _external(self, pipeline: Pipeline) -> None:
        said, columns = self.statement, self.statement.columns()
        spelled, keys = {name.lower(): name for name in columns}, list[str]()
        for name, direction in said.key():
            own = spelled.pop(name.lower(), None)
            if own is None:
                message = f"key column {name!r} is none of {', '.join(columns)}"
                raise DefinitionError(message, column=name, line=said.clauses["key"].line)
            keys.append(f"{columns.pop(own)} {direction}".rstrip())
        ddl = ", ".join(keys), ", ".join(columns.values())
        if "scopes" in said.clauses:
            self._check_scopes()
        partition, scopes, table = said.text("partition"), self.scopes, self._table()
        if table is None:
            pipeline.source(
                said.name,
                key=ddl[0],
                value=ddl[1],
                partition=partition,
                scopes=scopes,
                unique="unique" in said.clauses,
            )
            return
        if "unique" in said.clauses:
            message = f"{said.name} is a table that others write, so its key cannot be unique here"
            raise DefinitionError(f"{message}; drop unique", line=said.clauses["unique"].line)
        pipeline.delta_source(
            said.name,
            table=str(self.folder / table) if is_relative(table) else table,
            key=ddl[0],
            value=ddl[1],
            partition=partition,
            scopes=scopes,
        )

    def _table(self) -> str | None:
        """Return the existing table that it names."""
        clause = self.statement.clauses.get("table")
        if clause is None or clause.is_text:
            return None if clause is None else clause.text
        value = next((v for n, v in self.vars.items() if n.lower() == clause.text.lower()), None)
        if not isinstance(value, str):
            fault = f"table {clause.text!r} is not a variable of [vars] that is a text"
            raise DefinitionError(f"{fault}; add it, or write the path in quotes", line=clause.line)
        return value


def define_all(
    files: Sequence[SqlFile],
    modules: Mapping[str, Callable[[Pipeline], None]],
    pipeline: Pipeline,
    errors: list[DefinitionError] | None = None,
) -> tuple[str, ...]:
    """Define everything in SQL files and modules, feeders first, and checks last.

    Args:
        modules: define the rest, by their names; called in this order, each when no file is ready.
        errors: collects the errors, and the rest is defined, except for files that read a failed
            definition; raised if None.

    Returns:
        The stages that are not defined for that reason.

    Raises:
        ProjectFileError: something is wrong; with `file` and `line`.
    """
    checks = [file for file in files if file.statement.sort == "CHECK"]
    waiting = [file for file in files if file not in checks]
    later, wrong = list(modules.items()), set[str]()
    places = dict[str, str]()
    unchecked, lacks_names = list[str](), bool(errors)
    while waiting or later:
        there = {stage.name.lower() for stage in pipeline.stages}
        own = {file.statement.name.lower() for file in waiting}
        if wrong_too := [
            file
            for file in waiting
            if file.reads & wrong or (lacks_names and not later and file.reads - there - own)
        ]:
            unchecked += [file.statement.name for file in wrong_too]
            wrong |= {name.lower() for name in unchecked}
            waiting = [file for file in waiting if file not in wrong_too]
            continue
        ready = [file for file in waiting if not (file.reads & own - there)]
        if later:  # a later module may define what is read
            ready = [file for file in ready if file.reads <= there]
        define: Callable[[Pipeline], None]
        if ready:
            waiting.remove(ready[0])
            place, define = ready[0].name, ready[0].define
        elif later:
            place, define = later.pop(0)
        else:
            names = ", ".join(sorted(f"{one.statement.name} ({one.name})" for one in waiting))
            with located(waiting[0].name, waiting[0].statement.line):
                raise DefinitionError(f"stages read each other in a circle: {names}")
        try:
            with _beside(places):
                define(pipeline)
        except DefinitionError as error:
            if errors is None:
                raise
            errors.append(error)
            wrong |= {stage.statement.name.lower() for stage in ready[:1]}
            lacks_names |= not ready  # those of the stages that a module defines
        places |= {s.name.lower(): place for s in pipeline.stages if s.name.lower() not in there}
    unchecked += [check.statement.name for check in checks if check.reads & wrong]
    with_all = [check for check in checks if not check.reads & wrong]
    _define_checks(with_all, pipeline, places, errors)
    return tuple(unchecked)


def _define_checks(
    files: Sequence[SqlFile],
    pipeline: Pipeline,
    places: Mapping[str, str],
    errors: list[DefinitionError] | None,
) -> None:
    """Define the checks of some files; see `define_all`.

    Args:
        places: the files of stages, by lower-case name.
    """
    for file in files:
        try:
            with _beside(places):
                file.define(pipeline)
        except DefinitionError as error:
            if errors is None:
                raise
            errors.append(error)


@contextmanager
def _beside(places: Mapping[str, str]) -> Iterator[None]:
    """Also name the other file in an error about a stage that another file has defined.

    Args:
        places: the files of stages, by lower-case name.
    """
    try:
        yield
    except ProjectFileError as error:
        other = places.get((error.stage or "").lower())
        if other is None:
            raise
        message = f"{error}; {error.stage!r} is also in {other}"
        raise ProjectFileError(
            message, stage=error.stage, column=error.column, file=error.file, line=error.line
        ) from error.__cause__


@contextmanager
def located(file: str, line: int = 1) -> Iterator[None]:
    """Add the file to definition errors, and the line if they have none.

    Raises:
        ProjectFileError: with `file` and `line`.
    """
    try:
        yield
    except (DefinitionError, NotFoundError) as error:
        raise _located_error(error, file, line) from None


def _located_error(error: Exception, file: str, line: int) -> ProjectFileError:
    """Return an error with its file and line.

    Args:
        line: used if the error has none.
    """
    at = getattr(error, "line", None) or line
    return ProjectFileError(
        f"{file}:{at}: {error}",
        stage=getattr(error, "stage", None),
        column=getattr(error, "column", None),
        file=file,
        line=at,
    )


@contextmanager
def shifted(first: int) -> Iterator[None]:
    """Count the lines of errors in a part of a file from the file's start, not the part's."""
    try:
        yield
    except DefinitionError as error:
        raise DefinitionError(
            str(error),
            stage=error.stage,
            column=error.column,
            line=first + (error.line or 1) - 1,
        ) from None


def _reads(query: str) -> frozenset[str]:
    """Return the names of the tables that a query reads, without its own CTEs."""
    if not query.strip():
        raise DefinitionError("there is no query after the header; write SELECT …")
    tree = QueryText.read(query).tree
    tables = (table for table in tree.find_all(exp.Table) if not _is_cte(table))
    return frozenset(table.name.lower() for table in tables)


def _is_cte(table: exp.Table) -> bool:
    """Return whether a table is a CTE of the query, and not a stage of that name."""
    node, name = table.parent, table.name.lower()
    inside: exp.Expr = table
    while node is not None:
        with_ = node.args.get("with_")
        if with_ is not None:
            for cte in with_.expressions:
                if cte is inside:  # a CTE sees only the CTEs before it
                    break
                if cte.alias.lower() == name:
                    return True
        if isinstance(node, exp.CTE):
            inside = node
        node = node.parent
    return False
