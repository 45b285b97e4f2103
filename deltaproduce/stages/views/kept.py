"""What a stage keeps of a relation: which columns, in which order, with which states.

A view keeps the rows of its query. A hidden table of a view keeps those of an operator below, to be
found by their key: groups by what they are grouped by, other rows by what a join looks up, and the
rows of a limit in its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.algebra.relations import AggregateRelation, Limit, Relation, Scan
from deltaproduce.stages.sql.algebra.scalars import Field, SortKey
from deltaproduce.stages.sql.operators.computing import Computing
from deltaproduce.stages.sql.states.functions.encodings import encoded, encoded_type
from deltaproduce.stages.views.grouped import GroupedQuery
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.columns import (
    NO_KEY,
    Column,
    Columns,
    RowSchema,
    may_be_key,
    with_nulls,
)
from deltaproduce.types.data_types import (
    DataType,
    IntegerType,
    NullType,
    VariantType,
)

GROUPS: Final = "groups"
"""The role of a table with the groups of a GROUP BY and their states."""
ROWS: Final = "rows"
"""The role of a table with rows that are looked up by what no stage has a column for."""
ORDERED: Final = "ordered"
"""The role of a table with rows in the order of a limit."""

_UNSTORED: Final = (NullType, VariantType)


@dataclass(frozen=True, slots=True)
class OrderColumn:
    """A key column that orders rows by a field.

    Attributes:
        is_place: whether it says on which side of other values a null is, and not the value.
        key: how rows are sorted by the field. There is a place for its nulls beside the value, so
            another value stands for them.
        is_tie: whether it orders rows that are equal otherwise; then it may be null.
    """

    key: SortKey
    is_place: bool = False
    is_tie: bool = False

    @property
    def field(self) -> Field:
        """The field."""
        return self.key.field

    @property
    def has_value(self) -> bool:
        """Whether it has the very values of the field."""
        kind = _kind_of(self.field)
        return self.is_tie and encoded_type(kind) == kind

    def typed(self, name: str) -> Column:
        """Return the column."""
        if self.is_place:
            return Column(name, IntegerType())
        kind = encoded_type(_kind_of(self.field))
        return Column(name, kind, descending=self.key.descending)

    def column_of(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return its values."""
        values = rows.column(self.field.id)
        if self.is_place:
            nulls = pc.is_null(values)
            return (pc.invert(nulls) if self.key.nulls_first else nulls).cast(pa.int32())
        kind = _kind_of(self.field)
        array = encoded(values.combine_chunks().cast(arrow_type(kind)), kind)
        if not self.is_tie:
            array = pc.fill_null(array, _filler(array.type))
        return pa.chunked_array([array])


@dataclass(frozen=True, slots=True)
class MaterializedRelation:
    """The rows of a relation as a stage keeps them.

    Attributes:
        fields: the columns of the stage -> the fields that they have.
        order: how rows of one key are ordered before their values count.
        grouped: the relation as groups with states, if the stage keeps states.
        order_columns: key columns that order rows -> how they are computed.
        group_width: how many of the first key columns are known of the first rows that are looked
            up; 0 if none are.
    """

    relation: Relation
    fields: Mapping[str, str]
    order: tuple[SortKey, ...] = ()
    grouped: GroupedQuery | None = None
    order_columns: Mapping[str, OrderColumn] = field(default_factory=dict)
    group_width: int = 0

    @property
    def made_of(self) -> Relation:
        """The relation whose rows are computed: that below groups with states."""
        return self.relation if self.grouped is None else self.grouped.aggregate.input

    def part(self, rows: pa.Table, computing: Computing) -> pa.Table:
        """Return what some of all rows of `made_of` are for the stage: columns, or states."""
        if self.grouped is not None:
            return self.grouped.part(rows, computing)
        return self.columns_of(rows)

    def columns_of(self, rows: pa.Table) -> pa.Table:
        """Return the columns of the stage that rows of the relation have."""
        arrays = {name: rows.column(field) for name, field in self.fields.items()}
        arrays |= {name: one.column_of(rows) for name, one in self.order_columns.items()}
        arrays |= {key.field.id: rows.column(key.field.id) for key in self.order}
        return pa.table(arrays)


