"""Columns that files lack: which are null in their rows, and which are refused by name."""

import random

import pyarrow as pa
import pytest
from pyarrow import parquet

import deltaproduce as dp
from deltaproduce.cli.inputs.columns import Headers
from deltaproduce.cli.inputs.headers import absences
from deltaproduce.cli.inputs.reading.reader import SourceReader
from deltaproduce.cli.inputs.reading.texts import Forms
from deltaproduce.projects.file import Input

SHOP = dp.Pipeline("shop")
SOURCE = SHOP.source("orders", key="id bigint", value="amount int NOT NULL, n int, coupon string")
OLD, NEW = ["id", "amount", "n"], ["id", "amount", "n", "coupon"]


def headers(*names, begun=False, optional=()):
    files = {f"{place}.csv": one for place, one in enumerate(names)}
    return Headers(files, SOURCE, optional, begun)


def absent(found, file="0.csv"):
    absence = found.absence(file)
    assert absence.fault is None
    return sorted(absence.columns)


def test_a_column_that_came_later_is_null_in_files_from_before():
    found = headers(OLD, ["ID", "Amount", "N"], NEW)
    assert [absent(found, file) for file in found.names] == [["coupon"], ["coupon"], []]
    assert absent(headers(OLD, begun=True)) == ["coupon"]  # no file has it yet
    assert absent(headers([*OLD, "note"], [*OLD, "note"], begun=True), "1.csv") == ["coupon"]
    assert absent(headers(OLD, None, OLD), "2.csv") == ["coupon"]


def test_nothing_is_null_where_nothing_says_that_a_column_is_new():
    """The only files of a source without rows: its declaration is wrong, or the file."""
    assert absent(headers(OLD)) == []
    assert absent(headers(["id", "n", "coupon"], begun=True)) == []  # amount takes no null
    assert absent(headers(["amount", "n", "coupon"], begun=True)) == []  # nor does a key


@pytest.mark.parametrize(
    ("names", "file", "told"),
    [
        ([NEW, OLD], "1.csv", ["coupon", "0.csv"]),
        ([OLD, ["id", "amount", "coupon"], NEW], "1.csv", ["column n,", "0.csv"]),
        ([OLD, ["id", "amount", "total"]], "1.csv", ["column n,", "0.csv", "total"]),
        ([OLD, [*OLD, "voucher"]], "1.csv", ["coupon", "voucher"]),
        ([[*OLD, "voucher"]], "0.csv", ["coupon", "voucher"]),
    ],
)
def test_a_column_that_is_gone_or_has_another_name_is_refused(names, file, told):
    found = headers(*names, begun=True)
    absence = found.absence(file)
    assert absence.fault is not None
    assert all(part in absence.fault.finding for part in told)
    assert not absence.columns
    optional = headers(*names, begun=True, optional=["N", "Coupon"]).absence(file)
    assert optional.fault is None
    assert optional.columns == {*SOURCE.schema.value.names} - {*names[int(file[0])]}


@pytest.mark.parametrize("seed", range(40))
def test_no_value_that_a_file_before_had_is_lost(seed):
    """Whatever files have: null stands only for columns that no file before has."""
    drawn = random.Random(seed)
    columns = ["id", "amount", "n", "coupon", "note"]
    names = [
        None if drawn.random() < 0.1 else drawn.sample(columns, drawn.randrange(1, 6))
        for _ in range(4)
    ]
    found = headers(*names, begun=drawn.random() < 0.5)
    for place, file in enumerate(found.names):
        before = {name for one in names[:place] for name in one or ()}
        absence = found.absence(file)
        assert not absence.columns & (before | {"id", "amount"} | {*(names[place] or ())})
        if absence.fault is not None:
            assert not absence.columns


ORDERS = """EXTERNAL orders (
  columns (order_id bigint, amount int{more}),
  key (order_id){unique}
);"""
STAGE = "STAGE totals (key (amount));\nSELECT amount, order_id FROM orders"
FILE = """[project]
name = "shop"
location = "lake/shop"

[sources.orders]
format = "csv"
path = "data"
mode = "{mode}"
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """Write a project of one source; returns a function that does."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stages").mkdir()
    (tmp_path / "data").mkdir()

    def written(mode="changes", more="", unique="", settings="", **files):
        (tmp_path / "deltaproduce.toml").write_text(FILE.format(mode=mode) + settings)
        text = ORDERS.format(more=more, unique=unique)
        (tmp_path / "stages" / "orders.sql").write_text(text)
        for name, rows in files.items():
            (tmp_path / "data" / f"{name}.csv").write_text(rows)
        return tmp_path

    return written


def coupons(folder):
    with dp.Project(folder).store(None) as store:
        return store.content("orders", ordered=True).column("coupon").to_pylist()


