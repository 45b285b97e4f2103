"""What can stand in FROM beside a query: feeders, CTEs, constant tables and LATERAL VIEW.

Invariant: every table that a query reads is a feeder, whose name is replaced by a view's, or one of
its own CTEs, or has the same rows for every source key. Every column has a name that is known here.

Here is no recursion: `key_locality` goes from one query to another.
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


@dataclass(frozen=True, slots=True)
class Scope:
    """What a query can refer to.

    Attributes:
        text: the text of the whole query that it is a part of.
        stages: the names and columns of what can feed it, by lower-case name.
        ctes: the CTEs that it sees, by lower-case name.
        outermost: whether its columns are the stage's, so that no clause looks at them.
    """

    text: str
    stages: Mapping[str, tuple[str, RowSchema]]
    ctes: Mapping[str, Relation]
    outermost: bool = False


def table(item: exp.Table, scope: Scope) -> Relation:
    """Returns a feeder, a CTE or the rows of a function.

    Raises:
        DefinitionError: it is none of these.
    """
    if not isinstance(item.this, exp.Identifier):
        return _table_function(item, scope)
    name = item.name.lower()
    if item.db or (name not in scope.ctes and name not in scope.stages):
        known = ", ".join(repr(stage) for stage, _ in scope.stages.values()) or "none"
        message = (
            f"{spelled(item)!r} is no stage that comes before; only stages can be read, by their "
            f"names, since changes of other tables would go unnoticed. The stages are: {known}"
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
    """Returns the rows of VALUES."""
    check_arguments(values, {"expressions", "alias"})
    first = values.expressions[0]
    width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    return Relation(tuple(Output(f"col{position + 1}") for position in range(width)))


def with_lateral_view(frame: Frame, lateral: exp.Lateral) -> Frame:
    """Returns a frame with the columns of a LATERAL VIEW.

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
    """Gives a relation the column names of its alias, and checks that all columns have one.

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
    """Gives a subquery or CTE hidden columns that hold the source key, if its own do not."""
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
