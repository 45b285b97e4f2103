"""The aggregate functions, which `Pipeline.aggregate` takes as the values of a stage.

Each returns an `AggregateCall`: a name, and columns of the feeder or expressions over them. Names,
types and results are Spark's.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from deltaproduce.errors import DefinitionError
from deltaproduce.shown.tabular import Word, one_line
from deltaproduce.stages.sql.states.own_aggregates import OwnAggregate
from deltaproduce.types.excerpts import meant


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate function with its arguments.

    Attributes:
        function: its name in SQL.
        arguments: expressions over the feeder's key and value columns, in SQL.
        parameters: plain values that follow the arguments.
    """

    function: str
    arguments: tuple[str, ...]
    parameters: tuple[object, ...] = ()

    def __repr__(self) -> str:
        return one_line(self, Word(self.sql))

    @property
    def sql(self) -> str:
        """The call as SQL text."""
        given = (*self.arguments, *map(repr, self.parameters))
        return f"{self.function}({', '.join(given) or '*'})"

    @property
    def merges(self) -> bool:
        """Whether it merges a value of the feeder, which is its argument."""
        return self.function == _MERGE

    @property
    def subtracts(self) -> bool:
        """Whether rows that are gone are taken from what it keeps of a group."""
        own = OwnAggregate.among(self.parameters)
        return not self.function.startswith(_APPROXIMATE) if own is None else own.subtracts

    @property
    def definition(self) -> object:
        """What makes its values: its text, and of a user's own aggregate the code."""
        own = OwnAggregate.among(self.parameters)
        return self.sql if own is None else (self.sql, own.text)

    @property
    def estimates(self) -> bool:
        """Whether its values, within their error, depend on how rows came."""
        return self.function in ("approx_percentile", "approx_top_k")


def count(column: str | None = None) -> AggregateCall:
    """The number of rows, or of rows in which a column is not null: a bigint."""
    return _call("count") if column is None else _call("count", column)


def count_if(column: str) -> AggregateCall:
    """The number of rows in which a boolean column is true: a bigint."""
    return _call("count_if", column)


def sum(column: str) -> AggregateCall:
    """The sum: a bigint of whole numbers, a decimal of decimals, or a double.

    A sum that does not fit its type raises a ProducerError; an overflow of an intermediate result
    does not. The sum of floats or doubles is the double nearest to the exact sum, or infinite if
    there is none.
    """
    return _call("sum", column)


def avg(column: str) -> AggregateCall:
    """The average: for decimals a decimal with four more digits, rounded half up; else a double.

    A double is the nearest to the exact average. A decimal that does not fit raises a
    ProducerError.
    """
    return _call("avg", column)


def var_pop(column: str) -> AggregateCall:
    """The variance of all values: the double nearest to the exact one.

    It is NaN if a value is NaN or infinite; the same holds for the other three.
    """
    return _call("var_pop", column)


def var_samp(column: str) -> AggregateCall:
    """The sample variance, which divides by n - 1: null for one value. Otherwise like `var_pop`."""
    return _call("var_samp", column)


def stddev_pop(column: str) -> AggregateCall:
    """The standard deviation of all values: the square root of `var_pop`."""
    return _call("stddev_pop", column)


def stddev_samp(column: str) -> AggregateCall:
    """The standard deviation of a sample: the square root of `var_samp`."""
    return _call("stddev_samp", column)


def bool_and(column: str) -> AggregateCall:
    """Whether a boolean column is true in all rows in which it is not null."""
    return _call("bool_and", column)


def bool_or(column: str) -> AggregateCall:
    """Whether a boolean column is true in any row."""
    return _call("bool_or", column)


def min(column: str) -> AggregateCall:
    """The minimum; null if there is no value. NaN is the greatest number, -0.0 is 0.0."""
    return _call("min", column)


def max(column: str) -> AggregateCall:
    """The maximum; null if there is no value. NaN is the greatest number, -0.0 is 0.0."""
    return _call("max", column)


