"""Keys, values and names that break literals and quoting, on every path that a key takes.

One store: a source with a composite key, and a chain of stages, each keyed by the next type, so
that every type is once a stage's key (looked up in its content) and once its source key (looked up
in the key mappings). Stages and columns have names that need quoting, and so has the location. The
oracle says what the tables hold.

Below it, the predicates alone: random values of every type, selected from a Delta table.
"""

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from comparing import as_frames, assert_same
from forcing import WAYS, Way, forced, setting
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from series import drawn

from deltaproduce import Pipeline, Store
from deltaproduce.engines.choice import Engines
from deltaproduce.engines.selections import Selection
from deltaproduce.engines.spark.frames import fetched
from deltaproduce.engines.spark.predicates import HASH, hash_sql, literal, membership
from deltaproduce.model.limits import Limits
from deltaproduce.testing import Delete, Oracle, Upsert, plain, strategies
from deltaproduce.types.columns import Column, Columns
from deltaproduce.types.ddl import identifier

# What PySpark can read of a timestamp with time zone ends an offset before Python's own end.
NEAR = timedelta(days=2)
NINES = 10**38 - 1

TEXTS = [
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
BINARIES = [b"", b"\x00", b"\x00\x00", b"a", b"'", b"\\", b"\xff", b"\x80\x00", b"x" * 300, None]
TYPES: list[tuple[t.DataType, list]] = [
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

SOURCE = 'it\'s a "source" `0`'
STAGES = [
    *("größe.v1", "back\\slash", "100 %20 %", "日本 \U0001f600", "sel`ect", "'a' 'b'", 'a"b'),
    *("$x ${y}", "*?[x]", "a=b;c,d", "e\u0301"),
]
LAST = "#last: {1}"
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


def odd() -> Pipeline:
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
    feeder = pipeline.source(SOURCE, key=composite, value=value)
    for position, (data_type, _) in enumerate(TYPES):
        key = t.StructType([t.StructField(KEYS[position], data_type)])
        declare = pipeline.producer(feeder, key=key, value=value, name=STAGES[position])
        feeder = declare(keyed_by(position))
    key = t.StructType(
        [
            t.StructField("`", t.BinaryType(), metadata={"descending": True}),
            t.StructField("a.b", t.StringType()),
            t.StructField("'", t.TimestampNTZType(), metadata={"descending": True}),
        ]
    )
    declare = pipeline.producer(feeder, key=key, value="`c.d` string", name=LAST)
    declare(keyed_by_three([found for found, _ in TYPES]))
    return pipeline


def keyed_by(position):
    def keyed(key, values):
        for value in values:
            yield value[position], value

    return keyed


def keyed_by_three(types):
    binary, text = types.index(t.BinaryType()), types.index(t.StringType())

    def keyed(key, values):
        for value in values:
            yield (value[binary], value[text], key), value[text]

    return keyed


def value_of(number):
    return tuple(pool[number % len(pool)] for _, pool in TYPES)


def key_of(number):
    return TEXTS[number % len(TEXTS)], TYPES[6][1][number % 9], number


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way.name == "replaced"], ids=lambda way: way.name
)
def test_odd_keys_and_names_at_every_stage(
    spark: SparkSession, tmp_path: Path, way: Way, long_run: bool
) -> None:
    pipeline = odd()
    place = str(tmp_path / "a 'store' %20 größe {x} [1]*")
    store = Store(spark, place, pipeline, table_type=way.table_type)
    oracle = Oracle(pipeline)
    count = len(TEXTS)
    load = [Upsert(key_of(n), value_of(n)) for n in range(3 * count)]
    changes = [
        *(Upsert(key_of(n), value_of(n + 1)) for n in range(count)),  # each value moves on,
        *(Delete(key_of(n)) for n in range(count, 2 * count)),  # has a row deleted,
        *(Delete(key_of(n)) for n in range(2 * count, 3 * count, 2)),  # perhaps two,
        *(Upsert(key_of(n), value_of(n + 7)) for n in range(3 * count, 4 * count, 3)),
    ]
    for number, batch in enumerate((load, changes), start=1):
        with forced(way):
            version = store.update(as_frames(spark, pipeline, {SOURCE: batch}))
        assert version.number == oracle.update({SOURCE: batch}) == number
    assert {version.stages[stage.name].mode for stage in pipeline.stages} == {"seek"}
    for number in (1, 2) if long_run else (2,):
        assert_same(store, oracle, pipeline, number, in_spark=True)


