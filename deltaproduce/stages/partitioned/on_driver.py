"""Tasks on the driver, without Spark: plain queries, and user functions.

A plain query is ``SELECT … FROM stage WHERE …`` of expressions that the driver can compute. The
invariant: it returns what Spark returns, or is left to Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Never

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType
from sqlglot import exp

from deltaproduce.engines.choice import Engines, needs_spark
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.local.arrays import (
    empty,
    factorize,
    in_order,
    isin_rows,
    places,
)
from deltaproduce.errors import DeltaProduceError, ProducerError
from deltaproduce.model.graph import Stage
from deltaproduce.model.layouts import Layout
from deltaproduce.shown.tasks import Task, Values
from deltaproduce.stages.partitioned.entries import Entry, Fed
from deltaproduce.stages.partitioned.frames import is_star
from deltaproduce.stages.partitioned.query import TaskQuery
from deltaproduce.stages.partitioned.scope.tables import table_of
from deltaproduce.stages.scheduled import ForeignFunction
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.evaluation import evaluated, holds
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.terms import Term
from deltaproduce.stages.sql.text import QueryText
from deltaproduce.times.zones import zone_of
from deltaproduce.types.atoms import Misfit
from deltaproduce.types.columns import ORDINAL, Column
from deltaproduce.types.conversions import conformed
from deltaproduce.types.excerpts import described, shown

_PLAIN: Final = frozenset({"expressions", "from_", "where"})
_PLAIN_TABLE: Final = frozenset({"this", "alias"})


@dataclass(frozen=True, slots=True)
class Plain:
    """A plain query.

    Attributes:
        outputs: the names of its columns, with their expressions.
        where: the condition of the rows that count; all count if None.
    """

    outputs: tuple[tuple[str, Expression], ...]
    where: Expression | None

    @staticmethod
    @lru_cache(maxsize=64)
    def of(text: str, columns: tuple[Column, ...]) -> Plain | None:
        """Read a query as a plain one; None if it is not plain.

        Args:
            columns: the columns of the stage that it reads.
        """
        tree = QueryText.read(text).tree
        table = tree.args["from_"].this if tree.args.get("from_") is not None else None
        if not _has_only(tree, _PLAIN) or not _has_only(table, _PLAIN_TABLE):
            return None
        if not isinstance(tree, exp.Select) or not isinstance(table, exp.Table):
            return None
        if tree.find(exp.Subquery, exp.Window) or [*tree.find_all(exp.Select)] != [tree]:
            return None
        named, outputs = _Named.of(table, columns), list[tuple[str, Expression]]()
        for node in tree.expressions:
            inner = node.this if isinstance(node, exp.Alias) else node
            if is_star(node):
                found = named.all_of(node)
            else:
                own = named.bare(inner, [name for name, _ in outputs])
                found = None if own is None else [(node.alias_or_name, own)]
            if found is None:
                return None
            outputs += found
        where = tree.args.get("where")
        condition = None if where is None else named.bare(where.this)
        if where is not None and condition is None:
            return None
        return Plain(tuple(outputs), condition)

    def made(self, rows: pa.Table, columns: Sequence[Column], entry: Entry, zone: str) -> pa.Table:
        """Compute its result over rows, in a time zone.

        Raises:
            SessionError: only Spark computes one of the expressions.
            EvaluationError: a value cannot be computed.
        """
        if self.where is not None:
            rows = rows.filter(pa.array(holds(_term(self.where, columns, entry, zone), rows)))
        return pa.table(
            [evaluated(_term(one, columns, entry, zone), rows) for _, one in self.outputs],
            names=[name for name, _ in self.outputs],
        )


def dependencies_of(
    stage: Stage, fed: Fed, rows: Rows | None, entry: Entry, engines: Engines
) -> pa.Table:
    """Return the rows of a feeder that a task depends on, on the driver."""
    columns = (*stage.schema.key, *stage.schema.value)
    found = empty(columns) if rows is None else engines.table(rows, columns)
    if not fed.columns:
        return found
    wanted: list[Values] = [values for of, values in entry.dependencies if of == fed.stage]
    names = [name for name, _ in fed.columns]
    keys = table_of(wanted, fed.columns).select(names)
    return found.filter(pa.array(isin_rows(found.select(names), keys)))


def plainly_made(
    query: TaskQuery,
    entry: Entry,
    feeders: Mapping[str, tuple[Fed, Stage, Rows | None]],
    engines: Engines,
) -> pa.Table:
    """Run a plain query over a task's dependencies.

    Raises:
        SessionError: the query is not plain.
        ProducerError: a value cannot be computed.
    """
    ((fed, stage, rows),) = feeders.values() if len(feeders) == 1 else (_needs_spark(),)
    columns = (*stage.schema.key, *stage.schema.value)
    plain = (Plain.of(query.text, columns) if len(query.reads) == 1 else None) or _needs_spark()
    try:
        found = dependencies_of(stage, fed, rows, entry, engines)
        return plain.made(found, columns, entry, engines.time_zone)
    except EvaluationError as error:
        name = entry.of.stage
        raise ProducerError(f"task {entry.of}: {error}", stage=name, key=entry.values) from error


def called(function: ForeignFunction, rows: pa.Table, task: Task, values: Values) -> pa.Table:
    """Call a user function with a task's rows.

    Raises:
        ProducerError: it failed, or did not return a Table.
    """
    try:
        found = function(rows, task)
    except Exception as error:
        if isinstance(error, DeltaProduceError):
            raise
        raise ProducerError(
            f"task {task}: its function failed: {described(error)}", stage=task.stage, key=values
        ) from error
    if not isinstance(found, pa.Table):
        raise ProducerError(
            f"task {task}: its function gave {shown(found)}; return a pyarrow Table",
            stage=task.stage,
            key=values,
        )
    return found


def conforming(found: pa.Table, stage: Stage, entry: Entry, engines: Engines) -> pa.Table:
    """Return rows that a task made in the columns of the stage's content.

    ``_ordinal`` counts the rows of a key in the order of their values.

    Raises:
        ProducerError: a column is missing, not declared, or of another type.
    """
    layout, partition = Layout.of(stage), dict(entry.of.values)
    wanted = [c.name for c in (*layout.key, *layout.value) if c.name not in partition]
    if sorted(wanted) != sorted(found.column_names):
        raise ProducerError(
            f"task {entry.of}: it has the columns {', '.join(found.column_names)}; wanted: "
            f"{', '.join(wanted)}",
            stage=stage.name,
            key=entry.values,
        )
    made = dict[str, pa.Array]()
    clock = zone_of(engines.time_zone)
    for column in (*layout.key, *layout.value):
        if column.name in partition:
            one = table_of([entry.values], _types(entry, stage)).column(column.name)
            made[column.name] = pa.repeat(one[0], len(found))
            continue
        try:
            array = found.column(column.name).combine_chunks()
            made[column.name] = conformed(array, column.data_type, clock=clock)
        except Misfit as misfit:
            raise ProducerError(
                f"task {entry.of}: column {column.name!r} does not fit: {misfit}",
                stage=stage.name,
                key=entry.values,
            ) from None
    table = in_order(pa.table(made), (*layout.key, *layout.value))
    ordinals = places([factorize(table.column(c.name) for c in layout.key)])
    table = table.append_column(ORDINAL, pa.array(np.asarray(ordinals, np.int64)))
    return table.select([c.name for c in layout.content])


def _types(entry: Entry, stage: Stage) -> list[tuple[str, DataType]]:
    types = {c.name: c.data_type for c in stage.schema.key}
    return [(name, types[name]) for name, _ in entry.of.values]


@dataclass(frozen=True, slots=True)
class _Named:
    """The columns that a plain query can name.

    Attributes:
        alias: the qualifier of the stage's columns, in lower case.
        columns: their names, as the stage spells them, by lower-case name.
    """

    alias: str
    columns: Mapping[str, str]

    @staticmethod
    def of(table: exp.Table, columns: Sequence[Column]) -> _Named:
        return _Named(
            (table.alias or table.name).lower(), {c.name.lower(): c.name for c in columns}
        )

    def all_of(self, star: exp.Expr) -> list[tuple[str, Expression]] | None:
        """Return the columns of ``*`` or ``a.*``; None if it leaves some out, or is a struct's."""
        inner = star.this if isinstance(star, exp.Column) else star
        of = star.table.lower() if isinstance(star, exp.Column) else self.alias
        if of != self.alias or not _has_only(inner, frozenset()):
            return None
        return [(name, Expression.of_column(name)) for name in self.columns.values()]

    def bare(self, node: exp.Expr, aliases: Iterable[str] = ()) -> Expression | None:
        """Return an expression with the stage's spelling of columns, without qualifiers.

        Args:
            aliases: the names of columns of the SELECT before it, which Spark finds, too.

        Returns:
            None if it reads a field of a struct, or one of these aliases.
        """
        tree, read, later = node.copy(), list[str](), {alias.lower() for alias in aliases}
        for column in [*tree.find_all(exp.Column)]:
            *qualifiers, name = (part.name for part in column.parts)
            if [one.lower() for one in qualifiers] not in ([], [self.alias]):
                return None
            if name.lower() not in self.columns and name.lower() in later:
                return None
            read.append(self.columns.get(name.lower(), name))
            named = exp.column(exp.to_identifier(read[-1], quoted=True))
            tree = named if column is tree else tree
            column.replace(named)
        return Expression(node.sql("spark"), tuple(dict.fromkeys(read)), tree)


def _has_only(node: exp.Expr | None, parts: Collection[str]) -> bool:
    """Return whether a node has no other parts, such as a PIVOT, or columns named by an alias."""
    if node is None:
        return False
    alias = node.args.get("alias") if "alias" in parts else None
    return not getattr(alias, "columns", ()) and not any(
        value for name, value in node.args.items() if name not in parts
    )


def _term(expression: Expression, columns: Sequence[Column], entry: Entry, zone: str) -> Term:
    own = {c.name.lower() for c in columns}
    scope = {name: value for name, value in entry.scope.items() if name.lower() not in own}
    spelled = {**scope, **{n: scope[k] for n in expression.columns for k in scope if _is(n, k)}}
    types = {c.name: c.data_type for c in columns}
    if not types.keys() | spelled.keys() >= set(expression.columns):
        _needs_spark()
    return analysed(expression, types, zone, spelled) or _needs_spark()


def _is(name: str, other: str) -> bool:
    return name.lower() == other.lower()


def _needs_spark() -> Never:
    raise needs_spark()
