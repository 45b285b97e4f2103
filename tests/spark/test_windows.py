"""Windows in Spark and on both engines in turn: the same laws as in `tests/local`."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from comparing import as_frames, assert_same
from counting import files_read, latest_query
from forcing import WAYS, Way, forced
from pyspark.sql import SparkSession
from selecting import chosen, long
from test_local_windows import content_files, day, history, site, views

import deltaproduce as dp
from deltaproduce import agg
from deltaproduce.stages.aggregates import kind, windowed
from deltaproduce.testing import Oracle

VERSIONS = 4
WINDOWS = "of_days", "of_times", "of_place", "of_bare", "of_seqs"
WINDOWED = "views_0", "views_1", "views_2"
KEYS = ["id bigint, day date", "day date, id bigint"]


@long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_versions_equal_the_oracle(
    spark: SparkSession,
    location: str,
    way: Way,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Windows are moved and made anew; what is stored, states too, is what a refresh makes.

    `tests/local` has the same law in each run.
    """
    pipeline = without_idle_sources(site(WINDOWS))
    oracle = Oracle(pipeline)
    names = {source.name for source in pipeline.graph().sources}
    series = history(100 + WAYS.index(way))[:VERSIONS]
    with forced(way):
        store = dp.Store(spark, location, pipeline, table_type=way.table_type)
        for number, (given, told) in enumerate(series):
            batch = {name: changes for name, changes in given.items() if name in names}
            if "partitions" in told:
                partitions = told["partitions"].items()
                told["partitions"] = {name: one for name, one in partitions if name in names}
            found = windowed.Way(number % 2 == 1, "so it is tested")
            monkeypatch.setattr(kind, "way", lambda *_, found=found: found)
            version = store.update(as_frames(spark, pipeline, batch), **told)
            assert version.number == oracle.update(batch, **told)
            assert_same(store, oracle, pipeline, version.number)
        for stage in (*WINDOWS, "of_partials"):
            figures = store.refresh(stage).stages[stage]
            assert (figures.rows_added, figures.rows_removed) == (0, 0)
            assert figures.mode == "full" or not oracle.content(stage)
        assert_same(store, oracle, pipeline, 1)
        assert store.verify(recompute=True) == ()


@long
@pytest.mark.parametrize("reused", chosen((True, False), True))
def test_a_table_of_others_has_only_its_rows_of_now(
    spark: SparkSession,
    location: str,
    reused: bool,
    monkeypatch: pytest.MonkeyPatch,
    long_run: bool,
) -> None:
    """Of a source that is read in place a move takes rows that are gone from what changed.

    In a long run the window moves back, too, and all is verified.
    """
    monkeypatch.setattr(kind, "way", lambda *_: windowed.Way(reused, "so it is tested"))
    place = f"{location}-others"
    columns = "id bigint, day date, member bigint"

    def there(rows: list[tuple[int, int, int]], mode: str) -> None:
        dated = [(n, date(2013, 3, day), member) for n, day, member in rows]
        spark.createDataFrame(dated, columns).write.format("delta").mode(mode).save(place)

    there([(1, 1, 7), (2, 2, 7), (3, 3, 8), (4, 3, 8)], "append")
    pipeline = dp.Pipeline("others")
    events = pipeline.delta_source("events", table=place, key="id, day", value="member")
    values = {"n": agg.count()}
    pipeline.aggregate(
        "views", events, key="member", values=values, window=dp.window("day", last=2)
    )
    store = dp.Store(spark, location, pipeline)

    def counts() -> dict[int, int]:
        return {row.member: row.n for row in store.content("views").collect()}

    store.update()
    assert counts() == {7: 1, 8: 2}
    spark.sql(f"DELETE FROM delta.`{place}` WHERE id IN (2, 3)")
    there([(5, 4, 9), (6, 3, 7)], "append")
    version = store.update()
    assert counts() == {7: 1, 8: 1, 9: 1}
    move = version.stages["views"].window
    assert move is not None
    assert (move.last, move.left) == (date(2013, 3, 4), (date(2013, 3, 2),))
    if long_run:
        store.update({}, as_of="2013-03-02")
        assert counts() == {7: 1}
        assert store.verify(recompute=True) == ()


