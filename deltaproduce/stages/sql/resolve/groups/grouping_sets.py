"""The keys that a GROUP BY names, and the sets of them by which ROLLUP, CUBE and the like group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from deltaproduce.stages.sql.resolve.building import Building
from deltaproduce.stages.sql.text import refused


@dataclass(frozen=True, slots=True)
class GroupBy:
    """What a GROUP BY names.

    Attributes:
        keys: the keys, each once.
        sets: the positions of the keys of each set; None if there is one of all keys.
    """

    keys: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...] | None = None


def group_by(select: exp.Expr, rows: Building, calls: Sequence[bool]) -> GroupBy:
    """Return what the GROUP BY of a SELECT names.

    Args:
        calls: whether each column of the SELECT has an aggregate.

    Raises:
        DefinitionError: a number is that of no column.
    """
    group = select.args.get("group")
    if group is None:
        return GroupBy(())
    columns = select.expressions
    if group.args.get("all"):
        pairs = zip(columns, calls, strict=True)
        return GroupBy(tuple(one.unalias() for one, is_call in pairs if not is_call))
    parts = [[*_sets(one)] for one in group.expressions]
    before = list[exp.Expr]()
    if group.args.get("grouping_sets"):  # those of GROUP BY a, b only say the order
        before = [key for sets in parts for one in sets for key in one]
        parts = [[*_sets(one)] for one in group.args["grouping_sets"]]
    elif group.args.get("rollup") or group.args.get("cube"):
        each = [[key for one in sets for key in one] for sets in parts]
        parts = [[*(_prefixes if group.args.get("rollup") else _subsets)(each)]]
    sets = [[key for part in one for key in part] for one in product(*parts)]
    before = [_meant(node, columns, rows) for node in before]
    nodes = [[_meant(node, columns, rows) for node in one] for one in sets]
    keys = {node.sql("spark"): node for one in [before, *nodes] for node in one}
    if all(len(part) == 1 for part in parts) and not group.args.get("grouping_sets"):
        return GroupBy(tuple(keys.values()))
    places = {text: place for place, text in enumerate(keys)}
    return GroupBy(
        tuple(keys.values()),
        tuple(tuple(sorted({places[node.sql("spark")] for node in one})) for one in nodes),
    )


def _sets(node: exp.Expr) -> Iterator[list[exp.Expr]]:
    """Yield the sets of keys that an element of GROUP BY stands for."""
    match node:
        case exp.Rollup():
            yield from _prefixes([_keys(one) for one in node.expressions])
        case exp.Cube():
            yield from _subsets([_keys(one) for one in node.expressions])
        case exp.GroupingSets():
            for one in node.expressions:
                is_nested = isinstance(one, exp.Rollup | exp.Cube | exp.GroupingSets)
                yield from _sets(one) if is_nested else [_keys(one)]
        case _:
            yield [node]


def _keys(node: exp.Expr) -> list[exp.Expr]:
    """Return the keys in parentheses."""
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node.unnest()]


def _prefixes(parts: Sequence[Sequence[exp.Expr]]) -> Iterator[list[exp.Expr]]:
    for size in range(len(parts), -1, -1):
        yield _joined(parts[:size])


def _subsets(parts: Sequence[Sequence[exp.Expr]]) -> Iterator[list[exp.Expr]]:
    for size in range(len(parts), -1, -1):
        yield from map(_joined, combinations(parts, size))


def _joined(parts: Iterable[Sequence[exp.Expr]]) -> list[exp.Expr]:
    return [key for part in parts for key in part]


def _meant(node: exp.Expr, columns: Sequence[exp.Expr], rows: Building) -> exp.Expr:
    """Return the key that a number or an alias stands for."""
    if isinstance(node, exp.Literal) and node.is_int:
        number = int(node.name)
        if not 0 < number <= len(columns) or any(_is_star(one) for one in columns[:number]):
            raise refused(node, f"is the number of no column; there are {len(columns)}")
        return columns[number - 1].unalias()
    if isinstance(node, exp.Column) and rows.scope.find(node) is None:
        aliased = [o for o in columns if isinstance(o, exp.Alias) and _is_named(o, node)]
        return aliased[0].this if aliased else node
    return node


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or isinstance(node.this, exp.Star)


def _is_named(alias: exp.Expr, node: exp.Column) -> bool:
    return not node.args.get("table") and alias.alias.lower() == node.name.lower()
