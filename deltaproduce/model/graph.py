"""Stages: the sources and producers of a pipeline, and the graph that they form.

Invariant: in a graph a stage's feeders come before it, so there are no cycles, and the order of
definition is topological.
"""

import operator
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, SupportsIndex, TypeAlias, TypeGuard

from deltaproduce.errors import DefinitionError, NotFoundError
from deltaproduce.model.kind import Kind
from deltaproduce.shown.tabular import Word, one_line
from deltaproduce.types.columns import Columns, RowSchema
from deltaproduce.types.excerpts import meant, shown
from deltaproduce.types.stored_as import StoredAs


@dataclass(frozen=True, slots=True)
class Source:
    """A root of the graph: its rows come from outside of the pipeline.

    Attributes:
        stored: how files store its content; None if plainly, by its key.
    """

    name: str
    schema: RowSchema
    kind: Kind
    stored: StoredAs | None = None

    def __repr__(self) -> str:
        return one_line(self, self.name, key=self.schema.key.told, table=self.table)

    @property
    def table(self) -> str | None:
        """The path or name of its Delta table; None if the user gives its rows."""
        return self.kind.place

    @property
    def inputs(self) -> tuple[tuple["Stage", ...], ...]:
        """Nothing feeds a source: always empty."""
        return ()

    @property
    def merged(self) -> tuple["Stage", ...]:
        """It has no inputs: always empty."""
        return ()

    @property
    def auxiliary(self) -> tuple["Stage", ...]:
        """It reads nothing: always empty."""
        return ()

    @property
    def feeders(self) -> tuple["Stage", ...]:
        """Nothing feeds a source: always empty."""
        return ()

    def fed_by(
        self, inputs: tuple[tuple["Stage", ...], ...], auxiliary: tuple["Stage", ...]
    ) -> "Source":
        """Return the source itself: nothing feeds it."""
        del inputs, auxiliary
        return self

    @property
    def source_key(self) -> Columns:
        """Its rows come from no other stage's keys: always empty."""
        return Columns(())

    def with_columns(self, schema: RowSchema, source_key: Columns) -> "Source":
        """Return the source with other columns."""
        del source_key
        return replace(self, schema=schema)


