"""Random aggregate stages: functions of all kinds over a feeder's columns.

The invariant: a drawn function has a value for any rows, so it is no sum that its type may not
hold. A new function of `agg` is one more entry of `FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from deltaproduce.model.graph import Stage
from deltaproduce.stages.sql.states import agg
from deltaproduce.stages.sql.states.agg import AggregateCall
from deltaproduce.testing.strategies.catalogue import BY_TEXT, ROWS, Catalogue, Shape
from deltaproduce.testing.strategies.names import column_name
from deltaproduce.testing.strategies.windows import may_have_window, windows
from deltaproduce.types.catalogue import atom
from deltaproduce.types.columns import RowSchema
from deltaproduce.types.data_types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NumericType,
    ShortType,
    StringType,
)
from deltaproduce.types.ddl import identifier, quoted

Takes: TypeAlias = Callable[[DataType], bool]
Argument: TypeAlias = tuple[str, DataType]
"""An expression over a feeder's columns, and its type."""


@dataclass(frozen=True, slots=True)
class Function:
    """An aggregate function.

    Attributes:
        call: the function of its arguments.
        takes: accepts the type of the first argument.
        by: whether it has a second argument, of any type that has an order.
        adds_up: whether other stages can merge its values.
    """

    call: Callable[..., AggregateCall]
    takes: Takes
    by: bool = False
    adds_up: bool = False


@dataclass(frozen=True, slots=True)
class Drawn:
    """The definition of an aggregate stage.

    Attributes:
        arguments: the arguments of `Pipeline.aggregate` after the feeder.
        adds_up: its values that other stages can merge.
        shape: its columns, if they are in the catalogue.
    """

    arguments: Mapping[str, Any]
    adds_up: tuple[str, ...] = ()
    shape: Shape | None = None


def _any(data_type: DataType) -> bool:
    del data_type
    return True


def _has_order(data_type: DataType) -> bool:
    return atom(data_type) is not None


def _is(*types: type[DataType]) -> Takes:
    return lambda data_type: isinstance(data_type, types)


_is_number = _is(NumericType)
_is_boolean = _is(BooleanType)


def _fits(*types: type[DataType], digits: int) -> Takes:
    """Return a test for numbers of some types, and decimals of at most this many digits."""
    return lambda data_type: (
        isinstance(data_type, types)
        or (isinstance(data_type, DecimalType) and data_type.precision <= digits)
    )


_FLOATS = (FloatType, DoubleType)
FUNCTIONS: Final = (
    Function(agg.count, _any, adds_up=True),
    Function(agg.count_if, _is_boolean, adds_up=True),
    Function(agg.bool_and, _is_boolean, adds_up=True),
    Function(agg.bool_or, _is_boolean, adds_up=True),
    Function(agg.sum, _fits(ByteType, ShortType, IntegerType, *_FLOATS, digits=28), adds_up=True),
    Function(
        agg.avg,
        _fits(ByteType, ShortType, IntegerType, LongType, *_FLOATS, digits=34),
        adds_up=True,
    ),
    Function(agg.var_pop, _is_number, adds_up=True),
    Function(agg.var_samp, _is_number, adds_up=True),
    Function(agg.stddev_pop, _is_number, adds_up=True),
    Function(agg.stddev_samp, _is_number, adds_up=True),
    Function(agg.min, _has_order, adds_up=True),
    Function(agg.max, _has_order, adds_up=True),
    Function(agg.min_by, _has_order, by=True, adds_up=True),
    Function(agg.max_by, _has_order, by=True, adds_up=True),
    Function(agg.count_distinct, _has_order),
    Function(agg.mode, _has_order),
    Function(partial(agg.top_k, k=2), _has_order, adds_up=True),
    Function(agg.array_sorted, _has_order),
    Function(agg.median, _is_number),
    Function(partial(agg.percentile, p=[0.25, 1]), _is_number),
    Function(partial(agg.listagg, delimiter="|"), _is(StringType)),
)
_EXPRESSIONS: Final[tuple[tuple[Takes, str, DataType], ...]] = (
    (_has_order, "{} IS NULL", BooleanType()),
    (_is(LongType), "{} % 100", LongType()),
    (_is(LongType), "CAST({} % 100 AS int)", IntegerType()),
    (_is(LongType), "{} > 1", BooleanType()),
    (_is(StringType), "length({})", IntegerType()),
    (_is(StringType), "coalesce({}, '-')", StringType()),
    (_is(StringType), "{} <> 'a'", BooleanType()),
    (_is(DateType), "year({})", IntegerType()),
    (_is_boolean, "NOT {}", BooleanType()),
)
"""Expressions that the local engine computes, by the type of their column."""


