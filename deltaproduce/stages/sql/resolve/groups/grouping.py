"""GROUP BY: the keys of groups, the calls of aggregate functions, and expressions over both.

The invariant: after it, an expression names keys and calls only; a column that is neither is
refused, as by Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp
from typing_extensions import override

from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.expanding import Expand
from deltaproduce.stages.sql.algebra.relations import AggregateRelation
from deltaproduce.stages.sql.algebra.scalars import Field, Output, Scalar, cast_to, columns_in
from deltaproduce.stages.sql.functions import AGGREGATES, BY_ORDER, ORDER_DEPENDENT, ORDERING
from deltaproduce.stages.sql.resolve.building import Building
from deltaproduce.stages.sql.resolve.groups.grouping_sets import group_by
from deltaproduce.stages.sql.resolve.reading import (
    CorrelatedPredicate,
    QueryContext,
    TextOrigin,
    own,
)
from deltaproduce.stages.sql.resolve.ties import least_of_ties
from deltaproduce.stages.sql.resolve.windows import Tie, tie
from deltaproduce.stages.sql.syntax import function_name
from deltaproduce.stages.sql.text import refused
from deltaproduce.types.data_types import ByteType, LongType

_TIED: Final = frozenset({"min_by", "max_by", "mode"})
"""Aggregate functions that may return any of several values."""
_OF_SETS: Final = frozenset({"grouping", "grouping_id"})
"""Functions of the grouping set that a group is of."""
_IN_QUALIFY: Final = "spark_grouping_id"
"""The number of the grouping set in a QUALIFY, where Spark has no ``grouping_id()``."""
_NULL: Final = Scalar.of(exp.null(), ())
_AROUND: Final = exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node is a call of an aggregate function, and not of a window function."""
    if isinstance(node, exp.Window):
        return False
    call = _called(node)
    if function_name(call) not in AGGREGATES:
        return False
    whole = call
    while isinstance(whole.parent, _AROUND):
        whole = whole.parent
    return not (isinstance(whole.parent, exp.Window) and whole.parent.this is whole)


def aggregates(node: exp.Expr | None) -> bool:
    """Return whether an expression calls an aggregate function."""
    return node is not None and any(map(is_aggregate, own(node)))


@dataclass
class GroupedSelect(Building):
    """The relation of a SELECT after its GROUP BY.

    Attributes:
        rows: the relation before it.
        by: the keys as they are written.
        keys: the fields of the keys, by their resolved text.
        calls: the fields of the calls, by their text.
        number: the field with the number of the grouping set; None if there is one set.
    """

    rows: Building = field(kw_only=True)
    by: Sequence[exp.Expr] = ()
    keys: dict[str, Output] = field(default_factory=dict)
    calls: dict[str, Field] = field(default_factory=dict)
    number: Field | None = None

    @override
    def replaced(self, node: exp.Expr) -> exp.Expr | None:
        """Keys and calls become their fields."""
        if self.number is not None and function_name(node) in _OF_SETS:
            return self._of_set(node, self.number)
        if is_aggregate(node):
            return self._call(node).tree
        if not isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Query | exp.Subquery):
            key = self._key(node)
            if key is not None:
                return key.tree
        return super().replaced(node)

    @override
    def is_call(self, node: exp.Expr) -> bool:
        return is_aggregate(node)

    @override
    def column(self, node: exp.Column) -> exp.Expr:
        tree, alias = super().column(node), self.alias_of(node)
        own_fields = {one.id for one in self.rows.relation.fields}
        known = {output.field.id for output in self.keys.values()}
        if any(c.name in own_fields - known for c in columns_in(tree)):
            if alias is not None and self.clause is not None:
                return alias.copy()
            raise refused(node, "is neither grouped by nor in an aggregate; add it to GROUP BY")
        return tree

    def _of_set(self, node: exp.Expr, number: Field) -> exp.Expr:
        """Return what GROUPING and GROUPING_ID are: binary digits of the number of the set."""
        known = [output.field.id for output in self.keys.values()]
        keys = known[: len(self.by)]
        given = [columns_in(self.expression(one)) for one in node.expressions]
        places = [keys.index(one[0].name) for one in given if one and one[0].name in keys]
        if function_name(node) == "grouping_id":
            if node.expressions and places != [*range(len(keys))]:
                raise refused(node, "needs all keys of the GROUP BY, in their order, or none")
            return number.tree
        if len(places) != 1 or len(given) != 1:
            raise refused(node, "needs a key of the GROUP BY")
        digit = exp.Literal.number(1 << (len(keys) - 1 - places[0]))
        shifted = exp.Paren(this=exp.IntDiv(this=number.tree, expression=digit))
        last = exp.Paren(this=exp.Mod(this=shifted, expression=exp.Literal.number(2)))
        return cast_to(last, ByteType())

    @override
    def ties(self) -> list[Tie]:
        """The keys, and the number of the grouping set."""
        number = _IN_QUALIFY if isinstance(self.clause, exp.Qualify) else "grouping_id()"
        sets = [] if self.number is None else [tie(self.number, number)]
        return [*self._ties(), *sets]

    def _ties(self) -> list[Tie]:
        pairs = zip(self.by, self.keys.values(), strict=False)  # those of links are the same
        return [tie(key.field, self._text_of_key(one)) for one, key in pairs]

    def _text_of_key(self, node: exp.Expr) -> str | None:
        """Return a key in the text; None if a name in it means a column of the SELECT here."""
        if any(isinstance(one, exp.Column) and self._is_alias(one) for one in own(node)):
            return None
        return f"({node.sql('spark', normalize_functions=False)})"

    def _key(self, node: exp.Expr) -> Field | None:
        """Return the field of a key, if an expression is one."""
        if aggregates(node) or any(isinstance(one, exp.Query | exp.Window) for one in own(node)):
            return None
        if isinstance(node, exp.Column):
            columns = self.scope.find(node)
            if columns is None or self._is_alias(node):
                return None
            is_whole = columns[1] == len(node.parts)  # else it is a part of a struct
            tree = columns[0].tree if is_whole else self.rows.expression(node)
            output = self.keys.get(_text(tree))
            return None if output is None else output.field
        if not any(isinstance(part, exp.Column) for part in own(node)):
            return None
        if any(self._is_alias(part) for part in own(node)):
            return None
        output = self.keys.get(_text(self.rows.expression(node)))
        return None if output is None else output.field

    def _is_alias(self, node: exp.Expr) -> bool:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return isinstance(node, exp.Column)
        is_short = len(node.parts) == 1
        return self.scope.find(node) is None or (is_short and self.is_alias_first(node.name))

    def _call(self, node: exp.Expr) -> Field:
        """Return the field of a call."""
        return self.calls[node.sql("spark")]


