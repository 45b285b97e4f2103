"""The worked examples of the library's founding document, every table row by row.

One pipeline and one store have all of them. Each example has its own source, so that all of them
take four updates. The expected rows are written by hand, not by the oracle.
"""

from pathlib import Path

import pytest
from comparing import read_by_delta_rs
from pyspark.sql import SparkSession

from deltaproduce import Pipeline, Store
from deltaproduce.testing import plain_rows


def worked_examples():
    pipeline = Pipeline("worked examples")
    for define in (fruit, word_counting, average_salary, groups_of_emails):
        define(pipeline)
    return pipeline


def fruit(pipeline):
    """Content of the form target key, source key, value: (105, 6, apple), ..."""
    baskets = pipeline.source("baskets", key="basket int", value="shelf int, fruit string")

    @pipeline.producer(baskets, key="shelf int", value="fruit string")
    def shelves(basket, values):
        for value in values:
            yield value.shelf, value.fruit


def word_counting(pipeline):
    """Map, then reduce."""
    lines = pipeline.source("lines", key="document string, line int", value="text string")

    @pipeline.producer(lines, key="word string", value="occurrences bigint")
    def words(key, values):
        for text in values:
            for word in text.split():
                yield word, 1

    @pipeline.producer(words, key="word string", value="occurrences bigint")
    def word_counts(word, values):
        yield word, sum(values)


def average_salary(pipeline):
    """By age range, the work for one range being split by a salted compound key."""
    persons = pipeline.source("persons", key="person_id int", value="age int, salary bigint")

    @pipeline.producer(persons, key="age_range string, r int", value="salary bigint")
    def salaries(person_id, values):
        for person in values:
            decade = person.age // 10 * 10
            yield (f"{decade}-{decade + 9}", person_id % 10), person.salary

    @pipeline.producer(salaries, key="age_range string", value="persons bigint, total bigint")
    def partial_sums(key, values):
        found = list(values)
        yield key.age_range, (len(found), sum(found))

    @pipeline.producer(partial_sums, key="age_range string", value="average double")
    def average_salaries(age_range, values):
        found = list(values)
        yield age_range, sum(v.total for v in found) / sum(v.persons for v in found)


def groups_of_emails(pipeline):
    """All persons are one sequence under the constant key 1."""
    people = pipeline.source("people", key="constant int", value="name string, email string")

    @pipeline.producer(people, key="email string", value="name string")
    def by_email(_, values):
        for person in values:
            yield person.email, person.name

    @pipeline.producer(by_email, key="email string", value="name string")
    def email_groups(email, values):
        names = list(values)
        if len(names) >= 2:
            for name in names:
                yield email, name


FRUITS = "basket int, shelf int, fruit string"
LINES = "document string, line int, text string"
PERSONS = "person_id int, age int, salary bigint"
PEOPLE = "constant int, name string, email string"

BATCHES = [
    {  # version 1: the load
        "baskets": ([(9, 105, "banana"), (4, 108, "mango"), (6, 105, "apple")], FRUITS),
        "lines": (
            [("a.txt", 1, "the cat the"), ("a.txt", 2, "dog cat"), ("b.txt", 1, "dog")],
            LINES,
        ),
        "persons": (
            [(1, 34, 3000), (2, 38, 5000), (3, 29, 2000), (11, 31, 4000), (12, 45, 6000)],
            PERSONS,
        ),
        "people": (
            [
                (1, "Ann", "a@x"),
                (1, "Bob", "b@x"),
                (1, "Cat", "a@x"),
                (1, "Dan", "c@x"),
                (1, "Eve", "c@x"),
            ],
            PEOPLE,
        ),
    },
    {  # version 2: values of source key 6 are replaced, and something changes in each example
        "baskets": ([(6, 105, "cherry")], FRUITS),
        "lines": (
            [("a.txt", 2, "bird cat", "upsert"), ("b.txt", 1, None, "delete")],
            f"{LINES}, _change_type string",
        ),
        "persons": ([(11, 31, 7000), (12, 50, 6000)], PERSONS),
        "people": (
            [
                (1, "Ann", "a@x"),
                (1, "Bob", "b@x"),
                (1, "Cat", "b@x"),
                (1, "Dan", "c@x"),
                (1, "Eve", "c@x"),
            ],
            PEOPLE,
        ),
    },
    {"baskets": ([(6, 107, "cherry")], FRUITS)},  # version 3: 6 moves away from 105
    {  # version 4: 6 is deleted
        "baskets": ([(6, None, None, "delete")], f"{FRUITS}, _change_type string")
    },
]


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Store:
    path: Path = tmp_path_factory.mktemp("examples") / "store"
    made = Store(spark, str(path), worked_examples())
    for number, batch in enumerate(BATCHES, start=1):
        frames = {name: spark.createDataFrame(*given) for name, given in batch.items()}
        assert made.update(frames).number == number
    return read_by_delta_rs(made)


