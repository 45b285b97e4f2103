"""The aggregate functions: what `Pipeline.aggregate` takes as the values of a stage.

Each makes an `AggregateCall`: a name, and columns of the feeder or expressions over them. Names,
types and results are Spark's.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltaproduce.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate function, and what it is called with.

    Attributes:
        function: its name, as SQL has it.
        arguments: expressions over the feeder's key and value columns, in SQL.
    """

    function: str
    arguments: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The call as SQL text."""
        return f"{self.function}({', '.join(self.arguments) or '*'})"


def count(column: str | None = None) -> AggregateCall:
    """How many rows there are, or how many in which a column is not null: a bigint."""
    return _call("count") if column is None else _call("count", column)


def count_if(column: str) -> AggregateCall:
    """In how many rows a boolean column is true: a bigint."""
    return _call("count_if", column)


def sum(column: str) -> AggregateCall:
    """The sum: a bigint of whole numbers, a decimal of decimals, or a double.

    A sum that its type does not hold is a ProducerError; what overflows on the way only is none.
    That of floats and doubles is the double nearest to the exact sum, or infinite where none is.
    """
    return _call("sum", column)


def avg(column: str) -> AggregateCall:
    """The average: of decimals a decimal of four digits more, rounded half up; else a double.

    A double is the nearest to the exact average. A decimal that does not fit is a ProducerError.
    """
    return _call("avg", column)


def var_pop(column: str) -> AggregateCall:
    """The variance of all values: the double nearest to the exact one.

    It is NaN where a value is NaN or infinite; so are the other three.
    """
    return _call("var_pop", column)


def var_samp(column: str) -> AggregateCall:
    """The variance of a sample, by one value fewer: null of one value. Else as `var_pop`."""
    return _call("var_samp", column)


def stddev_pop(column: str) -> AggregateCall:
    """The standard deviation of all values: the root of `var_pop`."""
    return _call("stddev_pop", column)


def stddev_samp(column: str) -> AggregateCall:
    """The standard deviation of a sample: the root of `var_samp`."""
    return _call("stddev_samp", column)


def bool_and(column: str) -> AggregateCall:
    """Whether a boolean column is true in all rows in which it is not null."""
    return _call("bool_and", column)


def bool_or(column: str) -> AggregateCall:
    """Whether a boolean column is true in some row."""
    return _call("bool_or", column)


def _call(function: str, *arguments: str) -> AggregateCall:
    for argument in arguments:
        if not isinstance(argument, str) or not argument.strip():
            raise DefinitionError(
                f"agg.{function} is given {argument!r}; give a column or an expression over columns"
            )
    return AggregateCall(function, arguments)
