"""The query of a SQL stage: checked once, then written for any views of its feeders.

The invariant: `Query.sql` returns the user's text with a few insertions. Its rows, without the
columns whose names begin with ``_``, are those of the user's query; and over the rows of any set of
source keys it returns the rows of these source keys (`key_locality`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from deltaproduce.errors import DefinitionError
from deltaproduce.stages.queries.from_items import Scope
from deltaproduce.stages.queries.key_locality import relation_of, select_of
from deltaproduce.stages.queries.ordering import Ordered, ordering_of
from deltaproduce.stages.queries.relations import Relation
from deltaproduce.stages.sql.syntax import spelled
from deltaproduce.stages.sql.text import Edit, QueryText, edited
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
    edits: tuple[Edit, ...]

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
    try:
        return _query(QueryText.read(text), stages)
    except DefinitionError as error:
        message = f"stage {stage!r}: {error}"
        raise DefinitionError(message, stage=stage, column=error.column) from None


def _query(text: QueryText, stages: Mapping[str, RowSchema]) -> Query:
    by_name = {name.lower(): (name, schema) for name, schema in stages.items()}
    scope = Scope(text.text, by_name, {}, outermost=True)
    _check_tables(text.tree)
    order = text.tree.args.get("order")
    if order is not None:
        order.pop()
    if isinstance(text.tree, exp.Select):
        relation, frame, columns = select_of(text.tree, scope)
        names = _names(relation, text)
        extensible = None if text.tree.args.get("distinct") else text.tree
        ordering = ordering_of(order, Ordered(text, names, extensible, frame, columns))
    else:
        relation = relation_of(text.tree, scope)
        names = _names(relation, text)
        ordering = ordering_of(order, Ordered(text, names))
    feeders, sources = _feeders(relation, stages, text)
    at_end = Edit(text.end, len(text.text), "")
    edits = [*relation.edits, *ordering.edits, at_end]
    for columns_of in relation.lists:
        added = dict(zip(sources, columns_of.keys, strict=True)) | dict(ordering.added)
        edits += columns_of.with_columns(text.text, added)
    orders = tuple(name for name, _ in ordering.added)
    return Query(text.text, feeders, sources, orders, names, ordering.order, tuple(edits))


def _check_tables(tree: exp.Query) -> None:
    """Refuse tables where `key_locality` does not look for them."""
    for table in tree.find_all(exp.Table):
        if not isinstance(table.parent, exp.From | exp.Join | exp.Subquery | exp.JoinHint):
            raise DefinitionError(f"{spelled(table)!r} stands outside of FROM; write a SELECT")


def _names(relation: Relation, text: QueryText) -> tuple[str, ...]:
    """Return the names of the columns, checked to be valid for a stage."""
    names: dict[str, str] = {}
    for number, output in enumerate(relation.outputs, start=1):
        if output.name is None:
            message = f"column {number} of {spelled(text.tree)!r} has no name; write … AS name"
            raise DefinitionError(message)
        if output.name.startswith("_"):
            message = f"column {output.name!r}: names that begin with '_' are reserved; rename it"
            raise DefinitionError(message, column=output.name)
        if output.name.lower() in names:
            message = (
                f"there are two columns {output.name!r} (case does not count); rename one with AS, "
                "or name the columns in place of '*'"
            )
            raise DefinitionError(message, column=output.name)
        names[output.name.lower()] = output.name
    return tuple(names.values())


def _feeders(
    relation: Relation, stages: Mapping[str, RowSchema], text: QueryText
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the feeders, and of the source key columns."""
    read = [edit for edit in relation.edits if edit.feeder is not None]
    read.sort(key=lambda edit: edit.start)
    feeders = tuple(dict.fromkeys(edit.feeder for edit in read if edit.feeder is not None))
    if not relation.width:
        message = f"{spelled(text.tree)!r} returns rows of no stage; name one in its FROM"
        raise DefinitionError(message)
    widths = {name: len(stages[name].key) for name in feeders}
    if len(set(widths.values())) > 1:
        message = f"the feeders' numbers of key columns differ: {widths!r}; use the same key types"
        raise DefinitionError(message)
    key = stages[feeders[0]].key
    return feeders, tuple(SOURCE_PREFIX + name for name in key.names)
