"""Rows are data: text in them is never run or believed, whatever error quotes it.

The worst case is a text that earlier versions unpickled when an error's text contained it.
"""

import base64
import os
import zlib
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from selecting import chosen

from deltaproduce import Limits, Pipeline, ProducerError, Store

ROWS = "k string, t string"


class MakesDirectory:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def unpickled_once(path):
    """A text that makes a directory if what is in it is unpickled."""
    pickled = base64.b64encode(zlib.compress(cloudpickle.dumps(MakesDirectory(path))))
    return f"<deltaproduce-failure {pickled.decode()}>"


def failing() -> Pipeline:
    """Stages that fail for what is in their rows: a key, a value, a cast."""
    pipeline = Pipeline("failing")
    keys = pipeline.source("keys", key="k string", value="t string")
    values = pipeline.source("values", key="k string", value="t string")
    pipeline.source("casts", key="k string", value="t string")
    pipeline.source("numbers", key="k string", value="n int")

    @pipeline.producer(keys, key="k string", value="n int")
    def of_keys(key, values):
        raise LookupError("told to \ud800")

    @pipeline.producer(values, key="k string", value="n int")
    def of_values(key, values):
        for text in values:
            yield key, int(text)

    pipeline.sql("of_casts", "SELECT k, CAST(t AS int) AS n FROM casts", key="k")
    return pipeline


@pytest.fixture(scope="module", params=[0, 100_000], ids=["in Spark", "beside the driver"])
def store(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Store:
    limits = Limits(local_rows=request.param)
    return Store(spark, str(tmp_path_factory.mktemp("texts") / "store"), failing(), limits=limits)


TEXTS = {
    "pickled": None,  # made for each test
    "forged": '<deltaproduce-failure {"message": "forged", "stage": "other", "key": 1}>',
    "traceback": "Traceback (most recent call last):\n  File 'a', line 1\nForged: \x1b[31mred",
    "Spark's own": "${a} <msg> Python worker exited unexpectedly \\u0000 %s {} \x00",
}
SHORT = ("pickled", "forged")
"""What would do harm if it was believed; the others would be misread."""


def text_of(case, tmp_path):
    return TEXTS[case] or unpickled_once(tmp_path / "made")


@pytest.mark.parametrize("case", chosen(TEXTS, *SHORT))
def test_a_value_that_a_function_fails_on(spark, store, tmp_path, case):
    text = text_of(case, tmp_path)
    with pytest.raises(ProducerError) as caught:
        store.update({"values": spark.createDataFrame([("a", text)], ROWS)})
    error = caught.value
    assert not Path(tmp_path / "made").exists()
    assert (error.stage, error.key) == ("of_values", "a")
    assert type(error.__cause__) is ValueError
    assert repr(text) in str(error.__cause__)
    assert "int(text)" in "".join(error.__notes__)
    assert str(error).isprintable()


@pytest.mark.parametrize("case", chosen(TEXTS, *SHORT))
def test_a_key_whose_call_fails(spark, store, tmp_path, case):
    key = text_of(case, tmp_path)
    with pytest.raises(ProducerError) as caught:
        store.update({"keys": spark.createDataFrame([(key, "a")], ROWS)})
    error = caught.value
    assert not Path(tmp_path / "made").exists()
    assert (error.stage, error.key) == ("of_keys", key)
    assert (type(error.__cause__), str(error.__cause__)) == (LookupError, "told to \\ud800")
    assert str(error).isprintable()


@pytest.mark.parametrize("case", chosen(TEXTS, *SHORT))
def test_a_cast_in_a_query(spark, store, tmp_path, case):
    text = text_of(case, tmp_path)
    with pytest.raises(ProducerError) as caught:
        store.update({"casts": spark.createDataFrame([("a", text)], ROWS)})
    assert not Path(tmp_path / "made").exists()
    assert (caught.value.stage, caught.value.key) == ("of_casts", None)
    assert "[CAST_INVALID_INPUT]" in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("case", chosen(TEXTS, *SHORT))
def test_a_cast_in_the_user_s_own_batch(spark, store, tmp_path, case):
    text = text_of(case, tmp_path)
    rows = spark.createDataFrame([("a", text)], ROWS).selectExpr("k", "CAST(t AS int) AS n")
    with pytest.raises(Exception, match="CAST_INVALID_INPUT") as caught:
        store.update({"numbers": rows})
    assert not Path(tmp_path / "made").exists()
    assert not isinstance(caught.value, ProducerError)


def test_nothing_was_written(store):
    assert store.head.number == 0
