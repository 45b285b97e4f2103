"""Views over columns that cannot be key columns, and key-local queries of key columns alone."""

from __future__ import annotations

from collections import Counter
from math import isnan, nan
from pathlib import Path
from random import Random
from typing import Any

import pytest
from local_stores import as_rows

from deltaproduce import DefinitionError, Pipeline, Store
from deltaproduce.stages.views import kind
from deltaproduce.testing import Change, Delete, Oracle, Upsert, plain_rows

FLOATS = (None, nan, -0.0, 0.0, 1.5, -1.5)
COLUMNS = {"floats": "f n", "both": "f x n", "arrays": "a n f", "structs": "s f", "nested": "l n"}
LISTS = (None, [], [1], [1, None], [2])


def measured() -> Pipeline:
    """A source with columns whose values have no key, one of which no view reads."""
    pipeline = Pipeline("measured")
    pipeline.source(
        "m",
        key="id bigint",
        value="f double, a array<bigint>, s struct<x bigint, y string>, unread map<string, double>",
    )
    pipeline.sql("floats", "SELECT f, count(*) AS n FROM m GROUP BY f")
    pipeline.sql("both", "SELECT f, s.x AS x, sum(id) AS n FROM m GROUP BY f, s.x")
    pipeline.sql("arrays", "SELECT a, count(*) AS n, min(f) AS f FROM m GROUP BY a")
    pipeline.sql("structs", "SELECT DISTINCT s, f FROM m")
    pipeline.sql("nested", "SELECT array(f) AS l, count(*) AS n FROM m GROUP BY array(f)")
    return pipeline


def comparable(value: Any) -> Any:
    """A value as a key of Python: NaN equals NaN, -0.0 equals 0.0."""
    if isinstance(value, list):
        return tuple(map(comparable, value))
    if isinstance(value, dict):
        return tuple(map(comparable, value.values()))
    return "NaN" if isinstance(value, float) and isnan(value) else value


def least(values: list[float | None]) -> Any:
    known = [value for value in values if value is not None]
    return comparable(min(known, key=lambda value: (isnan(value), value))) if known else None


def expected(rows: list[dict[str, Any]]) -> dict[str, Counter[Any]]:
    found = {name: Counter[Any]() for name in COLUMNS}
    of_arrays = dict[Any, list[float | None]]()
    sums = Counter[Any]()
    for row in rows:
        found["floats"][comparable(row["f"])] += 1
        found["nested"][(comparable(row["f"]),)] += 1
        of_arrays.setdefault(comparable(row["a"]), []).append(row["f"])
        sums[comparable(row["f"]), row["s"] and row["s"]["x"]] += row["id"]
        found["structs"][comparable(row["s"]), comparable(row["f"])] = 1
    for name in ("floats", "nested"):
        found[name] = Counter(dict.fromkeys(found[name].items(), 1))
    found["both"] = Counter({(*key, total): 1 for key, total in sums.items()})
    found["arrays"] = Counter({(a, len(fs), least(fs)): 1 for a, fs in of_arrays.items()})
    return found


def test_groups_of_floats_and_nested_values_follow_changes(tmp_path: Path) -> None:
    """Each version has the groups of plain Python; columns without a key's type are values."""
    random, pipeline = Random(7), measured()
    keys = {name: pipeline.explain(name).key for name in COLUMNS}
    assert keys == {"floats": (), "both": ("x",), "arrays": (), "structs": (), "nested": ()}
    rows = dict[int, dict[str, Any]]()
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        for version in range(1, 9):
            changes = [
                {
                    "id": key,
                    "f": random.choice(FLOATS),
                    "a": random.choice(LISTS),
                    "s": random.choice((None, {"x": 1, "y": None}, {"x": None, "y": ""})),
                    "unread": {"k": nan},
                }
                for key in random.sample(range(1, 12), 4)
            ]
            gone = random.sample([*rows], min(len(rows), 2))
            rows = {key: row for key, row in rows.items() if key not in gone}
            changed = [row for row in changes if row["id"] not in gone]
            rows |= {row["id"]: row for row in changed}
            deletes = [{"id": key, "_change_type": "delete"} for key in gone]
            made = store.update({"m": [*changed, *deletes]})
            for name, wanted in expected([*rows.values()]).items():
                found = store.content(name)
                columns = [found.column(c) for c in COLUMNS[name].split()]
                listed = zip(*(column.to_pylist() for column in columns), strict=True)
                assert Counter(map(comparable, map(list, listed))) == wanted, name
                is_whole = version == 1 or name == "nested"  # equal arrays of floats may differ
                assert is_whole or made.stages[name].mode != "full"
        assert not store.verify(recompute=True)