@dataclass(frozen=True)
class Producer:
    """A stage that is made from others: its kind, and the feeders that it reads.

    If it has a function, you can call the producer like it; it has the function's name, docstring
    and signature. For these it has a ``__dict__`` instead of slots. Like a function, it is pickled
    by reference if its module has it under the function's name.

    Attributes:
        inputs: for each sequence of values that it reads, its feeders: one, or several merged ones,
            in order.
        revision: if given, stands for what makes its rows when definitions are compared.
        had_source_key: for a stage as recorded by a version, its source key then; None for one as
            it is defined.
        auxiliary: stages that its definition adds, which it reads besides its inputs; users do not
            define them, and do not see them.
        stored: as for a `Source`.
    """

    name: str
    inputs: tuple[tuple["Stage", ...], ...]
    schema: RowSchema
    kind: Kind
    revision: str | None = None
    had_source_key: Columns | None = None
    auxiliary: tuple["Stage", ...] = ()
    stored: StoredAs | None = None

    def __repr__(self) -> str:
        feeders = Word(", ".join(feeder.name for feeder in self.merged))
        return one_line(
            self, self.name, Word(self.kind.word), key=self.schema.key.told, reads=feeders
        )

    @property
    def source_key(self) -> Columns:
        """The columns, as its feeders name them, of the source key of each of its rows.

        Empty if a row may come from several source keys.
        """
        if self.had_source_key is not None:
            return self.had_source_key
        maps = "key_mappings" in self.kind.tables
        return self.feeders[0].schema.key if maps and self.feeders else Columns(())

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function that it calls; None if there is none."""
        return self.kind.called

    @property
    def feeders(self) -> tuple["Stage", ...]:
        """The stages that it reads, in order; those that its definition adds come last."""
        return (*self.merged, *self.auxiliary)

    @property
    def merged(self) -> tuple["Stage", ...]:
        """The stages of its inputs, in order."""
        return tuple(chain.from_iterable(self.inputs))

    def fed_by(
        self, inputs: tuple[tuple["Stage", ...], ...], auxiliary: tuple["Stage", ...]
    ) -> "Producer":
        """Return the stage with other inputs and auxiliary stages; itself if they are its own."""
        own, others = self.feeders, (*chain.from_iterable(inputs), *auxiliary)
        if len(own) == len(others) and all(map(operator.is_, own, others)):
            return self
        return replace(self, inputs=inputs, auxiliary=auxiliary)

    def with_columns(self, schema: RowSchema, source_key: Columns) -> "Producer":
        """Return the stage with other columns, and another source key."""
        return replace(self, schema=schema, had_source_key=source_key)

    def __post_init__(self) -> None:
        if self.function is None:
            return
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(self.function, attribute):
                self.__dict__[attribute] = getattr(self.function, attribute)
        self.__dict__["__wrapped__"] = self.function

    def __call__(self, *args: object, **kwargs: object) -> Any:  # noqa: ANN401 as the function says
        """Call the function itself: no pipeline and no Spark take part.

        Raises:
            TypeError: it has none.
        """
        if self.function is None:
            message = f"stage {self.name!r} is of kind {self.kind.word!r}: it has no function"
            raise TypeError(message)
        return self.function(*args, **kwargs)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        if self._is_global():
            return str(self.__dict__["__qualname__"])
        return super().__reduce_ex__(protocol)

    def _is_global(self) -> bool:
        """Return whether importing the function's module gives this very producer.

        In ``__main__`` it does not: another process has another ``__main__``, so the function must
        travel.
        """
        module = self.__dict__.get("__module__")
        qualified_name = self.__dict__.get("__qualname__")
        if module == "__main__" or module not in sys.modules or qualified_name is None:
            return False
        try:
            return operator.attrgetter(qualified_name)(sys.modules[module]) is self
        except AttributeError:
            return False


Stage: TypeAlias = Source | Producer

_AUXILIARY: Final = re.compile(r"_(sorted|tasks)_\d+_")


def auxiliary_name(stage: str, number: int) -> str:
    """Return the name of a stage that another stage's definition adds; no user's stage has it."""
    return f"_sorted_{number}_{stage}"


def records_name(stage: str) -> str:
    """Return the name of the stage that keeps records of another stage's tasks."""
    return f"_tasks_1_{stage}"


def digests_name(stage: str) -> str:
    """Return the name of the stage that keeps digests of another stage's partitions."""
    return f"_tasks_2_{stage}"


def is_auxiliary(name: str) -> bool:
    """Return whether a name is one of `auxiliary_name`, `records_name` or `digests_name`."""
    return _AUXILIARY.match(name) is not None


def belongs_to(name: str) -> str:
    """Return the name of the stage whose definition adds a stage; its own name if none does."""
    return _AUXILIARY.sub("", name, count=1)


def is_stage(value: object) -> TypeGuard[Stage]:
    """Return whether a value is a stage of a pipeline."""
    return isinstance(value, Source | Producer)


@dataclass(frozen=True, slots=True)
class Graph:
    """The sources and producers of a pipeline, feeders first.

    Raises:
        DefinitionError: a feeder does not come before the stage that reads it; with `stage`.
    """

    stages: tuple[Stage, ...]

    def __repr__(self) -> str:
        return one_line(self, Word(", ".join(stage.name for stage in self.stages)))

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
        """Return the source or producer of that name.

        Raises:
            NotFoundError: there is none.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        known = (stage.name for stage in self.stages if not is_auxiliary(stage.name))
        raise NotFoundError(f"there is no stage {shown(name)}; {meant(name, known)}")

    def readers_of(self, name: str) -> tuple[Producer, ...]:
        """Return the producers that `name` feeds, in topological order.

        Raises:
            NotFoundError: there is no such stage.
        """
        feeder = self.stage(name)
        return tuple(producer for producer in self.producers if feeder in producer.feeders)

    def downstream_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names of all producers that read any of `names`, directly or through others.

        They are in topological order. A stage of `names` is only among them if it reads another
        one.

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
