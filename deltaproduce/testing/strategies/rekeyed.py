"""Random stages of a feeder's rows under other keys: indexes, latest rows and histories.

Keys are of columns, of expressions, or of both. The invariant: a drawn sequence is never null, so
no row of the feeder is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from deltaproduce.model.graph import Stage
from deltaproduce.testing.strategies.aggregates import columns_of, computed_of, may_be_key
from deltaproduce.testing.strategies.catalogue import INDEXED, ROWS, Catalogue, Shape
from deltaproduce.testing.strategies.names import column_name
from deltaproduce.types.catalogue import atom
from deltaproduce.types.data_types import BooleanType, LongType, StringType
from deltaproduce.types.ddl import identifier, quoted

_FILLED: Final = ((LongType, "coalesce({}, 0)"), (StringType, "coalesce({}, '')"))


@dataclass(frozen=True, slots=True)
class DrawnIndex:
    """The definition of an index.

    Attributes:
        arguments: the arguments of `Pipeline.index` after the feeder.
        shape: its columns, if they are in the catalogue.
    """

    arguments: dict[str, Any]
    shape: Shape | None = None


def may_have_index(feeder: Stage) -> bool:
    """Return whether a key can have a stage's column, or an expression over one."""
    return any(may_be_key(data_type) for _, data_type in columns_of(feeder.schema))


@st.composite
def indexes(draw: st.DrawFn, feeder: Stage, catalogue: Catalogue, number: int) -> DrawnIndex:
    """Draw an index of a stage, with columns of the catalogue or others.

    Args:
        draw: given by Hypothesis.
        feeder: the indexed stage; it `may_have_index`.
        catalogue: the names of the catalogue's columns.
        number: a number for the names of its columns.
    """
    schema = feeder.schema
    rows, t = catalogue.shape(ROWS), catalogue.text("t")
    if (schema.key.ddl, schema.value.ddl) == (rows.key, rows.value) and draw(st.booleans()):
        texts = [t, f"{t} string", f"coalesce({t}, '-') AS {t}"]
        known = {"key": draw(st.sampled_from(texts)), "include": catalogue.text("n")}
        return DrawnIndex(known, catalogue.shape(INDEXED))
    bare = [text for text, data_type in columns_of(schema) if may_be_key(data_type)]
    computed = [text for text, data_type in computed_of(schema) if may_be_key(data_type)]
    own = {identifier(c.name) for c in schema.key if not c.is_hidden}
    columns = draw(st.lists(st.sampled_from(bare), max_size=2, unique=True))
    key = [text + draw(st.sampled_from(["", " desc"])) for text in columns]
    last = draw(st.sampled_from(computed or bare)) if not key or draw(st.booleans()) else None
    if last is not None:
        name = draw(column_name(f"i{number}", [n.lower() for n in schema.names]))
        key.append(f"{last} AS {quoted(name)}")
    free = [text for text, _ in columns_of(schema) if text not in own and text not in columns]
    included = draw(st.lists(st.sampled_from(free), max_size=2, unique=True)) if free else []
    if not included and own <= {*columns, last}:
        included = [f"{bare[0]} AS same{number}"]
    return DrawnIndex({"key": ", ".join(key), "include": ", ".join(included) or None})


@dataclass(frozen=True, slots=True)
class DrawnEvents:
    """The definition of a stage of events.

    Attributes:
        arguments: the arguments of `Pipeline.latest` or `Pipeline.history` after the events.
        has_history: whether it is a history.
        shape: its columns, if they are in the catalogue.
    """

    arguments: dict[str, Any]
    has_history: bool
    shape: Shape | None = None


def may_be_events(feeder: Stage) -> bool:
    """Return whether all columns of a stage have an order, and a key can have one of them."""
    columns = [*columns_of(feeder.schema)]
    are_atoms = all(atom(data_type) is not None for _, data_type in columns)
    return are_atoms and any(may_be_key(data_type) for _, data_type in columns)


@st.composite
def events(draw: st.DrawFn, feeder: Stage, catalogue: Catalogue, number: int) -> DrawnEvents:
    """Draw a stage of events, with columns of the catalogue or others.

    Args:
        draw: given by Hypothesis.
        feeder: the events; it `may_be_events`.
        catalogue: the names of the catalogue's columns.
        number: a number for the names of its columns.
    """
    schema, rows = feeder.schema, catalogue.shape(ROWS)
    bare, computed = [*columns_of(schema)], [*computed_of(schema)]
    points = [f"{text} IS NOT NULL" for text, _ in bare]
    points += [
        template.format(text)
        for text, kind in bare
        for of, template in _FILLED
        if isinstance(kind, of)
    ]
    drawn = draw(st.lists(st.sampled_from(points), min_size=1, max_size=2, unique=True))
    arguments: dict[str, Any] = {
        "sequence": ", ".join(f"{text} AS s{number}_{n}" for n, text in enumerate(drawn))
    }
    conditions = [text for text, kind in computed if isinstance(kind, BooleanType)]
    if draw(st.booleans()):
        arguments["deleted"] = draw(st.sampled_from(conditions))
    is_known = (schema.key.ddl, schema.value.ddl) == (rows.key, rows.value)
    if is_known and draw(st.booleans()):
        k, n, t = (catalogue.text(name) for name in ("k", "n", "t"))
        known = {"key": draw(st.sampled_from([k, f"{n} % 3 AS {k}"])), "columns": f"{n}, {t}"}
        return DrawnEvents({**arguments, **known}, has_history=False, shape=rows)
    keys = [text for text, kind in bare if may_be_key(kind)]
    expressions = [text for text, kind in computed if may_be_key(kind)]
    key = draw(st.lists(st.sampled_from(keys), max_size=2, unique=True))
    taken = [name.lower() for name in schema.names]
    if not key or draw(st.integers(0, 3)) == 0:
        name = draw(column_name(f"e{number}", taken))
        key.append(f"{draw(st.sampled_from(expressions or keys))} AS {quoted(name)}")
    arguments["key"] = ", ".join(key)
    has_history = draw(st.booleans())
    others = [text for text, _ in bare if text not in key]
    if not others or (not has_history and draw(st.booleans())):
        chosen = draw(st.sampled_from([text for text, _ in bare]))
        arguments["columns"] = f"{chosen} AS c{number}"
    elif has_history and draw(st.booleans()):
        tracked = draw(st.lists(st.sampled_from(others), min_size=1, max_size=2, unique=True))
        arguments["track"] = ", ".join(tracked)
    return DrawnEvents(arguments, has_history)
