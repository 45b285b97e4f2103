"""Origins: the rows of a batch that broken checks come from.

A row that breaks a check has the key of the stage that it is about, if the query selects it. A
stage that is made key by key knows which keys of its feeder made that key, and so on up to the
sources. The invariant: what is returned is in the batch; where the way is not known, nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from deltaproduce.engines.local.arrays import distinct, isin_rows
from deltaproduce.engines.marks import AFTER, ALIVE, ROW_DIFFERS, SIDE
from deltaproduce.model.checks.definitions import RowCheck
from deltaproduce.model.checks.recorded import storable
from deltaproduce.model.checks.results import SAMPLED
from deltaproduce.model.checks.verdicts import Sample
from deltaproduce.model.graph import Graph, Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.operations.step.writes import StepResult
from deltaproduce.types.python_values import python_rows


@dataclass(frozen=True, slots=True)
class Origins:
    """The keys of sources that rows of stages were made from in a version.

    Attributes:
        results: the outcomes of the stages that the version touches.
        keys: what is found: at most ten keys of each source.
    """

    graph: Graph
    results: Mapping[str, StepResult]
    keys: dict[str, Sample] = field(default_factory=dict)

    def of(self, check: RowCheck) -> Mapping[str, Sample]:
        """Return the keys of sources, changed by the version, that a check's new rows come from."""
        result = self.results.get(check.table)
        if result is None:
            return self.keys
        for name, columns in check.keys.items():
            stage, comparison = self.graph.stage(name), result.comparison
            wanted = [one for one in comparison.layout.own if one.name in columns.values()]
            rows = comparison.select(wanted, {SIDE: AFTER, ROW_DIFFERS: True})
            if isinstance(rows, pa.Table):
                arrays = {key: rows.column(column) for key, column in columns.items()}
                self._trace(stage, pa.table(arrays))
        return self.keys

    def _trace(self, stage: Stage, keys: pa.Table) -> None:
        """Find the keys of sources that some keys of a stage were made from."""
        result = self.results.get(stage.name)
        if result is None:
            return
        comparison, layout = result.comparison, Layout.of(stage)
        changed = comparison.changed_keys.keys
        if not isinstance(changed, pa.Table):
            return
        keys = distinct(keys.filter(pa.array(isin_rows(keys, changed.select(keys.column_names)))))
        if not len(keys):
            return
        if not stage.feeders:
            self._add(stage.name, python_rows(keys.slice(0, SAMPLED)))
            return
        pairs = comparison.select(layout.pair, ALIVE)
        if not layout.sources or not isinstance(pairs, pa.Table):
            return
        of_keys = pairs.filter(pa.array(isin_rows(pairs.select(keys.column_names), keys)))
        sources = of_keys.select([column.name for column in layout.sources])
        for feeder in stage.feeders:
            self._trace(feeder, sources.rename_columns(list(feeder.schema.key.names)))

    def _add(self, source: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add keys of a source; several ways may lead to it, also to the same keys."""
        known = self.keys.get(source, ())
        new = (row for row in map(storable, rows) if row not in known)
        self.keys[source] = tuple(islice(chain(known, new), SAMPLED))
