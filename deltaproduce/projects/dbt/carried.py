"""What a dbt project has become so far: stages, files, and what is left out with a reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from deltaproduce.pipeline import Pipeline
from deltaproduce.projects.dbt.given.rows import RowSource
from deltaproduce.projects.dbt.jinja.tables import KnownTables
from deltaproduce.projects.dbt.manifest import Manifest
from deltaproduce.projects.dbt.snapshots import SnapshotHistory
from deltaproduce.projects.dbt.sql.relations import Relations
from deltaproduce.projects.dbt.sql.translation import Translated, translated
from deltaproduce.projects.dbt.texts import StageRule
from deltaproduce.types.ddl import ddl_of

ONE_ROW: Final = "dbt_one_row"
"""The source of models that read no table."""


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


@dataclass(frozen=True, slots=True)
class NotTranslated:
    """A model whose query cannot be read.

    Attributes:
        text: its SQL as far as it came.
    """

    reason: str
    text: str

    def __str__(self) -> str:
        return self.reason


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
        histories: the history of each snapshot.
        unit_tests: the test of pytest that each unit test is, by its id.
        left_out: what is not carried over.
        known: the columns of nodes of which all are known, by the node's id.
        renamed: columns with another name than in dbt, which is the value.
        has_date: whether a model reads the date of the version.
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
    histories: list[SnapshotHistory] = field(default_factory=list)
    unit_tests: dict[str, str] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    known: dict[str, frozenset[str]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    has_date: bool = False

    def translated(
        self,
        text: str,
        ephemeral: Mapping[str, str],
        *,
        names: Mapping[str, str] | None = None,
        is_check: bool = False,
    ) -> Translated:
        """Return a query as Spark's SQL over stages.

        Args:
            names: the stages that it reads, by node; `names` of the conversion if None.

        Raises:
            DefinitionError: it cannot be said so.
        """
        return translated(
            text,
            self.dialect,
            self.relations.node_of,
            self.names if names is None else names,
            ephemeral,
            self.known,
            is_check=is_check,
        )

    def jinja_tables(self) -> KnownTables:
        """Return the columns of what is taken so far, under dbt's names."""
        stages = {stage.name: stage for stage in self.pipeline.stages}

        def columns(id: str) -> Mapping[str, str] | None:
            stage = stages.get(self.taken.get(self.tables.get(id, id), ""))
            if stage is None:
                return None
            own = (*stage.schema.key, *stage.schema.value)
            return {self.renamed.get(one.name, one.name): ddl_of(one.data_type) for one in own}

        nodes = (*self.manifest.nodes.values(), *self.manifest.sources.values())
        with_tables = [one for one in nodes if one.sort in {"model", "seed", "snapshot", "source"}]
        return KnownTables(self.dialect, columns, with_tables)

    def computed(self) -> Iterator[str]:
        """Yield the stages that are models or snapshots."""
        for id, name in self.taken.items():
            node = self.manifest.nodes.get(id)
            if node is not None and node.sort in {"model", "snapshot"}:
                yield name
