"""Real sessions: one that works, and failing starts in processes of their own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from conftest import QUICK_JAVA
from selecting import long

from deltaproduce.engines.spark.sessions.error_texts import explained
from deltaproduce.engines.spark.sessions.session import check_session, local_session
from deltaproduce.errors import SessionError


def run(script, **environment):
    """The outcome of a script in a new Python process: what it printed, and its standard error."""
    kept = {k: v for k, v in os.environ.items() if k not in {"PYSPARK_PYTHON", "PYTHONPATH"}}
    prelude = (
        "from deltaproduce.errors import SessionError\n"
        "from deltaproduce.engines.spark.sessions.error_texts import explained\n"
        "from deltaproduce.engines.spark.sessions.session import check_session, local_session\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", prelude + script],
        env={**kept, **QUICK_JAVA, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr


def test_the_shared_session_passes_the_check_and_is_returned_again(spark):
    check_session(spark)
    assert local_session("another name", cores=1) is spark


def test_delta_tables_are_written_and_read(spark, location):
    spark.range(3).write.format("delta").save(location)
    assert spark.read.format("delta").load(location).count() == 3


def test_workers_run_this_interpreter(spark):
    def interpreters(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"at": [sys.executable] * len(batch)})

    row = spark.range(1, numPartitions=1).mapInArrow(interpreters, "at string").first()
    assert os.path.samefile(row.at, sys.executable)


@long
def test_a_start_says_nothing_and_a_query_that_fails_says_it_once():
    """A short run has a start that says nothing by the README (`tests/examples/test_readme.py`)."""
    out, err = run("""
spark = local_session(cores=1, memory="1g")
try:
    spark.sql("SELECT 1 / 0").collect()
except Exception as error:
    print(type(error).__name__)
spark.stop()
again = local_session(cores=1, config={"spark.sql.shuffle.partitions": "7"})
print(again.conf.get("spark.sql.shuffle.partitions"))
again.stop()
""")
    assert out.split() == ["ArithmeticException", "7"]
    assert err == ""


FAILING = """
import sys, traceback
import deltaproduce as dp

spark = dp.local_session(cores=2, memory="1g")
pipeline = dp.Pipeline("failing")
rows, tables, kept, casts = (
    pipeline.source(name, key="k bigint", value="t string")
    for name in ("rows", "tables", "kept", "casts")
)
columns = {"key": "k bigint", "value": "n int"}

@pipeline.arrow_producer(tables, **columns)
def of_tables(table):
    return [int(t) for t in table["t"].to_pylist()]  # in a table

def keep(value, example):
    return 1 // value  # in preserve

@pipeline.producer(kept, **columns, preserve=keep)
def of_kept(k, values):
    yield k, 0

pipeline.sql("of_casts", "SELECT k, CAST(t AS int) AS n FROM casts", key="k")

@pipeline.producer(rows, **columns)
def of_rows(k, values):
    for t in values:
        yield k, int(t)  # in a row

store = dp.Store(spark, sys.argv[1], pipeline)
batch = spark.createDataFrame([(7, "seven")], "k bigint, t string")
for name in ("tables", "kept", "casts"):
    try:
        store.update({name: batch})
    except dp.ProducerError:
        traceback.print_exc()
