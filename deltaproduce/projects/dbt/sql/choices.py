"""Choices: what a database may choose at each run, chosen here by a rule.

Pure. A view has one result for its inputs. The invariant: each result is one that dbt's database
may give, and of equal inputs it is always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp


def chosen(tree: exp.Query) -> exp.Query:
    """Return a query in which nothing is left to chance."""
    for node in list(tree.walk()):
        rule = _RULES.get(type(node))
        if rule is not None:
            rule(node)
    return tree


def _limit(node: exp.Expr) -> None:
    """The first rows of no order are the first of their first column."""
    query = node.parent
    if not isinstance(query, exp.Query) or query.args.get("order"):
        return
    if node.expression.is_int and node.expression.name == "0" and isinstance(query, exp.Select):
        query.set("limit", None)
        _filter(query)
        return
    first = exp.Ordered(this=exp.Literal.number(1), nulls_first=True)
    query.set("order", exp.Order(expressions=[first]))


def _filter(query: exp.Select) -> None:
    """Let a query have no rows."""
    if query.args.get("group") or query.find(exp.AggFunc) or query.args.get("qualify"):
        query.set("having", exp.Having(this=exp.false()))
        query.set("qualify", None)
    else:
        query.set("where", exp.Where(this=exp.false()))


def _window(node: exp.Expr) -> None:
    """Rows that are numbered without an order are so by the columns that part them."""
    if node.args.get("order") or not isinstance(node.this, _ORDERED):
        return
    parts = node.args.get("partition_by") or ()
    names = [one.copy() for one in parts if isinstance(one, exp.Column)][:1]
    if names:
        node.set("order", exp.Order(expressions=[exp.Ordered(this=names[0])]))


def _any(node: exp.Expr) -> None:
    """Any value is the least one."""
    if isinstance(node.this, exp.HavingMax | exp.IgnoreNulls | exp.RespectNulls | exp.Order):
        return
    whole = node.parent if isinstance(node.parent, exp.IgnoreNulls) else node
    whole.replace(exp.Min(this=node.this.copy()))


def _list(node: exp.Expr) -> None:
    """A list of no order is sorted."""
    if isinstance(node.this, exp.Order) or isinstance(node.parent, exp.Window):
        return
    whole = node.parent if isinstance(node.parent, exp.IgnoreNulls) else node
    if isinstance(whole.parent, exp.Window | exp.WithinGroup | exp.Anonymous):
        return
    whole.replace(exp.Anonymous(this="sort_array", expressions=[node.copy()]))


_ORDERED: Final = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
_RULES: Final[Mapping[type[exp.Expr], Callable[[exp.Expr], None]]] = {
    exp.Limit: _limit,
    exp.Window: _window,
    exp.AnyValue: _any,
    exp.ArrayAgg: _list,
    exp.ArrayUniqueAgg: _list,
}
