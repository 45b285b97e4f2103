"""Files that Spark fetches are read as those of this machine, by the same reader."""

import gzip
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

import deltaproduce as dp
from deltaproduce.cli.inputs import remote, tables
from deltaproduce.cli.inputs.reading.reader import SourceReader
from deltaproduce.cli.inputs.reading.texts import Forms
from deltaproduce.cli.inputs.reading.times import instants
from deltaproduce.projects.file import Input
from deltaproduce.projects.sections import ProjectFileError
from deltaproduce.times.zones import zone_of

PIPELINE = dp.Pipeline("p")
SOURCE = PIPELINE.source("s", key="k string", value="n bigint, p struct<a: string, b: date>")
FLAT = PIPELINE.source("flat", key="k string", value="t string, n bigint")


def reader(form: str) -> SourceReader:
    source = FLAT if form == "csv" else SOURCE
    return SourceReader(Input(source.name, form, "", "snapshot"), source, Forms())


def in_folders(path: str) -> SourceReader:
    return SourceReader(Input("flat", "csv", path, "snapshot", optional=("n",)), FLAT, Forms())


def test_files_are_fetched_by_spark_and_read_by_the_same_reader(
    spark: SparkSession, tmp_path: Path, location: str
) -> None:
    """All formats, in the order of their names; a wrong value is named by file, line and column."""
    for folder in ("csv", "json", "parquet", "wrong"):
        (tmp_path / folder / "in").mkdir(parents=True)
    (tmp_path / "csv/b.csv").write_text('K,n,t\nx,1,"a\nb"\nx,2,\n')
    (tmp_path / "csv/_hidden.csv").write_text("no columns")
    (tmp_path / "csv/in/a.csv.gz").write_bytes(gzip.compress(b'k,t,N,more\nx,"",3,-\ny,c,,-\n'))
    rows = '{"k": "x", "n": 1, "p": {"b": "2026-01-31", "a": "é"}}\n{"k": "y", "n": 2, "p": null}\n'
    (tmp_path / "json/a.json").write_text(rows)
    small = pa.table({"n": pa.array([3], pa.int8()), "k": ["z"], "P": [{"a": "", "b": None}]})
    parquet.write_table(small, tmp_path / "parquet/a.parquet")
    for form in ("csv", "json", "parquet"):
        found = remote.snapshot(spark, f"file://{tmp_path}/{form}", reader(form))
        paths = sorted(path for path in (tmp_path / form).rglob("*.*") if path.name[0] != "_")
        here = tables.snapshot(paths, reader(form)).to_pylist()
        there = found.orderBy("_ordinal").drop("_ordinal").toArrow().to_pylist()
        assert there == here
        assert len(here) == {"csv": 4, "json": 2, "parquet": 1}[form]
    (tmp_path / "wrong/a.csv").write_text("k,t,n\nx,,1\n")
    (tmp_path / "wrong/b.csv").write_text('k,t,n\nx,"a\n",1\ny,,0x10\n')
    with dp.Store(spark, location, PIPELINE) as store:
        with pytest.raises(dp.InvalidChangesError) as error:
            store.load({"flat": remote.snapshot(spark, f"file://{tmp_path}/wrong", reader("csv"))})
        found = error.value
        assert (found.source, found.line, found.column) == ("flat", 4, "n")
        assert str(found.file).endswith("wrong/b.csv")
        assert store.head.number == 0
    with pytest.raises(ProjectFileError, match="no file"):
        remote.snapshot(spark, f"file://{tmp_path}/wrong/in", reader("csv"))


def test_files_that_spark_fetches_may_lack_what_those_of_this_machine_may(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A column that came later is null; one that a file has lost is refused by names of files."""
    (tmp_path / "a.csv").write_text("k,t\nx,a\n")
    (tmp_path / "b.csv").write_text("k,t,n\ny,b,1\n")
    found = remote.snapshot(spark, f"file://{tmp_path}", reader("csv"))
    assert found.orderBy("k").select("n").collect() == [(None,), (1,)]
    assert not remote.is_empty(found)
    (tmp_path / "c.csv").write_text("k,t\nz,c\n")
    (tmp_path / "b.csv").write_text("k,t,n\n")
    with pytest.raises(dp.InvalidChangesError, match=r"no column n, which '.*b\.csv' has") as error:
        remote.is_empty(remote.snapshot(spark, f"file://{tmp_path}/[bc].csv", reader("csv")))
    assert str(error.value.file).endswith("c.csv")
    (tmp_path / "c.csv").write_text('k,"t')
    with pytest.raises(dp.InvalidChangesError, match=r"c\.csv"):
        remote.snapshot(spark, f"file://{tmp_path}", reader("csv"))
    (tmp_path / "c.csv").unlink()
    (tmp_path / "t=0/n=7/t=%C3%A9").mkdir(parents=True)
    (tmp_path / "t=0/n=7/t=%C3%A9/a.csv").write_text("k\nx\n")
    for path in ("t=0", "t=0/n=7/[t]=*"):
        found = remote.snapshot(spark, f"file://{tmp_path}/{path}", in_folders(path))
        assert found.select("t", "n").collect() == [("é", 7 if path == "t=0" else None)]
    assert remote.is_empty(remote.snapshot(spark, f"file://{tmp_path}/b.csv", reader("csv")))


def test_local_times_are_the_moments_that_spark_takes_them_for(spark: SparkSession) -> None:
    """Around each change of a clock, also where it is not by hours, and before there were zones."""
    clock = [datetime(1800, 1, 1), datetime(9999, 12, 31, 23)]
    for day in ((2026, 3, 29), (2026, 10, 25), (2026, 4, 5), (2026, 10, 4), (1911, 3, 11)):
        clock += [datetime(*day) + timedelta(minutes=15 * n) for n in range(16)]
    micros = np.array([(one - datetime(1970, 1, 1)) // timedelta(microseconds=1) for one in clock])
    for zone in ("Europe/Paris", "Australia/Lord_Howe", "+05:30"):
        parts = ", ".join(
            f"({n}, {one.year}, {one.month}, {one.day}, {one.hour}, {one.minute})"
            for n, one in enumerate(clock)
        )
        moment = f"unix_micros(make_timestamp(y, m, d, h, i, 0, '{zone}'))"
        rows = spark.sql(f"SELECT n, {moment} FROM VALUES {parts} AS x(n, y, m, d, h, i)").collect()
        assert instants(micros, zone_of(zone)).tolist() == [row[1] for row in sorted(rows)]
