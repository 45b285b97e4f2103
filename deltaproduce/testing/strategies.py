"""Hypothesis strategies: data of any schema, histories of changes, and small random pipelines.

Invariant: what is drawn is legal input, and depends on Hypothesis' choices alone. Keys come from
small spaces, so that in a few versions they collide, vanish, come back and move.

It needs Hypothesis.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from deltaproduce.model.graph import Producer, Source
from deltaproduce.pipeline import Merged, Pipeline, merge
from deltaproduce.testing.oracle import Change, Delete, Upsert, Value, plain
from deltaproduce.types.columns import Columns, RowSchema

Row: TypeAlias = tuple[Any, ...]
Emissions: TypeAlias = Iterator[tuple[Any, Any]]


def keys(columns: Columns) -> st.SearchStrategy[Row]:
    """Keys of a schema: tuples of few different values a column, the edges of its type among them.

    Args:
        columns: the key columns. Nullable ones are sometimes None.
    """
    return st.tuples(*(_typed(column.data_type, column.nullable, _edges) for column in columns))


def values(columns: Columns) -> st.SearchStrategy[Row]:
    """Values of a schema: tuples of anything that the columns' types can hold.

    Half of the values are the edges that `keys` draws, so that a stage that makes keys of values
    meets the same key again. Timestamps are naive: the session's time zone should be Python's.

    Args:
        columns: the value columns. Nullable ones are sometimes None.
    """
    return st.tuples(*(_typed(column.data_type, column.nullable, _atoms) for column in columns))


@st.composite
def changes(
    draw: st.DrawFn,
    schema: RowSchema,
    key_pool: Sequence[Row],
    current: Mapping[Row, Sequence[Row]] | None = None,
) -> list[Change]:
    """A batch of changes of one source: one to eight keys, each either upserted or deleted.

    Keys have one to four rows, equal ones among them, and different keys' rows are interleaved.
    Stored keys may be sent again as they are, which changes nothing, or in another order. Deletes
    may come twice, and of unknown keys.

    Args:
        draw: given by Hypothesis.
        schema: the source's columns.
        key_pool: the keys to choose from.
        current: the source's values by key (in the normal form of `plain`) before the batch.
    """
    runs: list[list[Change]] = []
    chosen = st.lists(st.sampled_from(key_pool), min_size=1, max_size=8, unique_by=plain)
    for key in draw(chosen):
        stored = (current or {}).get(plain(key), ())
        match draw(st.sampled_from(["new", "new", "new", "delete", "same", "reordered"])):
            case "delete":
                runs.append([Delete(key)] * draw(st.integers(1, 2)))
            case "same" if stored:
                runs.append([Upsert(key, value) for value in stored])
            case "reordered" if stored:
                runs.append([Upsert(key, value) for value in draw(st.permutations(stored))])
            case _:
                found = draw(st.lists(values(schema.value), min_size=1, max_size=3))
                repeated = found[: draw(st.integers(0, 1))]
                runs.append([Upsert(key, value) for value in [*found, *repeated]])
    order = draw(st.permutations([number for number, run in enumerate(runs) for _ in run]))
    rests = [iter(run) for run in runs]
    return [next(rests[number]) for number in order]


@st.composite
def snapshots(
    draw: st.DrawFn,
    schema: RowSchema,
    key_pool: Sequence[Row],
    current: Mapping[Row, Sequence[Row]],
) -> list[Upsert]:
    """All rows of one source: the current ones, with some keys dropped, changed or added.

    Now and then that is nothing different, or no rows. Different keys' rows are not interleaved.

    Args:
        draw: given by Hypothesis.
        schema: the source's columns.
        key_pool: the keys to choose from.
        current: the source's values by key (in the normal form of `plain`).
    """
    found = {key: list(values) for key, values in current.items()}
    if draw(st.booleans()):
        found = _after(found, draw(changes(schema, key_pool, current)))
    kept = (
        [key for key in found if draw(st.integers(0, 9)) > 0] if draw(st.booleans()) else [*found]
    )
    order = draw(st.permutations(kept)) if draw(st.integers(0, 9)) else []
    return [Upsert(key, value) for key in order for value in found[key]]


@st.composite
def histories(
    draw: st.DrawFn, pipeline: Pipeline, *, min_versions: int = 1, max_versions: int = 5
) -> list[dict[str, list[Change]]]:
    """A history: batches of changes to a pipeline's sources, each drawn in view of those before.

    A batch that happens to change nothing makes no version, so a history of n batches gives at
    most n versions.

    Args:
        draw: given by Hypothesis.
        pipeline: the pipeline whose sources are changed.
        min_versions: the least number of batches.
        max_versions: the greatest number of batches.
    """
    sources = pipeline.graph().sources
    pools = {
        source.name: draw(st.lists(keys(source.schema.key), min_size=4, max_size=12))
        for source in sources
    }
    current: dict[str, dict[Row, list[Row]]] = {source.name: {} for source in sources}
    history: list[dict[str, list[Change]]] = []
    for _ in range(draw(st.integers(min_versions, max_versions))):
        batch: dict[str, list[Change]] = {}
        for source in draw(st.lists(st.sampled_from(sources), min_size=1, unique=True)):
            name = source.name
            batch[name] = draw(changes(source.schema, pools[name], current[name]))
            current[name] = _after(current[name], batch[name])
        history.append(batch)
    return history


@st.composite
def pipelines(draw: st.DrawFn, *, max_producers: int = 4, remembering: bool = True) -> Pipeline:
    """A small pipeline: one or two sources, and stages of a catalogue in chains and fan-out.

    Stages with several feeders, merged or joined, come where two have the same keys: of different
    sources, or a stage and its own feeder, or two stages of one ancestor.

    The stages' functions are deterministic, sensitive to the order of their values, and at the
    top level of this module, so that Spark's workers can unpickle them.

    Args:
        draw: given by Hypothesis.
        max_producers: the greatest number of producers; the least is one.
        remembering: with stages that number their keys, or keep what a key was first given, so that
            their rows depend on the versions before.
    """
    catalogue = [r for r in _CATALOGUE if remembering or not r.kept]
    pipeline = Pipeline("random")
    stages: list[tuple[Source | Producer, _Shape]] = []
    for number in range(1, draw(st.integers(1, 2)) + 1):
        shape = draw(st.sampled_from([rule.feeder for rule in catalogue]))
        source = pipeline.source(f"source_{number}", key=shape.key, value=shape.value)
        stages.append((source, shape))
    for number in range(1, draw(st.integers(1, max_producers)) + 1):
        feeder, shape = stages[draw(st.integers(0, len(stages) - 1))]
        others = [stage for stage in stages if stage[1].key == shape.key and stage[0] != feeder]
        if draw(st.booleans()) and others:
            inputs, rule = _several(draw, catalogue, (feeder, shape), others)
        else:
            rule = draw(st.sampled_from([rule for rule in catalogue if rule.feeder == shape]))
            inputs = [feeder]
        name = f"{rule.function.__name__}_{number}"
        stages.append((_declared(pipeline, inputs, rule, name), rule.made))
    return pipeline


def _declared(
    pipeline: Pipeline, inputs: Sequence[Source | Producer | Merged], rule: _Rule, name: str
) -> Producer:
    declared: dict[str, Any] = {"key": rule.made.key, "value": rule.made.value, "name": name}
    if rule.called == "by key":
        return pipeline.producer(*inputs, **declared, **rule.kept)(rule.function)
    streaming = rule.called == "with streams"
    return pipeline.arrow_producer(*inputs, **declared, streaming=streaming)(rule.function)


def _several(
    draw: st.DrawFn,
    catalogue: Sequence[_Rule],
    first: tuple[Source | Producer, _Shape],
    others: Sequence[tuple[Source | Producer, _Shape]],
) -> tuple[list[Source | Producer | Merged], _Rule]:
    """Several feeders with the same keys: merged if their values allow it, joined, or both."""
    chosen = draw(st.permutations(others))[: draw(st.integers(1, 2))]
    alike = [stage for stage, shape in chosen if shape == first[1]]
    if draw(st.booleans()) and alike:
        rules = [rule for rule in catalogue if rule.feeder == first[1]]
        return [merge(first[0], *alike)], draw(st.sampled_from(rules))
    shape = first[1]
    rules = [_Rule(function, shape, shape) for function in (matched, gathered, counted, last_first)]
    if draw(st.booleans()) and alike:
        inputs: list[Source | Producer | Merged] = [merge(first[0], *alike)]
    else:
        inputs, alike = [first[0]], []
    return [*inputs, *(s for s, _ in chosen if s not in alike)], draw(st.sampled_from(rules))


def _after(current: Mapping[Row, Sequence[Row]], batch: Sequence[Change]) -> dict[Row, list[Row]]:
    """A source's values by key after a batch of changes."""
    replaced: dict[Row, list[Row]] = {plain(change.key): [] for change in batch}
    for change in batch:
        if isinstance(change, Upsert):
            replaced[plain(change.key)].append(change.value)
    after = {**current, **replaced}
    return {key: list(found) for key, found in after.items() if found}


