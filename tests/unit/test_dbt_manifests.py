"""dbt's manifests: which are read, and what their rows, tests and queries become."""

import json

import pytest
from sqlglot import exp

from deltaproduce import DefinitionError
from deltaproduce.projects.dbt.given.seeds import columns
from deltaproduce.projects.dbt.jinja.rendering import Renderer
from deltaproduce.projects.dbt.jinja.tables import KnownTables
from deltaproduce.projects.dbt.jinja.values import RenderingError
from deltaproduce.projects.dbt.manifest import Node, parsed
from deltaproduce.projects.dbt.sql.naming import stage_names
from deltaproduce.projects.dbt.sql.translation import spark_type, translated
from deltaproduce.projects.dbt.testing.expectations import Verdict

SCHEMA = "https://schemas.getdbt.com/dbt/manifest/v{}.json"


def manifest(version: object = 12, **sections: object) -> str:
    metadata = {
        "dbt_schema_version": SCHEMA.format(version),
        "dbt_version": "1.9.0",
        "adapter_type": "duckdb",
        "project_name": "shop",
    }
    return json.dumps({"metadata": metadata, **sections})


def node(id: str, **values: object) -> Node:
    sort, *_, name = id.split(".")
    given = {"name": name, "resource_type": sort, "package_name": "shop", **values}
    sections = {"sources" if sort == "source" else "nodes": {id: given}}
    found = parsed(manifest(**sections)).node(id)
    assert found is not None
    return found


def sql(text: str, dialect: str = "duckdb", **ephemeral: str) -> str:
    """A query in Spark's SQL on one line, whose tables are nodes and stages of their names."""

    class Names(dict):
        def __missing__(self, id: str) -> str:
            return id

    ctes = {f"__dbt__cte__{name}": query for name, query in ephemeral.items()}

    def node_of(table: exp.Table) -> str:
        return table.name

    return " ".join(translated(text, dialect, node_of, Names(), ctes, {}).sql.split())


@pytest.mark.parametrize("version", [12, 13, 20])
def test_manifests_of_dbt_1_8_and_newer_are_read(version: int) -> None:
    assert parsed(manifest(version)).adapter == "duckdb"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (manifest(11), "schema version 11"),
        (manifest("x"), "none of dbt's"),
        ("{}", "no metadata"),
        ("[", "not JSON"),
    ],
)
def test_other_manifests_are_refused(text: str, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        parsed(text)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-2", ""], "int"),
        (["1", "3000000000"], "bigint"),
        (["1", "2.0"], "double"),
        (["1e3", "null"], "int"),
        (["2024-01-31"], "date"),
        (["2024-01-31", "x"], "string"),
        (["2024-01-31 10:00:00", "2024-01-31T10:00:00.5Z"], "timestamp"),
        (["True", "false"], "boolean"),
        (["", ""], "int"),
        (["007", "x"], "string"),
    ],
)
def test_columns_of_seeds_have_the_types_that_dbt_finds(values: list[str], kind: str) -> None:
    text = "n,v\n" + "".join(f"{n},{value}\n" for n, value in enumerate(values))
    assert columns(text, ",", {})["v"] == kind
    assert columns(text, ",", {"V": "decimal(10, 2)"})["v"] == "decimal(10, 2)"


def test_a_line_of_another_length_is_refused() -> None:
    with pytest.raises(DefinitionError, match="3 values") as refused:
        columns("a,b\n1,2\n1,2,3\n", ",", {})
    assert refused.value.line == 3


def test_names_that_clash_get_their_schema() -> None:
    nodes = [
        node("model.shop.orders", schema="main"),
        node("model.shop.b", alias="Orders", schema="other"),
        node("source.shop.raw.orders", source_name="raw", schema="main"),
        node("model.shop.c", alias="_hidden", schema="main"),
    ]
    assert list(stage_names(nodes).values()) == [
        "orders",
        "other_Orders",
        "raw_orders",
        "main__hidden",
    ]


@pytest.mark.parametrize(
    ("config", "verdict"),
    [
        ({}, Verdict("error", 0)),
        ({"severity": "WARN"}, Verdict("warn", 0)),
        ({"error_if": ">10"}, Verdict("error", 10)),
        ({"error_if": ">= 10"}, Verdict("error", 9)),
    ],
)
def test_tests_keep_their_severity_and_limit(config: dict, verdict: Verdict) -> None:
    assert Verdict.of(node("test.shop.t", config=config)) == verdict


@pytest.mark.parametrize(
    ("config", "condition"),
    [
        ({"fail_calc": "sum(n)"}, "sum(n) != 0"),
        ({"fail_calc": "max(n)", "error_if": "> 10"}, "max(n) > 10"),
        ({"error_if": "<1"}, "count(*) < 1"),
        ({"error_if": "!= 3"}, "count(*) != 3"),
    ],
)
def test_tests_that_count_otherwise_are_queries(config: dict, condition: str) -> None:
    verdict = Verdict.of(node("test.shop.t", config=config))
    assert (verdict.at_most, verdict.condition) == (0, condition)
    assert verdict.broken_rows("select n from t").endswith(f"having {condition}")