def count_distinct(column: str) -> AggregateCall:
    """The number of distinct values, not counting null: a bigint."""
    return _call("count_distinct", column)


def min_by(column: str, by: str) -> AggregateCall:
    """The value in the row with the minimum of ``by``; on a tie the least value, nulls first.

    Rows in which ``by`` is null are ignored.
    """
    return _call("min_by", column, by)


def max_by(column: str, by: str) -> AggregateCall:
    """The value in the row with the maximum of ``by``; otherwise like `min_by`."""
    return _call("max_by", column, by)


def top_k(column: str, k: int) -> AggregateCall:
    """The ``k`` greatest values with duplicates, in descending order: an array, without nulls."""
    return replace(_call("top_k", column), parameters=(_whole("top_k", "k", k, 1, _MOST),))


def mode(column: str) -> AggregateCall:
    """The most frequent value; on a tie the least. A change reads the group's distinct values."""
    return _call("mode", column)


def median(column: str) -> AggregateCall:
    """The same as `percentile` with 0.5."""
    return _call("median", column)


def percentile(column: str, p: float | Sequence[float]) -> AggregateCall:
    """The exact percentile of a number, interpolated: a double, or an array for several.

    A change reads the group's distinct values, with their counts.

    Args:
        p: a number from 0 to 1, or a list of them.
    """
    return replace(_call("percentile", column), parameters=(_shares("percentile", p),))


def array_sorted(column: str) -> AggregateCall:
    """All values in ascending order, with duplicates: an array, empty if there is none; no nulls.

    A change reads all values of its group, and writes them.
    """
    return _call("array_sorted", column)


def listagg(column: str, delimiter: str = "") -> AggregateCall:
    """All texts in ascending order, joined; null if there is none. Costs as `array_sorted`."""
    if not isinstance(delimiter, str):
        raise DefinitionError(f"agg.listagg is given delimiter {delimiter!r}; give a str")
    return replace(_call("listagg", column), parameters=(delimiter,))


def approx_count_distinct(column: str, lg_k: int = 12) -> AggregateCall:
    """An estimate of the number of distinct values, not counting null: a bigint.

    It comes from a HyperLogLog sketch, which depends only on the set of values. Its standard error
    is ``1.04 / sqrt(2**lg_k)``, 1.6 % of the number with 12; for a few hundred values it is far
    less.

    Args:
        lg_k: a number from 4 to 21. A sketch takes at most ``2**lg_k`` bytes.
    """
    parameter = _whole("approx_count_distinct", "lg_k", lg_k, 4, 21)
    return replace(_call("approx_count_distinct", column), parameters=(parameter,))


def approx_percentile(column: str, p: float | Sequence[float]) -> AggregateCall:
    """An estimate of the value at the share ``p`` of all values, in their type; or an array.

    It is the least value that is not below the share ``p`` of all, and exact up to 200 values.
    Beyond, it is that of a share at most 1.33 % higher or lower, in 99 cases of 100. NaN is the
    greatest number.

    Args:
        column: numbers, dates or timestamps.
        p: a number from 0 to 1, or a list of them.
    """
    parameter = _shares("approx_percentile", p)
    return replace(_call("approx_percentile", column), parameters=(parameter,))


def approx_top_k(column: str, k: int) -> AggregateCall:
    """An estimate of the ``k`` most frequent values: an array of ``struct<item, count bigint>``.

    The most frequent value comes first, on a tie the least; null is not counted. It is exact up to
    10,000 distinct values; beyond, a count is too low by at most a 10,000th of the number of all
    values.

    Args:
        k: a number from 1 to 10,000.
    """
    parameter = _whole("approx_top_k", "k", k, 1, 10_000)
    return replace(_call("approx_top_k", column), parameters=(parameter,))


