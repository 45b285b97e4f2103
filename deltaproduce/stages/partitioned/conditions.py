"""Conditions: the partitions of a feeder whose rows a query can read, found from its relation.

For each place where a query reads a feeder, this collects the conditions that a row must meet: the
WHERE of that SELECT, the ON of inner joins, and the ON of outer joins on the side that they do not
keep. The invariant: a row of a partition that does not meet them cannot change the query's rows.
`links` finds the partitions that meet them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from deltaproduce.stages.sql.algebra.expanding import Expand, Generate
from deltaproduce.stages.sql.algebra.relations import (
    Filter,
    Join,
    JoinKind,
    Matched,
    ProjectRelation,
    Relation,
    Scan,
    Single,
)
from deltaproduce.stages.sql.algebra.scalars import Scalar, with_escapes
from deltaproduce.stages.sql.algebra.spark_only import ValueInSpark
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.literals import constant_of
from deltaproduce.stages.sql.resolve import Resolved
from deltaproduce.types.data_types import DataType


@dataclass(frozen=True, slots=True)
class PartitionTest:
    """A condition on partitions: a tree of AND, OR and NOT over its leaves.

    Attributes:
        operator: ``and``, ``or``, ``not``; ``of nulls``, evaluated with null in all partition
            columns, ``of own nulls``, but for those that ``USING`` merges with columns of other
            items, and ``of others' nulls``, in those of items without a matching row; for a leaf
            ``is``, or ``is not`` if it must be false.
        parts: its operands.
        leaf: an expression over the partition columns and the scope; None if it reads anything
            else.
    """

    operator: str
    parts: tuple[PartitionTest, ...] = ()
    leaf: Expression | None = None

    def where(self, *, false: bool = False) -> PartitionTest:
        """Return a condition that holds where this may be true, or false; it has no NOT.

        A part that does not depend on the partition may be both: it counts as true, and under NOT
        as false.
        """
        match self.operator:
            case "not":
                return self.parts[0].where(false=not false)
            case "and" | "or":
                is_and = (self.operator == "and") != false
                parts = tuple(part.where(false=false) for part in self.parts)
                return PartitionTest("and" if is_and else "or", parts)
        return PartitionTest("is not" if false else "is", leaf=self.leaf)

    @property
    def columns(self) -> frozenset[str]:
        """The names that its leaves read."""
        own = () if self.leaf is None else self.leaf.columns
        return frozenset(own).union(*(part.columns for part in self.parts))


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A condition that rows of a feeder must meet.

    Attributes:
        unless_null: whether it counts only if a row of nulls, which an outer join adds for missing
            rows, does not meet it; also where a merged column has the value of the other side.
    """

    part: PartitionTest
    unless_null: bool


@dataclass(frozen=True, slots=True)
class Read:
    """One place where a query reads a feeder.

    Attributes:
        feeder: its name.
        columns: its partition columns, with their types.
    """

    feeder: str
    columns: tuple[tuple[str, DataType], ...]
    conditions: tuple[RowCondition, ...]


def reads_of(
    resolved: Resolved, partitioned: Mapping[str, Mapping[str, DataType]]
) -> tuple[Read, ...]:
    """Return the places where a query reads stages.

    Args:
        resolved: the query, with its operators in the order of its clauses.
        partitioned: the partition columns of each stage, with their types.
    """
    reading = _Reads(resolved, partitioned)
    for relation in resolved.relations:
        reading.query(relation)
    return tuple(reading.reads)


_Side: TypeAlias = Literal["left", "right"]
_BOTH: Final[tuple[_Side, ...]] = ("left", "right")
_LIMITED: Final[Mapping[JoinKind, tuple[_Side, ...]]] = MappingProxyType(
    {
        "inner": _BOTH,
        "semi": _BOTH,
        "left": ("right",),
        "anti": ("right",),
        "right": ("left",),
        "full": (),
    }
)
"""The sides of a join whose rows do not matter if they do not meet its ON."""

_NULLABLE: Final[Mapping[JoinKind, tuple[_Side, ...]]] = MappingProxyType(
    {
        "inner": (),
        "semi": (),
        "anti": (),
        "left": ("right",),
        "right": ("left",),
        "full": _BOTH,
    }
)
"""The sides of a join that it fills with nulls where no row matches."""


@dataclass(frozen=True, slots=True)
class _Above:
    """Conditions above a relation.

    Attributes:
        trees: all must be true.
        is_nullable: whether nulls may have replaced the relation's rows there.
    """

    trees: tuple[exp.Expr, ...]
    is_nullable: bool = False


