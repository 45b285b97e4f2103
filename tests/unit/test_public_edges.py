"""The public imports: the package exports every type of ours in a public signature."""

import ast
import builtins
import inspect
import sys
import textwrap
import typing
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest
from pyspark.sql import Column, DataFrame, SparkSession

import deltaproduce as dp

_EXPORTED = [getattr(dp, name) for name in dp.__all__]
_MADE_BY_USERS = (dp.Store, dp.Pipeline)
_OF_DEFINITIONS = (dp.Source, dp.Producer)  # what is in them is for the library


def called() -> Iterator[tuple[str, Callable[..., object]]]:
    """What users call: functions, and of classes what is public, and their making."""
    for found in _EXPORTED:
        if inspect.isfunction(found):
            yield found.__name__, found
        elif inspect.isclass(found) and found not in _OF_DEFINITIONS:
            yield from methods(found)


def methods(owner: type) -> Iterator[tuple[str, Callable[..., object]]]:
    special = {"__call__", "__enter__", *(["__init__"] if owner in _MADE_BY_USERS else [])}
    for name, member in vars(owner).items():
        function = member.fget if isinstance(member, property) else member
        function = getattr(function, "__func__", function)
        if inspect.isfunction(function) and (name in special or not name.startswith("_")):
            yield f"{owner.__name__}.{name}", function


def names_in(function: Callable[..., object]) -> set[str]:
    """The names in the annotations of a function, as they are written."""
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(found, ast.FunctionDef)
    arguments = [*found.args.posonlyargs, *found.args.args, *found.args.kwonlyargs]
    written = [found.returns, *(argument.annotation for argument in arguments)]
    nodes = [node for one in written if one is not None for node in ast.walk(one)]
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def meant(function: Callable[..., object], name: str) -> object:
    """What a name in an annotation means; its module may import it for type checkers only."""
    if name in function.__globals__:
        return function.__globals__[name]
    blocks = ast.parse(inspect.getsource(sys.modules[function.__module__])).body
    lines = [line for block in blocks if isinstance(block, ast.If) for line in block.body]
    imports = [line for line in lines if isinstance(line, ast.ImportFrom) and line.module]
    homes = {alias.name: str(line.module) for line in imports for alias in line.names}
    return getattr(import_module(homes[name]), name)


def is_ours(found: object) -> bool:
    """Whether it is a type of the library's, or an alias that it makes."""
    if inspect.isclass(found):
        return found.__module__.startswith("deltaproduce")
    of_python = any(found is known for known in vars(typing).values())
    return not (of_python or isinstance(found, typing.TypeVar) or inspect.ismodule(found))


def unexported() -> set[str]:
    return {
        f"{name} of {where}"
        for where, function in called()
        for name in names_in(function) - vars(builtins).keys()
        if is_ours(found := meant(function, name))
        and not any(found is known for known in _EXPORTED)
    }


def test_types_in_public_signatures_are_exported() -> None:
    assert unexported() == set()


def test_a_type_that_is_not_exported_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [known for known in _EXPORTED if known not in (dp.Version, dp.Source)]
    monkeypatch.setitem(globals(), "_EXPORTED", left)
    assert {"Version of Store.update", "Source of Pipeline.source"} <= unexported()


def test_types_in_public_signatures_are_there_at_run_time() -> None:
    """But for one that a store imports with the grammar of expressions, once it is asked for it.

    PySpark's types are those of PySpark, which a store without Spark does not import.
    """
    spark = {one.__name__: one for one in (Column, DataFrame, SparkSession)}
    for where, function in called():
        if where != "Store.dataset":
            assert "return" in typing.get_type_hints(function, localns=spark), where


def test_what_is_exported_is_in_order() -> None:
    assert dp.__all__ == sorted(dp.__all__)
