"""Projects: SQL files as stages, their errors by file and line, and the users that they break."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import deltaproduce as dp
from deltaproduce import DefinitionError, Project
from deltaproduce.projects.inference import inferred
from deltaproduce.projects.statements import SqlFile
from deltaproduce.projects.variables import variables

FILES = {
    "deltaproduce.toml": '[project]\nname = "shop"\nlocation = "./lake"\n',
    "stages/b_sales.sql": (
        "-- given by the stores\n"
        "EXTERNAL sales (\n"
        "  columns (day string, store string, n bigint, sold bigint, price decimal(12, 2)),\n"
        "  partition (day, store), key (day, store, n)\n"
        ");\n"
    ),
    "stages/a_days.sql": (
        "STAGE days (\n"
        "  key (n),\n"
        "  retention keep,\n"
        "  partition (day = d),\n"
        "  scopes FOR t IN timeseries('1 day', 2), LET d = date_format(t, 'yyyy-MM-dd')\n"
        ");\n"
        "SELECT n, sold, price\n"
        "FROM stores\n"
        "WHERE stores.day = d\n"
    ),
    "stages/c_stores.sql": (
        "STAGE stores (key (n), partition (day = d), "
        "scopes FOR t IN timeseries('1 day', 2), LET d = date_format(t, 'yyyy-MM-dd'));\n"
        "SELECT n, sold, price FROM sales WHERE day = d;\n"
    ),
}


ROW = {"day": "2022-03-31", "store": "P", "n": 1, "sold": 2, "price": None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, FILES)
    return tmp_path


def write(folder: Path, files: dict[str, str]) -> None:
    (folder / "stages").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def edited(name: str, change: Callable[[str], str]) -> dict[str, str]:
    found = change(FILES[name])
    assert found != FILES[name]
    return {name: found}


def test_files_are_stages_feeders_first_with_types_and_without_data(folder: Path) -> None:
    project = Project(folder)
    assert project.check() == []
    assert [stage.name for stage in project.pipeline.stages] == ["sales", "stores", "days"]
    days = project.pipeline.stages[-1].schema
    assert days.key.ddl == "day string, n bigint"
    assert days.value.ddl == "sold bigint, price decimal(12,2)"


def test_a_project_runs(folder: Path) -> None:
    with Project(folder).store() as store:
        row = {"day": "2022-03-31", "store": "Paris", "n": 1, "sold": 2, "price": None}
        store.update({"sales": [row]})
        run = store.run(as_of="2022-03-31")
        assert list(map(str, run.done)) == [
            *("stores/day=2022-03-31", "stores/day=2022-03-30"),
            *("days/day=2022-03-31", "days/day=2022-03-30"),
        ]
        assert len(store.content("days")) == 1
    assert (folder / "lake").is_dir()


def test_modules_define_more_of_it(folder: Path) -> None:
    write(
        folder,
        {
            "stages/totals.py": (
                "def define(pipeline):\n"
                "    @pipeline.producer('days', key='n bigint', value='sold bigint')\n"
                "    def totals(key, values):\n"
                "        yield key.n, sum(value.sold for value in values)\n"
            ),
            "stages/a_after.sql": (
                "STAGE after (partition (x = 'y'));\nSELECT n, sold AS s FROM totals\n"
            ),
        },
    )
    names = [stage.name for stage in Project(folder).pipeline.stages]
    assert names == ["sales", "stores", "days", "totals", "after"]


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        ("a_days", lambda text: text.replace("retention keep", "retention never"), 3),
        ("a_days", lambda text: text.replace("key (n)", "key (nope)"), 2),
        ("a_days", lambda text: text.replace("(day = d)", "(day = d, Day = d)"), 4),
        ("a_days", lambda text: text.replace("-dd')\n);", "-dd'),\n);"), 5),
        ("a_days", lambda text: text.replace("FOR t IN timeseries('1 day', 2)", "FOR t IN x"), 5),
        ("b_sales", lambda text: text.replace("(12, 2)", "(99, 2)"), 3),
        ("b_sales", lambda text: text.replace("partition (day", "partition (days"), 4),
        ("a_days", lambda text: text.replace("key (n),", "key (n), key (n),"), 2),
        ("a_days", lambda text: text.replace("retention keep", "colour red"), 3),
        ("a_days", lambda text: text.replace("day = d", "day = nope", 1), 4),
        ("a_days", lambda text: text.replace("'1 day'", "'1 daily'"), 5),
        ("a_days", lambda text: text.replace("LET d =", "LET d"), 5),
        ("a_days", lambda text: text.replace("FROM stores", "FROM nope"), 8),
        ("a_days", lambda text: text.replace("stores.day", "stores.nope"), 9),
        ("a_days", lambda text: text.replace("WHERE stores", "WHERE (stores"), 9),
        ("a_days", lambda text: f"{text}; SELECT 1", 10),
        ("a_days", lambda text: text.replace(");\n", ")\n"), 6),
        ("a_days", lambda text: text.replace("(day = d),", "(day = d)"), 5),
        ("a_days", lambda text: text.replace("STAGE", "VIEW"), 1),
        ("b_sales", lambda text: text.replace("key (day, store, n)", "key (nope)"), 4),
        ("b_sales", lambda text: text.replace("partition (day", "partition (nope"), 4),
        ("b_sales", lambda text: text.replace("store, n)", "store, n,)"), 4),
        ("b_sales", lambda text: text.replace("sold bigint,", "sold bigint, Sold int,"), 3),
        ("b_sales", lambda text: f"{text}SELECT 1", 6),
        ("b_sales", lambda text: text.replace("partition (day", "table lake, partition (day"), 4),
        ("a_days", lambda text: text.replace("SELECT n,", "SELECT n,\n rand() AS x,"), 8),
        ("c_stores", lambda text: text.replace("FROM sales", "FROM days"), 1),
    ],
)
def test_what_is_wrong_is_told_by_file_and_line(
    folder: Path, name: str, change: Callable[[str], str], line: int
) -> None:
    file = f"stages/{name}.sql"
    write(folder, edited(file, change))
    with pytest.raises(DefinitionError) as caught:
        _ = Project(folder).pipeline
    found = caught.value
    if name != "c_stores":  # of a circle either file may be named
        assert (found.file, found.line) == (file, line)
    assert str(found).startswith(f"{found.file}:{found.line}: ")
    (problem, *_) = Project(folder).check()
    assert (problem.file, problem.line) == (found.file, found.line)


def test_an_error_about_two_files_names_both(folder: Path) -> None:
    """Of one stage, be the second a SQL file or a module, and of stages that read each other."""
    again = (folder / "stages/a_days.sql").read_text().replace("STAGE days", "STAGE DAYS")
    write(folder, {"stages/z_days.sql": again})
    with pytest.raises(DefinitionError, match=r"^stages/z_days.sql:7: .*stages/a_days.sql"):
        _ = Project(folder).pipeline
    (folder / "stages/z_days.sql").unlink()
    module = "def define(pipeline):\n    pipeline.source('Days', key='a int', value='b int')\n"
    write(folder, {"stages/z.py": module})
    with pytest.raises(DefinitionError, match=r"^stages/z.py:2: .*stages/a_days.sql"):
        _ = Project(folder).pipeline
    (folder / "stages/z.py").unlink()
    write(
        folder, edited("stages/c_stores.sql", lambda text: text.replace("FROM sales", "FROM days"))
    )
    with pytest.raises(DefinitionError, match=r"circle: .*a_days.sql.*c_stores.sql"):
        _ = Project(folder).pipeline


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def define(pipeline):\n    pipeline.sql('x', 'SELECT n', key='n')\n", 2),
        ("def define(pipeline):\n    pass\n\n    pipeline.nope()\n", 4),
        ("\nimport nowhere_at_all\n", 2),
        ("x = 1\ny = (\n", 2),
        ("x = 1\n", 1),
        ("import helping\n\n\ndef define(pipeline):\n    helping.fail()\n", 5),
    ],
)
def test_what_is_wrong_in_a_module_is_told_by_file_and_line(
    folder: Path, text: str, line: int
) -> None:
    """And is right once it is mended, in the same process."""
    write(folder, {"stages/more.py": text, "helping.py": "def fail():\n    return 1 / 0\n"})
    with pytest.raises(DefinitionError) as caught:
        _ = Project(folder).pipeline
    found = caught.value
    assert (found.file, found.line) == ("stages/more.py", line)
    assert str(found).startswith(f"stages/more.py:{line}: ")
    (problem,) = Project(folder).check()
    assert (problem.file, problem.line) == ("stages/more.py", line)
    write(folder, {"stages/more.py": "def define(pipeline):\n    pass\n"})
    assert Project(folder).check() == []


def test_columns_of_others_are_named_as_in_sql(folder: Path) -> None:
    text = (
        "EXTERNAL sales (\n  columns (`order-id` bigint, day string,\n"
        "    kind struct<day: string, part: array<int>>, -- it has commas\n    price double),\n"
        "  key (DAY desc, -- newest first\n    `order-id`)\n);\n"
    )
    write(folder, {"stages/d.sql": text.replace("sales", "d")})
    (found,) = (stage for stage in Project(folder).pipeline.stages if stage.name == "d")
    assert [(c.name, c.descending) for c in found.schema.key] == [
        ("day", True),
        ("order-id", False),
    ]
    assert found.schema.value.names == ("kind", "price")


def test_projects_of_one_process_have_modules_of_the_same_name(tmp_path: Path) -> None:
    for name in ("one", "two", "one"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        text = f"def define(pipeline):\n    pipeline.source({name!r}, key='n int', value='v int')\n"
        write(folder, {**FILES, "stages/more.py": text})
        assert name in [stage.name for stage in Project(folder).pipeline.stages]


def test_projects_of_one_process_name_modules_of_the_same_name(tmp_path: Path) -> None:
    file = '[project]\nname = "x"\nlocation = "./lake"\npipeline = "flows.of_us:flow"\n'
    found = list[dp.Pipeline]()
    for name in ("one", "two", "one"):
        folder = tmp_path / name
        (folder / "flows").mkdir(parents=True, exist_ok=True)
        text = f"import deltaproduce\n\nflow = deltaproduce.Pipeline({name!r})\n"
        (folder / "flows" / "of_us.py").write_text(text)
        (folder / "deltaproduce.toml").write_text(file)
        found += [Project(folder).pipeline, Project(folder).pipeline]
    assert [flow.name for flow in found] == ["one", "one", "two", "two", "one", "one"]
    assert found[0] is found[1]  # modules of one's own are loaded once


VARS = {
    "deltaproduce.toml": f'{FILES["deltaproduce.toml"]}[vars]\nleast = 2\nunused = ["a", "b"]\n',
    "stages/a_days.sql": FILES["stages/a_days.sql"].replace("= d\n", "= d AND sold >= least\n"),
}


def test_a_variable_is_a_name_in_the_files_that_use_it(folder: Path) -> None:
    """Another value of it makes tasks of these dirty, and of no others."""
    write(folder, VARS)
    with Project(folder).store() as store:
        store.update({"sales": [{**ROW, "n": n, "sold": n} for n in (1, 2, 3)]})
        store.run(as_of="2022-03-31")
        assert len(store.content("days")) == 2
        assert store.tasks()[-1].scope["least"] == 2
    with Project(folder, vars={"least": 3}).store() as store:
        assert {t.stage for t in store.tasks() if t.state == "dirty"} == {"days"}
        store.run(as_of="2022-03-31")
        assert len(store.content("days")) == 1
    with Project(folder, vars={"unused": ["c"], "least": "3"}).store() as store:
        assert {task.state for task in store.tasks()} == {"present"}


def test_variables_are_lists_tables_and_names_in_plain_queries(folder: Path) -> None:
    text = FILES["deltaproduce.toml"]
    write(
        folder,
        {
            "deltaproduce.toml": (
                f'{text}[vars]\nstores = ["L\'Isle", "Paris"]\nfirst = 2022-03-01\n'
                'rate = 1.5\nis_on = true\nwhere = "lake/others"\n'
            ),
            "stages/d.sql": (
                "STAGE d (partition (s = s), scopes FOR s IN stores);\n"
                "SELECT n * rate AS n, first FROM sales WHERE is_on AND store = s"
            ),
            "stages/e.sql": "STAGE e (key (n));\nSELECT n, v + rate AS v FROM plain WHERE v > RATE",
            "stages/f.sql": "EXTERNAL plain (columns (n int, v int), key (n));",
            "stages/g.sql": "EXTERNAL g (columns (n int, v int), key (n), table where);",
            "stages/h.sql": 'EXTERNAL h (columns (n int, v int), key (n), table "it\'s/where");',
        },
    )
    pipeline = Project(folder).pipeline
    d, e, g, h = (next(s for s in pipeline.stages if s.name == name) for name in "degh")
    kind: Any = d.kind
    partitions = kind.partitions.at(datetime(2022, 3, 31, tzinfo=UTC), stage="d")
    assert [partitions.values(row) for row in range(2)] == [("L'Isle",), ("Paris",)]
    assert d.schema.value.ddl == "n decimal(23,1), first date"
    assert "v + CAST('1.5' AS decimal(2,1)) AS v" in str(e.kind.definition.identity)
    assert g.kind.intake.table == str(folder / "lake" / "others")
    assert h.kind.intake.table == str(folder / "it's" / "where")


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("least = 2", {"most": 3}),
        ("least = 2", {"least": "two"}),
        ("least = 2", {"least": 2.5}),
        ("least = 2", {"least": True}),
        ("least = 2", {"least": "2.0"}),
        ("least = 1.5", {"least": True}),
        ("least = 1.5", {"least": str(2**53 + 1)}),
        ("least = 1.5", {"least": 10**400}),
        ("least = []", {}),
        ('least = [1, "a"]', {}),
        ("least = [[1]]", {}),
        ("least = nan", {}),
        ("least = 2022-03-31T00:00:00Z", {}),
        ("least = '\\'", {}),
        ('least = "\'\\""', {}),
        ("_least = 2", {}),
        ("least = 2\nLEAST = 3", {}),
        ("least = {a = 1}", {}),
    ],
)
def test_variables_that_are_refused(folder: Path, text: str, given: dict[str, object]) -> None:
    write(folder, {"deltaproduce.toml": f"{FILES['deltaproduce.toml']}[vars]\n{text}\n"})
    with pytest.raises(DefinitionError, match=r"deltaproduce.toml: \[vars\] "):
        Project(folder, vars=given)


@pytest.mark.parametrize(
    ("given", "rate", "rates"),
    [
        ({"rate": "2", "rates": "[1, 2.5]"}, 2.0, [1.0, 2.5]),
        ({"rate": 2, "rates": (1, 2)}, 2.0, [1.0, 2.0]),
    ],
)
def test_a_whole_number_may_replace_a_float(
    given: dict[str, object], rate: float, rates: list[float]
) -> None:
    found = variables({"rate": 1.5, "rates": [0.5]}, given)
    assert found == {"rate": rate, "rates": rates}
    assert {type(value) for value in (found["rate"], *found["rates"])} == {float}


def test_what_reads_a_file_that_is_wrong_is_no_problem_of_its_own(folder: Path) -> None:
    write(folder, edited("stages/c_stores.sql", lambda text: text.replace("sold", "nope")))
    write(folder, {"stages/d.sql": "STAGE d (key (n));\nSELECT n, nope FROM days\n"})
    (problem,) = Project(folder).check()
    assert (problem.file, problem.column, problem.severity) == (
        *("stages/c_stores.sql", "nope"),
        "error",
    )


def test_what_a_store_finds_wrong_is_told_by_file_and_line(folder: Path) -> None:
    """By the line of the query that the store names, or its first."""
    write(folder, {"stages/d.sql": "STAGE d (\n  key (n)\n);\n-- of days\nSELECT n FROM days\n"})
    file = SqlFile.read(folder / "stages" / "d.sql", folder, {})
    for line, at in ((None, 5), (1, 5), (3, 7)):
        found = file.at(DefinitionError("it is wrong", stage="d", line=line))
        assert (str(found), found.line) == (f"stages/d.sql:{at}: it is wrong", at)
        assert (found.stage, found.file) == ("d", "stages/d.sql")


def test_a_project_file_is_named_by_what_is_wrong_in_it(folder: Path) -> None:
    write(folder, {"deltaproduce.toml": "[project]\nname = 'a'\n\n[vars\n"})
    with pytest.raises(DefinitionError) as caught:
        Project(folder)
    assert (caught.value.file, caught.value.line) == ("deltaproduce.toml", 4)


def test_a_place_is_named_once(folder: Path) -> None:
    text = FILES["deltaproduce.toml"]
    write(folder, {"deltaproduce.toml": text.replace("location", "store")})
    assert Project(folder).location == str(folder / "lake")
    write(folder, {"deltaproduce.toml": f'{text}store = "./other"\n'})
    with pytest.raises(DefinitionError, match="location and store"):
        Project(folder)
    with pytest.raises(DefinitionError):
        Project(folder / "stages")


BREAKS = {
    "renamed": (lambda text: text.replace("sold,", "sold AS amount,"), "sold", "error"),
    "dropped": (lambda text: text.replace("sold, price", "price"), "sold", "error"),
    "retyped": (lambda text: text.replace("sold,", "sold + 0.5 AS sold,"), "sold", "warning"),
    "of a type that does not fit": (
        lambda text: text.replace("sold,", "DATE '2022-03-31' AS sold,"),
        "sold",
        "error",
    ),
    "re-keyed": (lambda text: text.replace("key (n)", "key (n, price)"), None, "error"),
}
MORE = {
    "stages/d_all.sql": "STAGE every (partition (x = 'y'));\nSELECT * FROM stores WHERE sold > 1\n",
    "stages/more.py": (
        "def define(pipeline):\n"
        "    pipeline.partitioned('python', 'SELECT n, sold FROM stores', partition=\"x = 'y'\")\n"
    ),
}


@pytest.mark.parametrize("change", BREAKS)
def test_what_breaks_a_query_is_told_with_its_users(folder: Path, change: str) -> None:
    write(folder, MORE)
    with Project(folder).store() as store:
        store.update({"sales": [ROW]})
        store.run(as_of="2022-03-31")
        assert Project(folder).check(store) == []
        edit, column, severity = BREAKS[change]
        write(folder, edited("stages/c_stores.sql", edit))
        found = [one for one in Project(folder).check(store) if one.stage == "stores"]
        (problem,) = [one for one in found if one.file == "stages/c_stores.sql"]
        users = {"days", "every"} if column is None else {"days", "every", "python"}
        assert (problem.column, problem.severity) == (column, severity)
        assert users <= {*problem.users}
        assert all(user in problem.message for user in problem.users)


def test_what_nobody_uses_breaks_nothing(folder: Path) -> None:
    with Project(folder).store() as store:
        store.update({"sales": [ROW]})
        store.run(as_of="2022-03-31")
        write(folder, edited("stages/a_days.sql", lambda text: text.replace("sold, price", "sold")))
        assert Project(folder).check(store) == []


def test_a_key_in_another_case_is_the_same_key(folder: Path) -> None:
    def upper(text: str) -> str:
        return text.replace("key (n)", "key (N)").replace("SELECT n", "SELECT n AS N")

    with Project(folder).store() as store:
        store.update({"sales": [ROW]})
        store.run(as_of="2022-03-31")
        write(folder, edited("stages/c_stores.sql", upper))
        assert Project(folder).check(store) == []
    with Project(folder).store() as store:
        run = store.run(as_of="2022-03-31")
        assert run.done
        assert not run.failed
        assert store.content("stores").column_names[:2] == ["day", "N"]
        assert store.content("days").column("n").to_pylist() == [1]


PLAIN = {
    "stages/e_totals.sql": "STAGE totals (key (day, n));\n"
    "SELECT day, n, sum(sold) AS total, xxhash64(sum(price)) AS ns\n"
    "FROM stores GROUP BY day, n\n",
    "stages/f_large.sql": "STAGE large (key (day, n));\n"
    "SELECT day, n, total + 1 AS more\nFROM totals WHERE total > 1\n",
}


def test_types_of_plain_queries_are_told_without_spark(folder: Path) -> None:
    """So what does not fit them is refused by file and line; what only Spark knows is not told."""
    write(folder, PLAIN)
    types, errors = inferred(Project(folder).pipeline.stages)
    assert not errors
    told = {
        c.name: c.data_type.simpleString() for c in (*types["totals"].key, *types["totals"].value)
    }
    assert told == {"day": "string", "n": "bigint", "total": "bigint", "ns": "void"}
    (more,) = types["large"].value
    assert more.data_type.simpleString() == "bigint"
    assert Project(folder).check() == []
    days = PLAIN["stages/e_totals.sql"].replace("sum(sold)", "max(DATE '2022-03-31')")
    write(folder, {"stages/e_totals.sql": days})
    (problem,) = Project(folder).check()
    assert (problem.stage, problem.file, problem.line) == ("large", "stages/f_large.sql", 3)
    assert problem.message.startswith("stages/f_large.sql:3: ")


@pytest.mark.parametrize(
    ("total", "severity"),
    [("sum(sold)", None), ("sum(sold) * 1.5", "warning"), ("max(DATE '2022-03-31')", "error")],
)
def test_plain_queries_of_other_types_are_told_with_their_users(
    folder: Path, total: str, severity: str | None
) -> None:
    head = "STAGE totals (partition (day = d), key (n), scopes LET d = '2022-03-31');\n"
    text = "SELECT n, sold AS total, '' AS ns FROM stores WHERE stores.day = d\n"
    write(folder, {"stages/e_totals.sql": head + text})
    with Project(folder).store() as store:
        store.update({"sales": [ROW]})
        store.run(as_of="2022-03-31")
        write(folder, PLAIN)
        plain = PLAIN["stages/e_totals.sql"].replace("sum(sold)", total)
        write(folder, {"stages/e_totals.sql": plain})
        found = [one for one in Project(folder).check(store) if one.column == "total"]
        assert [(one.severity, one.users) for one in found] == (
            [(severity, ("large",))] if severity else []
        )


def test_a_stage_is_gone_if_no_file_has_it_any_more(folder: Path) -> None:
    with Project(folder).store() as store:
        store.update({"sales": [ROW]})
        store.run(as_of="2022-03-31")
        write(folder, edited("stages/c_stores.sql", lambda text: text.replace("price", "prize")))
        assert [one.column for one in Project(folder).check(store)] == ["prize"]
        (folder / "stages" / "c_stores.sql").unlink()
        found = [one for one in Project(folder).check(store) if one.users]
        assert [(one.stage, one.users, one.file) for one in found] == [
            *(("stores", ("days",), None),),
        ]


def test_the_sample_of_the_examples_is_right() -> None:
    project = Project(Path(__file__).parents[2] / "examples" / "daily_sales")
    assert project.check() == []
    with dp.Store(None, "/nowhere/daily_sales", project.pipeline) as store:
        tasks = {str(task): task for task in store.tasks(as_of="2022-03-31")}
    assert [name for name in tasks if name.startswith("stores_sales")] == [
        "stores_sales/day=2022-03-31/store=Detroit",
        "stores_sales/day=2022-03-31/store=Paris",
        "stores_sales/day=2022-03-30/store=Detroit",
        "stores_sales/day=2022-03-30/store=Paris",
    ]
    task = tasks["products_sales/day=2022-03-31"]
    assert set(map(str, task.dependencies)) == {
        "stores_sales/day=2022-03-31/store=Detroit",
        "stores_sales/day=2022-03-31/store=Paris",
    }
    assert set(map(str, tasks["recent_sales/day=2022-03-31"].dependencies)) == {
        "products_sales/day=2022-03-31",
        "products_sales/day=2022-03-30",
    }
