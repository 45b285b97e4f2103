"""Groupings: what an aggregate stage computes, fully typed.

Pure: turns the calls of a definition and the types of its feeder into columns, measures and
results. The invariant: the columns of the stage, including its states, follow from the definition
and the feeder's columns alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Final, TypeVar

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.states.agg import AggregateCall
from deltaproduce.stages.sql.states.functions.catalogue import answered, planned
from deltaproduce.stages.sql.states.functions.ordered import decider, deciding
from deltaproduce.stages.sql.states.functions.partials import NO_PARTIALS, Partial, Partials
from deltaproduce.stages.sql.states.functions.plans import Planned
from deltaproduce.stages.sql.states.measures import Measure, Rows
from deltaproduce.types.columns import Column, Columns
from deltaproduce.types.data_types import DataType

_STATE_PREFIX: Final = "_state_"
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Result:
    """One value of a stage.

    Attributes:
        name: the name of the value column.
        function: computes it.
        states: the positions of its measures among those of the stage.
    """

    name: str
    function: Planned
    states: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grouping:
    """The computation of a stage.

    Attributes:
        arguments: the expressions that its functions are called with, each once, and the states of
            feeders that it merges.
        measures: the states kept of each group, each once; the row count comes first.
        results: its values, in order.
        deciders: what decided on values, for stages that merge these; readers do not see it.
    """

    arguments: tuple[str, ...]
    measures: tuple[Measure, ...]
    results: tuple[Result, ...]
    deciders: tuple[Result, ...] = ()

    @staticmethod
    def of(
        values: Mapping[str, AggregateCall],
        types: Mapping[str, DataType],
        partials: Partials = NO_PARTIALS,
        *,
        stage: str,
    ) -> Grouping:
        """Plan how values are computed.

        Args:
            values: the names of the value columns -> their definitions.
            types: the types of the expressions in the calls.
            partials: the feeders' values that are merged.

        Raises:
            DefinitionError: a function does not accept an argument; with `stage` and `column`.
        """
        computed = [call for call in values.values() if not call.merges]
        arguments = _once(argument for call in computed for argument in call.arguments)
        place_of = {argument: place for place, argument in enumerate(arguments)}
        plans = dict[str, Planned]()
        for name, call in values.items():
            if call.merges:
                plans[name] = partials.planned(call.arguments[0], len(arguments))
                continue
            places = [place_of[argument] for argument in call.arguments]
            try:
                plans[name] = planned(call, places, [types[a] for a in call.arguments])
            except DefinitionError as error:
                message = f"stage {stage!r}, value {name!r}: {error}"
                raise DefinitionError(message, stage=stage, column=name) from None
        measures = _once([Rows(), *(m for each in plans.values() for m in each.measures)])
        kept_at = {measure: place for place, measure in enumerate(measures)}

        def results(named_plans: Iterable[tuple[str, Planned]]) -> tuple[Result, ...]:
            return tuple(
                Result(name, each, tuple(kept_at[m] for m in each.measures))
                for name, each in named_plans
            )

        read = (column.name for column in partials.read)
        arguments = (*arguments, *read)
        return Grouping(arguments, measures, results(plans.items()), results(_deciders(plans)))

    @property
    def answers(self) -> tuple[Result, ...]:
        """Its values, and what decided on them."""
        return (*self.results, *self.deciders)

    @property
    def subtracts(self) -> bool:
        """Whether removed rows can be subtracted from everything that it keeps."""
        return all(measure.subtracts for measure in self.measures)

    @property
    def calls(self) -> bool:
        """Whether it calls user functions."""
        return any(result.function.calls for result in self.results)

    def on_clock(self, zone: tzinfo) -> Grouping:
        """Return the same grouping for timestamps on this clock, as user functions get them."""
        return replace(
            self,
            measures=tuple(measure.on_clock(zone) for measure in self.measures),
            results=tuple(replace(r, function=r.function.on_clock(zone)) for r in self.results),
        )

    @property
    def named(self) -> tuple[tuple[Measure, str], ...]:
        """The measures, each with the first value that it is kept for."""
        names = {place: r.name for r in reversed(self.results) for place in r.states}
        default = self.results[0].name
        return tuple((m, names.get(place, default)) for place, m in enumerate(self.measures))

    def partial(self, place: int) -> Partial:
        """Return one of the values, for a stage that merges it."""
        result = self.results[place]
        return Partial(result.function, tuple(self.states.columns[n] for n in result.states))

    @property
    def value(self) -> Columns:
        """The value columns."""
        return Columns(tuple(Column(r.name, r.function.data_type) for r in self.results))

    @property
    def states(self) -> Columns:
        """The columns of the measures, by position."""
        return Columns(
            tuple(Column(f"{_STATE_PREFIX}{n}", m.data_type) for n, m in enumerate(self.measures))
        )

    @property
    def kept(self) -> Columns:
        """The columns that readers do not see: those of the measures, and of the deciders."""
        beside = (Column(r.name, r.function.data_type) for r in self.deciders)
        return Columns((*self.states, *beside))


def _deciders(plans: Mapping[str, Planned]) -> Iterator[tuple[str, Planned]]:
    for place, planned_value in enumerate(plans.values()):
        of_value = planned_value.ordered and deciding(planned_value.ordered)
        if of_value:
            yield decider(place), answered(of_value)


def _once(items: Iterable[_Item]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys(items))
