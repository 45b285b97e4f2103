"""Precedence: where Spark may group or order an expression differently than sqlglot.

Such expressions are left to Spark. Parentheses make the order certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_TESTS: Final = (*_COMPARISONS, exp.Is, exp.In, exp.Between, exp.Like)
_CONDITIONS: Final = (*_TESTS, exp.Escape, exp.Not, exp.And, exp.Or)


def is_ambiguous(node: exp.Expr) -> bool:
    """Return whether operands may differ: ``a = b < c``, ``a = b IS NULL``, ``a || b + c``."""
    parts = node.iter_expressions()
    if isinstance(node, _TESTS):
        return any(isinstance(part, _CONDITIONS) for part in parts)
    if isinstance(node, exp.DPipe):
        return any(isinstance(p, exp.Binary) and not isinstance(p, exp.DPipe) for p in parts)
    return False


def is_reordered(node: exp.Expr) -> bool:
    """Return whether Spark folds constants first: in ``1 + (n + 2)`` another sum may overflow."""
    terms = list(_flattened(node, type(node)))
    return sum(not term.find(exp.Column) for term in terms) > 1 and len(terms) > 2


def _flattened(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    inner = node.unnest()
    if isinstance(inner, kind):
        yield from _flattened(inner.this, kind)
        yield from _flattened(inner.expression, kind)
    else:
        yield inner
