"""Partials: values of aggregate stages that another stage merges, from the states kept of them.

States are columns of a feeder's content, and are read like its other columns. The merging stage
adds them up, and finishes as the feeder does. The invariant: feeders that are read as one keep a
value by the same measures, so their states add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.states.functions.plans import Planned
from deltaproduce.stages.sql.states.measures import MergedMeasure
from deltaproduce.types.columns import Column

_READ_PREFIX: Final = "_merged_"


class Partial(NamedTuple):
    """A value of a stage that another merges.

    Attributes:
        function: computes the value.
        columns: the columns of the stage that hold its states.
    """

    function: Planned
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Partials:
    """The values that a stage merges.

    Attributes:
        functions: the function of each, by the first feeder's name for it.
        states: which of `columns` hold their states.
        columns: the columns that are read, with each feeder's name for them.
    """

    functions: Mapping[str, Planned]
    states: Mapping[str, tuple[int, ...]]
    columns: tuple[tuple[Column, ...], ...]

    @staticmethod
    def of(by_column: Mapping[str, Sequence[Partial]]) -> Partials:
        """Return how values are merged.

        Args:
            by_column: by the first feeder's name for each, the value in each of the feeders.

        Raises:
            DefinitionError: the states of a value do not add up; with `column`.
        """
        for name, partials in by_column.items():
            _check(name, partials)
        read = {
            name: list(zip(*(partial.columns for partial in partials), strict=True))
            for name, partials in by_column.items()
        }
        columns = list(dict.fromkeys(one for of_value in read.values() for one in of_value))
        return Partials(
            {name: partials[0].function for name, partials in by_column.items()},
            {name: tuple(map(columns.index, of_value)) for name, of_value in read.items()},
            tuple(columns),
        )

    @property
    def read(self) -> tuple[Column, ...]:
        """The names of the columns where they are read."""
        return tuple(
            Column(f"{_READ_PREFIX}{n}", of_feeders[0].data_type)
            for n, of_feeders in enumerate(self.columns)
        )

    def of_feeder(self, number: int) -> tuple[Column, ...]:
        """Return the same columns by a feeder's names."""
        return tuple(of_feeders[number] for of_feeders in self.columns)

    def planned(self, name: str, before: int) -> Planned:
        """Return how a value is merged.

        Args:
            before: the number of the stage's arguments before the columns that are read.
        """
        function = self.functions[name]
        places = (before + place for place in self.states[name])
        measures = map(MergedMeasure.of, function.measures, places)
        return replace(function, measures=tuple(measures))


NO_PARTIALS: Final = Partials(MappingProxyType({}), MappingProxyType({}), ())
"""For a stage that merges nothing."""


def _check(name: str, partials: Sequence[Partial]) -> None:
    first = partials[0].function
    for other, _ in partials[1:]:
        if _kept(other) != _kept(first):
            message = (
                f"agg.merge({name!r}) is {first.name} in one feeder and {other.name} in another, "
                "and their states do not add up; use one function of one type, with the same "
                "arguments"
            )
            raise DefinitionError(message, column=name)


def _kept(function: Planned) -> object:
    """Return a key of a function's states: equal if they add up."""
    measures = tuple(MergedMeasure.of(measure, 0) for measure in function.measures)
    return function.name, function.parameters, function.data_type, measures
