"""The definition of a pipeline: a graph of sources and stages, with a function for each stage.

`Pipeline` collects the definitions in the order in which they are written; `Graph` is what the rest
of the library works on.

Invariant: a stage's feeders are defined before it, in the same pipeline, so a graph has no cycles
and its order of definition is a topological one. Every stage has a name that a path and a catalog
can hold, and a schema that Delta can store.

It stands apart, and imports no Spark, so that a pipeline is defined, imported and tested without a
session, and plans can be made from it alone.
"""

import inspect
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Literal, SupportsIndex, TypeAlias

from deltaproduce.errors import DefinitionError, NotFoundError
from deltaproduce.queries import Query, key_columns, key_local
from deltaproduce.schemas import (
    Columns,
    RowSchema,
    SchemaLike,
    existing_schema,
    row_schema,
    unknown_schema,
)

ProduceFunction: TypeAlias = Callable[..., Iterable[Any]]
PreserveFunction: TypeAlias = Callable[[Any, Any], Any]

ArrowFunction: TypeAlias = Callable[[Any], Any]
"""From a pyarrow Table to one, or from an iterator of RecordBatches to one of Tables or batches."""

Form: TypeAlias = Literal["rows", "arrow", "arrow_stream", "sql"]
"""How a stage's function is called.

``rows``: for each key, with the key and its values. ``arrow``: with a table of many whole keys.
``arrow_stream``: for each key, with an iterator over batches of its rows. ``sql``: not at all, it
is a query.
"""


@dataclass(frozen=True, slots=True)
class Source:
    """A root of the graph: rows that the user gives, or those of a Delta table that exists.

    Attributes:
        table: the path or name of the Delta table that it is; None if the user gives its rows.
        whole: all other columns of that table are its value, whatever they are.
    """

    name: str
    schema: RowSchema
    table: str | None = None
    whole: bool = False

    @property
    def is_in_place(self) -> bool:
        """Whether its rows are in a Delta table of someone else."""
        return self.table is not None

    @property
    def feeders(self) -> tuple["Stage", ...]:
        """Nothing feeds a source: always empty."""
        return ()


