"""Readers: the rows of a stage at a version, wherever they are stored.

A version says which delta version of each table it is, and how many runs its tables do not have
yet. A `Reader` puts them together, and keeps runs that it has read, and small tables and runs that
its store has just written, so that an update does not read them again. The invariant: what it
returns depends on the version alone.

It stands apart because the executor's steps and the users of a store read the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from deltaproduce import limits
from deltaproduce.arrays import fetched
from deltaproduce.changes import content_columns, sources_of
from deltaproduce.locations import CONTENT, KEY_MAPPINGS, RUNS, UPDATES
from deltaproduce.pipeline import Stage
from deltaproduce.schemas import VERSION, Column
from deltaproduce.selections import Rows
from deltaproduce.stored import Overlay, Stored, run_columns
from deltaproduce.tables import Tables
from deltaproduce.versions import StageFigures, Version


class Reader:
    """Reads the stages of one store.

    Args:
        from_files: read the files of a table that was written whole without asking Delta, which is
            quicker.
    """

    def __init__(self, tables: Tables, *, from_files: bool = False) -> None:
        self._tables = tables
        self._from_files = from_files
        self._overlays: dict[str, tuple[_Runs, Overlay]] = {}
        self._contents: dict[str, tuple[int, pa.Table]] = {}

    def content(self, version: Version, stage: Stage) -> Stored | None:
        """The content of a stage; None if it has no rows in that version."""
        columns = content_columns(stage.schema, sources_of(stage))
        return self._stored(version, stage, CONTENT, columns)

    def key_mappings(self, version: Version, stage: Stage) -> Stored | None:
        """The key mappings of a stage; None if it has no rows in that version."""
        return self._stored(version, stage, KEY_MAPPINGS, pair_of(stage))

    def updates(self, version: Version, stage: Stage) -> DataFrame | None:
        """What the version changed in a stage; None if nothing yet has."""
        delta_version = version.delta_version(stage.name, UPDATES)
        if delta_version is None:
            return None
        table = self._tables.location.table(stage.name, UPDATES)
        rows = self._tables.read(table, delta_version)
        return rows.where(f.col(VERSION) == version.number)

    def overlay(self, version: Version, stage: Stage) -> Overlay | None:
        """What came after the stage's tables were written; None if nothing did."""
        figures = version.stages.get(stage.name)
        runs = None if figures is None else _Runs.of(figures)
        if runs is None:
            return None
        kept = self._overlays.get(stage.name)
        if kept is not None and kept[0] == runs:
            return kept[1]
        content = content_columns(stage.schema, sources_of(stage))
        table = self._tables.location.table(stage.name, RUNS)
        rows = self._tables.read(table, runs.delta_version)
        later = (f.col(VERSION) > runs.folded) & (f.col(VERSION) <= version.number)
        found = fetched(rows.where(later), run_columns(content))
        overlay = Overlay.of(found, pair_of(stage), content)
        self._overlays[stage.name] = runs, overlay
        return overlay

    def keep(
        self, stage: str, figures: StageFigures, overlay: Overlay | None, content: pa.Table | None
    ) -> None:
        """Keep what a version has made of a stage.

        Args:
            overlay: what came after its tables were written.
            content: the rows of its content table, if they are few and at hand.
        """
        runs = _Runs.of(figures)
        self._overlays.pop(stage, None)
        if runs is not None and overlay is not None:
            self._overlays[stage] = runs, overlay
        if content is not None and limits.is_small(figures.rows, figures.row_bytes):
            self._contents[stage] = figures.delta_versions[CONTENT], content

    def _stored(
        self, version: Version, stage: Stage, kind: str, columns: Sequence[Column]
    ) -> Stored | None:
        figures = version.stages.get(stage.name)
        if figures is None or not figures.rows:
            return None
        table = self._tables.location.table(stage.name, kind)
        delta_version, kept = figures.delta_versions[kind], self._contents.get(stage.name)
        if kind == CONTENT and kept is not None and kept[0] == delta_version:
            base: Rows = kept[1]
        else:
            whole = self._from_files and figures.added.get(kind) == 0
            base = self._tables.read(table, delta_version, whole=whole)
        overlay = self.overlay(version, stage)
        return Stored(
            base, tuple(columns), overlay, figures.rows, figures.row_bytes, self._tables.spark
        )


def pair_of(stage: Stage) -> tuple[Column, ...]:
    """The columns of a stage's key mappings; of a source its key."""
    return (*sources_of(stage), *stage.schema.key)


@dataclass(frozen=True, slots=True)
class _Runs:
    """Which runs an overlay is of: those of one delta version since one version."""

    delta_version: int
    folded: int

    @staticmethod
    def of(figures: StageFigures) -> _Runs | None:
        if not figures.runs:
            return None
        return _Runs(figures.delta_versions[RUNS], figures.folded)
