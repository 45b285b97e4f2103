"""Stages that read a tree of hidden stages, which they share; one of these has no updates.

``by_value`` is hidden: a count for each ``g`` and ``n``. ``by_group`` is hidden below it: of each
``g`` how many ``n`` there are. Of the stages of the user two read the second, and one reads both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce import Pipeline, agg
from deltaproduce.engines.comparisons import Comparison
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import empty
from deltaproduce.model.graph import HiddenInput, Producer, Stage
from deltaproduce.model.hidden import Hidden, hidden_name
from deltaproduce.model.kind import Definition, Upkeep
from deltaproduce.model.layouts import CONTENT, RUNS, Layout
from deltaproduce.stages.aggregates.kind import Aggregate
from deltaproduce.stages.inputs import StageInput, hidden_input
from deltaproduce.stages.productions import DerivedKind, Production, ProductionResult
from deltaproduce.storage.stored import Stored
from deltaproduce.testing.oracle.models import of_all
from deltaproduce.types.columns import row_schema

VALUES, GROUPS = "_values_1_rows", "_groups_1_rows"


@dataclass(frozen=True, slots=True, repr=False)
class Untold(Aggregate):
    """An aggregate without updates."""

    @property
    def tables(self) -> tuple[str, ...]:
        return (CONTENT, RUNS)


@dataclass(frozen=True, slots=True)
class Copied(DerivedKind):
    """The rows of a hidden stage, with their value multiplied.

    Attributes:
        role: of that stage.
        least: smaller ``n`` do not count; null does not, either, unless this is None.
        factor: of the value.
    """

    role: str
    least: int | None
    factor: int

    @property
    def word(self) -> str:
        return "copied"

    @property
    def definition(self) -> Definition:
        return Definition((self.role, self.least, self.factor))

    @property
    def upkeep(self) -> Upkeep:
        return Upkeep(by_key=False)

    def counts(self, n: int | None) -> bool:
        return self.least is None or (n is not None and n >= self.least)

    def produced(
        self, production: Production, inputs: Sequence[StageInput]
    ) -> tuple[Rows, int] | None:
        rows = hidden_input(inputs, self.role).all_rows()
        return None if rows is None else self._made(production, rows)

    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> ProductionResult | None:
        del mappings
        each, engines = hidden_input(inputs, self.role), production.engines
        if each.changed is None:
            return None
        if content is None:
            made = self.produced(production, inputs)
            return None if made is None else production.first(*made)
        keys = each.changed.changed_keys
        come, _ = self._made(production, each.rows_of(keys, engines))
        before = keys.exactly(content.of(keys))
        return ProductionResult(
            Comparison.of_changed_keys(before, keys, come, Layout.of(production.stage))
        )

    def _made(self, production: Production, rows: Rows | None) -> tuple[pa.Table, int]:
        stage = production.stage
        if rows is None:
            return empty(production.content), 0
        assert isinstance(rows, pa.Table)
        names = stage.schema.key.names
        count = next(name for name in rows.column_names if name in {"count", "different"})
        value = pc.multiply(rows.column(count), pa.scalar(self.factor, pa.int64()))
        columns = [*(rows.column(name) for name in names), value]
        ordinals = pa.array([0] * len(rows), pa.int64())
        made = pa.table([*columns, ordinals], [c.name for c in production.content])
        return made, len(made)


@of_all.register
def _(kind: Copied) -> Callable[[Iterable[Mapping[str, Any]]], Iterator[Any]]:
    def made(rows: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
        known = [(row["g"], row["n"]) for row in rows if kind.counts(row["n"])]
        found: Counter[Any] = Counter(known)
        if kind.role == "groups":
            found = Counter(g for g, _ in found)
        for key, count in found.items():
            yield key if isinstance(key, tuple) else (key,), (count * kind.factor,)

    return made


def trees(least: int | None = None, factor: int = 2) -> Pipeline:
    """The stages over ``rows``; ``least`` changes what all make, ``factor`` what one makes."""
    found = Pipeline("trees")
    rows = found.source("rows", key="k bigint", value="g bigint, n bigint")
    for name, role, times in (
        ("twice", "groups", factor),
        ("again", "groups", 3),
        ("values", "values", 1),
    ):
        values, groups = hidden_tree(name, rows, least)
        inputs = {"twice": [groups], "again": [groups, values], "values": [values]}[name]
        key = "g bigint" if role == "groups" else "g bigint, n bigint"
        schema = row_schema(key, "amount bigint", stage=name)
        kind = Copied(role, least, times)
        found.add(Producer(name, ((rows,),), schema, kind, hidden_inputs=tuple(inputs)))
    return found


def hidden_tree(owner: str, rows: Stage, least: int | None) -> tuple[HiddenInput, HiddenInput]:
    """The hidden stages, for one of their owners."""
    where = None if least is None else f"n >= {least}"
    counted = Aggregate.defined("g, n", {"count": agg.count()}, where, (rows,), stage=owner)
    values = Producer(
        hidden_name("values", 1, "rows"),
        ((rows,),),
        counted.schema((rows,), stage=owner),
        counted,
        hidden=Hidden("values", (owner,)),
    )
    plain = Aggregate.defined("g", {"different": agg.count()}, None, (values,), stage=owner)
    untold = Untold(plain.key, plain.values, plain.arguments, plain.where, origins=plain.origins)
    groups = Producer(
        hidden_name("groups", 1, "rows"),
        ((values,),),
        untold.schema((values,), stage=owner),
        untold,
        hidden=Hidden("groups", (owner,)),
    )
    return HiddenInput("values", values), HiddenInput("groups", groups)
