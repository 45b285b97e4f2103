"""Importing the package is cheap, and its names match what a type checker sees."""

import ast
import subprocess
import sys
import textwrap
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import deltaproduce
from deltaproduce.types.pandas_on_demand import in_numpy


def test_importing_it_imports_no_spark() -> None:
    script = "import sys, deltaproduce; print(sorted({'pyspark', 'pyarrow'} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"


FIRST_VERSION = """
    import sys
    import deltaproduce as dp

    def told():
        return sorted(name for name in {names!r} if name in sys.modules)

    shop = dp.Pipeline("shop")
    orders = shop.source("orders", key="id bigint", value="day date, price double, note string")

    @shop.producer(orders, key="id bigint", value="imported string")
    def notes(key, values):
        yield key, ",".join(told())

    with dp.Store(None, {place!r}, shop) as store:
        for number in range(3):
            row = {{"day": None, "price": 1.5, "note": "a"}}
            store.update({{"orders": [{{"id": number, **row}}, {{"id": 0, **row}}]}})
        print(store.content("notes").to_pylist()[0]["imported"])
        print(",".join(told()))
"""


def test_small_versions_import_nothing_that_they_do_not_use(tmp_path: Path) -> None:
    """Neither pandas, nor the grammar of SQL, nor kinds that the pipeline does not have."""
    kinds = [f"deltaproduce.stages.{kind}.kind" for kind in ("aggregates", "indexes", "queries")]
    packages = ["delta", "duckdb", "jinja2", "psycopg", "sqlglot", "typer"]
    names = sorted([*packages, *kinds, "deltaproduce.stages.partitioned.kind", "pandas"])
    script = textwrap.dedent(FIRST_VERSION).format(names=names, place=str(tmp_path / "shop"))
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout == "\n\n"


AWAITED = """
    import sys
    import numpy as np, pyarrow as pa
    from deltaproduce.types.pandas_on_demand import await_pandas

    {call}
    for values, kind in (([1, None], pa.int64()), (["a"], pa.string()), (np.arange(3), None)):
        pa.array(values, kind)
    pa.table({{"a": pa.array([1.5], pa.float64())}}).to_pylist()
    print("pandas" in sys.modules)
    print(repr(pa.scalar(1, pa.timestamp("ns")).as_py()), "pandas" in sys.modules)

    import pandas as pd
    print(pd.__file__, pa.array(pd.Series([1.0, float("nan")])).null_count)
    print(pa.array([pd.NaT, pd.NA, None, 1], from_pandas=True))
    print(pa.array(pd.Categorical(["a", "b"])).type, pa.array(pd.Index([1, 2])).type)
    print(pa.array(pd.Series(pd.date_range("2024-01-01", periods=1, tz="UTC"))).type)
    frame = pd.DataFrame({{"n": pd.array([1, None], "Int64"), "t": ["a", pd.NA]}})
    print(pa.table(frame).to_pylist(), pa.Table.from_pandas(frame).schema)
    print(pa.table(frame).to_pandas(), pa.array(["a"]).dictionary_encode().to_pandas())
    print(pa.array([pd.Timedelta(3), None]))
"""


def test_pyarrow_awaits_pandas_and_then_knows_it() -> None:
    """It does as ever, and needs no pandas for values of given types, and arrays of NumPy's."""
    ours, as_ever = (
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(AWAITED).format(call=call)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for call in ("await_pandas()", "pass")
    )
    assert ours.startswith("False\n")
    assert as_ever.startswith("True\n")
    assert ours.split("\n")[1:] == as_ever.split("\n")[1:]


def test_its_version_is_that_of_the_package() -> None:
    assert deltaproduce.__version__ == version("deltaproduce")


def test_names_are_where_a_type_checker_looks() -> None:
    tree = ast.parse(Path(str(deltaproduce.__file__)).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == dict(deltaproduce._HOMES)
    assert sorted(seen.keys() - {"open"}) == deltaproduce.__all__
    for name in seen:
        assert getattr(deltaproduce, name) is getattr(deltaproduce, name)
        assert name in dir(deltaproduce)


TYPES = (pa.int8(), pa.int64(), pa.uint32(), pa.float32(), pa.float64(), pa.bool_(), pa.date32())


@given(
    st.sampled_from(TYPES),
    st.lists(st.lists(st.one_of(st.just(None), st.integers(0, 1))), max_size=4),
    st.integers(0, 3),
    st.booleans(),
)
def test_values_are_in_numpy_what_they_are_by_pandas(
    kind: pa.DataType, parts: list[list[int | None]], first: int, null: bool
) -> None:
    """Of arrays, of chunks, and of parts of both, with nulls and without; as writable as there."""
    chunks = [
        pa.array([n for n in part if null or n is not None], pa.int32()).cast(kind).slice(first)
        for part in parts
    ]
    for values in (pa.chunked_array(chunks, kind), *chunks):
        wanted, found = np.asarray(values), in_numpy(values)
        assert found.dtype == wanted.dtype
        assert found.tobytes() == wanted.tobytes()
        assert found.flags.writeable >= wanted.flags.writeable
        if null is False:
            assert in_numpy(values, np.float64).tolist() == wanted.astype(np.float64).tolist()