# ---- predicates

DRAWN = [data_type for data_type, _ in TYPES] + [
    *(t.DecimalType(38, 0), t.DecimalType(38, 38), t.DecimalType(9, 2), t.DecimalType(1, 1)),
]
COLUMNS = [Column(f"c.{i}", data_type) for i, data_type in enumerate(DRAWN)]


def test_predicates_select_their_keys_from_a_table(spark: SparkSession, location: str) -> None:
    rows = drawn(strategies.values(Columns(tuple(COLUMNS))), 60, 1)
    fields = [t.StructField("n", t.IntegerType())]
    fields += [t.StructField(c.name, c.data_type) for c in COLUMNS]
    frame = spark.createDataFrame([(n, *row) for n, row in enumerate(rows)], t.StructType(fields))
    frame.repartitionByRange(4, identifier("c.0")).write.format("delta").save(location)
    table = spark.read.format("delta").load(location)

    groups = [(column,) for column in COLUMNS]
    groups += [tuple(COLUMNS[i : i + 2]) for i in range(0, len(COLUMNS) - 1, 2)]
    groups += [tuple(reversed(COLUMNS))]
    hashes = [f"{hash_sql([c.name for c in g])} AS h{i}" for i, g in enumerate(groups)]
    keys = table.selectExpr("*", *hashes).toArrow()
    wanted = pc.equal(pc.bit_wise_and(keys.column("n"), 1), 0)
    even = keys.filter(wanted)
    query, expected = None, set()
    for i, group in enumerate(groups):
        names = [column.name for column in group]
        chosen = even.select(names).append_column(HASH, even.column(f"h{i}"))
        found = table.where(membership(group, chosen)).selectExpr(f"{i} AS i", "n")
        query = found if query is None else query.union(found)
        positions = [COLUMNS.index(column) for column in group]
        parts = [plain(tuple(row[p] for p in positions)) for row in rows]
        asked = {part for n, part in enumerate(parts) if n % 2 == 0}
        expected |= {(i, n) for n, part in enumerate(parts) if part in asked}
    found = {tuple(row) for row in query.collect()}
    assert expected <= found
    for i, n in found - expected:  # Spark's hash leaves nulls out, so it may be that of another key
        column = f"h{i}"
        assert keys.filter(pc.equal(keys.column("n"), n)).column(column)[0] in even.column(column)
    nothing = table.where(membership(COLUMNS[:1], even.slice(0, 0)))
    assert nothing.isEmpty()


@pytest.mark.parametrize("data_type", [t.DateType(), t.TimestampType()])
def test_days_between_two_calendars_are_found(
    spark: SparkSession, location: str, data_type: t.DataType
) -> None:
    """Each is in a file of its own, which Spark itself leaves out when it looks for that day."""
    column = Column("moment", data_type)
    first = (date(1582, 10, 1) - date(1970, 1, 1)).days
    moment = f"timestamp_seconds(({first} + id) * 86400)"
    rows = spark.range(0, 20, 1, 20).selectExpr(
        f"CAST({moment} AS {data_type.simpleString()}) AS moment"
    )
    with setting(spark, "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"):
        rows.write.parquet(location)
    table = spark.read.parquet(location)
    keys = fetched(table, [column])
    assert len(keys) == 20
    for n in range(20):
        sought = Selection((column,), keys.slice(n, 1), Engines(spark, Limits()))
        found = fetched(sought.rows_of(table), [column])
        assert found.to_pylist() == keys.slice(n, 1).to_pylist()


def test_literals_have_exactly_their_value_and_type(spark: SparkSession) -> None:
    rows = drawn(strategies.values(Columns(tuple(COLUMNS))), 200, 2)
    struct = t.StructType([t.StructField(c.name, c.data_type) for c in COLUMNS])
    given = spark.createDataFrame(rows, struct).toArrow()
    texts, expected = [], []
    for column in COLUMNS:
        values = given.column(column.name).drop_null().unique()
        literals = [literal(value, column.data_type) for value in values]
        kept = [i for i, text in enumerate(literals) if text is not None]
        assert len(kept) > 1
        expected.append(values.take(pa.array(kept)))
        texts.append(f"array({', '.join(text for text in literals if text)})")
    found = spark.range(1).selectExpr(*texts)
    assert [field.dataType.elementType for field in found.schema] == DRAWN
    for made, values in zip(found.toArrow().columns, expected, strict=True):
        assert made.combine_chunks().flatten().equals(values)
