"""The messages of errors and warnings, as one text: `tests/unit/messages.txt`.

The file is to be read as a whole.
``DELTAPRODUCE_MESSAGES=write pytest tests/unit/test_messages.py`` writes it again.
"""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import deltaproduce

ROOT = Path(deltaproduce.__file__).parent
FILE = Path(__file__).with_name("messages.txt")
MAKERS = {"refused", "leave_to_spark", "warn", "_needs_spark", "unfit"}
"""Functions that take the text of an error or warning."""
TEXTS = {"message", "said", "advice", "fault", "told", "text", "wrong", "reason", "what"}
"""What variables with a text, or a part of one, are called."""


def texts(node: ast.AST) -> Iterator[str]:
    """The texts in an expression, with what is filled in as …"""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(
                str(one.value) if isinstance(one, ast.Constant) else "…" for one in values
            )
        case ast.IfExp(body=body, orelse=other):
            yield from texts(body)
            yield from texts(other)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from texts(left)
            yield from texts(right)


def raised(tree: ast.Module) -> set[str]:
    """The texts of errors and warnings in a module, and of the variables that hold them."""
    found = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
                if name.endswith(("Error", "Warning", "Misfit")) or name in MAKERS:
                    found |= {text for one in args for text in texts(one)}
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in TEXTS:
                found |= {*texts(value)}
    return {" ".join(text.split()) for text in found if " " in text.strip()}


def collected() -> str:
    lines = list[str]()
    for path in sorted(ROOT.rglob("*.py")):
        of_module = sorted(raised(ast.parse(path.read_text())))
        if of_module:
            lines += [f"# {path.relative_to(ROOT).as_posix()}", *of_module, ""]
    return "\n".join(lines)


def test_the_file_has_the_messages_of_the_code() -> None:
    if os.environ.get("DELTAPRODUCE_MESSAGES") == "write":
        FILE.write_text(collected())
    assert FILE.read_text() == collected()
