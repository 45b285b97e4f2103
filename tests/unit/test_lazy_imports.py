"""Importing the package is cheap, and its names match what a type checker sees."""

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import deltaproduce


def test_importing_it_imports_no_spark() -> None:
    script = "import sys, deltaproduce; print(sorted({'pyspark', 'pyarrow'} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"


def test_its_version_is_that_of_the_package() -> None:
    assert deltaproduce.__version__ == version("deltaproduce")


def test_names_are_where_a_type_checker_looks() -> None:
    tree = ast.parse(Path(str(deltaproduce.__file__)).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == dict(deltaproduce._HOMES)
    assert sorted(seen) == deltaproduce.__all__
    for name in deltaproduce.__all__:
        assert getattr(deltaproduce, name) is getattr(deltaproduce, name)
        assert name in dir(deltaproduce)
