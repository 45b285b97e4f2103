"""A query, resolved: its feeders, its columns and its relation, and its text for Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.determinism import check_determined
from deltaproduce.stages.sql.algebra.fitting import check_fit, check_no_intervals
from deltaproduce.stages.sql.algebra.joining import with_ordered_joins
from deltaproduce.stages.sql.algebra.pruning import pruned
from deltaproduce.stages.sql.algebra.relations import Relation, Scan
from deltaproduce.stages.sql.algebra.scalars import SortKey
from deltaproduce.stages.sql.expressions.literals import literal
from deltaproduce.stages.sql.expressions.terms import NO_CONSTANTS, Constants
from deltaproduce.stages.sql.resolve.building import Building
from deltaproduce.stages.sql.resolve.from_items import values
from deltaproduce.stages.sql.resolve.names import Named, Scope
from deltaproduce.stages.sql.resolve.ordering import break_last_ties
from deltaproduce.stages.sql.resolve.reading import Ctes, QueryContext, Selected
from deltaproduce.stages.sql.resolve.selects import check_columns, select
from deltaproduce.stages.sql.resolve.set_operations import set_operation
from deltaproduce.stages.sql.text import QueryText, TextEdit, edited, refused
from deltaproduce.types.columns import RowSchema
from deltaproduce.types.data_types import DataType
from deltaproduce.types.ddl import identifier


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
        is_open: whether it has columns that only Spark knows.
    """

    text: str
    feeders: tuple[str, ...]
    relation: Relation
    columns: tuple[Named, ...]
    order: tuple[SortKey, ...]
    grouped: tuple[str, ...] | None
    edits: tuple[TextEdit, ...]
    reading: QueryContext
    is_open: bool = False

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Its own relation, and those of its WITH, which it may not read."""
        return self.relation, *(one.relation for _, one in self.reading.with_)

    @property
    def constants(self) -> tuple[str, ...]:
        """The names of constants that it uses, each once, in the order of their first mention."""
        slots = sorted(self.reading.slots.values(), key=lambda slot: slot.start)
        return tuple(dict.fromkeys(slot.name for slot in slots))

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
    def is_told(self) -> bool:
        """Whether its text tells Spark which of equal rows come first."""
        return not self.reading.untold

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The places where it reads stages."""
        return tuple(one for one in self.relation.walk() if isinstance(one, Scan))

    def fits(self, constants: Constants, *, may_fail: bool = False) -> bool:
        """Return whether it is the same with other values of its constants, of the same types.

        A value may decide about a type, as in ``round(price, digits)``, or be one for Spark only.

        Args:
            constants: the values.
            may_fail: whether it may fail with them for more rows.
        """
        every = tuple(self.relation.walk())
        known = ((field.id, field.data_type) for one in every for field in one.fields)
        types = {name: kind for name, kind in known if kind is not None}
        return all(
            scalar.fits(types, constants, may_fail=may_fail)
            for one in every
            for scalar in one.scalars
        )

    def sql(self, views: Mapping[str, str], constants: Constants = NO_CONSTANTS) -> str:
        """Return the text for Spark, with views in place of stages.

        Args:
            constants: what names mean that name no column; they become literals.
        """
        return edited(self.text, (*self.edits, *_literals(self.reading, constants)), views)

    def without_order(self) -> Resolved:
        """Return the same query without its final ORDER BY, if its text ends with one of columns.

        Another one may fail for a row.
        """
        text, after = self.reading.text, ("limit", "offset", "windows")
        is_last = bool(self.order) and not any(text.tree.args.get(name) for name in after)
        if not is_last or not {key.field.id for key in self.order} <= {*self.fields.values()}:
            return self
        start = text.top_order()[0][0].start
        before = (one for one in self.edits if one.end <= start)
        return replace(self, order=(), edits=(*before, TextEdit(start, len(text.text), "")))

    def with_literals(self, constants: Constants) -> str:
        """Return the user's text with literals in place of the names of constants."""
        return edited(self.text, _literals(self.reading, constants), {})


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
    result = as_written(QueryText.read(text), stages, constants)
    check_determined(result.relation)
    wanted = (*result.fields.values(), *(key.field.id for key in result.order))
    result = replace(result, relation=pruned(with_ordered_joins(result.relation), wanted))
    if result.only_in_spark is not None:
        check_told(result)
    return result


def check_told(result: Resolved) -> None:
    """Refuse a query whose text cannot tell Spark which of equal rows come first.

    Raises:
        DefinitionError: with `line`.
    """
    for node in result.reading.untold:
        advice = (
            "has rows that are equal in its order, and their other columns have no names of their "
            "own for Spark to order by; name the columns of its FROM apart, also from its SELECT's"
        )
        raise refused(node, advice)


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
    reading = _reading(parsed, stages, constants)
    selected = reading.query(parsed.tree, {}, None)
    break_last_ties(parsed.tree, selected, reading)
    return _checked(_resolved(selected, reading))