def assert_tables(store, stage, version, *, content, updates, key_mappings=None):
    """The stage's tables hold exactly these rows, in this order; a source has no key mappings."""
    tables = {"content": content, "updates": updates}
    if key_mappings is not None:
        tables["key_mappings"] = key_mappings
    for table, expected in tables.items():
        frame = getattr(store, table)(stage, version, ordered=True)
        assert plain_rows(frame.collect()) == expected, f"{table} of {stage}, version {version}"


def delta_versions(store, stage):
    return [version.stages[stage].delta_versions for version in store.versions()]


# ---- fruit


def test_columns(store):
    assert store.content("baskets").columns == ["basket", "shelf", "fruit", "_ordinal"]
    assert store.content("shelves").columns == ["shelf", "fruit", "_source_basket", "_ordinal"]
    assert store.key_mappings("shelves").columns == ["_source_basket", "shelf"]
    assert store.updates("shelves").columns == [
        *("_version", "_change_type", "shelf", "_position", "fruit")
    ]


def test_fruit_is_loaded(store):
    assert_tables(
        store,
        "baskets",
        1,
        content=[(4, 108, "mango", 0), (6, 105, "apple", 0), (9, 105, "banana", 0)],
        updates=[
            (1, "add", 4, 0, 108, "mango"),
            (1, "add", 6, 0, 105, "apple"),
            (1, "add", 9, 0, 105, "banana"),
        ],
    )
    assert_tables(
        store,
        "shelves",
        1,
        content=[(105, "apple", 6, 0), (105, "banana", 9, 0), (108, "mango", 4, 0)],
        key_mappings=[(4, 108), (6, 105), (9, 105)],
        updates=[
            (1, "add", 105, 0, "apple"),
            (1, "update", 105, 1, "banana"),
            (1, "add", 108, 0, "mango"),
        ],
    )


def test_values_of_source_key_6_are_replaced(store):
    assert_tables(
        store,
        "baskets",
        2,
        content=[(4, 108, "mango", 0), (6, 105, "cherry", 0), (9, 105, "banana", 0)],
        updates=[(2, "update", 6, 0, 105, "cherry")],
    )
    assert_tables(
        store,
        "shelves",
        2,
        content=[(105, "cherry", 6, 0), (105, "banana", 9, 0), (108, "mango", 4, 0)],
        key_mappings=[(4, 108), (6, 105), (9, 105)],
        updates=[(2, "update", 105, 0, "cherry"), (2, "update", 105, 1, "banana")],
    )
    first, second, *_ = delta_versions(store, "shelves")
    assert second["key_mappings"] == first["key_mappings"]  # nothing to write there


def test_source_key_6_moves_away_from_105(store):
    assert_tables(
        store,
        "baskets",
        3,
        content=[(4, 108, "mango", 0), (6, 107, "cherry", 0), (9, 105, "banana", 0)],
        updates=[(3, "update", 6, 0, 107, "cherry")],
    )
    assert_tables(
        store,
        "shelves",
        3,
        content=[(105, "banana", 9, 0), (107, "cherry", 6, 0), (108, "mango", 4, 0)],
        key_mappings=[(4, 108), (6, 107), (9, 105)],
        updates=[(3, "update", 105, 0, "banana"), (3, "add", 107, 0, "cherry")],
    )


def test_source_key_6_is_deleted(store):
    assert_tables(
        store,
        "baskets",
        4,
        content=[(4, 108, "mango", 0), (9, 105, "banana", 0)],
        updates=[(4, "delete", 6, 0, None, None)],
    )
    assert_tables(
        store,
        "shelves",
        4,
        content=[(105, "banana", 9, 0), (108, "mango", 4, 0)],
        key_mappings=[(4, 108), (9, 105)],
        updates=[(4, "delete", 107, 0, None)],
    )


