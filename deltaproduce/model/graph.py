"""Stages: the sources and producers of a pipeline, and the graph that they form.

Invariant: in a graph a stage's feeders come before it, so there are no cycles and the order of
definition is a topological one.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, SupportsIndex, TypeAlias

from deltaproduce.errors import DefinitionError, NotFoundError
from deltaproduce.stages.queries import Query
from deltaproduce.types.columns import RowSchema

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
