"""The supported parts of SQL's clauses, and what to write instead of the others.

The invariant: only listed parts are accepted, so a clause that sqlglot learns to parse later is
refused until there is a rule for it.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import refused

TWO_STAGES: Final = (
    "or make two stages: one that is keyed by what is grouped by, and one that groups"
)

TOTALS: Final = (
    "groups rows of all source keys; use GROUP BY with the source key, and another stage for totals"
)


def check_grammar(tree: exp.Query) -> None:
    """Refuse the parts of a query that have no meaning for the rows of one source key.

    Its own ORDER BY is accepted.

    Raises:
        DefinitionError: it has another part, such as LIMIT.
    """
    for node in tree.walk():
        known = _KNOWN.get(type(node))
        if known is not None:
            _check_arguments(node, known | {"order"} if node is tree else known)
        if isinstance(node, exp.SetOperation):
            _check_arguments(node, _SET_OPERATION | ({"order"} if node is tree else set()))
        if isinstance(node, exp.CTE) and node.alias.startswith("_"):
            message = f"a CTE is named {node.alias!r}: names that begin with '_' are reserved"
            raise DefinitionError(message)
        if isinstance(node, exp.QueryTransform):
            raise refused(node, "runs a script over all rows; use a function")
        if isinstance(node, exp.Table) and not isinstance(
            node.parent, exp.From | exp.Join | exp.Subquery | exp.JoinHint
        ):
            raise refused(node, "stands outside of FROM; write a SELECT")


def _check_arguments(node: exp.Expr, known: Collection[str]) -> None:
    for name, value in node.args.items():
        if name not in known and value is not None and value is not False and value != []:
            part = value[0] if isinstance(value, list) else value
            text = spelled(part) if isinstance(part, exp.Expr) else name.strip("_").upper()
            advice = _ADVICE.get(name, "is not supported in a query that is computed key by key")
            raise DefinitionError(f"{text!r} {advice}")


_SET_OPERATION: Final = frozenset({"with_", "this", "expression", "distinct"})
_KNOWN: Final[Mapping[type[exp.Expr], frozenset[str]]] = MappingProxyType(
    {
        exp.Select: frozenset(
            {"hint", "distinct", "expressions", "from_", "joins", "laterals", "where"}
            | {"group", "having", "qualify", "windows", "with_"}
        ),
        exp.Subquery: frozenset({"with_", "this", "alias", "joins"}),
        exp.Values: frozenset({"expressions", "alias"}),
        exp.With: frozenset({"expressions"}),
        exp.CTE: frozenset({"this", "alias"}),
        exp.From: frozenset({"this"}),
        exp.Join: frozenset({"this", "side", "kind", "on", "using", "method"}),
        exp.Table: frozenset({"this", "alias", "joins", "db", "catalog"}),
        exp.Group: frozenset({"expressions", "all"}),
        exp.Lateral: frozenset({"this", "view", "outer", "alias"}),
    }
)
_RANK: Final = (
    "takes rows by their place, and SQL's rows have none; rank them with row_number() OVER "
    "(PARTITION BY the source key ORDER BY …), and filter by it in an outer SELECT"
)
_TASKS: Final = (
    "says how tasks share rows, which is not the query's to say; use ORDER BY or drop it"
)
_ADVICE: Final = {
    "limit": _RANK,
    "offset": _RANK,
    "order": "sorts rows inside a query, where they have no order; drop it, or put it at the end",
    "sort": _TASKS,
    "cluster": _TASKS,
    "distribute": _TASKS,
    "sample": "takes rows at random; filter by a column",
    "pivots": "is not supported; use sum(CASE WHEN … END) with GROUP BY, or LATERAL VIEW stack(…)",
    "recursive": "is not supported; make a stage of a function",
    "rollup": TOTALS,
    "cube": TOTALS,
    "grouping_sets": TOTALS,
    "version": "reads another version than the stage's; drop it",
}
