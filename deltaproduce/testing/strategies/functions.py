"""Functions of random stages: deterministic, and sensitive to the order of their values.

They are at the top level of a module, so that Spark's workers can unpickle them. They go by the
positions of columns, so that these may have any names; rules say which functions use names.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator
from typing import Any, TypeAlias

from deltaproduce.testing.oracle import Value

Emissions: TypeAlias = Iterator[tuple[Any, Any]]
_DAY = datetime.date(2013, 2, 20)


def unchanged(key: Value, values: Iterator[Value]) -> Emissions:
    """Map every row to itself, before reading the next."""
    for value in values:
        yield key, value


def filtered(key: Value, values: Iterator[Value]) -> Emissions:
    """Keep the rows with an even number."""
    for value in values:
        if value[0] is not None and value[0] % 2 == 0:
            yield key, value


def nothing(key: Value, values: Iterator[Value]) -> Emissions:
    """Emit nothing at all."""
    return iter(())


def first_row(key: Value, values: Iterator[Value]) -> Emissions:
    """Keep a key's first row, and leave the others unread."""
    yield key, next(values)


def constant_key(key: Value, values: Iterator[Value]) -> Emissions:
    """Gather all rows under one key, so that its values come in the order of the source keys."""
    for value in values:
        yield 0, {"t": value.t, "n": value.n}


def null_key(key: Value, values: Iterator[Value]) -> Emissions:
    """Gather the rows without text under the null key."""
    for value in values:
        yield (key if value[1] else None), value


def rekeyed(key: Value, values: Iterator[Value]) -> Emissions:
    """Swap key and number."""
    for value in values:
        yield value[0], (key, value[1])


def differences(key: Value, values: Iterator[Value]) -> Emissions:
    """Subtract each number from the next."""
    for before, after in itertools.pairwise(values):
        yield key, ((_number(after[0]) - _number(before[0])) % 1000, after[1])


def by_text(key: Value, values: Iterator[Value]) -> Emissions:
    """Key the rows by their text."""
    for value in values:
        yield value[1], value[0]


def scattered(key: Value, values: Iterator[Value]) -> Emissions:
    """Emit to several keys, and twice to one of them."""
    for value in list(values):
        yield value[1], value[0]
        yield "all", key
        yield value[1], value[0]


def ranked(key: Value, values: Iterator[Value]) -> Emissions:
    """Make the number a part of the key."""
    for value in values:
        yield (value[0], key), value[1]


def listed(key: Value, values: Iterator[Value]) -> Emissions:
    """Group the numbers to one list."""
    yield key, [value[0] for value in values]


def totals(key: Value, values: Iterator[Value]) -> Emissions:
    """Sum the numbers of a text."""
    every = list(values)
    yield len(every), (sum(map(_number, every)) % 1000, key)


def numbered(key: Value, values: Iterator[Value]) -> Emissions:
    """Replace the numbers by their positions."""
    for position, _ in enumerate(values):
        yield key, position


def joined(key: Value, values: Iterator[Value]) -> Emissions:
    """Join the texts in their order."""
    yield key[1], (key[0], "|".join(text or "-" for text in values)[-40:])


def unindexed(key: Value, values: Iterator[Value]) -> Emissions:
    """Rekey the rows of an index by their key before."""
    for value in values:
        yield value[0], (value[1], key)


def flattened(key: Value, values: Iterator[Value]) -> Emissions:
    """Flatten lists, each item with its position."""
    for items in values:
        for position, item in enumerate(items or ()):
            yield item, {"n": position, "t": str(key)}


def by_year(key: Value, values: Iterator[Value]) -> Emissions:
    """Count the rows of a year, under a key that has one or none."""
    year = None if key[0] is None else key[0].year
    yield year, [position for position, _ in enumerate(values)]


def identified(key: Value, values: Iterator[Value]) -> Emissions:
    """Leave a number for each text to be filled in."""
    for value in values:
        yield value[1], None


def first_given(value: Value, example: Value) -> Value:
    """Keep the first value of the key."""
    return value if example is None else example


def dated(key: Value, values: Iterator[Value]) -> Emissions:
    """Key the rows by a day that follows from their number; some by none."""
    for value in values:
        day = None if value[0] is None else _DAY + datetime.timedelta(days=value[0] % 10)
        yield (day, key), value


def matched(key: Value, values: Iterator[Value], *others: Iterator[Value]) -> Emissions:
    """Keep the rows of keys that all feeders have: an inner join."""
    every = list(values)
    if all(next(iter(other), None) is not None for other in others):
        for value in every:
            yield key, value


def gathered(key: Value, values: Iterator[Value], *others: Iterator[Value]) -> Emissions:
    """Keep the rows of keys that no other feeder has, and no more than the first of others."""
    present = any(True for other in others for _ in other)  # before the first feeder is read
    for number, value in enumerate(values):
        if number == 0 or not present:
            yield key, value


def counted(key: Value, values: Iterator[Value], *others: Iterator[Value]) -> Emissions:
    """Repeat the last row as often as the other feeders have rows for the key."""
    last = None
    for value in values:
        last = value
    if last is not None:
        for other in others:
            for _ in other:
                yield key, last


def last_first(key: Value, values: Iterator[Value], *others: Iterator[Value]) -> Emissions:
    """Read a row of the last feeder, then one of the one before, and so on; then the rest."""
    inputs = [values, *others]
    present = [next(one, None) is not None for one in reversed(inputs)]
    if all(present):
        for value in values:
            yield key, value


def _number(n: int | None) -> int:
    return 0 if n is None else n
