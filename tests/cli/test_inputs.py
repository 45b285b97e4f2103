"""Input files: what each format yields, which files are new, and what is refused."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import deltaproduce as dp
from deltaproduce.cli.inputs import tables
from deltaproduce.cli.inputs.files import files_of
from deltaproduce.cli.inputs.positions import TakenFiles
from deltaproduce.cli.inputs.reading.reader import SourceReader
from deltaproduce.cli.inputs.reading.texts import Forms
from deltaproduce.projects.file import Input, parsed
from deltaproduce.shown.update_ids import description

SHOP = dp.Pipeline("shop")
SOURCE = SHOP.source(
    "sales",
    key="day date, shop string",
    value="n int, amount decimal(12,2), share double, paid boolean, at timestamp, "
    "seen timestamp_ntz",
)
ROW = {
    "day": date(2026, 1, 2),
    "shop": "a",
    "n": 3,
    "amount": Decimal("1.50"),
    "share": 0.25,
    "paid": True,
    "at": datetime(2026, 1, 2, 10, tzinfo=UTC),
    "seen": datetime(2026, 1, 2, 11),
}
IN_CSV = (
    "seen,day,shop,n,amount,share,paid,at,more\n"
    "2026-01-02 11:00:00,2026-01-02,a,3,1.50,0.25,true,2026-01-02T10:00:00Z,x\n"
)
NULLS = dict.fromkeys(ROW) | {"day": date(2026, 1, 3), "shop": ""}

paths = st.sampled_from(["a", "b/c", "d"])
files = st.dictionaries(st.sampled_from(["s", "t"]), st.dictionaries(paths, st.text(max_size=2)))


def reader(form="csv", mode="snapshot", **options):
    return SourceReader(Input("sales", form, "", mode, **options), SOURCE, Forms())


def read(path, form="csv", **options):
    return tables.snapshot([path], reader(form, **options))


def test_text_becomes_what_the_source_declares(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text(IN_CSV + ',2026-01-03,"",,,,,,\n')
    assert read(path).to_pylist() == [ROW, NULLS]
    path.write_text(IN_CSV.replace(",", ";").replace(";x", ";-").replace("a;3", "a;-"))
    assert read(path, delimiter=";", null="-").to_pylist() == [{**ROW, "n": None}]


def test_a_line_of_json_is_a_row(tmp_path):
    path = tmp_path / "sales.json"
    row = {**ROW, "amount": "1.50", "day": "2026-01-02", "at": "2026-01-02T10:00:00Z"}
    row["seen"] = "2026-01-02T11:00:00"
    path.write_text(json.dumps({**row, "more": [1]}) + "\n" + '{"day": "2026-01-03", "shop": ""}')
    assert read(path, "json").to_pylist() == [ROW, NULLS]


def test_parquet_and_delta_have_types_of_their_own(tmp_path):
    rows = pa.Table.from_pylist([{**ROW, "more": 1}])
    parquet.write_table(rows, tmp_path / "sales.parquet")
    assert read(tmp_path / "sales.parquet", "parquet").to_pylist() == [ROW]
    write_deltalake(str(tmp_path / "table"), rows)
    assert tables.delta(str(tmp_path / "table"), SOURCE).to_pylist() == [ROW]
    with pytest.raises(dp.InvalidChangesError, match="nothing"):
        tables.delta(str(tmp_path / "nothing"), SOURCE)


def test_timestamps_as_spark_writes_them_are_moments_of_the_whole_calendar(tmp_path):
    """Spark writes INT96 without a zone, whose nanoseconds no 64 bits hold after 2261."""
    times = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
    rows = pa.Table.from_pylist([{**ROW, "at": time} for time in times])
    path = tmp_path / "sales.parquet"
    parquet.write_table(rows, path, use_deprecated_int96_timestamps=True)
    assert [row["at"] for row in read(path, "parquet").to_pylist()] == times


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("csv", IN_CSV.replace("a,3", "a,3.5")),
        ("csv", IN_CSV.replace("1.50", "1.505")),
        ("csv", IN_CSV.replace("10:00:00Z", "10 o'clock")),
        ("csv", IN_CSV + "1,2\n"),
        ("json", '{"day": '),
        ("json", '{"n": "x"}'),
        ("parquet", IN_CSV),
    ],
)
def test_what_does_not_fit_is_said_with_the_path(tmp_path, form, text):
    path = tmp_path / "sales"
    path.write_text(text)
    with pytest.raises(dp.InvalidChangesError, match=str(path)) as error:
        read(path, form)
    assert (error.value.source, "\n" in str(error.value)) == ("sales", False)


keys = st.lists(st.none() | st.integers(0, 3), max_size=5)


@given(st.lists(keys, min_size=1, max_size=4))
def test_rows_of_a_key_are_those_of_the_last_file_that_has_it(in_files):
    """Against a dict that each file writes over, key by key; nulls are keys too."""
    expected: dict[int | None, list[tuple[int, int]]] = {}
    for number, of_file in enumerate(in_files):
        rows: dict[int | None, list[tuple[int, int]]] = {}
        for place, key in enumerate(of_file):
            rows.setdefault(key, []).append((number, place))
        expected |= rows
    given_tables = [
        pa.table(
            {
                "k": pa.array(of_file, pa.int64()),
                "file": np.full(len(of_file), number),
                "row": np.arange(len(of_file)),
            }
        )
        for number, of_file in enumerate(in_files)
    ]
    found: dict[int | None, list[tuple[int, int]]] = {}
    together, sizes = pa.concat_tables(given_tables), list(map(len, given_tables))
    for row in tables.newest_of_keys(together, sizes, ["k"]).to_pylist():
        found.setdefault(row["k"], []).append((row["file"], row["row"]))
    assert found == expected


@given(st.lists(files, max_size=4), files, st.lists(st.text(), max_size=3))
def test_a_file_is_new_if_it_is_not_what_was_last_taken_by_its_name(runs, there, others):
    """Whatever ids others have given; and no id comes twice."""
    ids, taken = list(others), {}
    for of_run in runs:
        name = TakenFiles.of(ids).update_id({s: f for s, f in of_run.items() if f})
        assert name not in ids
        ids += [name] if name is not None else []
        taken |= {(source, f): digest for source, fs in of_run.items() for f, digest in fs.items()}
    new = TakenFiles.of(ids).new(there)
    assert {(s, f): digest for s, fs in new.items() for f, digest in fs.items()} == {
        (s, f): digest
        for s, fs in there.items()
        for f, digest in fs.items()
        if taken.get((s, f)) != digest
    }
    assert all(new.values())


@pytest.mark.parametrize(
    "text",
    [
        '{"run":',
        '{"run":1}',
        '{"run":"1","files":{}}',
        '{"run":1,"files":{"s":1}}',
        '{"run":' * 9_999,
    ],
)
def test_ids_of_others_are_left_alone(text):
    assert TakenFiles.of([text]) == TakenFiles()
    assert description(text) == text


def test_files_of_a_folder_a_pattern_and_a_file(tmp_path):
    text = '[project]\nname = "x"\npipeline = "x:x"\nstore = "./x"'
    project = parsed(text, tmp_path)
    for name in ("b/2.csv", "b/1.csv", "b/.3.csv", "b/_4.csv", "b/_delta/5.csv", "b/c/6.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def names(path, mode="snapshot"):
        return list(files_of(project, Input("sales", "csv", path, mode)))

    assert names("b") == ["1.csv", "2.csv", "c/6.txt"]
    assert names("b/*.csv") == ["1.csv", "2.csv"]
    assert names("**/*.txt") == ["b/c/6.txt"]
    assert names("b/2.csv") == ["2.csv"]
    assert names("b/*.parquet", "changes") == []
    for path in ("b/*.parquet", "nothing"):
        with pytest.raises(dp.DefinitionError, match=r"sources\.sales"):
            names(path)


def test_a_pattern_is_of_the_input_and_not_of_the_project_s_folder(tmp_path):
    text = '[project]\nname = "x"\npipeline = "x:x"\nstore = "./x"'
    folder = tmp_path / "of [2026]"
    (folder / "b").mkdir(parents=True)
    (folder / "b" / "1.csv").touch()
    for path in ("b/*.csv", "*/1.csv", str(folder / "b") + "/?.csv"):
        if path.startswith("/"):
            path = path.replace("[2026]", "[[]2026[]]")
        found = Input("sales", "csv", path, "changes")
        assert [*files_of(parsed(text, folder), found).values()] == [folder / "b" / "1.csv"]


def test_an_empty_file_of_json_has_no_rows(tmp_path):
    """Spark writes one where there are no rows."""
    (tmp_path / "sales.json").touch()
    rows = read(tmp_path / "sales.json", "json")
    assert len(rows) == 0
    assert set(rows.column_names) == set(ROW)
    (tmp_path / "more.json").write_text(json.dumps({**NULLS, "day": "2026-01-03"}))
    both = [tmp_path / "sales.json", tmp_path / "more.json"]
    found = tables.changes(both, reader("json", "changes"))
    assert found.to_pylist() == [NULLS]


def test_each_time_has_a_zone_or_is_on_the_clock_of_the_file(tmp_path):
    """One by one: rows of one column, and files of one source, need not agree."""
    for number, zone in enumerate(("Z", "", "+02:00")):
        row = {"day": "2026-01-03", "shop": str(number), "at": f"2026-01-02T10:00:00{zone}"}
        (tmp_path / str(number)).write_text(json.dumps({**dict.fromkeys(ROW), **row}))
    paths = [tmp_path / str(number) for number in range(3)]
    paths[2].write_text("\n".join(path.read_text() for path in paths[::-1]))
    in_paris = SourceReader(reader("json").input, SOURCE, Forms(ZoneInfo("Europe/Paris")))
    found = tables.changes(paths, in_paris).to_pylist()
    hours = {row["shop"]: row["at"].astimezone(UTC).hour for row in found}
    assert hours == {"0": 10, "1": 9, "2": 8}


def test_a_column_that_is_there_twice_is_refused_by_its_name(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text(IN_CSV.replace("more", "n").replace(",x", ",4"))
    with pytest.raises(dp.InvalidChangesError, match="has column n twice"):
        read(path)
    path.write_text(IN_CSV.replace("more", "N").replace(",x", ",4"))
    with pytest.raises(dp.InvalidChangesError, match="has column n twice"):
        read(path)


def test_a_file_that_changes_while_it_is_read_is_refused(project, call, monkeypatch):
    parts = SourceReader.parts
    path = project / "data" / "orders" / "2026-01-01.csv"

    def slowly(self, read, *absence):
        if read == path:
            path.write_text(path.read_text() + "105,1,1.00\n")
        return parts(self, read, *absence)

    monkeypatch.setattr(SourceReader, "parts", slowly)
    assert "changed while they were read" in call("run", code=1).stderr
    monkeypatch.undo()
    monkeypatch.chdir(project)
    assert call("run").stdout.splitlines()[-1].startswith("version 1")


def test_inputs_of_no_source_are_refused(project, call):
    file = project / "deltaproduce.toml"
    file.write_text(file.read_text().replace("[sources.orders]", "[sources.customer_totals]"))
    for verb, code in (("run", 2), ("plan", 2), ("check", 1)):
        assert "[sources.customer_totals]" in call(verb, code=code).output


def test_check_names_columns_that_are_missing(project, asked):
    (project / "data" / "customers.csv").write_text("customer_id,nam\n1,Ann\n")
    (problem,) = asked("check", code=1)["problems"]
    assert problem["stage"] == "customers"
    assert "no column name; it has customer_id, nam" in problem["message"]
    assert asked("check", "--select", "orders")["problems"] == []


def test_a_file_without_a_column_is_refused_by_its_name(project, call, asked):
    """Also beside one that has it, whose rows would be null there; deletes need keys alone."""
    folder = project / "data" / "orders"
    (folder / "2026-01-02.csv").write_text("order_id,customer_id\n101,2\n")
    (problem,) = asked("check", code=1)["problems"]
    for said in (problem["message"], call("run", code=1).stderr):
        assert "2026-01-02.csv" in said
        assert "no column amount, which '2026-01-01.csv' has; it has order_id" in said
    (folder / "2026-01-02.csv").write_text("order_id,_change_type\n101,upsert\n")
    assert "no column customer_id, amount" in call("run", code=1).stderr
    (folder / "2026-01-02.csv").write_text("order_id,_change_type\n101,delete\n")
    assert call("run").stdout.splitlines()[-1].startswith("version 1")
    assert call("show", "orders", "101").stdout.startswith("no rows")
