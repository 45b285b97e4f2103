"""Expansion: each row once for each list of expressions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from sqlglot import exp

from deltaproduce.stages.sql.algebra.expanding import Expand
from deltaproduce.stages.sql.algebra.scalars import Field, Scalar
from deltaproduce.stages.sql.operators.changes.keys import LookupKeys
from deltaproduce.stages.sql.operators.changes.rules import RelationChanges
from deltaproduce.stages.sql.operators.changes.signed import Signed
from deltaproduce.stages.sql.operators.computing import Computing, in_type
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.data_types import NullType


def whole(expand: Expand, rows: pa.Table, computing: Computing) -> pa.Table:
    """Return the rows of all lists, one list after the other."""
    known = dict[str, pa.Array]()
    parts = []
    for scalars in expand.lists:
        arrays = {field.id: rows.column(field.id) for field in expand.input.fields}
        for field, scalar in zip(expand.own, scalars, strict=True):
            text = scalar.expression.text
            if text not in known:
                known[text] = computing.value(scalar, rows, expand.input.fields)
            arrays[field.id] = in_type(known[text], _arrow(field))
        parts.append(pa.table(arrays))
    return pa.concat_tables(parts)


def change(expand: Expand, changes: RelationChanges) -> Signed:
    """Return the rows of all lists of each row of the change."""
    touched = changes.change(expand.input)
    rows = whole(expand, touched.rows, changes.computing)
    return Signed(rows, np.tile(touched.counts, len(expand.lists))).net()


def looked_up(expand: Expand, keys: LookupKeys, changes: RelationChanges) -> pa.Table:
    """Return the rows before that have one of the keys."""
    rows = changes.before(expand.input, keys.named(copies(expand)))
    return keys.of_rows(whole(expand, rows, changes.computing))


def copies(expand: Expand) -> dict[str, str]:
    """Return the fields that copy one of the input in each list -> that field."""
    copies = {field.id: field.id for field in expand.input.fields}
    for place, field in enumerate(expand.own):
        copied = {_bare(one[place]) for one in expand.lists}
        if len(copied) == 1 and None not in copied:
            copies[field.id] = str(*copied)
    return copies


def _arrow(field: Field) -> pa.DataType:
    kind = field.data_type
    return pa.bool_() if kind is None or isinstance(kind, NullType) else arrow_type(kind)


def _bare(scalar: Scalar) -> str | None:
    tree = scalar.expression.tree.unnest()
    return tree.name if isinstance(tree, exp.Column) else None
