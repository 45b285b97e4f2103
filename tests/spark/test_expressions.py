"""Expressions on the driver equal those in Spark: types, values and errors."""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from comparing import as_frames, assert_same
from expression_edges import CLOCKS, DECIMALS, MOVES, NESTED, NUMBERS, TEXT
from expression_strategies import COLUMNS, DDL, Expressions, number_texts, rows
from forcing import WAYS, Way, forced
from local_stores import assert_refreshed
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from selecting import long
from test_local_expressions import STAGES, history, site

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.engines.spark.data_types import frame_struct, in_spark
from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.evaluation import evaluated
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.functions.constructors import nullable
from deltaproduce.stages.sql.expressions.functions.text import cases
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.terms import Term
from deltaproduce.testing import Oracle, plain_rows
from deltaproduce.types.columns import Column
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.data_types import StringType, StructType
from deltaproduce.types.ddl import struct_from_ddl

FEW_ROWS = 30
EXCLUDED = "spark.sql.optimizer.excludedRules"
AS_WRITTEN = [
    f"org.apache.spark.sql.catalyst.optimizer.{rule}"
    for rule in (
        "BooleanSimplification",
        "ConstantFolding",
        "NullPropagation",
        "ReorderAssociativeOperator",
        "SimplifyBinaryComparison",
        "SimplifyConditionals",
        "SimplifyCasts",
        "OptimizeIn",
    )
]
"""Rules by which Spark leaves out, or orders otherwise, what would fail."""

FAILURES = 12
"""So many values that cannot be computed are asked of Spark; each is a job of its own."""


def terms(texts: list[str], zone: str) -> dict[str, Term]:
    """Those that are computed on the driver."""
    types = {field.name: field.dataType for field in struct_from_ddl(DDL)}
    found = dict[str, Term]()
    for text in texts:
        try:
            term = analysed(Expression.read(text, list(COLUMNS)), types, zone)
        except DefinitionError:
            continue
        if term is not None:
            found[text] = term
    return found


def computed(term: Term, table: pa.Table) -> list[Any]:
    """The value for each row, or the error; rows are parted until one alone has it."""
    try:
        return python(evaluated(term, table))
    except EvaluationError as error:
        if len(table) == 1:
            return [error]
    half = len(table) // 2
    return computed(term, table.slice(0, half)) + computed(term, table.slice(half))


def check_alone(term: Term, table: pa.Table, values: list[Any], place: int) -> None:
    """A row has the value alone that it has among others; none has none."""
    assert len(evaluated(term, table.slice(0, 0))) == 0
    alone = computed(term, table.slice(place, 1))
    assert plain(map(str, alone)) == plain(map(str, values[place : place + 1]))


def check(given: DataFrame, table: pa.Table, texts: list[str], at_least: float = 0.5) -> None:
    known = terms(texts, given.sparkSession.conf.get("spark.sql.session.timeZone"))
    print(f"{len(known)} of {len(texts)} are computed on the driver")
    assert len(known) > len(texts) * at_least
    types = given.select(*(f.expr(text).alias(f"_{n}") for n, text in enumerate(known)))
    for (text, term), field in zip(known.items(), frame_struct(types), strict=True):
        assert nullable(term.data_type) == nullable(field.dataType), text
    here = {text: computed(term, table) for text, term in known.items()}
    fine, chance = [], random.Random(2)
    for n, (text, values) in enumerate(here.items()):
        places = [p for p, value in enumerate(values) if not isinstance(value, EvaluationError)]
        where = f.col("place").isin(places) if places else f.lit(False)
        fine.append(f.when(where, f.expr(text)).alias(f"_{n}"))
        check_alone(known[text], table, values, chance.randrange(len(table)))
    together = given.orderBy("place").select(*fine).toArrow()
    for n, (text, values) in enumerate(here.items()):
        expected = in_arrow_types(together.select([n]), [Column(f"_{n}", known[text].data_type)])
        found = [None if isinstance(value, EvaluationError) else value for value in values]
        assert plain(found) == plain(python(expected.column(0).combine_chunks())), text
    failing = [
        (text, place, value)
        for text, values in here.items()
        for place, value in enumerate(values)
        if isinstance(value, EvaluationError)
    ]
    print(f"{len(failing)} values cannot be computed")
    with settings(given.sparkSession, {EXCLUDED: ",".join(AS_WRITTEN)}):
        check_failures(given, failing)


def check_failures(given: DataFrame, failing: list[tuple[str, int, EvaluationError]]) -> None:
    """What fails on the driver fails in Spark, which computes it as it is written."""
    for text, place, error in random.Random(1).sample(failing, min(len(failing), FAILURES)):
        row = given.where(f.col("place") == place).select(f.expr(text).alias(text))
        with pytest.raises((PySparkException, Py4JJavaError)) as caught:
            print(text, place, row.collect())
        assert condition_of(caught.value) == error.condition, (text, error)


def condition_of(error: Exception) -> str:
    """Spark's name for it; empty for an error of Java that has none."""
    name = error.getCondition() if isinstance(error, PySparkException) else None
    return (name or "").partition(".")[0]