def test_a_condition_that_is_no_comparison_is_refused() -> None:
    with pytest.raises(DefinitionError, match="between"):
        Verdict.of(node("test.shop.t", config={"error_if": "between 1 and 2"}))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('SELECT a FROM "d"."main"."T"', "SELECT a FROM T"),
        ("SELECT a / b AS c FROM m.t", "SELECT CAST(a AS DOUBLE) / b AS c FROM t"),
        ("SELECT avg(a) AS c FROM m.t", "SELECT AVG(CAST(a AS DOUBLE)) AS c FROM t"),
        (
            "SELECT (a / 100)::numeric(16, 2) AS c FROM m.t",
            "SELECT CAST(( a / CAST(100 AS DECIMAL(3, 0)) ) AS DECIMAL(16, 2)) AS c FROM t",
        ),
        (
            "SELECT date_diff('day', a, b) AS c FROM m.t",
            "SELECT DATEDIFF(CAST(b AS DATE), CAST(a AS DATE)) AS c FROM t",
        ),
        ("SELECT a::timestamp AS c FROM m.t", "SELECT CAST(a AS TIMESTAMP) AS c FROM t"),
        (
            "WITH t AS (SELECT * FROM m.t) SELECT t.a FROM t",
            "WITH t_1 AS ( SELECT * FROM t ) SELECT t.a FROM t_1 AS t",
        ),
    ],
)
def test_queries_of_duckdb_compute_the_same_in_spark(text: str, wanted: str) -> None:
    assert sql(text) == wanted


def test_columns_of_checks_get_names() -> None:
    text = "SELECT 1, a, count(*), b AS c FROM m.t"
    query = translated(text, "duckdb", lambda table: table.name, {"t": "t"}, {}, {}, is_check=True)
    assert " ".join(query.sql.split()) == (
        "SELECT 1 AS value_1, a, COUNT(*) AS value_3, b AS c FROM t"
    )


def rendered(text: str, **macros: str) -> str:
    """The text of a model with Jinja, in a project with these macros."""
    told = {"name": "m", "resource_type": "model", "package_name": "shop", "raw_code": text}
    sections = {
        "nodes": {"model.shop.m": told},
        "macros": {
            f"macro.shop.{name}": {"name": name, "package_name": "shop", "macro_sql": macro}
            for name, macro in macros.items()
        },
    }
    read = parsed(manifest(**sections))
    values = {"shop": {"least": 5, "kind": "{{ 'new' if target.name == 'dev' else 'old' }}"}}
    own = {"model.shop.m": {"id": "int", "_at": "timestamp"}}
    tables = KnownTables("duckdb", own.get, [*read.nodes.values()])
    renderer = Renderer(read, values, {"PLACE": "x"}, "dev", {"dbt_x": ["shop"]})
    return renderer.rendered(read.nodes["model.shop.m"], tables)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{{ var('least') }} {{ var('other', 7) }}", "5 7"),
        ("{{ env_var('PLACE') }} {{ target.name }} {{ target.type }}", "x dev duckdb"),
        ("{% if is_incremental() %}WHERE new{% endif %}", ""),
        ("{{ config(materialized='table') }}{{ half(4) }}", "4 / 2"),
        ("{% if false %}{% set a = 1 %}{% endif %}[{{ a }}]", "[]"),
        ("{{ fewer() }}", "1"),
        ("{{ var('none', none) is none }} {{ var('kind') }}", "True new"),
        ("{{ adapter.dispatch('half', 'dbt_x')(6) }}", "6 / 2"),
        ("{{ adapter.dispatch('half', 'no_package')(8) }}", "8 / 2"),
        ("{{ shop._hidden(this) }}", "True id, _at TIMESTAMPTZ"),
        ("{{ adapter.get_relation('d', '', 'm') == this }}", "True"),
        ("{{ run_started_at.strftime('%Y-%m-%d') }}", "8887-06-05"),
    ],
)
def test_jinja_is_rendered_as_dbt_does(text: str, wanted: str) -> None:
    macros = {
        "half": "{% macro half(n) %}{{ return(adapter.dispatch('half')(n)) }}{% endmacro %}",
        "default__half": "{% macro default__half(n) %}{{ n }} / 2{% endmacro %}",
        "_hidden": (
            "{% macro _hidden(table) %}{{ table is mapping }} {% for column in "
            "adapter.get_columns_in_relation(table) %}{{ column.name }}"
            "{{ ', ' if not loop.last else ' ' ~ column.dtype }}{% endfor %}{% endmacro %}"
        ),
        "fewer": "{% macro fewer() %}{% do return(1) %}{% endmacro %}",
    }
    assert rendered(text, **macros) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "{{ var('nowhere') }}",
        "{{ env_var('NOWHERE') }}",
        "{{ ref('nowhere') }}",
        "{{ source('a', 'b') }}",
        "{{ adapter.get_columns_in_relation(1) }}",
        "{{ adapter.get_relation('d', 's', 'other') }}",
        "{{ run_query('select 1') }}",
        "{{ adapter.execute('select 1') }}",
        "{{ nothing() }}",
        "{{ exceptions.raise_compiler_error('no') }}",
        "{% if %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ modules.re.enum.sys }}",
    ],
)
def test_jinja_that_needs_more_is_refused(text: str) -> None:
    with pytest.raises(RenderingError):
        rendered(f"[{text}]")


def test_ephemeral_models_are_ctes() -> None:
    text = sql("SELECT a FROM __dbt__cte__e", e="SELECT a FROM m.t")
    assert text == "WITH e_1 AS ( SELECT a FROM t ) SELECT a FROM e_1 AS __dbt__cte__e"


@pytest.mark.parametrize("text", ["", "SELECT 1; SELECT 2", "CREATE TABLE t (a int)"])
def test_what_is_no_query_is_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        sql(text)


@pytest.mark.parametrize(
    ("kind", "dialect", "wanted"),
    [
        ("timestamp", "duckdb", "timestamp"),
        ("varchar(10)", "postgres", "string"),
        ("number(38,0)", "snowflake", "decimal(38, 0)"),
        ("int64", "bigquery", "bigint"),
        ("no type!", "duckdb", None),
    ],
)
def test_types_of_databases_are_sparks(kind: str, dialect: str, wanted: str | None) -> None:
    assert spark_type(kind, dialect) == wanted
