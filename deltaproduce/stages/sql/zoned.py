"""What depends on the time zone: expressions and queries, by their text and the types of columns.

The invariant: what does not depend on the time zone by this has the same rows in each; what does
may have others. A timestamp that is only selected, grouped, sorted or compared with another is an
instant, whatever a clock shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from sqlglot import exp

from deltaproduce.stages.sql.functions import names_in
from deltaproduce.stages.sql.syntax import function_name
from deltaproduce.types.catalogue import has_instants
from deltaproduce.types.columns import RowSchema
from deltaproduce.types.data_types import DataType, DateType

_OF_CLOCKS: Final = names_in(
    """
    csv date_diff date_part dateadd datediff datepart hour interval json minute months_between
    second sequence session time to_char to_varchar trunc unix variant window xml zone
    """
)
"""Parts of the names of functions that may read a clock though no argument is a timestamp."""

_CHOOSING: Final = names_in(
    """
    any_value array_agg coalesce collect_list collect_set first first_value greatest ifnull lag last
    last_value lead least max max_by min min_by nullif nvl
    """
)
"""Functions that return some of their arguments."""

_ALIKE: Final = names_in("coalesce greatest ifnull least nullif nvl")
"""Those whose arguments become timestamps if one is."""

_COUNTING: Final = names_in("count isnotnull isnull")
"""Functions that only see whether there is a timestamp."""

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ)
_TIMES: Final = frozenset(
    {
        exp.DataType.Type.TIMESTAMP,
        exp.DataType.Type.TIMESTAMPTZ,
        exp.DataType.Type.TIMESTAMPLTZ,
    }
)


def depends_on_zone(tree: exp.Expr, types: Mapping[str, DataType]) -> bool:
    """Return whether an expression or a query may depend on the time zone.

    Args:
        types: the types of the columns that it may read, by name.
    """
    known = {name.lower(): data_type for name, data_type in types.items()}
    instants = _named_instants(tree, {n for n, column in known.items() if has_instants(column)})
    has_lists = any(alias.columns for alias in tree.find_all(exp.TableAlias))
    for node in tree.walk():
        if _reads_clock(node, known):
            return True
        if _is_instant(node, instants) and (has_lists or not _is_plain(node, instants)):
            return True
    return False


def types_of(schemas: Iterable[RowSchema]) -> dict[str, DataType]:
    """Return the types of columns by name; one with a timestamp, if columns share a name."""
    types = dict[str, DataType]()
    for column in chain.from_iterable((*schema.key, *schema.value) for schema in schemas):
        if column.name not in types or has_instants(column.data_type):
            types[column.name] = column.data_type
    return types


def _named_instants(tree: exp.Expr, columns: set[str]) -> set[str]:
    """Return the names of timestamps: of columns, and of aliases made of them."""
    names, aliases = set(columns), list(tree.find_all(exp.Alias))
    while True:
        more = {
            alias.alias.lower()
            for alias in aliases
            if any(_is_instant(node, names) for node in alias.this.walk())
        }
        if more <= names:
            return names
        names |= more


def _is_instant(node: exp.Expr, names: set[str]) -> bool:
    return isinstance(node, exp.Column) and any(part.name.lower() in names for part in node.parts)


def _is_plain(node: exp.Expr, names: set[str]) -> bool:
    """Return whether a timestamp is used as an instant."""
    parent = node.parent
    match parent:
        case exp.Paren() | exp.Alias():
            return _is_plain(parent, names)
        case None | exp.Select() | exp.Group() | exp.Ordered() | exp.Is():
            return True
        case exp.Window():
            return node.arg_key in {"partition_by", "this"}
    if isinstance(parent, _COMPARISONS):
        return all(_is_instant(side.unnest(), names) for side in (parent.this, parent.expression))
    name = function_name(parent)
    if name in _ALIKE and not all(_is_instant(one.unnest(), names) for one in parent.expressions):
        return False
    return name in _COUNTING or (name in _CHOOSING and _is_plain(parent, names))


def _reads_clock(node: exp.Expr, types: Mapping[str, DataType]) -> bool:
    """Return whether a node may read a clock, whatever the types of its children are."""
    match node:
        case exp.Interval() | exp.AtTimeZone():
            return True
        case exp.DataType():
            return node.this in _TIMES
        case exp.Extract():
            return node.this.name.lower() not in {"year", "quarter", "month", "week", "day"}
    name = function_name(node)
    if name is None:
        return False
    if name == "date_format":
        of = node.expressions[0] if node.expressions else node.this
        return not isinstance(types.get(of.name.lower()), DateType)
    return any(part in name for part in _OF_CLOCKS)
