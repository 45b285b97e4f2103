"""Selections of stages, with the operators of dbt's ``--select``.

Pure: works on names of stages and their feeders. A selection is the union of its terms, which are
separated by spaces; parts of a term that are separated by commas must all match. A part is a name
or a pattern of ``*``, ``?`` and ``[…]``, or a label, ``tag:nightly`` or ``group:finance``, whose
name may be a pattern, too. ``+`` before it adds everything upstream, ``+`` after it everything
downstream, and a number there limits the steps: ``2+totals``, ``orders+1``.

The invariant: selected stages come in the order of the pipeline, feeders first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from deltaproduce.errors import NotFoundError
from deltaproduce.model.graph import Graph
from deltaproduce.types.excerpts import meant, shown

_PART: Final = re.compile(r"(?:(\d*)(\+))?([^+]+?)(?:(\+)(\d*))?")

_LABEL: Final = re.compile(r"(tag|group):")

Feeders = Mapping[str, Sequence[str]]
"""Stage -> its feeders; all stages, feeders first."""
Labels = Mapping[str, Collection[str]]
"""Stage -> its labels, such as ``tag:nightly``; stages without one may be missing."""


def feeders_of(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Return the stages of a graph that users defined, and the feeders of each."""
    return {stage.name: tuple(feeder.name for feeder in stage.merged) for stage in graph.shown}


def names_labels(terms: Iterable[str]) -> bool:
    """Return whether terms name labels of stages."""
    return any(_LABEL.search(term) for term in terms)


def selected(terms: Iterable[str], feeders: Feeders, labels: Labels) -> tuple[str, ...]:
    """Return the stages that these terms select; all if there are no terms.

    Raises:
        NotFoundError: a term selects no stage, or is not valid.
    """
    words = [word for term in terms for word in term.split()]
    if not words:
        return tuple(feeders)
    names = set().union(*(_term(word, feeders, labels) for word in words))
    return tuple(name for name in feeders if name in names)


def _term(word: str, feeders: Feeders, labels: Labels) -> set[str]:
    parts = [_part(part, word, feeders, labels) for part in word.split(",")]
    stages = set.intersection(*parts)
    if not stages:
        raise NotFoundError(f"--select {word!r} selects no stage; stages: {', '.join(feeders)}")
    return stages


def _part(part: str, word: str, feeders: Feeders, labels: Labels) -> set[str]:
    match = _PART.fullmatch(part)
    if match is None:
        raise NotFoundError(
            f"--select {word!r} is not a selection: give names or patterns, as in "
            "'+totals', 'orders+', '2+totals', 'sales_*'"
        )
    up, before, pattern, behind, down = match.groups()
    named = _named(pattern, feeders, labels)
    names = set(named)
    if before:
        names |= _reached(named, feeders, int(up) if up else None)
    if behind:
        names |= _reached(named, _readers(feeders), int(down) if down else None)
    return names


def _named(pattern: str, feeders: Feeders, labels: Labels) -> set[str]:
    """Return the stages that a pattern matches, by their names or by their labels.

    Raises:
        NotFoundError: there are none.
    """
    if _LABEL.match(pattern):
        named = {
            name
            for name in feeders
            if any(fnmatchcase(one, pattern) for one in labels.get(name, ()))
        }
        known: Collection[str] = sorted({one for name in feeders for one in labels.get(name, ())})
    else:
        named = {name for name in feeders if fnmatchcase(name, pattern)}
        known = feeders
    if not named:
        raise NotFoundError(f"there is no stage {shown(pattern)}; {meant(pattern, known)}")
    return named


def _readers(feeders: Feeders) -> Feeders:
    return {name: [r for r, fed in feeders.items() if name in fed] for name in feeders}


def _reached(start: set[str], edges: Feeders, steps: int | None) -> set[str]:
    """Return what is reached in at most this many steps; in any number if None."""
    reached, border = set(start), set(start)
    while border and steps != 0:
        border = {other for name in border for other in edges[name]} - reached
        reached |= border
        steps = None if steps is None else steps - 1
    return reached
