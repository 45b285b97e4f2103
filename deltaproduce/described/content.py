"""The content of stages: how its files store it, by its descriptor.

Applies ``stored=`` of a stage's definition to its columns. The invariant: how rows are stored
decides which files they are in, and never which rows there are: content has the same rows however
it is stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from deltaproduce.described.descriptor import Description, codec, order_of
from deltaproduce.described.partitions import PartitionColumn, partitions
from deltaproduce.errors import CorruptStoreError, DefinitionError
from deltaproduce.model.graph import Graph, Stage
from deltaproduce.model.layouts import CONTENT, Layout
from deltaproduce.types.columns import Column, Columns
from deltaproduce.types.excerpts import shown
from deltaproduce.types.json.fields import Kind, fields, is_text, is_texts, optional, parsed
from deltaproduce.types.stored_as import StoredAs

_KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {"partition": optional(is_texts), "order": is_texts, "compression": is_text}
)
_PARTS: Final = tuple(_KINDS)


def stored_as(given: object, *, stage: str) -> StoredAs | None:
    """Return how a definition says that a stage is stored; None if it says nothing.

    Raises:
        DefinitionError: `given` is not a mapping of ``partition``, ``order`` and ``compression`` to
            text; with `stage`.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping) or not given or not {*given} <= {*_PARTS}:
        raise DefinitionError(
            f"stage {stage!r}: stored is {shown(given)}; give a dict with some of "
            f"{', '.join(_PARTS)}",
            stage=stage,
        )
    for part, text in given.items():
        if not isinstance(text, str) and (text is not None or part == "compression"):
            raise DefinitionError(
                f"stage {stage!r}: {part} of stored is {shown(text)}; give a str", stage=stage
            )
    return StoredAs(**given)


def description(stage: Stage) -> Description | None:
    """Return how a stage's content is stored, or None if its definition does not say it.

    Args:
        stage: one with known types of all its columns.

    Raises:
        DefinitionError: the content cannot be stored so; with `stage`.
    """
    return None if stage.stored is None else described(stage, stage.stored)


def described(stage: Stage, stored: StoredAs) -> Description:
    """Return how the content of a stage with these columns is stored.

    Raises:
        DefinitionError: it cannot be stored so; with `stage` and, if one column is wrong, `column`.
    """
    named = Columns(tuple(c for c in (*stage.schema.key, *stage.schema.value) if not c.is_hidden))

    def read() -> Description:
        by = None if stored.partition is None else partitions(stored.partition, named)
        in_order = () if stored.order is None else order_of(stored.order, named)
        return Description(rows_of(stage), by, in_order, codec(stored.compression))

    return _naming(stage.name, read)


def descriptions(graph: Graph) -> Mapping[str, Description]:
    """Return how content is stored, by stage, for the stages whose definitions say it.

    Raises:
        DefinitionError: a stage cannot be stored so; with `stage`.
    """
    described = {stage.name: description(stage) for stage in graph.stages}
    return {name: one for name, one in described.items() if one is not None}


def check_stored(stage: Stage) -> None:
    """Refuse a stage that cannot be stored as its definition says, if its types are known.

    Raises:
        DefinitionError: with `stage`.
    """
    if all(c.is_known for c in (*stage.schema.key, *stage.schema.value)):
        description(stage)


def rows_of(stage: Stage) -> Columns:
    """Return the columns of a stage's content that readers see."""
    return Columns(tuple(c for c in Layout.of(stage).shown if not c.is_hidden))


def plainly(stage: Stage) -> Description:
    """Return how content is stored by default: by the stage's key."""
    order = tuple(c for c in Layout.of(stage).order(CONTENT) if not c.is_hidden)
    return Description(rows_of(stage), None, order, "snappy")


def text_of(description: Description | None) -> str:
    """Return how content is stored as the text in a version; empty if by its key."""
    if description is None:
        return ""
    stored = description.descriptor.as_dict()
    return json.dumps({part: stored[part] for part in _PARTS})


def read_text(text: str, stage: Stage) -> Description:
    """Read the text that `text_of` returns.

    Args:
        stage: one with the columns of its tables.

    Raises:
        CorruptStoreError: the library did not write this text.
    """
    if not text:
        return plainly(stage)
    known = fields(parsed(text), _KINDS, required=_KINDS)
    if known is None:
        raise _foreign(text)
    by = known["partition"]
    partition = None if by is None else ", ".join(by)
    try:
        stored = StoredAs(partition, ", ".join(known["order"]), known["compression"])
        return described(stage, stored)
    except DefinitionError as error:
        raise _foreign(text) from error


def columns_by(by: Sequence[PartitionColumn]) -> tuple[Column, ...]:
    """Return the columns that content is partitioned by."""
    return tuple(replace(one.column, descending=False) for one in by)


def beside(by: Sequence[PartitionColumn]) -> tuple[Column, ...]:
    """Return the partition columns that content does not show: the columns of expressions."""
    return tuple(one.column for one in by if one.expression is not None)


def sorted_by(description: Description, order: Sequence[Column]) -> tuple[Column, ...]:
    """Return the sort order of all rows: by partition, then by the descriptor's order.

    Args:
        order: the columns that break ties; no two rows are equal in all of them.
    """
    whole = [*columns_by(description.partitions), *description.in_order, *order]
    return tuple({column.name: column for column in reversed(whole)}[n] for n in _names(whole))


def _names(columns: Sequence[Column]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column.name for column in columns))


def _foreign(text: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"the version log describes content in a way that no store writes: {shown(text)}; "
        "store.repair() sets it back, or restore the table from a backup",
        table="_versions",
    )


def _naming(stage: str, read: Callable[[], Description]) -> Description:
    try:
        return read()
    except DefinitionError as error:
        message = f"stage {stage!r}: stored: {error}"
        raise DefinitionError(message, stage=stage, column=error.column) from error
