"""Data sets: descriptors, finding and making them, reading, parts and copies."""

import errno
import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, QueryBuilder, write_deltalake
from deltalake.transaction import AddAction
from described import FORMS, SCHEMA, check_sorted, crashed, found_in, killed, made, rows_from
from marked import mark_rows

import deltaproduce as dp
from deltaproduce.datasets import copying
from deltaproduce.datasets.writing.files import written
from deltaproduce.described.descriptor import PROPERTY
from deltaproduce.engines.delta.tables import MARKS_ROWS
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.local.delta import changes, reads
from deltaproduce.engines.local.handles import Handles
from deltaproduce.engines.local.marked.listing import MARKED
from deltaproduce.engines.local.marked.state import TableStates
from deltaproduce.types.data_types import LongType, StringType, StructField, StructType


def write(dataset: dp.Dataset, *given: object) -> None:
    with dataset.writer() as writer:
        for rows in given:
            writer.write(rows)


def descriptor_at(place: Path) -> dict[str, object]:
    text = DeltaTable(str(place)).metadata().configuration[PROPERTY]
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def described_as(place: Path, text: str) -> None:
    """Give a table another descriptor, as someone else may."""
    DeltaTable(str(place)).alter.set_table_properties(
        {PROPERTY: text}, raise_if_not_exists=False, commit_properties=CommitProperties({}, 0)
    )


def test_a_descriptor_is_a_property_set_in_the_one_commit_that_makes_the_table(tmp_path: Path):
    found = made(tmp_path / "d", "by expressions", compression="ZSTD", order="id DESC, Day")
    assert (
        descriptor_at(tmp_path / "d")
        == found.descriptor.as_dict()
        == {
            "schema": SCHEMA,
            "partition": ["kind", "`id` % 3 AS bucket", "year ( `day` ) AS `ye-ar`"],
            "order": ["id DESC", "day"],
            "compression": "zstd",
            "version": 1,
        }
    )
    assert [path.name for path in (tmp_path / "d" / "_delta_log").iterdir()] == [f"{0:020}.json"]


@pytest.mark.parametrize(("given", "stored"), [(None, None), ("", []), ("day", ["day"])])
def test_a_partition_is_none_or_by_nothing_or_by_columns(tmp_path: Path, given, stored):
    dp.Dataset.create(None, tmp_path / "d", schema=SCHEMA, partition=given)
    assert descriptor_at(tmp_path / "d")["partition"] == stored
    found = dp.Dataset.find(None, tmp_path / "d").descriptor.partition
    assert found == (None if stored is None else tuple(stored))


def test_seed_create_is_refused_where_a_table_is(tmp_path: Path):
    made(tmp_path / "d")
    write_deltalake(tmp_path / "other", pa.table({"n": [1]}))
    for name in ("d", "other"):
        with pytest.raises(dp.AlreadyExistsError) as refused:
            made(tmp_path / name)
        assert refused.value.location == str(tmp_path / name)
    with pytest.raises(dp.AlreadyExistsError):
        dp.Dataset.find_or_create(None, tmp_path / "other", schema=SCHEMA)


def test_seed_find_is_refused_where_none_is_or_of_another_schema(tmp_path: Path):
    made(tmp_path / "d", "sorted")
    write_deltalake(tmp_path / "other", pa.table({"n": [1]}))
    for name in ("nothing", "other"):
        with pytest.raises(dp.NotFoundError):
            dp.Dataset.find(None, tmp_path / name)
    found = dp.Dataset.find(None, tmp_path / "d", schema="id long not null, day DATE, kind string")
    assert found.descriptor == made(tmp_path / "e", "sorted").descriptor
    with pytest.raises(dp.DescriptorMismatchError) as refused:
        dp.Dataset.find(None, tmp_path / "d", schema="id bigint, day date, kind string")
    assert refused.value.differences == {"schema": ("id bigint, day date, kind string", SCHEMA)}
    assert refused.value.location == str(tmp_path / "d")


