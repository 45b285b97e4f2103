"""Analysis: finds the types of all columns; a session supplies those that the graph omits.

A stage's kind finds the types (`StageKind.resolved`): Spark gives those of a query, and a source
that is read in place has those of its table. The invariant: the returned graph can be planned and
carried out, or says which stages need a session for that; anything else is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from deltaproduce.described.content import check_stored
from deltaproduce.errors import DefinitionError, SessionError
from deltaproduce.model.declarations import check_stage
from deltaproduce.model.fingerprints import fingerprint
from deltaproduce.model.graph import Graph, Stage, with_hidden
from deltaproduce.stages.kind import needing, stage_kind
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.storage.versions import Version, has_columns, has_tables, stage_at


@dataclass(frozen=True, slots=True)
class Analysis:
    """A graph with the types of all columns, as far as they are known without a session.

    Attributes:
        needing: the stages that need a session to be made -> why; none if there is one.
        unknown: those of them whose types are not known. With such a stage a graph can be read by,
            since a version says which columns its stages have, and cannot be carried out.
    """

    graph: Graph
    needing: Mapping[str, SessionError]
    unknown: tuple[str, ...] = ()


def analysed(graph: Graph, tables: Tables, head: Callable[[], Version]) -> Analysis:
    """Return the graph with the types of all columns; read no row.

    Without a session a query has the types with which a version has recorded it, if its definition
    and its feeders' columns are the same.

    Args:
        head: reads the newest version.

    Raises:
        DefinitionError: Spark refuses a query, a column has a type that cannot be stored, a Delta
            table does not exist or has other columns, or content cannot be stored as a definition
            says; with `stage`.
    """
    stages, needed = dict[str, Stage](), dict[str, SessionError]()
    unknown, recorded = list[str](), None
    for stage in graph.stages:
        fed = _fed(stage, stages)
        try:
            with needing(fed):
                kind = _resolved(fed, tables)
            stages |= {one.name: one for one in with_hidden(kind) if one.name not in stages}
        except SessionError as error:
            if tables.engines.session is not None:
                raise
            recorded = head() if recorded is None else recorded
            same = _as_recorded(fed, recorded)
            stages[stage.name] = fed if same is None else same
            needed[stage.name] = error
            if same is None:
                unknown.append(stage.name)
    return Analysis(Graph(tuple(stages.values()), graph.checks), needed, tuple(unknown))


def _as_recorded(stage: Stage, version: Version) -> Stage | None:
    """Return a stage with the types that a version has recorded for this very definition."""
    known = version.definitions.get(stage.name)
    if known is None or (not has_tables(version, stage.name) and stage.kind.intake.table is None):
        return None
    then = stage_at(version, stage)
    is_fed_alike = all(
        one.name in version.stages and has_columns(version.stages[one.name], one)
        for one in stage.feeders
    )
    if then.schema.names != stage.schema.names or not is_fed_alike:
        return None
    typed = replace(stage, schema=then.schema)
    return typed if fingerprint(typed) == known else None


def refused(graph: Graph, tables: Tables) -> list[DefinitionError]:
    """Return the error of each refused stage whose feeders are all accepted; read no row."""
    stages, errors = dict[str, Stage](), list[DefinitionError]()
    for stage in graph.stages:
        if all(one.name in stages for one in stage.feeders):
            try:
                stages[stage.name] = _resolved(_fed(stage, stages), tables)
            except DefinitionError as error:
                errors.append(error)
    return errors


def _fed(stage: Stage, stages: Mapping[str, Stage]) -> Stage:
    """Return a stage that reads the stages before it with their types."""
    return stage.fed_by(stages)


def _resolved(stage: Stage, tables: Tables) -> Stage:
    """Return a stage with the types of its columns."""
    check_stage(stage)
    kind = stage_kind(stage).resolved(stage, tables)
    check_stored(kind)
    return kind
