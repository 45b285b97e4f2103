"""`check_stage`: the rows of one stage, of given rows for the stages that it reads.

The law compares it with a few lines of plain Python, and its differences with those of Counters.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime
from random import Random
from typing import Any

import pytest

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.testing import check_stage

Dicts = list[dict[str, Any]]
Given = dict[str, Dicts]


def shop() -> dp.Pipeline:
    """Stages of several kinds; the types of those that queries read are found in a store."""
    pipeline = dp.Pipeline("shop")
    orders = pipeline.source(
        "orders", key="id int NOT NULL", value="customer string, n int, day date, moment timestamp"
    )
    pipeline.sql("kept", "SELECT id, customer, n / 4 AS share, n FROM orders WHERE n > 0")
    pipeline.sql("names", "SELECT DISTINCT customer FROM orders")
    pipeline.sql("whole", "SELECT count(*) AS rows, sum(n) AS n FROM kept", key="")
    pipeline.sql("by_customer", "SELECT customer, sum(share) AS share FROM kept GROUP BY customer")
    pipeline.sql("joined", "SELECT k.id, k.n, a.customer FROM kept k JOIN names a USING (customer)")
    pipeline.sql("parts", "SELECT k.id, k.n / w.n AS part FROM kept k CROSS JOIN whole w")
    pipeline.sql("until", "SELECT id, day FROM orders WHERE day <= :as_of")
    pipeline.sql("days", "SELECT id, to_date(moment) AS day, moment FROM orders")
    pipeline.aggregate("counts", orders, key="customer", values={"n": agg.sum("n")})

    @pipeline.producer("kept", key="id int", value="n int")
    def repeated(id: int, rows: Any) -> Iterator[Any]:
        for row in rows:
            yield from ((id, row.n),) * (row.n or 0)

    return pipeline


SHOP = shop()


def by_customer(given: Given) -> Iterator[tuple[Any, ...]]:
    shares: dict[Any, list[Any]] = {}
    for row in given["kept"]:
        shares.setdefault(row.get("customer"), []).append(row.get("share"))
    for customer, values in shares.items():
        there = [value for value in values if value is not None]
        yield customer, sum(there) if there else None


def whole(given: Given) -> Iterator[tuple[Any, ...]]:
    there = [row["n"] for row in given["kept"] if row.get("n") is not None]
    yield len(given["kept"]), sum(there) if there else None


def joined(given: Given) -> Iterator[tuple[Any, ...]]:
    for row in given["kept"]:
        for other in given["names"]:
            if row.get("customer") is not None and row.get("customer") == other.get("customer"):
                yield row.get("id"), row.get("n"), other["customer"]


def kept(given: Given) -> Iterator[tuple[Any, ...]]:
    for row in given["orders"]:
        if (row.get("n") or 0) > 0:
            yield row.get("id"), row.get("customer"), row["n"] / 4, row["n"]


def repeated(given: Given) -> Iterator[tuple[Any, ...]]:
    for row in given["kept"]:
        yield from [(row.get("id"), row.get("n"))] * (row.get("n") or 0)


MODELS: dict[str, tuple[Callable[[Given], Iterator[tuple[Any, ...]]], dict[str, list[str]]]] = {
    "by_customer": (by_customer, {"kept": ["id", "customer", "share"]}),
    "whole": (whole, {"kept": ["id", "n"]}),
    "joined": (joined, {"kept": ["id", "customer", "n"], "names": ["customer"]}),
    "kept": (kept, {"orders": ["id", "customer", "n"]}),
    "repeated": (repeated, {"kept": ["id", "n"]}),
}
COLUMNS = {
    "by_customer": ["customer", "share"],
    "whole": ["rows", "n"],
    "joined": ["id", "n", "customer"],
    "kept": ["id", "customer", "share", "n"],
    "repeated": ["id", "n"],
}


def drawn(random: Random, columns: list[str]) -> dict[str, Any]:
    """A row with some of the columns."""
    values = {
        "id": random.randrange(4),
        "customer": random.choice(["a", "b", "B", None]),
        "share": random.choice([None, random.randrange(-8, 8) / 4]),
        "n": random.choice([None, 0, 1, 2]),
    }
    return {name: values[name] for name in columns if random.random() < 0.8}


def counted(text: str) -> tuple[int, ...]:
    """How many rows a message says are missing, of how many, and too many, of how many."""
    return tuple(int(one) for one in re.findall(r"\d+", text.partition("\n")[0]))


@pytest.mark.parametrize("stage", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_those_of_plain_python(stage: str, seed: int) -> None:
    random = Random(f"{stage}{seed}")
    model, reads = MODELS[stage]
    given = {
        name: [drawn(random, columns) for _ in range(random.choice([0, 1, 5]))]
        for name, columns in reads.items()
    }
    rows = list(model(given))
    chosen = sorted(random.sample(range(len(COLUMNS[stage])), random.randint(1, 2)))
    names = [COLUMNS[stage][place] for place in chosen]
    own = [tuple(row[place] for place in chosen) for row in rows]
    random.shuffle(own)
    expected = [dict(zip(names, row, strict=True)) for row in own]
    check_stage(SHOP, stage, given, expected)

    other = [*own]
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(other) + 1)
        match random.choice(["less", "again", "changed"]):
            case "less" if len(other) > 1:
                del other[place % len(other)]
            case "again" if other:
                other.append(other[place % len(other)])
            case _:
                new = tuple("z" if name == "customer" else 77 for name in names)
                other[place:] = [new, *other[place + 1 :]]
    missing, surplus = Counter(other) - Counter(own), Counter(own) - Counter(other)
    wrong = [dict(zip(names, row, strict=True)) for row in other]
    if not missing and not surplus:
        check_stage(SHOP, stage, given, wrong)
        return
    with pytest.raises(AssertionError) as raised:
        check_stage(SHOP, stage, given, wrong)
    text = str(raised.value)
    assert repr(stage) in text
    assert counted(text) == (missing.total(), len(other), surplus.total(), len(own))
    assert text.count("missing:  {") == missing.total()
    assert text.count("too many: {") == surplus.total()


def test_other_kinds_and_columns() -> None:
    """A global aggregate as a feeder, an aggregate, an empty result, and no rows at all."""
    given = {"kept": [{"id": 1, "n": 1}, {"id": 2, "n": 3}], "whole": [{"rows": 2, "n": 4}]}
    check_stage(SHOP, "parts", given, [{"id": 1, "part": 0.25}, {"ID": 2, "Part": 0.75}])
    orders = [{"id": 1, "customer": "a", "n": 2}, {"id": 2, "customer": "a", "n": 3}, {"id": 3}]
    check_stage(SHOP, "counts", {"orders": orders}, [{"customer": "a", "n": 5}, {"n": None}])
    check_stage(SHOP, "kept", {"orders": [{"id": 3}]}, [])
    check_stage(SHOP, "kept", {"orders": []}, [])
    check_stage(SHOP, "whole", {"kept": []}, [{"rows": 0, "n": None}])
    with pytest.raises(AssertionError, match=r"1 of 1 are too many\n  too many: {'id': 1, "):
        check_stage(SHOP, "kept", {"orders": [{"id": 1, "n": 4}]}, [])


def test_floats_are_equal_if_they_are_close() -> None:
    given = {"kept": [{"id": 1, "n": 1}], "whole": [{"n": 3}]}
    check_stage(SHOP, "parts", given, [{"id": 1, "part": 1 / 3 + 1e-12}])
    with pytest.raises(AssertionError, match="1 of 1 are missing"):
        check_stage(SHOP, "parts", given, [{"id": 1, "part": 1 / 3 + 1e-6}])
    with pytest.raises(AssertionError, match="1 of 1 are missing"):
        check_stage(SHOP, "parts", given, [{"id": 1, "part": None}])


def test_the_date_and_the_time_zone_are_those_that_are_given() -> None:
    days = [{"id": number, "day": date(2026, 1, number)} for number in (1, 2, 3)]
    check_stage(SHOP, "until", {"orders": days}, days[:2], as_of="2026-01-02")
    moments = [{"id": 1, "moment": datetime.fromisoformat("2026-01-01T23:30:00+00:00")}]
    for zone, local in ("UTC", "2026-01-01T23:30"), ("Europe/Oslo", "2026-01-02T00:30"):
        moment = datetime.fromisoformat(local)
        expected = [{"id": 1, "day": moment.date(), "moment": moment}]
        check_stage(SHOP, "days", {"orders": moments}, expected, time_zone=zone)


def test_many_rows_that_differ_are_counted() -> None:
    given = {"orders": [{"id": number, "n": 1} for number in range(50)]}
    with pytest.raises(AssertionError) as raised:
        check_stage(SHOP, "kept", given, [{"n": 2}])
    assert str(raised.value).count("too many: {") == 20
    assert "too many: and 30 more" in str(raised.value)


def test_the_pipeline_stays_as_it_is() -> None:
    """Its stages are still its own, so that what is expected of them is checked there."""
    pipeline = shop()
    before = pipeline.graph()
    check_stage(pipeline, "by_customer", {"kept": []}, [])
    assert pipeline.graph() == before
    stages = {stage.name: stage for stage in pipeline.stages}
    stages["kept"].expect(not_null="customer")
    stages["by_customer"].expect(not_null="customer")
    assert len(pipeline.checks) == 2


@pytest.mark.parametrize(
    ("stage", "given", "expected", "said"),
    [
        ("keptt", {"orders": []}, [], "'kept'"),
        ("orders", {}, [], "is a source"),
        ("joined", {"kept": []}, [], "no rows of 'names'"),
        ("kept", {"orders": [], "names": []}, [], "rows of 'names'"),
        ("kept", {"orders": [{"nn": 1}]}, [], "column 'nn'"),
        ("kept", {"orders": [(1, 2)]}, [], "list of dicts"),
        ("kept", {"orders": {"id": 1}}, [], "list of dicts"),
        ("kept", [{"id": 1}], [], "by stage"),
        ("kept", {"orders": [{"n": "1"}]}, [], "'n' does not fit"),
        ("kept", {"orders": []}, [{"m": 1}], "expected names column 'm'"),
        ("kept", {"orders": []}, [{}], "name no column"),
        ("kept", {"orders": []}, [1], "list of dicts"),
        ("kept", {"orders": []}, [{"n": "1"}], "'expected'"),
    ],
)
def test_wrong_calls_are_refused(stage: str, given: Any, expected: Any, said: str) -> None:
    with pytest.raises(dp.DeltaProduceError, match=re.escape(said)):
        check_stage(SHOP, stage, given, expected)


def test_stages_that_are_not_made_of_rows_alone_are_refused() -> None:
    pipeline = dp.Pipeline("shop")
    orders = pipeline.source("orders", key="id int", value="day date, n int", partition="id")
    pipeline.partitioned(
        "tasks",
        "SELECT id, n + CAST(word AS INT) AS n FROM orders",
        key="id",
        partition="word = word",
        scopes="FOR word IN array('1', '2')",
    )
    days = pipeline.aggregate("days", orders, key="day, id", values={"n": agg.sum("n")})
    pipeline.aggregate("all_days", days, key="id", values={"n": agg.merge("n")})
    with pytest.raises(dp.InvalidArgumentError, match="tasks make it"):
        check_stage(pipeline, "tasks", {"orders": []}, [])
    with pytest.raises(dp.InvalidArgumentError, match="states"):
        check_stage(pipeline, "all_days", {"days": []}, [])
