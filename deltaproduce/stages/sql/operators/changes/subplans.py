"""Subplans: which joins of several queries have the same rows.

Each query numbers its fields, joins in the order of its text, and reads the columns that it needs.
The key of a subplan has nothing of that. The invariant: operators with equal keys have the same
rows, as bags, in the columns that both have; and they compute the same expressions, but in another
order only if none of them may fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, count
from types import MappingProxyType
from typing import TypeAlias

from sqlglot import exp

from deltaproduce.stages.sql.algebra.relations import (
    Filter,
    Join,
    ProjectRelation,
    Relation,
    Scan,
)
from deltaproduce.stages.sql.algebra.scalars import Field, Output, Scalar
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.types.data_types import DataType

Key: TypeAlias = tuple[object, ...]
"""Texts, and tuples of these: a value that can be compared."""
Columns: TypeAlias = Mapping[str, DataType | None]
"""Columns of a subplan -> their types."""
_Origins: TypeAlias = Mapping[str, tuple[int, str]]
"""Fields -> the scan that they are from, by identity, and the column."""


@dataclass(frozen=True, slots=True)
class Subplan:
    """What an operator computes, whatever its fields are called and however few they are.

    Attributes:
        key: equal for operators with the same rows.
        scans: the stages whose columns its fields are, in the order of the key.
        names: the ids of its fields -> their columns, each with the number of its scan.
        columns: these columns -> their types.
    """

    key: Key
    scans: tuple[Scan, ...]
    names: Mapping[str, str]
    columns: Columns


@dataclass(frozen=True, slots=True)
class _Input:
    """What is beside others in a block: a stage, or a join that keeps its order."""

    key: Key
    scans: tuple[Scan, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    """Inputs, and the conditions that their rows beside each other fulfil, in any order."""

    inputs: tuple[_Input, ...]
    conditions: tuple[Scalar, ...] = ()

    @property
    def scans(self) -> tuple[Scan, ...]:
        """Those of the inputs."""
        return tuple(chain.from_iterable(one.scans for one in self.inputs))

    def as_input(self, origins: _Origins) -> _Input:
        """Return it with a key that does not depend on the order of inputs, unless two are equal.

        Args:
            origins: those of all fields that the conditions read.
        """
        if len(self.inputs) == 1 and not self.conditions:
            return self.inputs[0]
        block = _Block(tuple(sorted(self.inputs, key=lambda one: repr(one.key))))
        texts = tuple(sorted({*_texts(self.conditions, block.scans, origins)}))
        return _Input(("inner", *(one.key for one in block.inputs), texts), block.scans)


@lru_cache(maxsize=1024)
def subplans(relation: Relation) -> Mapping[int, Subplan]:
    """Return the joins of stages in a query, also filtered, by identity of the operator."""
    blocks, plans = dict[int, _Block](), dict[int, Subplan]()
    order = [*relation.walk()]
    if not any(isinstance(one, Join) for one in order):
        return MappingProxyType(plans)
    origins = _origins(relation)
    for one in order:
        if not _is_comparable(one) or any(id(given) not in blocks for given in one.inputs):
            continue
        block = _block(one, [blocks[id(given)] for given in one.inputs], origins)
        if len({*map(id, block.scans)}) < len(block.scans):  # what is read twice has one name
            continue
        blocks[id(one)] = block
        if isinstance(one, Join) or any(id(given) in plans for given in one.inputs):
            known = block.as_input(origins)
            plans[id(one)] = _subplan(one, known, known.scans, origins)
    return MappingProxyType(plans)


def widened(
    relation: Relation, columns: Columns, known: Mapping[int, Subplan]
) -> tuple[Relation, dict[int, Subplan]]:
    """Return the same rows with at least some columns, and the subplans of its operators.

    Args:
        columns: as those of its subplan.
        known: the subplans of the relation and of what it reads, by identity.
    """
    origins = _origins(relation)
    numbers = count(1 + max(int(name.rpartition("#")[2]) for name in origins))
    wide, plans = dict[int, Relation](), dict[int, Subplan]()
    for number, scan in enumerate(known[id(relation)].scans):
        wide_scan = wide[id(scan)] = _with_columns(scan, number, columns, numbers)
        origins |= {field.id: (id(scan), name) for field, name in _columns(wide_scan)}
    named = _named(known[id(relation)].scans, origins)
    for one in relation.walk():
        if id(one) not in wide:
            wide[id(one)] = _over(one, [wide[id(given)] for given in one.inputs], columns, named)
        if id(one) in known:
            plan, new = known[id(one)], wide[id(one)]
            plans[id(new)] = _subplan(
                new, _Input(plan.key, plan.scans), _scans(plan, wide), origins
            )
    return wide[id(relation)], plans


def _scans(plan: Subplan, wide: Mapping[int, Relation]) -> tuple[Scan, ...]:
    """Return what the scans of a subplan became."""
    scans = (wide[id(scan)] for scan in plan.scans)
    return tuple(scan for scan in scans if isinstance(scan, Scan))


def _subplan(one: Relation, known: _Input, scans: tuple[Scan, ...], origins: _Origins) -> Subplan:
    """Return the subplan of an operator.

    Args:
        known: its key, and the scans that origins name.
        scans: the scans that it reads, in the same order.
    """
    numbers = {id(scan): number for number, scan in enumerate(known.scans)}
    read = ((field, *origins[field.id]) for field in one.fields)
    named = [(field, f"{numbers[scan]}.{column}") for field, scan, column in read]
    names = {field.id: name for field, name in named}
    columns = {name: field.data_type for field, name in named}
    return Subplan(known.key, scans, names, columns)


def _origins(relation: Relation) -> dict[str, tuple[int, str]]:
    """Return the fields that are columns of stages -> the scan, by identity, and the column."""
    origins = dict[str, tuple[int, str]]()
    for one in relation.walk():
        if isinstance(one, Scan):
            origins |= {field.id: (id(one), name) for field, name in _columns(one)}
        elif isinstance(one, ProjectRelation):
            copied = ((o.field.id, o.scalar.expression.column) for o in one.outputs)
            origins |= {new: origins[old] for new, old in copied if old in origins}
    return origins


def _columns(scan: Scan) -> Iterator[tuple[Field, str]]:
    return zip(scan.own, scan.columns, strict=True)


def _named(scans: Sequence[Scan], origins: _Origins) -> dict[str, str]:
    """Return the fields that are columns of some scans -> these, with the numbers of the scans."""
    numbers = {id(scan): number for number, scan in enumerate(scans)}
    return {
        field: f"{numbers[scan]}.{column}"
        for field, (scan, column) in origins.items()
        if scan in numbers
    }


def _with_columns(scan: Scan, number: int, columns: Columns, numbers: Iterator[int]) -> Scan:
    """Return a scan with the columns of its number, too.

    Args:
        numbers: those that no field has.
    """
    names, own = list(scan.columns), list(scan.own)
    for name, kind in columns.items():
        numbered, _, column = name.partition(".")
        if int(numbered) == number and column not in scan.columns:
            names.append(column)
            own.append(Field(f"{column}#{next(numbers)}", kind))
    if len(names) == len(scan.columns):
        return scan
    return replace(scan, columns=tuple(names), own=tuple(own))


def _over(
    one: Relation, inputs: Sequence[Relation], wanted: Collection[str], named: Mapping[str, str]
) -> Relation:
    """Return an operator over wider inputs, with the wanted columns.

    Args:
        named: the fields that are such columns -> these.
    """
    if isinstance(one, ProjectRelation):
        has = {named.get(field.id) for field in one.fields}
        lacking = {
            name: field
            for field in inputs[0].fields
            if (name := named.get(field.id)) in wanted and name not in has
        }
        if lacking:
            return ProjectRelation(inputs[0], (*one.outputs, *map(Output.copy, lacking.values())))
    is_same = all(given is own for given, own in zip(inputs, one.inputs, strict=True))
    return one if is_same else one.over(inputs)


def _block(one: Relation, inputs: Sequence[_Block], origins: _Origins) -> _Block:
    """Return what an operator is, from what its inputs are."""
    if isinstance(one, Scan):
        return _Block((_Input(("scan", one.feeder), (one,)),))
    if isinstance(one, ProjectRelation):
        return inputs[0]
    is_inner = isinstance(one, Filter) or (isinstance(one, Join) and one.kind == "inner")
    if is_inner and not any(scalar.may_fail for scalar in one.scalars):
        conditions = chain(*(given.conditions for given in inputs), one.scalars)
        return _Block(tuple(chain(*(given.inputs for given in inputs))), tuple(conditions))
    sides = [given.as_input(origins) for given in inputs]
    scans = tuple(chain(*(side.scans for side in sides)))
    keys = tuple(side.key for side in sides)
    if not isinstance(one, Join):
        return _Block((_Input(("filter", *keys, (*_texts(one.scalars, scans, origins),)), scans),))
    equal = tuple(sorted(_texts((each.scalar for each in one.equal), scans, origins)))
    rest = tuple(_texts(one.rest, scans, origins))
    kept = sides[0].scans if one.kind in {"semi", "anti"} else scans
    return _Block((_Input((one.kind, *keys, equal, rest), kept),))


def _is_comparable(one: Relation) -> bool:
    """Return whether an operator joins or filters columns of stages, as its text says."""
    if isinstance(one, ProjectRelation):
        return all(output.scalar.expression.column is not None for output in one.outputs)
    return isinstance(one, Scan | Filter | Join) and all(
        scalar.is_plain and not scalar.constants for scalar in one.scalars
    )


def _texts(scalars: Iterable[Scalar], scans: Sequence[Scan], origins: _Origins) -> Iterator[str]:
    """Yield what expressions are, with columns in place of fields."""
    numbers = {id(scan): number for number, scan in enumerate(scans)}

    def written(pattern: tuple[str, ...]) -> str:
        parts = list(pattern)
        for place in range(1, len(parts), 2):
            scan, column = origins[parts[place]]
            parts[place] = f"{numbers[scan]}.{column!r}"
        return "".join(parts)

    for scalar in scalars:
        yield " = ".join(sorted(map(written, _patterns(scalar.expression))))


@lru_cache(maxsize=4096)
def _patterns(expression: Expression) -> tuple[tuple[str, ...], ...]:
    """Return the text around the ids of fields, and these: of an equality two, of its sides."""
    tree = expression.tree
    sides = [tree.this, tree.expression] if isinstance(tree, exp.EQ) else [tree]
    patterns = []
    for side in sides:
        pattern = [""]
        _write(side, {*expression.columns}, pattern)
        patterns.append(tuple(pattern))
    return tuple(patterns)


def _write(value: object, fields: Collection[str], pattern: list[str]) -> None:
    """Add a part of a tree to a pattern; trees with equal patterns are the same."""
    if isinstance(value, exp.Column) and value.name in fields:
        pattern += [value.name, ""]
    elif isinstance(value, exp.Expr):
        is_escaped = bool(value.meta.get("escaped"))
        pattern[-1] += f"{type(value).__name__}({is_escaped}"
        for name, part in value.args.items():
            if part is not None and part is not False and part != []:
                pattern[-1] += f",{name}="
                _write(part, fields, pattern)
        pattern[-1] += ")"
    elif isinstance(value, list):
        pattern[-1] += "["
        for part in value:
            _write(part, fields, pattern)
            pattern[-1] += ","
        pattern[-1] += "]"
    else:
        pattern[-1] += repr(value)
