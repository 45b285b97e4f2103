"""Stages: the sources and producers of a pipeline, and the graph that they form.

Invariant: in a graph a stage's feeders come before it, so there are no cycles, and the order of
definition is topological.
"""

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, SupportsIndex, TypeAlias, TypeGuard

from deltaproduce.errors import DefinitionError, NotFoundError
from deltaproduce.model.checks.definitions import Check
from deltaproduce.model.checks.expecting import Expecting, Home
from deltaproduce.model.hidden import Hidden
from deltaproduce.model.kind import Kind
from deltaproduce.shown.tabular import Word, one_line
from deltaproduce.types.columns import Columns, RowSchema
from deltaproduce.types.excerpts import meant, shown
from deltaproduce.types.stored_as import StoredAs


@dataclass(frozen=True, slots=True)
class Source(Expecting):
    """A root of the graph: its rows come from outside of the pipeline.

    Attributes:
        stored: how files store its content; None if plainly, by its key.
        hidden: what it is for if it is hidden; None if a user defines it.
        home: the pipeline that it is in.
    """

    name: str
    schema: RowSchema
    kind: Kind
    stored: StoredAs | None = None
    hidden: Hidden | None = None
    home: Home = field(default_factory=Home, compare=False, repr=False)

    def __repr__(self) -> str:
        return one_line(self, self.name, key=self.schema.key.label, table=self.table)

    @property
    def owner(self) -> str:
        """The stage that messages about it name: its own name, or its first owner."""
        return self.name if self.hidden is None else self.hidden.owners[0]

    @property
    def table(self) -> str | None:
        """The path or name of its Delta table; None if the user gives its rows."""
        return self.kind.intake.table

    @property
    def inputs(self) -> tuple[tuple["Stage", ...], ...]:
        """Nothing feeds a source: always empty."""
        return ()

    @property
    def merged(self) -> tuple["Stage", ...]:
        """It has no inputs: always empty."""
        return ()

    @property
    def hidden_inputs(self) -> tuple["HiddenInput", ...]:
        """It reads nothing: always empty."""
        return ()

    @property
    def feeders(self) -> tuple["Stage", ...]:
        """Nothing feeds a source: always empty."""
        return ()

    def fed_by(self, stages: Mapping[str, "Stage"]) -> "Source":
        """Return the source itself: nothing feeds it."""
        del stages
        return self

    @property
    def source_key(self) -> Columns:
        """Its rows come from no other stage's keys: always empty."""
        return Columns(())

    def with_columns(self, schema: RowSchema, source_key: Columns) -> "Source":
        """Return the source with other columns."""
        del source_key
        return replace(self, schema=schema)


@dataclass(frozen=True, slots=True)
class HiddenInput:
    """A hidden stage that another stage reads.

    Attributes:
        role: what it is to the stage that reads it; unique among that stage's inputs. The stage's
            kind finds it by that.
    """

    role: str
    stage: "Stage"


