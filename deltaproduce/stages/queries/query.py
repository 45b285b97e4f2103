"""The query of a SQL stage: checked once, then written for any views of its feeders.

The invariant: `Query.sql` returns the user's text with a few insertions. Its rows, without the
columns whose names begin with ``_``, are those of the user's query; and over the rows of any set of
source keys it returns the rows of these source keys (`key_locality`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.grammar import check_grammar
from deltaproduce.stages.queries.key_locality import KeyLocality
from deltaproduce.stages.queries.ordering import ordering_of
from deltaproduce.stages.sql.algebra.determinism import FILLS, check_determined
from deltaproduce.stages.sql.algebra.joining import with_ordered_joins
from deltaproduce.stages.sql.resolve import Named, Resolved, as_written
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import QueryText, TextEdit, edited
from deltaproduce.types.columns import SOURCE_PREFIX, RowSchema


@dataclass(frozen=True, slots=True)
class Query:
    """A query in which each row comes from rows of one source key.

    Attributes:
        text: the user's text.
        feeders: the names of the stages that it reads, in the order of their first mention.
        sources: the columns that hold a row's source key, named after the key columns of the first
            feeder: ``_source_<key column>``. The user's query does not have them.
        orders: further columns that the user's query does not have, for `order`.
        names: the columns of the user's query. No name begins with ``_``.
        order: the sort order of the rows of one source key, as text after ``ORDER BY`` over the
            columns of `sql`; None if the user's query does not end with ORDER BY.
        edits: the edits of the text.
    """

    text: str
    feeders: tuple[str, ...]
    sources: tuple[str, ...]
    orders: tuple[str, ...]
    names: tuple[str, ...]
    order: str | None
    edits: tuple[TextEdit, ...]

    def sql(self, views: Mapping[str, str]) -> str:
        """Return the query with views in place of the stages, and without its ORDER BY.

        Its columns are `sources`, `orders` and `names`, in this order.

        Args:
            views: a view name for each of `feeders`. No CTE of the user can have a name that begins
                with ``_``.
        """
        return edited(self.text, self.edits, views)


def key_local(text: str, stages: Mapping[str, RowSchema], *, stage: str) -> Query:
    """Read a query, and check that each of its rows comes from rows of one source key.

    Args:
        text: one SELECT in Spark's SQL, which names stages as its tables.
        stages: the columns of the stages that it may read.
        stage: the name of the stage that it defines, for messages.

    Raises:
        DefinitionError: it cannot be parsed, reads something other than a stage, or is not
            key-local; with `stage`.
    """
    return keyed(text, stages, stage=stage)[0]


def keyed(text: str, stages: Mapping[str, RowSchema], *, stage: str) -> tuple[Query, Resolved]:
    """Return a query as Spark runs it, and as the driver does, both with the source key.

    The columns of the latter are `Query.sources` and `Query.names`.

    Raises:
        DefinitionError: as for `key_local`.
    """
    try:
        return _keyed(text, stages)
    except DefinitionError as error:
        message = f"stage {stage!r}: {error}"
        raise DefinitionError(message, stage=stage, column=error.column, line=error.line) from None


def _keyed(text: str, stages: Mapping[str, RowSchema]) -> tuple[Query, Resolved]:
    parsed = QueryText.read(text)
    tree = parsed.tree
    check_grammar(tree)
    resolved = as_written(parsed, stages)
    reading = resolved.reading
    free = [] if tree.unnest().args.get("distinct") else [c.field.id for c in resolved.columns]
    check_determined(resolved.relation, free, FILLS)
    _check_names(resolved)
    locality = KeyLocality(reading, stages)
    for _, selected in reading.with_:
        locality.of(selected.relation)
    keys = locality.of(resolved.relation).keys
    sources = _sources(resolved, stages, len(keys.columns))
    ordering = ordering_of(resolved)
    relation, added = locality.exposing.exposed(resolved.relation, sources, dict(ordering.added))
    fields = {one.id: one for one in relation.fields}
    own = tuple(Named(None, name, fields[one]) for name, one in zip(sources, added, strict=True))
    edits = [edit for edit in reading.edits if edit.feeder is not None]
    at_end = TextEdit(reading.text.end, len(text), "")
    orders = tuple(name for name, _ in ordering.added)
    query = Query(
        text,
        resolved.feeders,
        sources,
        orders,
        resolved.names,
        ordering.order,
        (*edits, *locality.edits, *ordering.edits, at_end),
    )
    ordered = with_ordered_joins(relation)
    return query, replace(resolved, relation=ordered, columns=(*own, *resolved.columns))


def _check_names(resolved: Resolved) -> None:
    for name in resolved.names:
        if name.startswith("_"):
            message = f"column {name!r}: names that begin with '_' are reserved; rename it"
            raise DefinitionError(message, column=name)


def _sources(resolved: Resolved, stages: Mapping[str, RowSchema], width: int) -> tuple[str, ...]:
    """Return the names of the columns that hold the source key."""
    tree: exp.Expr = resolved.reading.text.tree
    if not width:
        message = f"{spelled(tree)!r} returns rows of no stage; name one in its FROM"
        raise DefinitionError(message)
    widths = {name: len(stages[name].key) for name in resolved.feeders}
    if len(set(widths.values())) > 1:
        message = f"the feeders' numbers of key columns differ: {widths!r}; use the same key types"
        raise DefinitionError(message)
    key = stages[resolved.feeders[0]].key
    return tuple(SOURCE_PREFIX + name for name in key.names)
