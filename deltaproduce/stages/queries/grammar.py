"""The supported parts of SQL's clauses, and what to write instead of the others.

The invariant: `check_arguments` accepts only listed parts, so a clause that sqlglot learns to parse
later is refused until there is a rule for it.
"""

from collections.abc import Collection
from typing import Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.syntax import spelled

TWO_STAGES: Final = (
    "or make two stages: one that is keyed by what is grouped by, and one that groups"
)

TOTALS: Final = (
    "groups rows of all source keys; use GROUP BY with the source key, and another stage for totals"
)


def check_arguments(node: exp.Expr, known: Collection[str]) -> None:
    """Refuse the parts of a clause other than ``known``, by sqlglot's names.

    Raises:
        DefinitionError: it has another part, such as LIMIT.
    """
    for name, value in node.args.items():
        if name not in known and value is not None and value is not False and value != []:
            part = value[0] if isinstance(value, list) else value
            found = spelled(part) if isinstance(part, exp.Expr) else name.strip("_").upper()
            advice = _ADVICE.get(name, "is not supported in a query that is computed key by key")
            raise DefinitionError(f"{found!r} {advice}")


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
