"""The shape of the code: few entries per room, no kinds told apart, no unused code."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import deltaproduce
from deltaproduce.model.kind import Kind

ROOT = Path(deltaproduce.__file__).parent
MOST = 14
MOST_AT_THE_TOP = 23
KINDS_ARE_TOLD_APART_IN = ("model", "stages")
MODELS = "testing/oracle/models.py"
"""What the oracle runs in place of each kind."""
STAGES = {"stage", "feeder", "source", "producer", "keeper", "owner"}
"""What variables and attributes that are stages are called."""
OF_SOME_KINDS = {"is_in_place", "form", "query", "surrogate", "preserve", "whole", "streaming"}
"""Attributes of some kinds of stages, or of stages when they had them."""

_OF_SQL = ("dates", "moves", "times", "text/searching", "text/strings")
TAKES_VALUES_OF_ARROW = {
    "of a command line, of texts in files, or of SQL texts": {
        *("cli/answers/values.py", "cli/inputs/reading/reader.py", "cli/inputs/remote.py"),
        "cli/inputs/reading/texts.py",
        *("cli/inputs/reading/times.py", "stages/sql/expressions/kernels/rows.py"),
        *("stages/sql/scopes/scalars.py", "stages/sql/expressions/kernels/comparing.py"),
        *(f"stages/sql/expressions/functions/{name}.py" for name in _OF_SQL),
        "stages/sql/expressions/kernels/clocks.py",
        "stages/sql/scopes/coded.py",
    },
    "of types without dates, and whether all or any is true": {
        *("stages/sql/expressions/kernels/arithmetic.py", "stages/sources/given/formats.py"),
        "stages/sql/expressions/kernels/decimals.py",
        *("stages/sql/expressions/kernels/failures.py", "engines/local/kernels/row_hashes.py"),
        *("stages/sql/states/functions/sketches/distinct.py", "described/partitions.py"),
        *("stages/sql/states/functions/sketches/quantiles.py", "postgres/json_text.py"),
        *("postgres/holding.py", "postgres/sizes.py"),
        *("stages/sql/states/functions/sketches/sketch.py", "postgres/rendering.py"),
        *("stages/sql/states/functions/sums.py", "stages/sql/states/functions/multisets.py"),
        *("stages/aggregates/ordered/in_spark.py", "stages/functions/preservation.py"),
        *("stages/sources/given/on_driver.py", "storage/parquet/row_groups.py"),
    },
    "of tables and logs that the library writes: paths, counts, numbers, its own times": {
        *("datasets/absorbing.py", "datasets/dataset.py", "datasets/pruning.py"),
        *("datasets/reading.py", "datasets/rewrites.py", "datasets/staged.py"),
        *("datasets/tables.py", "engines/comparisons.py", "engines/deltas.py"),
        *(
            "engines/local/delta/reads.py",
            "engines/local/delta/writes.py",
            "engines/local/marked/log_actions.py",
        ),
        *("engines/local/marked/state.py", "engines/spark/frames.py"),
        *("engines/local/marked/table_files.py", "engines/local/marked/file_statistics.py"),
        *("engines/spark/kernels/clustering.py", "operations/vacuum.py", "reading/readers.py"),
        *("operations/verifying/verification.py", "record_index/runs.py", "record_index/table.py"),
        *("stages/partitioned/entries.py", "stages/partitioned/making.py", "storage/files.py"),
        *("stages/partitioned/records.py", "storage/tables/reader.py", "storage/version_log.py"),
        "storage/parquet/file_ranges.py",
    },
    "of partitions, whose dates Python has, and ends of columns, which it checks": {
        *("datasets/parts.py", "datasets/writing/grouping.py", "engines/local/data_files.py"),
        "engines/spark/predicates.py",
    },
    "and handles what Python cannot hold": {
        *("types/atoms.py", "types/conversions.py", "types/python_values.py"),
        "types/row_readers.py",
    },
    "in models of tests": {
        *("testing/oracle/groups.py", "testing/aggregates.py", "testing/oracle/producers.py"),
        "testing/strategies/tables.py",
    },
}
"""The modules that call Arrow's conversions to Python, and of what values: they fail for dates and
times outside of Python's years. Values of users go through `types.python_values`."""


@cache
def modules() -> dict[str, ast.Module]:
    """The library's modules by path."""
    found = sorted(ROOT.rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in found}


def entries(package: Path) -> list[str]:
    """What is in a package: its modules and the packages in it, and other files."""
    return [path.name for path in package.iterdir() if path.name != "__pycache__"]


