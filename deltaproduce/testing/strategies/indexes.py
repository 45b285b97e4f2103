"""Random indexes: keys of columns, of expressions, or of both, over a feeder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from deltaproduce.model.graph import Stage
from deltaproduce.testing.strategies.aggregates import columns_of, computed_of, may_be_key
from deltaproduce.testing.strategies.catalogue import INDEXED, ROWS, Catalogue, Shape
from deltaproduce.testing.strategies.names import column_name
from deltaproduce.types.ddl import identifier, quoted


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
