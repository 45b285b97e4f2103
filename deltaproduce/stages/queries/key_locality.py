"""Key-locality: whether each row of a query comes from one source key, and which fields hold it.

A pass over the algebra, from the stages that a query reads to its result. For every operator it
determines which fields hold the source key, and refuses whatever would combine rows of different
source keys. Where a subquery leaves the source key out, it is added to it.

The invariant: over the rows of any set of source keys, an accepted query returns exactly the rows
that it returns over all rows for these source keys. An operator without a rule is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.exposing import Exposing, Keyed
from deltaproduce.stages.queries.grammar import TOTALS
from deltaproduce.stages.queries.joins import check_join, check_linked
from deltaproduce.stages.queries.keys import SourceKeyFields, fields_of, joined
from deltaproduce.stages.queries.rules import check_distinct, check_window, grouped, set_operation
from deltaproduce.stages.queries.spelling import Spelling, alias_edits
from deltaproduce.stages.sql.algebra.expanding import Expand, Generate
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Distinct,
    Filter,
    Join,
    Matched,
    ProjectRelation,
    Relation,
    Scan,
    SetOperation,
    Single,
    Values,
)
from deltaproduce.stages.sql.algebra.scalars import Output
from deltaproduce.stages.sql.algebra.spark_only import InSpark, ValueInSpark
from deltaproduce.stages.sql.algebra.windows import WindowRelation
from deltaproduce.stages.sql.resolve import Named, QueryContext
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import TextEdit
from deltaproduce.types.columns import RowSchema


@dataclass
class KeyLocality:
    """The pass over one query.

    Attributes:
        edits: the edits of the text that add the source key to subqueries.
    """

    reading: QueryContext
    stages: Mapping[str, RowSchema]
    edits: list[TextEdit] = field(default_factory=list)
    _known: dict[Relation, Keyed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spelling = Spelling(self.reading.names)
        self.exposing = Exposing(self.reading, self.spelling, self.of, self.edits)

    def of(self, relation: Relation) -> Keyed:
        """Return a relation with its source key.

        Raises:
            DefinitionError: a row of it can come from rows of several source keys, or no rule is
                known for it.
        """
        if relation not in self._known:
            self._check_origin(relation)
            rule = _RULES.get(type(relation))
            if rule is None:
                raise _unsupported(relation.label)
            self._known[relation] = rule(self, relation)
        return self._known[relation]

    def _check_origin(self, relation: Relation) -> None:
        """Refuse what is made of a clause that has no rule."""
        origin = self.reading.origins.get(relation)
        node = None if origin is None else origin.node
        lateral = node.this if isinstance(node, exp.Join) else node
        if isinstance(lateral, exp.Lateral) and not lateral.args.get("view"):
            raise DefinitionError(f"{spelled(lateral)!r} {_NO_LATERAL}")
        if isinstance(node, exp.Pivot | exp.Limit | exp.Offset):
            raise _unsupported(spelled(node))

    def scanned(self, scan: Scan) -> Keyed:
        """Return the rows of a stage: its key comes first."""
        width = len(self.stages[scan.feeder].key)
        return Keyed(scan, SourceKeyFields.of([((one.id,),) for one in scan.own[:width]]))

    def constant(self, values: Values) -> Keyed:
        """Return constants, which are the same for every source key."""
        return Keyed(values, SourceKeyFields())

    def row_by_row(self, relation: Filter | Generate | Expand) -> Keyed:
        """Return what is made of one row at a time."""
        below = self.of(relation.input)
        return below.over(below.relation, relation=relation)

    def subquery(self, relation: Matched | Single | ValueInSpark) -> Keyed:
        """Return rows with the value of a subquery, which reads rows of their source key only."""
        below = self.of(relation.input)
        self._check_subquery(relation, below.keys)
        return below.over(below.relation, *relation.inputs[1:], relation=relation)

    def joined(self, join: Join) -> Keyed:
        """Return a join by equal source keys, or with constants."""
        left, right = self.of(join.left), self.of(join.right)
        check_join(join, left.keys, right.keys, self.spelling, self.reading.origins[join].node)
        hidden = left.hidden if join.kind in {"semi", "anti"} else left.hidden + right.hidden
        keys = joined(left.keys, right.keys, join.kind)
        return Keyed(join.over([left.relation, right.relation]), keys, hidden)

    def windowed(self, window: WindowRelation) -> Keyed:
        """Return rows with the value of a window function within source keys."""
        below = self.of(window.input)
        check_window(window, below.keys, self.spelling)
        return below.over(below.relation, relation=window)

    def grouped(self, group: AggregateRelation) -> Keyed:
        """Return groups within source keys."""
        below = self.of(group.input)
        keys = grouped(group, below.keys, self.spelling, self.reading.origins[group].node)
        return Keyed(group.over([below.relation]), keys, below.hidden)

    def expanded(self, expand: Expand) -> Keyed:
        """Return the rows that a generator lists, but no grouping sets: some lack a source key."""
        node = self.reading.origins[expand].node
        if isinstance(node, exp.Group):
            raise DefinitionError(f"{spelled(node)!r} {TOTALS}")
        return self.row_by_row(expand)

    def distinct(self, distinct: Distinct) -> Keyed:
        """Return each row of a source key once."""
        below = self.of(distinct.input)
        check_distinct(below.keys, self.reading.origins[distinct].node)
        return below.over(below.relation, relation=distinct)

    def set_operation(self, relation: SetOperation) -> Keyed:
        """Return a set operation within source keys, or all rows of both sides."""
        left, right = self.of(relation.left), self.of(relation.right)
        node = self.reading.origins[relation].node
        keys = set_operation(relation, left.keys, right.keys, node)
        return Keyed(relation.over([left.relation, right.relation]), keys)

    def in_spark(self, relation: InSpark) -> Keyed:
        """Return what Spark makes of constants; of stages it has no rule."""
        if not _reads_stages(relation):
            return Keyed(relation, SourceKeyFields())
        if isinstance(relation.tree, exp.Lateral):
            raise DefinitionError(f"{relation.text!r} {_NO_LATERAL}")
        raise _unsupported(relation.text)

    def projected(self, relation: ProjectRelation) -> Keyed:
        """Return some expressions over each row; what they are depends on what is written."""
        origin = self.reading.origins.get(relation)
        if origin is None:
            return self._widened(relation)
        if origin.scope is None:
            return self._renamed(relation, origin.node)
        below = self.of(relation.input)
        self.edits += self.spelling.star_edits(origin.node, below.hidden)
        columns = _holding(relation, below.keys, lambda one: one.scalar.expression.tree)
        keys = SourceKeyFields.of([(group,) if group else () for group in columns])
        return Keyed(relation.over([below.relation]), keys)

    def _widened(self, relation: ProjectRelation) -> Keyed:
        """Return rows with other fields beside their own, or in other types; no user wrote it."""
        below = self.of(relation.input)
        outputs = (*relation.outputs, *(Output.copy(one.field) for one in below.hidden))
        copies = below.keys.renamed(_copies(outputs))
        columns = [
            (group,) if group and len(below.keys.columns[place]) > 1 else copies.columns[place]
            for place, group in enumerate(_holding(relation, below.keys, _uncast))
        ]
        widened = replace(relation, input=below.relation, outputs=outputs)
        return Keyed(widened, replace(copies, columns=tuple(columns)), below.hidden)

    def _renamed(self, relation: ProjectRelation, node: exp.Expr) -> Keyed:
        """Return a subquery or CTE in FROM; the source key is added to it if it lacks it."""
        self._check_columns(relation, node)
        below, copies = self.of(relation.input), _copies(relation.outputs)
        columns = [
            tuple(name for group in groups for one in group for name in copies.get(one, ()))
            for groups in below.keys.columns
        ]
        if below.keys.are_held:
            return Keyed(
                relation.over([below.relation]), SourceKeyFields.of([(one,) for one in columns])
            )
        inner, added, names = self._exposed(relation.input)
        self.edits += alias_edits(node.args.get("alias"), names)
        table = node.alias or (node.name if isinstance(node, exp.Table) else "") or None
        outputs, hidden = list(relation.outputs), list[Named]()
        for name, one in zip(names, (one for one in inner.fields if one.id in added), strict=True):
            hidden.append(Named(table, name, self.reading.field(name, one.data_type)))
            outputs.append(replace(Output.copy(one), field=hidden[-1].field))
        self.spelling.hidden.update((one.field.id, one) for one in hidden)
        renamed = replace(relation, input=inner, outputs=tuple(outputs))
        both = zip(columns, hidden, strict=True)
        keys = SourceKeyFields.of([((*group, one.field.id),) for group, one in both])
        return Keyed(renamed, keys, tuple(hidden))

    def _exposed(self, relation: Relation) -> tuple[Relation, tuple[str, ...], list[str]]:
        """Return a query with the source key, the added fields, and their names."""
        start = min(one.start for one in self.exposing.lists(relation))
        names = [f"_key_{start}_{place}" for place in range(len(self.of(relation).keys))]
        if not self.exposing.has(relation):
            for cte, selected in self.reading.with_:
                if selected.relation is relation:
                    self.edits += alias_edits(cte.args.get("alias"), names)
        return (*self.exposing.exposed(relation, names), names)

    def _check_columns(self, relation: ProjectRelation, node: exp.Expr) -> None:
        for output in relation.outputs:
            name = self.reading.names[output.field.id].name
            if name is None or name.startswith("_"):
                fault = "without a name" if name is None else f"named {name!r}"
                raise DefinitionError(
                    f"{spelled(node)!r} has a column {fault}; name it with AS, and not beginning "
                    "with '_'"
                )

    def _check_subquery(
        self, relation: Matched | Single | ValueInSpark, outer: SourceKeyFields
    ) -> None:
        """Check that a subquery in an expression reads only rows of its row's source key."""
        query, linked = relation.subquery, relation.linked
        if query is None or not _reads_stages(query):
            return
        node = self.reading.origins[relation].node
        if linked is None:
            message = f"{spelled(node)!r} reads a stage where only joins can; write a join"
            raise DefinitionError(message)
        inner = self.of(linked.rows)
        check_linked(relation, linked, outer, inner.keys, self.spelling, node)
        for one in _above(linked.rows, query):
            if isinstance(one, Matched | Single | ValueInSpark):
                self._check_subquery(one, inner.keys)
            origin = self.reading.origins.get(one)
            if isinstance(one, ProjectRelation) and origin is not None and origin.scope is not None:
                self.edits += self.spelling.star_edits(origin.node, inner.hidden)


