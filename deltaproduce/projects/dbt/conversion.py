"""The conversion: what of a dbt project becomes which file of a project of ours, and why not.

Pure. Models come in the order in which they read each other, and each is defined as it is
converted: so what is written is what the library can keep. The invariant: each model, seed and
source of the manifest is in a file, or in `left_out` with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from deltaproduce.errors import DefinitionError, DeltaProduceError
from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.dbt import texts
from deltaproduce.projects.dbt.keys import unique_columns
from deltaproduce.projects.dbt.manifest import Manifest, ManifestError, Node
from deltaproduce.projects.dbt.naming import in_sql, stage_names
from deltaproduce.projects.dbt.queries import ephemeral_of, query_of
from deltaproduce.projects.dbt.relations import Relations
from deltaproduce.projects.dbt.rendering import Renderer
from deltaproduce.projects.dbt.rows import Given, RowSource, source_of
from deltaproduce.projects.dbt.translation import DIALECTS, Translated, translated
from deltaproduce.shown.explanations import Explanation


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
        pipeline: all that is converted.
        files: the texts of files by path.
        sources: the sources by name.
        left_out: what is not carried over.
        notes: what the user has to know of a node, by its id.
    """

    manifest: Manifest
    dialect: str
    names: Mapping[str, str]
    relations: Relations
    unique: Mapping[str, list[tuple[str, ...]]]
    pipeline: Pipeline
    files: dict[str, str] = field(default_factory=dict)
    sources: dict[str, RowSource] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def explanations(self) -> Iterator[Explanation]:
        """Yield how each model is kept."""
        for id, name in self.taken.items():
            if id not in self.manifest.sources and self.manifest.nodes[id].sort != "seed":
                yield self.pipeline.explain(name)


def converted(manifest: Manifest, given: Given, renderer: Renderer, name: str) -> Conversion:
    """Convert a dbt project.

    Args:
        name: the name of the new project.

    Raises:
        ManifestError: its adapter's SQL cannot be read, or its models read each other in a circle.
    """
    dialect = DIALECTS.get(manifest.adapter)
    if dialect is None:
        known = ", ".join(sorted(DIALECTS))
        raise ManifestError(f"the project is for adapter {manifest.adapter!r}; known: {known}")
    nodes = [*_models(manifest), *manifest.of("seed")]
    relations = Relations.of([*nodes, *manifest.sources.values()], dialect)
    own = [one for one in manifest.sources.values() if relations.id_of(one, dialect) == one.id]
    made = Conversion(
        manifest,
        dialect,
        stage_names([*nodes, *sorted(own, key=lambda one: one.id)]),
        relations,
        unique_columns(manifest),
        Pipeline(name),
    )
    queries = dict(_queries(made, renderer))
    used = _columns_used(queries.values())
    for node in (*manifest.of("seed"), *own):
        _take_rows(made, node, given, used.get(node.id, ()))
    for node in _models(manifest):
        if node.id in queries:
            _take_model(made, node, queries[node.id])
    return made


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


def _queries(made: Conversion, renderer: Renderer) -> Iterator[tuple[str, Translated]]:
    """Yield the queries of models by their ids; note those that cannot be read."""
    for node in _models(made.manifest):
        text = node.raw_code
        try:
            text = query_of(node, renderer)
            ephemeral = (
                {} if text == node.compiled_code else ephemeral_of(node, made.manifest, renderer)
            )
            found = made.relations.found
            yield node.id, translated(text, made.dialect, found, made.names, ephemeral)
        except DefinitionError as error:
            made.left_out.append(LeftOut(node.id, node.path, str(error), text))


def _columns_used(queries: Iterable[Translated]) -> Mapping[str, tuple[str, ...]]:
    """Return the columns of tables that queries name, by the node's id."""
    used = dict[str, dict[str, str]]()
    for query in queries:
        for id, names in query.columns.items():
            for name in names:
                used.setdefault(id, {}).setdefault(name.lower(), name)
    return {id: tuple(names.values()) for id, names in used.items()}


def _take_rows(made: Conversion, node: Node, given: Given, used: Iterable[str]) -> None:
    """Take a seed or source, or note why not."""
    name = made.names[node.id]
    try:
        source = source_of(node, given, made.unique.get(node.id, ()), used, made.dialect)
        keys = ", ".join(f"{in_sql(one)} {source.columns[one]}" for one in source.key)
        values = ", ".join(
            f"{in_sql(one)} {kind}" for one, kind in source.columns.items() if one not in source.key
        )
        made.pipeline.source(name, key=keys, value=values)
    except DeltaProduceError as error:
        made.left_out.append(LeftOut(node.id, node.path, str(error)))
        return
    made.sources[name], made.taken[node.id] = source, name
    made.files[f"stages/{name}.sql"] = texts.source_text(source, name)


def _take_model(made: Conversion, node: Node, query: Translated) -> None:
    """Take a model, or note why not."""
    name = made.names[node.id]
    if lacking := sorted(id for id in query.reads if id not in made.taken):
        reason = f"it reads {', '.join(lacking)}, which is not carried over"
        made.left_out.append(LeftOut(node.id, node.path, reason, query.sql))
        return
    error: DeltaProduceError | None = None
    for key in (*made.unique.get(node.id, ()), ()):
        try:
            made.pipeline.sql(name, query.sql, key=", ".join(map(in_sql, key)) if key else None)
        except DeltaProduceError as found:
            error = found
            continue
        made.taken[node.id] = name
        made.files[f"stages/{name}.sql"] = texts.stage_text(node, name, query.sql, key)
        return
    made.left_out.append(LeftOut(node.id, node.path, str(error), query.sql))
