"""Aggregate stages: their definition, and how a step updates them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import starmap
from typing import TypeAlias

from typing_extensions import override

from deltaproduce.engines.choice import Engines
from deltaproduce.engines.engine import Rows
from deltaproduce.engines.selections import Selection
from deltaproduce.errors import DefinitionError
from deltaproduce.model.declarations import check_text
from deltaproduce.model.graph import Stage
from deltaproduce.model.kind import Definition, KeyUse, Kind, Upkeep
from deltaproduce.model.layouts import Layout, sources_of
from deltaproduce.model.window_moves import Shift
from deltaproduce.model.windows import Window, making, over
from deltaproduce.stages.aggregates.grouping import Grouping
from deltaproduce.stages.aggregates.step import AggregateStep, alike, read_columns, row_columns
from deltaproduce.stages.aggregates.windowed import (
    KEPT,
    Part,
    rows_in_window,
    rows_moved,
    way,
    within_window,
)
from deltaproduce.stages.inputs import StageInput, all_parts, fed_by
from deltaproduce.stages.productions import DerivedKind, Production, ProductionResult
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.projection import Projection, naming
from deltaproduce.stages.sql.states.agg import AggregateCall
from deltaproduce.stages.sql.states.functions.merges import MergedFeeder, merge_of
from deltaproduce.stages.sql.states.functions.partials import NO_PARTIALS, Partials
from deltaproduce.stages.sql.states.own_aggregates import OwnAggregate
from deltaproduce.stages.sql.zoned import depends_on_zone, types_of
from deltaproduce.storage.stored import Stored
from deltaproduce.storage.tables.tables import Tables
from deltaproduce.times.zones import zone_of
from deltaproduce.types.columns import (
    NO_KEY,
    Column,
    RowSchema,
    keyless_schema,
    row_schema,
    unknown_schema,
)
from deltaproduce.types.data_types import DataType, NullType, StringType, StructField, StructType
from deltaproduce.types.ddl import quoted

_Typing: TypeAlias = Callable[[Projection, tuple[Column, ...]], dict[str, DataType]]
"""Finds the types of a projection of rows, given its columns."""


@dataclass(frozen=True, slots=True, repr=False)
class Aggregate(DerivedKind):
    """A stage with one row for each key that its feeder's rows have.

    Attributes:
        key: the names of the key columns, with their expressions over a feeder's row.
        values: the names of the value columns, with their calls over named arguments.
        arguments: the expressions of these arguments over a feeder's row; each once.
        where: the condition of the feeder's rows that count; all count if None.
        window: the partitions of its feeder that it covers; all rows if None.
        origins: the functions that the values are of; for a merged value, the feeder's function.
        in_order: the values that are merged by an ordered function of the feeder's columns, with
            this function.
    """

    key: tuple[tuple[str, Expression], ...]
    values: tuple[tuple[str, AggregateCall], ...]
    arguments: tuple[Expression, ...]
    where: Expression | None
    window: Window | None = None
    origins: tuple[AggregateCall, ...] = ()
    in_order: tuple[tuple[str, AggregateCall], ...] = ()

    @staticmethod
    def defined(
        key: str,
        values: Mapping[str, AggregateCall],
        where: str | None,
        feeders: Sequence[Stage],
        window: Window | None = None,
        *,
        stage: str,
    ) -> Aggregate:
        """Build the kind of a stage from its definition.

        Args:
            key: columns of the feeder, or expressions, as ``"a, b + 1 AS c"``; one row over all if
                it is empty.
            values: the names of the value columns -> their definitions.
            where: a condition over the feeder's columns.
            window: the partitions of the feeder that it covers.

        Raises:
            DefinitionError: an argument is wrong; with `stage` and, if one value is at fault,
                `column`.
        """
        if not isinstance(key, str):
            raise DefinitionError(f"stage {stage!r}: its key is {key!r}; give a str", stage=stage)
        if not isinstance(values, Mapping) or not values:
            message = f"stage {stage!r}: its values are {values!r}; give names and agg.… of each"
            raise DefinitionError(message, stage=stage)
        for name, call in values.items():
            if not isinstance(name, str) or not isinstance(call, AggregateCall):
                message = f"stage {stage!r}: value {name!r} is {call!r}; use one of agg's functions"
                raise DefinitionError(message, stage=stage, column=str(name))
        if where is not None:
            check_text(where, "its condition", stage=stage)
        feeder = feeders[0].schema
        checked = None if window is None else over(window, feeder, stage=stage)
        named, origins, in_order = dict(values), dict(values), dict[str, AggregateCall]()
        arguments = dict[Expression, None]()
        merged = [_merged_feeder(feeder) for feeder in feeders]
        for name, call in values.items():
            if call.merges:
                merged_call = merge_of(call, merged, stage=stage, column=name)
                named[name] = replace(call, arguments=(merged_call.value,))
                origins[name] = merged_call.origin
                if merged_call.in_order is not None:
                    in_order[name] = merged_call.in_order
                    arguments |= dict.fromkeys(
                        map(Expression.of_column, merged_call.in_order.arguments)
                    )
                continue
            if checked is not None and checked.last is not None:
                _check_dropping(call, checked, stage, name)
            read = [_read(text, feeder, f"value {name!r}", stage, name) for text in call.arguments]
            named[name] = replace(call, arguments=tuple(one.name for one in read))
            arguments |= dict.fromkeys(read)
        return Aggregate(
            tuple(_key(key, feeder, stage=stage)),
            tuple(named.items()),
            tuple(arguments),
            None if where is None else _read(where, feeder, "its condition", stage),
            checked,
            tuple(origins.values()),
            tuple(in_order.items()),
        )

    @property
    @override
    def word(self) -> str:
        return "aggregate"

    @property
    @override
    def definition(self) -> Definition:
        key = tuple((name, one.text) for name, one in self.key)
        values = tuple((name, call.definition) for name, call in self.values)
        identity = key, values, None if self.where is None else self.where.text
        return Definition(
            identity if self.window is None else (*identity, making(self.window)),
            written=self._query,
            has_methods=self._has_methods,
        )

    def _query(self, feeders: Sequence[str]) -> str:
        """Return the definition as a query. It does not include the window."""
        written = {one.name: _written(one) for one in self.arguments}
        chosen = [_aliased(name, one) for name, one in self.key]
        for name, call in self.values:
            named = tuple(written.get(argument, quoted(argument)) for argument in call.arguments)
            chosen.append(f"{replace(call, arguments=named).sql} AS {quoted(name)}")
        lines = ["SELECT", ",\n".join(f"  {one}" for one in chosen), f"FROM {', '.join(feeders)}"]
        if self.where is not None:
            lines.append(f"WHERE {self.where.text}")
        if self.key:
            lines.append(f"GROUP BY {', '.join(_written(one) for _, one in self.key)}")
        return "\n".join(lines)

    @property
    @override
    def key_use(self) -> KeyUse:
        return KeyUse(copied={name: one.column for name, one in self.key if one.column is not None})

    @override
    def reads_again(self, feeders: int, column: str) -> bool:
        """States and multisets subtract removed rows and add new ones.

        What subtracts nothing makes a key again from its rows. They are in one partition if the key
        has the column, but another feeder may change that partition after the rows are forgotten.
        """
        is_of_partition = feeders == 1 and any(one.column == column for _, one in self.key)
        return not is_of_partition and any(not call.subtracts for call in self.origins)

    @property
    def _has_methods(self) -> bool:
        return any(OwnAggregate.among(call.parameters) for call in self.origins)

    @property
    @override
    def upkeep(self) -> Upkeep:
        """A key without changed rows keeps its sketch."""
        again = [call.sql for call in self.origins if not call.subtracts]
        reason = f"a key that loses a row is made again from its rows, for {', '.join(again)}"
        return Upkeep(
            window=self.window,
            subtracts=True,
            reads_states=self.reads_states,
            by_history=any(call.estimates for call in self.origins),
            note=reason if again else None,
        )

    @property
    def reads_states(self) -> bool:
        """Whether it works on the states of its feeders."""
        return any(call.merges for _, call in self.values)

    @override
    def depends_on_zone(self, schema: RowSchema, feeders: Sequence[RowSchema]) -> bool:
        """By its expressions, and methods that get timestamps."""
        types = types_of(feeders)
        read = (*(one for _, one in self.key), *self.arguments, *filter(None, [self.where]))
        if self._has_methods and Kind.depends_on_zone(self, schema, feeders):
            return True
        return any(depends_on_zone(one.tree, types) for one in read)

    @property
    def computed(self) -> tuple[tuple[str, AggregateCall], ...]:
        """Its values, with the functions that compute them; `agg.merge` is of states."""
        in_order = dict(self.in_order)
        return tuple((name, in_order.get(name, call)) for name, call in self.values)

    @property
    def _merged(self) -> tuple[str, ...]:
        """The feeder's values whose states it merges, each once."""
        calls = (call for _, call in self.computed if call.merges)
        return tuple(dict.fromkeys(argument for call in calls for argument in call.arguments))

    def counted(self, rows: Rows, types: Mapping[str, DataType]) -> Rows:
        """Filter the rows of `projection` to those that count.

        Args:
            types: the types of its columns.
        """
        del types
        return rows

    def counted_types(self, types: Mapping[str, DataType]) -> Mapping[str, DataType]:
        """Return the types of the columns of `counted`."""
        return types

    @override
    def resolved(self, stage: Stage, tables: Tables) -> Stage:
        """Types follow from the feeder's columns."""
        if self.window is not None:
            over(self.window, stage.feeders[0].schema, stage=stage.name)
        read, typing = (
            read_columns(stage.feeders[0]),
            partial(Projection.resolved, engines=tables.engines),
        )
        with naming(stage.owner):
            types = typing(self.projection, read)
        partials = self.partials(stage.merged, typing, stage=stage.name)
        return replace(stage, schema=self.typed(types, partials, stage=stage.name))

    def schema(self, feeders: Sequence[Stage], *, stage: str) -> RowSchema:
        """Return the columns of such a stage, without types if only Spark knows some.

        Raises:
            DefinitionError: a function does not accept its argument, or states of several feeders
                do not add up; with `stage` and `column`.
        """
        with naming(stage):
            types = self.projection.types(read_columns(feeders[0]))
        merged = (c for feeder in feeders for c in row_columns(feeder) if self.reads_states)
        if any(isinstance(data_type, NullType) for data_type in types.values()) or not all(
            column.is_known for column in merged
        ):
            names = [name for name, _ in self.key], [name for name, _ in self.values]
            self._row_schema(*(_any_type(name) for name in names), stage=stage)  # checks the names
            return unknown_schema(dict.fromkeys(names[0], False), names[1])
        return self.typed(types, self.partials(feeders, Projection.types, stage=stage), stage=stage)

    def typed(
        self, types: Mapping[str, DataType], partials: Partials = NO_PARTIALS, *, stage: str
    ) -> RowSchema:
        """Return the columns of such a stage, from the types of the columns of `projection`.

        Args:
            partials: see `partials`.
        """
        grouping = self.grouping(types, partials, stage=stage)
        places = zip(self.key, self.keys, strict=True)
        key = StructType([StructField(name, types[place]) for (name, _), place in places])
        schema = self._row_schema(key, grouping.value.struct, stage=stage)
        return replace(schema, states=grouping.kept)

    def _row_schema(self, key: StructType, value: StructType, *, stage: str) -> RowSchema:
        if tuple(key.names) == NO_KEY.names:
            return keyless_schema(value, stage=stage)
        return row_schema(key, value, stage=stage)

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key columns among the columns of `projection`."""
        return tuple(f"_key_{n}" for n in range(len(self.key)))

    @property
    def projection(self) -> Projection:
        """The expressions computed for each row of its feeder: `keys`, and arguments by name."""
        keys = ((place, one) for place, (_, one) in zip(self.keys, self.key, strict=True))
        return Projection((*keys, *((one.name, one) for one in self.arguments)), self.where)

    @override
    def produced(
        self, production: Production, inputs: Sequence[StageInput]
    ) -> tuple[Rows, int] | None:
        fed = fed_by(inputs)
        step = self._step(production, inputs)
        if production.shift is None:
            return step.rows_of_all(fed)
        rows = rows_in_window(production.shift, fed)
        return step.rows_of_parts(rows) if rows else None

    @override
    def changed(
        self,
        production: Production,
        inputs: Sequence[StageInput],
        content: Stored | None,
        mappings: Callable[[], Stored | None],
    ) -> ProductionResult | None:
        """States lose the removed rows and gain the added ones."""
        del mappings
        fed = fed_by(inputs)
        step, shift = self._step(production, inputs), production.shift
        after = partial(self._rows_of, shift, fed)
        if shift is None:
            return step.changed(content, _moved(fed, step.columns_of), after)
        reused, why = KEPT if self.upkeep.by_history else way(shift, fed, content)
        if reused:
            changed = step.changed(content, rows_moved(shift, fed, step.columns_of), after)
        else:
            produced = self.produced(production, inputs)
            changed = None if produced is None else production.replaced(content, *produced)
        return changed and replace(changed, window=shift.move(reused=reused, why=why))

    def _rows_of(
        self, shift: Shift | None, fed: Sequence[StageInput], keys: Selection
    ) -> list[Part]:
        """Find the rows of keys in feeders, or in a window of them, after the step.

        The result may hold other rows: all are read, unless the key consists of feeders' key
        columns.
        """
        names = [one.column for _, one in self.key]
        own = fed[0].stage.schema.key.names
        if not set(names) <= set(own) or len(set(names)) < len(names):
            return _all_rows(shift, fed)
        places = [own.index(name) for name in names]
        narrowed = (
            (each, each.having(keys.renamed([each.stage.schema.key.columns[n] for n in places])))
            for each in fed
        )
        read = [(rows, each.stage, 1) for each, rows in narrowed if rows is not None]
        return read if shift is None else within_window(shift, read)

    def _step(self, production: Production, inputs: Sequence[StageInput]) -> AggregateStep:
        """Return the step's inputs and computations."""
        stage = production.stage
        typing: _Typing = partial(Projection.resolved, engines=production.engines)
        partials = self.partials(stage.merged, typing, stage=stage.name)
        types = typing(self.projection, read_columns(stage.feeders[0]))
        grouping = self.grouping(types, partials, stage=stage.name)
        if grouping.calls:
            grouping = grouping.on_clock(zone_of(production.engines.time_zone))
        return AggregateStep(
            production,
            inputs,
            self.projection.beside(partials.read),
            (*starmap(Column, self.counted_types(types).items()), *partials.read),
            self.keys,
            partial(self.counted, types=types),
            partials,
            grouping,
        )

    @override
    def pairs(self, stage: Stage, feeder: Stage, rows: Rows, engines: Engines) -> Rows:
        """Maps the keys of the feeder's rows to the groups they are in."""
        layout = Layout(stage.schema, sources_of(feeder.schema.key))
        sources = ((c.name, Expression.of_column(c.name)) for c in layout.sources)
        projection = Projection((*sources, *self.key), self.where)
        first = tuple(c for c in read_columns(stage.feeders[0]) if c.name in projection.columns)
        own = alike(first, stage.feeders[0], feeder)
        plain = engines.of(rows).filled(
            rows, (*layout.sources, *first), [*feeder.schema.key.names, *(c.name for c in own)]
        )
        return projection.of(plain, (*layout.sources, *first), engines, stage=stage.name)

    def partials(self, feeders: Sequence[Stage], typing: _Typing, *, stage: str) -> Partials:
        """Return its feeders' values that it merges.

        Raises:
            DefinitionError: the states of a value do not add up; with `stage` and `column`.
        """
        if not self._merged:
            return NO_PARTIALS
        groupings = [_grouping(feeder, typing) for feeder in feeders]
        places = {name: feeders[0].schema.value.names.index(name) for name in self._merged}
        try:
            return Partials.of(
                {
                    name: [grouping.partial(place) for grouping in groupings]
                    for name, place in places.items()
                }
            )
        except DefinitionError as error:
            name = next(name for name, call in self.values if error.column in call.arguments)
            message = f"stage {stage!r}, value {name!r}: {error}"
            raise DefinitionError(message, stage=stage, column=name) from None

    def grouping(
        self, types: Mapping[str, DataType], partials: Partials = NO_PARTIALS, *, stage: str
    ) -> Grouping:
        """Return what is computed from rows.

        Args:
            types: the types of the arguments, by name.
            partials: see `partials`.

        Raises:
            DefinitionError: a function does not accept its argument; with `stage` and `column`.
        """
        return Grouping.of(dict(self.computed), types, partials, stage=stage)


