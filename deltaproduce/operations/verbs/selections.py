"""Selections: the tasks of a stage that a ``where`` selects, by the partitions that they make.

The invariant: a selection reads partition columns alone, so it is known before anything is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.local.arrays import Marks
from deltaproduce.errors import DefinitionError, InvalidArgumentError, ProducerError
from deltaproduce.model import arguments
from deltaproduce.model.graph import Stage
from deltaproduce.shown.tasks import display_text
from deltaproduce.types.columns import Column
from deltaproduce.types.data_types import LongType
from deltaproduce.types.excerpts import shown
from deltaproduce.types.pandas_on_demand import in_numpy
from deltaproduce.types.python_values import python_values

Selection: TypeAlias = Callable[[pa.Table], Marks]
"""Marks the wanted ones of partitions, given in the partition columns."""

_PLACE: Final = Column("_place", LongType())


def checked_where(where: object) -> str | Mapping[str, object]:
    """Return a ``where`` if it is a text or a mapping.

    Raises:
        InvalidArgumentError: it is neither.
    """
    if isinstance(where, str):
        return arguments.text(where, "where")
    if not isinstance(where, Mapping):
        raise _refused(
            f"where is {shown(where)}; give a condition in SQL, or a mapping of partition columns "
            "to values, lists of them, or tuples of a first and a last one"
        )
    return where


def selection(where: str | Mapping[str, object], stage: Stage, engines: Engines) -> Selection:
    """Return the selection that a ``where`` means.

    Args:
        where: partition columns -> a value, a list of values, or a tuple of the first and the last
            value; or a condition over partition columns, in SQL.

    Raises:
        InvalidArgumentError: it names another column, or is no condition.
    """
    if isinstance(where, str):
        return _by_condition(where, stage, engines)
    names = stage.kind.tasks.columns
    for name in where:
        if name not in names:
            raise _refused(
                f"{shown(name)} is not a partition column of {stage.name!r}; those are: "
                f"{', '.join(names)}"
            )
    each = [_by_column(name, value) for name, value in where.items()]
    return lambda partitions: reduce(
        np.logical_and, (marks(partitions) for marks in each), np.ones(len(partitions), bool)
    )


def spells_null(where: object) -> bool:
    """Return whether a value is spelled as names of tasks spell null."""
    given = where.values() if isinstance(where, Mapping) else ()
    return any(display_text(None) in set(map(_text, _values(value))) for value in given)


def _by_column(name: str, value: object) -> Selection:
    if isinstance(value, tuple):
        if len(value) != 2:
            raise _refused(
                f"where has {name!r}: {shown(value)}; give a tuple of the first and the last value "
                "of a range, or a list of values"
            )
        return partial(_in_range, name, *value)
    return partial(_among, name, set(map(_text, _values(value))))


def _values(value: object) -> list[object]:
    return [*value] if isinstance(value, list | set) else [value]


def _text(value: object) -> str | None:
    """Return a value as text, so that dates may be given as dates or as text; null stays null."""
    return None if value is None else display_text(value)


def _among(name: str, wanted: set[str | None], partitions: pa.Table) -> Marks:
    column = partitions.column(name).combine_chunks().dictionary_encode("encode")
    values = map(_text, python_values(column.dictionary))
    marks = np.array([value in wanted for value in values], bool)
    return np.asarray(marks[in_numpy(column.indices)])


def _in_range(name: str, first: object, last: object, partitions: pa.Table) -> Marks:
    """Mark the values from a first to a last one; a null is in no range."""
    column = partitions.column(name).combine_chunks()
    marks = in_numpy(column.is_valid())
    for bound, meets in ((first, pc.greater_equal), (last, pc.less_equal)):
        if bound is not None:
            is_inside = meets(column, _of_type(bound, column.type, name))
            marks = marks & in_numpy(is_inside.fill_null(False))
    return np.asarray(marks)


def _of_type(bound: object, wanted: pa.DataType, name: str) -> pa.Scalar:
    try:
        return pa.scalar(bound).cast(wanted)
    except (pa.ArrowException, OverflowError, ValueError):
        raise _refused(
            f"where has {shown(bound)} in a range of {name!r}, which is {wanted}; give such values"
        ) from None


def _by_condition(text: str, stage: Stage, engines: Engines) -> Selection:
    from deltaproduce.stages.sql.expressions.expression import Expression
    from deltaproduce.stages.sql.projection import Projection

    types = {c.name: c.data_type for c in (*stage.schema.key, *stage.schema.value)}
    columns = tuple(Column(name, types[name]) for name in stage.kind.tasks.columns)
    try:
        condition = Expression.read(text, [c.name for c in columns])
        projection = Projection(((_PLACE.name, Expression.of_column(_PLACE.name)),), condition)
        projection.resolved((*columns, _PLACE), engines)
    except DefinitionError as error:
        raise _refused(
            f"where is {shown(text)}, over the partition columns of {stage.name!r}: {error}"
        ) from None

    def marks(partitions: pa.Table) -> Marks:
        numbers = pa.array(np.arange(len(partitions)))
        rows = partitions.select([c.name for c in columns]).append_column(_PLACE.name, numbers)
        try:
            met = projection.of(rows, (*columns, _PLACE), engines, stage=stage.name)
            places = in_numpy(engines.table(met, (_PLACE,)).column(_PLACE.name), np.int64)
        except ProducerError as error:
            raise _refused(f"where is {shown(text)}, which fails: {error}") from None
        wanted = np.zeros(len(partitions), bool)
        wanted[places] = True
        return wanted

    return marks


def _refused(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, argument="where")
