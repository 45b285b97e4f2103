"""Files of rows: what is in them comes into the store unchanged, or they are refused by place."""

import pytest
from file_cases import CASES

import deltaproduce as dp
from deltaproduce.cli.inputs import tables
from deltaproduce.cli.inputs.reading.reader import Reader
from deltaproduce.cli.inputs.reading.texts import Forms
from deltaproduce.projects.file import Input

NAMES = [case.name for case in CASES]


def reader(case, mode):
    source = dp.Pipeline("p").source("s", key=case.key, value=case.value)
    return Reader(Input("s", case.format, "", mode, **case.settings), source, Forms())


@pytest.mark.parametrize("mode", ["snapshot", "changes"])
@pytest.mark.parametrize("fillers", [0, 30_000])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_file_is_read_as_it_is_or_refused_by_its_place(case, fillers, mode, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(case.data(fillers))
    read = tables.snapshot if mode == "snapshot" else tables.changes
    if case.rows is None:
        with pytest.raises(dp.InvalidChangesError) as error:
            read([path], reader(case, mode))
        line = None if case.line is None else case.line + fillers
        found = error.value
        assert (found.file, found.line, found.column) == (str(path), line, case.column)
        assert str(path) in str(found)
        assert line is None or f"line {line}" in str(found)
        assert case.column is None or case.column in str(found)
    else:
        rows = read([path], reader(case, mode))
        assert len(rows) == fillers + len(case.rows)
        assert rows.slice(fillers).to_pylist() == case.rows
