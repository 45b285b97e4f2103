"""The contract: each rule names a function that implements it and a test, and both exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "contract.md").read_text()
RULES = {
    found[1]: found[0] for found in re.finditer(r"^### (S\d+) .*?(?=^##|\Z)", PAGE, re.M | re.S)
}


def defined(path: Path, name: str) -> bool:
    """Whether a module has a function or method of that name."""
    body = ast.parse(path.read_text()).body
    for part in name.split("."):
        found = [
            node
            for node in body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == part
        ]
        if not found:
            return False
        body = found[0].body
    return isinstance(found[0], ast.FunctionDef)


def test_all_rules_are_there_once():
    assert sorted(RULES, key=lambda rule: int(rule[1:])) == [f"S{n}" for n in range(1, 17)]
    assert len(re.findall(r"^### S", PAGE, re.M)) == len(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_held_and_tested(rule):
    held = re.findall(r"^- held by `(deltaproduce/[\w/]+\.py):([\w.]+)`$", RULES[rule], re.M)
    tested = re.findall(r"^- tested by `(tests/[\w/]+\.py)::(\w+)`$", RULES[rule], re.M)
    assert len(held) == len(tested) == 1
    for path, name in (*held, *tested):
        assert defined(ROOT / path, name), (path, name)


def test_what_is_not_there_is_noticed():
    path = ROOT / "deltaproduce" / "store.py"
    assert defined(path, "Store.update")
    assert not any(defined(path, name) for name in ("Store", "Store.updat", "update"))
