"""Latest and history without a session: what events say, in whatever order they come.

They are also part of the random pipelines of `test_local_series` and the machines.
"""

import random
from collections.abc import Iterator, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from itertools import count, permutations
from typing import Any

import pyarrow as pa
import pytest
from crashing import CrashAt, CrashError, fail
from local_stores import (
    IN_PARTS,
    WAYS,
    as_rows,
    assert_refreshed,
    assert_same_here,
    assert_versions,
)
from selecting import some

import deltaproduce as dp
from deltaproduce.storage import failpoints
from deltaproduce.testing import Change, Delete, Oracle, Upsert

LIMITS = {**WAYS, "in parts": IN_PARTS}
VALUE = "id bigint, at timestamp, op string, name string, x double"
DELETED = "op = 'D'"
STRUCTS = ("named", "by_two")
"""Those with a sequence of several columns, which a view does not look ahead in without Spark."""
MADE = ("now", "past", "plain", "named", "by_time", "of_rows", "of_stage", "of_view", "by_two")


def customers() -> dp.Pipeline:
    """Stages of events that are keyed by their own key, by the stage's, or by more than that."""
    pipeline = dp.Pipeline("customers")
    events = pipeline.source("events", key="event bigint", value=VALUE)
    pipeline.latest("now", events, key="id", sequence="at", deleted=DELETED)
    pipeline.history("past", events, key="id", sequence="at", deleted=DELETED)
    pipeline.history("plain", events, key="id", sequence="at")
    pipeline.history(
        "named",
        events,
        key="coalesce(id, 0) % 2 AS half",
        sequence="at, event",
        deleted="x > 1",
        columns="coalesce(name, '-') AS name, op, x",
        track="op",
    )
    timed = pipeline.source("timed", key="id bigint, at timestamp desc", value="op string, n int")
    pipeline.history("by_time", timed, key="id", sequence="at", deleted=DELETED, columns="n")
    rows = pipeline.source("rows", key="id bigint", value="at timestamp, op string, name string")
    pipeline.latest("of_rows", rows, key="id", sequence="at", deleted=DELETED, columns="name")

    @pipeline.producer(events, key="id bigint desc", value="at timestamp, event bigint, op string")
    def stage(event: int, values: Iterator[Any]) -> Iterator[Any]:
        yield from ((value.id, (value.at, event, value.op)) for value in values)

    pipeline.history("of_stage", stage, key="id", sequence="at", deleted=DELETED, track="event")
    pipeline.sql("seen", "SELECT id, max(at) AS at, count(*) AS n FROM events GROUP BY id")
    pipeline.latest("of_view", "seen", key="n", sequence="at", columns="id")
    pipeline.history(
        "by_two",
        "past",
        key="name",
        sequence="valid_from, coalesce(id, 0) AS id",
        columns="valid_to AS until, x",
    )
    return pipeline


def moment(number: int) -> datetime:
    """A time, without its zone, as the oracle has it."""
    return datetime(2024, 2, 28) + timedelta(hours=5 * number)


def some_batch(chance: random.Random) -> dict[str, list[Change]]:
    """Events of three keys at eight times: late ones, corrections, deletes, equal times."""
    batch: dict[str, list[Change]] = {"events": [], "timed": [], "rows": []}
    for event in chance.sample(range(14), chance.randint(0, 5)):
        value = (
            chance.choice([None, 1, 2, 3]),
            moment(chance.randrange(8)),
            chance.choice([None, "D", "U", "I"]),
            chance.choice([None, "a", "b"]),
            chance.choice([None, 0.0, -0.0, 2.5, float("nan")]),
        )
        batch["events"] += (
            [Delete((event,))]
            if chance.random() < 0.3
            else [Upsert((event,), value)] * chance.choice([1, 1, 2])
        )
    for _ in range(chance.randint(0, 3)):
        key = (chance.choice([None, 1, 2]), moment(chance.randrange(5)))
        if key not in [change.key for change in batch["timed"]]:
            value = (chance.choice(["D", "U"]), chance.choice([None, 1, 2]))
            batch["timed"] += [Delete(key) if chance.random() < 0.3 else Upsert(key, value)]
    for key in chance.sample([(1,), (2,)], chance.randint(0, 2)):
        batch["rows"] += [
            Upsert(key, (moment(chance.randrange(4)), chance.choice("DU"), chance.choice("ab")))
            for _ in range(chance.randint(1, 3))
        ]
    return batch