# ---- word counting


def test_words_are_counted(store):
    assert_tables(
        store,
        "lines",
        1,
        content=[
            ("a.txt", 1, "the cat the", 0),
            ("a.txt", 2, "dog cat", 0),
            ("b.txt", 1, "dog", 0),
        ],
        updates=[
            (1, "add", "a.txt", 1, 0, "the cat the"),
            (1, "add", "a.txt", 2, 0, "dog cat"),
            (1, "add", "b.txt", 1, 0, "dog"),
        ],
    )
    assert_tables(
        store,
        "words",
        1,
        content=[
            ("cat", 1, "a.txt", 1, 0),
            ("cat", 1, "a.txt", 2, 0),
            ("dog", 1, "a.txt", 2, 0),
            ("dog", 1, "b.txt", 1, 0),
            ("the", 1, "a.txt", 1, 0),
            ("the", 1, "a.txt", 1, 1),
        ],
        key_mappings=[
            ("a.txt", 1, "cat"),
            ("a.txt", 1, "the"),
            ("a.txt", 2, "cat"),
            ("a.txt", 2, "dog"),
            ("b.txt", 1, "dog"),
        ],
        updates=[
            (1, "add", "cat", 0, 1),
            (1, "update", "cat", 1, 1),
            (1, "add", "dog", 0, 1),
            (1, "update", "dog", 1, 1),
            (1, "add", "the", 0, 1),
            (1, "update", "the", 1, 1),
        ],
    )
    assert_tables(
        store,
        "word_counts",
        1,
        content=[("cat", 2, "cat", 0), ("dog", 2, "dog", 0), ("the", 2, "the", 0)],
        key_mappings=[("cat", "cat"), ("dog", "dog"), ("the", "the")],
        updates=[(1, "add", "cat", 0, 2), (1, "add", "dog", 0, 2), (1, "add", "the", 0, 2)],
    )


def test_a_changed_and_a_deleted_line_change_two_counts(store):
    assert_tables(
        store,
        "lines",
        2,
        content=[("a.txt", 1, "the cat the", 0), ("a.txt", 2, "bird cat", 0)],
        updates=[(2, "update", "a.txt", 2, 0, "bird cat"), (2, "delete", "b.txt", 1, 0, None)],
    )
    assert_tables(
        store,
        "words",
        2,
        content=[
            ("bird", 1, "a.txt", 2, 0),
            ("cat", 1, "a.txt", 1, 0),
            ("cat", 1, "a.txt", 2, 0),
            ("the", 1, "a.txt", 1, 0),
            ("the", 1, "a.txt", 1, 1),
        ],
        key_mappings=[
            ("a.txt", 1, "cat"),
            ("a.txt", 1, "the"),
            ("a.txt", 2, "bird"),
            ("a.txt", 2, "cat"),
        ],
        updates=[(2, "add", "bird", 0, 1), (2, "delete", "dog", 0, None)],  # cat: touched, equal
    )
    assert_tables(
        store,
        "word_counts",
        2,
        content=[("bird", 1, "bird", 0), ("cat", 2, "cat", 0), ("the", 2, "the", 0)],
        key_mappings=[("bird", "bird"), ("cat", "cat"), ("the", "the")],
        updates=[(2, "add", "bird", 0, 1), (2, "delete", "dog", 0, None)],
    )


# ---- average salary by age range