@st.composite
def aggregates(
    draw: st.DrawFn,
    feeder: Stage,
    catalogue: Catalogue,
    adds_up: Sequence[str],
    number: int,
    *,
    windowed: bool,
    strict: bool,
) -> Drawn:
    """Draw an aggregate over a stage, with columns of the catalogue or others.

    Args:
        draw: given by Hypothesis.
        feeder: the feeder, or the first of several.
        catalogue: the names of the catalogue's columns.
        adds_up: the feeder's values that can be merged.
        number: a number for the names of its columns.
        windowed: whether it may have a window.
        strict: whether its window may refuse missing partitions.
    """
    schema = feeder.schema
    has_shape = {catalogue.names["n"], catalogue.names["t"]} <= {*schema.names}
    is_known = has_shape and draw(st.booleans())
    drawn = draw(_known(schema, catalogue) if is_known else _any_of(schema, adds_up, number))
    arguments = dict(drawn.arguments)
    conditions = [text for text, data_type in computed_of(schema) if _is_boolean(data_type)]
    if conditions and draw(st.integers(0, 2)) == 2:
        arguments["where"] = draw(st.sampled_from(conditions))
    columns = [column for column in schema.key if may_have_window(column)]
    if windowed and columns and draw(st.integers(0, 3)):
        limited = len(drawn.adds_up) == len(arguments["values"])
        column = draw(st.sampled_from(columns))
        arguments["window"] = draw(windows(column, limited=limited, strict=strict))
    return Drawn(arguments, drawn.adds_up, drawn.shape)


@st.composite
def _known(draw: st.DrawFn, schema: RowSchema, catalogue: Catalogue) -> Drawn:
    """Draw an aggregate with a shape of the catalogue, from n, t and perhaps k."""
    k, n, t = (catalogue.text(name) for name in ("k", "n", "t"))
    numbers = [
        *(agg.count(), agg.count(n), agg.sum(f"CAST({n} % 100 AS int)"), agg.count_distinct(t)),
        *(agg.min(n), agg.max(n), agg.mode(n), agg.max_by(n, t)),
    ]
    texts = [agg.min(t), agg.max(t), agg.mode(t), agg.listagg(t, "|"), agg.min_by(t, n)]
    values = {catalogue.names["n"]: draw(st.sampled_from(numbers))}
    if catalogue.names["k"] not in schema.names or draw(st.booleans()):
        key = draw(st.sampled_from([t, f"coalesce({t}, '-') AS {t}"]))
        return Drawn({"key": key, "values": values}, shape=catalogue.shape(BY_TEXT))
    values[catalogue.names["t"]] = draw(st.sampled_from(texts))
    key = draw(st.sampled_from([k, f"{n} % 3 AS {k}"]))
    return Drawn({"key": key, "values": values}, shape=catalogue.shape(ROWS))


@st.composite
def _any_of(draw: st.DrawFn, schema: RowSchema, adds_up: Sequence[str], number: int) -> Drawn:
    """Draw an aggregate of any columns and functions."""
    bare, computed = [*columns_of(schema)], [*computed_of(schema)]
    groups = [text for text, data_type in [*bare, *bare, *computed] if may_be_key(data_type)]
    chosen = draw(st.lists(st.sampled_from(groups), max_size=2, unique=True)) if groups else []
    names = [*_names(draw, [f"g{number}_{place}" for place in range(len(chosen))], ())]
    key = ", ".join(f"{text} AS {quoted(n)}" for text, n in zip(chosen, names, strict=True))
    values: dict[str, AggregateCall] = {}
    states = []
    plain = [f"v{number}_{place}" for place in range(draw(st.integers(1, 4)))]
    for name in _names(draw, plain, names):
        if bool(adds_up) and draw(st.booleans()):
            values[name], is_state = agg.merge(draw(st.sampled_from(adds_up))), True
        else:
            values[name], is_state = _call(draw, [*bare, *bare, *computed])
        states += [name] * is_state
    return Drawn({"key": key, "values": values}, tuple(states))


def _names(draw: st.DrawFn, plain: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Draw different names of columns, none of which is one of the others."""
    taken = [*others]
    for one in plain:
        taken.append(draw(column_name(one, taken)))
        yield taken[-1]


def _call(draw: st.DrawFn, arguments: Sequence[Argument]) -> tuple[AggregateCall, bool]:
    """Draw a function of these arguments, and whether it adds up."""
    fitting = [one for one in FUNCTIONS if any(one.takes(of_type) for _, of_type in arguments)]
    function = draw(st.sampled_from(fitting))
    given = [
        draw(st.sampled_from([text for text, argument in arguments if function.takes(argument)]))
    ]
    if function.by:
        given.append(draw(st.sampled_from([text for text, t in arguments if _has_order(t)])))
    return function.call(*given), function.adds_up


def may_be_key(data_type: DataType) -> bool:
    """Return whether a key may have a column of this type."""
    return _has_order(data_type) and not isinstance(data_type, _FLOATS)


def columns_of(schema: RowSchema) -> Iterator[Argument]:
    """Yield the columns of a feeder, as expressions."""
    for column in (*schema.key, *schema.value):
        if not column.is_hidden:
            yield identifier(column.name), column.data_type


def computed_of(schema: RowSchema) -> Iterator[Argument]:
    """Yield expressions over the columns of a feeder."""
    for text, data_type in columns_of(schema):
        for takes, template, shape in _EXPRESSIONS:
            if takes(data_type):
                yield template.format(text), shape
