"""Laws of files: what is written in one is read from it, or the line that is wrong is named."""

import json
import re
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltaproduce as dp
from deltaproduce.cli.inputs.reading import blocks
from deltaproduce.cli.inputs.reading.faults import FileFault
from deltaproduce.cli.inputs.reading.reader import SourceReader
from deltaproduce.cli.inputs.reading.records import end_of_rows, is_plain, records
from deltaproduce.cli.inputs.reading.texts import Forms
from deltaproduce.projects.file import Input
from deltaproduce.types import data_types as t
from deltaproduce.types.json.fields import is_text

MARK = "\ue000"
"""What stands around a number that json would write with other digits."""

texts = st.text(st.sampled_from(list('ab"",;\n\r\'é\u2028𝄞\0 \t')), max_size=5) | st.text(
    max_size=3
)
plain = texts.filter(lambda text: is_text(text) and MARK not in text and "Ã" not in text)
LINE_ENDS = ["\n", "\r\n", "\r"]
FLAWS = ["short", "long", "no number", "open quote", "after a quote", "no text"]


@st.composite
def csv_files(draw):
    """Draw the bytes of a file, its rows, and the line at which a row is wrong, if one is."""
    delimiter, end = draw(st.sampled_from([",", ";", "\t", "|"])), draw(st.sampled_from(LINE_ENDS))
    rows = draw(st.lists(st.tuples(plain | st.none(), st.integers(-9, 9) | st.none()), max_size=6))
    flawed = draw(st.none() | st.tuples(st.integers(0, len(rows)), st.sampled_from(FLAWS)))
    if flawed is not None and flawed[1] == "open quote":
        flawed = (len(rows), flawed[1])  # a quote in a later row would close it
    out, line, wrong = "k" + delimiter + '"N"' + end, 2, None
    for place in range(len(rows) + 1):
        blank = draw(st.integers(0, 2)) == 0
        out, line = out + end * blank, line + blank
        if flawed is not None and flawed[0] == place:
            wrong, out = line, out + _flaw(flawed[1], delimiter) + end
            line += 1
        if place < len(rows):
            text, number = rows[place]
            quotes = draw(st.booleans())
            value = "" if text is None else _quoted(text, delimiter, always=quotes)
            row = value + delimiter + ("" if number is None else str(number)) + end
            out, line = out + row, line + row.count("\n") + row.count("\r") - row.count("\r\n")
    if draw(st.booleans()) and flawed is None and rows:
        out = out.rstrip("\r\n")
    data = ("\ufeff" * draw(st.booleans()) + out).encode()
    return data.replace(b"\xc3\x83", b"\xff"), delimiter, rows, wrong


def _quoted(text, delimiter, *, always):
    """Return a text as it is in a file; what Arrow takes for a quote is doubled."""
    if (
        always
        or not text
        or text.startswith('"')
        or any(c in text for c in (delimiter, "\n", "\r"))
    ):
        return '"' + text.replace('"', '""') + '"'
    return text


def _flaw(kind, delimiter):
    """Return a wrong row; an Ã becomes a byte that is no text."""
    return {
        "short": "x",
        "long": f"x{delimiter}1{delimiter}",
        "no number": f"x{delimiter}1.5",
        "open quote": f'"x{delimiter}1',
        "after a quote": f'"x"y{delimiter}1',
        "no text": f"Ã{delimiter}1",
    }[kind]


def rows_of(data, reader):
    made = [pa.table(dict(part.columns)) for part in reader.parts_of(pa.py_buffer(data), "f")]
    return [row for table in made for row in table.to_pylist()]


@pytest.mark.parametrize("size", [3, 50, 4 << 20])
@given(csv_files())
def test_a_csv_file_has_the_rows_that_were_written(size, found):
    """In blocks of any size, whatever ends its lines, and with the line of what is wrong."""
    data, delimiter, rows, wrong = found
    source = dp.Pipeline("p").source("s", key="k string", value="n bigint")
    reader = SourceReader(Input("s", "csv", "", "snapshot", delimiter), source, Forms())
    with patch.object(blocks, "_READ_BYTES", size):
        if wrong is None:
            assert [(row["k"], row["n"]) for row in rows_of(data, reader)] == rows
        else:
            with pytest.raises(dp.InvalidChangesError) as error:
                rows_of(data, reader)
            assert error.value.line == wrong


@given(st.text(st.sampled_from('a",\n\r'), max_size=12), st.integers(0, 12))
def test_a_text_is_cut_where_a_row_ends(text, size):
    """The rows before and after it are those of the whole text."""
    end = end_of_rows(text[:size].encode(), ",")
    try:
        whole = [record.values for record in records(text, ",")]
    except FileFault:
        return
    parts = [*records(text[:end], ","), *records(text[end:], ",")]
    assert [record.values for record in parts] == whole
    if is_plain(text[:end].encode(), ","):
        assert text[:end].count('"') % 2 == 0