@long
def test_windows_over_one_feeder_read_each_partition_once(
    spark: SparkSession, location: str
) -> None:
    """In Spark, too: of three windows the second reads but a day, and the last one nothing.

    `tests/local` has it in each run.
    """
    limits = dp.Limits(small_table_rows=0, replaced_percent=900, partition_rows=3, local_rows=0)
    pipeline = views(*(dp.window("day", last=last) for last in (10, 9, 10)))
    rows = [row for number in range(1, 15) for row in day(number, [1, number % 3, 5])]
    given = spark.createDataFrame(pa.Table.from_pylist(rows))
    dp.Store(spark, location, pipeline, limits=limits).update({"events": given}, as_of="2013-03-12")
    opened: dict[str, int] = {}

    def told(progress: dp.Progress) -> None:
        if progress.stage in WINDOWED and not progress.phase:
            begun = opened.get(progress.stage, 0)
            opened[progress.stage] = files_read(spark, before) - begun

    store = dp.Store(spark, location, pipeline, limits=limits, progress=told)
    before = latest_query(spark)
    store.update({}, as_of="2013-03-13")
    first, second, _ = (opened[name] - opened[WINDOWED[-1]] for name in WINDOWED)
    assert first >= 2  # beside what is kept of the stage: two days,
    assert 1 <= second <= 2  # and one; either may read the feeder's log, too
    assert [counted(store, name) for name in WINDOWED] == [
        {0: 3, 1: 14, 2: 3, 5: 10},
        {0: 3, 1: 12, 2: 3, 5: 9},
        {0: 3, 1: 14, 2: 3, 5: 10},
    ]


@long
@pytest.mark.parametrize("key", chosen(KEYS, KEYS[0]))
@pytest.mark.parametrize("local_rows", chosen((0, 1_000), 0))
def test_files_are_of_one_partition_each(
    spark: SparkSession, location: str, local_rows: int, key: str
) -> None:
    """Of rows in Spark, and of those that Spark gets from the driver; others may be unreadable.

    A key that begins with the day is put in files once, and numbered there.
    """
    limits = dp.Limits(
        small_table_rows=0, replaced_percent=900, partition_rows=3, local_rows=local_rows
    )
    pipeline = views(dp.window("day", last=10), key=key)
    rows = [row for number in range(1, 21) for row in day(number, [1, number % 3, 5])]
    store = dp.Store(spark, location, pipeline, limits=limits)
    given = spark.createDataFrame(pa.Table.from_pylist(rows))
    store.update({"events": given}, as_of="2013-03-12")
    files = content_files(location)
    assert sorted(files.values()) == [(date(2013, 3, n), date(2013, 3, n)) for n in range(1, 21)]
    for name, (first, _) in files.items():
        if first.day not in (3, 13):
            (Path(location) / "events" / "content" / name).write_bytes(b"garbage")
    version = store.update({}, as_of="2013-03-13")
    move = version.stages["views_0"].window
    assert move is not None
    assert (move.reused, move.left) == (True, (date(2013, 3, 3),))
    assert counted(store, "views_0") == {0: 3, 1: 14, 2: 3, 5: 10}


def counted(store: dp.Store, stage: str) -> dict[int, int]:
    return {row.member_id: row.n for row in store.content(stage).collect()}


def without_idle_sources(pipeline: dp.Pipeline) -> dp.Pipeline:
    """The pipeline, but for sources that no stage reads: each would have tables to be written."""
    found = dp.Pipeline(pipeline.name)
    read = {feeder.name for stage in pipeline.graph().producers for feeder in stage.feeders}
    for stage in pipeline.stages:
        if stage.feeders or stage.name in read:
            found.add(stage)
    return found