_NO_LATERAL: Final = (
    "is not supported in FROM; use LATERAL VIEW for generators, and a join for other tables"
)
_RULES: Final[Mapping[type[Relation], Callable[[KeyLocality, Any], Keyed]]] = MappingProxyType(
    {
        Scan: KeyLocality.scanned,
        Values: KeyLocality.constant,
        ProjectRelation: KeyLocality.projected,
        Filter: KeyLocality.row_by_row,
        Generate: KeyLocality.row_by_row,
        Join: KeyLocality.joined,
        Matched: KeyLocality.subquery,
        Single: KeyLocality.subquery,
        ValueInSpark: KeyLocality.subquery,
        WindowRelation: KeyLocality.windowed,
        AggregateRelation: KeyLocality.grouped,
        Expand: KeyLocality.expanded,
        Distinct: KeyLocality.distinct,
        SetOperation: KeyLocality.set_operation,
        InSpark: KeyLocality.in_spark,
    }
)
"""The rule of each operator."""


def _unsupported(text: str) -> DefinitionError:
    return DefinitionError(f"{text!r} is not supported in a query that is computed key by key")


def _above(rows: Relation, query: Relation) -> Iterator[Relation]:
    """Yield what a SELECT makes of the rows of its FROM and WHERE."""
    while query is not rows and query.inputs:
        yield query
        query = query.inputs[0]


def _reads_stages(relation: Relation) -> bool:
    return any(isinstance(one, Scan) for one in relation.walk())


def _holding(
    relation: ProjectRelation, keys: SourceKeyFields, tree_of: Callable[[Output], exp.Expr]
) -> list[tuple[str, ...]]:
    """Return for each source key column the outputs that hold it by themselves."""
    held = [(one.field.id, keys.holds(fields_of(tree_of(one)))) for one in relation.outputs]
    return [tuple(name for name, columns in held if place in columns) for place in range(len(keys))]


def _uncast(output: Output) -> exp.Expr:
    """Return a column of a side of a set operation before it got the type of both sides."""
    tree = output.scalar.expression.tree
    return tree.this if isinstance(tree, exp.TryCast) else tree


def _copies(outputs: Sequence[Output]) -> dict[str, list[str]]:
    """Return fields -> the outputs that have their values."""
    copies = dict[str, list[str]]()
    for output in outputs:
        fields = fields_of(_uncast(output))
        if len(fields) == 1:
            copies.setdefault(fields[0], []).append(output.field.id)
    return copies
