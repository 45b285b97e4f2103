"""KnownTables, as the Jinja of a dbt project sees them: relations, their columns, and the adapter.

The invariant: what only a database knows is a `RenderingError` that says so; the columns of what is
carried over are known without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from sqlglot import exp
from sqlglot.errors import SqlglotError

from deltaproduce.projects.dbt.jinja.values import RenderingError
from deltaproduce.projects.dbt.manifest import Node
from deltaproduce.projects.dbt.sql.translation import EPHEMERAL_PREFIX


class UnknownColumnsError(RenderingError):
    """Jinja that asks for the columns of a table that is not carried over, or not yet."""


@dataclass(frozen=True, eq=False)
class JinjaRelation(Mapping[str, Any]):
    """A table, as `ref`, `source` and `this` give it.

    Macros find out that it is one by its item ``metadata``, as of dbt's own.
    """

    id: str
    database: str | None
    schema: str
    identifier: str
    text: str
    is_cte: bool = False

    @staticmethod
    def of(node: Node) -> JinjaRelation:
        """Return the table of a node; of an ephemeral model its CTE."""
        database = node.values.get("database")
        if node.sort == "model" and node.materialized == "ephemeral":
            name = f"{EPHEMERAL_PREFIX}{node.name}"
            return JinjaRelation(node.id, database, node.schema, name, name, is_cte=True)
        text = node.relation or node.alias
        return JinjaRelation(node.id, database, node.schema, node.alias, text)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JinjaRelation) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 as of dbt's relations
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def _items(self) -> Mapping[str, Any]:
        return {
            "metadata": {"type": "Relation"},
            "database": self.database,
            "schema": self.schema,
            "identifier": self.identifier,
        }

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.identifier

    table = name
    alias = name
    type: Final = "table"
    is_table: Final = True
    is_view: Final = False

    def render(self) -> str:
        """Return it as SQL."""
        return self.text

    def include(self, **parts: bool) -> JinjaRelation:
        """Return it whole: tables become stages, which have no schema."""
        return self

    quote = include


@dataclass(frozen=True, slots=True)
class JinjaColumn:
    """A column of a table, with its type in the adapter's SQL."""

    name: str
    data_type: str
    mark: str

    @property
    def column(self) -> str:
        """Its name."""
        return self.name

    @property
    def dtype(self) -> str:
        """Its type."""
        return self.data_type

    @property
    def quoted(self) -> str:
        """Its name in quotes."""
        return f"{self.mark}{self.name}{self.mark}"

    def string_size(self) -> int:
        """The longest text that it holds: no type has a limit here."""
        return 256

    def is_string(self) -> bool:
        """Return whether it is text."""
        return self._is(exp.DataType.TEXT_TYPES)

    def is_integer(self) -> bool:
        """Return whether it is a whole number."""
        return self._is(exp.DataType.INTEGER_TYPES)

    def is_float(self) -> bool:
        """Return whether it is a float."""
        return self._is({exp.DType.FLOAT, exp.DType.DOUBLE})

    def is_numeric(self) -> bool:
        """Return whether it is a decimal."""
        return self._is({exp.DType.DECIMAL})

    def is_number(self) -> bool:
        """Return whether it is a number."""
        return self.is_integer() or self.is_float() or self.is_numeric()

    def _is(self, kinds: Any) -> bool:  # noqa: ANN401 a set of sqlglot's
        try:
            return exp.DataType.build(self.data_type).this in kinds
        except SqlglotError:
            return False


@dataclass(frozen=True, slots=True)
class KnownTables:
    """What is known of tables.

    Attributes:
        dialect: the adapter's.
        columns: returns the columns of a node by its id, with their types in Spark's SQL; None if
            they are not known.
        nodes: all that has a table.
    """

    dialect: str
    columns: Callable[[str], Mapping[str, str] | None]
    nodes: Iterable[Node] = ()

    def relation(self, schema: str, identifier: str) -> JinjaRelation:
        """Return the table of a name.

        Raises:
            RenderingError: none of the project has it, so the database may.
        """
        for node in self.nodes:
            if (node.alias.lower(), node.schema.lower()) == (identifier.lower(), schema.lower()):
                return JinjaRelation.of(node)
        raise RenderingError(
            f"it asks whether there is a table {schema}.{identifier}, which the project does not "
            "make; run dbt compile first"
        )

    def columns_of(self, relation: JinjaRelation, mark: str) -> list[JinjaColumn]:
        """Return the columns of a table.

        Raises:
            UnknownColumnsError: they are not known.
        """
        columns = self.columns(relation.id)
        if columns is None:
            raise UnknownColumnsError(
                f"it asks for the columns of {relation.id}, which is not carried over"
            )
        return [JinjaColumn(name, self._type(kind), mark) for name, kind in columns.items()]

    def _type(self, kind: str) -> str:
        try:
            return exp.DataType.build(kind, dialect="spark").sql(dialect=self.dialect)
        except SqlglotError:  # the type of a null, which only Spark will tell
            return exp.DataType.build("text").sql(dialect=self.dialect)


@dataclass(frozen=True)
class Adapter:
    """The adapter: all that it does without a database."""

    kind: str
    dispatch: Callable[..., object]
    tables: KnownTables

    def type(self) -> str:
        """Return its name."""
        return self.kind

    def quote(self, name: str) -> str:
        """Return a name in quotes."""
        return f"{self._mark}{name}{self._mark}"

    def get_columns_in_relation(self, relation: object) -> list[JinjaColumn]:
        """Return the columns of a table that is carried over."""
        if not isinstance(relation, JinjaRelation):
            raise RenderingError("get_columns_in_relation is asked of what is no table")
        return self.tables.columns_of(relation, self._mark)

    def get_relation(
        self, database: object = None, schema: str = "", identifier: str = ""
    ) -> JinjaRelation:
        """Return a table of the project."""
        return self.tables.relation(str(schema), str(identifier))

    @property
    def _mark(self) -> str:
        return "`" if self.kind in {"bigquery", "spark", "databricks"} else '"'

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RenderingError(f"adapter.{name} asks the database; run dbt compile first")