def for_spark(
    text: str, stages: Mapping[str, RowSchema], constants: Constants = NO_CONSTANTS
) -> Resolved:
    """Resolve a query that Spark runs as it stands, whatever it is and returns.

    Raises:
        DefinitionError: it cannot be parsed, or names something unknown; with `line` if it is
            known.
    """
    reading = _reading(QueryText.read(text), stages, constants)
    reading.is_lenient = True
    result = _resolved(reading.query(reading.text.tree, {}, None), reading)
    for relation in result.relations:
        check_fit(relation)
    return result


def in_tasks(
    text: str, stages: Mapping[str, RowSchema], constants: Constants = NO_CONSTANTS
) -> Resolved:
    """Resolve a query of tasks, whose names mean other constants for each task.

    Raises:
        DefinitionError: as for `for_spark`, its result differs from run to run, it reads no stage,
            or its columns have no names.
    """
    result = for_spark(text, stages, constants)
    for relation in result.relations:
        check_determined(relation, advice="differs from run to run; use a name of the scope")
    for column in result.names:
        if column.startswith("_"):
            message = f"column {column!r}: names that begin with '_' are reserved; rename it"
            raise DefinitionError(message, column=column)
    return _checked(result)


def _checked(result: Resolved) -> Resolved:
    """Return a query that reads stages, in columns that all have names."""
    tree = result.reading.text.tree
    check_columns(result.columns, tree)
    if result.is_open:
        raise refused(tree, "has columns that only Spark knows; name them")
    if not result.feeders:
        raise refused(tree, "reads no stage; name one in its FROM")
    check_no_intervals(result.relation, tuple(result.fields.items()))
    return result


def _reading(
    parsed: QueryText, stages: Mapping[str, RowSchema], constants: Constants = NO_CONSTANTS
) -> QueryContext:
    by_name = {name.lower(): (name, schema) for name, schema in stages.items()}
    named = {name.lower(): (name, value) for name, value in constants.items()}
    reading = QueryContext(parsed, by_name, lambda *_: _unready(), constants=named)
    reading.query = lambda node, ctes, outer: _query(node, ctes, outer, reading)
    return reading


def _resolved(selected: Selected, reading: QueryContext) -> Resolved:
    parsed = reading.text
    reads = sorted((e for e in reading.edits if e.feeder is not None), key=lambda e: e.start)
    feeders = tuple(dict.fromkeys(edit.feeder for edit in reads if edit.feeder is not None))
    at_end = TextEdit(parsed.end, len(parsed.text), "")
    return Resolved(
        parsed.text,
        feeders,
        selected.relation,
        selected.columns,
        selected.order,
        selected.grouped,
        (*reading.edits, at_end),
        reading,
        selected.is_open,
    )


def _literals(reading: QueryContext, constants: Constants) -> Iterator[TextEdit]:
    """Yield the edits that replace the names of constants by literals."""
    for slot in reading.slots.values():
        if slot.name in constants:
            text = literal(constants[slot.name])
            named = f"{text} AS {identifier(slot.name)}" if slot.aliased else text
            yield TextEdit(slot.start, slot.end, named)


def _unready() -> Selected:
    raise AssertionError


def _query(node: exp.Expr, ctes: Ctes, outer: Scope | None, reading: QueryContext) -> Selected:
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
                advice = "is sorted outside of parentheses; write SELECT * FROM (…)"
                reading.leave_to_spark(node, advice)
                return _sorted_outside(node, _query(node.this, ctes, outer, reading), reading)
            return _query(node.this, ctes, outer, reading)
        case exp.Values():
            return values(node, reading)
        case exp.Table():
            inner = exp.Select(expressions=[exp.Star()], from_=exp.From(this=node.copy()))
            return select(inner, reading, ctes, outer)
    raise refused(node, "is not supported; write SELECT")


def _sorted_outside(node: exp.Expr, inner: Selected, reading: QueryContext) -> Selected:
    """Return what Spark takes of a query in parentheses with an ORDER BY or LIMIT after them."""
    rows = Building(reading, inner.relation, Scope(inner.columns, is_open=inner.is_open), {})
    parts = (node.args.get(name) for name in ("order", "limit", "offset"))
    named = tuple(one for part in parts if part is not None for one in rows.named_in(part))
    relation = reading.in_spark(node, [inner.relation], inner.relation.fields, named)
    return Selected(relation, inner.columns, is_open=inner.is_open)


def _with(node: exp.Expr, ctes: Ctes, reading: QueryContext) -> Ctes:
    with_ = node.args.get("with_")
    if with_ is None:
        return ctes
    if with_.args.get("recursive"):
        raise refused(with_, "is recursive, which is not supported; make a stage of a function")
    known = dict(ctes)
    for cte in with_.expressions:
        inner = _query(cte.this, known, None, reading)
        names = cte.args["alias"].columns
        if names:
            if len(names) != len(inner.columns):
                raise refused(cte, f"names {len(names)} of {len(inner.columns)} columns")
            pairs = zip(inner.columns, names, strict=True)
            columns = tuple(replace(one, name=name.name) for one, name in pairs)
            inner = replace(inner, columns=columns)
        reading.with_.append((cte, inner))
        known[cte.alias.lower()] = inner
    return known