def test_salaries_are_averaged(store):
    assert_tables(
        store,
        "persons",
        1,
        content=[
            (1, 34, 3000, 0),
            (2, 38, 5000, 0),
            (3, 29, 2000, 0),
            (11, 31, 4000, 0),
            (12, 45, 6000, 0),
        ],
        updates=[
            (1, "add", 1, 0, 34, 3000),
            (1, "add", 2, 0, 38, 5000),
            (1, "add", 3, 0, 29, 2000),
            (1, "add", 11, 0, 31, 4000),
            (1, "add", 12, 0, 45, 6000),
        ],
    )
    assert_tables(
        store,
        "salaries",
        1,
        content=[
            ("20-29", 3, 2000, 3, 0),
            ("30-39", 1, 3000, 1, 0),
            ("30-39", 1, 4000, 11, 0),
            ("30-39", 2, 5000, 2, 0),
            ("40-49", 2, 6000, 12, 0),
        ],
        key_mappings=[
            (1, "30-39", 1),
            (2, "30-39", 2),
            (3, "20-29", 3),
            (11, "30-39", 1),
            (12, "40-49", 2),
        ],
        updates=[
            (1, "add", "20-29", 3, 0, 2000),
            (1, "add", "30-39", 1, 0, 3000),
            (1, "update", "30-39", 1, 1, 4000),
            (1, "add", "30-39", 2, 0, 5000),
            (1, "add", "40-49", 2, 0, 6000),
        ],
    )
    assert_tables(
        store,
        "partial_sums",
        1,
        content=[
            ("20-29", 1, 2000, "20-29", 3, 0),
            ("30-39", 2, 7000, "30-39", 1, 0),
            ("30-39", 1, 5000, "30-39", 2, 0),
            ("40-49", 1, 6000, "40-49", 2, 0),
        ],
        key_mappings=[
            ("20-29", 3, "20-29"),
            ("30-39", 1, "30-39"),
            ("30-39", 2, "30-39"),
            ("40-49", 2, "40-49"),
        ],
        updates=[
            (1, "add", "20-29", 0, 1, 2000),
            (1, "add", "30-39", 0, 2, 7000),
            (1, "update", "30-39", 1, 1, 5000),
            (1, "add", "40-49", 0, 1, 6000),
        ],
    )
    assert_tables(
        store,
        "average_salaries",
        1,
        content=[
            ("20-29", 2000.0, "20-29", 0),
            ("30-39", 4000.0, "30-39", 0),
            ("40-49", 6000.0, "40-49", 0),
        ],
        key_mappings=[("20-29", "20-29"), ("30-39", "30-39"), ("40-49", "40-49")],
        updates=[
            (1, "add", "20-29", 0, 2000.0),
            (1, "add", "30-39", 0, 4000.0),
            (1, "add", "40-49", 0, 6000.0),
        ],
    )


def test_a_rise_and_a_birthday_change_their_age_ranges_only(store):
    assert_tables(
        store,
        "persons",
        2,
        content=[
            (1, 34, 3000, 0),
            (2, 38, 5000, 0),
            (3, 29, 2000, 0),
            (11, 31, 7000, 0),
            (12, 50, 6000, 0),
        ],
        updates=[(2, "update", 11, 0, 31, 7000), (2, "update", 12, 0, 50, 6000)],
    )
    assert_tables(
        store,
        "salaries",
        2,
        content=[
            ("20-29", 3, 2000, 3, 0),
            ("30-39", 1, 3000, 1, 0),
            ("30-39", 1, 7000, 11, 0),
            ("30-39", 2, 5000, 2, 0),
            ("50-59", 2, 6000, 12, 0),
        ],
        key_mappings=[
            (1, "30-39", 1),
            (2, "30-39", 2),
            (3, "20-29", 3),
            (11, "30-39", 1),
            (12, "50-59", 2),
        ],
        updates=[
            (2, "update", "30-39", 1, 0, 3000),
            (2, "update", "30-39", 1, 1, 7000),
            (2, "delete", "40-49", 2, 0, None),
            (2, "add", "50-59", 2, 0, 6000),
        ],
    )
    assert_tables(
        store,
        "partial_sums",
        2,
        content=[
            ("20-29", 1, 2000, "20-29", 3, 0),
            ("30-39", 2, 10000, "30-39", 1, 0),
            ("30-39", 1, 5000, "30-39", 2, 0),
            ("50-59", 1, 6000, "50-59", 2, 0),
        ],
        key_mappings=[
            ("20-29", 3, "20-29"),
            ("30-39", 1, "30-39"),
            ("30-39", 2, "30-39"),
            ("50-59", 2, "50-59"),
        ],
        updates=[
            (2, "update", "30-39", 0, 2, 10000),
            (2, "update", "30-39", 1, 1, 5000),
            (2, "delete", "40-49", 0, None, None),
            (2, "add", "50-59", 0, 1, 6000),
        ],
    )
    assert_tables(
        store,
        "average_salaries",
        2,
        content=[
            ("20-29", 2000.0, "20-29", 0),
            ("30-39", 5000.0, "30-39", 0),
            ("50-59", 6000.0, "50-59", 0),
        ],
        key_mappings=[("20-29", "20-29"), ("30-39", "30-39"), ("50-59", "50-59")],
        updates=[
            (2, "update", "30-39", 0, 5000.0),
            (2, "delete", "40-49", 0, None),
            (2, "add", "50-59", 0, 6000.0),
        ],
    )