# ---- values of a type


def _typed(
    data_type: DataType, nullable: bool, atoms: Callable[[DataType], st.SearchStrategy[Any]]
) -> st.SearchStrategy[Any]:
    """Values of a type whose innermost values are drawn by `atoms`."""
    found: st.SearchStrategy[Any]
    match data_type:
        case StructType():
            found = st.tuples(
                *(_typed(field.dataType, field.nullable, atoms) for field in data_type.fields)
            )
        case ArrayType():
            items = _typed(data_type.elementType, data_type.containsNull, atoms)
            found = st.lists(items, max_size=3)
        case MapType():
            map_keys = _typed(data_type.keyType, False, _without_nan)
            items = _typed(data_type.valueType, data_type.valueContainsNull, atoms)
            found = st.dictionaries(map_keys, items, max_size=3)
        case _:
            found = atoms(data_type)
    return found | st.none() if nullable else found


def _atoms(data_type: DataType) -> st.SearchStrategy[Any]:
    """An edge of the type, or anything of it."""
    return _edges(data_type) | _anything(data_type)


def _without_nan(data_type: DataType) -> st.SearchStrategy[Any]:
    """Edges that can be keys of a map, in Python too."""
    return _edges(data_type).filter(lambda value: value == value)


_TEXTS = (
    *("a", "b", "", "A", "ab", " a", "a ", "0", "null", "%_*", "'", '"', "\\", "\\'", "`${a}`"),
    *("\n", "\r\n", "\t", "\x00", "a\x00b", "\x7f", "é", "e\u0301", "ß", "\uff5e", "😀", "x" * 300),
)
_BINARIES = (b"", b"a", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\x00", b"'\\", b"x" * 300)
_FLOATS = (0.0, 1.0, -1.0, 0.5, -0.0, float("nan"), float("inf"), float("-inf"))
_DATES = tuple(
    datetime.date(*day)
    for day in (
        *((1970, 1, 1), (2000, 2, 29), (1969, 12, 31), (1582, 10, 4), (1582, 10, 15)),
        *((1, 1, 1), (1900, 1, 1), (9999, 12, 31)),
    )
)
_INTEGER_BITS: dict[type[DataType], int] = {
    ByteType: 8,
    ShortType: 16,
    IntegerType: 32,
    LongType: 64,
}
# A timestamp with time zone is moved by its offset on the way: PySpark cannot read the very edges.
_MARGIN = datetime.timedelta(days=2)


def _edges(data_type: DataType) -> st.SearchStrategy[Any]:
    """Few values of a type: ordinary ones first, then those at which mistakes are made."""
    least, greatest = _bounds(data_type)
    match data_type:
        case BooleanType():
            return st.booleans()
        case ByteType() | ShortType() | IntegerType() | LongType():
            return st.sampled_from((0, 1, 2, 3, -1, 10, greatest, least))
        case FloatType() | DoubleType():
            return st.sampled_from(_FLOATS)
        case DecimalType():
            units = (*(n for n in (0, 1, -1, 5, 10) if n <= greatest), greatest, least)
            return st.sampled_from([_decimal(unit, data_type) for unit in units])
        case StringType():
            return st.sampled_from(_TEXTS)
        case BinaryType():
            return st.sampled_from(_BINARIES)
        case DateType():
            return st.sampled_from(_DATES)
        case TimestampType() | TimestampNTZType():
            midnights = (datetime.datetime(day.year, day.month, day.day) for day in _DATES)
            moments = [moment for moment in midnights if least <= moment <= greatest]
            microsecond = datetime.timedelta(microseconds=1)
            return st.sampled_from([*moments, moments[0] + microsecond, least, greatest])
    raise TypeError(f"no strategy for type {data_type.simpleString()!r}")


def _anything(data_type: DataType) -> st.SearchStrategy[Any]:
    """Any value of a type."""
    least, greatest = _bounds(data_type)
    match data_type:
        case ByteType() | ShortType() | IntegerType() | LongType():
            return st.integers(least, greatest)
        case FloatType() | DoubleType():
            return st.floats(width=32 if isinstance(data_type, FloatType) else 64)
        case DecimalType():
            return st.integers(least, greatest).map(lambda unit: _decimal(unit, data_type))
        case StringType():
            return st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
        case BinaryType():
            return st.binary(max_size=20)
        case DateType():
            return st.dates()
        case TimestampType() | TimestampNTZType():
            return st.datetimes(least, greatest)
    return _edges(data_type)


def _bounds(data_type: DataType) -> tuple[Any, Any]:
    """The least and the greatest value of a type that has them."""
    match data_type:
        case ByteType() | ShortType() | IntegerType() | LongType():
            bits = _INTEGER_BITS[type(data_type)]
            return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        case DecimalType():
            return 1 - 10**data_type.precision, 10**data_type.precision - 1
        case TimestampType():
            return datetime.datetime.min + _MARGIN, datetime.datetime.max - _MARGIN
        case TimestampNTZType():
            return datetime.datetime.min, datetime.datetime.max
    return None, None


def _decimal(unit: int, data_type: DecimalType) -> Decimal:
    """The decimal of so many units in the last place; exact, whatever the decimal context."""
    sign, digits = int(unit < 0), tuple(int(digit) for digit in str(abs(unit)))
    return Decimal((sign, digits, -data_type.scale))


# ---- stage functions


@dataclass(frozen=True, slots=True)
class _Shape:
    """The key and value columns of a stage, as DDL."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class _Rule:
    """A stage function, the shapes it reads and makes, and what keys keep."""

    function: Callable[..., Any]
    feeder: _Shape
    made: _Shape
    called: Literal["by key", "with tables", "with streams"] = "by key"
    kept: Mapping[str, Any] = field(default_factory=dict)


def unchanged(key: Value, values: Iterator[Value]) -> Emissions:
    """Map every row to itself, before the next is read."""
    for value in values:
        yield key, value


def filtered(key: Value, values: Iterator[Value]) -> Emissions:
    """Keep the rows with an even number."""
    for value in values:
        if value.n is not None and value.n % 2 == 0:
            yield key, value


def nothing(key: Value, values: Iterator[Value]) -> Emissions:
    """Emit nothing at all."""
    return iter(())


def first_only(key: Value, values: Iterator[Value]) -> Emissions:
    """Keep a key's first row, and leave the others unread."""
    yield key, next(values)


def constant_key(key: Value, values: Iterator[Value]) -> Emissions:
    """Gather all rows under one key, so that its values come in the order of the source keys."""
    for value in values:
        yield 0, {"t": value.t, "n": value.n}


def null_key(key: Value, values: Iterator[Value]) -> Emissions:
    """Gather the rows without text under the null key."""
    for value in values:
        yield (key if value.t else None), value


def rekeyed(key: Value, values: Iterator[Value]) -> Emissions:
    """Swap key and number."""
    for value in values:
        yield value.n, (key, value.t)


def differences(key: Value, values: Iterator[Value]) -> Emissions:
    """Subtract each number from the next."""
    for before, after in itertools.pairwise(values):
        yield key, ((_number(after.n) - _number(before.n)) % 1000, after.t)


def by_text(key: Value, values: Iterator[Value]) -> Emissions:
    """Key the rows by their text."""
    for value in values:
        yield value.t, value.n


def scattered(key: Value, values: Iterator[Value]) -> Emissions:
    """Emit to several keys, and twice to one of them."""
    for value in list(values):
        yield value.t, value.n
        yield "all", key
        yield value.t, value.n


def ranked(key: Value, values: Iterator[Value]) -> Emissions:
    """Make the number a part of the key."""
    for value in values:
        yield {"k": key, "n": value.n}, value.t


def listed(key: Value, values: Iterator[Value]) -> Emissions:
    """Group the numbers to one list."""
    yield key, [value.n for value in values]


def totals(key: Value, values: Iterator[Value]) -> Emissions:
    """Sum the numbers of a text."""
    found = list(values)
    yield len(found), (sum(map(_number, found)) % 1000, key)


def numbered(key: Value, values: Iterator[Value]) -> Emissions:
    """Replace the numbers by their positions."""
    for position, _ in enumerate(values):
        yield key, position


def joined(key: Value, values: Iterator[Value]) -> Emissions:
    """Join the texts in their order."""
    yield key.k, (key.n, "|".join(text or "-" for text in values)[-40:])


def flattened(key: Value, values: Iterator[Value]) -> Emissions:
    """Flatten lists, each item with its position."""
    for items in values:
        for position, item in enumerate(items or ()):
            yield item, {"n": position, "t": str(key)}


def by_year(key: Value, values: Iterator[Value]) -> Emissions:
    """Count the rows of a year, under a key that has one or none."""
    year = None if key.d is None else key.d.year
    yield year, [position for position, _ in enumerate(values)]


def identified(key: Value, values: Iterator[Value]) -> Emissions:
    """Leave a number for each text to be filled in."""
    for value in values:
        yield value.t, None


def first_given(value: Value, example: Value) -> Value:
    """Keep what the key was first given."""
    return value if example is None else example


def matched(key: Value, values: Iterator[Value], *others: Iterator[Value]) -> Emissions:
    """Keep the rows of keys that all feeders have: an inner join."""
    found = list(values)
    if all(next(iter(other), None) is not None for other in others):
        for value in found:
            yield key, value


def gathered(key: Value, values: Iterator[Value], *others: Iterator[Value]) -> Emissions:
    """Keep the rows of keys that no other feeder has, and no more than the first of others."""
    present = any(True for other in others for _ in other)  # before the first feeder is read
    for number, value in enumerate(values):
        if number == 0 or not present:
            yield key, value


def counted(key: Value, values: Iterator[Value], *others: Iterator[Value]) -> Emissions:
    """Repeat the last row as often as the other feeders have rows for the key."""
    last = None
    for value in values:
        last = value
    if last is not None:
        for other in others:
            for _ in other:
                yield key, last


def last_first(key: Value, values: Iterator[Value], *others: Iterator[Value]) -> Emissions:
    """Read a row of the last feeder, then one of the one before, and so on; then the rest."""
    inputs = [values, *others]
    present = [next(one, None) is not None for one in reversed(inputs)]
    if all(present):
        for value in values:
            yield key, value


def _number(n: int | None) -> int:
    return 0 if n is None else n


# ---- stage functions over Arrow: some of those above, column by column


def unchanged_table(table: pa.Table) -> pa.Table:
    """As `unchanged`."""
    return table.append_column("_source_k", table.column("k"))


def unchanged_wide_table(table: pa.Table) -> pa.Table:
    """As `unchanged`, for values of all types."""
    for name in ("d", "b", "f", "p"):
        table = table.append_column(f"_source_{name}", table.column(name))
    return table


def filtered_table(table: pa.Table) -> pa.Table:
    """As `filtered`."""
    return unchanged_table(table.filter(pc.equal(pc.bit_wise_and(table.column("n"), 1), 0)))


def rekeyed_table(table: pa.Table) -> pa.Table:
    """As `rekeyed`."""
    key, number = table.column("k"), table.column("n")
    return pa.table({"k": number, "n": key, "t": table.column("t"), "_source_k": key})


def by_text_table(table: pa.Table) -> pa.Table:
    """As `by_text`."""
    key = table.column("k")
    return pa.table({"t": table.column("t"), "n": table.column("n"), "_source_k": key})


def totals_table(table: pa.Table) -> pa.Table:
    """As `totals`."""
    texts = pa.table({"t": table.column("t"), "n": pc.modulo(table.column("n").fill_null(0), 1000)})
    found = texts.group_by("t").aggregate([("n", "sum"), ("n", "count")])
    text, total = found.column("t"), pc.modulo(found.column("n_sum"), 1000)
    return pa.table({"k": found.column("n_count"), "n": total, "t": text, "_source_t": text})


def flattened_table(table: pa.Table) -> pa.Table:
    """As `flattened`."""
    lists = table.column("ns").combine_chunks()
    keys = table.column("k").take(pc.list_parent_indices(lists))
    sizes = pc.list_value_length(lists).fill_null(0)
    positions = [position for size in sizes.to_pylist() for position in range(size)]
    made = {"k": lists.flatten(), "n": pa.array(positions, pa.int64())}
    return pa.table({**made, "t": keys.cast(pa.string()).fill_null("None"), "_source_k": keys})


def numbered_stream(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """As `numbered`."""
    start = 0
    for batch in batches:
        text, end = batch.column("t"), start + batch.num_rows
        numbers = pa.array(range(start, end), pa.int64())
        yield pa.record_batch({"t": text, "n": numbers, "_source_t": text})
        start = end


def first_of_stream(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """As `first_only`."""
    yield unchanged_table(pa.Table.from_batches([next(batches)]).slice(0, 1))


_ROWS = _Shape("k bigint", "n bigint, t string")
_BY_TEXT = _Shape("t string", "n bigint")
_NUMBERED = _Shape("t string", "n bigint NOT NULL")
_RANKED = _Shape("n bigint desc, k bigint", "t string")
_LISTS = _Shape("k bigint", "ns array<bigint>")
_WIDE = _Shape(
    "d date desc, b binary, f boolean desc, p decimal(9,2)",
    "x double, y float, a decimal(38,10), h smallint, moment timestamp, day date, raw binary, "
    "tags map<string,array<string>>, s struct<i:int,t:string>",
)
_CATALOGUE = (
    _Rule(unchanged, _ROWS, _ROWS),
    _Rule(rekeyed, _ROWS, _ROWS),
    _Rule(filtered, _ROWS, _ROWS),
    _Rule(nothing, _ROWS, _ROWS),
    _Rule(first_only, _ROWS, _ROWS),
    _Rule(constant_key, _ROWS, _ROWS),
    _Rule(null_key, _ROWS, _ROWS),
    _Rule(differences, _ROWS, _ROWS),
    _Rule(by_text, _ROWS, _BY_TEXT),
    _Rule(scattered, _ROWS, _BY_TEXT),
    _Rule(scattered, _ROWS, _BY_TEXT, kept={"preserve": first_given}),
    _Rule(identified, _ROWS, _NUMBERED, kept={"surrogate": "n"}),
    _Rule(totals, _NUMBERED, _ROWS),
    _Rule(ranked, _ROWS, _RANKED),
    _Rule(listed, _ROWS, _LISTS),
    _Rule(totals, _BY_TEXT, _ROWS),
    _Rule(numbered, _BY_TEXT, _BY_TEXT),
    _Rule(joined, _RANKED, _ROWS),
    _Rule(unchanged, _RANKED, _RANKED),
    _Rule(flattened, _LISTS, _ROWS),
    _Rule(unchanged, _LISTS, _LISTS),
    _Rule(unchanged, _WIDE, _WIDE),
    _Rule(first_only, _WIDE, _WIDE),
    _Rule(by_year, _WIDE, _LISTS),
    _Rule(unchanged_table, _ROWS, _ROWS, "with tables"),
    _Rule(rekeyed_table, _ROWS, _ROWS, "with tables"),
    _Rule(filtered_table, _ROWS, _ROWS, "with tables"),
    _Rule(by_text_table, _ROWS, _BY_TEXT, "with tables"),
    _Rule(first_of_stream, _ROWS, _ROWS, "with streams"),
    _Rule(totals_table, _BY_TEXT, _ROWS, "with tables"),
    _Rule(numbered_stream, _BY_TEXT, _BY_TEXT, "with streams"),
    _Rule(flattened_table, _LISTS, _ROWS, "with tables"),
    _Rule(unchanged_wide_table, _WIDE, _WIDE, "with tables"),
)
