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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, SupportsIndex, TypeAlias

from deltaproduce.errors import DefinitionError, NotFoundError
from deltaproduce.schemas import RowSchema, SchemaLike, row_schema

ProduceFunction: TypeAlias = Callable[..., Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Source:
    """A root of the graph: rows that the user gives."""

    name: str
    schema: RowSchema

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
    """

    name: str
    feeders: tuple["Stage", ...]
    schema: RowSchema
    function: ProduceFunction

    def __post_init__(self) -> None:
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(self.function, attribute):
                self.__dict__[attribute] = getattr(self.function, attribute)
        self.__dict__["__wrapped__"] = self.function

    def __call__(self, *args: object, **kwargs: object) -> Iterable[Any]:
        """Calls the function itself: no pipeline and no Spark take part."""
        return self.function(*args, **kwargs)

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

    def producer(
        self, *feeders: Stage | str, key: SchemaLike, value: SchemaLike, name: str | None = None
    ) -> Callable[[ProduceFunction], Producer]:
        """Returns a decorator that makes a stage of ``function(key, values)``.

        The function is called for every key that the feeder has, with an iterator over its values,
        and yields (target key, value) pairs of the stage.

        Args:
            *feeders: what it reads: a source or producer of this pipeline, or the name of one.
            key: the target key columns, as DDL or StructType; ``desc`` sorts a column descending.
            value: the value columns, as DDL or StructType.
            name: the stage's name, if it is not the function's.

        Raises:
            DefinitionError: when the decorator is applied, if the name, a feeder, a column or the
                function is refused; with `stage` and `column`.
        """

        def decorate(function: ProduceFunction) -> Producer:
            stage = _function_name(function) if name is None else name
            self._check_name(stage)
            resolved = tuple(self._feeder(feeder, stage=stage) for feeder in feeders)
            _check_feeders(resolved, stage=stage)
            _check_function(function, feeders=resolved, stage=stage)
            schema = row_schema(key, value, stage=stage)
            _check_no_join(resolved, stage=stage)
            producer = Producer(stage, resolved, schema, function)
            self._stages.append(producer)
            return producer

        return decorate

    def _check_name(self, name: str) -> None:
        fault = _name_fault(name)
        if fault:
            raise DefinitionError(f"a stage is named {name!r}: {fault}", stage=name)
        for stage in self._stages:
            if stage.name.lower() == name.lower():
                message = f"there are two stages {name!r} (case does not count); rename one"
                raise DefinitionError(message, stage=name)

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


def _check_function(function: object, *, feeders: tuple[Stage, ...], stage: str) -> None:
    if not callable(function):
        message = f"stage {stage!r}: {function!r} is not a function; decorate one"
        raise DefinitionError(message, stage=stage)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some built-in functions do not tell theirs
    try:
        signature.bind(*[None] * (1 + len(feeders)))
    except TypeError as error:
        expected = ", ".join(["key", *(["values"] * len(feeders))])
        message = (
            f"stage {stage!r}: its function's parameters are {str(signature)!r}, but it is called "
            f"with ({expected}): {error}"
        )
        raise DefinitionError(message, stage=stage) from None


def _check_feeders(feeders: tuple[Stage, ...], *, stage: str) -> None:
    if not feeders:
        message = f"stage {stage!r} has no feeder; give the source or stage that it reads"
        raise DefinitionError(message, stage=stage)
    first = feeders[0]
    for position, feeder in enumerate(feeders):
        if any(feeder is earlier for earlier in feeders[:position]):
            message = f"stage {stage!r} reads {feeder.name!r} twice; name each feeder once"
            raise DefinitionError(message, stage=stage)
        if _key_order(feeder) != _key_order(first):
            message = (
                f"stage {stage!r}: its feeders differ in their keys, {first.name!r} has "
                f"{first.schema.key.ddl!r} and {feeder.name!r} {feeder.schema.key.ddl!r}; use the "
                "same types and directions in the same order"
            )
            raise DefinitionError(message, stage=stage)


def _key_order(stage: Stage) -> list[tuple[object, bool]]:
    return [(column.data_type, column.descending) for column in stage.schema.key]


def _check_no_join(feeders: tuple[Stage, ...], *, stage: str) -> None:
    """Refuses joins, which can be defined but not yet run; goes away when they can be."""
    if len(feeders) > 1:
        names = [feeder.name for feeder in feeders]
        message = f"stage {stage!r} has the feeders {names!r}: joins are not supported yet; use one"
        raise DefinitionError(message, stage=stage)
