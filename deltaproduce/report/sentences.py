"""Sentences: what a version did, in words.

Pure. The invariant: a sentence has no figure that the report does not have, and no cause that is
not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from deltaproduce.report.figures import UNKNOWN, count, counted, size
from deltaproduce.report.model import Report, StageReport

_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "skipped": "nothing that it reads has changed",
        "seek": "the rows of the keys were found and replaced",
        "merge": "the keys were compared with the whole table, and their rows replaced",
        "rewrite": "the table was written anew, with the new rows of the keys",
        "full": "all rows were made again",
        "restore": "the table was set back to an earlier version",
    }
)
"""What a step of each mode does."""

_OF_KEYS: Final = ("seek", "merge", "rewrite")
"""The modes of steps that compute some keys."""

_OPENINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "rollback": "The store was rolled back: ",
        "refresh": "Stages were made again: ",
        "repair": "Damage was repaired: ",
        "forget": "A key was forgotten: ",
    }
)
"""How the sentence of an operation begins that is no update."""


def happened(report: Report) -> str:
    """Return one sentence of what the version did; empty for the version without rows."""
    version, stages = report.version, report.stages
    if version.committed_at is None:
        return ""
    sources = [stage for stage in stages if not stage.feeders]
    computed = [stage for stage in stages if stage.feeders]
    changed = [
        _keys(stage.name, stage.step.changed_keys)
        for stage in sources
        if stage.step is not None and stage.step.changed_keys
    ]
    word = "loaded" if version.operation == "load" else "changed"
    first = f"{_listed(changed)} {word}" if changed else "no source changed"
    followed = sum(stage.step is not None and stage.step.changed_keys > 0 for stage in computed)
    rest = f"; {count(followed)} of {counted(len(computed), 'stage')} followed" if computed else ""
    opening = _OPENINGS.get(version.operation, "")
    sentence = f"{opening}{first}{rest}."
    return sentence[0].upper() + sentence[1:]


def causes(report: Report) -> str:
    """Return which keys of sources the version changed, the first of each; empty if unknown."""
    texts = []
    for stage in report.stages:
        difference = stage.difference
        if stage.feeders or difference is None or not difference.names:
            continue
        keys = [
            ", ".join("null" if part is None else part for part in key) for key in difference.names
        ]
        more = difference.changed_keys - len(keys)
        shown = [f"({key})" if difference.key_columns > 1 else key for key in keys]
        texts.append(f"{stage.name} {', '.join(shown)}{f' and {count(more)} more' if more else ''}")
    return "; ".join(texts)


def how(stage: StageReport, stages: Sequence[StageReport]) -> str:
    """Return what the version's step of a stage did, and how much it read."""
    step = stage.step
    if step is None:
        return ""
    words = _WORDS.get(step.mode, step.mode)
    if step.mode in _OF_KEYS and not step.changed_keys:
        words = "the keys were computed, and none of their rows has changed"
    if not step.rows_read:
        return words
    there = sum(
        one.step.rows
        for one in stages
        if one.step is not None and one.name in (stage.name, *stage.feeders)
    )
    of = f" of {count(there)}" if there >= step.rows_read else ""
    return f"{words}; read {count(step.rows_read)}{of} stored rows, {size(step.bytes_read)}"


def _keys(source: str, number: int) -> str:
    """Return a number of keys of a source: ``1 order``, ``2 orders``, ``3 keys of stock``."""
    one = _one_of(source)
    if one is None:
        return f"{counted(number, 'key')} of {source}"
    return f"{count(number)} {(one if number == 1 else source).replace('_', ' ')}"


def _one_of(source: str) -> str | None:
    """Return what one of the things is called that a source is named after; None if unknown."""
    if not (source.isascii() and source.isidentifier()) or not source.islower():
        return None
    for ending, replacement in _PLURALS:
        if source.endswith(ending) and len(source) > len(ending) + 1:
            return None if replacement is None else source.removesuffix(ending) + replacement
    return None


_PLURALS: Final = (
    ("ss", None),
    ("us", None),
    ("is", None),
    ("news", None),
    ("ies", "y"),
    ("sses", "ss"),
    ("xes", "x"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("s", ""),
)
"""Endings of plurals, and those of one; None for endings of words that may be no plurals."""


def _listed(parts: Sequence[str]) -> str:
    """Return parts as English lists them; of many the first ones, and how many more."""
    if len(parts) > _MOST:
        parts = [*parts[: _MOST - 1], f"keys of {count(len(parts) - _MOST + 1)} more sources"]
    if len(parts) < 2:
        return "".join(parts) or UNKNOWN
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


_MOST: Final = 4
"""The most sources that a sentence names."""