@dataclass(frozen=True)
class Producer(Expecting):
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
        hidden_inputs: hidden stages that it reads besides its inputs. They may read hidden stages,
            too, and other stages may read them.
        stored: as for a `Source`.
        hidden: as for a `Source`.
        home: as for a `Source`.
    """

    name: str
    inputs: tuple[tuple["Stage", ...], ...]
    schema: RowSchema
    kind: Kind
    revision: str | None = None
    had_source_key: Columns | None = None
    hidden_inputs: tuple[HiddenInput, ...] = ()
    stored: StoredAs | None = None
    hidden: Hidden | None = None
    home: Home = field(default_factory=Home, compare=False, repr=False)

    def __repr__(self) -> str:
        feeders = Word(", ".join(feeder.name for feeder in self.merged))
        return one_line(
            self, self.name, Word(self.kind.word), key=self.schema.key.label, reads=feeders
        )

    @property
    def owner(self) -> str:
        """The stage that messages about it name: its own name, or its first owner."""
        return self.name if self.hidden is None else self.hidden.owners[0]

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
        return self.kind.definition.called

    @property
    def feeders(self) -> tuple["Stage", ...]:
        """The stages that it reads, in order; its `hidden_inputs` come last."""
        return (*self.merged, *(one.stage for one in self.hidden_inputs))

    @property
    def merged(self) -> tuple["Stage", ...]:
        """The stages of its inputs, in order."""
        return tuple(chain.from_iterable(self.inputs))

    def fed_by(self, stages: Mapping[str, "Stage"]) -> "Producer":
        """Return the stage with the stages of the same names as feeders; itself if it has them.

        Args:
            stages: name -> stage, for all its feeders.
        """
        if all(stages[one.name] is one for one in self.feeders):
            return self
        inputs = tuple(tuple(stages[one.name] for one in merged) for merged in self.inputs)
        hidden = tuple(HiddenInput(one.role, stages[one.stage.name]) for one in self.hidden_inputs)
        return replace(self, inputs=inputs, hidden_inputs=hidden)

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


def with_hidden(stage: Stage) -> Iterator[Stage]:
    """Yield the hidden stages below a stage, feeders first, and then the stage itself."""
    for feeder in stage.feeders:
        if feeder.hidden is not None:
            yield from with_hidden(feeder)
    yield stage


def read_by(stage: Stage) -> tuple[Stage, ...]:
    """Return the stages of users that a stage reads, itself or through hidden ones, each once."""
    reads = dict[str, Stage]()
    for feeder in stage.feeders:
        through = (feeder,) if feeder.hidden is None else read_by(feeder)
        reads |= {one.name: one for one in through}
    return tuple(reads.values())


def is_stage(value: object) -> TypeGuard[Stage]:
    """Return whether a value is a stage of a pipeline."""
    return isinstance(value, Source | Producer)


@dataclass(frozen=True, slots=True)
class Graph:
    """The sources and producers of a pipeline, feeders first.

    Attributes:
        checks: what its versions must fulfil, in order of definition.

    Raises:
        DefinitionError: a feeder does not come before the stage that reads it; with `stage`.
    """

    stages: tuple[Stage, ...]
    checks: tuple[Check, ...] = ()

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

    @staticmethod
    def joined(stages: Iterable[Stage], checks: Iterable[Check] = ()) -> "Graph":
        """Return the graph of stages, each once: a hidden stage that comes again gets more owners.

        Args:
            stages: feeders first.
            checks: what its versions must fulfil.

        Raises:
            DefinitionError: a hidden stage comes again with another definition; with `stage`.
        """
        stages, by_name = tuple(stages), dict[str, Stage]()
        owned = _owned(stages)
        for stage in stages:
            one = stage.fed_by(by_name)
            if one.hidden != owned.get(one.name):
                one = replace(one, hidden=owned[one.name])
            if by_name.setdefault(one.name, one) != one:
                message = (
                    f"stages {', '.join(map(repr, owned[one.name].owners))} read a hidden stage "
                    f"{one.name!r}, and not all define it in the same way: let some of them define "
                    "one of another name"
                )
                raise DefinitionError(message, stage=stage.owner)
        return Graph(tuple(by_name.values()), tuple(checks))

    @property
    def shown(self) -> tuple[Stage, ...]:
        """The stages that users define, in order."""
        return tuple(stage for stage in self.stages if stage.hidden is None)

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
        known = (stage.name for stage in self.shown)
        raise NotFoundError(f"there is no stage {shown(name)}; {meant(name, known)}")

    def readers_of(self, name: str) -> tuple[Producer, ...]:
        """Return the producers that `name` feeds, in topological order.

        Raises:
            NotFoundError: there is no such stage.
        """
        feeder = self.stage(name)
        return tuple(producer for producer in self.producers if feeder in producer.feeders)

    def upstream_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names of all stages of users that `names` read, and their own, feeders first.

        Raises:
            NotFoundError: there is no such stage.
        """
        reached = {self.stage(name).name for name in names}
        for stage in reversed(self.stages):
            if stage.name in reached:
                reached |= {one.name for one in read_by(stage)}
        return tuple(stage.name for stage in self.shown if stage.name in reached)

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


def _owned(stages: Iterable[Stage]) -> dict[str, Hidden]:
    """Return hidden stages by name, with all their owners."""
    by_name = dict[str, Hidden]()
    for stage in stages:
        if stage.hidden is not None:
            by_name[stage.name] = by_name.get(stage.name, stage.hidden).shared_with(stage.hidden)
    return by_name