def test_seed_find_or_create_compares_by_meaning(tmp_path: Path):
    place = tmp_path / "d"
    first = dp.Dataset.find_or_create(
        None, place, schema="id bigint, kind string", partition="id%3 AS b", order="id"
    )
    same = StructType([StructField("id", LongType()), StructField("kind", StringType())])
    again = dp.Dataset.find_or_create(
        None, place, schema=same, partition=" ID % 3  as b", order="`id` asc", compression="Snappy"
    )
    assert again.descriptor == first.descriptor
    with pytest.raises(dp.DescriptorMismatchError) as refused:
        dp.Dataset.find_or_create(
            None, place, schema="id int, kind string", partition="kind", compression="gzip"
        )
    assert refused.value.differences == {
        "schema": ("id int, kind string", "id bigint, kind string"),
        "partition": (["kind"], ["`id` % 3 AS b"]),
        "order": ([], ["id"]),
        "compression": ("gzip", "snappy"),
    }
    with pytest.raises(dp.DescriptorMismatchError) as refused:
        dp.Dataset.find_or_create(
            None, place, schema="id int, kind string", partition="id % 3 AS b", order="id"
        )
    assert [*refused.value.differences] == ["schema"]  # and not what names a column of it


def test_500_who_find_or_create_at_once_all_get_one_table(tmp_path: Path):
    def find(_: int) -> dp.Dataset:
        return dp.Dataset.find_or_create(None, tmp_path / "d", schema=SCHEMA, partition="kind")

    with ThreadPoolExecutor(500) as threads:
        found = list(threads.map(find, range(500)))
    assert len({one.descriptor for one in found}) == 1
    assert [path.name for path in (tmp_path / "d" / "_delta_log").iterdir()] == [f"{0:020}.json"]


