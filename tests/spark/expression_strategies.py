"""Random expressions over random rows, to compare the library's evaluator with Spark."""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

COLUMNS: dict[str, str] = {
    "b": "tinyint",
    "h": "smallint",
    "i": "int",
    "j": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "e": "double",
    "p": "decimal(12,2)",
    "q": "decimal(9,5)",
    "m": "decimal(38,10)",
    "s": "string",
    "u": "string",
    "x": "boolean",
    "y": "boolean",
    "t": "date",
    "v": "date",
    "w": "timestamp",
    "n": "decimal(38,0)",
    "k": "decimal(38,38)",
    "r": "decimal(18,9)",
    "z": "decimal(38,30)",
    "a": "array<int>",
    "c": "array<string>",
    "g": "map<string,int>",
    "o": "struct<f: int, g: struct<h: string>, a: array<date>>",
}
DDL = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
_FLOATS = [
    0.0,
    -0.0,
    1.5,
    -2.5,
    0.1,
    1e10,
    1e300,
    -1e300,
    5e-324,
    *map(float, ("nan", "inf", "-inf")),
]
_NINES = "9" * 38
VALUES: dict[str, list[Any]] = {
    "tinyint": [0, 1, -1, 7, 127, -128],
    "smallint": [0, 1, -3, 32767, -32768],
    "int": [0, 1, -1, 2, 10, 2**31 - 1, -(2**31)],
    "bigint": [0, 1, -1, 3, 2**62, 2**63 - 1, -(2**63)],
    "float": [0.0, -0.0, 1.5, -2.5, 16777216.0, *map(float, ("nan", "inf", "-inf"))],
    "double": _FLOATS,
    "decimal(12,2)": [*map(Decimal, ("0.00", "1.25", "-0.01", "9999999999.99", "3.00"))],
    "decimal(9,5)": [*map(Decimal, ("0.00000", "0.33333", "-9999.99999", "2.50000"))],
    "decimal(38,10)": [
        *map(
            Decimal, ("0E-10", "1.5000000000", f"{_NINES[:28]}.9999999999", "-123456789.0123456789")
        )
    ],
    "decimal(38,0)": [*map(Decimal, ("0", "-1", "7", _NINES, f"-{_NINES}", "9223372036854775808"))],
    "decimal(38,38)": [
        *map(Decimal, ("0E-38", f"0.{_NINES}", f"-0.{_NINES}", "0.3", f"0.{'0' * 37}3", "0.5"))
    ],
    "decimal(18,9)": [*map(Decimal, ("0E-9", "1.5", "-7.25", "999999999.999999999", "1E-9"))],
    "decimal(38,30)": [*map(Decimal, ("0E-30", "1.5", "-1.5", f"99999999.{_NINES[:30]}", "1E-30"))],
    "string": [
        "",
        "a",
        "b",
        "Ab ",
        " ü€",
        "\U0001d4b3z",
        "a\nb",
        "12",
        " -7 ",
        "1.5",
        "2013-03-15",
        "true",
        "1e3",
        "aaa",
        "e\u0301",
        "\x00a",
        "\U00010400\u0301a",
    ],
    "boolean": [True, False],
    "array<int>": [[], [1, None, -7, 1], [None], [3, 2, 2**31 - 1, -1], [10]],
    "array<string>": [[], ["b", "a", None, "\U0001d4b3", "\uffff", ""], ["ab"], [None, None]],
    "map<string,int>": [{}, {"a": 1, "b": None}, {"": 5, "Ab ": -7}],
    "struct<f: int, g: struct<h: string>, a: array<date>>": [
        (1, ("a",), [date(2013, 3, 15), None]),
        (None, None, None),
        (7, (None,), []),
    ],
    "date": [
        date(1, 1, 1),
        date(1969, 12, 31),
        date(2000, 2, 29),
        date(2013, 3, 15),
        date(2013, 3, 31),
        date(2011, 12, 30),
        date(1919, 3, 31),
        date(9999, 12, 31),
    ],
    "timestamp": [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2013, 3, 31, 1, 30, tzinfo=UTC),
        datetime(2013, 10, 27, 0, 30, tzinfo=UTC),
        datetime(2013, 10, 27, 1, 30, 15, 5, tzinfo=UTC),
        datetime(2006, 10, 29, 2, 30, 30, tzinfo=UTC),
        datetime(2013, 11, 3, 5, 30, tzinfo=UTC),
        datetime(2011, 12, 30, 9, tzinfo=UTC),
        datetime(2041, 3, 31, 1, 30, tzinfo=UTC),
        datetime(1, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        datetime(9999, 12, 30, 23, 4, 5, 6, tzinfo=UTC),
        datetime(2024, 12, 30, 23, 0, 0, 1, tzinfo=UTC),
    ],
}