json_types = st.recursive(
    st.sampled_from(
        [
            t.LongType(),
            t.StringType(),
            t.DoubleType(),
            t.BooleanType(),
            t.DateType(),
            t.DecimalType(20, 4),
        ]
    ),
    lambda inner: (
        st.builds(t.ArrayType, inner)
        | st.builds(t.MapType, st.just(t.StringType()), inner)
        | st.builds(
            lambda a, b: t.StructType([t.StructField("a", a), t.StructField("B", b)]), inner, inner
        )
    ),
    max_leaves=4,
)


def values_of(data_type):
    """Return pairs of a value in JSON and what Arrow then has."""
    match data_type:
        case t.LongType():
            found = st.integers(-(2**63), 2**63 - 1).map(lambda n: (n, n))
        case t.StringType():
            found = plain.map(lambda text: (text, text))
        case t.DoubleType():
            found = st.floats(allow_nan=False).map(lambda x: (x, x)) | st.integers(-99, 99).map(
                lambda n: (n, float(n))
            )
        case t.BooleanType():
            found = st.booleans().map(lambda x: (x, x))
        case t.DateType():
            found = st.dates().map(lambda day: (str(day), day))
        case t.DecimalType():
            decimals = st.decimals(-(10**15), 10**15, places=4)
            found = decimals.map(lambda x: (f"{MARK}{x}{MARK}", x)) | decimals.map(
                lambda x: (str(x), x)
            )
        case t.ArrayType():
            found = st.lists(values_of(data_type.elementType), max_size=3).map(_zipped)
        case t.MapType():
            items = st.dictionaries(plain, values_of(data_type.valueType), max_size=3)
            found = items.map(
                lambda some: (
                    {k: v for k, (v, _) in some.items()},
                    [(k, v) for k, (_, v) in some.items()],
                )
            )
        case t.StructType():
            parts = st.tuples(*(values_of(field.dataType) for field in data_type.fields))
            found = st.tuples(parts, st.permutations(data_type.names)).map(
                lambda drawn: (
                    {name: drawn[0][data_type.names.index(name)][0] for name in drawn[1]},
                    dict(zip(data_type.names, (made for _, made in drawn[0]), strict=True)),
                )
            )
    return st.just((None, None)) | found


def _zipped(pairs):
    return [value for value, _ in pairs], [made for _, made in pairs]


@st.composite
def json_files(draw):
    data_type = draw(json_types)
    rows = draw(st.lists(values_of(data_type), max_size=4))
    end = draw(st.sampled_from(LINE_ENDS))
    lines, expected = [], []
    for number, (value, made) in enumerate(rows):
        row = {"zz": draw(st.sampled_from([1, "x", [None], {"k": {}}])), "K": number, "v": value}
        names = draw(st.permutations(list(row)))
        dumped = _dumped({name: row[name] for name in names}, ascii=draw(st.booleans()))
        lines += [""] * draw(st.integers(0, 1)) + [dumped]
        expected.append((number, made))
    wrong = draw(st.sampled_from([None, *WRONG]))
    line = None if wrong is None else draw(st.integers(0, len(lines)))
    if line is not None:
        lines.insert(line, wrong)
    return data_type, end.join(lines).encode("utf-8", "surrogatepass"), expected, line


WRONG = [
    "null",
    "[]",
    '{"k": 1',
    '{"k": 1, "v": null}}',
    '{"v": null}',
    '{"k": 1, "K": 1, "v": null}',
    '{"k": 1.5, "v": null}',
    '{"k": 1, "v": {"other": 1}, "v": null}',
    '{"k": true, "v": null}',
    '{"k": 1, "v": null} {"k": 2, "v": null}',
    '{"k": 9223372036854775808, "v": null}',
    '{"k": 1, "v": \ud800}',
]


def _dumped(row, *, ascii):
    mark = re.escape(json.dumps(MARK, ensure_ascii=ascii)[1:-1])
    return re.sub(f'"{mark}(.*?){mark}"', r"\1", json.dumps(row, ensure_ascii=ascii))


@pytest.mark.parametrize("size", [5, 4 << 20])
@given(json_files())
def test_a_json_file_has_the_objects_that_were_written(size, found):
    data_type, data, expected, wrong = found
    value = t.StructType([t.StructField("v", data_type)])
    source = dp.Pipeline("p").source("s", key="k bigint", value=value)
    reader = SourceReader(Input("s", "json", "", "snapshot"), source, Forms())
    with patch.object(blocks, "_READ_BYTES", size):
        if wrong is None:
            assert [(row["k"], row["v"]) for row in rows_of(data, reader)] == expected
        else:
            with pytest.raises(dp.InvalidChangesError) as error:
                rows_of(data, reader)
            assert error.value.line in (None, wrong + 1)  # None: no row has the key