def _all_rows(shift: Shift | None, fed: Sequence[StageInput]) -> list[Part]:
    """Return all rows of feeders after the step, or all in a window of them."""
    if shift is None:
        return [(rows, each.stage, 1) for each, rows in all_parts(fed)]
    return rows_in_window(shift, fed)


def _moved(
    inputs: Sequence[StageInput], columns_of: Callable[[Stage], tuple[Column, ...]]
) -> list[Part]:
    """Return the added and the removed rows of the inputs, in the columns that are read."""
    return [
        (rows, each.stage, sign)
        for each in inputs
        if each.changed
        for rows, sign in zip(each.moved(columns_of(each.stage)), (-1, 1), strict=True)
    ]


def _grouping(feeder: Stage, typing: _Typing) -> Grouping:
    """Return what an aggregate stage computes."""
    kind = feeder.kind
    assert isinstance(kind, Aggregate)  # the definition says so
    types = typing(kind.projection, read_columns(feeder.merged[0]))
    partials = kind.partials(feeder.merged, typing, stage=feeder.name)
    return kind.grouping(types, partials, stage=feeder.name)


def _merged_feeder(feeder: Stage) -> MergedFeeder:
    """Return a feeder as a stage whose values are merged."""
    kind = feeder.kind
    if not isinstance(kind, Aggregate):
        return MergedFeeder(feeder.name, feeder.schema)
    functions = dict(zip(feeder.schema.value.names, kind.origins, strict=True))
    key = ", ".join(_aliased(name, one) for name, one in kind.key if feeder.schema.key != NO_KEY)
    return MergedFeeder(feeder.name, feeder.schema, key, feeder.feeders[0].name, functions)


