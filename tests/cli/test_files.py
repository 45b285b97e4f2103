"""Files of rows: what is in them comes into the store unchanged, or they are refused by place."""

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from file_cases import CASES
from pyarrow import parquet

import deltaproduce as dp
from deltaproduce.cli.inputs import forms, tables
from deltaproduce.cli.inputs.reading.reader import SourceReader
from deltaproduce.cli.inputs.reading.texts import Forms
from deltaproduce.projects.file import Input

NAMES = [case.name for case in CASES]


def reader(case, mode):
    source = dp.Pipeline("p").source("s", key=case.key, value=case.value)
    return SourceReader(Input("s", case.format, "", mode, **case.settings), source, Forms())


@pytest.mark.parametrize(
    ("fillers", "mode"),
    [(0, "snapshot"), (0, "changes"), (30_000, "snapshot"), (30_000, "changes")],
)
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_file_is_read_as_it_is_or_refused_by_its_place(case, fillers, mode, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(case.data(fillers))
    read = tables.snapshot if mode == "snapshot" else tables.changes
    if case.rows is None:
        with pytest.raises(dp.InvalidChangesError) as error:
            read([path], reader(case, mode))
        line = None if case.line is None else case.line + fillers
        found = error.value
        assert (found.file, found.line, found.column) == (str(path), line, case.column)
        assert str(path) in str(found)
        assert line is None or f"line {line}" in str(found)
        assert case.column is None or case.column in str(found)
    else:
        rows = read([path], reader(case, mode))
        assert len(rows) == fillers + len(case.rows)
        assert rows.slice(fillers).to_pylist() == case.rows


WRITTEN = "k;day;at;x;d\n1;31.01.26;31/Jan/2026 02:30 PM;1,5;-,25\n2;01.02.26;;1e2;\n"


def settings(**more):
    return Input("s", path="", mode="snapshot", **more)


def read(found, content, tmp_path, zone="UTC"):
    value = "day date, at timestamp, x double, d decimal(10,2)"
    source = dp.Pipeline("p").source("s", key="k bigint", value=value)
    path = tmp_path / "file"
    path.write_bytes(content)
    return tables.snapshot([path], forms.reader(found, source, zone)).to_pylist()


def test_a_source_says_how_its_values_are_written(tmp_path):
    found = settings(
        format="csv",
        delimiter=";",
        decimal=",",
        date_format="%d.%m.%y",
        timestamp_format="%d/%b/%Y %I:%M %p",
        timezone="America/New_York",
        encoding="utf-16",
    )
    first, second = read(found, WRITTEN.encode("utf-16"), tmp_path)
    assert first == {
        "k": 1,
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 19, 30, tzinfo=UTC),
        "x": 1.5,
        "d": Decimal("-0.25"),
    }
    assert (second["x"], second["d"]) == (100.0, None)
    for text, column in ((WRITTEN.replace("1,5", "1.5"), "x"), (WRITTEN.replace("Jan", "1"), "at")):
        with pytest.raises(dp.InvalidChangesError) as error:
            read(found, text.encode("utf-16"), tmp_path)
        assert (error.value.line, error.value.column) == (2, column)
    with pytest.raises(dp.InvalidChangesError, match="utf-16"):
        read(found, WRITTEN.encode("utf-16")[:-1], tmp_path)


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_zone_of_a_source_is_that_of_its_times_without_one(form, tmp_path):
    row = {"k": 1, "day": None, "at": datetime(2026, 7, 1, 12), "x": None, "d": None}
    path = tmp_path / "written"
    if form == "json":
        path.write_text(json.dumps(row, default=str))
    else:
        parquet.write_table(pa.Table.from_pylist([row]), path)
    found = settings(format=form, timezone="Europe/Paris")
    assert read(found, path.read_bytes(), tmp_path)[0]["at"].astimezone(UTC).hour == 10
    found = settings(format=form)
    zone = "America/New_York"
    assert read(found, path.read_bytes(), tmp_path, zone)[0]["at"].astimezone(UTC).hour == 16


