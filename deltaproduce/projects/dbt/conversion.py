"""The conversion: what of a dbt project becomes which file of a project of ours, and why not.

Pure. Models come in the order in which they read each other, and each is defined as it is
converted: so what is written is what the library can keep. The invariant: each model, seed and
source of the manifest is in a file, or in `left_out` with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Final

from deltaproduce.errors import DefinitionError, DeltaProduceError
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.dbt import texts
from deltaproduce.projects.dbt.expectations import Verdict, rule_of
from deltaproduce.projects.dbt.jinja.rendering import Renderer
from deltaproduce.projects.dbt.keys import unique_columns
from deltaproduce.projects.dbt.manifest import Manifest, ManifestError, Node
from deltaproduce.projects.dbt.queries import ephemeral_of, query_of
from deltaproduce.projects.dbt.rows import RowSource, SeedFiles, one_row, source_of
from deltaproduce.projects.dbt.sql.naming import free_name, in_sql, stage_names
from deltaproduce.projects.dbt.sql.relations import Relations
from deltaproduce.projects.dbt.sql.translation import DIALECTS, Translated, translated
from deltaproduce.projects.dbt.texts import StageRule

_SNAPSHOT: Final = (
    "a snapshot keeps what rows were when dbt ran: every version of a stage is kept here, and a "
    "stage of events has a history (docs/events.md)"
)
ONE_ROW: Final = "dbt_one_row"
"""The source of models that read no table."""
_UNIT_TEST: Final = "unit tests are not read: test the query with rows of your own, in pytest"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is not carried over.

    Attributes:
        what: dbt's unique id.
        file: its file in the dbt project.
        reason: why.
        text: its SQL as far as it came, for the user to go on with; empty if there is none.
    """

    what: str
    file: str
    reason: str
    text: str = ""


@dataclass
class Conversion:
    """A project of ours, as far as it is made.

    Attributes:
        names: the name of the stage of each node, by its id.
        tables: the node whose table each source is, by the source's id: a seed, or itself.
        unique: the columns that are said to be unique, by the node's id.
        pipeline: all that is converted.
        files: the texts of files by path.
        sources: the sources by name.
        taken: the name of each stage that is made, by the node's id.
        rules: what tests expect of stages.
        left_out: what is not carried over.
    """

    manifest: Manifest
    dialect: str
    names: Mapping[str, str]
    relations: Relations
    tables: Mapping[str, str]
    unique: Mapping[str, list[tuple[str, ...]]]
    pipeline: Pipeline
    files: dict[str, str] = field(default_factory=dict)
    sources: dict[str, RowSource] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)
    rules: list[StageRule] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def models(self) -> Iterator[str]:
        """Yield the stages that are models."""
        for id, name in self.taken.items():
            if id in self.manifest.nodes and self.manifest.nodes[id].sort == "model":
                yield name


def converted(manifest: Manifest, given: SeedFiles, renderer: Renderer, name: str) -> Conversion:
    """Convert a dbt project.

    Args:
        name: the name of the new project.

    Raises:
        ManifestError: its adapter's SQL cannot be read, or its models read each other in a circle.
    """
    conversion = _begun(manifest, name)
    queries = dict(_queries(conversion, renderer))
    used = _columns_used(queries.values())
    for node in (*manifest.of("seed"), *manifest.sources.values()):
        if conversion.tables.get(node.id, node.id) == node.id:
            _take_rows(conversion, node, given, used.get(node.id, ()))
    for node in _models(manifest):
        if node.id in queries:
            _take_model(conversion, node, queries[node.id])
    conversion.taken.update(
        {
            one: conversion.taken[id]
            for one, id in conversion.tables.items()
            if id in conversion.taken
        }
    )
    for node in manifest.of("test"):
        _take_test(conversion, node, renderer)
    _leave_out(conversion)
    if conversion.rules:
        conversion.files["stages/expectations.py"] = texts.expectations_text(conversion.rules)
    return conversion


