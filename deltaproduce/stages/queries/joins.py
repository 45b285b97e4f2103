"""The source keys of a join, given those of its two sides.

A row of a join must come from rows of one source key. So if both sides read feeders, the join must
equate their source keys; if one side is a constant table, the join may not keep its unmatched rows,
since they would belong to no key.

The invariant: the frame that `joined` returns offers the columns that Spark offers after such a
join, in Spark's order, and its provenance holds the source key in every row, including rows that an
outer join pads with nulls.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.relations import NOTHING, Field, Frame, Provenance
from deltaproduce.stages.sql.syntax import spelled

_LEFT_ONLY: Final = ("LEFT", "SEMI", "ANTI")
"""The kinds that return rows of the left side, and no unmatched rows of the right side."""


def joined(left: Frame, right: Frame, join: exp.Join) -> Frame:
    """Return the frame of a join of two sides.

    Raises:
        DefinitionError: a row of the join could come from several source keys, or from none.
    """
    kind = _kind(join)
    pairs = _merged_pairs(left, right, join)
    if left.keys and right.keys:
        _check_keys_are_equal(left, right, pairs, join)
    elif left.keys or right.keys:
        _check_constant_side(left, kind, join)
    columns, merged = _columns(left, right, pairs, kind)
    if kind in {"SEMI", "ANTI"}:
        return replace(left, columns=columns)
    keys = _merged_keys(left, right, columns[: len(pairs)], pairs, kind)
    partial = tuple(
        tuple(field for side in (left, right) if side.keys for field in side.fields_of_key(key))
        for key in range(len(keys))
    )
    return Frame(columns, merged, left.hidden + right.hidden, keys, partial)


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the conjuncts of ``condition``."""
    match condition:
        case None:
            return
        case exp.And():
            yield from conjuncts(condition.this)
            yield from conjuncts(condition.expression)
        case exp.Paren():
            yield from conjuncts(condition.this)
        case _:
            yield condition


def equal_keys(
    condition: exp.Expr, left: Frame, mine: Sequence[Field], right: Frame, other: Sequence[Field]
) -> frozenset[int]:
    """Return the source key columns that are equal where two expressions are.

    With ``=``, null equals nothing, so it suffices that a field holds the key or null.
    """
    if isinstance(condition, exp.NullSafeEQ):
        return left.holds(mine) & right.holds(other)
    return left.holds_or_null(mine) & right.holds_or_null(other)


def _kind(join: exp.Join) -> str:
    """Return INNER, LEFT, RIGHT, FULL, SEMI or ANTI."""
    kind = join.kind if join.kind in {"SEMI", "ANTI"} else join.side or "INNER"
    known = kind in {"INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"}
    odd_side = kind in {"SEMI", "ANTI"} and join.side not in {"", "LEFT"}
    if not known or odd_side or join.method not in {"", "NATURAL"}:
        raise DefinitionError(f"{spelled(join)!r} is a kind of join that Spark does not have")
    return kind


def _merged_pairs(left: Frame, right: Frame, join: exp.Join) -> list[tuple[Field, Field]]:
    """Return the pairs of columns that USING or NATURAL equates and merges."""
    if join.method == "NATURAL":
        right_names = {field.name.lower() for field in right.columns}
        names = [field.name for field in left.columns if field.name.lower() in right_names]
    else:
        names = [name.name for name in join.args.get("using") or ()]
    pairs = []
    for name in names:
        found = left.found([name]), right.found([name])
        if len(found[0]) != 1 or len(found[1]) != 1:
            message = (
                f"{spelled(join)!r} needs the column {name!r} once on each side, but finds it "
                f"{len(found[0])} and {len(found[1])} times; write a condition with ON"
            )
            raise DefinitionError(message)
        pairs.append((found[0][0][0], found[1][0][0]))
    return pairs


def _check_keys_are_equal(
    left: Frame, right: Frame, pairs: Sequence[tuple[Field, Field]], join: exp.Join
) -> None:
    if len(left.keys) != len(right.keys):
        message = (
            f"{spelled(join)!r} joins feeders with {len(left.keys)} and {len(right.keys)} key "
            "columns; all feeders of a stage have the same key types"
        )
        raise DefinitionError(message)
    equal, equated = NOTHING, [*pairs]
    for mine, other in pairs:
        equal |= left.holds_or_null([mine]) & right.holds_or_null([other])
    names = Frame(left.columns + right.columns, left.merged + right.merged)
    for condition in conjuncts(join.args.get("on")):
        if isinstance(condition, exp.EQ | exp.NullSafeEQ):
            sides = [names.fields_of(side) for side in (condition.this, condition.expression)]
            equal |= equal_keys(condition, left, sides[0], right, sides[1])
            equal |= equal_keys(condition, left, sides[1], right, sides[0])
            equated += _across(left, right, *sides)
    for key in range(len(left.keys)):
        if key not in equal:
            missing = f"{left.key_name(key)} = {right.key_name(key)}"
            message = f"{spelled(join)!r} can put rows of different source keys together; "
            if equal or not equated:
                message += f"add to its ON, with AND: {missing}; "
            message += keyed_anew(left, right, equated, join)
            raise DefinitionError(message)


