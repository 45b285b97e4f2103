"""A pipeline with keys, values and names that break literals and quoting.

It is a source with a composite key, and a chain of stages. Stages and columns have names that need
quoting.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import types as t

from deltaproduce import Pipeline
from deltaproduce.testing import Change, Delete, Upsert

# What PySpark can read of a timestamp with time zone ends an offset before Python's own end.
NEAR = timedelta(days=2)
NINES = 10**38 - 1

TEXTS: list[Any] = [
    *("", " ", "a", "A", "a ", " a", "a\t", "null", "0", "'", "''", '"', "`", "\\", "\\'", "\\\\"),
    *(
        "it's",
        'say "so"',
        "a\nb",
        "a\r\nb",
        "\t",
        "\x00",
        "a\x00b",
        "\x7f",
        "%",
        "_%",
        "$x",
        "${x}",
    ),
    *("{}", "X'00'", "--", "/*", "\u00e9", "e\u0301", "ß", "ss", "\uffff", "\U0001f600", "日本"),
    *("x" * 5_000, "x" * 4_999 + "y", "'" * 300, None),
]
BINARIES: list[Any] = [
    b"",
    b"\x00",
    b"\x00\x00",
    b"a",
    b"'",
    b"\\",
    b"\xff",
    b"\x80\x00",
    b"x" * 300,
    None,
]
TYPES: list[tuple[t.DataType, list[Any]]] = [
    (t.StringType(), TEXTS),
    (t.BooleanType(), [True, False, None]),
    (t.ByteType(), [-128, 127, 0, -1, None]),
    (t.ShortType(), [-(2**15), 2**15 - 1, 0, -1, None]),
    (t.IntegerType(), [-(2**31), 2**31 - 1, 0, -1, None]),
    (t.LongType(), [-(2**63), 2**63 - 1, 0, -1, None]),
    (
        t.DecimalType(38, 19),
        [
            *(Decimal(sign * unit).scaleb(-19) for sign in (1, -1) for unit in (1, 10**19)),
            *(Decimal((sign, (9,) * 38, -19)) for sign in (0, 1)),
            *(Decimal("0"), Decimal("1.5"), None),
        ],
    ),
    (t.BinaryType(), BINARIES),
    (t.DateType(), [date.min, date.max, date(1970, 1, 1), date(1582, 10, 10), None]),
    (
        t.TimestampType(),
        [
            *(datetime.min + NEAR, datetime.max - NEAR, datetime(1969, 12, 31, 23, 59, 59, 999999)),
            *(datetime(1883, 11, 18, 12, 3, 57), datetime(2024, 2, 29, 1, 2, 3, 4), None),
        ],
    ),
    (
        t.TimestampNTZType(),
        [
            *(datetime.min, datetime.min + timedelta(microseconds=1), datetime.max),
            *(datetime(1970, 1, 1), datetime(2024, 3, 31, 2, 30), None),
        ],
    ),
]

NAMES = [
    'it\'s a "source" `0`',
    *("größe.v1", "back\\slash", "100 %20 %", "日本 \U0001f600", "sel`ect", "'a' 'b'", 'a"b'),
    *("$x ${y}", "*?[x]", "a=b;c,d", "e\u0301"),
]
NAMES += ["#last: {1}"]
"""Of the source, and of stages."""
KEYS = [
    "it's",
    'quo"te',
    "back`tick",
    "back\\slash",
    "dot.ted",
    "größe",
    "select",
    "日本\U0001f600",
]
KEYS += ["%s", "$x", "*", "1st", "e\u0301"]
VALUES = ["v'", 'v"', "v`", "v\\", "v.v", "vé", "value", "v\U0001f600", "v%s", "$v", "v*"]


def odd(width: int, names: Sequence[str] = NAMES) -> Pipeline:
    """A chain of stages, each keyed by the next ``width`` types.

    So every type is once in a stage's key, which is looked up in its content, and once in its
    source key, which is looked up in the key mappings.
    """
    pipeline = Pipeline("odd 'names'")
    value = t.StructType(
        [t.StructField(name, found) for name, (found, _) in zip(VALUES, TYPES, strict=True)]
    )
    composite = t.StructType(
        [
            t.StructField("order", t.StringType(), metadata={"descending": True}),
            t.StructField("by.`", t.DecimalType(38, 19)),
            t.StructField("n", t.IntegerType()),
        ]
    )
    feeder = pipeline.source(names[0], key=composite, value=value)
    for start in range(0, len(TYPES), width):
        positions = range(len(TYPES))[start : start + width]
        key = t.StructType([t.StructField(KEYS[at], TYPES[at][0]) for at in positions])
        name = " ".join(names[at + 1] for at in positions)
        declare = pipeline.producer(feeder, key=key, value=value, name=name)
        feeder = declare(keyed_by(positions))
    key = t.StructType(
        [
            t.StructField("`", t.BinaryType(), metadata={"descending": True}),
            t.StructField("a.b", t.StringType()),
            t.StructField("'", t.TimestampNTZType(), metadata={"descending": True}),
        ]
    )
    declare = pipeline.producer(feeder, key=key, value="`c.d` string", name=names[-1])
    declare(keyed_by_three([found for found, _ in TYPES]))
    return pipeline


def batches() -> list[list[Change]]:
    """A load, and changes in which each value of each type moves on, has rows deleted, or comes."""
    count = len(TEXTS)
    load = [Upsert(key_of(n), value_of(n)) for n in range(3 * count)]
    changes = [
        *(Upsert(key_of(n), value_of(n + 1)) for n in range(count)),  # each value moves on,
        *(Delete(key_of(n)) for n in range(count, 2 * count)),  # has a row deleted,
        *(Delete(key_of(n)) for n in range(2 * count, 3 * count, 2)),  # perhaps two,
        *(Upsert(key_of(n), value_of(n + 7)) for n in range(3 * count, 4 * count, 3)),
    ]
    return [load, changes]


def keyed_by(positions: Sequence[int]) -> Callable[[Any, Iterator[Any]], Iterator[Any]]:
    def keyed(key: Any, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            found = tuple(value[at] for at in positions)
            yield found if len(found) > 1 else found[0], value

    return keyed


def keyed_by_three(types: Sequence[t.DataType]) -> Callable[[Any, Iterator[Any]], Iterator[Any]]:
    binary, text, last = types.index(t.BinaryType()), types.index(t.StringType()), len(types) - 1

    def keyed(key: Any, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            yield (value[binary], value[text], value[last]), value[text]

    return keyed


def value_of(number: int) -> tuple[Any, ...]:
    return tuple(pool[number % len(pool)] for _, pool in TYPES)


def key_of(number: int) -> tuple[Any, ...]:
    return TEXTS[number % len(TEXTS)], TYPES[6][1][number % 9], number
