"""The files of a table as columns, beside a dict of their actions."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from deltaproduce.engines.local.marked import file_statistics, table_files
from deltaproduce.engines.local.marked.file_statistics import parsed
from deltaproduce.engines.local.marked.table_files import VECTOR, TableFiles, file_of, path_of
from deltaproduce.types.data_types import DateType, LongType, TimestampType

TYPES = {"n": LongType(), "day": DateType(), "at": TimestampType()}


def statistics(chance: random.Random) -> dict[str, Any]:
    """What a log may say of a file: some of it, or nothing."""
    number, day = chance.randrange(-9, 9), f"2026-11-{chance.randrange(1, 29):02}"
    ends = {"n": number, "day": day, "at": f"{day}T10:00:00.000Z", "text": "ü"}
    said = {
        "numRecords": chance.randrange(9),
        "minValues": {name: ends[name] for name in ends if chance.random() < 0.8},
        "maxValues": {name: ends[name] for name in ends if chance.random() < 0.8},
        "nullCount": {name: chance.randrange(3) for name in ends if chance.random() < 0.8},
        "tightBounds": True,
    }
    return {name: value for name, value in said.items() if chance.random() < 0.9}


def action(chance: random.Random, path: str) -> dict[str, Any]:
    vector = {"storageType": "u", "pathOrInlineDv": f"v{chance.randrange(9)}", "cardinality": 3}
    return {
        "path": path,
        "partitionValues": {},
        "size": chance.randrange(1000),
        "modificationTime": 7,
        "dataChange": True,
        **({"stats": json.dumps(statistics(chance))} if chance.random() < 0.9 else {}),
        **({VECTOR: {**vector, "offset": 1, "sizeInBytes": 9}} if chance.random() < 0.3 else {}),
    }


def as_checkpoint(actions: list[dict[str, Any]]) -> pa.StructArray:
    """As another writer has them: maps as pairs, fields in another order, and one of its own."""
    rows = [
        {"of_its_own": 1, **dict(reversed(one.items())), "partitionValues": []} for one in actions
    ]
    texts = pa.map_(pa.string(), pa.string())
    kind = pa.array(rows).type
    fields = [f.with_type(texts) if f.name == "partitionValues" else f for f in kind]
    return pa.array(rows, pa.struct(fields))


@pytest.mark.parametrize("number", range(12))
def test_files_are_those_of_all_actions(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through updates, whether their actions are columns or beside them."""
    chance = random.Random(number)
    monkeypatch.setattr(table_files, "_MOST_SINCE", chance.choice([0, 2, 5, 100]))
    names = [f"part-{n}%20{chance.choice('aZß')}.parquet" for n in range(30)]
    first = [action(chance, name) for name in chance.sample(names, chance.randrange(1, 12))]
    files, known = TableFiles.of_checkpoint(as_checkpoint(first)), {file_of(a): a for a in first}
    for _ in range(12):
        before, were = files, dict(known)
        removed = chance.sample([*known.values()], chance.randrange(len(known) + 1) // 2)
        free = {*names} - {one["path"] for one in known.values()}
        added = [action(chance, name) for name in chance.sample(sorted(free), 2)]
        again = [action(chance, one["path"]) for one in removed[:1]]  # with another vector, or none
        spelled = [{**one, "path": path_of(one)} for one in removed]  # as another writer may
        files = files.updated(chance.choice([removed, spelled]), [*added, *again])
        for one in removed:
            known.pop(file_of(one))
        known |= {file_of(one): one for one in (*added, *again)}
        assert {file_of(one): one for one in files} == known
        assert len(files) == len(known)
        gone = {file: one for file, one in were.items() if known.get(file) != one}
        assert {*map(file_of, before.missing_in(files))} == {*gone} - {*known}
        assert files.of_paths(map(path_of, known.values())) == {
            path_of(one): one for one in known.values()
        }
        assert files.vectors() == {
            path_of(one): one[VECTOR] for one in known.values() if VECTOR in one
        }
        in_order = sorted(known.values(), key=path_of)
        listed = files.listed(TYPES)
        assert files.paths() == listed["path"].to_pylist() == [*map(path_of, in_order)]
        assert listed["size_bytes"].to_pylist() == [one["size"] for one in in_order]
        texts = pa.array([one.get("stats") for one in in_order], pa.string())
        assert (
            listed.drop_columns(["path", "size_bytes"]).to_pylist()
            == parsed(texts, TYPES).to_pylist()
        )


@pytest.mark.parametrize("number", range(12))
def test_statistics_are_the_same_one_by_one(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a column has another form in some of the texts."""
    chance = random.Random(number)
    said = [statistics(chance) for _ in range(50)]
    if chance.random() < 0.5:
        odd = chance.choice([("n", "7"), ("n", 2**70), ("day", 7), ("at", "noon"), ("n", None)])
        said[chance.randrange(50)]["minValues"] = dict([odd])
    texts = pa.array([None if chance.random() < 0.1 else json.dumps(one) for one in said])
    singly = parsed(texts, TYPES)
    monkeypatch.setattr(file_statistics, "_FEW", 0)
    together = parsed(texts, TYPES)
    assert together.schema == singly.schema
    assert together.to_pylist() == singly.to_pylist()


def test_files_elsewhere_are_seen() -> None:
    chance = random.Random(1)
    inside = TableFiles().updated([], [action(chance, "a.parquet")])
    assert inside.are_inside
    for path in ("/a.parquet", "s3://b/a.parquet"):
        outside = action(chance, path)
        assert not inside.updated([], [outside]).are_inside
        assert not TableFiles.of_checkpoint(as_checkpoint([outside])).are_inside
