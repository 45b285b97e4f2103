"""Exposing: the columns that are added to a query so that it returns the source key.

A query's relation gets them as fields, and its text as columns of its SELECTs, for Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.keys import SourceKeyFields
from deltaproduce.stages.queries.spelling import SelectList, Spelling
from deltaproduce.stages.sql.algebra.relations import (
    Distinct,
    ProjectRelation,
    Relation,
    SetOperation,
)
from deltaproduce.stages.sql.algebra.scalars import Output, Scalar
from deltaproduce.stages.sql.resolve import Named, QueryContext
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import TextEdit


@dataclass(frozen=True, slots=True)
class Keyed:
    """A relation with the source key of its rows.

    Attributes:
        hidden: the added columns that hold the source key, as the SELECT over them names them.
    """

    relation: Relation
    keys: SourceKeyFields
    hidden: tuple[Named, ...] = ()

    def over(self, *inputs: Relation, relation: Relation) -> Keyed:
        """Return another operator over the relation, with the same source key."""
        return replace(self, relation=relation.over(inputs))


@dataclass
class Exposing:
    """The queries of one text to which the source key is added.

    Attributes:
        of: returns a relation with its source key.
        edits: the edits of the text.
    """

    reading: QueryContext
    spelling: Spelling
    of: Callable[[Relation], Keyed]
    edits: list[TextEdit]
    _exposed: dict[Relation, tuple[Relation, tuple[str, ...]]] = field(default_factory=dict)

    def has(self, relation: Relation) -> bool:
        """Return whether the source key is added to a query already."""
        return relation in self._exposed

    def exposed(
        self, relation: Relation, names: Sequence[str], others: Mapping[str, str] | None = None
    ) -> tuple[Relation, tuple[str, ...]]:
        """Add columns that hold the source key to a query.

        Args:
            names: a name for each source key column.
            others: further columns for its SELECT's text, by name.

        Returns:
            The query's relation, and the ids of the added fields.
        """
        if not self.has(relation):
            self._exposed[relation] = self._with_keys(relation, names, others or {})
        return self._exposed[relation]

    def lists(self, relation: Relation) -> Iterator[SelectList]:
        """Yield the select lists that make a query's columns."""
        outputs = self._list_of(relation) if isinstance(relation, ProjectRelation) else None
        if outputs is not None:
            yield outputs
            return
        for one in relation.inputs:
            yield from self.lists(one)

    def _with_keys(
        self, relation: Relation, names: Sequence[str], others: Mapping[str, str]
    ) -> tuple[Relation, tuple[str, ...]]:
        with_keys = self.of(relation).relation
        if isinstance(relation, SetOperation) and isinstance(with_keys, SetOperation):
            sides = [self.exposed(one, names) for one in (relation.left, relation.right)]
            return self._beside(with_keys, sides, names)
        assert isinstance(relation, ProjectRelation | Distinct)
        below, list_ = relation.input, self._list_of(relation)
        if isinstance(with_keys, ProjectRelation) and list_ is not None:
            columns = dict(zip(names, list_.keys, strict=True)) | dict(others)
            self.edits += list_.with_columns(self.reading.text.text, columns)
            keys = [self._output(self.of(below), place, name) for place, name in enumerate(names)]
            added = tuple(one.field.id for one in keys)
            return replace(with_keys, outputs=(*with_keys.outputs, *keys)), added
        inner, added = self.exposed(below, names, others)
        if not isinstance(with_keys, ProjectRelation):
            return with_keys.over([inner]), added
        outputs = (Output.copy(one) for one in inner.fields if one.id in added)
        return replace(with_keys, input=inner, outputs=(*with_keys.outputs, *outputs)), added

    def _beside(
        self,
        node: SetOperation,
        sides: Sequence[tuple[Relation, tuple[str, ...]]],
        names: Sequence[str],
    ) -> tuple[Relation, tuple[str, ...]]:
        """Return a set operation of sides with added fields."""
        kinds = [[one.data_type for one in side.fields if one.id in added] for side, added in sides]
        for one, other in zip(*kinds, strict=True):
            if one is not None and other is not None and one != other:
                pair = f"{one.simpleString()} and {other.simpleString()}"
                message = f"the source keys of the sides of {node.label!r} have the types {pair}"
                raise DefinitionError(message)
        types = (None if None in both else both[0] for both in zip(*kinds, strict=True))
        own = [self.reading.field(*both) for both in zip(names, types, strict=True)]
        (left, _), (right, _) = sides
        combined = replace(node, left=left, right=right, own=(*node.own, *own))
        return combined, tuple(one.id for one in own)

    def _output(self, below: Keyed, place: int, name: str) -> Output:
        """Return the column of a SELECT that has a source key column."""
        fields = {one.id: one for one in below.relation.fields}
        trees = [fields[group[0]].tree for group in below.keys.columns[place]]
        tree = trees[0]
        if len(trees) > 1:
            tree = exp.Anonymous(this="coalesce", expressions=trees)
        scalar = Scalar.of(tree, below.relation.fields)
        return Output(self.reading.field(name, scalar.data_type), scalar)

    def _list_of(self, relation: ProjectRelation | Distinct) -> SelectList | None:
        """Return the select list that makes a relation; None if it is of no SELECT."""
        origin = self.reading.origins.get(relation)
        if origin is None or origin.scope is None:
            return None
        if "start" not in origin.node.meta:
            message = f"{spelled(origin.node)!r} is not supported in a query; write SELECT"
            raise DefinitionError(message)
        return self.spelling.list_of(origin.node, self.of(relation.input).keys, origin.scope)