WRONG = {
    "a schema of nothing": {"schema": ""},
    "a type that is none": {"schema": "id text"},
    "a reserved name": {"schema": "_id bigint"},
    "a column twice": {"schema": "id bigint, ID int"},
    "a partition of no column": {"partition": "week"},
    "an expression without a name": {"partition": "id % 3"},
    "an expression with the name of a column": {"partition": "id % 3 AS kind"},
    "an expression of time": {"partition": "current_date AS day2"},
    "an expression that only Spark computes": {"partition": "soundex(kind) AS y"},
    "a partition twice": {"partition": "day, day"},
    "all columns": {"schema": "id bigint", "partition": "id"},
    "a type to partition by": {"schema": "id double, n int", "partition": "id"},
    "text that is no list": {"partition": "day,,kind"},
    "a partition that is no text": {"partition": 3},
    "an order of no column": {"order": "week"},
    "an order of an expression": {"order": "id % 3"},
    "an order twice": {"order": "id, id desc"},
    "a type to order by": {"schema": "id double, n int", "order": "id"},
    "a codec": {"compression": "middle-out"},
    "a codec that is no text": {"compression": None},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_definition_leaves_nothing(tmp_path: Path, what: str):
    for make in (dp.Dataset.create, dp.Dataset.find_or_create):
        with pytest.raises(dp.DefinitionError):
            make(None, tmp_path / "d", **{"schema": SCHEMA, **WRONG[what]})
    assert not list(tmp_path.iterdir())


GOOD = {"schema": SCHEMA, "partition": None, "order": [], "compression": "snappy", "version": 1}
BROKEN = {
    "no JSON": "{",
    "no object": "[]",
    "a key missing": json.dumps({k: v for k, v in GOOD.items() if k != "order"}),
    "a schema that does not parse": json.dumps({**GOOD, "schema": "id bigint,"}),
    "a partition of no column": json.dumps({**GOOD, "partition": ["week"]}),
    "a partition of another kind": json.dumps({**GOOD, "partition": "day"}),
    "an order of no column": json.dumps({**GOOD, "order": ["week"]}),
    "an unknown codec": json.dumps({**GOOD, "compression": "middle-out"}),
    "a newer version": json.dumps({**GOOD, "version": 2}),
    "other columns than the table's": json.dumps({**GOOD, "schema": "id bigint"}),
    "another partition than the table's": json.dumps({**GOOD, "partition": ["day"]}),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_descriptor_is_told(tmp_path: Path, what: str):
    dataset = made(tmp_path / "d")
    described_as(tmp_path / "d", BROKEN[what])
    for call in (
        lambda: dp.Dataset.find(None, tmp_path / "d"),
        lambda: dp.Dataset.find_or_create(None, tmp_path / "d", schema=SCHEMA),
        dataset.read,
    ):
        with pytest.raises(dp.CorruptStoreError):
            call()
    described_as(tmp_path / "d", json.dumps({**GOOD, "more": 1}))
    assert dp.Dataset.find(None, tmp_path / "d").descriptor == dataset.descriptor


@pytest.mark.parametrize("location", ["events", "lake.events", "hdfs://host/events"])
def test_a_place_where_none_can_be_is_refused(location: str):
    with pytest.raises(dp.DefinitionError):
        dp.Dataset.create(None, location, schema=SCHEMA)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_is_read_by_conditions_and_by_other_engines(tmp_path: Path, form: str):
    dataset, rows = made(tmp_path / "d", form), rows_from(0, 40)
    with dataset.writer() as writer:
        writer.write(rows)
    assert found_in(dataset) == Counter(rows)
    conditions = {
        "id BETWEEN 3 AND 20": lambda row: 3 <= row[0] <= 20,
        "kind = 'a/b' AND id > 7": lambda row: row[2] == "a/b" and row[0] > 7,
        "day IS NULL OR kind IS NULL": lambda row: row[1] is None or row[2] is None,
        "day = '2026-01-31'": lambda row: row[1] == date(2026, 1, 31),
    }
    for where, holds in conditions.items():
        assert found_in(dataset, where) == Counter(filter(holds, rows))
    names = ", ".join(dataset.read().column_names)
    table = DeltaTable(str(tmp_path / "d"))
    others = QueryBuilder().register("t", table).execute(f"SELECT {names} FROM t").read_all()
    got = zip(*(column.to_pylist() for column in pa.table(others).columns), strict=True)
    assert Counter(got) == Counter(rows)


def test_an_expression_is_a_plain_column_of_the_table_and_none_of_the_rows(tmp_path: Path):
    dataset = made(tmp_path / "d", "by expressions")
    with dataset.writer() as writer:
        writer.write(rows_from(0, 40))
    assert DeltaTable(str(tmp_path / "d")).metadata().partition_columns == [
        *("kind", "bucket", "ye-ar")
    ]
    assert dataset.read().column_names == ["id", "day", "kind"]
    assert found_in(dataset, "bucket = 1") == Counter(r for r in rows_from(0, 40) if r[0] % 3 == 1)
    kept = dataset.files("bucket = 1 AND `ye-ar` = 1999 AND id > 3")
    assert kept == [path for path in dataset.files() if "bucket=1/ye-ar=1999" in path]
    assert kept


def test_files_are_relative_and_sorted_and_pruned(tmp_path: Path):
    dataset = made(tmp_path / "d", "by day and kind")
    with dataset.writer(roll_rows=2) as writer:
        writer.write(rows_from(0, 40))
    paths = dataset.files()
    assert paths == sorted(paths)
    assert all((tmp_path / "d" / path).is_file() for path in paths)
    days = [path for path in paths if path.startswith("day=1999-12-31/")]
    assert dataset.files("day = '1999-12-31'") == days != []
    assert dataset.files("day = '1999-12-31' AND kind = '.' AND id % 2 < 9") == [
        path for path in days if "/kind=./" in path
    ]
    assert dataset.files("day > DATE '2030-01-01'") == []
    assert dataset.files("id > 39") == []
    assert dataset.partition(day="1999-12-31").files() == days


CONDITIONS = (
    *("id = {n}", "id < {n}", "{n} <= id", "id > {n}", "{n} > id AND id >= 2", "NOT id > {n}"),
    *(
        "id = {n} OR id = 1",
        "kind > 'a' AND id <> {n}",
        "'b' > kind",
        "kind = 'a/b'",
        "day IS NULL",
    ),
    *("day <= '1999-12-31'", "DATE '2026-01-31' = day", "id IN (1, {n})", "id + 1 < {n}"),
    *(
        "kind = day",
        "id = NULL",
        "n > 0.5",
        "d < 2.5 AND n < {n}",
        "CAST(kind AS int) = 1 OR id = 1",
    ),
)


@pytest.mark.parametrize("form", ["plain", "by day and kind"])
def test_no_file_with_rows_of_a_condition_is_left_out(tmp_path: Path, form: str):
    """Pruning is by what may be: read row by row, the files that are left have all rows."""
    dataset = dp.Dataset.create(
        None, tmp_path / "d", schema=f"{SCHEMA}, n double, d decimal(9,2)", **FORMS[form]
    )
    rows = [(*row, row[0] / 3 if row[0] % 4 else None, row[0]) for row in rows_from(0, 40)]
    with dataset.writer(roll_rows=3) as writer:
        writer.write(rows)
    pruned = 0
    for condition in CONDITIONS:
        where = condition.format(n=7)
        try:
            found = found_in(dataset, where)
        except dp.InvalidArgumentError:
            continue
        paths = dataset.files(where)
        pruned += len(paths) < len(dataset.files())
        whole = found_in(dataset, f"({where}) OR {NEVER}")  # of which nothing is known
        assert found == whole
        assert paths or not found
    assert pruned > 5


NEVER = "abs(id) < 0"


def test_parts_are_by_some_or_all_partition_columns(tmp_path: Path):
    dataset, rows = made(tmp_path / "d", "by day and kind"), rows_from(0, 40)
    with dataset.writer() as writer:
        writer.write(rows)
    for day in (date(2026, 1, 31), None):
        part = dataset.partition(day=day)
        assert found_in(part) == Counter(row for row in rows if row[1] == day)
        for kind in ("a/b", "ä %41=", None):
            both = part.partition(kind=kind)
            assert found_in(both) == Counter(r for r in rows if r[1:] == (day, kind))
            assert found_in(dataset.partition(kind=kind, day=day)) == found_in(both)
    never = dataset.partition(day="2000-01-01")
    assert not found_in(never)
    with never.writer() as writer:
        writer.write((100, date(2000, 1, 1), "x"))
    assert found_in(never) == Counter([(100, date(2000, 1, 1), "x")])
    for wrong in ((101, date(2000, 1, 2), "x"), (101, None, "x")):
        for given in (wrong, [wrong], pa.table({"id": [101], "day": [wrong[1]], "kind": ["x"]})):
            with pytest.raises(dp.InvalidChangesError) as refused:
                write(never, [(102, date(2000, 1, 1), "y")], given)
            assert refused.value.column == "day"
    assert found_in(dataset) == Counter([*rows, (100, date(2000, 1, 1), "x")])


def test_values_of_a_part_may_be_spelled_otherwise(tmp_path: Path):
    dataset = dp.Dataset.create(
        None, tmp_path / "d", schema="id bigint, n decimal(5,2), b boolean", partition="n, b"
    )
    part = dataset.partition(n=Decimal("1.5"), b=True)
    write(part, (1, Decimal("1.50"), True), (2, Decimal("1.5"), np.True_))
    with pytest.raises(dp.InvalidChangesError):
        write(part, (3, Decimal("1.51"), True))
    assert part.read()["id"].to_pylist() == [1, 2]
    assert dataset.partition(n=Decimal("1.500")).files() == dataset.files()


def test_a_part_by_an_expression_refuses_other_rows(tmp_path: Path):
    part = made(tmp_path / "d", "by expressions").partition(bucket=1)
    with part.writer() as writer:
        writer.write((1, None, "a"))
        with pytest.raises(dp.InvalidChangesError):
            writer.write((2, None, "a"))
    assert found_in(part) == Counter([(1, None, "a")])


@pytest.mark.parametrize(
    "values", [{}, {"week": 1}, {"id": 1}, {"day": "soon"}, {"kind": 3}, {"day": 3}]
)
def test_a_part_of_no_partition_is_refused(tmp_path: Path, values):
    dataset = made(tmp_path / "d", "by day and kind")
    with pytest.raises(dp.InvalidArgumentError):
        dataset.partition(**values)
    with pytest.raises(dp.InvalidArgumentError):
        dataset.partition(day="2026-01-31").partition(day="2026-01-30")


@pytest.mark.parametrize("where", [3, "week = 1", "id", "id =", "sum(id) > 1", "now() > day"])
def test_a_wrong_condition_is_refused(tmp_path: Path, where):
    dataset = made(tmp_path / "d")
    for call in (dataset.read, dataset.files):
        with pytest.raises(dp.InvalidArgumentError) as refused:
            call(where)
        assert refused.value.argument == "where"


def test_a_condition_that_only_spark_computes_needs_a_session(tmp_path: Path):
    dataset = made(tmp_path / "d")
    with pytest.raises(dp.SessionError):
        dataset.read("kind RLIKE '^a'")


SHORT = {("sorted", "by expressions"), ("by day and kind", "plain"), ("plain", "by nothing")}
COPIES = [
    pytest.param(form, other, marks=() if (form, other) in SHORT else pytest.mark.long)
    for form in FORMS
    for other in FORMS
]


@pytest.mark.parametrize(("form", "other"), COPIES)
def test_a_copy_has_the_rows_and_another_descriptor(tmp_path: Path, form: str, other: str):
    dataset, rows = made(tmp_path / "d", form), rows_from(0, 40)
    with dataset.writer(roll_rows=7) as writer:
        writer.write(rows)
    wanted = {"partition": None, "order": None, **FORMS[other]}
    copy = dataset.copy(tmp_path / "copy", compression="zstd", **wanted)
    assert copy.descriptor == made(tmp_path / "e", other, compression="zstd").descriptor
    assert found_in(copy) == Counter(rows)
    check_sorted(copy)
    assert len(list((tmp_path / "copy" / "_delta_log").iterdir())) == 1
    with copy.writer() as writer:
        writer.write((100, None, "x"))
    assert found_in(copy) == Counter([*rows, (100, None, "x")])
    same = dataset.copy(tmp_path / "same")
    assert (same.descriptor, found_in(same)) == (dataset.descriptor, Counter(rows))
    with pytest.raises(dp.AlreadyExistsError):
        dataset.copy(tmp_path / "copy")
    assert found_in(copy) == Counter([*rows, (100, None, "x")])


def test_a_copy_of_a_part_has_its_rows(tmp_path: Path):
    dataset = made(tmp_path / "d", "by day and kind")
    with dataset.writer() as writer:
        writer.write(rows_from(0, 40))
    copy = dataset.partition(kind="a/b").copy(tmp_path / "copy", partition="day")
    assert found_in(copy) == Counter(row for row in rows_from(0, 40) if row[2] == "a/b")
    assert found_in(made(tmp_path / "empty").copy(tmp_path / "empty copy")) == Counter()


def test_its_repr_is_one_line(tmp_path: Path):
    dataset = made(tmp_path / "d", "by day and kind")
    part = dataset.partition(day="2026-01-31")
    for one in (dataset, part):
        assert repr(one).startswith("Dataset('")
        assert len(repr(one)) < 120
    assert "partition=day=2026-01-31" in repr(part)
    assert "partition" not in repr(dataset)


def test_rows_marked_as_deleted_do_not_come_back_without_spark(tmp_path: Path):
    """Nor if writers may mark no more, as by the property that is unset again."""
    dataset, other = made(tmp_path / "a"), made(tmp_path / "b")
    write(dataset, rows_from(0, 4))
    mark_rows(dataset.location, [1, 2])
    assert DeltaTable(dataset.location).metadata().configuration[MARKS_ROWS] == "false"
    for action in (
        dataset.read,
        partial(other.absorb, dataset),
        partial(dataset.copy, tmp_path / "c"),
    ):
        with pytest.raises((dp.SessionError, dp.InvalidArgumentError)):
            action()
    assert found_in(other) == Counter()
    directory = Directory(ThisMachine(), dataset.location)
    told = reads.files(directory, DeltaTable(dataset.location).version(), Handles(), TableStates())
    assert told is not None
    assert told.column(MARKED).to_pylist() == [[1, 2]]
    assert not changes.deleted(directory, "id = 0", "{}")


def test_a_copy_that_fails_or_is_interrupted_leaves_no_files(tmp_path: Path):
    dataset = made(tmp_path / "d", "by day and kind")
    write(dataset, rows_from(0, 20))

    def files() -> list[Path]:
        return [one for one in (tmp_path / "copy").rglob("*") if one.is_file()]

    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def interrupted(*given: object) -> AddAction:
        if files():
            raise KeyboardInterrupt
        return written(*given)  # type: ignore[arg-type]

    unlink = os.unlink

    def once_linked(path: str, **more: Any) -> None:
        if path.endswith(".tmp"):  # the name under which the commit was written
            full()
        unlink(path, **more)

    for holder, name, fails, error in (
        (os, "link", full, dp.StorageError),
        (copying, "written", interrupted, KeyboardInterrupt),
    ):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(holder, name, fails)
            with pytest.raises(error):
                dataset.copy(tmp_path / "copy", partition="kind")
        assert not files()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "unlink", once_linked)
        copy = dataset.copy(tmp_path / "copy", partition="kind")
    assert found_in(copy) == Counter(rows_from(0, 20))


def test_a_copy_or_a_new_one_is_there_as_a_whole_or_not_at_all_after_a_crash(tmp_path: Path):
    dataset = made(tmp_path / "d", "by day and kind")
    write(dataset, rows_from(0, 20))
    actions = {
        "copy": lambda place: dataset.copy(place, partition="kind"),
        "new": lambda place: made(place, "by day and kind"),
    }
    for name, action in actions.items():
        at, outcomes = 0, set[bool]()
        while crashed(partial(action, tmp_path / f"{name}{at}"), at):
            place = tmp_path / f"{name}{at}"
            is_there = (place / "_delta_log").exists()
            outcomes.add(is_there)
            if is_there:
                with pytest.raises(dp.AlreadyExistsError):
                    action(place)
            else:
                with pytest.raises(dp.NotFoundError):
                    dp.Dataset.find(None, place)
                action(place)
            expected = Counter(rows_from(0, 20)) if name == "copy" else Counter()
            assert found_in(dp.Dataset.find(None, place)) == expected
            at += 1
        assert outcomes == {True, False}


@pytest.mark.long
@pytest.mark.parametrize("what", ["copy", "new"])
def test_a_killed_process_leaves_a_whole_copy_or_new_one_or_none(tmp_path: Path, what: str):
    dataset, at, outcomes = made(tmp_path / "d", "by day and kind"), 0, set[bool]()
    write(dataset, rows_from(0, 20))
    expected = Counter(rows_from(0, 20)) if what == "copy" else Counter()
    while True:
        place = str(tmp_path / f"{at}")
        action = {
            "copy": f"dp.Dataset.find(None, {dataset.location!r}).copy({place!r})",
            "new": f"dp.Dataset.create(None, {place!r}, schema='id int', partition='')",
        }[what]
        if not killed(action, at):
            break
        outcomes.add((Path(place) / "_delta_log").exists())
        if not (Path(place) / "_delta_log").exists():
            dataset.copy(place) if what == "copy" else made(place)
        assert found_in(dp.Dataset.find(None, place)) == expected
        at += 1
    assert outcomes == {True, False}


@pytest.mark.parametrize("lacking", [["day"], ["day", "kind"], ["id"]])
def test_a_column_that_a_file_of_someone_else_lacks_is_null(tmp_path: Path, lacking: list[str]):
    """Delta lets writers leave out null columns; one that is NOT NULL is missing."""
    dataset, at = made(tmp_path / "d"), {"id": 1, "day": None, "kind": None}
    write(dataset, rows_from(4, 2))
    rows = pa.Table.from_pylist([at], dataset.read().schema)
    write_deltalake(dataset.location, rows, mode="append")
    (path,) = (path for path in dataset.files() if path.endswith("-c000.snappy.parquet"))
    pq.write_table(rows.drop_columns(lacking), tmp_path / "d" / path)
    if "id" in lacking:
        with pytest.raises(dp.CorruptStoreError):
            dataset.read()
        return
    assert found_in(dataset) == Counter([*rows_from(4, 2), (1, None, None)])
    assert found_in(dataset, "kind is null and day is null and id = 1").total() == 1
    assert found_in(dataset.copy(tmp_path / "copy")) == found_in(dataset)


def test_comments_on_columns_change_nothing(tmp_path: Path):
    dataset = dp.Dataset.create(None, tmp_path / "d", schema="id bigint, at struct<comment: int>")
    DeltaTable(dataset.location).alter.set_column_metadata("id", {"comment": "by whom"})
    found = dp.Dataset.find(None, tmp_path / "d", schema="id bigint, at struct<comment: int>")
    with found.writer() as writer:
        writer.write((1, (2,)))
    assert found.read().to_pylist() == [{"id": 1, "at": {"comment": 2}}]
    fields = json.loads(DeltaTable(dataset.location).schema().to_json())["fields"]
    assert fields[0]["metadata"] == {"comment": "by whom"}


def test_a_data_set_with_a_rule_that_only_spark_checks_takes_no_rows(tmp_path: Path):
    """Not even of a writer that was opened before."""
    dataset, other = made(tmp_path / "d"), made(tmp_path / "other")
    write(other, rows_from(5, 2))
    early = dataset.writer()
    DeltaTable(dataset.location).alter.add_constraint({"few": "id < 3"})
    with pytest.raises(dp.StorageError, match="few"), early:
        early.write(rows_from(0, 2))
    with pytest.raises(dp.StorageError, match="few"):
        dataset.writer()
    with pytest.raises(dp.StorageError, match="few"):
        dataset.absorb(other)
    assert (found_in(dataset), found_in(other)) == (Counter(), Counter(rows_from(5, 2)))


def test_a_table_that_asks_too_much_of_a_writer_is_told_at_once(tmp_path: Path):
    """Nobody was faster, so nothing is tried again."""
    dataset, other = made(tmp_path / "d"), made(tmp_path / "other")
    for one, first in ((dataset, 0), (other, 5)):
        write(one, rows_from(first, 3))
    protocol = {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["appendOnly", "invariants", "domainMetadata", "rowTracking"],
    }
    log = Path(dataset.location) / "_delta_log" / f"{2:020}.json"
    log.write_text(json.dumps({"protocol": protocol}))
    with pytest.raises(dp.StorageError, match="RowTracking"):
        write(dataset, rows_from(0, 3))
    for into, of in ((dataset, other), (other, dataset)):
        with pytest.raises(dp.StorageError, match="RowTracking"):
            into.absorb(of)
    assert (found_in(dataset), found_in(other)) == (
        Counter(rows_from(0, 3)),
        Counter(rows_from(5, 3)),
    )
    write(other, rows_from(3, 1))


def test_a_data_set_that_only_grows_is_not_absorbed(tmp_path: Path):
    into, other = made(tmp_path / "d"), made(tmp_path / "other")
    write(other, rows_from(0, 3))
    table = DeltaTable(other.location)
    table.alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(dp.InvalidArgumentError) as refused:
        into.absorb(other)
    assert refused.value.argument == "other"
    assert (found_in(into), found_in(other)) == (Counter(), Counter(rows_from(0, 3)))
    write(other, rows_from(3, 1))