@pytest.mark.parametrize(
    ("number", "way"),
    some(((n, w) for w in LIMITS for n in range(4)), lambda number, way: number == 0),
)
def test_each_version_is_what_all_events_say(location: str, number: int, way: str) -> None:
    """S16: with late events, corrections, removals, equal times and nulls, as the oracle has it."""
    chance = random.Random(100 * number + [*LIMITS].index(way))
    pipeline, batches = customers(), [some_batch(chance) for _ in range(6)]
    with dp.Store(None, location, pipeline, limits=LIMITS[way]) as store:
        assert_versions(store, Oracle(pipeline), pipeline, batches)
        assert_refreshed(store, MADE)


def test_a_store_that_is_opened_again_goes_on(location: str) -> None:
    """S16, opened anew for each version."""
    chance, pipeline = random.Random(7), customers()
    oracle = Oracle(pipeline)
    for _ in range(5):
        batch = some_batch(chance)
        oracle.update(batch)
        with dp.Store(None, location, pipeline) as store:
            store.update(as_rows(pipeline, batch))
    with dp.Store(None, location, pipeline) as store:
        assert_same_here(store, oracle, pipeline, range(oracle.head + 1))
        assert store.rollback(2).number == oracle.rollback(2)
        assert_same_here(store, oracle, pipeline, [oracle.head])


EVENTS = (
    {"at": moment(1), "op": "I", "name": "a"},
    {"at": moment(2), "op": "U", "name": "b"},
    {"at": moment(3), "op": "D", "name": None},
    {"at": moment(4), "op": "I", "name": "b"},
)


def test_all_orders_of_events_give_the_same(location: str) -> None:
    """Each of the 24 orders of an insert, an update, a delete and an insert, one event a version.

    And all of them at once.
    """
    pipeline = dp.Pipeline("orders")
    value = "id bigint, at timestamp, op string, name string"
    events = pipeline.source("events", key="event bigint", value=value)
    pipeline.latest("now", events, key="id", sequence="at", deleted=DELETED, columns="name")
    pipeline.history("past", events, key="id", sequence="at", deleted=DELETED, columns="name")
    orders = [*permutations(range(4))]
    rows = {
        (id_, n): {"event": 10 * id_ + n, "id": id_, **EVENTS[n]}
        for id_, order in enumerate(orders)
        for n in order
    }
    with dp.Store(None, location, pipeline, time_zone="UTC") as store:
        for step in range(4):
            store.update({"events": [rows[id_, o[step]] for id_, o in enumerate(orders)]})
        found = store.content("past").to_pylist()
        latest = store.content("now").to_pylist()
    with dp.Store(None, f"{location}_at_once", pipeline, time_zone="UTC") as store:
        store.update({"events": [*rows.values()]})
        assert store.content("past").to_pylist() == found
        assert store.content("now").to_pylist() == latest
    assert [(row["id"], row["name"]) for row in latest] == [(n, "b") for n in range(24)]
    one, two, three, four = (moment(n).replace(tzinfo=UTC) for n in range(1, 5))
    for id_ in range(24):
        of_key = [row for row in found if row["id"] == id_]
        assert [(r["name"], r["valid_from"], r["valid_to"]) for r in of_key] == [
            ("a", one, two),
            ("b", two, three),
            ("b", four, None),
        ]


def test_definitions_are_queries_with_the_same_rows(location: str) -> None:
    """The text of each stage, as a view, has its rows; floats' signs of zero aside."""
    chance, pipeline = random.Random(11), customers()
    texts = {name: definition_of(pipeline, name) for name in MADE if name not in STRUCTS}
    for name, text in texts.items():
        pipeline.sql(f"{name}_in_sql", text, key=key_of(pipeline, name))
    with dp.Store(None, location, pipeline) as store:
        for _ in range(6):
            store.update(as_rows(pipeline, some_batch(chance)))
        for name in texts:
            rows, others = (store.content(one) for one in (name, f"{name}_in_sql"))
            assert texts_of(rows) == texts_of(others), name


