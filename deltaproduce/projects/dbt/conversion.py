"""The conversion: what of a dbt project becomes which file of a project of ours, and why not.

Pure. Models come in the order in which they read each other, and each is defined as it is
converted: so what is written is what the library can keep. The invariant: each model, seed and
source of the manifest is in a file, or in `left_out` with a reason. Unit tests come later, with the
types of all columns (`unit_tests`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Final

from deltaproduce.errors import DefinitionError, DeltaProduceError
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.dbt import histories, texts
from deltaproduce.projects.dbt.carried import ONE_ROW, Conversion, LeftOut, NotTranslated
from deltaproduce.projects.dbt.given.keys import unique_columns
from deltaproduce.projects.dbt.given.rows import RowSource, SeedFiles, one_row, source_of
from deltaproduce.projects.dbt.histories import SnapshotQuery
from deltaproduce.projects.dbt.jinja.queries import ephemeral_of, query_of
from deltaproduce.projects.dbt.jinja.rendering import Renderer
from deltaproduce.projects.dbt.jinja.tables import UnknownColumnsError
from deltaproduce.projects.dbt.manifest import Manifest, ManifestError, Node
from deltaproduce.projects.dbt.sql.naming import free_name, in_sql, stage_names
from deltaproduce.projects.dbt.sql.relations import Relations
from deltaproduce.projects.dbt.sql.translation import DIALECTS, Translated
from deltaproduce.projects.dbt.sql.wanted import of_all
from deltaproduce.projects.dbt.testing.expectations import Verdict, rule_of
from deltaproduce.projects.dbt.texts import StageRule

_UNREAD: Final = "no model or test reads it"


def converted(manifest: Manifest, given: SeedFiles, renderer: Renderer, name: str) -> Conversion:
    """Convert a dbt project.

    Args:
        name: the name of the new project.

    Raises:
        ManifestError: its adapter's SQL cannot be read, or its models read each other in a circle.
    """
    conversion = _begun(manifest, name)
    for node in manifest.of("seed"):
        _take_rows(conversion, node, given, {})
    models = _models(manifest)
    queries = {node.id: _query(conversion, node, renderer) for node in models}
    snapshots = list(histories.queries(conversion, renderer))
    _take_sources(conversion, given, _used(models, queries, snapshots))
    for snapshot in snapshots:
        histories.take(conversion, snapshot)
    for node in models:
        query = queries[node.id]
        if isinstance(query, UnknownColumnsError):  # of tables that are known by now
            query = _query(conversion, node, renderer)
        _take_model(conversion, node, query)
    tables = conversion.tables.items()
    conversion.taken |= {
        source: conversion.taken[id] for source, id in tables if id in conversion.taken
    }
    for node in manifest.of("test"):
        _take_test(conversion, node, renderer)
    if conversion.has_date:
        _check_date(conversion)
    if conversion.histories:  # its name comes first, so that expectations find its stages
        conversion.files["stages/dbt_snapshots.py"] = texts.history_text(conversion.histories)
    if conversion.rules:
        conversion.files["stages/expectations.py"] = texts.expectations_text(conversion.rules)
    return conversion


def _begun(manifest: Manifest, name: str) -> Conversion:
    """Return a conversion of which only names are decided."""
    dialect = DIALECTS.get(manifest.adapter)
    if dialect is None:
        known = ", ".join(sorted(DIALECTS))
        raise ManifestError(f"the project is for adapter {manifest.adapter!r}; known: {known}")
    nodes = [*_models(manifest), *manifest.of("seed"), *manifest.of("snapshot")]
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


def _query(
    conversion: Conversion, node: Node, renderer: Renderer
) -> Translated | NotTranslated | UnknownColumnsError:
    """Return the query of a model, or why it cannot be read."""
    text, manifest, tables = node.raw_code, conversion.manifest, conversion.jinja_tables()
    try:
        text = query_of(node, renderer, tables)
        is_rendered = text != node.compiled_code
        ephemeral = ephemeral_of(node, manifest, renderer, tables) if is_rendered else {}
        return conversion.translated(text, ephemeral)
    except UnknownColumnsError as error:
        return error
    except DefinitionError as error:
        return NotTranslated(str(error), text)


def _used(
    models: Sequence[Node],
    queries: Mapping[str, Translated | NotTranslated | UnknownColumnsError],
    snapshots: Iterable[SnapshotQuery],
) -> dict[str, Mapping[str, str]]:
    """Return the columns that models and snapshots use of nodes, with their likely types."""
    read = {id: one.wanted for id, one in queries.items() if isinstance(one, Translated)}
    used: dict[str, Mapping[str, str]] = {**of_all(read, [node.id for node in models])}
    for one in snapshots:
        used[one.read] = {**one.wanted(), **used.get(one.read, {})}
    return used


def _take_sources(
    conversion: Conversion, given: SeedFiles, used: Mapping[str, Mapping[str, str]]
) -> None:
    """Take the sources that something reads, and note the others."""
    nodes = conversion.manifest.nodes.values()
    read = {id for node in nodes for id in node.depends_on}
    for node in conversion.manifest.sources.values():
        if conversion.tables[node.id] != node.id:
            continue
        if node.id in read:
            _take_rows(conversion, node, given, used.get(node.id, {}))
        else:
            conversion.left_out.append(LeftOut(node.id, node.path, _UNREAD))


def _take_rows(
    conversion: Conversion, node: Node, given: SeedFiles, used: Mapping[str, str]
) -> None:
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
    if node.sort == "seed":
        names = (source.renamed.get(one, one).lower() for one in source.columns)
        conversion.known[node.id] = frozenset(names)


def _define_source(conversion: Conversion, name: str, source: RowSource) -> None:
    conversion.renamed |= source.renamed
    source.define(conversion.pipeline, name)
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


def _take_model(
    conversion: Conversion, node: Node, query: Translated | NotTranslated | UnknownColumnsError
) -> None:
    """Take a model, or note why not."""
    name = conversion.names[node.id]
    if not isinstance(query, Translated):
        text = query.text if isinstance(query, NotTranslated) else node.raw_code
        conversion.left_out.append(LeftOut(node.id, node.path, str(query), text))
        return
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
        conversion.has_date |= query.has_date
        conversion.files[f"stages/{name}.sql"] = texts.stage_text(node, name, query.sql, key)
        return
    conversion.left_out.append(LeftOut(node.id, node.path, str(error), query.sql))


def _over_one_row(conversion: Conversion, query: Translated) -> Translated:
    """Return a query without tables as one over a source of one row: a stage reads a stage."""
    if ONE_ROW not in conversion.sources:
        _define_one_row(conversion)
    sql = f"SELECT made.* FROM (\n{query.sql}\n) AS made CROSS JOIN {ONE_ROW}"
    return replace(query, sql=sql)


def _check_date(conversion: Conversion) -> None:
    """Let no version have a null in place of the day that models read."""
    if ONE_ROW not in conversion.sources:
        _define_one_row(conversion)
    name = free_name("as_of_is_named", (one.name for one in conversion.pipeline.stages))
    sql = f"SELECT row FROM {ONE_ROW} WHERE :as_of IS NULL"
    conversion.pipeline.check(name, sql)
    said = "-- models read the day, in dbt as current_date: name it, as in deltaproduce run --as-of"
    conversion.files[f"checks/{name}.sql"] = f"{said}\nCHECK {name} (severity error);\n{sql}\n"


def _define_one_row(conversion: Conversion) -> None:
    _define_source(conversion, ONE_ROW, one_row(ONE_ROW))
    conversion.files[f"seeds/{ONE_ROW}.csv"] = "row,note\n1,\n"


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
        if not verdict.condition and _take_rule(conversion, node, verdict):
            return
        tables = conversion.jinja_tables()
        text = query_of(node, renderer, tables)
        is_rendered = text != node.compiled_code
        ephemeral = ephemeral_of(node, conversion.manifest, renderer, tables) if is_rendered else {}
        query = conversion.translated(verdict.broken_rows(text), ephemeral, is_check=True)
        if not query.reads:
            query = _over_one_row(conversion, query)
        name = node.alias
        said = {"severity": verdict.severity, "at_most": verdict.at_most}
        conversion.pipeline.check(name, query.sql, **said)  # type: ignore[arg-type]
        conversion.has_date |= query.has_date
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
