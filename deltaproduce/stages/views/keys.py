"""The key of a view: the columns that its user names, or those that follow from the query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.sql.algebra.provenance import copied
from deltaproduce.stages.sql.resolve import Resolved, resolved
from deltaproduce.types.columns import RowSchema, may_be_key


def key_of(query: Resolved, stages: Mapping[str, RowSchema]) -> tuple[str, ...]:
    """Return the columns that a query's rows are kept by; none for one row over all.

    These are the columns of its outermost grouping if it has all of them; else, of one stage that
    is read once, this stage's key if it has all of it; else all columns. Columns whose type cannot
    be a key's are left out.
    """
    own = key_of_groups(query)
    if own is None:
        own = _key_of_feeder(query, stages)
    return _with_keys(query, query.names) if own is None else own


def key_of_groups(query: Resolved) -> tuple[str, ...] | None:
    """Return the columns of a query's outermost grouping that may be key columns.

    None if it does not have all of them.
    """
    return None if query.grouped is None else _with_keys(query, query.grouped)


def key_of_text(text: str, stages: Mapping[str, RowSchema], *, stage: str) -> tuple[str, ...]:
    """Return the same for the text of a query.

    Raises:
        DefinitionError: the query does not say it; with `stage`.
    """
    try:
        resolved_query = resolved(text, stages)
    except DefinitionError as error:
        message = f"stage {stage!r}: its key does not follow from its query: {error}; give key="
        raise DefinitionError(message, stage=stage, line=error.line) from None
    return key_of(resolved_query, stages)


def _with_keys(query: Resolved, names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns whose types may be a key's."""
    kinds = {column.name: column.field.data_type for column in query.columns}
    return tuple(name for name in names if (kind := kinds[name]) is None or may_be_key(kind))


def _key_of_feeder(query: Resolved, stages: Mapping[str, RowSchema]) -> tuple[str, ...] | None:
    """Return the columns that have the key of the one stage that is read; None if they do not."""
    if len(query.scans) != 1:
        return None
    known, names = copied(query.relation), dict[str, str]()
    for column in query.columns:
        if column.field.id in known:
            names.setdefault(known[column.field.id][1], column.name or "")
    (scan,) = query.scans
    key = [column.name for column in stages[scan.feeder].key if not column.is_hidden]
    return tuple(names[name] for name in key) if all(name in names for name in key) else None


@contextmanager
def naming(stage: str) -> Iterator[None]:
    """Add the stage to errors of its query."""
    try:
        yield
    except DefinitionError as error:
        message = f"stage {stage!r}: {error}"
        raise DefinitionError(message, stage=stage, column=error.column, line=error.line) from None
