"""The items of a FROM other than queries: feeders, CTEs, constant tables and LATERAL VIEW.

The invariant: every table that a query reads is a feeder, replaced by a view, or one of its own
CTEs, or has the same rows for every source key. Every column has a name that is known here.

Nothing here recurses; `key_locality` walks from one query to another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.functions import TABLE_FUNCTIONS
from deltaproduce.stages.queries.grammar import check_arguments
from deltaproduce.stages.queries.relations import Field, Frame, Output, Relation
from deltaproduce.stages.sql.syntax import function_name, spelled
from deltaproduce.stages.sql.text import Edit, end_of, number_of, start_of
from deltaproduce.types.columns import RowSchema
from deltaproduce.types.ddl import identifier
from deltaproduce.types.excerpts import meant


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that a query can refer to.

    Attributes:
        text: the text of the outermost query.
        stages: the names and columns of possible feeders, by lower-case name.
        ctes: the visible CTEs, by lower-case name.
        outermost: whether its columns are the stage's, so that no clause reads them.
    """

    text: str
    stages: Mapping[str, tuple[str, RowSchema]]
    ctes: Mapping[str, Relation]
    outermost: bool = False


def table(item: exp.Table, scope: Scope) -> Relation:
    """Return a feeder, a CTE or the rows of a table function.

    Raises:
        DefinitionError: the table is none of these.
    """
    if not isinstance(item.this, exp.Identifier):
        return _table_function(item, scope)
    name = item.name.lower()
    if item.db or (name not in scope.ctes and name not in scope.stages):
        known = meant(item.name, (stage for stage, _ in scope.stages.values()))
        message = (
            f"{spelled(item)!r} is no stage that comes before; only stages can be read, by their "
            f"names, since changes of other tables would go unnoticed; {known}"
        )
        raise DefinitionError(message)
    check_arguments(item, {"this", "alias", "joins"})
    if name in scope.ctes:
        return scope.ctes[name]
    stage, schema = scope.stages[name]
    start, end = start_of(item.this), end_of(item.this)
    alias = "" if item.alias else f" AS {scope.text[start:end]}"
    columns = [Output(name, frozenset({key})) for key, name in enumerate(schema.key.names)]
    columns += [Output(name) for name in schema.value.names]
    return Relation(tuple(columns), len(schema.key), edits=(Edit(start, end, alias, stage),))


def constants(values: exp.Values) -> Relation:
    """Return the rows of VALUES."""
    check_arguments(values, {"expressions", "alias"})
    first = values.expressions[0]
    width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    return Relation(tuple(Output(f"col{position + 1}") for position in range(width)))


def with_lateral_view(frame: Frame, lateral: exp.Lateral) -> Frame:
    """Add the columns of a LATERAL VIEW to a frame.

    Raises:
        DefinitionError: it does not name them.
    """
    check_arguments(lateral, {"this", "view", "outer", "alias"})
    alias = lateral.args.get("alias")
    if alias is None or not alias.columns:
        raise DefinitionError(f"{spelled(lateral)!r} needs names of columns; write AS name, …")
    number = number_of(lateral)
    named = enumerate(alias.columns)
    fields = [Field(column.name, alias.name, number, position) for position, column in named]
    return replace(frame, columns=(*frame.columns, *fields))


def renamed(relation: Relation, item: exp.Expr) -> Relation:
    """Rename a relation's columns by its alias, and check that all have names.

    Raises:
        DefinitionError: a column has no name, or a reserved one.
    """
    alias = item.args.get("alias")
    names = alias.columns if alias is not None else []
    if names:
        if len(names) != len(relation.outputs):
            message = f"{spelled(item)!r} names {len(names)} of {len(relation.outputs)} columns"
            raise DefinitionError(message)
        hidden = "".join(f"{identifier(name)}, " for name in relation.hidden)
        first = start_of(names[0])
        columns = [Output(n.name, o.holds) for n, o in zip(names, relation.outputs, strict=True)]
        edits = (*relation.edits, Edit(first, first, hidden))
        relation = replace(relation, outputs=tuple(columns), edits=edits)
    for output in relation.outputs:
        if output.name is None or output.name.startswith("_"):
            fault = "without a name" if output.name is None else f"named {output.name!r}"
            message = (
                f"{spelled(item)!r} has a column {fault}; name it with AS, and not beginning with "
                "'_'"
            )
            raise DefinitionError(message)
    return relation


def exposed(relation: Relation, scope: Scope) -> Relation:
    """Add hidden columns with the source key to a subquery or CTE, unless it has the key."""
    if not relation.unheld():
        return relation
    start = min(columns.start for columns in relation.lists)
    hidden = tuple(f"_key_{start}_{key}" for key in range(relation.width))
    edits = [
        edit
        for columns in relation.lists
        for edit in columns.with_columns(scope.text, dict(zip(hidden, columns.keys, strict=True)))
    ]
    return replace(relation, lists=(), edits=(*relation.edits, *edits), hidden=hidden)


def _table_function(item: exp.Table, scope: Scope) -> Relation:
    check_arguments(item, {"this", "alias", "joins"})
    function = function_name(item.this)
    if function not in TABLE_FUNCTIONS or item.this.find(exp.Query, exp.Table):
        message = (
            f"{spelled(item)!r} may read tables, whose changes would go unnoticed; use VALUES, "
            "range() or LATERAL VIEW"
        )
        raise DefinitionError(message)
    if function == "range":
        return Relation((Output("id"),))
    alias = item.args.get("alias")
    return Relation((Output(None),) * (len(alias.columns) if alias is not None else 1))