def grouped(select: exp.Expr, rows: Building, nodes: Sequence[exp.Expr]) -> GroupedSelect | None:
    """Return the groups of a SELECT, also by what it is linked with as a subquery.

    Args:
        nodes: the expressions over the groups, of which the calls are computed.

    Returns:
        None if only Spark knows how it is linked.

    Raises:
        DefinitionError: a key cannot be one.
    """
    outputs, by = dict[str, Output](), dict[str, exp.Expr]()
    said = group_by(select, rows, [aggregates(one) for one in select.expressions])
    for node in said.keys:
        if aggregates(node):
            raise refused(node, "is an aggregate, and no key of groups")
        key = _add_key(rows.expression(node), rows, outputs, node)
        by.setdefault(key.id, node)
    number = None
    if said.sets is not None:
        if rows.links or len(outputs) < len(said.keys):
            return None
        outputs, number = _expanded(select, said.sets, rows, outputs)
    links = _links(rows, outputs)
    if links is None:
        return None
    fields, calls = dict[str, Field](), list[tuple[Field, AggregateExpression]]()
    for node in (part for one in nodes for part in _calls_in(one)):
        text = node.sql("spark")
        if number is not None and function_name(node) in _OF_SETS:
            continue
        call = read_call(node, rows)
        if text not in fields:
            fields[text] = rows.reading.field(call.function, call.data_type)
            calls.append((fields[text], call))
    if not outputs and not calls:
        count = AggregateExpression.of("count", (), is_distinct=False, where=None, text="count(*)")
        calls.append((rows.reading.field("count", count.data_type), count))
    relation = AggregateRelation(rows.relation, tuple(outputs.values()), tuple(calls))
    rows.reading.origins[relation] = TextOrigin(select, rows.scope)
    return GroupedSelect(
        rows.reading,
        relation,
        rows.scope,
        rows.ctes,
        links=links,
        rows=rows,
        by=list(by.values()),
        keys=outputs,
        calls=fields,
        windows=rows.windows,
        number=number,
    )


def _links(rows: Building, outputs: dict[str, Output]) -> list[CorrelatedPredicate] | None:
    """Add what rows are linked by to the keys, and return the links over these.

    Returns:
        None if only Spark knows how they are linked.
    """
    links = list[CorrelatedPredicate]()
    for link in rows.links:
        sided = _own_side(link, rows)
        if sided is None:
            return None
        mine, other = sided
        key = _add_key(mine, rows, outputs, link.node)
        link_tree = type(link.tree)(this=other, expression=key.tree)
        links.append(CorrelatedPredicate(link_tree, link.node))
    return links


def _expanded(
    select: exp.Expr,
    sets: tuple[tuple[int, ...], ...],
    rows: Building,
    keys: Mapping[str, Output],
) -> tuple[dict[str, Output], Field]:
    """Make the rows of each set of keys, and return the keys of groups, and the set's number."""
    reading = rows.reading
    own = [reading.field(key.field.name, key.scalar.data_type) for key in keys.values()]
    number = reading.field("grouping_id", LongType())
    place = None if len({*sets}) == len(sets) else reading.field("grouping_set", LongType())
    scalars, lists = [key.scalar for key in keys.values()], list[tuple[Scalar, ...]]()
    for n, one in enumerate(sets):
        lacking = "".join("0" if at in one else "1" for at in range(len(scalars)))
        values = [key if at in one else _NULL for at, key in enumerate(scalars)]
        numbers = [int(lacking, 2), *([] if place is None else [n])]
        lists.append((*values, *map(_long, numbers)))
    added = [number, *([] if place is None else [place])]
    rows.relation = Expand(rows.relation, (*own, *added), tuple(lists))
    reading.origins[rows.relation] = TextOrigin(select.args["group"])
    pairs = [*zip(keys, own, strict=True), *((field.id, field) for field in added)]
    return {text: Output.copy(field) for text, field in pairs}, number