@pytest.mark.parametrize(
    "wrong",
    [
        {"encoding": "hex"},
        {"encoding": "latin-99"},
        {"timezone": "Mars/Base"},
        {"date_format": "dd.MM.yyyy"},
        {"timestamp_format": "%d.%m"},
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(wrong, tmp_path):
    (key,) = wrong
    with pytest.raises(dp.DefinitionError, match=rf"\[sources\.s\] {key} is "):
        read(settings(format="csv", **wrong), b"", tmp_path)


def test_each_file_is_by_itself(tmp_path):
    """What is refused alone is refused beside another file; units of times are no matter."""
    value = "p struct<a: bigint, b: bigint>, x double, at timestamp_ntz"
    source = dp.Pipeline("p").source("s", key="k bigint", value=value)
    row = {"k": 1, "p": {"a": 1, "b": 2}, "x": 1.5, "at": datetime(2026, 1, 1)}
    both = {"k": 2, "p": {"a": 1, "b": None}, "x": None, "at": row["at"]}
    tables_of = {
        "good": pa.Table.from_pylist([row]),
        "ns": pa.Table.from_pylist([both]).set_column(
            3, "at", pa.array([row["at"]], pa.timestamp("ns"))
        ),
        "field": pa.Table.from_pylist([{**row, "p": {"a": 1}}]),
        "decimal": pa.Table.from_pylist([{**row, "x": Decimal("1.50")}]),
    }
    for name, table in tables_of.items():
        parquet.write_table(table, tmp_path / name)
    reads = SourceReader(settings(format="parquet"), source, Forms())
    found = tables.snapshot([tmp_path / "good", tmp_path / "ns"], reads)
    assert found.to_pylist() == [row, both]
    for name, column in (("field", "p"), ("decimal", "x")):
        for others in ((), ("good",)):
            with pytest.raises(dp.InvalidChangesError, match=name) as error:
                tables.snapshot([tmp_path / one for one in (*others, name)], reads)
            assert error.value.column == column


def test_a_row_of_parquet_is_named_by_its_number(tmp_path):
    source = dp.Pipeline("p").source("s", key="k bigint", value="n int")
    numbers = [*range(200_000), 2**31]
    parquet.write_table(pa.table({"k": numbers, "N": numbers}), tmp_path / "file")
    with pytest.raises(dp.InvalidChangesError, match=r"column 'n': row 200000 \(from 0\)"):
        tables.snapshot(
            [tmp_path / "file"], SourceReader(settings(format="parquet"), source, Forms())
        )


def test_rows_that_do_not_fit_in_memory_are_in_a_file(tmp_path):
    """A file of 100 MB takes no more memory than a few blocks of it."""
    source = dp.Pipeline("p").source("s", key="k bigint", value="t string")
    with (tmp_path / "file").open("w") as file:
        file.write("k,t\n")
        for first in range(100):
            file.write("".join(f"{first * 1000 + n},{'x' * 1000}\n" for n in range(1000)))
    before = pa.total_allocated_bytes()
    rows = tables.snapshot(
        [tmp_path / "file"], SourceReader(settings(format="csv"), source, Forms())
    )
    assert rows.num_rows == 100_000
    assert pa.total_allocated_bytes() - before < 80 << 20


def test_a_snapshot_has_no_change_types(tmp_path):
    source = dp.Pipeline("p").source("s", key="k bigint", value="t string")
    (tmp_path / "file").write_text("k,t,_change_type\n1,a,delete\n")
    with pytest.raises(dp.InvalidChangesError, match="_change_type") as error:
        tables.snapshot([tmp_path / "file"], SourceReader(settings(format="csv"), source, Forms()))
    assert error.value.column == "_change_type"


def test_compressed_files_are_read_by_their_names(tmp_path):
    source = dp.Pipeline("p").source("s", key="k bigint", value="t string")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"k,t\n1,a\n") + gzip.compress(b"2,b\n"))
    rows = tables.snapshot(
        [tmp_path / "a.csv.gz"], SourceReader(settings(format="csv"), source, Forms())
    )
    assert rows.to_pylist() == [{"k": 1, "t": "a"}, {"k": 2, "t": "b"}]
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"k,t\n1,a\n")[:-9])
    with pytest.raises(dp.InvalidChangesError, match=r"a\.csv\.gz"):
        tables.snapshot(
            [tmp_path / "a.csv.gz"], SourceReader(settings(format="csv"), source, Forms())
        )
