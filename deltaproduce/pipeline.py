"""The definition of a pipeline: sources and stages, with a function or a query for each stage.

`Pipeline` collects the definitions in the order in which they are written, and makes the `Graph`
that the rest of the library works on. The invariant: a stage's feeders are defined before it, in
the same pipeline; every stage has a name that a path and a catalog can hold, and a schema that
Delta can store.

A kind is imported by the definition that uses it: those that read SQL need its grammar, which takes
as long to import as Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, get_args

from deltaproduce.described.content import check_stored, stored_as
from deltaproduce.errors import DefinitionError
from deltaproduce.model.arguments import name_fault
from deltaproduce.model.checks.definitions import (
    Check,
    RowCheck,
    Severity,
    checked_number,
    checked_severity,
    limits,
)
from deltaproduce.model.checks.expecting import Expectation
from deltaproduce.model.declarations import (
    check_function,
    check_inputs,
    check_stage,
    check_text,
    function_name,
)
from deltaproduce.model.graph import Graph, Producer, Source, Stage, is_stage, with_hidden
from deltaproduce.model.retention import Expire, retention
from deltaproduce.model.windows import Window
from deltaproduce.shown.explanations import Explanation
from deltaproduce.shown.table import Table
from deltaproduce.shown.tabular import Tabular, Word, one_line
from deltaproduce.shown.tasks import Values
from deltaproduce.stages.functions.kinds import ArrowFunction, ByKey, OverTables, ProduceFunction
from deltaproduce.stages.functions.preservation import PreserveFunction
from deltaproduce.stages.kind import explanation
from deltaproduce.stages.partitioned.presence import presence_stage, records_of
from deltaproduce.stages.scheduled.kinds import ForeignFunction
from deltaproduce.stages.sources.given.kind import Given
from deltaproduce.stages.sql.states.agg import AggregateCall
from deltaproduce.types.columns import (
    RowSchema,
    SchemaLike,
    existing_schema,
    row_schema,
    unknown_schema,
)
from deltaproduce.types.excerpts import meant, shown
from deltaproduce.types.stored_as import StoredAs

if TYPE_CHECKING:
    from deltaproduce.stages.partitioned.kind import Partitioned

Stored: TypeAlias = Mapping[str, str | None] | None
"""How files keep content: some of ``partition``, ``order`` and ``compression``."""

Incremental: TypeAlias = Literal["auto", "always", "never"]
"""Whether a query may run as a whole when a stage that it reads changes."""

AnyStage = TypeVar("AnyStage", Source, Producer)


@dataclass(frozen=True, slots=True)
class Merged:
    """Several feeders that a function reads as one; `merge` makes it."""

    feeders: tuple[Stage | str, ...]

    def __repr__(self) -> str:
        names = (x if isinstance(x, str) else getattr(x, "name", "?") for x in self.feeders)
        return one_line(self, Word(", ".join(map(str, names))))


def merge(*feeders: Stage | str) -> Merged:
    """Let a function read several feeders as one.

    For each key that any feeder has, the function gets one sequence: the values of the first
    feeder, then those of the second, and so on. They have the same key and value types, by
    position; the column names are those of the first.

    Args:
        *feeders: sources or producers of one pipeline, or their names.

    Examples:
        >>> shop = Pipeline("shop")
        >>> web = shop.source("web", key="customer_id bigint", value="amount bigint")
        >>> till = shop.source("till", key="customer_id bigint", value="amount bigint")
        >>> @shop.producer(merge(web, till), key="customer_id bigint", value="total bigint")
        ... def totals(customer_id, amounts):
        ...     yield customer_id, sum(amounts)
    """
    return Merged(feeders)


class NotKeyLocalError(Exception):
    """A query's rows do not each come from rows of one source key.

    Attributes:
        fault: what is not key-local.
    """

    def __init__(self, fault: DefinitionError) -> None:
        super().__init__(str(fault))
        self.fault = fault


class Pipeline(Tabular):
    """A named set of sources and stages. Define one after the other.

    Examples:
        >>> shop = Pipeline("shop")
        >>> orders = shop.source("orders", key="order_id bigint", value="customer_id bigint")
        >>> @shop.producer(orders, key="customer_id bigint", value="order_id bigint")
        ... def orders_by_customer(order_id, customer_ids):
        ...     for customer_id in customer_ids:
        ...         yield customer_id, order_id

    Raises:
        DefinitionError: the name is empty.
    """

    def __init__(self, name: str) -> None:
        check_text(name, "a pipeline's name")
        if not name.strip():
            raise DefinitionError(f"a pipeline is named {name!r}; give it a name")
        self._name = name
        self._stages: list[Stage] = []
        self._checks: list[Check] = []
        self._check_stages: list[Producer] = []

    def __repr__(self) -> str:
        return one_line(self, self._name)

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self._name

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The sources and producers, in order of definition."""
        return tuple(self._stages)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks and limits, in order of definition."""
        return tuple(self._checks)

    def as_tables(self) -> tuple[Table, ...]:
        """The stages with their kind, feeders and columns; and the checks, if there are any."""
        columns = ("stage", "kind", "reads", "key", "value")
        rows = (
            (
                stage.name,
                stage.kind.word,
                ", ".join(feeder.name for feeder in stage.merged),
                stage.schema.key.label,
                stage.schema.value.label,
            )
            for stage in self._stages
        )
        stages = Table(f"pipeline {self._name}", columns, tuple(rows))
        checks = tuple((c.name, c.stage, c.severity, c.bound) for c in self._checks)
        headings = ("check", "stage", "severity", "allows")
        return (stages, Table("checks", headings, checks)) if checks else (stages,)

    def graph(self) -> Graph:
        """Return what is defined so far; later definitions do not change it.

        Hidden stages that another stage reads come before it; those that keep records of its tasks
        come after it. Checks come last.
        """
        stages = ((*with_hidden(stage), *records_of(stage)) for stage in self._stages)
        every = (*chain.from_iterable(stages), *self._check_stages)
        return Graph.joined(every, self._checks)

    def source(
        self,
        name: str,
        *,
        key: SchemaLike,
        value: SchemaLike,
        retain: Window | None = None,
        expire: Expire = "delete",
        partition: str | None = None,
        scopes: str | None = None,
        stored: Stored = None,
        unique: bool = False,
    ) -> Source:
        """Define a source: rows that you give to `Store.update` or `Store.load`.

        Args:
            name: its name, unique in the pipeline without regard to case.
            key: the key columns, as DDL or StructType; ``desc`` sorts a column descending.
            value: the value columns, as DDL or StructType.
            retain: made by `window`, over a key column: the source keeps and accepts no rows of
                partitions before the window's first one. If None, it keeps all.
            expire: what happens to rows that are not kept any more. ``"delete"``: they are deleted,
                and so is what was made of them. ``"forget"``: they are dropped, and what was made
                of them stays; stages that would need them again are refused.
            partition: the columns by which tasks read it (`partitioned`), such as ``"day, store"``;
                with ``scopes`` also their values in each scope: ``"day = d, store"``.
            scopes: which partitions should exist at a date, as for `partitioned`: tasks wait for
                these. If None, those that it has.
            stored: how files store its content, as some of ``partition``, ``order`` and
                ``compression``, as for `Dataset.create`: for readers of a part of it, with
                `Store.dataset`. You may change it: then the next update rewrites the content.
            unique: whether a key has one row: a key that is twice in one batch, or in one load, is
                then an `InvalidChangesError` with the positions of two of its rows. If False, a key
                may have many rows.

        Raises:
            DefinitionError: the name, a column or the window is refused; with `stage` and `column`.
        """
        self._check_name(name)
        schema = row_schema(key, value, stage=name)
        kept = retention(retain, expire, schema, source=name)
        columns, expecting = self._partitions(name, schema, partition, scopes)
        files = stored_as(stored, stage=name)
        if not isinstance(unique, bool):
            message = f"source {name!r}: unique is {shown(unique)}; give True or False"
            raise DefinitionError(message, stage=name)
        return self.add(Source(name, schema, Given(kept, columns, expecting, unique), files))

    def delta_source(
        self,
        name: str,
        *,
        table: str,
        key: SchemaLike,
        value: SchemaLike | None = None,
        partition: str | None = None,
        scopes: str | None = None,
    ) -> Source:
        """Define a source that is an existing Delta table, which someone else writes.

        The store reads it in place and copies nothing. Each `Store.update` takes what is new in it:
        from its change data feed, if that is on, otherwise from the files that were added and
        removed. The version log records the Delta version that each version has read. Rows of a key
        are ordered by their values.

        Args:
            name: its name, unique in the pipeline without regard to case.
            table: a path (with a ``/`` or a scheme), or a name in a catalog.
            key: the columns that group rows: their names, such as ``"a, b desc"``, or DDL or a
                StructType, which are then checked. A key may have many rows.
            value: the columns that functions get: their names, DDL, or a StructType; all others of
                the table if None. A query (`sql`) can read the source only if you name them.
            partition: as for `source`: columns that are declared with their types, whatever the
                table is partitioned by.
            scopes: as for `source`.

        Raises:
            DefinitionError: the name, or a column, is refused; with `stage` and `column`. What the
                table lacks is found when a store is opened.
        """
        from deltaproduce.stages.sources.external.kind import External

        self._check_name(name)
        check_text(table, "its table", stage=name)
        if not table.strip():
            message = f"source {name!r}: its table is {table!r}; give a path or a name"
            raise DefinitionError(message, stage=name)
        schema = existing_schema(key, value, stage=name)
        columns, expecting = self._partitions(name, schema, partition, scopes)
        return self.add(Source(name, schema, External(table, value is None, columns, expecting)))

    def _partitions(
        self, name: str, schema: RowSchema, partition: str | None, scopes: str | None
    ) -> tuple[tuple[str, ...], Callable[[datetime], Sequence[Values]] | None]:
        """The partition columns of a source, and what finds those that it is to have at a date."""
        for text, what in ((partition, "partition"), (scopes, "scopes")):
            if text is not None:
                check_text(text, f"its {what}", stage=name)
        if partition is None:
            if scopes is not None:
                message = f"source {name!r} has scopes and no partition; say of which columns"
                raise DefinitionError(message, stage=name)
            return (), None
        from deltaproduce.stages.partitioned.kind import source_partitions

        columns, expecting = source_partitions(partition, scopes, schema, stage=name)
        presence_stage(Source(name, schema, Given(None, columns)))  # refuses other columns
        return columns, expecting

    def producer(
        self,
        *feeders: Stage | Merged | str,
        key: SchemaLike,
        value: SchemaLike,
        name: str | None = None,
        surrogate: str | None = None,
        preserve: PreserveFunction | None = None,
        revision: str | None = None,
        stored: Stored = None,
    ) -> Callable[[ProduceFunction], Producer]:
        """Return a decorator that makes a stage of ``function(key, values)``.

        The library calls the function for every key of the feeder, with an iterator over the key's
        values. The function yields (target key, value) pairs of the stage.

        Several feeders are a join: the library calls ``function(key, values_of_a, values_of_b, …)``
        for every key that any of them has, with an empty iterator for a feeder without it. Values
        are streamed in the order of the feeders: if the function reads a later feeder first, the
        key's values of the earlier ones are held in memory.

        Args:
            *feeders: what it reads: a source or producer of this pipeline, its name, or several
                merged by `merge`. All have the same key types and directions, by position; the
                source key columns have the names of the first feeder's key.
            key: the target key columns, as DDL or StructType; ``desc`` sorts a column descending.
            value: the value columns, as DDL or StructType.
            name: the stage's name; by default the function's.
            surrogate: a value column of an integer type, which the function emits as None. The
                library fills it with a number for each target key: 1, 2, 3, … in key order for
                those that are new in a version. A key keeps its number as long as it has rows; no
                number is used twice.
            preserve: ``preserve(value, example)``, called once for each emitted row, in key order,
                with another value of its target key or None; it returns the value to store. The
                example is a value that the key had before this version, or else the first one
                stored in it. So a value may depend on the first value of its key.
            revision: a name for what the function does. If given, the stage is recomputed in full
                when the revision changes, and not when the function's text does.
            stored: as for `source`.

        Raises:
            DefinitionError: when the decorator is applied, if the name, a feeder, a column or the
                function is refused; with `stage` and `column`.
        """

        def decorate(function: ProduceFunction) -> Producer:
            stage = function_name(function) if name is None else name
            self._check_name(stage)
            inputs = tuple(self._input(feeder, stage=stage) for feeder in feeders)
            schema = row_schema(key, value, stage=stage)
            kind = ByKey(function, surrogate, preserve)
            files = stored_as(stored, stage=stage)
            return self.add(Producer(stage, inputs, schema, kind, revision, stored=files))

        return decorate

    def arrow_producer(
        self,
        feeder: Stage | Merged | str,
        *,
        key: SchemaLike,
        value: SchemaLike,
        name: str | None = None,
        streaming: bool = False,
        revision: str | None = None,
        stored: Stored = None,
    ) -> Callable[[ArrowFunction], Producer]:
        """Return a decorator that makes a stage of a function from pyarrow Tables to Tables.

        The library calls the function with tables of whole keys: the feeder's key columns, then its
        value columns; a key's rows are together and in order. A table has many keys, about 10,000
        rows, and more only if a single key has more; which keys come together is not defined.
        Timestamps are in the session's time zone.

        The function returns a Table or RecordBatch with the stage's key and value columns and, for
        each key column of the feeder, a column ``_source_<name>``: the source key that the row was
        made from. When that key changes, its rows are replaced. Columns are found by name; their
        types may differ from the declared ones if no value is lost. Rows may come in any order; for
        one source key and target key, it is the order of emission.

        Args:
            feeder: what it reads: a source or producer of this pipeline, its name, or several
                merged by `merge`.
            key: the target key columns, as DDL or StructType; ``desc`` sorts a column descending.
            value: the value columns, as DDL or StructType.
            name: the stage's name; by default the function's.
            streaming: call the function for each key, with an iterator over RecordBatches of that
                key's rows; it yields Tables or RecordBatches as above. So a key needs no more
                memory than one batch, but many small keys are slow.
            revision: as for `producer`.
            stored: as for `source`.

        Raises:
            DefinitionError: when the decorator is applied, as for `producer`.
        """

        def decorate(function: ArrowFunction) -> Producer:
            stage = function_name(function) if name is None else name
            self._check_name(stage)
            if not isinstance(streaming, bool):
                message = f"stage {stage!r}: streaming is {streaming!r}; give True or False"
                raise DefinitionError(message, stage=stage)
            inputs = (self._input(feeder, stage=stage),)
            schema = row_schema(key, value, stage=stage)
            kind = OverTables(function, streaming)
            files = stored_as(stored, stage=stage)
            return self.add(Producer(stage, inputs, schema, kind, revision, stored=files))

        return decorate

    def sql(
        self,
        name: str,
        query: str,
        key: str | None = None,
        incremental: Incremental = "auto",
        *,
        stored: Stored = None,
    ) -> Producer:
        """Make a stage of a query over other stages, which runs without Python.

        The query is any deterministic SELECT that uses the names of stages as its tables. If it is
        *key-local*, so that each of its rows depends on rows of one source key only, it runs for
        changed keys alone: projections, filters, ``explode``, ``GROUP BY`` with the source key,
        windows partitioned by it, joins on it, and unions of such queries are. Any other query is a
        view: it follows the changes of the stages that it reads, if all its operators can. If not,
        it runs as a whole whenever one changes, and its rows are compared with the stored ones. The
        page docs/sql.md has more; `explain` says what a stage is.

        The types of its columns are found when a store is opened, as far as they are not certain
        before. An ORDER BY at its end orders the rows of a key; other rows are ordered by their
        values.

        Args:
            name: its name, unique in the pipeline without regard to case.
            query: one SELECT in Spark SQL.
            key: the names of its columns that form the target key, such as ``"a, b desc"``; the
                others form the value; one row over all if it is empty. If None: the columns of its
                outermost GROUP BY if it selects all of them; else, of one stage that it reads once,
                this stage's key if it selects all of it; else all its columns but those of floats,
                arrays, maps and structs.
            incremental: ``"auto"``: as above. ``"always"``: a query that would run as a whole at
                each change is refused. ``"never"``: it runs as a whole.
            stored: as for `source`.

        Raises:
            DefinitionError: the name, the key, or the query is refused; with `stage`, and `line` of
                the query if it is known.
        """
        self._check_name(name)
        check_text(query, "its query", stage=name)
        if key is not None and key != "":
            check_text(key, "its key", stage=name)
        if incremental not in get_args(Incremental):
            message = f"stage {name!r}: incremental is {shown(incremental)}; give one of "
            raise DefinitionError(message + ", ".join(get_args(Incremental)), stage=name)
        known = (stage for stage in self._stages if not stage.kind.intake.all_columns)
        schemas = {stage.name: stage.schema for stage in known}
        files = stored_as(stored, stage=name)
        try:
            if incremental == "never" or key == "":
                return self._view(name, query, key, schemas, files, incremental)
            try:
                return self._key_local(name, query, key, schemas, files)
            except NotKeyLocalError as error:
                return self._view(name, query, key, schemas, files, incremental, error.fault)
        except RecursionError:
            message = f"stage {name!r}: its query is nested too deeply, as by a UNION of hundreds "
            message += "of queries; make several stages of it"
            raise DefinitionError(message, stage=name) from None

    def _key_local(
        self,
        name: str,
        query: str,
        key: str | None,
        schemas: Mapping[str, RowSchema],
        files: StoredAs | None,
    ) -> Producer:
        """Add a stage that is a query of one source key at a time.

        Raises:
            NotKeyLocalError: it is not.
        """
        from deltaproduce.stages.queries import key_local
        from deltaproduce.stages.queries.kind import KeyLocalQuery
        from deltaproduce.stages.sql.keys import key_columns
        from deltaproduce.stages.views.keys import key_of_text

        try:
            query_text = key_local(query, schemas, stage=name)
            inputs = tuple((self._feeder_named(one, stage=name),) for one in query_text.feeders)
            check_inputs(inputs, stage=name)
        except DefinitionError as error:
            raise NotKeyLocalError(error) from None
        if key is None:
            target = dict.fromkeys(key_of_text(query, schemas, stage=name), False)
        else:
            target = key_columns(key, query_text.names, stage=name)
        value = (column for column in query_text.names if column not in target)
        schema = unknown_schema(target, value)
        return self.add(Producer(name, inputs, schema, KeyLocalQuery(query_text), stored=files))

    def _view(
        self,
        name: str,
        query: str,
        key: str | None,
        schemas: Mapping[str, RowSchema],
        files: StoredAs | None,
        incremental: Incremental,
        fault: DefinitionError | None = None,
    ) -> Producer:
        """Add a stage that is a query over whole stages.

        Args:
            fault: why it is not key-local.
        """
        from deltaproduce.stages.views.kind import View

        is_followed = incremental != "never"
        kind = View.defined(query, key, schemas, stage=name, is_followed=is_followed)
        if incremental == "always" and kind.upkeep.obstacle is not None:
            message = (
                f"stage {name!r}: {kind.upkeep.obstacle}, and incremental is "
                "'always'; explain of a pipeline without it says which operator that is, and why"
            )
            message += "" if fault is None else f". As a query of one source key: {fault}"
            raise DefinitionError(message, stage=name)
        feeders = kind.over(schemas).feeders
        inputs = tuple((self._feeder_named(feeder, stage=name),) for feeder in feeders)
        schema = kind.schema(schemas, stage=name)
        return self.add(Producer(name, inputs, schema, kind, stored=files))

    def partitioned(
        self,
        name: str,
        query: str,
        *,
        key: str | None = None,
        partition: str,
        scopes: str | None = None,
        retention: str = "keep",
        stored: Stored = None,
    ) -> Producer:
        """Make a stage that tasks compute, one partition each, when a date is scheduled.

        The date decides which partitions should exist: each scope makes one. The conditions in the
        query decide which partitions of its feeders a task reads. So `Store.run` knows what is
        missing, what to run again, and in which order.

        Args:
            name: its name, unique in the pipeline without regard to case.
            query: one SELECT in Spark SQL over stages that are defined before. It may use the names
                of the scope, and does not select the partition columns.
            key: names of its columns that form the key, after the partition columns, such as
                ``"product_id"``; the partition columns alone if None.
            partition: the partition columns, and their values in a scope, such as
                ``"day = partition_day, store"``.
            scopes: ``FOR x IN list`` and ``LET x = value``, separated by commas, such as
                ``"FOR t IN timeseries('1 day', 2), LET day = date_format(t, 'yyyy-MM-dd')"``; one
                scope without names if None. A list is ``array(…)``, ``sequence(…)`` or
                ``timeseries(…)``: this many hours, days, weeks or months that end at the date,
                newest first.
            retention: ``"keep"``: partitions that no task asks for any more stay. ``"tasks"``: they
                are dropped.
            stored: as for `source`.

        Raises:
            DefinitionError: the name, the query or the scopes are refused; with `stage`.
        """
        kind = self._by_tasks(name, query, key, (partition, scopes, retention))
        return self._add_by_tasks(name, kind, kind.schema(stage=name), stored=stored)

    def foreign(
        self,
        name: str | None = None,
        *,
        reads: str,
        schema: str,
        key: str | None = None,
        partition: str,
        scopes: str | None = None,
        retention: str = "keep",
        revision: str | None = None,
        stored: Stored = None,
    ) -> Callable[[ForeignFunction], Producer]:
        """Return a decorator that makes a stage whose partitions a function computes.

        Like `partitioned`, but a function makes the rows of a partition. It gets a pyarrow Table of
        what the query reads, and the `Task`, whose ``scope`` and ``partition`` it may use. It
        returns a pyarrow Table. It runs in the driver's process.

        Args:
            name: the stage's name; by default the function's.
            reads: one SELECT, as for `partitioned`; the function gets its columns.
            schema: the columns that the function returns, as DDL, without the partition columns.
            key: as for `partitioned`, of these columns.
            partition: as for `partitioned`.
            scopes: as for `partitioned`.
            retention: as for `partitioned`.
            revision: as for `producer`: its tasks become dirty when it changes.
            stored: as for `source`.

        Raises:
            DefinitionError: when the decorator is applied, as for `partitioned`.
        """

        def decorate(function: ForeignFunction) -> Producer:
            stage = function_name(function) if name is None else name
            check_text(schema, "its schema", stage=stage)
            check_function(function, "its function", ("rows", "task"), stage=stage)
            clauses = partition, scopes, retention
            kind = self._by_tasks(stage, reads, key, clauses, function=function, schema=schema)
            return self._add_by_tasks(
                stage, kind, kind.declared(schema, stage=stage), revision, stored=stored
            )

        return decorate

    def aggregate(
        self,
        name: str,
        feeder: Stage | Merged | str,
        *,
        key: str,
        values: Mapping[str, AggregateCall],
        where: str | None = None,
        window: Window | None = None,
        revision: str | None = None,
        stored: Stored = None,
    ) -> Producer:
        """Make a stage with one row for each key, like ``GROUP BY``, updated at a change's cost.

        An update costs what the change costs, whatever the size of a group: the stage keeps states,
        from which the store subtracts rows that went, and to which it adds rows that came. It has
        no key mappings.

        Args:
            name: its name, unique in the pipeline without regard to case.
            feeder: what it reads: a stage of this pipeline, its name, or several merged by `merge`.
            key: columns of the feeder, or expressions over them, such as
                ``"a, year(day) AS year"``; if empty, there is one row over all rows, as long as
                there is one.
            values: the names of the value columns, in order -> functions of `agg`.
            where: a condition over the feeder's columns, in SQL; rows for which it is not true are
                left out.
            window: made by `window`: limits the stage to some partitions of the feeder; rows that
                leave them are subtracted from the states.
            revision: as for `producer`.
            stored: as for `source`.

        Raises:
            DefinitionError: the name, a column or a function is refused; with `stage` and, if it is
                about one value, `column`.
        """
        from deltaproduce.stages.aggregates.kind import Aggregate
        from deltaproduce.stages.aggregates.multisets import kept_beside

        self._check_name(name)
        inputs = (self._input(feeder, stage=name),)
        check_inputs(inputs, stage=name)
        kind = Aggregate.defined(key, values, where, inputs[0], window, stage=name)
        schema = kind.schema(inputs[0], stage=name)
        hidden = kept_beside(kind, name, inputs, revision)
        files = stored_as(stored, stage=name)
        return self.add(
            Producer(name, inputs, schema, kind, revision, hidden_inputs=hidden, stored=files)
        )

    def latest(
        self,
        name: str,
        events: Stage | str,
        *,
        key: str,
        sequence: str,
        deleted: str | None = None,
        columns: str | None = None,
        stored: Stored = None,
    ) -> Producer:
        """Make a stage with the latest state of each key, from events in any order (SCD type 1).

        It has one row for each key: the event with the greatest sequence, unless that is a delete.
        Events may come late, be corrected and be removed: the rows are always those that all events
        at once would give. Of events that are equal in the sequence, the greatest by all columns
        counts; `StageFigures.ties` says how many do not.

        An event without a sequence is an `InvalidChangesError`, with the event's key, if a source
        feeds the stage, and else a `ProducerError`.

        Args:
            name: its name, unique in the pipeline without regard to case.
            events: what it reads: a stage of this pipeline, or its name.
            key: columns of the events, or expressions, such as ``"id, lower(region) AS region"``.
            sequence: the columns that order the events of a key, such as ``"at"`` or
                ``"at, number"``.
            deleted: a condition that says which events are deletes, such as ``"op = 'D'"``.
            columns: the value columns: columns of the events, or expressions; all but the key if
                None.
            stored: as for `source`.

        Raises:
            DefinitionError: the name, the feeder or a column is refused; with `stage` and, if it is
                about one, `column`.
        """
        from deltaproduce.stages.rekeyed.events.columns import EventColumns
        from deltaproduce.stages.rekeyed.events.kind import Latest, stage_of_events

        self._check_name(name)
        feeder, files = self._feeder(events, stage=name), stored_as(stored, stage=name)
        own = EventColumns.read(feeder, key, sequence, deleted, columns, stage=name)
        return self.add(stage_of_events(Latest(own), name, feeder, files))

    def history(
        self,
        name: str,
        events: Stage | str,
        *,
        key: str,
        sequence: str,
        deleted: str | None = None,
        columns: str | None = None,
        track: str | None = None,
        stored: Stored = None,
    ) -> Producer:
        """Make a stage with all states of each key, from events in any order (SCD type 2).

        It has one row for each key and state, in order. ``valid_from`` is the sequence of its first
        event, ``valid_to`` that of the event that ends it: another state, or a delete; null if it
        is current. They have the type of the sequence; if that has several columns, they are
        structs of these. Adjacent states that are equal in the tracked columns are one row, which
        shows the last event's other values. The rest is as for `latest`.

        Args:
            name: as for `latest`.
            events: as for `latest`.
            key: as for `latest`.
            sequence: as for `latest`.
            deleted: as for `latest`.
            columns: as for `latest`.
            track: names of value columns. If None: all but columns of the events' key, of the
                sequence, and those that `deleted` reads.
            stored: as for `source`.

        Raises:
            DefinitionError: as for `latest`.
        """
        from deltaproduce.stages.rekeyed.events.columns import EventColumns
        from deltaproduce.stages.rekeyed.events.kind import History, stage_of_events

        self._check_name(name)
        feeder, files = self._feeder(events, stage=name), stored_as(stored, stage=name)
        own = EventColumns.read(feeder, key, sequence, deleted, columns, stage=name)
        kind = History(own, own.tracked(track, stage=name))
        return self.add(stage_of_events(kind, name, feeder, files))

    def explain(self, name: str) -> Explanation:
        """Return how a stage is kept up to date: which operators a step computes, and how.

        Args:
            name: the stage's name.

        Raises:
            NotFoundError: there is no such stage.
        """
        return explanation(self.graph().stage(name))

    def index(
        self,
        name: str,
        feeder: Stage | str,
        *,
        key: str,
        include: str | None = None,
        stored: Stored = None,
    ) -> Producer:
        """Make a stage that finds the rows of another one by other columns than its key.

        It has one row for each row of the feeder, in the same version; null is a key like others.
        Its value is the feeder's key columns that are not in its own key, and the included columns.
        `Store.lookup` finds rows by its key, and with ``fetch=True`` the feeder's rows.

        Args:
            name: its name, unique in the pipeline without regard to case.
            feeder: what it indexes: a stage of this pipeline, or its name.
            key: columns of the feeder, or expressions over them, such as
                ``"email, lower(name) AS name"``. A column may have a type, which is then checked,
                and a direction: ``"email string, day date desc"``.
            include: further columns or expressions to store for each row; none if None.
            stored: as for `source`.

        Raises:
            DefinitionError: the name, the feeder or a column is refused; with `stage` and, if it is
                about one, `column`.
        """
        from deltaproduce.stages.rekeyed.indexes.kind import Index

        self._check_name(name)
        indexed = self._feeder(feeder, stage=name)
        kind = Index.defined(key, include, indexed, stage=name)
        schema = kind.schema(indexed, stage=name)
        files = stored_as(stored, stage=name)
        return self.add(Producer(name, ((indexed,),), schema, kind, stored=files))

    def check(
        self, name: str, query: str, *, severity: Severity = "error", at_most: int = 0
    ) -> None:
        """Define a check: a query that returns no row of a version, or only a few.

        All checks are evaluated before a version is committed. If one of severity ``"error"`` is
        broken, there is no version, and the update raises a ChecksFailedError. The query follows
        the changes of the stages that it reads, as `sql` does, so a check costs what the change
        costs. Nothing can read its rows: `Store.check` and `Version.checks` have some of them.

        Args:
            name: its name, unique among checks and stages without regard to case.
            query: one SELECT in Spark SQL over stages that are defined before.
            severity: ``"error"``, or ``"warn"``: a version that breaks it is published, and its
                ``checks`` say so.
            at_most: how many rows the query may return.

        Raises:
            DefinitionError: the name, the query or an argument is refused; with `stage`.
        """
        self._check_name(name, "check")
        check_text(query, "its query", stage=name)
        level = checked_severity(severity, stage=name)
        most = checked_number(at_most, "at_most", stage=name)
        self._add_checks([(self._kept(name, query), None)], level, most)

    def _kept(self, name: str, query: str) -> Producer:
        """Return the hidden stage of a check of rows."""
        from deltaproduce.stages.views.checks import kept_of

        kept = kept_of(name, query, self._stages)
        check_stage(kept)
        return kept

    def _add_checks(
        self, kept: Sequence[tuple[Producer, str | None]], severity: Severity, at_most: int
    ) -> None:
        """Add checks of rows.

        Args:
            kept: their hidden stages, each with the stage that it is about; that is the first that
                it reads if None.
        """
        from deltaproduce.stages.views.checks import keys_in

        for one, about in kept:
            stage, keys = one.merged[0].name if about is None else about, keys_in(one)
            self._checks.append(RowCheck(one.owner, stage, severity, at_most, one.name, keys))
            self._check_stages.append(one)

    def _expect(self, stage: Stage, expectation: Expectation) -> None:
        """Define the checks of what is expected of a stage; see `Stage.expect`."""
        from deltaproduce.stages.views.expectations import check_quarantine, rules

        name = stage.name
        level = checked_severity(expectation.severity, get_args(Severity), stage=name)
        most = checked_number(expectation.at_most, "at_most", stage=name)
        schemas = {one.name: one.schema for one in self._stages}
        expected = rules(expectation, schemas, stage=name)
        for rule in expected:
            self._check_name(rule.name, "check")
        if level == "quarantine":
            check_quarantine(stage, expected, at_most=most)
        kept = [(self._kept(rule.name, rule.select), name) for rule in expected]
        if level == "quarantine":
            self._set_aside(stage, [(rule.name, rule.breaks or "") for rule in expected])
        self._add_checks(kept, level, most)

    def _set_aside(self, source: Stage, rules: Sequence[tuple[str, str]]) -> None:
        """Define the stage with the rows of a source that break rules, or add to its rules."""
        from deltaproduce.stages.sources.rejected.kind import rejected_beside

        known = [own for own in self._stages if own.kind.intake.rows_of == source.name]
        rejected = rejected_beside(source, rules, known)
        if known:
            self._stages[self._stages.index(known[0])] = rejected
        else:
            self.add(rejected)

    def limit(
        self,
        stage: Stage | str,
        *,
        deleted: float | None = None,
        changed: float | None = None,
        rows: tuple[int | None, int | None] | None = None,
        severity: Severity = "error",
    ) -> None:
        """Limit what one version may do to a stage, to notice inputs that were cut off.

        Each keyword is a check of its own, named ``<stage>_deleted``, ``<stage>_changed`` or
        ``<stage>_rows``. A share that equals the limit holds; shares are compared exactly. The
        limits of shares do not count for a version that makes the stage again by its definition,
        nor for a rollback or a repair.

        Args:
            deleted: the largest share of the keys that the stage had which may lose all rows.
            changed: the largest share of these keys which may get other rows.
            rows: the fewest and the most rows that the stage may have in any version, each of which
                may be None.
            severity: as for `check`.

        Raises:
            DefinitionError: there is no such stage, or an argument is refused; with `stage`.
        """
        name = stage if isinstance(stage, str) else getattr(stage, "name", None)
        if not any(own.name == name for own in self._stages):
            message = f"a limit is of {shown(stage)}, which is no stage of this pipeline yet; "
            raise DefinitionError(message + meant(name, (own.name for own in self._stages)))
        bounds = limits(str(name), deleted, changed, rows, severity)
        for one in bounds:
            self._check_name(one.name, "check")
        self._checks += bounds

    def add(self, stage: AnyStage) -> AnyStage:
        """Add a stage of any kind, such as one of your own; the other methods use this one.

        Args:
            stage: its name must be unique in the pipeline without regard to case; its feeders must
                be stages of this pipeline.

        Raises:
            DefinitionError: the name, a feeder, or what its kind says of it is refused; with
                `stage`.
        """
        if not is_stage(stage):
            raise DefinitionError(f"{stage!r} is not a stage; give a Source or a Producer")
        self._check_name(stage.name)
        for feeder in chain.from_iterable(stage.inputs):
            self._feeder(feeder, stage=stage.name)
        check_stage(stage)
        check_stored(stage)
        self._stages.append(stage)
        stage.home.be(self._expect)
        return stage

    def _add_by_tasks(
        self,
        name: str,
        kind: Partitioned,
        schema: RowSchema,
        revision: str | None = None,
        *,
        stored: Stored,
    ) -> Producer:
        from deltaproduce.stages.partitioned.kind import digests_for

        feeders = [self._feeder_named(feeder, stage=name) for feeder in kind.feeders]
        inputs = tuple((feeder,) for feeder in feeders)
        hidden, files = digests_for(feeders), stored_as(stored, stage=name)
        return self.add(
            Producer(name, inputs, schema, kind, revision, hidden_inputs=hidden, stored=files)
        )

    def _by_tasks(
        self,
        name: str,
        query: str,
        key: str | None,
        clauses: tuple[str, str | None, str],
        *,
        function: ForeignFunction | None = None,
        schema: str | None = None,
    ) -> Partitioned:
        """The kind of a stage whose partitions tasks make; see `partitioned` and `foreign`."""
        from deltaproduce.stages.partitioned.kind import PartitionClauses, partitioned
        from deltaproduce.stages.sql.keys import key_columns

        self._check_name(name)
        partition, scopes, retention = clauses
        for text, what in ((query, "query"), (partition, "partition"), (retention, "retention")):
            check_text(text, f"its {what}", stage=name)
        for given, what in ((key, "key"), (scopes, "scopes")):
            if given is not None:
                check_text(given, f"its {what}", stage=name)
        return partitioned(
            query,
            [stage for stage in self._stages if not stage.kind.intake.all_columns],
            PartitionClauses(*clauses),
            key=lambda names: {} if key is None else key_columns(key, names, stage=name),
            stage=name,
            function=function,
            schema=schema,
        )

    def _check_name(self, name: str, what: str = "stage") -> None:
        fault = name_fault(name)
        if fault:
            raise DefinitionError(f"a {what} is named {name!r}: {fault}", stage=name)
        named = (("stage", self._stages), ("check", self._checks))
        for sort, one in ((sort, one) for sort, every in named for one in every):
            if one.name.lower() == name.lower():
                both = f"two {sort}s" if sort == what else f"a {sort} and a {what}"
                advice = "; give name=" if sort == what == "check" else ""
                message = f"there are {both} {name!r} (case does not count); rename one{advice}"
                raise DefinitionError(message, stage=name)

    def _input(self, feeder: Stage | Merged | str, *, stage: str) -> tuple[Stage, ...]:
        merged = feeder.feeders if isinstance(feeder, Merged) else (feeder,)
        return tuple(self._feeder(one, stage=stage) for one in merged)

    def _feeder(self, feeder: Stage | str, *, stage: str) -> Stage:
        if isinstance(feeder, str):
            return self._feeder_named(feeder, stage=stage)
        if not is_stage(feeder):
            advice = "decorate it first" if callable(feeder) else "give a source or a producer"
            message = f"stage {stage!r}: its feeder {feeder!r} is not a stage; {advice}"
            raise DefinitionError(message, stage=stage)
        if not any(feeder is own for own in self._stages):
            message = (
                f"stage {stage!r}: its feeder {feeder.name!r} belongs to another pipeline; "
                f"define it in {self._name!r}"
            )
            raise DefinitionError(message, stage=stage)
        return feeder

    def _feeder_named(self, name: str, *, stage: str) -> Stage:
        for own in self._stages:
            if own.name == name:
                return own
        if name == stage:
            message = f"stage {stage!r} reads itself, which is a cycle; give it another feeder"
        else:
            message = (
                f"stage {stage!r}: there is no feeder {name!r} yet; define a feeder before the "
                f"stage that reads it; {meant(name, (own.name for own in self._stages))}"
            )
        raise DefinitionError(message, stage=stage)