def _across(
    left: Frame, right: Frame, one: Sequence[Field], two: Sequence[Field]
) -> Iterator[tuple[Field, Field]]:
    """Yield a pair of single columns that belong to the two sides, the left one first."""
    for mine, other in ((one, two), (two, one)):
        if len(mine) == len(other) == 1 and left.has(mine[0]) and right.has(other[0]):
            yield mine[0], other[0]


def keyed_anew(
    left: Frame, right: Frame, equated: Sequence[tuple[Field, Field]], node: exp.Expr
) -> str:
    """Return what to write to bring rows together by other columns than their source keys.

    Args:
        equated: the pairs of columns that are equal for rows that come together.
        node: the join, or the subquery.
    """
    if not equated:
        return "to bring rows together by other columns, make a stage of each that is keyed by them"
    wanted = dict[str, str]()
    for frame, fields in ((left, [a for a, _ in equated]), (right, [b for _, b in equated])):
        held = NOTHING.union(*(frame.holds_or_null([field]) for field in fields))
        if len(held) == len(frame.keys) == len(fields):
            continue
        names = ", ".join(dict.fromkeys(field.name for field in fields))
        wanted.setdefault(_table_of(fields[0], node), names)
    if not wanted:
        return "write it as EXISTS (SELECT 1 FROM … WHERE …), with their source keys equal there"
    stages = " and ".join(f"one of {table} with the key {key}" for table, key in wanted.items())
    return (
        "its rows come together by other columns: make a stage that is keyed by them, "
        f"{stages}, as SELECT * FROM {next(iter(wanted))}, and read that here instead"
    )


def _table_of(field: Field, node: exp.Expr) -> str:
    """Return the name of the table that has a column, as the query names it."""
    root = node.root()
    aliased = (t for t in root.find_all(exp.Table) if t.alias_or_name.lower() == field.table)
    return next((table.name for table in aliased), field.table or "that")


def _check_constant_side(left: Frame, kind: str, join: exp.Join) -> None:
    allowed = _LEFT_ONLY if left.keys else ("RIGHT",)
    if kind not in {"INNER", *allowed}:
        side = "right" if left.keys else "left"
        message = (
            f"{spelled(join)!r} returns rows of the constant table on its {side} for which no "
            "feeder has rows, so they belong to no source key; put the feeder on the side whose "
            "rows are kept"
        )
        raise DefinitionError(message)


def _columns(
    left: Frame, right: Frame, pairs: Sequence[tuple[Field, Field]], kind: str
) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """Return the frame's `columns` and `merged`, the merged ones first, as in Spark."""
    match kind:
        case "RIGHT":
            kept, gone = [other for _, other in pairs], [mine for mine, _ in pairs]
        case "FULL":
            kept = [replace(mine, table=None) for mine, _ in pairs]
            gone = [field for pair in pairs for field in pair]
        case _:
            kept, gone = [mine for mine, _ in pairs], [other for _, other in pairs]
    sides = left.columns if kind in {"SEMI", "ANTI"} else left.columns + right.columns
    rest = [field for field in sides if field not in kept and field not in gone]
    return (*kept, *rest), (*left.merged, *right.merged, *gone)


def _merged_keys(
    left: Frame,
    right: Frame,
    merged: Sequence[Field],
    pairs: Sequence[tuple[Field, Field]],
    kind: str,
) -> tuple[Provenance, ...]:
    if not right.keys or not left.keys:
        return left.keys or right.keys
    match kind:
        case "LEFT":
            return left.keys
        case "RIGHT":
            return right.keys
        case "FULL":
            keys = zip(left.keys, right.keys, strict=True)
            full = [(*mine, *other) for mine, other in keys]
            for field, (mine, other) in zip(merged, pairs, strict=True):
                for key in left.holds([mine]) & right.holds([other]):
                    full[key] = ((field,),)
            return tuple(full)
    return tuple(map(_either, left.keys, right.keys))


def _either(left: Provenance, right: Provenance) -> Provenance:
    """Return the provenance after an inner join: fields of either side that hold the key."""
    if len(left) == len(right) == 1:
        return (left[0] + right[0],)
    return left if len(left) == 1 else right
