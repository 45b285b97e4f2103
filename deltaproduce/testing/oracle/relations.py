"""Relations in plain Python, one row at a time: what a query returns over lists of rows.

It shares the algebra with the library, and not how it is computed: joins are nested loops.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from statistics import median
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from deltaproduce.errors import ProducerError
from deltaproduce.stages.sql.algebra.calls import AggregateExpression
from deltaproduce.stages.sql.algebra.expanding import Expand, Generate
from deltaproduce.stages.sql.algebra.relations import (
    AggregateRelation,
    Distinct,
    Filter,
    Join,
    Limit,
    Matched,
    ProjectRelation,
    Relation,
    Scan,
    SetOperation,
    Single,
    Values,
)
from deltaproduce.stages.sql.algebra.scalars import Scalar, SortKey
from deltaproduce.stages.sql.algebra.windows import WindowRelation
from deltaproduce.stages.sql.expressions.model import value_of
from deltaproduce.testing.oracle.values import plain
from deltaproduce.testing.oracle.window_functions import windowed

_Row: TypeAlias = Mapping[str, Any]
Contents: TypeAlias = Mapping[str, Sequence[_Row]]
"""The rows of stages, by column name."""


def interpreted(relation: Relation, contents: Contents) -> list[_Row]:
    """Return the rows of a relation, by the ids of its fields, in an order if it has one.

    Raises:
        DefinitionError: an expression is not known to the oracle.
        ProducerError: a scalar subquery has several rows.
    """
    return list(_ROWS[type(relation)](relation, contents))


def in_order(rows: Sequence[_Row], keys: Sequence[SortKey]) -> list[_Row]:
    """Return rows sorted by keys; rows that are equal in them stay as they are."""
    sorted_rows = list(rows)
    for key in reversed(keys):
        name = key.field.id
        sorted_rows.sort(key=lambda row: _sortable(row[name]), reverse=key.descending)
        sorted_rows.sort(key=lambda row: (row[name] is None) != key.nulls_first)
    return sorted_rows


def _sortable(value: Any) -> Any:  # noqa: ANN401 as it may be
    if value is None:
        return (0, 0)
    if value is math.nan:
        return (2, 0)
    return (1, value.encode() if isinstance(value, str) else value)


def _computed(scalar: Scalar, row: _Row) -> Any:  # noqa: ANN401 as it may be
    """Return the value of an expression, in the normal form, in which equal values are the same."""
    return plain(value_of(scalar.expression, row))


def _scan(scan: Scan, contents: Contents) -> Iterator[_Row]:
    names = [*zip((field.id for field in scan.fields), scan.columns, strict=True)]
    for row in contents[scan.feeder]:
        yield {field: plain(row[column]) for field, column in names}


def _values(values: Values, _: Contents) -> Iterator[_Row]:
    for row in values.rows:
        yield {
            field.id: value_of(scalar.expression, {})
            for field, scalar in zip(values.fields, row, strict=True)
        }


def _project(project: ProjectRelation, contents: Contents) -> Iterator[_Row]:
    for row in interpreted(project.input, contents):
        yield {one.field.id: _computed(one.scalar, row) for one in project.outputs}


def _filter(filter_: Filter, contents: Contents) -> Iterator[_Row]:
    for row in interpreted(filter_.input, contents):
        if value_of(filter_.condition.expression, row) is True:
            yield row


def _fulfil(row: _Row, conditions: Sequence[Scalar]) -> bool:
    return all(value_of(one.expression, row) is True for one in conditions)


def _join(join: Join, contents: Contents) -> Iterator[_Row]:
    left, right = interpreted(join.left, contents), interpreted(join.right, contents)
    nothing = dict.fromkeys((field.id for field in join.right.fields), None)
    alone = set(range(len(right)))
    for one in left:
        matches = [n for n, other in enumerate(right) if _fulfil({**one, **other}, join.scalars)]
        alone.difference_update(matches)
        match join.kind:
            case "semi" | "anti":
                if bool(matches) == (join.kind == "semi"):
                    yield one
            case _:
                yield from ({**one, **right[n]} for n in matches)
                if not matches and join.kind in {"left", "full"}:
                    yield {**one, **nothing}
    if join.kind in {"right", "full"}:
        padding = dict.fromkeys((field.id for field in join.left.fields), None)
        yield from ({**padding, **right[n]} for n in sorted(alone))


def _matched(matched: Matched, contents: Contents) -> Iterator[_Row]:
    subquery = interpreted(matched.subquery, contents)
    linked = [*(one.scalar for one in matched.equal), *matched.rest]
    for row in interpreted(matched.input, contents):
        pairs = [pair for other in subquery if _fulfil(pair := {**row, **other}, linked)]
        result: bool | None = bool(pairs)
        for among in matched.among:
            equal = [value_of(among.scalar.expression, pair) for pair in pairs]
            result = True if True in equal else None if None in equal else False
        yield {**row, matched.flag.id: result}


def _single(single: Single, contents: Contents) -> Iterator[_Row]:
    subquery = interpreted(single.subquery, contents)
    otherwise = [] if single.otherwise is None else interpreted(single.otherwise, contents)
    linked, name = [one.scalar for one in single.equal], single.taken.id
    if not linked and len(subquery) > 1:
        raise ProducerError("a scalar subquery has several rows")
    for row in interpreted(single.input, contents):
        matches = [other for other in subquery if _fulfil({**row, **other}, linked)] or otherwise
        if len(matches) > 1:
            raise ProducerError("a scalar subquery has several rows")
        yield {**row, name: matches[0][name] if matches else None}


def _aggregate(aggregate: AggregateRelation, contents: Contents) -> Iterator[_Row]:
    groups: dict[tuple[Any, ...], list[_Row]] = {} if aggregate.keys else {(): []}
    for row in interpreted(aggregate.input, contents):
        key = tuple(_computed(one.scalar, row) for one in aggregate.keys)
        groups.setdefault(key, []).append(row)
    for key, rows in groups.items():
        group_row = dict(zip((one.field.id for one in aggregate.keys), key, strict=True))
        yield group_row | {field.id: plain(_called(call, rows)) for field, call in aggregate.calls}


def _called(call: AggregateExpression, rows: Sequence[_Row]) -> Any:  # noqa: ANN401 as it may be
    if call.where is not None:
        rows = [row for row in rows if value_of(call.where.expression, row) is True]
    given = [tuple(_computed(one, row) for one in call.arguments) for row in rows]
    given = [values for values in given if values[-1:] != (None,)]
    if call.function not in _BY:
        given = [values for values in given if None not in values]
    if call.is_distinct:
        given = list(dict.fromkeys(given))
    if call.function == "count":
        return len(given)
    if call.function == "array_sorted":
        return sorted((value for (value,) in given), key=_sortable)
    if call.function in _BY and given:
        end = _BY[call.function](_sortable(by) for _, by in given)
        return min(
            (value for value, by in given if _sortable(by) == end),
            key=lambda value: (value is not None, value is not None and _sortable(value)),
        )
    return _CALLS[call.function]([value for (value,) in given]) if given else None


_BY: Final = MappingProxyType({"min_by": min, "max_by": max})
_CALLS: Final[Mapping[str, Callable[[list[Any]], Any]]] = MappingProxyType(
    {
        "sum": sum,
        "avg": lambda values: _average(sum(values), len(values)),
        "min": lambda values: min(values, key=_sortable),
        "max": lambda values: max(values, key=_sortable),
        "mode": lambda values: min(
            values, key=lambda value: (-values.count(value), _sortable(value))
        ),
        "median": lambda values: float(median(values)),
        "bool_and": all,
        "bool_or": any,
    }
)


def _average(total: Any, count: int) -> float:  # noqa: ANN401 a number
    if isinstance(total, float) and not math.isfinite(total):
        return total
    return float(Fraction(total) / count)


def _distinct(distinct: Distinct, contents: Contents) -> Iterator[_Row]:
    rows = interpreted(distinct.input, contents)
    yield from ({**dict(items)} for items in dict.fromkeys(tuple(row.items()) for row in rows))


def _set_operation(operation: SetOperation, contents: Contents) -> Iterator[_Row]:
    names = [field.id for field in operation.fields]
    left, right = (
        Counter(
            tuple(row[field.id] for field in side.fields) for row in interpreted(side, contents)
        )
        for side in operation.inputs
    )
    match operation.kind, operation.is_all:
        case "union", _:
            counts = left + right
        case "intersect", _:
            counts = left & right
        case _, True:
            counts = left - right
        case _:
            counts = Counter(row for row in left if row not in right)
    rows = counts.elements() if operation.is_all else counts
    yield from (dict(zip(names, row, strict=True)) for row in rows)


def _limit(limit: Limit, contents: Contents) -> Iterator[_Row]:
    ties = [SortKey(field, descending=False, nulls_first=True) for field in limit.fields]
    rows = in_order(interpreted(limit.input, contents), [*limit.order, *ties])
    partitions = defaultdict[tuple[Any, ...], list[_Row]](list)
    for row in rows:
        partitions[tuple(row[field.id] for field in limit.partition)].append(row)
    for partition in partitions.values():
        following = partition[limit.offset :]
        yield from following if limit.count is None else following[: limit.count]


def _window(window: WindowRelation, contents: Contents) -> Iterator[_Row]:
    return windowed(window, interpreted(window.input, contents), _called)


def _expand(expand: Expand, contents: Contents) -> Iterator[_Row]:
    for row in interpreted(expand.input, contents):
        for scalars in expand.lists:
            pairs = zip(expand.own, scalars, strict=True)
            yield {**row, **{field.id: _computed(one, row) for field, one in pairs}}


def _generate(generate: Generate, contents: Contents) -> Iterator[_Row]:
    """Yield the items of arrays."""
    for row in interpreted(generate.input, contents):
        items = value_of(generate.arguments[0].expression, row) or []
        generated = [
            (n, item) if generate.function == "posexplode" else (item,)
            for n, item in enumerate(items)
        ]
        if not generated and generate.is_outer:
            generated = [(None,) * len(generate.own)]  # type: ignore[list-item]
        for values in generated:
            yield {**row, **{f.id: v for f, v in zip(generate.own, values, strict=True)}}


_ROWS: Final[Mapping[type[Relation], Callable[[Any, Contents], Iterator[_Row]]]] = MappingProxyType(
    {
        Scan: _scan,
        Values: _values,
        ProjectRelation: _project,
        Filter: _filter,
        Join: _join,
        Matched: _matched,
        Single: _single,
        AggregateRelation: _aggregate,
        Distinct: _distinct,
        SetOperation: _set_operation,
        Limit: _limit,
        WindowRelation: _window,
        Expand: _expand,
        Generate: _generate,
    }
)