def test_a_source_gets_a_new_column_while_its_files_come(shop, call, asked):
    """Files of before need not be given again, and a late one may still lack it."""
    folder = shop(a="order_id,amount\n1,5\n")
    call("run")
    shop(more=", coupon string", b="order_id,amount\n2,6\n")
    assert asked("check")["problems"] == []
    call("run")
    assert coupons(folder) == [None, None]
    shop(more=", coupon string", d="order_id,amount,coupon\n4,7,SPRING\n")
    call("run")
    shop(more=", coupon string", c="order_id,amount\n3,7\n")
    call("run")
    assert coupons(folder) == [None, None, None, "SPRING"]
    shop(more=", coupon string", e="order_id,amount,voucher\n5,7,SPRING\n")
    said = call("run", code=1).stderr
    assert "e.csv" in said
    assert "coupon" in said
    assert "d.csv" in said
    assert "voucher" in said
    assert "coupon" in asked("check", code=1)["problems"][0]["message"]
    shop(more=", coupon string", settings='optional = ["coupon"]\n')
    call("run")
    assert coupons(folder)[-1] is None


def test_columns_that_are_gone_are_named_with_the_files_that_have_them(shop, call, asked):
    shop(more=", coupon string", a="order_id,amount,coupon\n1,5,x\n")
    call("run")
    shop(b="order_id,amount\n2,5\n")
    for verb in ("plan", "run"):
        said = call(verb, code=2).stderr
        assert "coupon is gone" in said
        assert "Files that have coupon: 'a.csv'" in said
    (problem,) = asked("check", code=1)["problems"]
    assert "Files that have coupon: 'a.csv'" in problem["message"]
    shop(more=", voucher string", b="order_id,amount\n2,5\n")
    said = call("run", code=2).stderr
    assert "voucher is new" in said
    assert "Files that have coupon: 'a.csv'" in said
    shop(more=", voucher string", c="order_id,coupon,amount\n3,,1\n")
    said = call("run", code=1).stderr
    assert "c.csv" in said
    assert "voucher" in said
    assert "If it is coupon now" in said


@pytest.mark.parametrize("unique", [" unique", ", unique"])
def test_a_key_twice_in_a_file_is_refused_with_both_lines(shop, call, unique):
    shop(unique=unique, a='order_id,amount\n1,5\n2,"6"\n\n3,1\n2,7\n')
    said = call("run", code=1).stderr
    assert "a.csv" in said
    assert "lines 3 and 6" in said
    shop(unique=" unique", a="order_id,amount\n1,5\n2,6\n", b="order_id,amount\n2,7\n")
    call("run")  # the last file counts


def test_deletes_of_a_key_are_no_repeats(shop, call):
    rows = "2,6,delete\n2,6,upsert\n2,6,delete\n2,7,update_postimage\n"
    shop(unique=" unique", a="order_id,amount,_change_type\n" + rows)
    assert "lines 3 and 5" in call("run", code=1).stderr


def test_a_key_twice_in_a_snapshot_is_refused_with_both_files(shop, call):
    shop("snapshot", unique=" unique", a="order_id,amount\n1,5\n2,6\n", b="order_id,amount\n2,7\n")
    for verb in ("plan", "run"):
        said = call(verb, code=1).stderr
        assert "a.csv', line 3, and " in said
        assert "b.csv', line 2, of source 'orders'" in said


def test_a_snapshot_without_rows_is_refused_unless_it_is_allowed(shop, call):
    folder = shop("snapshot", a="order_id,amount\n1,5\n")
    call("run")
    shop("snapshot", a="order_id,amount\n")
    assert "allow_empty" in call("run", code=1).stderr
    with dp.Project(folder).store(None) as store:
        assert store.content("orders").num_rows == 1
    shop("snapshot", settings="allow_empty = true\n")
    call("run")
    with dp.Project(folder).store(None) as store:
        assert store.content("orders").num_rows == 0
    shop(settings="allow_empty = true\n")
    assert "snapshot" in call("run", code=2).stderr


def test_a_file_that_was_sent_again_is_said(shop, call, asked):
    shop(a="order_id,amount\n1,5\n")
    call("run")
    shop(b="order_id,amount\n1,6\n", c="order_id,amount\n1,5\n")
    again = [{"source": "orders", "file": "c.csv", "before": "a.csv"}]
    assert asked("plan")["sent_again"] == again
    assert "a.csv" in call("plan").stdout
    assert asked("run")["sent_again"] == again
    assert "sent_again" not in asked("run")


@pytest.mark.parametrize("name", ["order_id", "cupon"])
def test_optional_names_columns_that_take_nulls(shop, call, name):
    shop(more=", coupon string", settings=f'optional = ["{name}"]\n', a="order_id,amount\n1,5\n")
    assert f'optional is "{name}"' in call("run", code=2).stderr.replace("'", '"')


