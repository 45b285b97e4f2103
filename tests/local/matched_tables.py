"""The law of comparing tables of others with rows of a stage, whatever database has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from deltaproduce.sync.comparing.results import ComparedTable
from deltaproduce.sync.comparing.tables import StageRows, compared

Kinds = Mapping[str, tuple[str, pa.DataType, st.SearchStrategy]]
"""A name -> the type there, the type here, and values."""
Row = tuple[Any, ...]


def compare(rows: pa.Table, there: Any, key: tuple[str, ...] = ()) -> ComparedTable:
    types = {field.name: str(field.type) for field in rows.schema}
    return compared(StageRows("s", rows, key, types), there, "there", tolerance=1e-9, sample=100)


@st.composite
def cases(draw: st.DrawFn, kinds: Kinds) -> tuple[list[str], list[Row], list[Row]]:
    """Columns, the rows there, and the rows here."""
    names = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=5, unique=True))
    row = st.tuples(*(st.none() | kinds[name][2] for name in names))
    common = draw(st.lists(row, max_size=8))
    there = common + draw(st.lists(row, max_size=2))
    return names, there, draw(st.permutations(common + draw(st.lists(row, max_size=2))))


def assert_matched(
    result: ComparedTable, rows: list[Row], ours: list[Row], said: Callable[[Row], str] = repr
) -> None:
    """Those rows are equal that a Counter says are."""
    there, mine = Counter(map(said, rows)), Counter(map(said, ours))
    assert not result.problem
    assert not [one for one in result.columns if not one.is_compared], result.columns
    assert (result.rows_there, result.rows_here) == (len(rows), len(ours))
    assert result.equal == (there & mine).total()
    assert (result.only_there, result.only_here) == ((there - mine).total(), (mine - there).total())