def test_a_key_local_query_may_have_key_columns_alone(tmp_path: Path) -> None:
    """Equal rows are several rows of a key, with the mappings of a key-local query."""
    pipeline = Pipeline("shop")
    pipeline.source("orders", key="id bigint", value="customer string, amount bigint")
    pipeline.sql("buyers", "SELECT customer FROM orders WHERE amount > 0")
    orders = [{"id": n, "customer": "ab"[n % 2], "amount": n} for n in range(4)]
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        store.update({"orders": orders})
        assert store.content("buyers", ordered=True).column("customer").to_pylist() == [
            "a",
            "b",
            "b",
        ]
        assert (
            not store.update({"orders": [{**orders[1], "amount": 9}]}).stages["buyers"].changed_keys
        )
        store.update({"orders": [{**orders[3], "customer": "a"}, {**orders[0], "amount": 1}]})
        assert store.content("buyers", ordered=True).column("customer").to_pylist() == [*"aaab"]
        assert store.updates("buyers").num_rows
        assert not store.verify(recompute=True)


BANDS = """
    SELECT o.id, b.name FROM orders o JOIN bands b ON o.amount >= b.low AND o.amount < b.high
"""


@pytest.mark.parametrize("is_small", [True, False])
def test_a_join_without_an_equality_follows_changes_while_a_side_is_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    """Of which both sides change at once; beyond that the query runs as a whole, and says why."""
    if not is_small:
        monkeypatch.setattr(kind, "SMALL", -1)
    random, pipeline = Random(11), Pipeline("shop")
    pipeline.source("orders", key="id bigint", value="amount bigint")
    pipeline.source("bands", key="name string", value="low bigint, high bigint")
    pipeline.sql("banded", BANDS)
    pipeline.sql("counts", f"SELECT name, count(*) AS n FROM ({BANDS}) GROUP BY name")
    pipeline.sql("all_pairs", "SELECT a.id, b.name FROM orders a CROSS JOIN bands b")
    pipeline.sql("left", BANDS.replace("JOIN", "LEFT JOIN"))
    oracle, modes = Oracle(pipeline), Counter[str]()
    with Store(None, str(tmp_path / "store"), pipeline) as store:
        for _ in range(8):
            changes: dict[str, list[Change]] = {"orders": [], "bands": []}
            for key in random.sample(range(9), 4):
                value = random.choice((None, 0, 1, 2, 3))
                changes["orders"].append(random.choice((Delete((key,)), Upsert((key,), (value,)))))
            for name in random.sample("abcde", random.choice((0, 1, 2))):
                low = random.randrange(3)
                change = random.choice((Delete((name,)), Upsert((name,), (low, low + 2))))
                changes["bands"].append(change)
            version = store.update(as_rows(pipeline, changes))
            assert oracle.update(changes) == version.number
            for name in ("banded", "counts", "all_pairs", "left"):
                found = store.content(name, ordered=True).to_pylist()
                assert plain_rows([tuple(row.values()) for row in found]) == oracle.content(name)
                if name in version.stages and version.number > 1:
                    modes[version.stages[name].mode] += 1
        assert ("full" in modes) != is_small
        assert not store.verify(recompute=True)
    operators = pipeline.explain("banded").to_dict()["operators"]
    assert "JOIN_WITHOUT_EQUALITY" in {operator["reason"] for operator in operators}
    with pytest.raises(DefinitionError, match="JOIN_WITHOUT_EQUALITY"):
        pipeline.sql("always", BANDS, incremental="always")


def test_views_have_columns_of_arrays_structs_and_maps(tmp_path: Path) -> None:
    """Their parts are computed; those with maps run as a whole, as equal ones may differ."""
    pipeline = Pipeline("nested")
    pipeline.source("t", key="k bigint", value="a int, s string")
    pipeline.source("u", key="k bigint", value="n int")
    texts = {
        "structs": "SELECT t.k, struct(a, s AS word, n + 1) AS x FROM t JOIN u ON u.k = t.a",
        "arrays": "SELECT t.k, array(a, n) AS x FROM t JOIN u ON u.k = t.a",
        "maps": "SELECT t.k, map(t.k, s, -1L, 'z') AS x FROM t JOIN u ON u.k = t.a",
    }
    for name, text in texts.items():
        pipeline.sql(name, text)
    modes = {name: {one["reason"] for one in explained(pipeline, name)} for name in texts}
    assert modes == {"structs": {None}, "arrays": {None}, "maps": {None, "NESTED_VALUES"}}
    with Store(None, str(tmp_path), pipeline) as store:
        for n in (5, 6):
            rows = [{"k": 1, "a": 1, "s": "x"}, {"k": 2, "a": None, "s": None}]
            store.update({"t": rows, "u": [{"k": 1, "n": n}]})
            found = {name: store.content(name).column("x").to_pylist() for name in texts}
            assert found == {
                "structs": [{"a": 1, "word": "x", "col3": n + 1}],
                "arrays": [[1, n]],
                "maps": [[(1, "x"), (-1, "z")]],
            }
            assert store.content("structs").schema.field("x").type.field(2).name == "col3"
        assert not store.verify()


def explained(pipeline: Pipeline, name: str) -> list[Any]:
    found: list[Any] = pipeline.explain(name).to_dict()["operators"]
    return found