def all_kinds(kind: type = Kind) -> Iterator[type]:
    for found in kind.__subclasses__():
        yield found
        yield from all_kinds(found)


@cache
def names_of_kinds() -> set[str]:
    """Sources, producers, and whatever they may be."""
    for path in modules():
        if path.startswith("stages/"):
            import_module(dotted(path))  # classes are known once they are imported
    kinds = (kind for kind in all_kinds() if kind.__module__.startswith("deltaproduce."))
    return {"Source", "Producer", *(kind.__name__ for kind in kinds)}


def kind_tests(tree: ast.Module, names: set[str]) -> Iterator[tuple[int, str]]:
    """Where a module asks of which kind a stage is: the line, and what it asks for."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
                asked = {part.id for part in ast.walk(classes) if isinstance(part, ast.Name)}
                yield from ((node.lineno, name) for name in asked & names)
            case ast.MatchClass(cls=ast.Name(id=name) | ast.Attribute(attr=name)) if name in names:
                yield node.lineno, name
            case ast.Compare(left=ast.Attribute(attr="word")):
                yield node.lineno, "word"
            case ast.Attribute(attr=name) if name in OF_SOME_KINDS:
                yield node.lineno, name


def imported(tree: ast.Module) -> Iterator[str]:
    """The dotted names that a module imports, of modules or of what is in them."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{name.name}" for name in names)


def dotted(path: str) -> str:
    """The name of the module at a path."""
    parts = ("deltaproduce", *Path(path).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_there_are_few_entries_at_the_top_and_in_each_package():
    assert len(entries(ROOT)) <= MOST_AT_THE_TOP
    packages = {path.parent for path in ROOT.rglob("__init__.py")} - {ROOT}
    counts = {str(p.relative_to(ROOT)): len({*entries(p)} - {"__init__.py"}) for p in packages}
    assert max(counts.values()) <= MOST, counts


def test_each_package_says_what_it_is_for():
    bare = [path for path, tree in modules().items() if not ast.get_docstring(tree)]
    assert not bare


def test_kinds_of_stages_are_told_apart_by_none_but_the_model_and_themselves():
    names = names_of_kinds()
    assert {"Given", "External", "ByKey", "OverTables", "KeyLocalQuery"} <= names
    found = {
        (path, line, name)
        for path, tree in modules().items()
        if path.split("/")[0] not in KINDS_ARE_TOLD_APART_IN and path != MODELS
        for line, name in kind_tests(tree, names)
    }
    assert not found


def test_such_questions_are_found():
    asked = (
        "isinstance(stage, Source)",
        "isinstance(stage, (int, Producer))",
        "isinstance(stage, Source | Producer)",
        "stage.form == 'rows'",
        "stage.kind.surrogate",
        "stage.kind.word == 'sql'",
        "match stage:\n case ByKey(): pass",
    )
    assert all(list(kind_tests(ast.parse(text), names_of_kinds())) for text in asked)
    assert not list(kind_tests(ast.parse("isinstance(rows, int) or stage.feeders"), {"Source"}))


def test_every_module_is_in_use():
    found = modules()
    used = {name for path, tree in found.items() for name in imported(tree) if name != dotted(path)}
    entrances = {"deltaproduce.cli.__main__", "deltaproduce.testing.strategies"}  # of users
    packages = {dotted(path) for path in found if path.endswith("__init__.py")}
    unused = {dotted(path) for path in found} - used - entrances - packages
    assert not unused


def test_values_of_users_become_python_values_in_one_place():
    found = {
        path
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("as_py", "to_pylist", "to_pydict")
    }
    assert found == set().union(*TAKES_VALUES_OF_ARROW.values())


def roles_by_name(tree: ast.Module) -> Iterator[int]:
    """Where a module asks the name of a stage what the stage is for: the lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if re.match(r"\^?_(sorted|tasks)_", text):
                yield node.lineno
            case ast.Call(func=ast.Attribute(ast.Attribute(whose, "name"), asks)):
                is_stage = getattr(whose, "attr", getattr(whose, "id", "")) in STAGES
                if is_stage and asks in ("startswith", "removeprefix", "partition", "split"):
                    yield node.lineno
            case ast.ImportFrom(module="deltaproduce.model.hidden", names=names):
                yield from (node.lineno for name in names if name.name == "role_of_name")


def test_what_a_stage_is_for_is_no_question_to_its_name():
    """It carries that as a value, and figures record it; `hidden` reads names in old logs."""
    found = {path for path, tree in modules().items() if list(roles_by_name(tree))}
    assert found == {"model/hidden.py", "storage/figures.py"}
    asked = (
        "stage.name.startswith('_')",
        "re.compile('_sorted_[0-9]+_')",
        "feeder.stage.name.split('_')",
        "from deltaproduce.model.hidden import role_of_name",
    )
    assert all(list(roles_by_name(ast.parse(text))) for text in asked)
    assert not list(roles_by_name(ast.parse("stage.name == name or stage.hidden")))


def wide_functions(tree: ast.Module) -> Iterator[str]:
    """The functions of a module that take more than seven values."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            taken = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            if sum(one.arg not in ("self", "cls") for one in taken) > 7:
                yield node.name


CALLED_BY_USERS = {
    *(("pipeline.py", name) for name in ("source", "foreign", "aggregate", "history")),
    *(("store.py", "__init__"), ("errors.py", "__init__"), ("model/windows.py", "window")),
    *(("model/checks/expecting.py", "expect"), ("cli/verbs/rows.py", "show")),
}
"""Functions whose many arguments are keywords that users give."""


def test_functions_pass_on_values_instead_of_many_parameters():
    """What an update is asked to do is one `Request`, how a store is opened `StoreOptions`."""
    wide = {(path, name) for path, tree in modules().items() for name in wide_functions(tree)}
    assert wide == CALLED_BY_USERS
    assert [*wide_functions(ast.parse("def f(self, a, b, c, d, e, f, *, g, h): pass"))] == ["f"]
    assert not [*wide_functions(ast.parse("def f(self, a, b, c, d, e, f, g): pass"))]


def test_names_of_public_classes_are_unique():
    found = dict[str, list[str]]()
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path)
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def at_import(body: list[ast.stmt]) -> Iterator[str]:
    """The packages that statements of a module import when it is imported."""
    for node in body:
        match node:
            case ast.Import(names=names):
                yield from (name.name.partition(".")[0] for name in names)
            case ast.ImportFrom(module=str(module)):
                yield module.partition(".")[0]
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=orelse):
                yield from at_import(orelse)
            case ast.If() | ast.With() | ast.Try():
                yield from at_import(node.body)