def _aliased(name: str, one: Expression) -> str:
    return quoted(name) if one.column == name else f"{_written(one)} AS {quoted(name)}"


def _written(one: Expression) -> str:
    """Return an expression as its user would write it."""
    return one.text if one.column is None else quoted(one.column)


def _check_dropping(call: AggregateCall, window: Window, stage: str, column: str) -> None:
    """Refuse a function that cannot drop the partitions that its window drops."""
    if not call.subtracts:
        own = OwnAggregate.among(call.parameters)
        able = "" if own is None else f"give {own.name} the method subtract, or "
        message = (
            f"stage {stage!r}, value {column!r}: a window with last= drops partitions, and nothing "
            f"is taken from agg.{call.function}; {able}aggregate by {window.column!r} first, and "
            "let agg.merge in a window over that merge it"
        )
        raise DefinitionError(message, stage=stage, column=column)


def _key(text: str, feeder: RowSchema, *, stage: str) -> Iterator[tuple[str, Expression]]:
    """Yield the names of the key columns, with their expressions."""
    if not text.strip():
        yield from ((name, Expression.read("true", ())) for name in NO_KEY.names)
        return
    try:
        yield from list(Expression.listed(text, feeder.names))
    except DefinitionError as error:
        raise DefinitionError(f"stage {stage!r}, its key: {error}", stage=stage) from None


def _read(
    text: str, feeder: RowSchema, what: str, stage: str, column: str | None = None
) -> Expression:
    """Read an expression over the columns of the feeder."""
    try:
        return Expression.read(text, feeder.names)
    except DefinitionError as error:
        message = f"stage {stage!r}, {what}: {error}"
        raise DefinitionError(message, stage=stage, column=column) from None


def _any_type(names: Iterable[str]) -> StructType:
    return StructType([StructField(name, StringType()) for name in names])
