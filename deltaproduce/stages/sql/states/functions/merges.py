"""Merges: which values of an aggregate stage another one can merge, and what computes them.

Pure. A function with a state is merged by its states (`functions.partials`). The end of a group is
that of the ends of its parts, so `min`, `max`, `min_by`, `max_by` and `top_k` are ordered functions
of the feeder's values. The invariant: a merged value is that of all rows of the merged groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.states.agg import AggregateCall
from deltaproduce.stages.sql.states.functions.ordered import decider, multiset_of, of_ends
from deltaproduce.types.columns import RowSchema


@dataclass(frozen=True, slots=True)
class MergedFeeder:
    """A stage whose values are merged.

    Attributes:
        schema: its columns.
        key: its key as text, with which a stage is defined.
        reads: the stage that it reads.
        functions: its values -> the functions that make them; None if it is no aggregate stage.
    """

    name: str
    schema: RowSchema
    key: str = ""
    reads: str = ""
    functions: Mapping[str, AggregateCall] | None = None


class Merge(NamedTuple):
    """A value that a stage merges.

    Attributes:
        value: the first feeder's name for it.
        origin: the function that makes it there.
        in_order: the function of the feeder's columns that merges it; None if its states are
            merged.
    """

    value: str
    origin: AggregateCall
    in_order: AggregateCall | None


def merge_of(
    call: AggregateCall, feeders: Sequence[MergedFeeder], *, stage: str, column: str
) -> Merge:
    """Return what ``agg.merge`` merges.

    Args:
        call: names a value of the first feeder, ignoring case.
        feeders: the stages that are read as one.
        column: the name of the merged value.

    Raises:
        DefinitionError: there is no such value, or it cannot be merged; with `stage` and `column`.
    """
    (given,) = call.arguments
    try:
        return _merged(given, feeders)
    except DefinitionError as error:
        message = f"stage {stage!r}, value {column!r}: agg.merge({given!r}) {error}"
        raise DefinitionError(message, stage=stage, column=column) from None


def _merged(given: str, feeders: Sequence[MergedFeeder]) -> Merge:
    origins: list[tuple[MergedFeeder, AggregateCall]] = []
    value = _named(given, feeders[0])
    place = feeders[0].schema.value.names.index(value)
    for feeder in feeders:
        if feeder.functions is None:
            raise DefinitionError(
                f"is of {feeder.name!r}, which is not an aggregate stage; use another function"
            )
        origins.append((feeder, feeder.functions[feeder.schema.value.names[place]]))
    first, origin = origins[0]
    if multiset_of(origin) is None:
        return Merge(value, origin, None)
    for other, later in origins:
        if (later.function, later.parameters) != (origin.function, origin.parameters):
            raise DefinitionError(
                f"is {origin.function} in {first.name!r} and {later.function} in {other.name!r}; "
                "use one function with the same arguments"
            )
    in_order = of_ends(origin, value, decider(place))
    if in_order is None:
        raise DefinitionError(_instead(first, origin))
    return Merge(value, origin, in_order)


def _named(given: str, feeder: MergedFeeder) -> str:
    """Return the value that is named: exactly, or else ignoring case and backticks."""
    names = feeder.schema.value.names
    bare = given.strip().removeprefix("`").removesuffix("`").replace("``", "`")
    for matches in (
        [n for n in names if n == given],
        [n for n in names if n.lower() == bare.lower()],
    ):
        if matches:
            return matches[0]
    raise DefinitionError(f"is not a value of {feeder.name!r}; its values are {', '.join(names)}")


def _instead(feeder: MergedFeeder, origin: AggregateCall) -> str:
    """Return why a function cannot be merged, and what to write instead."""
    (argument,) = origin.arguments
    text = f"is {origin.function}, which cannot be merged"
    if origin.function != "count_distinct":
        parameters = "".join(f", {one!r}" for one in origin.parameters)
        return (
            f"{text}: write agg.{origin.function}({argument!r}{parameters}) over {feeder.reads!r}, "
            "whose rows it needs"
        )
    is_name = argument.isidentifier()
    name = argument if is_name else "item"
    key = [feeder.key] * bool(feeder.key) + [argument if is_name else f"{argument} AS {name}"]
    return (
        f"{text}, as its groups may have values in common: aggregate {feeder.reads!r} with "
        f"key={', '.join(key)!r}, and write agg.count_distinct({name!r}) over that"
    )
