"""Rules: which arguments a function takes, and the term of its call.

The invariant: other types or numbers of arguments are left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from deltaproduce.stages.sql.expressions.casts import cast, widened
from deltaproduce.stages.sql.expressions.terms import Call, Constant, Kernel, Term
from deltaproduce.types.data_types import (
    ByteType,
    DataType,
    DateType,
    IntegerType,
    NullType,
    ShortType,
    StringType,
    TimestampType,
)

Rule: TypeAlias = Callable[[Sequence[Term], str], Term | None]
"""Returns a term for arguments and a time zone; None if there is none."""

Parameter: TypeAlias = Callable[[Term, str], Term | None]
"""Returns an argument in the type that a kernel takes, in a time zone; None if there is no rule."""


def signature(
    kernel: Kernel,
    result: DataType,
    *parameters: Parameter,
    defaults: Sequence[Constant] = (),
    fails: bool = False,
    is_strict: bool = True,
) -> Rule:
    """Return the rule of a function.

    Args:
        kernel: takes the arguments in the types of the parameters.
        result: the type of its values.
        defaults: the last arguments, where they are left out.
        fails: whether it may fail although no argument does.
        is_strict: whether it is null if an argument is.
    """

    def rule(arguments: Sequence[Term], zone: str) -> Term | None:
        missing = len(parameters) - len(arguments)
        if not 0 <= missing <= len(defaults):
            return None
        given = [*arguments, *defaults[len(defaults) - missing :]]
        terms = taken(given, parameters, zone)
        if terms is None:
            return None
        return Call(result, kernel, terms, fails=fails, is_strict=is_strict)

    return rule


def taken(
    arguments: Sequence[Term], parameters: Sequence[Parameter], zone: str
) -> tuple[Term, ...] | None:
    """Return arguments in the types of parameters."""
    pairs = zip(parameters, arguments, strict=True)
    terms = [parameter(argument, zone) for parameter, argument in pairs]
    known = tuple(term for term in terms if term is not None)
    return known if len(known) == len(terms) else None


def by_count(rules: Mapping[int, Rule]) -> Rule:
    """Return the rule of a function whose arguments mean something else if there are more."""

    def rule(arguments: Sequence[Term], zone: str) -> Term | None:
        chosen = rules.get(len(arguments))
        return None if chosen is None else chosen(arguments, zone)

    return rule


def zoned(kernel: Kernel, result: DataType, *parameters: Parameter, fails: bool = False) -> Rule:
    """Return the rule of a function whose kernel takes the time zone last."""

    def rule(arguments: Sequence[Term], zone: str) -> Term | None:
        if len(arguments) != len(parameters):
            return None
        terms = taken(arguments, parameters, zone)
        if terms is None:
            return None
        return Call(result, kernel, (*terms, Constant(StringType(), zone)), fails=fails)

    return rule


def text(term: Term, zone: str) -> Term | None:
    """Take text, and what can be cast to it."""
    return cast(term, StringType(), zone)


def whole(term: Term, _: str) -> Term | None:
    """Take a whole number of at most 32 bits."""
    if isinstance(term.data_type, ByteType | ShortType | IntegerType | NullType):
        return widened(term, IntegerType())
    return None


def date(term: Term, zone: str) -> Term | None:
    """Take a date, a timestamp's date, and literal text."""
    if isinstance(term.data_type, StringType) and not isinstance(term, Constant):
        return None
    if isinstance(term.data_type, DateType | TimestampType | StringType | NullType):
        return cast(term, DateType(), zone)
    return None


def timestamp(term: Term, zone: str) -> Term | None:
    """Take a timestamp, the midnight of a date, and literal text."""
    if isinstance(term.data_type, DateType | TimestampType | StringType | NullType):
        return cast(term, TimestampType(), zone)
    return None


def exactly(kind: type[DataType]) -> Parameter:
    """Take one type only."""
    return lambda term, _: term if isinstance(term.data_type, kind) else None
