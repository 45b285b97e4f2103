"""Names of stages: dbt has a table per schema and name, a project of ours one namespace.

Pure. The invariant: names are different without regard to case, and a node that needs no other name
keeps that of its table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from sqlglot import TokenType, exp

from deltaproduce.model.arguments import name_fault
from deltaproduce.projects.dbt.manifest import Node
from deltaproduce.stages.sql.syntax import spark_dialect


def stage_names(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the name of the stage of each node, by its id.

    Args:
        nodes: those that come first keep their name if others have the same one.
    """
    names, taken = dict[str, str](), set[str]()
    for node in nodes:
        name = next(
            one for one in _candidates(node) if one.lower() not in taken and name_fault(one) is None
        )
        names[node.id] = name
        taken.add(name.lower())
    return names


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken: the name, or with a number."""
    lower = {one.lower() for one in taken}
    numbered = (name if number == 1 else f"{name}_{number}" for number in count(1))
    return next(one for one in numbered if one.lower() not in lower)


def in_sql(name: str) -> str:
    """Return a name as Spark's SQL has it: in backquotes if it is a word of SQL, or no word."""
    tokens = spark_dialect().tokenize(name) if name.isascii() and name.isidentifier() else []
    is_plain = len(tokens) == 1 and tokens[0].token_type is TokenType.VAR
    return name if is_plain else f"`{name.replace('`', '``')}`"


def column_name(name: str) -> str:
    """Return the name that a column has here: names that begin with ``_`` are the library's."""
    own = name.lstrip("_")
    return name if own == name or not own else own + name[: -len(own)]


def rename_columns(tree: exp.Expr) -> None:
    """Give the columns of a query the names that they have here."""
    for identifier in list(tree.find_all(exp.Identifier)):
        name, new = identifier.name, column_name(identifier.name)
        if new != name and identifier.arg_key != "table" and _is_of_column(identifier):
            quoted = in_sql(new) != new
            identifier.replace(exp.to_identifier(new, quoted=quoted))


def _is_of_column(identifier: exp.Identifier) -> bool:
    """Return whether an identifier is the name of a column, and not of a table or function."""
    return isinstance(
        identifier.parent,
        exp.Column | exp.Alias | exp.Aliases | exp.TableAlias | exp.Join,
    ) and not (isinstance(identifier.parent, exp.TableAlias) and identifier.arg_key == "this")


def _candidates(node: Node) -> Iterator[str]:
    """Yield names for a node's stage, the best first."""
    alias = node.alias.replace("/", "_")
    group = str(node.values.get("source_name") or node.schema or node.package)
    yield alias
    yield f"{group}_{alias}"
    yield f"{node.package}_{group}_{alias}"
    yield from (f"dbt_{alias.lstrip('_')}_{number}" for number in count(2))