DAYS = SHOP.source("days", key="day date, id int", value="shop string, n decimal(4, 1) NOT NULL")


def in_folders(tmp_path, files, form="csv"):
    """The rows of files as the command gives them to a store."""
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    paths = {name: tmp_path / name for name in files}
    read = SourceReader(Input("days", form, "", "changes"), DAYS, Forms())
    known = absences(paths, paths, read, [])
    columns = ("day", "id", "shop", "n")
    return [
        tuple(row[name] for name in columns)
        for path in paths.values()
        for part in read.parts(path, known[path])
        if part.rows
        for row in pa.table(dict(part.columns)).to_pylist()
    ]


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_names_of_folders_are_values_of_columns(tmp_path, form):
    """As Spark and Hive write them, in any case; a column of the file counts before its folder."""
    folder = "Day=2026-01-01/n=1.50/shop=a%2Fb"
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table({"id": [1], "more": [2]}), sink)
    content = {
        "csv": b"id,more\n1,2\n",
        "json": b'{"id": 1, "more": 2}\n',
        "parquet": sink.getvalue().to_pybytes(),
    }[form]
    (row,) = in_folders(tmp_path, {f"{folder}/a.{form}": content}, form)
    assert [str(value) for value in row] == ["2026-01-01", "1", "a/b", "1.5"]
    null = f"day=2026-01-01/n=2/other=1/shop=__HIVE_DEFAULT_PARTITION__/a.{form}"
    (row,) = in_folders(tmp_path, {null: content}, form)
    assert row[2] is None
    if form == "csv":
        own = b"shop,id\nown,1\n"
        (row,) = in_folders(tmp_path, {f"{folder}/b.csv": own})
        assert row[2] == "own"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("day=2026-13-01/n=1", "column 'day': '2026-13-01' is not date.*in the name of its folder"),
        ("day=2026-01-01/n=1.25", "column 'n': '1.25' is no decimal"),
        ("day=2026-01-01", "no column n"),
        ("day=2026-01-01/n=1/N=2", "two of its folders have column n"),
    ],
)
def test_names_of_folders_that_do_not_fit_are_refused(tmp_path, name, told):
    with pytest.raises(dp.InvalidChangesError, match=told) as error:
        in_folders(tmp_path, {f"{name}/a.csv": b"id,shop\n1,x\n"})
    assert str(error.value.file).endswith(f"{name}/a.csv")


def test_a_file_outside_of_the_folders_has_lost_their_column():
    found = headers([*OLD], [*OLD], begun=True)
    names = {"coupon=x/0.csv": OLD, "x.csv": OLD}
    absence = Headers(names, SOURCE, (), found.is_begun).absence("x.csv")
    assert absence.fault is not None
    assert "'coupon=x/0.csv' has" in absence.fault.finding


def test_a_project_reads_folders_by_day(shop, call, asked):
    folder = shop(more=", coupon string", unique=" unique")
    for day, rows in (("day=1", "1,5\n"), ("day=2", "2,6\n2,7\n")):
        (folder / "data" / f"coupon={day}").mkdir()
        (folder / "data" / f"coupon={day}" / "a.csv").write_text("order_id,amount\n" + rows)
    assert asked("check")["problems"] == []
    assert "coupon=day=2/a.csv' of source 'orders', lines 2 and 3" in call("run", code=1).stderr
    (folder / "data" / "coupon=day=2" / "a.csv").write_text("order_id,amount\n2,6\n")
    call("run")
    assert coupons(folder) == ["day=1", "day=2"]


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_columns_may_have_another_name_in_the_files(project_of, call, asked, form):
    toml = (
        '[project]\nname = "named"\nlocation = "./lake"\nengine = "local"\n[sources.orders]\n'
        f'format = "{form}"\npath = "orders.{form}"\nmode = "snapshot"\n'
        'names = { note_ = "_note" }\n'
    )
    folder = project_of(
        {
            "deltaproduce.toml": toml,
            "stages/orders.sql": "EXTERNAL orders (columns (id int, note_ string), key (id));\n",
            "orders.csv": "id,_NOTE\n1,x\n",
            "orders.json": '{"id": 1, "_note": "x"}\n',
        }
    )
    table = pa.table({"id": pa.array([1], pa.int32()), "_note": ["x"]})
    parquet.write_table(table, folder / "orders.parquet")
    call("run")
    assert [row["note_"] for row in asked("show", "orders")["rows"]] == ["x"]
    (folder / "orders.csv").write_text("id,note\n1,x\n")
    (folder / "orders.json").write_text('{"id": 1, "note": "x"}\n')
    parquet.write_table(table.rename_columns(["id", "note"]), folder / "orders.parquet")
    result = call("run", code=1)
    assert "note_" in result.output + result.stderr