@dataclass(frozen=True, slots=True)
class ViewTable:
    """A hidden table of a view.

    Attributes:
        name: the name of its stage.
        role: `GROUPS`, `ROWS` or `ORDERED`.
        schema: its columns.
        scan: its rows, as what reads it sees them.
    """

    name: str
    role: str
    kept: MaterializedRelation
    schema: RowSchema
    scan: Scan

    @property
    def is_single(self) -> bool:
        """Whether it has one row: a GROUP BY without columns."""
        return self.role == GROUPS and self.schema.key == NO_KEY

    @staticmethod
    def of_groups(name: str, aggregate: AggregateRelation) -> ViewTable:
        """Return the table of an operator all of whose functions have states."""
        keys = {f"key_{n}": one.field for n, one in enumerate(aggregate.keys)}
        values = {f"value_{n}": field for n, (field, _) in enumerate(aggregate.calls)}
        fields = {column: field.id for column, field in (keys | values).items()}
        columns = {field.id: column for column, field in keys.items()}
        grouped = GroupedQuery(aggregate, (), columns, fields)
        schema = RowSchema(
            Columns(_columns(keys)) if keys else NO_KEY,
            Columns(_columns(values)),
            Columns(grouped.states),
        )
        kept = MaterializedRelation(aggregate, fields, grouped=grouped)
        return ViewTable(name, GROUPS, kept, schema, _scan(name, keys | values, aggregate))

    @staticmethod
    def of_rows(name: str, relation: Relation, by: frozenset[str]) -> ViewTable | None:
        """Return the table of rows that are looked up by some fields; None if no key has them."""
        able = [field for field in relation.fields if may_hold(field)]
        own = [field for field in able if field.id in by] or able
        if not own or not are_stored(relation):
            return None
        keys = {f"key_{n}": field for n, field in enumerate(own)}
        others = [field for field in relation.fields if field not in own]
        values = {f"value_{n}": field for n, field in enumerate(others)}
        fields = {column: field.id for column, field in (keys | values).items()}
        schema = RowSchema(Columns(_columns(keys)), Columns(_columns(values)))
        kept = MaterializedRelation(relation, fields)
        return ViewTable(name, ROWS, kept, schema, _scan(name, keys | values, relation))

    @staticmethod
    def of_limit(name: str, limit: Limit) -> ViewTable | None:
        """Return the table of all rows of a limit's input, in its order; None if one is not stored.

        Those of a partition are together. What comes before and behind nulls is told apart by the
        column behind those of the partition, so that a look-up finds the first rows of both.
        """
        if not are_stored(limit.input) or not all(map(may_hold, limit.partition)):
            return None
        parts = {f"key_{n}": field for n, field in enumerate(limit.partition)}
        places = dict(_places(limit))
        keys = (*_columns(parts), *(one.typed(name) for name, one in places.items()))
        whole = {one.field.id: name for name, one in places.items() if one.has_value}
        whole |= {field.id: name for name, field in parts.items()}
        own = {whole[one.id]: one for one in limit.fields if one.id in whole}
        others = [one for one in limit.fields if one.id not in whole]
        values = {f"value_{n}": one for n, one in enumerate(others)}
        fields = {column: one.id for column, one in (own | values).items()}
        schema = RowSchema(Columns(keys), Columns(_columns(values)))
        places = {name: one for name, one in places.items() if name not in own}
        kept = MaterializedRelation(
            limit.input, fields, order_columns=places, group_width=len(parts) + 1
        )
        return ViewTable(name, ORDERED, kept, schema, _scan(name, own | values, limit))


def _places(limit: Limit) -> Iterator[tuple[str, OrderColumn]]:
    """Yield the key columns by which the rows of a limit are in its order."""
    for n, key in enumerate(limit.order):
        yield f"place_{n}", OrderColumn(key, is_place=True)
        yield f"order_{n}", OrderColumn(key)
    known = {key.field.id for key in limit.order} | {field.id for field in limit.partition}
    for n, one in enumerate(one for one in limit.fields if one.id not in known):
        yield f"tie_{n}", OrderColumn(SortKey(one, descending=False, nulls_first=True), is_tie=True)


def may_hold(field: Field) -> bool:
    """Return whether the key of a stage may hold a field."""
    kind = field.data_type
    return kind is not None and not isinstance(kind, _UNSTORED) and may_be_key(kind)


def are_stored(relation: Relation) -> bool:
    """Return whether a stage can have all fields of a relation."""
    return not any(isinstance(field.data_type, _UNSTORED) for field in relation.fields)


def _scan(name: str, columns: Mapping[str, Field], relation: Relation) -> Scan:
    """Return the scan of a table; its fields are in the order of those of the relation."""
    names = {field.id: column for column, field in columns.items()}
    own = relation.fields
    return Scan(name, tuple(names[one.id] for one in own), own)


def _columns(fields: Mapping[str, Field]) -> tuple[Column, ...]:
    return tuple(Column(name, with_nulls(_kind_of(field))) for name, field in fields.items())


def _filler(kind: pa.DataType) -> pa.Scalar:
    """Return a value of a type; which one does not matter."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.scalar("" if pa.types.is_string(kind) else b"", kind)
    return pa.scalar(0, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)


def _kind_of(field: Field) -> DataType:
    assert field.data_type is not None
    return field.data_type
