"""Functions that choose among their arguments, or test them for null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.stages.sql.expressions.casts import alike
from deltaproduce.stages.sql.expressions.functions.rules import Rule, by_count
from deltaproduce.stages.sql.expressions.kernels import comparing
from deltaproduce.stages.sql.expressions.terms import Call, Case, Constant, Kernel, Term
from deltaproduce.types.data_types import ArrayType, BooleanType, MapType, NullType, StructType


def _coalesce(arguments: Sequence[Term], zone: str) -> Term | None:
    """Return the first argument that is not null; later ones are computed only where needed."""
    terms = alike(arguments, zone) if len(arguments) > 1 else None
    if terms is None:
        return None
    tests = [Call(BooleanType(), comparing.is_not_null, (term,)) for term in terms[:-1]]
    return Case(terms[0].data_type, tuple(zip(tests, terms[:-1], strict=True)), terms[-1])


def _choice_by_null(arguments: Sequence[Term], zone: str) -> Term | None:
    """Return ``nvl2(a, b, c)``: b, but c where a is null."""
    value, *others = arguments
    terms = alike(others, zone)
    if terms is None or isinstance(value.data_type, NullType):
        return None
    test = Call(BooleanType(), comparing.is_not_null, (value,))
    return Case(terms[0].data_type, ((test, terms[0]),), terms[1])


def _unless_equal(arguments: Sequence[Term], zone: str) -> Term | None:
    """Return ``nullif(a, b)``: a, but null where they are equal."""
    value = arguments[0]
    sides = alike(arguments, zone)
    if sides is None or isinstance(value.data_type, NullType):
        return None
    if isinstance(sides[0].data_type, ArrayType | MapType | StructType):
        return None
    test = Call(BooleanType(), comparing.COMPARISONS["="], sides)
    return Case(value.data_type, ((test, Constant(value.data_type, None)),), value)


def _null(kernel: Kernel) -> Rule:
    def rule(arguments: Sequence[Term], _: str) -> Term | None:
        if isinstance(arguments[0].data_type, NullType):
            return None
        return Call(BooleanType(), kernel, tuple(arguments))

    return by_count({1: rule})


def _extreme(sign: str) -> Rule:
    """Return the rule of the greatest or least argument that is not null; of equal ones the first.

    All arguments are computed.
    """

    def kernel(_: pa.DataType, *values: pa.Array) -> pa.Array:
        extreme = values[0]
        for value in values[1:]:
            better = pc.fill_null(comparing.COMPARISONS[sign](_, value, extreme), fill_value=False)
            first = pc.and_(pc.is_null(extreme), pc.is_valid(value))
            extreme = _chosen(pc.or_(better, first), value, extreme)
        return extreme

    def rule(arguments: Sequence[Term], zone: str) -> Term | None:
        terms = alike(arguments, zone) if len(arguments) > 1 else None
        if terms is None or isinstance(terms[0].data_type, ArrayType | MapType | StructType):
            return None
        return Call(terms[0].data_type, kernel, terms, is_strict=False)

    return rule


def _chosen(marks: pa.Array, value: pa.Array, otherwise: pa.Array) -> pa.Array:
    """Return values where marks are true, and others elsewhere, bit for bit."""
    places = np.arange(len(marks))
    there = np.asarray(marks, bool)
    return pa.concat_arrays([otherwise, value]).take(
        pa.array(np.where(there, places + len(marks), places))
    )


CONDITIONS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "coalesce": _coalesce,
        **dict.fromkeys(("nvl", "ifnull"), by_count({2: _coalesce})),
        "nvl2": by_count({3: _choice_by_null}),
        "nullif": by_count({2: _unless_equal}),
        "isnull": _null(comparing.is_null),
        "isnotnull": _null(comparing.is_not_null),
        "greatest": _extreme(">"),
        "least": _extreme("<"),
    }
)