def _begun(manifest: Manifest, name: str) -> Conversion:
    """Return a conversion of which only names are decided."""
    dialect = DIALECTS.get(manifest.adapter)
    if dialect is None:
        known = ", ".join(sorted(DIALECTS))
        raise ManifestError(f"the project is for adapter {manifest.adapter!r}; known: {known}")
    nodes = [*_models(manifest), *manifest.of("seed")]
    relations = Relations.of([*nodes, *manifest.sources.values()], dialect)
    tables = {one.id: relations.id_of(one, dialect) for one in manifest.sources.values()}
    own = [one for one in manifest.sources.values() if tables[one.id] == one.id]
    names = stage_names([*nodes, *sorted(own, key=lambda one: one.id)])
    names |= {source: names[id] for source, id in tables.items() if id in names}
    unique = unique_columns(manifest)
    for source, id in tables.items():
        if source != id and source in unique:
            unique.setdefault(id, []).extend(unique[source])
    return Conversion(manifest, dialect, names, relations, tables, unique, Pipeline(name))


def _leave_out(conversion: Conversion) -> None:
    """Note what is never carried over."""
    for node in conversion.manifest.of("snapshot"):
        conversion.left_out.append(LeftOut(node.id, node.path, _SNAPSHOT, node.raw_code))
    for id, values in conversion.manifest.unit_tests.items():
        conversion.left_out.append(LeftOut(id, str(values.get("original_file_path")), _UNIT_TEST))


def _models(manifest: Manifest) -> list[Node]:
    """Return the models that become stages, those that are read first."""
    models = {one.id: one for one in manifest.of("model")}
    try:
        order = [
            *TopologicalSorter({id: one.depends_on for id, one in models.items()}).static_order()
        ]
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise ManifestError(f"models read each other in a circle: {circle}") from None
    return [models[id] for id in order if id in models and models[id].materialized != "ephemeral"]


def _queries(conversion: Conversion, renderer: Renderer) -> Iterator[tuple[str, Translated]]:
    """Yield the queries of models by their ids; note those that cannot be read."""
    for node in _models(conversion.manifest):
        text = node.raw_code
        try:
            text = query_of(node, renderer)
            ephemeral = (
                {}
                if text == node.compiled_code
                else ephemeral_of(node, conversion.manifest, renderer)
            )
            node_of = conversion.relations.node_of
            yield (
                node.id,
                translated(text, conversion.dialect, node_of, conversion.names, ephemeral),
            )
        except DefinitionError as error:
            conversion.left_out.append(LeftOut(node.id, node.path, str(error), text))


def _columns_used(queries: Iterable[Translated]) -> Mapping[str, tuple[str, ...]]:
    """Return the columns of tables that queries name, by the node's id."""
    used = dict[str, dict[str, str]]()
    for query in queries:
        for id, names in query.columns.items():
            for name in names:
                used.setdefault(id, {}).setdefault(name.lower(), name)
    return {id: tuple(names.values()) for id, names in used.items()}


def _take_rows(conversion: Conversion, node: Node, given: SeedFiles, used: Iterable[str]) -> None:
    """Take a seed or source, or note why not."""
    name = conversion.names[node.id]
    try:
        source = source_of(
            node, given, conversion.unique.get(node.id, ()), used, conversion.dialect
        )
        if len(source.columns) > len(source.key):
            _define_source(conversion, name, source)
        else:
            _define_keys_alone(conversion, name, source)
    except DeltaProduceError as error:
        conversion.left_out.append(LeftOut(node.id, node.path, str(error)))
        return
    conversion.taken[node.id] = name


def _define_source(conversion: Conversion, name: str, source: RowSource) -> None:
    keys = ", ".join(f"{in_sql(one)} {source.columns[one]}" for one in source.key)
    values = ", ".join(
        f"{in_sql(one)} {kind}" for one, kind in source.columns.items() if one not in source.key
    )
    conversion.pipeline.source(name, key=keys, value=values)
    conversion.sources[name] = source
    conversion.files[f"stages/{name}.sql"] = texts.source_text(source, name)