# ---- e-mail groups


def test_persons_with_the_same_email_are_groups(store):
    assert_tables(
        store,
        "people",
        1,
        content=[
            (1, "Ann", "a@x", 0),
            (1, "Bob", "b@x", 1),
            (1, "Cat", "a@x", 2),
            (1, "Dan", "c@x", 3),
            (1, "Eve", "c@x", 4),
        ],
        updates=[
            (1, "add", 1, 0, "Ann", "a@x"),
            (1, "update", 1, 1, "Bob", "b@x"),
            (1, "update", 1, 2, "Cat", "a@x"),
            (1, "update", 1, 3, "Dan", "c@x"),
            (1, "update", 1, 4, "Eve", "c@x"),
        ],
    )
    assert_tables(
        store,
        "by_email",
        1,
        content=[
            ("a@x", "Ann", 1, 0),
            ("a@x", "Cat", 1, 1),
            ("b@x", "Bob", 1, 0),
            ("c@x", "Dan", 1, 0),
            ("c@x", "Eve", 1, 1),
        ],
        key_mappings=[(1, "a@x"), (1, "b@x"), (1, "c@x")],
        updates=[
            (1, "add", "a@x", 0, "Ann"),
            (1, "update", "a@x", 1, "Cat"),
            (1, "add", "b@x", 0, "Bob"),
            (1, "add", "c@x", 0, "Dan"),
            (1, "update", "c@x", 1, "Eve"),
        ],
    )
    assert_tables(
        store,
        "email_groups",
        1,
        content=[
            ("a@x", "Ann", "a@x", 0),
            ("a@x", "Cat", "a@x", 1),
            ("c@x", "Dan", "c@x", 0),
            ("c@x", "Eve", "c@x", 1),
        ],
        key_mappings=[("a@x", "a@x"), ("c@x", "c@x")],
        updates=[
            (1, "add", "a@x", 0, "Ann"),
            (1, "update", "a@x", 1, "Cat"),
            (1, "add", "c@x", 0, "Dan"),
            (1, "update", "c@x", 1, "Eve"),
        ],
    )


def test_a_changed_email_breaks_a_group_and_makes_another(store):
    assert_tables(
        store,
        "people",
        2,
        content=[
            (1, "Ann", "a@x", 0),
            (1, "Bob", "b@x", 1),
            (1, "Cat", "b@x", 2),
            (1, "Dan", "c@x", 3),
            (1, "Eve", "c@x", 4),
        ],
        updates=[
            (2, "update", 1, 0, "Ann", "a@x"),
            (2, "update", 1, 1, "Bob", "b@x"),
            (2, "update", 1, 2, "Cat", "b@x"),
            (2, "update", 1, 3, "Dan", "c@x"),
            (2, "update", 1, 4, "Eve", "c@x"),
        ],
    )
    assert_tables(
        store,
        "by_email",
        2,
        content=[
            ("a@x", "Ann", 1, 0),
            ("b@x", "Bob", 1, 0),
            ("b@x", "Cat", 1, 1),
            ("c@x", "Dan", 1, 0),
            ("c@x", "Eve", 1, 1),
        ],
        key_mappings=[(1, "a@x"), (1, "b@x"), (1, "c@x")],
        updates=[
            (2, "update", "a@x", 0, "Ann"),
            (2, "update", "b@x", 0, "Bob"),
            (2, "update", "b@x", 1, "Cat"),
        ],
    )
    assert_tables(
        store,
        "email_groups",
        2,
        content=[
            ("b@x", "Bob", "b@x", 0),
            ("b@x", "Cat", "b@x", 1),
            ("c@x", "Dan", "c@x", 0),
            ("c@x", "Eve", "c@x", 1),
        ],
        key_mappings=[("b@x", "b@x"), ("c@x", "c@x")],
        updates=[
            (2, "delete", "a@x", 0, None),
            (2, "add", "b@x", 0, "Bob"),
            (2, "update", "b@x", 1, "Cat"),
        ],
    )


def test_examples_without_changes_cost_nothing(store):
    for stage in ("words", "word_counts", "average_salaries", "email_groups", "people"):
        assert len({tuple(found.items()) for found in delta_versions(store, stage)[1:]}) == 1
