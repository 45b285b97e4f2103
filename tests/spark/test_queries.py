"""The law of key-local queries, and the assumptions about Spark's functions, tested in Spark."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pytest
from pyspark.sql import SparkSession
from query_catalogue import (
    ACCEPTED,
    ACCEPTED_BY_SPARK,
    ALL_STAGES,
    KEYS,
    ORDERED,
    Row,
    examples,
    of_key,
    rows,
)

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries import Query, key_local
from deltaproduce.stages.sql.functions import (
    AGGREGATES,
    GENERATORS,
    ORDER_DEPENDENT,
    ORDERING,
    PHYSICAL,
    VOLATILE,
)
from deltaproduce.types.ddl import identifier

PARTS = ("all", "some", "others")


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with the stages as views: of all source keys under their names, and by part."""
    content = rows(seed=3)  # of which every example returns some
    create(spark, content, {stage: stage for stage in ALL_STAGES})
    create(spark, content, views("all"))
    for part, first in (("some", 0), ("others", 1)):
        halves = [of_key(content, key) for keys in KEYS.values() for key in keys[first::2]]
        half = {name: [row for one in halves for row in one[name]] for name in ALL_STAGES}
        create(spark, half, views(part))
    yield spark
    for name in [*ALL_STAGES, *(view for part in PARTS for view in views(part).values())]:
        spark.catalog.dropTempView(name)


def create(
    spark: SparkSession, content: Mapping[str, Sequence[Row]], names: Mapping[str, str]
) -> None:
    for stage, schema in ALL_STAGES.items():
        columns = ", ".join(map(identifier, schema.names))
        nothing = ", ".join("CAST(NULL AS INT)" for _ in schema.names)
        literals = [["NULL" if v is None else str(v) for v in row] for row in content[stage]]
        values = [f"({nothing}, FALSE)", *(f"({', '.join(row)}, TRUE)" for row in literals)]
        spark.sql(
            f"CREATE TEMPORARY VIEW {identifier(names[stage])} AS SELECT {columns}"
            f" FROM VALUES {', '.join(values)} AS t({columns}, is_row) WHERE is_row"
        )


def views(part: str) -> dict[str, str]:
    return {stage: f"_{part} {stage}" for stage in ALL_STAGES}


def query(text: str) -> Query:
    return key_local(text, ALL_STAGES, stage="the stage")


def own(text: str) -> str:
    """The user's query as a subquery."""
    return f"(\n{text.rstrip(' ;')}\n)"


@pytest.mark.parametrize("text", [*examples(ACCEPTED, every=5), *examples(ACCEPTED_BY_SPARK)])
def test_accepted_queries_are_key_local(session: SparkSession, text: str) -> None:
    """Over half of the source keys it gives their rows; without the source key, the user's.

    In a short run Spark has a fifth of what `tests/unit` has all of, with DuckDB.
    """
    found = query(text)
    hidden = (*found.sources, *found.orders)
    parts = [f"SELECT '{part}' AS `_part`, * FROM ({found.sql(views(part))})" for part in PARTS]
    nothing = "".join("NULL, " for _ in hidden)
    frame = session.sql(" UNION ALL ".join([*parts, f"SELECT 'own', {nothing}* FROM {own(text)}"]))
    assert tuple(frame.columns) == ("_part", *hidden, *found.names)

    by_part = defaultdict(Counter)
    for part, *values in frame.collect():
        by_part[part][repr(values)] += 1
        if part != "own":
            by_part["dropped"][repr(values[len(hidden) :])] += 1
            key = tuple(values[: len(found.sources)])
            half = KEYS[len(key)].index(key) % 2
            assert part in ("all", PARTS[1 + half])
        else:
            by_part["users"][repr(values[len(hidden) :])] += 2  # in all, and in one of the halves
    assert by_part["users"]
    assert by_part["all"] == by_part["some"] + by_part["others"]
    assert by_part["dropped"] == by_part["users"]


@pytest.mark.parametrize("text", examples(ORDERED))
def test_the_order_is_that_of_the_query(session: SparkSession, text: str) -> None:
    """Numbered by what the query says, a source key's rows are in the order of the user's query."""
    found = query(text)
    numbered = session.sql(
        f"SELECT *, row_number() OVER (PARTITION BY {', '.join(found.sources)}"
        f" ORDER BY {found.order}) AS `_number` FROM ({found.sql(views('all'))})"
    )
    hidden = len(found.sources) + len(found.orders)
    by_key = defaultdict(list)
    for row in sorted(numbered.collect(), key=lambda row: row["_number"]):
        by_key[row["k"]].append(tuple(row[hidden:-1]))
    expected = defaultdict(list)
    for row in session.sql(text).collect():
        expected[row["k"]].append(tuple(row))
    assert by_key == expected
    assert max(map(len, by_key.values())) > 1


# Functions


@pytest.fixture(scope="module")
def functions(spark: SparkSession) -> dict[str, str]:
    """The classes of all functions that have a name, by name."""
    found = spark.catalog.listFunctions()
    return {f.name: f.className or "" for f in found if re.fullmatch("[a-z_0-9]+", f.name)}


def test_all_aggregates_are_known(functions: dict[str, str]) -> None:
    by_class = re.compile(r"\.aggregate\.|(?<!Array)Agg(regate|Expression.*)?$|Grouping")
    found = {name for name, class_name in functions.items() if by_class.search(class_name)}
    assert len(found) >= 80
    assert found - AGGREGATES == set()


def test_the_listed_functions_exist(spark: SparkSession, functions: dict[str, str]) -> None:
    """In the newest Spark that is taken; an older one lacks some."""
    listed = AGGREGATES | ORDER_DEPENDENT | ORDERING | VOLATILE | PHYSICAL | GENERATORS
    missing = listed - functions.keys()
    assert (missing == set()) == (spark.version >= "4.2")


SPECIAL = {"between", "case", "cast", "extract", "if", "in", "not", "overlay", "position", "when"}
"""Functions that are not called by name and arguments."""


def test_every_function_can_be_read(functions: dict[str, str]) -> None:
    """What sqlglot makes of a name must not depend on how many arguments it thinks are right."""
    unread = {}
    for name in sorted(functions.keys() - SPECIAL - PHYSICAL - GENERATORS):
        call = (
            f"{name}(x, k)" if name in VOLATILE else f"{name}(x) OVER (PARTITION BY k ORDER BY x)"
        )
        try:
            query(f"SELECT {call} AS a FROM orders")
        except DefinitionError as error:
            unread[name] = error
    assert unread == {}