def _long(number: int) -> Scalar:
    return Scalar.of(cast_to(exp.Literal.number(number), LongType()), (), str(number))


def _calls_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the calls of aggregate functions in an expression, but for those in subqueries."""
    for part in node.walk(prune=lambda one: isinstance(one, exp.Query) or is_aggregate(one)):
        if is_aggregate(part):
            yield part


def _add_key(tree: exp.Expr, rows: Building, outputs: dict[str, Output], node: exp.Expr) -> Field:
    text = _text(tree)
    if text in outputs:
        return outputs[text].field
    scalar = rows.reading.typed(tree, rows.relation.fields, node)
    bare = tree.unnest()
    name = bare.name if isinstance(bare, exp.Column) else None
    kept = next((field for field in rows.relation.fields if field.id == name), None)
    key_field = kept or rows.reading.field("key", scalar.data_type)
    outputs[text] = Output(key_field, scalar)
    return key_field


def _own_side(link: CorrelatedPredicate, rows: Building) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the side of an equality that is over the rows, and the other one."""
    if not isinstance(link.tree, exp.EQ | exp.NullSafeEQ):
        return None
    own_ids = {one.id for one in rows.relation.fields}
    sides = link.tree.this, link.tree.expression
    for mine, other in (sides, sides[::-1]):
        names = [{c.name for c in columns_in(side)} for side in (mine, other)]
        if names[0] and names[0] <= own_ids and names[1].isdisjoint(own_ids):
            return mine, other
    return None


def read_call(node: exp.Expr, rows: Building) -> AggregateExpression:
    """Return a call of an aggregate function over rows.

    Raises:
        DefinitionError: it depends on the order of rows, or does not take these arguments.
    """
    call, where = _called(node), None
    name = function_name(call) or ""
    if name in ORDER_DEPENDENT and not _is_ordered(node, call):
        rows.reading.leave_to_spark(node, BY_ORDER)
    if isinstance(node, exp.Filter):
        condition = node.expression.this
        where = rows.reading.condition(rows.expression(condition), rows.relation.fields, condition)
    given = call.expressions or [part for part in (call.this,) if isinstance(part, exp.Expr)]
    is_distinct = len(given) == 1 and isinstance(given[0], exp.Distinct)
    if is_distinct:
        given = given[0].expressions
    stars = [one for one in given if isinstance(one, exp.Star) or isinstance(one.this, exp.Star)]
    if len(given) == 1 and isinstance(given[0], exp.Star):
        given = []
    for one in given:
        if aggregates(one):
            raise refused(one, "is an aggregate inside of another one")
    is_plain = node is call or (isinstance(node, exp.Filter) and node.this is call)
    if stars and (given or is_distinct):  # of all columns, as count(DISTINCT *)
        is_plain = False
    arguments = [
        rows.reading.typed(rows.expression(one), rows.relation.fields, one)
        for one in given
        if not isinstance(one, exp.Column) or not isinstance(one.this, exp.Star)
    ]
    text = node.sql("spark", normalize_functions=False)
    read = AggregateExpression.of(name, arguments, is_distinct=is_distinct, where=where, text=text)
    if read.fault is not None:
        raise refused(node, read.fault)
    if is_plain and _is_settled(call, read, rows.reading):
        return read
    sorted_by = [one.this for part in node.find_all(exp.Order) for one in part.expressions]
    others = (
        rows.reading.typed(rows.expression(one), rows.relation.fields, one) for one in sorted_by
    )
    return replace(read, arguments=(*arguments, *others), data_type=None, is_plain=False)


def _is_settled(node: exp.Expr, call: AggregateExpression, reading: QueryContext) -> bool:
    """Let Spark return the least of equal values; return whether it always returns one value."""
    if not call.is_plain or call.function not in _TIED:
        return True
    if call.is_distinct:
        return False
    edit = least_of_ties(node, call.function, call.data_type, reading.text)
    if edit is not None and edit not in reading.edits:
        reading.edits.append(edit)
    return edit is not None


def _is_ordered(node: exp.Expr, call: exp.Expr) -> bool:
    inside = isinstance(node, exp.WithinGroup) or isinstance(call.parent, exp.WithinGroup)
    return inside or function_name(node.parent) in ORDERING


def _called(node: exp.Expr) -> exp.Expr:
    """Return the function call inside its FILTER, WITHIN GROUP and IGNORE NULLS."""
    while isinstance(node, _AROUND):
        node = node.this
    return node


def _text(tree: exp.Expr) -> str:
    return str(tree.unnest().sql("spark"))
