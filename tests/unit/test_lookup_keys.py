"""The keys by which rows are looked up are the distinct ones."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from deltaproduce.stages.sql.operators.changes.keys import LookupKeys

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64()])
@pytest.mark.parametrize("values", [[], [7], range(-9, 9), [-128, 127], [None, 1, 2]])
def test_each_key_is_there_once(kind: pa.DataType, values: list[int | None]) -> None:
    random = Random(1)
    given = [random.choice(values) for _ in range(40)] if values else []
    keys = LookupKeys.of(pa.table({"k": pa.array(given, kind), "v": given}), ["k"])
    assert keys is not None
    assert keys.rows.schema.types == [kind]
    found = keys.rows.column("k").to_pylist()
    assert len(found) == len({*found})
    assert {*found} == {*given}


def test_numbers_that_are_far_apart_are_keys() -> None:
    rows = pa.table({"k": [LEAST, GREATEST, LEAST, 0]})
    keys = LookupKeys.of(rows, ["k"])
    assert keys is not None
    assert {*keys.rows.column("k").to_pylist()} == {LEAST, 0, GREATEST}
