"""Small files with what a store has after a run, or with the place that the refusal names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """A file of a source.

    Attributes:
        filler: a row like the others, with a place for its number; any many may come first.
        rows: what the store has then; None if the file is refused.
        line: the line that the refusal names, and `column` the column.
    """

    name: str
    format: str
    key: str
    value: str
    content: str | bytes
    filler: str
    rows: list[dict[str, Any]] | None = None
    line: int | None = None
    column: str | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def data(self, fillers: int = 0) -> bytes:
        """Return the file, with fillers after its header if it has one."""
        found = self.content if isinstance(self.content, bytes) else self.content.encode()
        rows = "".join(self.filler.format(n=n) + "\n" for n in range(fillers)).encode()
        if self.format == "json":
            return rows + found
        header, _, rest = found.partition(b"\n")
        return header + b"\n" + rows + rest


CASES = [
    Case(
        "a line end in quotes",
        "csv",
        "k string",
        "t string",
        'k,t\nx,"a\nb"\ny,c\n',
        "f{n},-",
        rows=[{"k": "x", "t": "a\nb"}, {"k": "y", "t": "c"}],
    ),
    Case(
        "doubled quotes",
        "csv",
        "k string",
        "t string",
        'k,t\nx,"a ""b, c"" d"\n',
        'f{n},"-"',
        rows=[{"k": "x", "t": 'a "b, c" d'}],
    ),
    Case("a short row", "csv", "k string", "t string, n bigint", "k,t,n\nx,a\n", "f{n},,", line=2),
    Case(
        "a long row",
        "csv",
        "k string",
        "t string, n bigint",
        "k,t,n\nx,a,1\ny,b,1,2\n",
        "f{n},,",
        line=3,
    ),
    Case(
        "more digits than a decimal has",
        "csv",
        "k string",
        "d decimal(10,2)",
        "k,d\nx,1.005\n",
        "f{n},1.05",
        line=2,
        column="d",
    ),
    Case(
        "a year for a date",
        "csv",
        "k string",
        "t date",
        "k,t\nx,2026\n",
        "f{n},2026-01-31",
        line=2,
        column="t",
    ),
    Case(
        "an empty text in quotes is a text",
        "csv",
        "k string",
        "t string",
        'k,t\nx,""\ny,\n',
        "f{n},-",
        rows=[{"k": "x", "t": ""}, {"k": "y", "t": None}],
    ),
    Case(
        "leading zeros stay in a text",
        "csv",
        "zip string",
        "n bigint",
        "zip,n\n0870,1\n",
        "f{n},007",
        rows=[{"zip": "0870", "n": 1}],
    ),
    Case(
        "hexadecimal digits",
        "csv",
        "k string",
        "n bigint",
        "k,n\nx,0x10\n",
        "f{n},10",
        line=2,
        column="n",
    ),
    Case(
        "a double that is too large",
        "csv",
        "k string",
        "x double",
        "k,x\na,1e400\n",
        "f{n},1e300",
        line=2,
        column="x",
    ),
    Case(
        "a double that is too small",
        "csv",
        "k string",
        "x double",
        "k,x\na,1e-400\n",
        "f{n},0e-400",
        line=2,
        column="x",
    ),
    Case("Latin-1", "csv", "k string", "t string", b"k,t\nx,\xe9\n", "f{n},é", line=2, column="t"),
    Case(
        "names in another case",
        "csv",
        "Id bigint",
        "Name string",
        "ID,NAME\n1,ann\n",
        "1{n},-",
        rows=[{"Id": 1, "Name": "ann"}],
    ),
    Case(
        "a broken line",
        "json",
        "k string",
        "n bigint",
        '{"k": "x", "n": 1}\n{"k": "y", "n": 2\n',
        '{{"k": "f{n}", "n": 1}}',
        line=2,
    ),
    Case(
        "a fraction for a whole number",
        "json",
        "k string",
        "n bigint",
        '{"k": "x", "n": 1.7}\n',
        '{{"k": "f{n}", "n": 1}}',
        line=1,
        column="n",
    ),
    Case(
        "fields of a struct by name",
        "json",
        "id bigint",
        "p struct<name:string,city:string>",
        '{"id": 1, "p": {"city": "Oslo", "name": "Ann"}}\n',
        '{{"id": 1{n}, "p": {{"name": "-", "city": "-"}}}}',
        rows=[{"id": 1, "p": {"name": "Ann", "city": "Oslo"}}],
    ),
    Case(
        "a key column that is missing",
        "json",
        "id bigint",
        "name string",
        '{"nr": 1, "name": "ann"}\n',
        '{{"nr": 1{n}, "name": "-"}}',
        column="id",
    ),
    Case(
        "null is no row",
        "json",
        "id bigint",
        "name string",
        '{"id": 1, "name": "ann"}\nnull\n',
        '{{"id": 1{n}, "name": "-"}}',
        line=2,
    ),
    Case(
        "a column of two types that is not declared",
        "json",
        "id bigint",
        "name string",
        '{"id": 1, "name": "a", "zz": 1}\n{"id": 2, "name": "b", "zz": "x"}\n',
        '{{"id": 1{n}, "name": "-", "zz": [1]}}',
        rows=[{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
    ),
    Case(
        "a whole number that is too large",
        "json",
        "id bigint",
        "n bigint",
        '{"id": 1, "n": 9223372036854775808}\n',
        '{{"id": 1{n}, "n": 9223372036854775807}}',
        line=1,
        column="n",
    ),
]
