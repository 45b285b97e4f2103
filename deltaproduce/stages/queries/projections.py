"""The columns of a SELECT: their names, contents, and stars.

The invariant: names and source keys of the columns are those that Spark finds for the select list,
in its order; where the text alone does not determine a name, the query is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.functions import own
from deltaproduce.stages.queries.grammar import check_arguments
from deltaproduce.stages.queries.relations import Field, Frame, names_of, same_name
from deltaproduce.stages.sql.functions import GENERATORS
from deltaproduce.stages.sql.syntax import function_name, spelled
from deltaproduce.stages.sql.text import Edit, end_of, start_of


@dataclass(frozen=True, slots=True)
class Projection:
    """A column of a SELECT, with stars expanded.

    Attributes:
        name: its name; None if Spark generates one.
        fields: the field that it is, or the fields of its ``coalesce``; none for any other
            expression.
        expression: the user's expression; None for a column of a star.
    """

    name: str | None
    fields: tuple[Field, ...]
    expression: exp.Expr | None = None


def projections(select: exp.Select, frame: Frame) -> tuple[Projection, ...]:
    """Return the columns of a SELECT.

    Raises:
        DefinitionError: they cannot be determined.
    """
    return tuple(
        projection
        for expression in select.expressions
        for projection in _projected(expression, frame)
    )


def star_edits(select: exp.Select, frame: Frame) -> Iterator[Edit]:
    """Yield edits that exclude the frame's hidden columns from the stars in a SELECT.

    A frame with hidden columns has no source key to group by, so no star belongs to ``count(*)``.
    """
    clauses = ("where", "group", "having", "qualify")
    for node in own(*select.expressions, *map(select.args.get, clauses)):
        if isinstance(node, exp.Star):
            yield from _star_edit(node, frame)


def _projected(expression: exp.Expr, frame: Frame) -> Iterator[Projection]:
    match expression:
        case exp.Star():
            yield from _starred(expression, frame.columns)
        case exp.Column(this=exp.Star() as star):
            fields = frame.of_table(expression.table) if len(expression.parts) == 2 else ()
            if not fields:
                message = f"{spelled(expression)!r} stands for fields not known here; name each"
                raise DefinitionError(message)
            yield from _starred(star, fields)
        case exp.Aliases():
            for name in expression.expressions:
                yield Projection(name.name, (), expression)
        case exp.Alias():
            yield Projection(expression.alias, frame.fields_of(expression.this), expression)
        case exp.QueryTransform():
            message = f"{spelled(expression)!r} runs a script over all rows; use a function"
            raise DefinitionError(message)
        case _:
            if function_name(expression) in GENERATORS:
                message = f"{spelled(expression)!r} needs names; write … AS name or … AS (name, …)"
                raise DefinitionError(message)
            yield Projection(_name(expression), frame.fields_of(expression), expression)


def _starred(star: exp.Star, fields: Sequence[Field]) -> Iterator[Projection]:
    check_arguments(star, {"except_"})
    frame = Frame(tuple(fields))
    excepted = [
        field
        for node in star.args.get("except_") or ()
        for field, used in frame.found(names_of(node))
        if used == len(names_of(node))
    ]
    for field in fields:
        if field not in excepted:
            yield Projection(field.name, (field,))


def _name(expression: exp.Expr) -> str | None:
    """Return the name of a column without alias; None if Spark generates one."""
    match expression:
        case exp.Paren():
            return _name(expression.this)
        case exp.Column():
            return names_of(expression)[-1]
        case exp.Dot(expression=exp.Identifier() as field):
            return names_of(field)[-1]
    return None


def _star_edit(star: exp.Star, frame: Frame) -> Iterator[Edit]:
    table = star.parent.table if isinstance(star.parent, exp.Column) else None
    hidden = [field.sql for field in frame.hidden if table is None or same_name(field.table, table)]
    excepted = [
        part for node in star.args.get("except_") or () for part in node.find_all(exp.Identifier)
    ]
    if hidden and excepted:
        first = min(map(start_of, excepted))
        yield Edit(first, first, "".join(f"{name}, " for name in hidden))
    elif hidden:
        yield Edit(end_of(star), end_of(star), f" EXCEPT ({', '.join(hidden)})")
