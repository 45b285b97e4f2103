"""Comparisons, ``IN`` and ``LIKE``, by their signs and names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from deltaproduce.stages.sql.expressions.casts import alike
from deltaproduce.stages.sql.expressions.functions.rules import Rule
from deltaproduce.stages.sql.expressions.kernels import comparing
from deltaproduce.stages.sql.expressions.patterns import with_backslashes
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Kernel, Term
from deltaproduce.types.data_types import ArrayType, BooleanType, MapType, StringType, StructType

_BOOLEAN: Final = BooleanType()


def _comparable(arguments: Sequence[Term], zone: str) -> tuple[Term, ...] | None:
    """Return arguments in their common type, if it has no parts."""
    terms = alike(arguments, zone)
    if terms is None or isinstance(terms[0].data_type, ArrayType | MapType | StructType):
        return None
    return terms


def _compared(kernel: Kernel, *, is_strict: bool = True) -> Rule:
    def rule(arguments: Sequence[Term], zone: str) -> Term | None:
        sides = _comparable(arguments, zone)
        return None if sides is None else Call(_BOOLEAN, kernel, sides, is_strict=is_strict)

    return rule


def _among(arguments: Sequence[Term], zone: str) -> Term | None:
    terms = _comparable(arguments, zone)
    if terms is None or any(other.may_fail for other in terms[1:]):
        return None  # Spark always computes the first ones
    return Call(_BOOLEAN, comparing.among, terms)


def _like(arguments: Sequence[Term], _: str) -> Term | None:
    """Return ``a LIKE 'b%' ESCAPE '!'``, with a pattern that is written or has a known value."""
    value, *others = arguments
    texts = [other.value if isinstance(other, Constant) else None for other in others]
    match texts:
        case [str(pattern)]:
            escape = ""
        case [str(pattern), str(escape)] if len(escape) == 1 and escape.isascii():
            pass
        case _:
            return None
    own = None if "\\" in pattern else with_backslashes(pattern, escape)  # Spark has its escapes
    if own is None or not isinstance(value.data_type, StringType):
        return None
    return Call(_BOOLEAN, comparing.matches, (value, Constant(StringType(), own)))


COMPARISONS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **{sign: _compared(kernel) for sign, kernel in comparing.COMPARISONS.items()},
        "<=>": _compared(comparing.null_safe_equal, is_strict=False),
        "IN": _among,
        "like": _like,
    }
)