@dataclass(frozen=True)
class Producer:
    """A stage: a produce function, and the feeders whose keys it is called for.

    It can be called like the function it decorates, whose name, docstring and signature it shows.
    For these it has a ``__dict__`` in place of slots. Like a function, it is pickled by reference
    if its module holds it under the function's name.

    Attributes:
        form: how the function is called.
        inputs: for each iterator over values that the function gets, the feeders that they come
            from: one, or several that are merged, in order.
        surrogate: the value column that the library fills with the target key's number.
        preserve: makes the stored value from an emitted one and one that the key had.
        revision: stands for the function where a change of it is to be noticed.
    """

    name: str
    inputs: tuple[tuple["Stage", ...], ...]
    schema: RowSchema
    function: ProduceFunction | ArrowFunction | Query
    form: Form = "rows"
    surrogate: str | None = None
    preserve: PreserveFunction | None = None
    revision: str | None = None

    @property
    def callable(self) -> Callable[..., Any]:
        """Its function.

        Raises:
            TypeError: it is a query.
        """
        if isinstance(self.function, Query):
            raise TypeError(f"stage {self.name!r} is a query: there is no function to call")
        return self.function

    @property
    def query(self) -> Query | None:
        """What it is in place of a function, if it is one in SQL."""
        return self.function if isinstance(self.function, Query) else None

    @property
    def feeders(self) -> tuple["Stage", ...]:
        """What it reads, in order."""
        return tuple(chain.from_iterable(self.inputs))

    def __post_init__(self) -> None:
        if self.query is not None:
            return
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(self.function, attribute):
                self.__dict__[attribute] = getattr(self.function, attribute)
        self.__dict__["__wrapped__"] = self.function

    def __call__(self, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 as the function says
        """Calls the function itself: no pipeline and no Spark take part."""
        return self.callable(*args, **kwargs)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        if self._is_global():
            return str(self.__dict__["__qualname__"])
        return super().__reduce_ex__(protocol)

    def _is_global(self) -> bool:
        """Says whether importing the function's module gives this very producer.

        Not so in ``__main__``: another process has another one, so the function must travel.
        """
        module = self.__dict__.get("__module__")
        qualified_name = self.__dict__.get("__qualname__")
        if module == "__main__" or module not in sys.modules or qualified_name is None:
            return False
        try:
            return attrgetter(qualified_name)(sys.modules[module]) is self
        except AttributeError:
            return False


Stage: TypeAlias = Source | Producer


@dataclass(frozen=True, slots=True)
class Merged:
    """Several feeders that a function reads as one; made by `merge`."""

    feeders: tuple[Stage | str, ...]


def merge(*feeders: Stage | str) -> Merged:
    """Lets a function read several feeders as one.

    For each key that any of them has, the function gets one sequence: the values of the first, then
    those of the second, and so on. They have the same key and value types, by position; the names
    are those of the first.

    Args:
        *feeders: sources or producers of one pipeline, or their names.

    Example:
        >>> shop = Pipeline("shop")
        >>> web = shop.source("web", key="customer_id bigint", value="amount bigint")
        >>> till = shop.source("till", key="customer_id bigint", value="amount bigint")
        >>> @shop.producer(merge(web, till), key="customer_id bigint", value="total bigint")
        ... def totals(customer_id, amounts):
        ...     yield customer_id, sum(amounts)
    """
    return Merged(feeders)


@dataclass(frozen=True, slots=True)
class Graph:
    """The sources and producers of a pipeline, feeders first.

    Raises:
        DefinitionError: a feeder does not come before the stage that reads it; with `stage`.
    """

    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        for position, stage in enumerate(self.stages):
            for feeder in stage.feeders:
                if feeder not in self.stages[:position]:
                    message = (
                        f"stage {stage.name!r} reads {feeder.name!r}, which does not come before "
                        "it: put feeders first, without a cycle"
                    )
                    raise DefinitionError(message, stage=stage.name)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources, in order."""
        return tuple(stage for stage in self.stages if isinstance(stage, Source))

    @property
    def producers(self) -> tuple[Producer, ...]:
        """The producers, in topological order."""
        return tuple(stage for stage in self.stages if isinstance(stage, Producer))

    def stage(self, name: str) -> Stage:
        """Returns the source or producer of that name.

        Raises:
            NotFoundError: there is none.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        known = ", ".join(repr(stage.name) for stage in self.stages) or "none"
        raise NotFoundError(f"there is no stage {name!r}; the stages are: {known}")

    def readers_of(self, name: str) -> tuple[Producer, ...]:
        """Returns the producers that `name` feeds, in topological order.

        Raises:
            NotFoundError: there is no such stage.
        """
        feeder = self.stage(name)
        return tuple(producer for producer in self.producers if feeder in producer.feeders)

    def downstream_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Returns the names of all producers that read any of `names`, directly or through others.

        In topological order. Those of `names` are only among them if they read another one.

        Raises:
            NotFoundError: there is no such stage.
        """
        reached = [self.stage(name) for name in names]
        downstream = []
        for producer in self.producers:
            if any(feeder in reached for feeder in producer.feeders):
                reached.append(producer)
                downstream.append(producer.name)
        return tuple(downstream)


class Pipeline:
    """A named set of sources and stages, extended by one definition after the other.

    Example:
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
        if not isinstance(name, str) or not name.strip():
            raise DefinitionError(f"a pipeline is named {name!r}; give it a name")
        self._name = name
        self._stages: list[Stage] = []

    def __repr__(self) -> str:
        return f"Pipeline({self._name!r})"

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self._name

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The sources and producers, in order of definition."""
        return tuple(self._stages)

    def graph(self) -> Graph:
        """Returns what is defined so far; later definitions do not change it."""
        return Graph(self.stages)

    def source(self, name: str, *, key: SchemaLike, value: SchemaLike) -> Source:
        """Defines a source: rows that are given by `Store.update` or `Store.load`.

        Args:
            name: its name, unique in the pipeline without regard to case.
            key: the key columns, as DDL or StructType; ``desc`` sorts a column descending.
            value: the value columns, as DDL or StructType.

        Raises:
            DefinitionError: the name, or a column, is refused; with `stage` and `column`.
        """
        self._check_name(name)
        source = Source(name, row_schema(key, value, stage=name))
        self._stages.append(source)
        return source

    def delta_source(
        self, name: str, *, table: str, key: SchemaLike, value: SchemaLike | None = None
    ) -> Source:
        """Defines a source that is a Delta table which exists, and is written by someone else.

        It is read in place, and nothing of it is copied. Each `Store.update` takes what is new in
        it: from its change data feed, if that is on, otherwise from the files that were added and
        removed. The delta version that a version has read is in the version log. Rows of a key are
        in the order of their values.

        Args:
            name: its name, unique in the pipeline without regard to case.
            table: where it is: a path (with a ``/`` or a scheme), or a name in a catalog.
            key: the columns that say which rows belong together: their names, as ``"a, b desc"``,
                or DDL or a StructType, which are then checked. A key may have many rows.
            value: the columns that functions get: their names, DDL, or a StructType; all others
                of the table if None. A query (`sql`) can read the source only if they are named.

        Raises:
            DefinitionError: the name, or a column, is refused; with `stage` and `column`. What the
                table lacks is found when a store is opened.
        """
        self._check_name(name)
        if not isinstance(table, str) or not table.strip():
            message = f"source {name!r}: its table is {table!r}; give a path or a name"
            raise DefinitionError(message, stage=name)
        schema = existing_schema(key, value, stage=name)
        source = Source(name, schema, table, whole=value is None)
        self._stages.append(source)
        return source

    def producer(
        self,
        *feeders: Stage | Merged | str,
        key: SchemaLike,
        value: SchemaLike,
        name: str | None = None,
        surrogate: str | None = None,
        preserve: PreserveFunction | None = None,
        revision: str | None = None,
    ) -> Callable[[ProduceFunction], Producer]:
        """Returns a decorator that makes a stage of ``function(key, values)``.

        The function is called for every key that the feeder has, with an iterator over its values,
        and yields (target key, value) pairs of the stage.

        With several feeders it is a join: ``function(key, values_of_a, values_of_b, …)`` is called
        for every key that any of them has, with an empty iterator for a feeder without it. The
        values stream by in the order of the feeders: to read those of a later one first holds the
        key's values of those before it in memory.

        Args:
            *feeders: what it reads: a source or producer of this pipeline, or the name of one, or
                several made one by `merge`. All have the same key types and directions, by
                position; the columns of the source key are named after the first's.
            key: the target key columns, as DDL or StructType; ``desc`` sorts a column descending.
            value: the value columns, as DDL or StructType.
            name: the stage's name, if it is not the function's.
            surrogate: a value column of an integer type, which the function emits as None. The
                library fills it with a number for each target key: 1, 2, 3, … in key order for
                those that are new in a version. A key keeps its number as long as it has rows; no
                number is given out twice.
            preserve: ``preserve(value, example)``, called once for each emitted row, in key order,
                with another value of its target key or None; returns the value to be stored. The
                example is one that the key had before this version, if it had any, otherwise the
                first one stored in it. So a value may depend on what the key was first given.
            revision: a name for what the function does. The stage is produced again in full when it
                changes, and not when the function's text does.

        Raises:
            DefinitionError: when the decorator is applied, if the name, a feeder, a column or the
                function is refused; with `stage` and `column`.
        """

        def decorate(function: ProduceFunction) -> Producer:
            stage = _function_name(function) if name is None else name
            self._check_name(stage)
            inputs = tuple(self._input(feeder, stage=stage) for feeder in feeders)
            check_inputs(inputs, stage=stage)
            parameters = ("key", *["values"] * len(inputs))
            _check_function(function, "its function", parameters, stage=stage)
            schema = row_schema(key, value, stage=stage)
            _check_preserved(schema, surrogate, preserve, stage=stage)
            producer = Producer(
                stage, inputs, schema, function, "rows", surrogate, preserve, revision
            )
            self._stages.append(producer)
            return producer

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
    ) -> Callable[[ArrowFunction], Producer]:
        """Returns a decorator that makes a stage of a function from pyarrow Tables to Tables.

        The function is called with tables of whole keys: the feeder's key columns, then its value
        columns; a key's rows together and in order. A table has many keys, about 10,000 rows, and
        more only if one key alone has; which keys come together is chance. Timestamps are in the
        session's zone.

        It returns a Table or RecordBatch with the stage's key and value columns and, for each key
        column of the feeder, a column ``_source_<name>``: the key of the input that the row is made
        from, and with which it goes when that key changes. Columns are found by name; their types
        may differ from the declared ones where no value is lost. Rows may come in any order; for
        one source key and target key, theirs is the order of emission.

        Args:
            feeder: what it reads: a source or producer of this pipeline, or the name of one, or
                several made one by `merge`.
            key: the target key columns, as DDL or StructType; ``desc`` sorts a column descending.
            value: the value columns, as DDL or StructType.
            name: the stage's name, if it is not the function's.
            streaming: call the function for each key, with an iterator over RecordBatches of that
                key's rows; it yields Tables or RecordBatches as above. So a key needs no more
                memory than one batch, but many small keys are slow.
            revision: as for `producer`.

        Raises:
            DefinitionError: when the decorator is applied, as `producer` does.
        """

        def decorate(function: ArrowFunction) -> Producer:
            stage = _function_name(function) if name is None else name
            self._check_name(stage)
            inputs = (self._input(feeder, stage=stage),)
            check_inputs(inputs, stage=stage)
            parameters = ("batches",) if streaming else ("table",)
            _check_function(function, "its function", parameters, stage=stage)
            schema = row_schema(key, value, stage=stage)
            form: Form = "arrow_stream" if streaming else "arrow"
            producer = Producer(stage, inputs, schema, function, form, revision=revision)
            self._stages.append(producer)
            return producer

        return decorate

    def sql(self, name: str, query: str, *, key: str) -> Producer:
        """Makes a stage of a query over other stages, which Spark runs without Python.

        The query names the stages that it reads as its tables, and must be *key-local*: each of its
        rows depends on rows of one source key only, so that it can be run for changed keys alone.
        Projections, filters, ``explode``, ``GROUP BY`` with the source key, windows partitioned by
        it, joins on it, and unions of such are. The page docs/sql.md says what else, and how to
        write what is not as two stages.

        Its columns' types are found when a store is opened. An ORDER BY at its end orders the rows
        that one source key gives to one target key; other rows are in the order of their values.

        Args:
            name: its name, unique in the pipeline without regard to case.
            query: one SELECT in Spark's SQL.
            key: the names of those of its columns that form the target key, as ``"a, b desc"``; the
                others form the value.

        Raises:
            DefinitionError: the name, the key, or the query is refused; with `stage`.
        """
        self._check_name(name)
        schemas = {stage.name: stage.schema for stage in self._stages if not _is_whole(stage)}
        found = key_local(query, schemas, stage=name)
        inputs = tuple((self._feeder_named(feeder, stage=name),) for feeder in found.feeders)
        check_inputs(inputs, stage=name)
        target = key_columns(key, found.names, stage=name)
        value = (column for column in found.names if column not in target)
        schema = unknown_schema(target, value)
        producer = Producer(name, inputs, schema, found, "sql")
        self._stages.append(producer)
        return producer

    def _check_name(self, name: str) -> None:
        fault = _name_fault(name)
        if fault:
            raise DefinitionError(f"a stage is named {name!r}: {fault}", stage=name)
        for stage in self._stages:
            if stage.name.lower() == name.lower():
                message = f"there are two stages {name!r} (case does not count); rename one"
                raise DefinitionError(message, stage=name)

    def _input(self, feeder: Stage | Merged | str, *, stage: str) -> tuple[Stage, ...]:
        merged = feeder.feeders if isinstance(feeder, Merged) else (feeder,)
        return tuple(self._feeder(one, stage=stage) for one in merged)

    def _feeder(self, feeder: Stage | str, *, stage: str) -> Stage:
        if isinstance(feeder, str):
            return self._feeder_named(feeder, stage=stage)
        if not isinstance(feeder, Source | Producer):
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
                "stage that reads it"
            )
        raise DefinitionError(message, stage=stage)


_MAX_NAME_LENGTH: Final = 100
# Unicode's control characters, lone surrogates, and line and paragraph separators.
_UNSTORABLE_CATEGORIES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def _name_fault(name: object) -> str | None:
    """Says what is wrong with a stage's name, which will be a directory or part of a table name."""
    if not isinstance(name, str):
        return "a name is a str"
    if not name.strip():
        return "it is empty; give it a name"
    if name.startswith("_"):
        return "names that begin with '_' are reserved; rename it"
    if name in {".", ".."}:
        return "that is a directory of its own meaning; rename it"
    if len(name) > _MAX_NAME_LENGTH:
        return f"it has {len(name)} characters; use at most {_MAX_NAME_LENGTH}"
    for character in name:
        if character == "/" or unicodedata.category(character) in _UNSTORABLE_CATEGORIES:
            return f"no path can hold {character!r}; rename it"
    return None


def _function_name(function: object) -> str:
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise DefinitionError(f"{function!r} has no name to give to its stage; pass name=")
    return name


def _check_function(function: object, what: str, parameters: Sequence[str], *, stage: str) -> None:
    if not callable(function):
        message = f"stage {stage!r}: {what} is {function!r}; give a function"
        raise DefinitionError(message, stage=stage)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some built-in functions do not tell theirs
    try:
        signature.bind(*parameters)
    except TypeError as error:
        message = (
            f"stage {stage!r}: the parameters of {what} are {str(signature)!r}, but it is called "
            f"with ({', '.join(parameters)}): {error}"
        )
        raise DefinitionError(message, stage=stage) from None


def _check_preserved(
    schema: RowSchema, surrogate: str | None, preserve: object, *, stage: str
) -> None:
    if surrogate is not None:
        found = next((c for c in schema.value if c.name == surrogate), None)
        if found is None:
            message = (
                f"stage {stage!r}: its surrogate {surrogate!r} is no value column; the value is "
                f"{schema.value.ddl!r}"
            )
            raise DefinitionError(message, stage=stage, column=surrogate)
        if found.data_type.simpleString() not in {"bigint", "int"}:
            message = f"stage {stage!r}: its surrogate is declared {found.ddl!r}; use bigint or int"
            raise DefinitionError(message, stage=stage, column=surrogate)
        if preserve is not None:
            message = f"stage {stage!r} has both surrogate= and preserve=; use one of them"
            raise DefinitionError(message, stage=stage)
    if preserve is not None:
        _check_function(preserve, "preserve", ("value", "example"), stage=stage)


def check_inputs(inputs: tuple[tuple[Stage, ...], ...], *, stage: str) -> None:
    """Checks that feeders have the same keys, and merged ones the same values.

    The types of queries' columns count when they are known.

    Raises:
        DefinitionError: they have not, or there are none, or one is there twice; with `stage`.
    """
    if not inputs or not all(inputs):
        message = f"stage {stage!r} has no feeder; give the source or stage that it reads"
        raise DefinitionError(message, stage=stage)
    feeders = tuple(chain.from_iterable(inputs))
    first = feeders[0]
    for position, feeder in enumerate(feeders):
        if any(feeder is earlier for earlier in feeders[:position]):
            message = f"stage {stage!r} reads {feeder.name!r} twice; name each feeder once"
            raise DefinitionError(message, stage=stage)
        if _differ(feeder.schema.key, first.schema.key):
            message = (
                f"stage {stage!r}: its feeders differ in their keys, {first.name!r} has "
                f"{first.schema.key.ddl!r} and {feeder.name!r} {feeder.schema.key.ddl!r}; use the "
                "same types and directions in the same order"
            )
            raise DefinitionError(message, stage=stage)
    for merged in inputs:
        for feeder in merged:
            unknown = any(_is_whole(one) and not one.schema.value.columns for one in merged)
            if not unknown and _differ(feeder.schema.value, merged[0].schema.value):
                message = (
                    f"stage {stage!r}: feeders that it merges differ in their values, "
                    f"{merged[0].name!r} has {merged[0].schema.value.ddl!r} and {feeder.name!r} "
                    f"{feeder.schema.value.ddl!r}; use the same types in the same order, or read "
                    "them apart, as a join"
                )
                raise DefinitionError(message, stage=stage)


def _is_whole(stage: Stage) -> bool:
    return isinstance(stage, Source) and stage.whole


def _differ(some: Columns, others: Columns) -> bool:
    """Whether columns have other types or directions, by position."""
    if len(some) != len(others):
        return True
    return any(
        (one.is_known and other.is_known and one.data_type != other.data_type)
        or one.descending != other.descending
        for one, other in zip(some, others, strict=True)
    )