@contextmanager
def settings(spark: SparkSession, changed: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in changed}
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def python(values: pa.Array) -> list[Any]:
    """Values in Python; dates and times as numbers, as some have more years than Python."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    found: list[Any] = values.to_pylist()
    return found


def plain(values: Iterable[Any]) -> list[Any]:
    return plain_rows((value,) for value in values)


def given_rows(spark: SparkSession, seed: int, count: int) -> tuple[DataFrame, pa.Table]:
    some = rows(random.Random(seed), count)
    struct = in_spark(StructType([*struct_from_ddl("place bigint"), *struct_from_ddl(DDL)]))
    given = spark.createDataFrame([(n, *row) for n, row in enumerate(some)], struct).cache()
    return given, on_driver(given)


def on_driver(given: DataFrame) -> pa.Table:
    columns = [Column(field.name, field.dataType) for field in struct_from_ddl(DDL)]
    return in_arrow_types(given.orderBy("place").drop("place").toArrow(), columns)


def test_values_types_and_errors_are_those_of_spark(spark: SparkSession, long_run: bool) -> None:
    """Of random expressions over random rows."""
    made = Expressions(random.Random(5))
    texts = [made.some(1 + n % 3) for n in range(3_000 if long_run else 100)]
    given, table = given_rows(spark, 3, FEW_ROWS)
    check(given, table, texts)
    given.unpersist()


ZONES = ("Europe/Berlin", "America/St_Johns", "America/Toronto", "Pacific/Apia", "UTC")


def test_each_function_is_that_of_spark(spark: SparkSession, long_run: bool) -> None:
    """Over columns of many types, with values at their limits."""
    given, table = given_rows(spark, 7, FEW_ROWS)
    chance = random.Random(6)
    some = DECIMALS if long_run else chance.sample(DECIMALS, 20)
    every = [*NUMBERS, *TEXT, *NESTED]
    check(
        given, table, [*some, *(every if long_run else chance.sample(every, len(every) // 3))], 0.9
    )
    for zone in ZONES if long_run else chance.sample(ZONES, 1):
        with settings(spark, {"spark.sql.session.timeZone": zone}):
            check(given, table, [*MOVES, *CLOCKS], 0.9)
    given.unpersist()


SIGMAS = (("", ""), ("A", "\u03a3"), ("A\u03a3", ""), ("A\u03a3", "A"), ("", "\u03a3"), ("A ", "A"))
"""What is around a character: it may begin a word, and whether a sigma ends one depends on it."""


def test_letters_have_the_cases_of_spark(spark: SparkSession, long_run: bool) -> None:
    """Each code point, alone and beside a sigma; few in a short run, with all that are new."""
    points = [*range(0xD800), *range(0xE000, 0x110000)]
    own = [*cases._NEW_PAIRS, *cases._NEW_PAIRS.values(), *cases._NEW_MARKS, *cases._NEW_LOWER]
    chosen = points if long_run else [*own, *random.Random(8).sample(points[:0x20000], 2_000)]
    texts = [f"{before}{chr(c)}{after}" for c in chosen for before, after in SIGMAS]
    places = pa.array(range(len(texts)))
    given = spark.createDataFrame(pa.table({"place": places, "s": texts}))
    found = (
        given.selectExpr("place", "lower(s) l", "upper(s) u", "initcap(s) i")
        .toArrow()
        .sort_by("place")
    )
    table = pa.table({"s": texts})
    for name, column in (("lower", "l"), ("upper", "u"), ("initcap", "i")):
        term = analysed(Expression.read(f"{name}(s)", ["s"]), {"s": StringType()})
        assert term is not None
        assert evaluated(term, table).equals(found.column(column).combine_chunks()), name


def test_long_decimals_are_negated_as_spark_does_it(spark: SparkSession) -> None:
    """Spark rounds them to 34 digits, half to even, and fails if the result does not fit."""
    texts = [
        f"{sign}{whole}.{fraction}"
        for sign in ("", "-")
        for whole in ("1234567890123456789012345678", "9999999999999999999999999999", "12")
        for fraction in ("1234565000", "1234575000", "9999999999")
    ]
    values = ", ".join(f"CAST('{text}' AS decimal(38,10))" for text in texts)
    few, _ = given_rows(spark, 3, len(texts))
    given = few.withColumn("m", f.expr(f"element_at(array({values}), CAST(place AS int) + 1)"))
    check(given.cache(), on_driver(given), ["-m", "abs(m)", "-(-(m))", "abs(-m)", "m"])


ODD_NUMBERS = (
    *("0x1.8p1", "-0X.8p-1d", "0x1p99999", "-0x0p-99999", "0x1", "NaNf", "-NaN", "-nan", "1e400"),
    *("1e2147483648", "1e38", "0e99", "0e37", "1e-99999", "-1e-400", "4.9e-324", "2e-324"),
    *("\u0661\u0662.5", "\U0001d7cf", "\x001\x7f", "\u00a01", "true\x7f", "1__0", "INFINITY"),
)
"""Texts that Java reads, and Python does not, or the other way round."""


def test_texts_become_what_they_become_in_spark(spark: SparkSession, long_run: bool) -> None:
    few, _ = given_rows(spark, 3, 1)
    chance = random.Random(9)
    texts = [*ODD_NUMBERS, *number_texts(chance, 5_000 if long_run else 300)]
    rows = spark.createDataFrame(list(enumerate(texts)), "place bigint, s string")
    given = rows.join(few.drop("place", "s"), how="cross").cache()
    kinds = ("decimal(10,2)", "decimal(38,0)", "decimal(38,38)", "dec(5)", "double", "boolean")
    check(given, on_driver(given), [f"{c}(s AS {k})" for k in kinds for c in ("CAST", "try_cast")])
    given.unpersist()


def test_dates_are_those_on_the_clock_of_the_session(spark: SparkSession) -> None:
    given, table = given_rows(spark, 4, FEW_ROWS)
    for zone in ("Europe/Berlin", "America/St_Johns"):
        with settings(spark, {"spark.sql.session.timeZone": zone}):
            check(given, table, ["CAST(w AS date)", "day(w)", "weekofyear(w)", "to_date(w) + 1"])
    given.unpersist()


@long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_stages_equal_the_oracle(spark: SparkSession, location: str, way: Way) -> None:
    """With expressions as keys, conditions and arguments, as `tests/local` has it in each run."""
    pipeline = site(*STAGES)
    oracle = Oracle(pipeline)
    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        for batch in history(200 + WAYS.index(way))[:4]:
            version = store.update(as_frames(spark, pipeline, batch))
            assert version.number == oracle.update(batch)
            assert_same(store, oracle, pipeline, version.number)
        assert_refreshed(store, (*STAGES, "sums"))
        assert store.verify(recompute=True) == ()


def words() -> dp.Pipeline:
    """Expressions that only Spark computes, as key, condition and argument."""
    pipeline = dp.Pipeline("words")
    source = pipeline.source("orders", key="id bigint", value="k string, n bigint")
    pipeline.aggregate(
        "by_word",
        source,
        key="soundex(k) AS word",
        values={"n": agg.sum("bit_count(N)"), "some": agg.count_if("k RLIKE '^a'")},
        where="soundex(k) <> ''",
    )
    return pipeline


def test_what_only_spark_computes_is_computed_there(spark: SparkSession, location: str) -> None:
    """Though the rows are on the driver; without a session the store does not open."""
    orders = [{"id": n, "k": k, "n": n} for n, k in enumerate(("ab", "abb", "b", "", None))]
    with dp.Store(spark, location, words()) as store:
        store.update({"orders": orders})
        store.update({"orders": [{"id": 2, "k": "a", "n": 3}]})
        found = store.content("by_word", ordered=True).drop("_ordinal")
        assert found.dtypes == [("word", "string"), ("n", "bigint"), ("some", "bigint")]
        assert [tuple(row) for row in found.collect()] == [("A000", 2, 1), ("A100", 1, 2)]
        keys = store.lineage("by_word", "A100").upstream["orders"].collect()
        assert sorted(row.id for row in keys) == [0, 1]
    with pytest.raises(dp.SessionError, match="soundex"):
        dp.Store(None, location, words())


def test_what_spark_refuses_is_a_definition_error(spark: SparkSession, location: str) -> None:
    for wrong in ("soundex(n, n)", "no_such_function(n)", "n + ARRAY(1)"):
        pipeline = dp.Pipeline("wrong")
        source = pipeline.source("orders", key="id bigint", value="n bigint")
        pipeline.aggregate("wrong", source, key="", values={"n": agg.count(wrong)})
        with pytest.raises(dp.DefinitionError) as caught:
            dp.Store(spark, location, pipeline)
        assert caught.value.stage == "wrong"


@pytest.mark.parametrize("few", [True, False])
def test_what_fails_in_spark_says_of_what(spark: SparkSession, location: str, few: bool) -> None:
    pipeline = dp.Pipeline("failing")
    source = pipeline.source("orders", key="id bigint", value="n int")
    pipeline.aggregate("failing", source, key="", values={"n": agg.sum("n + N")})
    limits = dp.Limits() if few else dp.Limits(local_rows=0)
    store = dp.Store(spark, location, pipeline, limits=limits)
    rows = spark.createDataFrame([(1, 2**31 - 1)], "id bigint, n int")
    with pytest.raises(dp.ProducerError, match="OVERFLOW") as caught:
        store.update({"orders": rows})
    assert (caught.value.stage, store.head.number) == ("failing", 0)
    assert "`n` + `n`" in str(caught.value)


def test_a_session_without_ansi_mode_is_refused(spark: SparkSession, location: str) -> None:
    with settings(spark, {"spark.sql.ansi.enabled": "false"}), pytest.raises(dp.SessionError):
        dp.Store(spark, location, site("whole"))