FEED = [
    *((1, 10, "I", "Ann", "Rome", 1), (2, 11, "I", "Bob", "Oslo", 1)),
    *((3, 12, "I", "Cleo", "Bonn", 2), (4, 13, "I", "Dan", "Graz", 2)),
    *((5, 11, "D", None, None, 6), (6, 12, "U", "Cleo", "Kiel", 6)),
    *((7, 12, "U", "Cleo", "Lyon", 5), (8, 11, "U", "Bob", "Bern", 5)),
]
"""Two updates come after the events that follow them, a delete and an update."""


def test_what_a_feed_of_customers_is_known_to_give(location: str) -> None:
    """The cases that tools for change feeds document: types 1 and 2, and tracked columns."""
    pipeline = dp.Pipeline("feed")
    events = pipeline.source(
        "events", key="event int", value="id int, op string, name string, city string, at int"
    )
    arguments = {"key": "id", "sequence": "at", "deleted": DELETED, "columns": "name, city"}
    pipeline.latest("one", events, **arguments)
    pipeline.history("two", events, **arguments)
    pipeline.history("names", events, **arguments, track="name")
    columns = ("event", "id", "op", "name", "city", "at")
    with dp.Store(None, location, pipeline) as store:
        for row in FEED:
            store.update({"events": [dict(zip(columns, row, strict=True))]})
        found = {
            name: [tuple(row.values())[:-1] for row in store.content(name).to_pylist()]
            for name in ("one", "two", "names")
        }
    assert found["one"] == [(10, "Ann", "Rome"), (12, "Cleo", "Kiel"), (13, "Dan", "Graz")]
    assert found["two"] == [
        (10, "Ann", "Rome", 1, None),
        *((11, "Bob", "Oslo", 1, 5), (11, "Bob", "Bern", 5, 6)),
        *((12, "Cleo", "Bonn", 2, 5), (12, "Cleo", "Lyon", 5, 6), (12, "Cleo", "Kiel", 6, None)),
        (13, "Dan", "Graz", 2, None),
    ]
    assert found["names"] == [
        *((10, "Ann", "Rome", 1, None), (11, "Bob", "Bern", 1, 6)),
        *((12, "Cleo", "Kiel", 2, None), (13, "Dan", "Graz", 2, None)),
    ]


def definition_of(pipeline: dp.Pipeline, name: str) -> str:
    stage = pipeline.graph().stage(name)
    text = stage.kind.definition.text([feeder.name for feeder in stage.merged])
    assert text is not None
    return text


def key_of(pipeline: dp.Pipeline, name: str) -> str:
    return ", ".join(pipeline.graph().stage(name).schema.key.names)


def texts_of(rows: pa.Table) -> list[str]:
    """Rows without their numbers, as sorted texts."""
    own = [name for name in rows.column_names if not name.startswith("_")]
    plain = rows.select(own).to_pylist()
    return sorted(repr([*row.items()]).replace("-0.0", "0.0") for row in plain)


def store_of(location: str, **limits: int) -> dp.Store:
    """A store of customers, by event."""
    pipeline = dp.Pipeline("shop")
    events = pipeline.source("events", key="event bigint", value="id bigint, at int, name string")
    pipeline.latest("now", events, key="id", sequence="at")
    pipeline.history("past", events, key="id", sequence="at", track="name")
    return dp.Store(None, location, pipeline, limits=dp.Limits(**limits))


def test_a_step_reads_the_events_of_changed_keys_alone(location: str) -> None:
    """Of 200,000 events of 20,000 keys, one more is read with the row groups of its key."""
    at = pa.array(range(200_000))
    rows = pa.table(
        {
            "event": at,
            "id": pa.array([n * 7919 % 20_000 for n in range(200_000)]),
            "at": at.cast(pa.int32()),
            "name": pa.array([f"{n % 5}" for n in range(200_000)]),
        }
    )
    with store_of(location, small_table_rows=0, group_rows=1_000) as store:
        store.update({"events": rows})
        version = store.update({"events": [{"event": -1, "id": 77, "at": 50, "name": "late"}]})
    for name in ("now", "past"):
        assert version.stages[name].affected_keys == 1
        assert version.stages[name].rows_read <= 3_000, name


