"""Stages of events in plain Python: the states of each key, one event after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeAlias

from deltaproduce.stages.rekeyed.events.kind import EventsKind
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.model import value_of
from deltaproduce.testing.oracle.values import plain, rank

Event: TypeAlias = Mapping[str, Any]


def states_of_events(
    events: Iterable[Event], kind: EventsKind
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield the keys and values of a stage, a key's in order."""
    own = kind.columns
    by_key = dict[Any, list[Event]]()
    for event in events:
        by_key.setdefault(plain(_values(own.key, event)), []).append(event)
    for of_key in by_key.values():
        key, states = _values(own.key, of_key[0]), _states(of_key, kind)
        for first, last, until in _spans(states, kind):
            value = _values(own.values, last)
            if kind.tracked is not None:
                value = (
                    *value,
                    _point(first, kind),
                    None if until is None else _point(until, kind),
                )
            yield key, value


def _states(events: list[Event], kind: EventsKind) -> list[Event]:
    """Return one event for each point of the sequence, in order: the greatest by all columns."""
    own = kind.columns

    def sequence(event: Event) -> tuple[Any, ...]:
        return tuple(map(rank, _values(own.sequence, event)))

    def of_all(event: Event) -> tuple[Any, ...]:
        return tuple(rank(event[name]) for name in own.of_event)

    ordered = sorted(events, key=sequence)
    return [max(equal, key=of_all) for _, equal in groupby(ordered, key=sequence)]


def _spans(states: list[Event], kind: EventsKind) -> Iterator[tuple[Event, Event, Event | None]]:
    """Yield the first and the last of joined states, and the one that ends them."""
    if kind.tracked is None:
        if not _is_deleted(states[-1], kind):
            yield states[-1], states[-1], None
        return
    run = list[Event]()
    for state in states:
        if run and (_is_deleted(state, kind) or _tracked(state, kind) != _tracked(run[-1], kind)):
            yield run[0], run[-1], state
            run = []
        if not _is_deleted(state, kind):
            run.append(state)
    if run:
        yield run[0], run[-1], None


def _tracked(state: Event, kind: EventsKind) -> Any:  # noqa: ANN401 as the columns are
    """Return what tells a state from the next."""
    named = dict(kind.columns.values)
    assert kind.tracked is not None
    return plain(tuple(value_of(named[name], state) for name in kind.tracked))


def _point(state: Event, kind: EventsKind) -> Any:  # noqa: ANN401 as the columns are
    """Return where in the sequence a state is."""
    values = _values(kind.columns.sequence, state)
    return values[0] if len(values) == 1 else values


def _is_deleted(state: Event, kind: EventsKind) -> bool:
    deleted = kind.columns.deleted
    return deleted is not None and value_of(deleted, state) is True


def _values(named: Iterable[tuple[str, Expression]], event: Event) -> tuple[Any, ...]:
    return tuple(value_of(one, event) for _, one in named)
