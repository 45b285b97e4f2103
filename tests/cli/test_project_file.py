"""The project file: what is read, and what is refused, with file, key and fix."""

import re

import pytest

from deltaproduce import DefinitionError
from deltaproduce.projects.file import Input, parsed

WHOLE = """
[project]
name = "shop"
pipeline = "pipeline:shop"
store = "lake/shop"
"""
SOURCE = """
[sources.orders]
format = "csv"
path = "data/orders"
mode = "changes"
"""


def test_all_of_a_file(tmp_path):
    text = """
    [project]
    name = "shop"
    pipeline = "stages"
    store = "main.shop"
    engine = "spark"
    table_type = "copy_on_write"
    policy = "strict"
    [spark]
    cores = 2
    "spark.sql.shuffle.partitions" = 4
    spark.ui.enabled = false
    [sources.orders]
    format = "csv"
    path = "s3a://lake/orders"
    mode = "snapshot"
    delimiter = ";"
    null = "-"
    encoding = "latin-1"
    [sources.people]
    format = "orc"
    path = "s3a://lake/people"
    mode = "snapshot"
    options = {mergeSchema = true}
    """
    file = parsed(text, tmp_path)
    assert (file.name, file.pipeline, file.engine, file.location) == (
        *("shop", "stages", "spark"),
        "main.shop",
    )
    assert (file.table_type, file.policy) == ("copy_on_write", "strict")
    assert file.spark == {
        "cores": "2",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
    }
    assert file.inputs == {
        "orders": Input(
            *("orders", "csv", "s3a://lake/orders", "snapshot"),
            delimiter=";",
            null="-",
            encoding="latin-1",
        ),
        "people": Input(
            *("people", "orc", "s3a://lake/people", "snapshot"), options={"mergeSchema": "true"}
        ),
    }


def test_the_least_of_a_file(tmp_path):
    file = parsed(WHOLE, tmp_path)
    assert (file.engine, file.table_type, file.policy) == ("local", "copy_on_write", "auto")
    assert file.location == str(tmp_path / "lake/shop")
    assert (dict(file.spark), dict(file.inputs)) == ({}, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[project", "is not TOML"),
        ("", "no [project]; add it"),
        ("project = 1", "[project]"),
        (WHOLE.replace('name = "shop"\n', ""), "[project] has no 'name'"),
        (WHOLE.replace('"shop"', "1", 1), "[project] name is 1"),
        (WHOLE.replace('"shop"', '" "', 1), "[project] name is ' '"),
        (WHOLE + "engin = 'local'", "'engin', which is not known; do you mean 'engine'?"),
        (WHOLE + "engine = 'duckdb'", 'engine is \'duckdb\'; give "local" or "spark"'),
        (WHOLE + "[sorces.x]", "it has 'sorces', which is not known; do you mean 'sources'?"),
        (WHOLE + "[vars]\na = []", "[vars] a is []"),
        (WHOLE + "[spark]\nx = 1", "[spark] is there"),
        (WHOLE + "engine = 'spark'\n[spark]\nx = [1]", "[spark] x is [1]"),
        (WHOLE + "engine = 'spark'\n[spark]\ncores = 'all'", "[spark] cores is 'all'"),
        (WHOLE.replace("lake/shop", "shop"), "[project] store is 'shop'"),
        (WHOLE.replace("pipeline:shop", "/lake/stages"), "[project] pipeline is '/lake/stages'"),
        (WHOLE + "[sources]\norders = 1", "[sources.orders]"),
        (WHOLE + SOURCE.replace('mode = "changes"', ""), "[sources.orders] has no 'mode'"),
        (WHOLE + SOURCE.replace("changes", "append"), "mode is 'append'"),
        (WHOLE + SOURCE.replace("csv", "delta"), "Pipeline.delta_source"),
        (WHOLE + SOURCE.replace("csv", "orc").replace("changes", "snapshot"), "engine"),
        (WHOLE + SOURCE.replace("data/", "s3://"), "a path of this machine"),
        (WHOLE + SOURCE + "options = {a = 1}", "[sources.orders] options"),
        (WHOLE + SOURCE + 'delimiter = "é"', "[sources.orders] delimiter"),
        (WHOLE + SOURCE + 'decimal = ";"', "[sources.orders] decimal"),
        (WHOLE + SOURCE + 'date_format = ""', "[sources.orders] date_format"),
        (WHOLE + SOURCE.replace("csv", "json") + 'decimal = ","', "[sources.orders] decimal"),
        (WHOLE + SOURCE.replace("csv", "parquet") + 'encoding = "x"', "[sources.orders] encoding"),
        (WHOLE + SOURCE + "delimiter = ', '", "[sources.orders] delimiter is ', '"),
        (WHOLE + SOURCE + "patth = ''", "do you mean 'path'?"),
    ],
)
def test_what_is_wrong_is_said_by_key(tmp_path, text, said):
    with pytest.raises(DefinitionError, match=re.escape(said)) as error:
        parsed(text, tmp_path)
    assert str(error.value).startswith("deltaproduce.toml")
    assert "\n" not in str(error.value)


def test_without_a_file(call, tmp_path):
    result = call("versions", "--project-dir", tmp_path, code=2)
    assert result.stderr.startswith("error: there is no deltaproduce.toml in ")
    assert "deltaproduce init" in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 +", "pipeline.py:1: invalid syntax"),
        ("\nx = y", "pipeline.py:2: NameError: name 'y' is not defined"),
        ("import nothing_such", "pipeline.py:1: ModuleNotFoundError"),
        ("shop = 1", "'shop' of module"),
        (
            "import deltaproduce as dp\nother = dp.Pipeline('o')\n\n"
            "other.source('a', key='', value='')",
            "pipeline.py:4: ",
        ),
        ("import deltaproduce as dp\nother = dp.Pipeline('o')", "pipelines there: other"),
    ],
)
def test_a_module_that_fails_is_said_by_line(project, call, text, said):
    (project / "pipeline.py").write_text(text)
    result = call("graph", code=2)
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in call("graph", "--debug", code=2).stderr


def test_a_module_that_is_not_there(project, call):
    file = project / "deltaproduce.toml"
    file.write_text(file.read_text().replace("pipeline:shop", "pipelin:shop"))
    assert "there is no module 'pipelin'" in call("graph", code=2).stderr


def test_the_modules_of_a_folder_define_one_pipeline(project, call, asked):
    file = project / "deltaproduce.toml"
    file.write_text(file.read_text().replace('"pipeline:shop" ', '"stages"'))
    assert "nor a folder with .sql files or modules" in call("graph", code=2).stderr
    stages = project / "stages"
    stages.mkdir()
    (stages / "_shared.py").write_text("raise AssertionError('it is no module of stages')")
    (stages / "a_sources.py").write_text(
        "def define(pipeline):\n"
        "    pipeline.source('orders', key='order_id bigint',"
        " value='customer_id bigint, amount decimal(12,2)')\n"
        "    pipeline.source('customers', key='customer_id bigint', value='name string')\n"
    )
    (stages / "b_names.py").write_text(
        "def names(customer_id, values):\n"
        "    for value in values:\n"
        "        yield value, customer_id\n"
        "def define(pipeline):\n"
        "    pipeline.producer('customers', key='name string', value='customer_id bigint')(names)\n"
    )
    assert [one["stage"] for one in asked("graph")] == ["orders", "customers", "names"]
    call("run")
    assert [row["name"] for row in asked("show", "names")["rows"]] == ["Ann", "Bob", "Cid"]
    (stages / "c.py").write_text("")
    assert "there is no function define(pipeline)" in call("graph", code=2).stderr