def test_equal_sequences_are_one_state_and_are_counted(location: str) -> None:
    """The greatest by all columns is shown; n - 1 of n are ties, also if no row changes."""
    with store_of(location) as store:
        given = [{"event": n, "id": n % 2, "at": n // 4, "name": f"{n}"} for n in range(8)]
        first = store.update({"events": given})
        assert {name: first.stages[name].ties for name in ("now", "past")} == {"now": 4, "past": 4}
        assert [row["name"] for row in store.content("now").to_pylist()] == ["6", "7"]
        past = store.content("past").to_pylist()
        assert [(row["name"], row["valid_from"], row["valid_to"]) for row in past] == [
            ("2", 0, 1),
            ("6", 1, None),
            ("3", 0, 1),
            ("7", 1, None),
        ]
        again = store.update({"events": [{"event": -1, "id": 1, "at": 1, "name": "z"}]})
        assert (again.stages["now"].ties, again.stages["now"].changed_keys) == (3, 0)
        assert again.stages["past"].as_dict()["ties"] == 3
        other = store.update({"events": [{"event": 9, "id": 5, "at": 1, "name": "z"}]})
        assert (other.stages["now"].ties, other.stages["past"].ties) == (0, 0)
        assert store.refresh("past").stages["past"].ties == 5


def test_an_event_of_a_source_without_a_sequence_is_refused(location: str) -> None:
    """With its key, and nothing is written; also where a stage is defined over stored events."""
    with store_of(location) as store:
        store.update({"events": [{"event": 1, "id": 1, "at": 1, "name": "a"}]})
        with pytest.raises(dp.InvalidChangesError) as caught:
            store.update({"events": [{"event": n, "id": 1, "at": None} for n in (7, 8)]})
        error = caught.value
        assert (error.source, error.column, error.keys) == ("events", "at", (7, 8))
        assert store.head.number == 1
        assert store.content("events").num_rows == 1
    pipeline = dp.Pipeline("shop")
    pipeline.source("events", key="event bigint", value="id bigint, at int, name string")
    later = f"{location}_later"
    with dp.Store(None, later, pipeline) as store:
        store.update({"events": [{"event": 4, "id": 1, "at": None, "name": "a"}]})
    with store_of(later) as store, pytest.raises(dp.InvalidChangesError) as caught:
        store.update({"events": [{"event": 5, "id": 2, "at": 1, "name": "a"}]})
    assert caught.value.keys == (4,)


def test_an_event_of_a_stage_without_a_sequence_is_a_producers_error(location: str) -> None:
    """With the stage's key."""
    pipeline = dp.Pipeline("shop")
    events = pipeline.source("events", key="event bigint", value="id string, at int, area int")
    pipeline.sql("seen", "SELECT event, id, area, nullif(at, 0) AS at FROM events", key="event")
    pipeline.latest("now", "seen", key="id, area", sequence="event, at")
    assert events.name == "events"
    with dp.Store(None, location, pipeline) as store:
        store.update({"events": [{"event": 1, "id": "a", "at": 1, "area": 3}]})
        with pytest.raises(dp.ProducerError) as caught:
            store.update({"events": [{"event": 2, "id": "b", "at": 0, "area": None}]})
        assert (caught.value.stage, caught.value.key) == ("now", ("b", None))
        assert caught.value.column == "at"
        assert store.head.number == 1


def test_several_columns_are_a_sequence(location: str) -> None:
    """Their values are a struct in a history; the first of them counts most."""
    pipeline = dp.Pipeline("shop")
    pipeline.source("events", key="event bigint", value="id int, day date, n int")
    pipeline.history("past", "events", key="id", sequence="day, n", columns="event", track="event")
    day = datetime(2024, 3, 1).date()
    rows = [(1, day, 2), (2, day, 1), (3, day - timedelta(days=1), 5)]
    with dp.Store(None, location, pipeline) as store:
        for event, on, n in rows:
            store.update({"events": [{"event": event, "id": 1, "day": on, "n": n}]})
        found = store.content("past").to_pylist()
    points = [{"day": on, "n": n} for _, on, n in reversed(rows)]
    assert [row["event"] for row in found] == [3, 2, 1]
    assert [row["valid_from"] for row in found] == points
    assert [row["valid_to"] for row in found] == [*points[1:], None]


def test_a_key_leads_to_its_events_and_back(location: str) -> None:
    """Lineage has no key mappings, and needs none; a look-up finds all rows of a key."""
    with store_of(location) as store:
        given = [{"event": n, "id": n % 3, "at": n, "name": f"{n}"} for n in range(9)]
        store.update({"events": given})
        up = store.lineage("past", 1).upstream["events"]
        assert sorted(up.column("event").to_pylist()) == [1, 4, 7]
        down = store.lineage("events", 4).downstream
        assert {name: down[name].to_pylist() for name in down} == {
            "now": [{"id": 1}],
            "past": [{"id": 1}],
        }
        rows = store.lookup("past", [{"id": 2}]).rows
        assert rows.column("name").to_pylist() == ["2", "5", "8"]
        with pytest.raises(dp.NotFoundError):
            store.key_mappings("past")


def test_latest_and_history_of_one_key_share_what_finds_events(location: str) -> None:
    """One hidden stage for both; none where the events' key begins with the key."""
    with store_of(location) as store:
        store.update({"events": [{"event": 1, "id": 1, "at": 1, "name": "a"}]})
        assert [*store.head.stages] == ["events", "now", "past"]
        roles = [figures.role for figures in store._opened.log.versions()[-1].stages.values()]
        assert sorted(roles) == ["", "", "", "events"]
        explained = store.explain("past").to_dict()["operators"][-1]
        assert [(one["kind"], one["rows"]) for one in explained["tables"]] == [("events", 1)]
    hidden = [one.name for one in customers().graph().stages if one.hidden is not None]
    assert not any(name.endswith(("_timed", "_rows", "_stage")) for name in hidden)


def test_a_crash_before_any_effect_leaves_a_whole_version(location: str) -> None:
    """The hidden stage and those that read it are of one version; the same update goes on."""
    chance, pipeline = random.Random(12), dp.Pipeline("crashing")
    for stage in customers().stages:
        if stage.name in ("events", "now", "past"):
            pipeline.add(stage)
    drawn = ({"events": some_batch(chance)["events"]} for _ in range(20))
    first, following, *_ = (batch for batch in drawn if len(batch["events"]) > 3)
    before = Oracle(pipeline)
    before.update(first)
    for point in count():
        place, oracle = f"{location}_{point}", deepcopy(before)
        dp.Store(None, place, pipeline, limits=LIMITS["runs"]).update(as_rows(pipeline, first))
        store = dp.Store(None, place, pipeline, limits=LIMITS["runs"])
        with failpoints.armed(CrashAt(point, fail)), pytest.raises(CrashError):
            store.update(as_rows(pipeline, following), "next")
        store = dp.Store(None, place, pipeline, limits=LIMITS["runs"])
        published = store.head.number == 2
        oracle.update(following, "next")
        assert store.update(as_rows(pipeline, following), "next").number == 2
        assert_same_here(store, oracle, pipeline, [0, 1, 2])
        assert store.verify() == ()
        if published:
            break
    assert point > 4


def test_another_definition_makes_the_stage_again(location: str) -> None:
    """S15: of the sequence, the key, the condition, the columns or what is tracked."""
    given = [{"event": n, "id": n % 2, "at": n, "name": f"{n % 3}"} for n in range(6)]
    changed: Mapping[str, Any] = {
        "sequence": {"sequence": "name, at"},
        "key": {"key": "name", "track": "event"},
        "deleted": {"deleted": "name = '1'"},
        "columns": {"columns": "event, name"},
        "track": {"track": "event"},
    }
    for part, other in changed.items():
        place = f"{location}_{part}"
        with store_of(place) as store:
            store.update({"events": given})
        pipeline = dp.Pipeline("shop")
        value = "id bigint, at int, name string"
        events = pipeline.source("events", key="event bigint", value=value)
        arguments = {"key": "id", "sequence": "at", "track": "name", **other}
        pipeline.history("past", events, **arguments)
        with (
            dp.Store(None, place, pipeline) as store,
            dp.Store(None, f"{place}_new", pipeline) as fresh,
        ):
            version = store.update({"events": [{**given[0], "name": "9"}]})
            assert version.stages["past"].mode == "full", part
            fresh.update({"events": [{**given[0], "name": "9"}, *given[1:]]})
            assert store.content("past").equals(fresh.content("past")), part
