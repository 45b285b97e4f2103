"""The content of a stage as a read-only data set.

The invariant: a read sees one version of the store, in whichever tables its rows are. Nothing is
written: only the store writes content.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np
import pyarrow as pa

from deltaproduce.datasets import reading
from deltaproduce.datasets.parts import narrowed
from deltaproduce.described.content import beside, described, plainly, read_text
from deltaproduce.described.descriptor import Description, Descriptor
from deltaproduce.described.partitioned_rows import with_partitions
from deltaproduce.engines.choice import needs_spark
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.spark.columns import col, cols
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.engines.spark.sessions.on_demand import is_frame
from deltaproduce.errors import InvalidArgumentError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import CONTENT, RUNS, Layout
from deltaproduce.model.partitions import Ranges
from deltaproduce.reading.opened import Opened
from deltaproduce.shown.tabular import Word, one_line
from deltaproduce.storage.figures import StageFigures
from deltaproduce.storage.parquet.file_ranges import FileRanges
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.versions import Version, stage_at
from deltaproduce.types.columns import VERSION_COLUMN, Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EVERYWHERE: Final[Mapping[str, str | None]] = MappingProxyType({})
_NO_TABLES: Final = StageFigures("skipped")
_ROWS_AT_A_TIME: Final = 1 << 18


class StageDataset:
    """The content of a stage at a version, as a read-only data set.

    `Store.dataset` returns one. Only the store writes it: give rows to `Store.update`.
    """

    def __init__(
        self,
        store: Opened,
        version: Version,
        stage: Stage,
        description: Description,
        within: Mapping[str, str | None] = _EVERYWHERE,
    ) -> None:
        self._store = store
        self._version = version
        self._stage = stage
        self._description = description
        self._within = within

    def __repr__(self) -> str:
        within = ", ".join(f"{name}={value}" for name, value in self._within.items())
        partition = Word(within) if within else None
        return one_line(self, self._stage.name, version=self._version.number, partition=partition)

    @property
    def location(self) -> str:
        """The path of the content's Delta table, or its name in a catalog."""
        return self._store.tables.location.table(self._stage.name, CONTENT).address

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor of its rows and files in the version."""
        return self._description.descriptor

    def read(self, where: str | None = None) -> DataFrame | pa.Table:
        """Read the rows of the content, in any order; see `Dataset.read`.

        Args:
            where: a condition in SQL over the columns of rows and of partitions. Files that cannot
                have such rows are skipped.

        Returns:
            The columns of `Store.content`; a DataFrame with a session, otherwise a pyarrow Table.
        """
        engines, condition = self._store.engines, self._condition(where)
        with self._store.noticing():
            stored = self._stored(condition)
            if engines.session is not None:
                return self._in_spark(stored, condition)
            if condition.expression is not None and condition.term is None:
                raise needs_spark()
            spill, shown = engines.spill(), self._description.columns
            spill.add(empty(shown.columns))
            for part in self._parts(stored, condition):
                spill.add(part.select([*shown.names]))
            return spill.table()

    def files(self, where: str | None = None) -> list[str]:
        """List the paths of the files that may have such rows, relative to the location, sorted.

        If later rows are in the table of runs (merge on read), its files are listed too;
        `Store.compact` folds them into the content.

        Raises:
            InvalidArgumentError: the content has deletion vectors (copy on write, above 4,000,000
                rows), or only Spark can list the files.
        """
        condition, figures = self._condition(where), self._figures
        if not figures.rows:
            return []
        listed = self._listed(CONTENT)
        paths: list[str] = reading.chosen(listed, condition, self._description)["path"].to_pylist()
        if figures.base.runs:
            later = Ranges(((figures.base.folded + 1, self._version.number),))
            runs = self._listed(RUNS)
            holding = FileRanges(runs, len(runs)).within(VERSION_COLUMN, later)
            paths += map(self._beside, runs.filter(pa.array(holding))["path"].to_pylist())
        return sorted(paths)

    def partition(self, **values: object) -> StageDataset:
        """Select the rows with some values in its partition columns; see `Dataset.partition`.

        Raises:
            InvalidArgumentError: there is no such partition column, or a value does not fit it.
        """
        within = narrowed(values, self._description, self._within)
        return StageDataset(self._store, self._version, self._stage, self._description, within)

    def writer(self, **_: object) -> NoReturn:
        """Refused: see `Store.update`."""
        raise self._refused()

    def absorb(self, other: object) -> NoReturn:
        """Refused: see `Store.update`."""
        del other
        raise self._refused()

    def _refused(self) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"the content of {self._stage.name!r} is written by its store alone: give rows to "
            "Store.update, or write to a data set of your own (Dataset.create)",
            argument="stage",
        )

    @property
    def _figures(self) -> StageFigures:
        return self._version.stages.get(self._stage.name, _NO_TABLES)

    def _condition(self, where: str | None) -> reading.Condition:
        zone = self._store.engines.time_zone
        return reading.Condition.of(where, self._description, self._within, zone)

    def _listed(self, kind: str) -> pa.Table:
        """Return the log's entries for the files of a table.

        Raises:
            InvalidArgumentError: the log does not say which rows there are.
        """
        tables, name = self._store.tables, self._stage.name
        table = tables.location.table(name, kind)
        listed = tables.reader.listed(table, self._figures.delta_versions[kind])
        if listed is None:
            raise InvalidArgumentError(
                f"the files of {name!r} do not say its rows: some are marked as deleted, or only "
                "Spark finds the files; use read()",
                argument="stage",
            )
        return listed

    def _beside(self, path: str) -> str:
        """Return the path of a file of the runs, relative to the location."""
        location, tables = self._store.tables.location, self._store.tables
        content, runs = (
            tables.access.directory(location.table(self._stage.name, kind))
            for kind in (CONTENT, RUNS)
        )
        return os.path.relpath(f"{runs}/{path}", content)

    def _stored(self, condition: reading.Condition) -> Stored | None:
        """Return the rows of the files that may match, with the columns of partitions."""
        store = self._store
        stored = store.reader.content_in_files(self._version, self._stage)
        if stored is None:
            return None
        own, by = self._columns, self._description.partitions
        columns, overlay, files = (*own, *beside(by)), stored.overlay, stored.files
        if overlay is not None:
            rows = with_partitions(overlay.rows, own, by, store.engines)
            overlay = replace(overlay, rows=rows, content=columns)
        if files is not None and files.statistics is not None:
            listed = files.statistics.append_column(
                _NUMBER, pa.array(np.arange(len(files.statistics)))
            )
            kept = reading.chosen(listed, condition, self._description)
            files = files.among(kept[_NUMBER].to_numpy())
        table = store.tables.location.table(self._stage.name, CONTENT)
        delta_version = self._figures.delta_versions[CONTENT]
        base = partial(store.tables.reader.read, table, delta_version)
        return replace(
            stored, base=base, columns=columns, overlay=overlay, files=files, by_log=None
        )

    @property
    def _columns(self) -> tuple[Column, ...]:
        return Layout.of(self._stage).content

    def _parts(self, stored: Stored | None, condition: reading.Condition) -> Iterator[pa.Table]:
        """Return the matching rows, part by part, with the columns of partitions."""
        if stored is None:
            return
        for part in stored.batches(stored.columns, _ROWS_AT_A_TIME):
            yield reading.holding(part, condition, self._description)

    def _in_spark(self, stored: Stored | None, condition: reading.Condition) -> DataFrame:
        shown = self._description.columns
        if stored is None:
            frame = self._store.frame(None, tuple(shown))
            assert is_frame(frame)
            return frame
        rows = stored.all()
        types = {one.column.name: one.column.data_type for one in self._description.partitions}
        for name, value in condition.within.items():
            rows = rows.where(col(name).eqNullSafe(f.lit(value).cast(in_spark(types[name]))))
        if condition.expression is not None:
            rows = rows.where(f.expr(condition.expression.text))
        return rows.select(*cols(shown))


_NUMBER: Final = "_number"


def of_stage(store: Opened, stage: str | Stage, version: int | None) -> StageDataset:
    """See `Store.dataset`."""
    recorded, wanted = store.stage(stage), store.version(version)
    store.check_there(wanted, [recorded.name], CONTENT, RUNS)
    figures = wanted.stages.get(recorded.name, _NO_TABLES)
    if recorded.kind.intake.table is not None or figures.origin.table:
        raise InvalidArgumentError(
            f"source {recorded.name!r} is read in place: read its own table, or "
            f"store.content({recorded.name!r})",
            argument="stage",
        )
    then = stage_at(wanted, recorded)
    if CONTENT in figures.delta_versions:
        description = read_text(figures.base.stored, then)
    else:
        description = plainly(then) if then.stored is None else described(then, then.stored)
    return StageDataset(store, wanted, then, description)