@dataclass
class _Reads:
    """The pass over one query.

    Attributes:
        merged: fields that ``USING`` makes one -> all of them.
        nullable: those of them that are null where another item has no matching row.
    """

    resolved: Resolved
    partitioned: Mapping[str, Mapping[str, DataType]]
    reads: list[Read] = field(default_factory=list)
    merged: dict[str, set[str]] = field(default_factory=dict)
    nullable: set[str] = field(default_factory=set)
    _linked: dict[Relation, tuple[Scalar, ...]] = field(default_factory=dict)
    _seen: set[Relation] = field(default_factory=set)

    def query(self, relation: Relation) -> None:
        """Find the reads of a relation whose rows count whatever the operator over it."""
        if relation not in self._seen:
            self._seen.add(relation)
            self.below(relation, [])

    def below(self, relation: Relation, above: Sequence[_Above]) -> None:
        """Find the reads of a relation under conditions."""
        match relation:
            case Scan():
                self.reads.append(self._read(relation, above))
            case Filter() | Matched() | Single() | ValueInSpark() | Generate() | Expand():
                self._chosen(relation, above)
            case Join():
                self._joined(relation, above)
            case ProjectRelation() if relation not in self.resolved.reading.origins:
                self._merge_full(relation)
                self.below(relation.input, above)
            case _ if relation in self._linked:
                self._chosen(relation, above)
            case _:
                for one in relation.inputs:
                    self.query(one)

    def _chosen(self, relation: Relation, above: Sequence[_Above]) -> None:
        """Add the conditions of one WHERE."""
        trees = list[exp.Expr]()
        while True:
            trees += [one.expression.tree for one in self._linked.pop(relation, ())]
            match relation:
                case Filter():
                    trees.append(relation.condition.expression.tree)
                case Matched() | Single() | ValueInSpark():
                    self._read_subquery(relation)
                case Generate() | Expand():
                    pass
                case _:
                    break
            relation = relation.input
        self.below(relation, [*above, _Above(tuple(trees))] if trees else above)

    def _read_subquery(self, relation: Matched | Single | ValueInSpark) -> None:
        """Find the reads of a subquery, whose rows meet the conditions on the row around it."""
        linked, query = relation.linked, relation.subquery
        if linked is not None and linked.conditions:
            self._linked[linked.rows] = linked.conditions
        if query is not None:
            self.query(query)

    def _joined(self, join: Join, above: Sequence[_Above]) -> None:
        node = self.resolved.reading.origins[join].node
        is_merging = bool(node.args.get("using")) or node.args.get("method") == "NATURAL"
        on = () if is_merging else tuple(one.expression.tree for one in join.scalars)
        for one in join.equal if is_merging else ():
            self._merge((*one.left, *one.right), join)
            for side in _NULLABLE[join.kind]:
                self.nullable.update(one.left if side == "left" else one.right)
        for side in _BOTH:
            is_null = side in _NULLABLE[join.kind]
            own = [replace(one, is_nullable=one.is_nullable or is_null) for one in above]
            limits = [_Above(on)] if on and side in _LIMITED[join.kind] else []
            self.below(join.left if side == "left" else join.right, [*limits, *own])

    def _merge(self, names: Sequence[str], relation: Relation) -> None:
        """Make fields one if they have one type."""
        of = (one for side in relation.inputs for one in (*side.fields, *relation.fields))
        types = {one.id: one.data_type for one in of}
        if len({str(types[name]) for name in names}) == 1:
            every = {*names}.union(*(self.merged.get(name, ()) for name in names))
            self.merged.update(dict.fromkeys(every, every))

    def _merge_full(self, relation: ProjectRelation) -> None:
        """Make the columns that a full join merges one with those of its sides."""
        for output in relation.outputs:
            if len(output.scalar.fields) > 1:
                self._merge((output.field.id, *output.scalar.fields), relation)

    def _read(self, scan: Scan, above: Iterable[_Above]) -> Read:
        types = self.partitioned.get(scan.feeder, {})
        ids = {c: one.id for c, one in zip(scan.columns, scan.own, strict=True) if c in types}
        names = {
            other: (matched_name if other in self.nullable else merged_name)(column)
            for column, own in ids.items()
            for other in self.merged.get(own, ())
        } | {own: column_name(column) for column, own in ids.items()}
        conditions = (
            RowCondition(_joint([_part(tree, names) for tree in one.trees]), one.is_nullable)
            for one in above
        )
        return Read(scan.feeder, tuple(types.items()), tuple(conditions))


def _joint(parts: Sequence[PartitionTest]) -> PartitionTest:
    return parts[0] if len(parts) == 1 else PartitionTest("and", tuple(parts))


def _part(node: exp.Expr, names: Mapping[str, str]) -> PartitionTest:
    """Return a resolved condition as one on partitions.

    Args:
        names: the names of fields in leaves, by their ids.
    """
    match node:
        case exp.Paren():
            return _part(node.this, names)
        case exp.And() | exp.Or():
            sides = (_part(side, names) for side in (node.this, node.expression))
            return PartitionTest("and" if isinstance(node, exp.And) else "or", tuple(sides))
        case exp.Not():
            return PartitionTest("not", (_part(node.this, names),))
        case exp.Between() if not node.args.get("symmetric"):
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            sides = (_part(side, names) for side in (low, high))
            return PartitionTest("and", tuple(sides))
    return PartitionTest("is", leaf=_leaf(node, names))


def _leaf(node: exp.Expr, names: Mapping[str, str]) -> Expression | None:
    """Return a condition on partition columns and the scope; None if it reads others."""
    tree, read = node.copy(), list[str]()
    for column in [*_columns(tree)]:
        if constant_of(column) is None and column.name not in names:
            return None
        read.append(column.name if constant_of(column) else names[column.name])
        named = exp.column(exp.to_identifier(read[-1], quoted=True))
        tree = named if column is tree else tree
        column.replace(named)
    return Expression(with_escapes(tree.sql("spark"), tree), tuple(dict.fromkeys(read)), tree)


def _columns(tree: exp.Expr) -> Iterator[exp.Expr]:
    return (node for node in tree.walk() if isinstance(node, exp.Column))


def column_name(name: str) -> str:
    """Return a partition column's name in a leaf, distinct from names of the scope."""
    return f"_partition_{name}"


def merged_name(name: str) -> str:
    """Return its name in a leaf where it is one with a column of another item of the FROM."""
    return f"_merged_{name}"


def matched_name(name: str) -> str:
    """Return the same for a column that is null where its item has no matching row."""
    return f"_matched_{name}"
