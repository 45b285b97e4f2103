"""Arithmetic: operators, by their signs, and the functions of the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from deltaproduce.stages.sql.expressions.casts import alike, widened
from deltaproduce.stages.sql.expressions.coercion import (
    as_decimal,
    loses_digits,
    negation_fails,
    of_decimals,
    quotient_digits,
)
from deltaproduce.stages.sql.expressions.functions.moves import MOVES
from deltaproduce.stages.sql.expressions.functions.rules import Rule, by_count
from deltaproduce.stages.sql.expressions.kernels import arithmetic, decimals
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Kernel, Term, is_constant
from deltaproduce.types.data_types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    NullType,
    NumericType,
)


def of_numbers(sign: str, kernel: Kernel, of_decimal: Kernel) -> Rule:
    """Return the rule of a sum, difference or product of numbers."""

    def rule(arguments: Sequence[Term], zone: str) -> Term | None:
        if not _are_numbers(arguments):
            return None
        if is_of_decimals(arguments):
            return _of_decimals(sign, kernel, of_decimal, arguments)
        sides = alike(arguments, zone)
        if sides is None:
            return None
        data_type = sides[0].data_type
        return Call(data_type, kernel, sides, fails=isinstance(data_type, IntegralType))

    return by_count({2: rule})


def _of_decimals(
    sign: str, exactly: Kernel, rounded: Kernel, arguments: Sequence[Term]
) -> Term | None:
    call = decimal_call(sign, rounded, arguments)
    if call is None:
        return None
    one, other = (_decimal_type(side) for side in call.arguments)
    return call if loses_digits(sign, one, other) else replace(call, kernel=exactly, fails=False)


def is_of_decimals(arguments: Sequence[Term]) -> bool:
    """Return whether Spark computes with decimals: one is, and none is a float."""
    types = [argument.data_type for argument in arguments]
    return _has(DecimalType, types) and not _has(FloatType, types) and not _has(DoubleType, types)


def decimal_call(sign: str, kernel: Kernel, arguments: Sequence[Term]) -> Call | None:
    """Return an operator on decimals and whole numbers."""
    sides = decimal_sides(arguments)
    if sides is None:
        return None
    call = of_decimals(sign, *(_decimal_type(side) for side in sides))
    return Call(call, kernel, sides, fails=True)


def decimal_sides(arguments: Sequence[Term]) -> tuple[Term, Term] | None:
    """Return whole numbers and decimals as decimals; a literal has only the digits it needs.

    ``5L`` is a literal in Spark, and ``CAST(5 AS bigint)`` is none; here they are the same.
    """
    if _has(NullType, [argument.data_type for argument in arguments]):
        return None
    if any(map(_may_be_literal, arguments)):
        return None
    one, other = (widened(argument, _digits(argument)) for argument in arguments)
    return one, other


def _may_be_literal(term: Term) -> bool:
    is_whole = isinstance(term.data_type, IntegralType) and not isinstance(term, Constant)
    return is_whole and is_constant(term)


def _decimal_type(term: Term) -> DecimalType:
    assert isinstance(term.data_type, DecimalType)
    return term.data_type


def _digits(term: Term) -> DecimalType:
    if isinstance(term, Constant) and isinstance(term.data_type, IntegralType):
        return DecimalType(len(str(abs(term.value))), 0)
    return as_decimal(term.data_type)


def _of_either(first: Rule, second: Rule) -> Rule:
    """Return the rule of an operator with two meanings."""

    def rule(arguments: Sequence[Term], zone: str) -> Term | None:
        return first(arguments, zone) or second(arguments, zone)

    return rule


def _division(arguments: Sequence[Term], _: str) -> Term | None:
    """Return ``/``, whose divisor Spark computes first."""
    if not _are_numbers(arguments, nulls=False):
        return None
    if is_of_decimals(arguments):
        return _turned(decimal_call("/", decimals.divided, arguments))
    dividend, divisor = (widened(argument, DoubleType()) for argument in arguments)
    return Call(DoubleType(), arithmetic.divided, (divisor, dividend), fails=True)


def _quotient(arguments: Sequence[Term], _: str) -> Term | None:
    """Return ``div``."""
    if not _are_numbers(arguments, nulls=False):
        return None
    if is_of_decimals(arguments):
        sides = decimal_sides(arguments)
        if sides is None:
            return None
        kernel = decimals.quotient(quotient_digits(*(_decimal_type(side) for side in sides)))
        return _turned(Call(LongType(), kernel, sides, fails=True))
    if not all(isinstance(argument.data_type, IntegralType) for argument in arguments):
        return None
    dividend, divisor = (widened(argument, LongType()) for argument in arguments)
    return Call(LongType(), arithmetic.quotient, (divisor, dividend), fails=True)


def _remainder(kernel: Kernel, of_decimal: Kernel) -> Rule:
    """Return the rule of ``%`` or ``pmod``."""

    def rule(arguments: Sequence[Term], zone: str) -> Term | None:
        if not _are_numbers(arguments, nulls=False):
            return None
        if is_of_decimals(arguments):
            return _turned(decimal_call("%", of_decimal, arguments))
        sides = alike(arguments, zone)
        assert sides is not None
        dividend, divisor = sides
        return Call(divisor.data_type, kernel, (divisor, dividend), fails=True)

    return by_count({2: rule})


def _turned(call: Call | None) -> Call | None:
    """Return a call with its second argument first."""
    if call is None:
        return None
    return replace(call, arguments=call.arguments[::-1])


def _of_one(kernel: Kernel) -> Rule:
    def rule(arguments: Sequence[Term], _: str) -> Term | None:
        data_type = arguments[0].data_type
        if not isinstance(data_type, NumericType):
            return None
        return Call(data_type, kernel, tuple(arguments), fails=negation_fails(data_type))

    return by_count({1: rule})


def _are_numbers(arguments: Sequence[Term], *, nulls: bool = True) -> bool:
    kinds = (NumericType, NullType) if nulls else (NumericType,)
    return all(isinstance(argument.data_type, kinds) for argument in arguments)


def _has(kind: type[DataType], types: Sequence[DataType]) -> bool:
    return any(isinstance(data_type, kind) for data_type in types)


_sum: Final = of_numbers("+", arithmetic.added, decimals.added)
_difference: Final = of_numbers("-", arithmetic.subtracted, decimals.subtracted)
_product: Final = of_numbers("*", arithmetic.multiplied, decimals.multiplied)
_rest: Final = _remainder(arithmetic.remainder, decimals.remainder)
_negative: Final = _of_one(arithmetic.negated)

OPERATORS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "+": _of_either(_sum, MOVES["+"]),
        "-": _of_either(_difference, MOVES["-"]),
        "*": _of_either(_product, MOVES["*"]),
        "/": by_count({2: _division}),
        "div": by_count({2: _quotient}),
        **dict.fromkeys(("%", "mod"), _rest),
        "pmod": _remainder(arithmetic.modulus, decimals.modulus),
        "negative": _of_either(_negative, MOVES["negative"]),
        "abs": _of_one(arithmetic.absolute),
    }
)