def own(aggregate: object, *columns: str) -> AggregateCall:
    """An aggregate function of your own, over one column or several.

    Its methods must not change their arguments, and their results must depend only on these. They
    run in worker processes, like functions of producers. A method gets a struct as a named tuple,
    and may return it as any tuple, dict or dataclass. ``testing.check_aggregate`` tests the laws
    that make an update equal a refresh.

    An object with ``input_types``, a tuple of one DDL type for each column, gets whole columns as
    pyarrow Arrays, for many groups at once, and has no ``zero`` and no ``identity_of``:

    - ``add(groups, size, *columns)``: returns the states of the groups 0 to ``size - 1``, one each.
      ``groups`` has the group number of each row; a group without rows has the state of no rows;
    - ``merge(groups, size, states)``: returns the states of that many groups, each from one or more
      states;
    - ``result(states)``: returns the values, one for each state;
    - optionally ``subtract(a, b)``: as below, row by row.

    Args:
        aggregate: an object with

            - ``state`` and ``type``: the types of a group's state and of its value, in DDL, such as
              ``"struct<n: bigint, total: bigint>"``;
            - ``zero()``: returns the state of no rows;
            - ``add(state, *values)``: returns the state with one more row, whose values may be
              None;
            - ``merge(a, b)``: returns the state of the rows of both;
            - ``result(state)``: returns the value;
            - optionally ``subtract(a, b)``: returns the state of the rows of ``a`` without those of
              ``b``, which are among them. Without it, a key that loses a row is recomputed from its
              rows, which reads the feeder, and a window with ``last=`` is refused;
            - optionally ``identity_of(state)``: returns whether this is the state of no rows. A key
              that has rows keeps its row, whatever this returns.
        columns: columns of the feeder, or expressions, whose values ``add`` gets.

    Raises:
        DefinitionError: the object does not have these; none of its methods is called to find out.
    """
    declared = OwnAggregate.of(aggregate)
    if not columns:
        raise DefinitionError(f"agg.own is given {declared.name} and no column; give one, or some")
    if declared.inputs is not None and len(declared.inputs) != len(columns):
        raise DefinitionError(
            f"agg.own is given {len(columns)} columns for {declared.name}, whose input_types are "
            f"{len(declared.inputs)}"
        )
    return replace(_call("own", *columns), parameters=(declared,))


def merge(column: str) -> AggregateCall:
    """A value of the feeder, merged over the feeder's groups that fall into one group here.

    The feeder is an aggregate stage, and ``column`` one of its values, by a function with a state,
    or merged itself. It merges the states, not the values: an average is that of all rows.
    """
    return _call(_MERGE, column)


_MERGE: Final = "merge"
_APPROXIMATE: Final = "approx_"
_MOST: Final = 2**31 - 1


def _shares(function: str, p: object) -> float | tuple[float, ...]:
    """Return a share, or several, as a parameter."""
    given = tuple(p) if isinstance(p, Sequence) and not isinstance(p, str) else (p,)
    shares = tuple(float(one) for one in given if _is_share(one))
    if not shares or len(shares) < len(given):
        raise DefinitionError(f"agg.{function} is given p {p!r}; give numbers from 0 to 1")
    return shares if given != (p,) else shares[0]


def _is_share(one: object) -> bool:
    return isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one <= 1


def _whole(function: str, name: str, value: object, least: int, most: int) -> int:
    """Return a whole number as a parameter."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise DefinitionError(
            f"agg.{function} is given {name} {value!r}; give a whole number from {least} to {most}"
        )
    return value


def _call(function: str, *arguments: str) -> AggregateCall:
    for argument in arguments:
        if not isinstance(argument, str) or not argument.strip():
            raise DefinitionError(
                f"agg.{function} is given {argument!r}; give a column or an expression over columns"
            )
    return AggregateCall(function, arguments)


if not TYPE_CHECKING:  # a type checker knows which names there are

    def __getattr__(name: str) -> object:
        own = (one for one, value in globals().items() if _is_function(one, value))
        raise AttributeError(f"agg has no function {name!r}; {meant(name, own)}")


def _is_function(name: str, value: object) -> bool:
    own = inspect.isfunction(value) and value.__module__ == __name__
    return own and not name.startswith("_")