def _define_keys_alone(conversion: Conversion, name: str, source: RowSource) -> None:
    """Define a source without values as a query over one with a column that its files lack."""
    given, column = f"{name}__rows", free_name("note", source.columns)
    widened = replace(source, columns={**source.columns, column: "string"}, optional=(column,))
    _define_source(conversion, given, widened)
    sql = f"SELECT {', '.join(map(in_sql, source.columns))} FROM {in_sql(given)}"
    conversion.pipeline.sql(name, sql)
    conversion.files[f"stages/{name}.sql"] = f"{sql}\n"


def _take_model(conversion: Conversion, node: Node, query: Translated) -> None:
    """Take a model, or note why not."""
    name = conversion.names[node.id]
    if lacking := sorted(id for id in query.reads if id not in conversion.taken):
        reason = f"it reads {', '.join(lacking)}, which is not carried over"
        conversion.left_out.append(LeftOut(node.id, node.path, reason, query.sql))
        return
    if not query.reads:
        query = _over_one_row(conversion, query)
    error: DeltaProduceError | None = None
    for key in (*conversion.unique.get(node.id, ()), ()):
        try:
            conversion.pipeline.sql(
                name, query.sql, key=", ".join(map(in_sql, key)) if key else None
            )
        except DeltaProduceError as refusal:
            error = refusal
            continue
        conversion.taken[node.id] = name
        conversion.files[f"stages/{name}.sql"] = texts.stage_text(node, name, query.sql, key)
        return
    conversion.left_out.append(LeftOut(node.id, node.path, str(error), query.sql))


def _over_one_row(conversion: Conversion, query: Translated) -> Translated:
    """Return a query without tables as one over a source of one row: a stage reads a stage."""
    if ONE_ROW not in conversion.sources:
        _define_source(conversion, ONE_ROW, one_row(ONE_ROW))
        conversion.files[f"seeds/{ONE_ROW}.csv"] = "row,note\n1,\n"
    sql = f"SELECT made.* FROM (\n{query.sql}\n) AS made CROSS JOIN {ONE_ROW}"
    return replace(query, sql=sql)


def _take_test(conversion: Conversion, node: Node, renderer: Renderer) -> None:
    """Take a test as a rule of a stage if it is one, else as a query, or note why not."""
    text = node.compiled_code or ""
    try:
        verdict = Verdict.of(node)
        lacking = [
            id for id in node.depends_on if id in conversion.names and id not in conversion.taken
        ]
        if lacking:
            raise DefinitionError(f"it reads {', '.join(lacking)}, which is not carried over")
        if _take_rule(conversion, node, verdict):
            return
        text = query_of(node, renderer)
        node_of, names = conversion.relations.node_of, conversion.names
        query = translated(text, conversion.dialect, node_of, names, {}, is_check=True)
        name = node.alias
        said = {"severity": verdict.severity, "at_most": verdict.at_most}
        conversion.pipeline.check(name, query.sql, **said)  # type: ignore[arg-type]
    except DeltaProduceError as error:
        conversion.left_out.append(LeftOut(node.id, node.path, str(error), text))
        return
    conversion.files[f"checks/{name}.sql"] = texts.check_text(node, name, query.sql, verdict)


def _take_rule(conversion: Conversion, node: Node, verdict: Verdict) -> bool:
    """Take a test as a rule; return whether it is one."""
    matched = rule_of(node, conversion.names)
    if matched is None:
        return False
    rule = StageRule(*matched, verdict.severity, verdict.at_most)
    if rule in conversion.rules:
        return True
    stages = {stage.name: stage for stage in conversion.pipeline.stages}
    try:
        stages[rule.stage].expect(**rule.keywords())
    except DeltaProduceError:  # its query may do, as of values of another type
        return False
    conversion.rules.append(rule)
    return True