store.update({"rows": spark.range(5_000).selectExpr("id AS k", "'seven' AS t")})
"""


def failed(script, path, **environment):
    """What a script that fails writes to standard error."""
    path.write_text(script)
    ran = subprocess.run(
        [sys.executable, path, path.parent / "store"],
        env={**os.environ, **QUICK_JAVA, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 1
    return ran.stderr


@long
def test_a_function_that_fails_says_what_and_where_and_nothing_else(tmp_path):
    """Errors say so in each run (`test_user_errors`, `test_untrusted_text`); here it is printed."""
    err = failed(FAILING, tmp_path / "failing.py")
    assert "ProducerError: stage 'of_tables' failed for key 7: ValueError: " in err
    assert "ProducerError: stage 'of_kept': preserve failed for key 7: ZeroDivisionError: " in err
    assert "ProducerError: stage 'of_casts': its query failed: [CAST_INVALID_INPUT]" in err
    assert "ProducerError: stage 'of_rows' failed for key " in err
    for line in ("# in a table", "# in preserve", "# in a row"):
        assert line in err
    for said in ("\tat ", "org.apache", "deltaproduce-failure", "ERROR", "WorkerError"):
        assert said not in err
    assert err.rstrip().endswith("ValueError: invalid literal for int() with base 10: 'seven'")


TASK = """
from deltaproduce import local_session
config = {"spark.driver.extraJavaOptions": "-Dmine=1"}
spark = local_session(cores=1, memory="1g", config=config)
spark.sql("SELECT raise_error(id) FROM range(1)").show()
"""


@long
def test_logging_that_the_user_has_set_up_is_left_alone(tmp_path):
    assert "ERROR Executor" not in failed(TASK, tmp_path / "task.py")
    (tmp_path / "log4j2.properties").write_text(
        "rootLogger.level = error\nrootLogger.appenderRef.a.ref = a\n"
        "appender.a.type = Console\nappender.a.name = a\nappender.a.target = SYSTEM_ERR\n"
        "appender.a.layout.type = PatternLayout\nappender.a.layout.pattern = mine %c{1}: %m%n%ex\n"
    )
    said = failed(TASK, tmp_path / "task.py", SPARK_CONF_DIR=str(tmp_path))
    assert "mine Executor: Exception in task" in said


@long
def test_what_is_written_has_no_more_rights_than_the_umask_leaves(tmp_path):
    """Hadoop gives its own, whatever the process's umask, if it is not told."""
    out, err = run(f"""
import os
import deltaproduce as dp
os.umask(0o077)
spark = local_session(cores=1, config={{"spark.sql.warehouse.dir": "{tmp_path}/warehouse"}})
pipeline = dp.Pipeline("p")
source = pipeline.source("s", key="k bigint", value="v string")
pipeline.sql("q", "SELECT v, k FROM s", key="v")
spark.sql("CREATE SCHEMA schema")
for place in ("{tmp_path}/store", "schema"):
    store = dp.Store(spark, place, pipeline)
    store.update({{"s": spark.sql("SELECT 1L AS k, 'a' AS v")}})
    store.compact()
spark.stop()
print(oct(os.umask(0)))
""")
    assert out.split() == ["0o77"]
    assert err == ""
    found = [p for top in ("store", "warehouse/schema.db") for p in (tmp_path / top).rglob("*")]
    assert len(found) > 20
    assert not [path for path in found if path.stat().st_mode & 0o077]


@long
def test_a_package_in_no_repository_is_named(tmp_path):
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="empty"/><resolvers>'
        f'<filesystem name="empty"><artifact pattern="{tmp_path}/[artifact].[ext]"/></filesystem>'
        f'</resolvers><caches defaultCacheDir="{tmp_path}/cache"/></ivysettings>'
    )
    config = {"spark.jars.ivySettings": str(settings), "spark.jars.ivy": str(tmp_path)}
    out, err = run(f"""
try:
    local_session(cores=1, config={config!r})
except SessionError as error:
    print(error)
""")
    assert "'io.delta#delta-spark" in out.splitlines()[-1]
    assert err == ""


@long
def test_an_unknown_failure_shows_what_spark_said():
    out, err = run("""
try:
    local_session(cores=1, config={"spark.driver.extraJavaOptions": "-Xmx1g"})
except SessionError:
    print("explained")
except Exception as error:
    print(type(error).__name__)
""")
    assert out.split() == ["PySparkRuntimeError"]
    assert "-Xmx1g" in err


@long
def test_a_session_without_delta_is_refused_and_its_java_process_stays_without():
    out, _ = run("""
from pyspark.sql import SparkSession
plain = SparkSession.builder.master("local[1]").getOrCreate()
check = lambda: check_session(plain)
for attempt in (local_session, check, plain.stop, local_session, local_session):
    try:
        attempt()
    except SessionError as error:
        print(error)
""")
    lines = out.splitlines()
    assert len(lines) == 4
    assert all("spark.sql.extensions" in line for line in lines[:2])
    assert all("new process" in line for line in lines[2:])


def other_python():
    """An interpreter of another minor version, if the machine has one."""
    for minor in range(10, 15):
        path = shutil.which(f"python3.{minor}")
        if path and minor != sys.version_info.minor:
            version = subprocess.run(
                [path, "--version"], capture_output=True, text=True, check=False
            )
            if version.stdout.startswith(f"Python 3.{minor}."):
                return path
    return None


def test_workers_of_another_python_are_named():
    python = other_python()
    if python is None:
        pytest.skip("no Python of another minor version")
    out, _ = run(
        """
from pyspark.sql.functions import udf
spark = local_session(cores=1)
try:
    spark.range(1).select(udf(lambda x: x)("id")).collect()
except Exception as error:
    print(explained(error) or error)
spark.stop()
""",
        PYSPARK_PYTHON=python,
    )
    assert "set PYSPARK_PYTHON" in out


def test_a_module_that_workers_lack_is_named(spark):
    def import_missing(batches):
        raise ModuleNotFoundError("No module named 'missing_there'")
        yield from batches

    with pytest.raises(Exception, match="missing_there") as raised:
        spark.range(1).mapInArrow(import_missing, "at string").collect()
    assert isinstance(explained(raised.value), SessionError)
