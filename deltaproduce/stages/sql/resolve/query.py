"""A query, resolved: its feeders, its columns and its relation, and its text for Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql.types import DataType
from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.determinism import check_determined, check_places
from deltaproduce.stages.sql.algebra.joining import with_ordered_joins
from deltaproduce.stages.sql.algebra.pruning import pruned
from deltaproduce.stages.sql.algebra.relations import Relation, Scan
from deltaproduce.stages.sql.algebra.scalars import SortKey
from deltaproduce.stages.sql.expressions.terms import NO_CONSTANTS, Constants
from deltaproduce.stages.sql.resolve.from_items import values
from deltaproduce.stages.sql.resolve.names import Named, Scope
from deltaproduce.stages.sql.resolve.ordering import break_last_ties
from deltaproduce.stages.sql.resolve.reading import Ctes, Reading, Selected
from deltaproduce.stages.sql.resolve.selects import check_columns, select
from deltaproduce.stages.sql.resolve.set_operations import set_operation
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import Edit, QueryText, edited, refused
from deltaproduce.types.columns import RowSchema


@dataclass(frozen=True, slots=True)
class Resolved:
    """A query over stages.

    Attributes:
        text: the user's text.
        feeders: the stages that it reads, each once, in the order of their first mention.
        relation: its rows; perhaps with fields beside its columns, to sort by.
        columns: its columns, which all have names of their own.
        order: its final ORDER BY.
        grouped: the columns that have the keys of its outermost grouping; see `Selected`.
        edits: the edits of the text for Spark.
        reading: where its operators and fields come from.
    """

    text: str
    feeders: tuple[str, ...]
    relation: Relation
    columns: tuple[Named, ...]
    order: tuple[SortKey, ...]
    grouped: tuple[str, ...] | None
    edits: tuple[Edit, ...]
    reading: Reading

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(one.name or "" for one in self.columns)

    @property
    def fields(self) -> dict[str, str]:
        """The names of its columns -> the ids of their fields."""
        return {one.name or "": one.field.id for one in self.columns}

    @property
    def types(self) -> dict[str, DataType]:
        """The names of its columns -> their types; without those that only Spark knows."""
        known = ((one.name or "", one.field.data_type) for one in self.columns)
        return {name: kind for name, kind in known if kind is not None}

    @property
    def only_in_spark(self) -> str | None:
        """The first expression or clause that only Spark computes; None if the driver does all."""
        texts = (one.only_in_spark for one in self.relation.walk())
        return next((text for text in texts if text is not None), None)

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The places where it reads stages."""
        return tuple(one for one in self.relation.walk() if isinstance(one, Scan))

    def fits(self, constants: Constants) -> bool:
        """Return whether it is the same with other values of its constants, of the same types.

        A value may decide about a type, as in ``round(price, digits)``, or be one for Spark only.
        """
        every = tuple(self.relation.walk())
        known = ((field.id, field.data_type) for one in every for field in one.fields)
        types = {name: kind for name, kind in known if kind is not None}
        return all(scalar.fits(types, constants) for one in every for scalar in one.scalars)

    def sql(self, views: Mapping[str, str]) -> str:
        """Return the text for Spark, with views in place of stages."""
        return edited(self.text, self.edits, views)


def resolved(
    text: str,
    stages: Mapping[str, RowSchema],
    constants: Constants = NO_CONSTANTS,
) -> Resolved:
    """Resolve a query whose rows follow from the rows of its stages.

    Its joins are ordered by their equalities, and it reads the columns that count only.

    Args:
        text: one SELECT in Spark's SQL, which names stages as its tables.
        stages: the columns of the stages that it may read; a type may be unknown.
        constants: what names mean that name no column.

    Raises:
        DefinitionError: it cannot be parsed, its result is not defined, or as for `as_written`.
    """
    found = as_written(QueryText.read(text), stages, constants)
    check_determined(found.relation)
    check_places(found.relation)
    wanted = (*found.fields.values(), *(key.field.id for key in found.order))
    return replace(found, relation=pruned(with_ordered_joins(found.relation), wanted))


def as_written(
    parsed: QueryText,
    stages: Mapping[str, RowSchema],
    constants: Constants = NO_CONSTANTS,
) -> Resolved:
    """Resolve a query; its operators are in the order of its clauses.

    Raises:
        DefinitionError: it names something unknown, or its columns have no names; with `line` if it
            is known.
    """
    by_name = {name.lower(): (name, schema) for name, schema in stages.items()}
    named = {name.lower(): (name, value) for name, value in constants.items()}
    reading = Reading(parsed, by_name, lambda *_: _unready(), constants=named)
    reading.query = lambda node, ctes, outer: _query(node, ctes, outer, reading)
    found = reading.query(parsed.tree, {}, None)
    check_columns(found.columns, parsed.tree)
    break_last_ties(parsed.tree, found, reading)
    reads = sorted((e for e in reading.edits if e.feeder is not None), key=lambda e: e.start)
    feeders = tuple(dict.fromkeys(edit.feeder for edit in reads if edit.feeder is not None))
    if not feeders:
        message = f"{spelled(parsed.tree)!r} reads no stage; name one in its FROM"
        raise DefinitionError(message)
    at_end = Edit(parsed.end, len(parsed.text), "")
    return Resolved(
        parsed.text,
        feeders,
        found.relation,
        found.columns,
        found.order,
        found.grouped,
        (*reading.edits, at_end),
        reading,
    )


def _unready() -> Selected:
    raise AssertionError


def _query(node: exp.Expr, ctes: Ctes, outer: Scope | None, reading: Reading) -> Selected:
    """Resolve a query, also one inside of another."""
    ctes = _with(node, ctes, reading)
    match node:
        case exp.Select():
            return select(node, reading, ctes, outer)
        case exp.SetOperation():
            left = _query(node.this, ctes, outer, reading)
            right = _query(node.expression, ctes, outer, reading)
            return set_operation(node, left, right, reading)
        case exp.Subquery():
            if any(node.args.get(name) for name in ("order", "limit", "offset")):
                raise refused(node, "is sorted outside of parentheses; write SELECT * FROM (…)")
            return _query(node.this, ctes, outer, reading)
        case exp.Values():
            return values(node, reading)
        case exp.Table():
            inner = exp.Select(expressions=[exp.Star()], from_=exp.From(this=node.copy()))
            return select(inner, reading, ctes, outer)
    raise refused(node, "is not supported; write SELECT")


def _with(node: exp.Expr, ctes: Ctes, reading: Reading) -> Ctes:
    with_ = node.args.get("with_")
    if with_ is None:
        return ctes
    if with_.args.get("recursive"):
        raise refused(with_, "is recursive, which is not supported; make a stage of a function")
    found = dict(ctes)
    for cte in with_.expressions:
        inner = _query(cte.this, found, None, reading)
        names = cte.args["alias"].columns
        if names:
            if len(names) != len(inner.columns):
                raise refused(cte, f"names {len(names)} of {len(inner.columns)} columns")
            pairs = zip(inner.columns, names, strict=True)
            columns = tuple(replace(one, name=name.name) for one, name in pairs)
            inner = replace(inner, columns=columns)
        reading.with_.append((cte, inner))
        found[cte.alias.lower()] = inner
    return found