def rows(chance: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Rows of `COLUMNS`, with nulls."""
    return [
        tuple(
            None if chance.random() < 0.15 else chance.choice(VALUES[kind])
            for kind in COLUMNS.values()
        )
        for _ in range(count)
    ]


_WORDS = ("true", "F", "yEs", "n", "t", "no", "y", "NaN", "nan", "Infinity", "-inf", "+INF", "x")
_BLANKS = ("", "", "", " ", "\t", "\n")


def number_texts(chance: random.Random, count: int) -> Iterator[str]:
    """Texts that are numbers or booleans, and some that almost are."""

    def digits(*lengths: int) -> str:
        return "".join(chance.choices("0123456789", k=chance.choice(lengths)))

    for _ in range(count):
        number = "".join(
            (
                chance.choice(("", "", "", "-", "+", "--")),
                chance.choice(("", "", "", "000")),
                digits(0, 1, 1, 2, 3, 8, 16, 37, 38, 39, 45),
                chance.choice(("", ".", ".", ".", "..", ",")),
                digits(0, 0, 1, 2, 5, 20, 40),
                chance.choice(("", "", "", "e", "E", "e-", "e+")),
                digits(0, 0, 1, 1, 2),
                chance.choice(("", "", "", "", "", "", "f", "D", "_")),
            )
        )
        first, last = chance.choice(_BLANKS), chance.choice(_BLANKS)
        yield f"{first}{chance.choice((number, number, number, chance.choice(_WORDS)))}{last}"


class Expressions:
    """Texts of expressions, by the family of their type."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def some(self, depth: int) -> str:
        """One of any type."""
        return self.of(self._chance.choice(list(_FAMILIES)), depth)

    def of(self, family: str, depth: int) -> str:
        """One of a family."""
        made = self._chance.choice(_FAMILIES[family])(self, depth - 1) if depth else None
        return made or self._chance.choice(_LEAVES[family])

    def inner(self, family: str, depth: int) -> str:
        """One inside of another, mostly in parentheses."""
        found = self.of(family, depth)
        return found if self._chance.random() < 0.2 else f"({found})"

    def tested(self, family: str, depth: int) -> str:
        """What a test is of; Spark does not parse ``a IS NULL = b`` without parentheses."""
        return f"({self.of(family, depth)})" if family == "boolean" else self.inner(family, depth)

    def one_of(self, *options: str) -> str:
        return self._chance.choice(options)

    def repeated(self, family: str, depth: int) -> str:
        return ", ".join(self.inner(family, depth) for _ in range(self._chance.randint(1, 3)))

    def case(self, family: str, depth: int) -> str:
        branches = " ".join(
            f"WHEN {self.of('boolean', depth)} THEN {self.of(family, depth)}"
            for _ in range(self._chance.randint(1, 2))
        )
        last = self.one_of("", f" ELSE {self.of(family, depth)}")
        return f"CASE {branches}{last} END"

    def matched(self, family: str, depth: int) -> str:
        other = self.one_of("whole", "string", "date")
        value = self.of(other, depth)
        return (
            f"CASE {value} WHEN {self.of(other, depth)} THEN {self.of(family, depth)} "
            f"ELSE {self.of(family, depth)} END"
        )

    def chosen(self, family: str, depth: int) -> str:
        return (
            f"IF({self.of('boolean', depth)}, {self.of(family, depth)}, {self.of(family, depth)})"
        )


_Make = Callable[[Expressions, int], str]


def _binary(family: str, *operators: str) -> _Make:
    return lambda made, depth: (
        f"{made.inner(family, depth)} {made.one_of(*operators)} {made.inner(family, depth)}"
    )


def _branches(family: str) -> list[_Make]:
    return [
        lambda made, depth: made.case(family, depth),
        lambda made, depth: made.matched(family, depth),
        lambda made, depth: made.chosen(family, depth),
    ]


def _compared(made: Expressions, depth: int) -> str:
    family = made.one_of("whole", "whole", "string", "date", "number", "boolean", "timestamp")
    operator = made.one_of("=", "<>", "!=", "==", "<", "<=", ">", ">=", "<=>")
    return f"{made.tested(family, depth)} {operator} {made.tested(family, depth)}"


def _member(made: Expressions, depth: int) -> str:
    family = made.one_of("whole", "string", "date", "number")
    return (
        f"{made.inner(family, depth)} {made.one_of('', 'NOT ')}IN ({made.repeated(family, depth)})"
    )


def _between(made: Expressions, depth: int) -> str:
    family = made.one_of("whole", "string", "date", "number")
    value, low, high = (made.inner(family, depth) for _ in range(3))
    return f"{value} {made.one_of('', 'NOT ')}BETWEEN {low} AND {high}"


def _null(made: Expressions, depth: int) -> str:
    family = made.one_of("whole", "string", "date", "boolean", "number")
    return f"{made.tested(family, depth)} IS {made.one_of('', 'NOT ')}NULL"


def _true(made: Expressions, depth: int) -> str:
    word = made.one_of("TRUE", "FALSE", "NOT TRUE", "NOT FALSE")
    return f"{made.tested('boolean', depth)} IS {word}"


def _like(made: Expressions, depth: int) -> str:
    pattern = made.one_of(
        *(
            "'a%'",
            "'%b%'",
            "'_'",
            "'__%'",
            "'%'",
            "''",
            "'A_ '",
            "'1%'",
            "'%.%'",
            "'[ab]'",
            "'%ü_'",
        ),
        *("'_z'", "'!%%' ESCAPE '!'", "'%!_' ESCAPE '!'", "'aa%' ESCAPE 'a'", "'%%_' ESCAPE '%'"),
    )
    return f"{made.inner('string', depth)} {made.one_of('', 'NOT ')}LIKE {pattern}"


def _part(made: Expressions, depth: int) -> str:
    name = made.one_of(
        *("year", "quarter", "month", "day", "dayofmonth", "weekofyear", "dayofyear"),
        *("dayofweek", "weekday"),
    )
    return f"{name}({made.of(made.one_of('date', 'date', 'timestamp'), depth)})"


def _cast(made: Expressions, depth: int, *types: str) -> str:
    family = made.one_of("whole", "number", "string", "boolean", "date")
    return f"CAST({made.of(family, depth)} AS {made.one_of(*types)})"


_LEAVES = {
    "whole": [
        "b",
        "h",
        "i",
        "j",
        "l",
        "0",
        "1",
        "7",
        "-1",
        "2147483647",
        "-2147483648",
        "3000000000",
        "5L",
        "2S",
        "1Y",
        "NULL",
    ],
    "number": [
        *("n", "k", "r", "z"),
        "p",
        "q",
        "d",
        "e",
        "f",
        "i",
        "l",
        "b",
        "1.5",
        "0.05",
        "-2.50",
        "3",
        "1e2",
        "2.5D",
        "1.5F",
        "m",
    ],
    "string": ["s", "u", "'a'", "''", "'Ab '", "'ü'", "NULL"],
    "boolean": ["x", "y", "TRUE", "FALSE", "NULL"],
    "date": ["t", "v", "DATE '2013-03-15'", "DATE '1969-12-31'", "'2000-02-29'"],
    "timestamp": ["w", "TIMESTAMP '2013-03-31 02:30:00'"],
}
_FAMILIES: dict[str, list[_Make]] = {
    "whole": [
        _binary("whole", "+", "-", "*"),
        _binary("whole", "+", "-", "*"),
        _binary("whole", "%", "DIV"),
        lambda made, depth: f"-{made.inner('whole', depth)}",
        lambda made, depth: f"abs({made.of('whole', depth)})",
        lambda made, depth: f"coalesce({made.repeated('whole', depth)}, {made.of('whole', depth)})",
        lambda made, depth: f"nvl({made.of('whole', depth)}, {made.of('whole', depth)})",
        _part,
        _part,
        lambda made, depth: f"datediff({made.of('date', depth)}, {made.of('date', depth)})",
        lambda made, depth: f"length({made.of('string', depth)})",
        lambda made, depth: _cast(made, depth, "tinyint", "smallint", "int", "bigint"),
        lambda made, depth: _cast(made, depth, "tinyint", "smallint", "int", "bigint"),
        *_branches("whole"),
    ],
    "number": [
        _binary("number", "+", "-", "*"),
        _binary("number", "+", "-", "*"),
        _binary("number", "+", "-", "*", "/", "%"),
        _binary("number", "/", "%"),
        lambda made, depth: f"pmod({made.of('number', depth)}, {made.of('number', depth)})",
        lambda made, depth: f"-{made.inner('number', depth)}",
        lambda made, depth: f"abs({made.of('number', depth)})",
        lambda made, depth: f"coalesce({made.of('number', depth)}, {made.of('number', depth)})",
        lambda made, depth: _cast(
            made, depth, "double", "decimal(10,2)", "decimal(38,10)", "dec(4)"
        ),
        lambda made, depth: _cast(made, depth, "double", "decimal(10,2)", "decimal(20,1)"),
        *_branches("number"),
    ],
    "string": [
        _binary("string", "||"),
        lambda made, depth: f"concat({made.repeated('string', depth)})",
        lambda made, depth: f"{made.one_of('trim', 'ltrim', 'rtrim')}({made.of('string', depth)})",
        lambda made, depth: (
            f"substring({made.of('string', depth)}, {made.one_of('1', '2', '3')}, "
            f"{made.one_of('0', '1', '2')})"
        ),
        lambda made, depth: _cast(made, depth, "string"),
        *_branches("string"),
    ],
    "boolean": [
        _compared,
        _compared,
        _member,
        _between,
        _null,
        _true,
        _like,
        _binary("boolean", "AND", "OR"),
        _binary("boolean", "AND", "OR"),
        lambda made, depth: f"NOT {made.inner('boolean', depth)}",
        *_branches("boolean"),
    ],
    "date": [
        lambda made, depth: f"date_add({made.of('date', depth)}, {made.one_of('b', '-7', '400')})",
        lambda made, depth: f"date_sub({made.of('date', depth)}, {made.one_of('h', '7')})",
        lambda made, depth: (
            f"({made.of('date', depth)}) {made.one_of('+', '-')} {made.one_of('7', 'b', '30')}"
        ),
        lambda made, depth: (
            f"({made.of('date', depth)}) {made.one_of('+', '-')} INTERVAL {made.one_of('7', '40')} "
            f"{made.one_of('DAYS', 'MONTHS')}"
        ),
        lambda made, depth: f"last_day({made.of('date', depth)})",
        lambda made, depth: (
            f"trunc({made.of('date', depth)}, '{made.one_of('YEAR', 'month', 'quarter', 'week')}')"
        ),
        lambda made, depth: (
            f"to_date({made.of(made.one_of('date', 'timestamp', 'string'), depth)})"
        ),
        lambda made, depth: f"CAST({made.of('string', depth)} AS date)",
        lambda made, depth: f"CAST({made.of('timestamp', depth)} AS date)",
        *_branches("date"),
    ],
    "timestamp": [
        lambda made, depth: (
            f"({made.of('timestamp', depth)}) {made.one_of('+', '-')} "
            f"INTERVAL {made.one_of('7', '40')} {made.one_of('HOURS', 'DAYS', 'MONTHS')}"
        ),
        lambda made, depth: (
            f"date_trunc('{made.one_of('day', 'month', 'hour')}', {made.of('timestamp', depth)})"
        ),
        lambda made, depth: f"CAST({made.of('date', depth)} AS timestamp)",
        lambda made, depth: f"coalesce({made.of('timestamp', depth)}, {made.of('date', depth)})",
        *_branches("timestamp"),
    ],
}
