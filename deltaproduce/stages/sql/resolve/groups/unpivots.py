"""UNPIVOT: each row once for each of some columns, with the column's name and its value."""

from __future__ import annotations

from sqlglot import exp

from deltaproduce.stages.sql.algebra.expanding import Expand
from deltaproduce.stages.sql.algebra.relations import Filter, ProjectRelation, Relation
from deltaproduce.stages.sql.algebra.scalars import Output
from deltaproduce.stages.sql.resolve.building import Building
from deltaproduce.stages.sql.resolve.generators import alike
from deltaproduce.stages.sql.resolve.names import Named
from deltaproduce.stages.sql.resolve.reading import Selected, TextOrigin
from deltaproduce.stages.sql.text import refused


def unpivoted(unpivot: exp.Expr, rows: Building) -> Selected | None:
    """Return the rows of an UNPIVOT; None if only Spark knows the types of its values.

    Args:
        rows: the rows whose columns become rows.

    Raises:
        DefinitionError: it names something unknown, or lists of different lengths.
    """
    (among,) = unpivot.args["fields"]
    (given,) = unpivot.expressions
    names = [one.name for one in (given.expressions if isinstance(given, exp.Tuple) else [given])]
    lists = [_listed(one, len(names), unpivot) for one in among.expressions]
    trees = [[rows.expression(one) for one in items] for items in lists]
    read = {tree.name for items in trees for tree in items[1:]}
    kept = [one for one in rows.scope.columns if one.field.id not in read]
    columns = [among.this.name, *names]
    own, scalars = alike(trees, lists, columns, rows.relation.fields, rows.reading)
    if any(field.data_type is None for field in own):
        return None
    relation: Relation = Expand(rows.relation, own, scalars)
    rows.reading.origins[relation] = TextOrigin(unpivot)
    if not unpivot.args.get("include_nulls"):
        is_any = exp.or_(
            *(exp.Not(this=exp.Is(this=f.tree, expression=exp.null())) for f in own[1:])
        )
        relation = Filter(relation, rows.reading.condition(is_any, relation.fields, unpivot))
    named = [*kept, *(Named(None, *one) for one in zip(columns, own, strict=True))]
    outputs = tuple(Output.copy(one.field) for one in named)
    return Selected(ProjectRelation(relation, outputs), tuple(named))


def _listed(item: exp.Expr, width: int, unpivot: exp.Expr) -> list[exp.Expr]:
    """Return a name and the columns that it stands for."""
    name = item.args["alias"].name if isinstance(item, exp.PivotAlias) else None
    given = item.this if name is not None else item
    columns = given.expressions if isinstance(given, exp.Tuple) else [given.unnest()]
    if len(columns) != width:
        raise refused(unpivot, f"has {len(columns)} columns for {width} values in a list")
    if not all(isinstance(one, exp.Column) for one in columns):
        raise refused(unpivot, "has what is no column among its columns")
    text = "_".join(one.name for one in columns) if name is None else name
    return [exp.Literal.string(text), *columns]
