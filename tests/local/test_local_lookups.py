"""Look-ups without a session: the rows of given keys, by whichever way they are found."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from local_stores import IN_PARTS, WAYS, as_rows
from odd_columns import TYPES
from selecting import some

import deltaproduce as dp
from deltaproduce.testing import Delete, Upsert

LIMITS = {**WAYS, "in parts": IN_PARTS}
STRATEGIES: Sequence[dp.Strategy] = ("auto", "seek", "scan")
TEXTS = (None, "", "\0", "a", "a\0", "ab", "ü", "z" * 40)


def site() -> dp.Pipeline:
    """A source with many nulls in its key, a stage of it, and indexes of both."""
    pipeline = dp.Pipeline("site")
    events = pipeline.source(
        "events", key="site string, id bigint desc", value="email string, n bigint"
    )
    pipeline.index("by_email", events, key="email string", include="n")

    @pipeline.producer(events, key="n bigint", value="email string, site string")
    def by_n(key: Any, values: Iterator[Any]) -> Iterator[Any]:
        yield from ((value.n, (value.email, key.site)) for value in values)

    pipeline.index("by_both", by_n, key="site, email desc, n % 2 AS odd", include="n AS number")
    return pipeline


def batch(chance: random.Random, keys: int) -> dict[str, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for _ in range(keys):
        key = (chance.choice(TEXTS), chance.choice([None, *range(12)]))
        rows = [
            Upsert(key, (chance.choice(TEXTS), chance.choice([None, *range(9)])))
            for _ in range(chance.choice([1, 1, 2]))
        ]
        found[key] = [Delete(key)] if chance.random() < 0.2 else rows
    return {"events": [change for changes in found.values() for change in changes]}


def filtered(rows: pa.Table, columns: Sequence[str], keys: Sequence[tuple[Any, ...]]) -> Any:
    wanted = set(keys)
    return [row for row in rows.to_pylist() if tuple(row[name] for name in columns) in wanted]


KEYS = {
    "events": lambda chance: (chance.choice(TEXTS), chance.choice([None, *range(14)])),
    "by_email": lambda chance: (chance.choice([*TEXTS, "no"]),),
    "by_n": lambda chance: (chance.choice([None, *range(11)]),),
    "by_both": lambda chance: (
        *chance.choices(TEXTS, k=2),
        chance.choice([None, 0, 1]),
    ),
}
FETCHED = {
    "by_email": ("events", lambda row: (row["email"],)),
    "by_both": (
        "by_n",
        lambda row: (row["site"], row["email"], None if row["n"] is None else row["n"] % 2),
    ),
}


@pytest.mark.parametrize(
    ("way", "seed"),
    some(
        ((w, n) for w in LIMITS for n in range(20)),
        lambda way, seed: seed < 1 and way in ("runs, often folded", "in parts"),
    ),
)
def test_a_lookup_gives_the_rows_of_its_keys(location: str, way: str, seed: int) -> None:
    """In every version, by every strategy, of keys that are null, repeated or not there."""
    pipeline, chance = site(), random.Random(f"{way} {seed}")
    with dp.Store(None, location, pipeline, limits=LIMITS[way]) as store:
        for size in (60, 5, 9, 2):
            store.update(as_rows(pipeline, batch(chance, size)))
        for _ in range(12):
            stage, number = chance.choice([*KEYS]), chance.randint(0, store.head.number)
            names = pipeline.graph().stage(stage).schema.key.names
            keys = [KEYS[stage](chance) for _ in range(chance.choice([0, 1, 3, 30]))]
            given = keys if len(names) > 1 else [key for (key,) in keys]
            content = store.content(stage, number, ordered=True)
            assert isinstance(content, pa.Table)
            for strategy in STRATEGIES:
                found = store.lookup(stage, given, version=number, strategy=strategy, ordered=True)
                assert found.rows.schema == content.schema
                assert found.rows.to_pylist() == filtered(content, names, keys)
                assert found.keys == len({*keys})
                check_figures(found, strategy)
            if stage in FETCHED:
                feeder, key_of = FETCHED[stage]
                rows = store.content(feeder, number, ordered=True).to_pylist()
                fetched = store.lookup(stage, given, version=number, fetch=True, ordered=True)
                assert fetched.rows.to_pylist() == [row for row in rows if key_of(row) in keys]


def check_figures(found: dp.Lookup, strategy: dp.Strategy) -> None:
    assert found.row_groups_read is not None
    assert found.row_groups is not None
    assert 0 <= found.row_groups_read <= found.row_groups
    if strategy != "auto":
        assert found.strategy == strategy
    if found.strategy == "scan":
        assert found.row_groups_read == found.row_groups


@pytest.mark.parametrize(
    "limits", [dp.Limits(), dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=2)]
)
def test_keys_of_every_type_are_found(location: str, limits: dp.Limits) -> None:
    """Each odd value of a type under a number of its own, through an index of that column."""
    pipeline = dp.Pipeline("types")
    for place, (data_type, _) in enumerate(TYPES):
        name, value = f"rows_{place}", f"v {data_type.simpleString()}"
        pipeline.source(name, key="id int", value=value)
        pipeline.index(f"index_{place}", name, key=value)
    batch = {
        f"rows_{place}": [{"id": n, "v": value} for n, value in enumerate(values)]
        for place, (_, values) in enumerate(TYPES)
    }
    with dp.Store(None, location, pipeline, limits=limits) as store:
        store.update(batch)
        for place, (_, values) in enumerate(TYPES):
            content = store.content(f"index_{place}")
            assert isinstance(content, pa.Table)
            for wanted in ({*range(0, len(values), 2)}, {*range(1, len(values), 3)}, {0}):
                given = [value for n, value in enumerate(values) if n in wanted]
                ids = content.column("id").to_pylist()
                table = content.select(["v"]).filter(pa.array([n in wanted for n in ids]))
                for strategy in STRATEGIES:
                    for keys in (given, table):
                        found = store.lookup(f"index_{place}", keys, strategy=strategy)
                        assert {*found.rows.column("id").to_pylist()} == wanted
                        assert (found.keys, len(found.rows)) == (len(wanted), len(wanted))


def members() -> dp.Pipeline:
    pipeline = dp.Pipeline("club")
    people = pipeline.source("people", key="id bigint", value="email string, age int")
    pipeline.index("by_email", people, key="email", include="age")
    pipeline.aggregate("all", people, key="", values={"rows": dp.agg.count()})
    return pipeline


MEMBERS = [{"id": n, "email": f"m{n:04}" if n % 4 else None, "age": n % 90} for n in range(4_000)]
LARGE = dp.Limits(small_table_rows=0, replaced_percent=900, group_rows=50)


@pytest.fixture(scope="module")
def club(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dp.Store]:
    location = str(tmp_path_factory.mktemp("club") / "store")
    with dp.Store(None, location, members(), limits=LARGE) as store:
        store.update({"people": MEMBERS})
        yield store


def test_few_keys_are_sought_and_many_are_scanned_for(club: dp.Store) -> None:
    few = club.lookup("people", [5, 6, 3_990])
    assert (few.strategy, few.keys, few.row_groups_read, few.row_groups) == ("seek", 3, 2, 80)
    below = club.lookup("people", list(range(1_199)))
    assert (below.strategy, below.row_groups_read) == ("seek", 24)
    above = club.lookup("people", list(range(1_200)))
    assert (above.strategy, above.row_groups_read, len(above.rows)) == ("scan", 80, 1_200)


def test_nulls_are_sought_where_they_are(club: dp.Store) -> None:
    """A quarter of the index has the key null, which fills row groups of its own."""
    nulls = club.lookup("by_email", [None])
    assert (nulls.strategy, nulls.row_groups_read, len(nulls.rows)) == ("seek", 20, 1_000)
    one = club.lookup("by_email", ["m0007"])
    assert (one.strategy, one.row_groups_read, len(one.rows)) == ("seek", 1, 1)


def test_an_index_fetches_rows_of_the_version_that_is_asked_for(location: str) -> None:
    with dp.Store(None, location, members()) as store:
        store.update({"people": [{"id": 1, "email": "a", "age": 1}, {"id": 2, "email": "a"}]})
        store.update({"people": [{"id": 1, "email": "b", "age": 2}]})
        found = store.lookup("by_email", ["a"], version=1, fetch=True, ordered=True)
        assert found.rows.column("age").to_pylist() == [1, None]
        assert store.lookup("by_email", ["a"], fetch=True).rows.column("id").to_pylist() == [2]
        assert store.lookup("by_email", ["a"], version=0, fetch=True).rows.num_rows == 0


def test_keys_come_in_many_forms(club: dp.Store) -> None:
    table = pa.table({"other": ["x", "y"], "ID": pa.array([7, 7], pa.int16())})
    for keys in ([7], [{"id": 7}], (7, 7), table, table.to_batches()[0]):
        found = club.lookup("people", keys)
        assert (found.keys, found.rows.column("id").to_pylist()) == (1, [7])
    assert club.lookup("people", []).rows.num_rows == 0


@pytest.mark.parametrize(
    ("stage", "arguments", "argument"),
    [
        ("people", {"keys": 7}, "keys"),
        ("people", {"keys": "7"}, "keys"),
        ("people", {"keys": ["7"]}, "keys"),
        ("people", {"keys": [(7, 8)]}, "keys"),
        ("people", {"keys": [2**63]}, "keys"),
        ("people", {"keys": pa.table({"number": [7]})}, "keys"),
        ("people", {"keys": pa.table({"id": ["7"]})}, "keys"),
        ("people", {"keys": pa.table({"id": [7.5]})}, "keys"),
        ("people", {"keys": pa.table([[7], [8]], ["id", "Id"])}, "keys"),
        ("people", {"keys": [7], "strategy": "join"}, "strategy"),
        ("people", {"keys": [7], "fetch": True}, "fetch"),
        ("people", {"keys": [7], "fetch": 1}, "fetch"),
        ("people", {"keys": [7], "ordered": None}, "ordered"),
        ("all", {"keys": [True]}, "stage"),
    ],
)
def test_what_cannot_be_looked_up_is_refused(
    club: dp.Store, stage: str, arguments: dict[str, Any], argument: str
) -> None:
    with pytest.raises(dp.InvalidArgumentError) as raised:
        club.lookup(stage, **arguments)
    assert raised.value.argument == argument
    assert "\n" not in str(raised.value)


def test_what_is_not_there_is_not_found(club: dp.Store, location: str) -> None:
    with pytest.raises(dp.NotFoundError):
        club.lookup("nobody", [1])
    with pytest.raises(dp.NotFoundError):
        club.lookup("people", [1], version=9)
    with dp.Store(None, location, members()) as store:
        store.update({"people": [{"id": 1, "email": "a"}]})
    other = dp.Pipeline("club")
    people = other.source("people", key="id bigint", value="email string, age int")
    other.index("by_email", people, key="coalesce(email, '-') AS email", include="age")
    with dp.Store(None, location, other) as store:
        assert store.lookup("by_email", ["a"], version=1).rows.num_rows == 1
        with pytest.raises(dp.NotFoundError, match="had another definition"):
            store.lookup("by_email", ["a"], version=1, fetch=True)
        store.update()
        assert store.lookup("by_email", ["a"], fetch=True).rows.num_rows == 1