def test_no_module_needs_pyspark_or_pandas_to_be_imported() -> None:
    """A store without a session works where neither is installed."""
    on_demand = {"pyspark", "pandas", "delta", "py4j"}
    found = {path: on_demand & {*at_import(tree.body)} for path, tree in modules().items()}
    assert {path: names for path, names in found.items() if names} == {}


WORDS = {
    *("united", "only", "without", "some", "pick", "picked", "filed", "clustered", "placed"),
    *("told", "asked", "found", "come", "made", "anew", "worth", "means"),
}
"""Words that say nothing of what they name."""
SEEN_BY_USERS = {
    ("cli/examination/checkup.py", "found"): "a key of `deltaproduce doctor --json`",
    ("record_index/results.py", "found"): "an attribute of `WrongEntry`",
}


def names_in(tree: ast.Module) -> Iterator[str]:
    """What a module calls its functions, classes, fields, parameters and variables."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.ExceptHandler(name=str(name)):
                yield name


def test_names_say_what_they_name() -> None:
    vague = {
        (path, name)
        for path, tree in modules().items()
        for name in (*names_in(tree), *Path(path).with_suffix("").parts)
        if name.strip("_").lower() in WORDS
    }
    assert vague == SEEN_BY_USERS.keys()
    text = "def told(some):\n found = a.made = 1"
    assert {*names_in(ast.parse(text))} == {"told", "some", "found", "made"}


def is_override(path: str, name: str, method: str) -> bool:
    """Whether a class that is above that of a module has the method, too."""
    bases = getattr(import_module(dotted(path)), name).__mro__[1:]
    return any(method in vars(base) for base in bases)


def test_overriding_methods_point_to_no_other() -> None:
    """They have `@override`, and a docstring if there is more to say."""
    pointing = [
        (path, node.name)
        for path, tree in modules().items()
        for of in tree.body
        if isinstance(of, ast.ClassDef)
        for node in of.body
        if isinstance(node, ast.FunctionDef)
        if re.match(rf"See `(\w+\.)*{node.name}`(\.$|[:;])", ast.get_docstring(node) or "")
        if is_override(path, of.name, node.name)
    ]
    assert not pointing
