"""The key of a SQL stage: the columns of its query that form it, and their directions."""

from collections.abc import Sequence

import sqlglot
from sqlglot import exp

from deltaproduce.errors import DefinitionError


def key_columns(text: str, names: Sequence[str], *, stage: str) -> dict[str, bool]:
    """Read the names of the key columns.

    Args:
        text: names of columns, each perhaps with ``asc`` or ``desc``, such as ``total desc, id``.
        names: the columns of the query.
        stage: the name of the stage, for messages.

    Returns:
        The names, in the query's spelling, and whether each sorts descending; in order.

    Raises:
        DefinitionError: the text is not such a list, or names no column of the query; with `stage`
            and, if one column is at fault, `column`.
    """
    spelled = {name.lower(): name for name in names}
    found: dict[str, bool] = {}
    for name, descending in _named(text, stage):
        if name.lower() not in spelled:
            known = ", ".join(names)
            message = f"stage {stage!r}: key column {name!r} is not in its query; it has {known}"
            raise DefinitionError(message, stage=stage, column=name)
        if spelled[name.lower()] in found:
            message = f"stage {stage!r}: key column {name!r} is named twice; name it once"
            raise DefinitionError(message, stage=stage, column=name)
        found[spelled[name.lower()]] = descending
    if len(found) == len(names):
        message = (
            f"stage {stage!r}: all columns of its query are in its key {text!r}; a stage needs a "
            "value too, so select another column"
        )
        raise DefinitionError(message, stage=stage)
    return found


def _named(text: str, stage: str) -> list[tuple[str, bool]]:
    try:
        tree = sqlglot.parse_one(f"SELECT 1 ORDER BY {text}", read="spark")
    except sqlglot.ParseError:
        tree = exp.Select()
    order = tree.args.get("order")
    plain = isinstance(tree, exp.Select) and set(_given(tree)) == {"expressions", "order"}
    if not plain or not isinstance(order, exp.Order):
        raise _no_list(text, stage)
    found = []
    for ordered in order.expressions:
        column = ordered.this if isinstance(ordered, exp.Ordered) else ordered
        if not isinstance(column, exp.Column) or len(column.parts) != 1:
            raise _no_list(text, stage)
        found.append((column.name, bool(ordered.args.get("desc"))))
    return found


def _given(tree: exp.Expression) -> list[str]:
    return [name for name, value in tree.args.items() if value]


def _no_list(text: str, stage: str) -> DefinitionError:
    message = f"stage {stage!r}: its key is {text!r}; name columns of its query, as 'a, b desc'"
    return DefinitionError(message, stage=stage)
