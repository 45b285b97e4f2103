"""Links: the partitions of a feeder that the tasks of a stage read, for all tasks at once.

A condition with several parts (AND) is evaluated part by part. A part links values of the scope
with values of partition columns; there are few of either, so it is computed once per pair of
values, and equality is a look-up. So a thousand tasks a day over a thousand days are linked without
looking at each pair of task and partition. The invariant: a task is linked with the partitions that
looking at each pair would find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from sqlglot import exp

from deltaproduce.engines.local.arrays import Marks, Numbers, factorize, places_within, sorting
from deltaproduce.engines.local.kernels.row_hashes import Hashes
from deltaproduce.errors import DefinitionError
from deltaproduce.stages.partitioned.conditions import (
    PartitionTest,
    Read,
    column_name,
    matched_name,
    merged_name,
)
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.evaluation import evaluated
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.terms import Constant, Term
from deltaproduce.stages.sql.scopes.clauses import Scoped
from deltaproduce.stages.sql.scopes.coded import Coded, combined, numbered
from deltaproduce.types.data_types import BooleanType, DataType, FractionalType
from deltaproduce.types.pandas_on_demand import in_numpy

Pairs: TypeAlias = tuple[Numbers, Numbers]

_PAIRS: Final = 1 << 21
"""About how many pairs are evaluated at a time."""


@dataclass(frozen=True, slots=True)
class Links:
    """The partitions of one feeder that the tasks of a stage read.

    Attributes:
        groups: for each task the number of its group; tasks of a group read the same partitions.
        count: the number of groups.
        places: the partitions read at each place of the query that names the feeder.
    """

    groups: Numbers
    count: int
    places: tuple[_Place, ...]

    @staticmethod
    def of(reads: Iterable[Read], scopes: Scoped, partitions: pa.Table) -> Links:
        """Link tasks with partitions.

        Args:
            reads: the places that name the feeder.
            scopes: one scope per task.
            partitions: the feeder's expected partitions, in its columns and a column of nulls.
        """
        feeder_names = list(reads)
        conditions = [_parts(read) for read in feeder_names]
        used = {name for parts in conditions for part in parts for name in _names(part, scopes)}
        names = [name for name in scopes.names if name in used]
        groups, columns = combined([scopes.names[name] for name in names], scopes.size)
        count = len(columns[0]) if columns else min(scopes.size, 1)
        named = dict(zip(names, columns, strict=True))
        places = tuple(
            _Place.of(read, parts, named, count, partitions, scopes.zone)
            for read, parts in zip(feeder_names, conditions, strict=True)
        )
        return Links(groups, count, places)

    def partitions(self, task: int) -> Numbers:
        """Return the positions of the partitions that a task reads, in order."""
        return np.sort(self.pairs(self.groups[[task]])[1])

    def pairs(self, groups: Numbers) -> Pairs:
        """Return the partitions that groups read: positions in ``groups``, and of partitions.

        Sorted by group, without duplicates.
        """
        if len(self.places) == 1:
            return self.places[0].pairs(groups)
        pairs = [place.pairs(groups) for place in self.places]
        of, partitions = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        order = np.lexsort((partitions, of))
        of, partitions = of[order], partitions[order]
        again = np.zeros(len(of), bool)
        again[1:] = (of[1:] == of[:-1]) & (partitions[1:] == partitions[:-1])
        return of[~again], partitions[~again]

    def sums(self, columns: Sequence[Hashes]) -> list[Hashes]:
        """Return for each task the sums of numbers over the partitions that it reads.

        Args:
            columns: a number for each partition.
        """
        totals = [np.zeros(self.count, np.uint64) for _ in columns]
        for groups in self._chunks():
            of, partitions = self.pairs(groups)
            ends = np.searchsorted(of, np.arange(len(groups) + 1))
            for sums, column in zip(totals, columns, strict=True):
                upto = np.zeros(len(partitions) + 1, np.uint64)
                np.cumsum(column[partitions], out=upto[1:])
                sums[groups] = upto[ends[1:]] - upto[ends[:-1]]
        return [sums[self.groups] for sums in totals]

    def _chunks(self) -> Iterator[Numbers]:
        """Yield all groups in chunks, each with a bounded number of partitions."""
        if not self.count:
            return
        most = reduce(np.add, (place.most for place in self.places)) + 1
        chunks = np.cumsum(most) // _PAIRS
        ends = np.flatnonzero(np.diff(chunks)) + 1
        yield from np.split(np.arange(self.count), ends)


@dataclass(frozen=True, slots=True)
class _Place:
    """The partitions read at one place of a query, by the parts of its condition.

    Attributes:
        steps: for each part, the values of partition columns that a group reads; and the numbers of
            their combinations with the values of earlier steps.
        ends: after the last step, by number, where the partitions with these values end.
        rows: the partitions, by number.
        open: the groups that read any partition at all.
    """

    steps: tuple[tuple[_Lists, _Known], ...]
    ends: Numbers
    rows: Numbers
    open: Marks

    @staticmethod
    def of(
        read: Read,
        parts: Sequence[PartitionTest],
        named: Mapping[str, Coded],
        count: int,
        partitions: pa.Table,
        zone: str,
    ) -> _Place:
        size = len(partitions)
        types = dict(read.columns)
        coded = {name: Coded.of(partitions.column(name), kind) for name, kind in types.items()}
        columns = {
            named_so(name): values
            for name, values in coded.items()
            for named_so in (column_name, merged_name, matched_name)
        }
        is_open = np.ones(count, bool)
        rest = list[PartitionTest]()
        for part in parts:
            if part.columns & columns.keys():
                rest.append(part)
            elif count:
                is_open &= _held([part], _taken(named, part.columns), count, zone)
        numbers, known = np.zeros(size, np.int64), 1
        steps = list[tuple[_Lists, _Known]]()
        for tests in _apart(rest, columns.keys()):
            read_by = frozenset[str]().union(*(part.columns for part in tests))
            mine = [columns[name] for name in columns if name in read_by]
            of, codes = combined(mine, size)
            own = dict(zip([n for n in columns if n in read_by], codes, strict=True))
            number = len(codes[0])
            lists = _Lists.of(tests, _taken(named, read_by), count, own, number, zone)
            joint, _, numbers = numbered(numbers * number + of, known * number)
            steps.append((lists, _Known(joint, number)))
            known = len(joint)
        order = sorting([numbers])
        ends = np.searchsorted(numbers[order], np.arange(known + 1))
        return _Place(tuple(steps), ends, order, is_open)

    @property
    def most(self) -> Numbers:
        """An upper bound of the partitions that each group reads, and of the pairs evaluated."""
        most = np.ones(len(self.open), np.int64)
        for lists, _ in self.steps:
            most = np.minimum(most * lists.sizes, 1 << 40)
        if len(self.steps) == 1:
            ((lists, known),) = self.steps
            sizes = np.diff(self.ends)[np.searchsorted(known.joint, lists.items)]
            upto = np.concatenate([[0], np.cumsum(sizes)])
            return np.asarray(upto[lists.ends[1:]] - upto[lists.ends[:-1]])
        return most * (int(self.ends[-1]) if not self.steps else 1)

    def pairs(self, groups: Numbers) -> Pairs:
        of = np.flatnonzero(self.open[groups])
        numbers = np.zeros(len(of), np.int64)
        for lists, known in self.steps:
            places, items = lists.expanded(groups[of])
            of, numbers = of[places], known.codes(numbers[places], items)
            of, numbers = of[numbers >= 0], numbers[numbers >= 0]
        places, rows = _expanded(self.ends, numbers)
        return of[places], self.rows[rows]


@dataclass(frozen=True, slots=True)
class _Lists:
    """One list of numbers per group.

    Attributes:
        ends: where the lists begin and end among `items`.
    """

    ends: Numbers
    items: Numbers

    @staticmethod
    def of(
        parts: Sequence[PartitionTest],
        named: Mapping[str, Coded],
        count: int,
        columns: Mapping[str, Coded],
        number: int,
        zone: str,
    ) -> _Lists:
        """Return the values of partition columns that meet all parts, for each group.

        Args:
            named: the values of the scope's names that the parts read, one row per group.
            columns: the ``number`` combinations of values that occur.
        """
        scopes, codes = combined(list(named.values()), count)
        scoped = dict(zip(named, codes, strict=True))
        size = len(codes[0]) if codes else min(count, 1)
        equal = _equal(parts, scoped, size, columns, number, zone)
        pairs = list[Pairs]()
        for of, places in _crossed(size, number) if equal is None else _cut(equal):
            both = {
                **{name: column.taken(of) for name, column in scoped.items()},
                **{name: column.taken(places) for name, column in columns.items()},
            }
            marks = _held(parts, both, len(of), zone)
            pairs.append((of[marks], places[marks]))
        nothing = np.zeros(0, np.int64)
        of, places = (np.concatenate(p) for p in zip((nothing, nothing), *pairs, strict=True))
        order = np.lexsort((places, of))
        ends = np.searchsorted(of[order], np.arange(size + 1))
        own = _Lists(ends, places[order])
        at, items = own.expanded(scopes)
        return _Lists(np.searchsorted(at, np.arange(count + 1)), items)

    @property
    def sizes(self) -> Numbers:
        """The length of each list."""
        return np.diff(self.ends)

    def expanded(self, groups: Numbers) -> Pairs:
        """Return the lists of groups: positions in ``groups``, and numbers."""
        places, at = _expanded(self.ends, groups)
        return places, self.items[at]


@dataclass(frozen=True, slots=True)
class _Known:
    """The combinations of partition columns' values that occur.

    Attributes:
        joint: the combinations that occur, sorted, each encoded as one number.
        span: how many values the last columns have.
    """

    joint: Numbers
    span: int

    def codes(self, numbers: Numbers, items: Numbers) -> Numbers:
        """Return the numbers of combinations; -1 if one does not occur."""
        wanted = numbers * self.span + items
        places = np.minimum(np.searchsorted(self.joint, wanted), max(len(self.joint) - 1, 0))
        if not len(self.joint):
            return np.full(len(wanted), -1)
        return np.where(self.joint[places] == wanted, places, -1)


def _expanded(ends: Numbers, numbers: Numbers) -> Pairs:
    """Expand runs: return positions in ``numbers``, and in the items of the runs."""
    sizes = ends[numbers + 1] - ends[numbers]
    return np.repeat(np.arange(len(numbers)), sizes), places_within(ends[numbers], sizes)


def _parts(read: Read) -> list[PartitionTest]:
    """Return the parts that a partition must all meet."""
    tests = list[PartitionTest]()
    for condition in read.conditions:
        part = condition.part.where()
        if condition.unless_null:  # waived if nulls in its columns meet it
            nulls = (PartitionTest(operator, (part,)) for operator in _OF_NULLS)
            tests.append(PartitionTest("or", (part, *nulls)))
            continue
        for one in _flat(part) if part.operator == "and" else [part]:
            if any(map(_is_matched, one.columns)):
                one = PartitionTest("or", (one, PartitionTest("of others' nulls", (one,))))
            tests.append(one)
    return tests


def _flat(part: PartitionTest) -> list[PartitionTest]:
    if part.operator != "and":
        return [part]
    return [one for each in part.parts for one in _flat(each)]


def _names(part: PartitionTest, scopes: Scoped) -> Iterator[str]:
    return (name for name in part.columns if name in scopes.names)


def _taken(named: Mapping[str, Coded], names: Iterable[str]) -> dict[str, Coded]:
    wanted = set(names)
    return {name: column for name, column in named.items() if name in wanted}


def _apart(parts: Sequence[PartitionTest], columns: Iterable[str]) -> list[list[PartitionTest]]:
    """Split parts into groups that share no partition column with each other."""
    own, groups = set(columns), list[tuple[set[str], list[PartitionTest]]]()
    for part in parts:
        read, together = set(part.columns & own), [part]
        for other in [one for one in groups if one[0] & read]:
            groups.remove(other)
            read, together = read | other[0], [*other[1], *together]
        groups.append((read, together))
    return [together for _, together in groups]


def _crossed(size: int, number: int) -> Iterator[Pairs]:
    """Yield the cross product, in chunks of bounded size."""
    step = max(1, _PAIRS // max(number, 1))
    for first in range(0, size, step):
        last = min(first + step, size)
        places = np.repeat(np.arange(first, last), number)
        yield places, np.tile(np.arange(number), last - first)


def _cut(pairs: Pairs) -> Iterator[Pairs]:
    for first in range(0, len(pairs[0]), _PAIRS):
        yield pairs[0][first : first + _PAIRS], pairs[1][first : first + _PAIRS]


def _equal(
    parts: Sequence[PartitionTest],
    scoped: Mapping[str, Coded],
    size: int,
    columns: Mapping[str, Coded],
    number: int,
    zone: str,
) -> Pairs | None:
    """Return the pairs that meet an equality among the parts; None if there is none."""
    for part in parts:
        tree = None if part.leaf is None or part.operator != "is" else part.leaf.tree
        if not isinstance(tree, exp.EQ):
            continue
        for one, other in ((tree.this, tree.expression), (tree.expression, tree.this)):
            of_scope = _side(one, scoped, size, zone)
            of_partition = _side(other, columns, number, zone)
            if of_scope is not None and of_partition is not None:
                (kind, left), (other_kind, right) = of_scope, of_partition
                if kind == other_kind and not isinstance(kind, FractionalType):
                    return _looked_up(left, right)
    return None


def _side(
    node: exp.Expr, named: Mapping[str, Coded], size: int, zone: str
) -> tuple[DataType, pa.Array] | None:
    """Return the values of one side of an equality; None if it reads other columns."""
    read = dict.fromkeys(column.name for column in node.find_all(exp.Column))
    if not read or not read.keys() <= named.keys():
        return None
    types = {name: named[name].data_type for name in read}
    try:
        term = analysed(Expression(node.sql("spark"), tuple(read), node), types, zone)
        if term is None:
            return None
        return term.data_type, evaluated(term, _table(_taken(named, read), size))
    except (DefinitionError, EvaluationError):
        return None


def _looked_up(left: pa.Array, right: pa.Array) -> Pairs:
    """Return the positions of equal values, ignoring nulls."""
    numbers = factorize([pa.chunked_array([left, right])])
    wanted, there = numbers[: len(left)], numbers[len(left) :]
    rows = np.flatnonzero(in_numpy(right.is_valid()))
    rows = rows[np.argsort(there[rows], kind="stable")]
    most = int(numbers.max(initial=-1)) + 1
    ends = np.searchsorted(there[rows], np.arange(most + 1))
    valid = np.flatnonzero(in_numpy(left.is_valid()))
    places, at = _expanded(ends, wanted[valid])
    return valid[places], rows[at]


def _table(columns: Mapping[str, Coded], size: int) -> pa.Table:
    return pa.table({"_": pa.nulls(size), **{n: column.array for n, column in columns.items()}})


def _held(
    parts: Sequence[PartitionTest], columns: Mapping[str, Coded], size: int, zone: str
) -> Marks:
    """Return which rows may meet all parts.

    Args:
        columns: the columns that the parts read: names of the scope, and partition columns.
    """
    marks = np.ones(size, bool)
    for part in parts:
        marks &= _may(part, columns, size, zone)
    return marks


def _may(part: PartitionTest, columns: Mapping[str, Coded], size: int, zone: str) -> Marks:
    """Return which rows may meet a part."""
    if part.operator in _OF_NULLS:
        names = filter(_OF_NULLS[part.operator], columns)
        return _may(part.parts[0], {**columns, **_nulls(columns, names, size)}, size, zone)
    if part.operator in {"and", "or"}:
        join = np.logical_and if part.operator == "and" else np.logical_or
        return reduce(join, (_may(one, columns, size, zone) for one in part.parts))
    if part.leaf is None or not size:
        return np.ones(size, bool)
    numbers, codes = combined([columns[name] for name in part.leaf.columns], size)
    named = dict(zip(part.leaf.columns, codes, strict=True))
    count = int(numbers.max()) + 1
    marks = _marks(part.leaf, named, count, zone, false=part.operator == "is not")
    return marks[numbers]


def _nulls(columns: Mapping[str, Coded], names: Iterable[str], size: int) -> dict[str, Coded]:
    """Return some of the columns with null in all rows."""
    nothing = np.zeros(size, np.int64)
    used = {name: columns[name] for name in names}
    return {
        name: Coded(column.data_type, pa.nulls(1, column.values.type), nothing)
        for name, column in used.items()
    }


def _is_own(name: str) -> bool:
    return name.startswith(column_name(""))


def _is_matched(name: str) -> bool:
    return name.startswith(matched_name(""))


def _is_partition(name: str) -> bool:
    return _is_own(name) or _is_matched(name) or name.startswith(merged_name(""))


_OF_NULLS: Final[Mapping[str, Callable[[str], bool]]] = MappingProxyType(
    {"of nulls": _is_partition, "of own nulls": _is_own, "of others' nulls": _is_matched}
)
"""What is evaluated with nulls -> which columns have these."""


def _marks(
    leaf: Expression, named: Mapping[str, Coded], size: int, zone: str, *, false: bool
) -> Marks:
    """Return where a leaf is true, or false: null is neither, and an unknown result is both."""
    term = _term(leaf, {name: column.data_type for name, column in named.items()}, {}, zone)
    if term is not None:
        return _evaluated(term, _table(named, size), false=false)
    own = {name: c for name, c in named.items() if not _is_partition(name)}
    numbers, codes = combined(list(own.values()), size)
    marks = np.ones(size, bool)
    for number in range(len(codes[0]) if codes else 0):  # with constants for the scope's names
        rows = np.flatnonzero(numbers == number)
        scope = {name: c.constant(number) for name, c in zip(own, codes, strict=True)}
        read = {name: c.taken(rows) for name, c in named.items() if name not in own}
        types = {name: column.data_type for name, column in read.items()}
        term = _term(leaf, types, scope, zone)
        if term is not None:
            marks[rows] = _evaluated(term, _table(read, len(rows)), false=false)
    return marks


def _term(
    leaf: Expression, types: Mapping[str, DataType], scope: Mapping[str, Constant], zone: str
) -> Term | None:
    """Return a leaf with types; None if it is left to Spark."""
    try:
        term = analysed(leaf, types, zone, scope)
    except DefinitionError:  # Spark will raise it
        return None
    return term if term is not None and isinstance(term.data_type, BooleanType) else None


def _evaluated(term: Term, rows: pa.Table, *, false: bool) -> Marks:
    try:
        values = evaluated(term, rows)
    except EvaluationError:  # true or false for a failing row, which halving finds
        if len(rows) == 1:
            return np.ones(1, bool)
        half = len(rows) // 2
        return np.concatenate(
            [
                _evaluated(term, part, false=false)
                for part in (rows.slice(0, half), rows.slice(half))
            ]
        )
    if false:
        return ~in_numpy(values.fill_null(True), bool)
    return in_numpy(values.fill_null(False), bool)
