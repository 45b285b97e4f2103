"""Random queries over two feeders, key-local ones and others, in SQL of both Spark and DuckDB.

About half of them are key-local by design: they use keys as keys more often than other columns, but
no clause knows the rules.
"""

from dataclasses import dataclass

from hypothesis import strategies as st

FEEDERS = {"orders": ["k", "x", "y"], "lines": ["k", "x", "z"]}


@dataclass(frozen=True)
class Drawn:
    """A query and the names of its columns."""

    sql: str
    names: list[str]


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Queries, with a CTE in some, whose columns have different names."""
    cte = draw(_queries(depth=1)) if draw(_chance(3)) else None
    tables = {**FEEDERS, **({"c": cte.names} if cte else {})}
    body = draw(_queries(depth=2, tables=tables))
    return f"WITH c AS ({cte.sql}) {body.sql}" if cte else body.sql


def _chance(one_in: int) -> st.SearchStrategy[bool]:
    return st.integers(1, one_in).map(lambda number: number == one_in)


@st.composite
def _queries(draw: st.DrawFn, *, depth: int, tables: dict[str, list[str]] = FEEDERS) -> Drawn:
    first = draw(_selects(depth=depth, tables=tables))
    if not draw(_chance(4)):
        return first
    operation = draw(st.sampled_from(["UNION ALL"] * 3 + ["UNION", "INTERSECT", "EXCEPT ALL"]))
    second = draw(_selects(depth=0, tables=tables, width=len(first.names)))
    return Drawn(f"{first.sql} {operation} {second.sql}", first.names)


@st.composite
def _selects(
    draw: st.DrawFn, *, depth: int, tables: dict[str, list[str]], width: int | None = None
) -> Drawn:
    """One SELECT: FROM first, since the other clauses name its columns."""
    source, columns = draw(_froms(depth=depth, tables=tables))
    where = f" WHERE {draw(_conditions(columns, tables))}" if draw(_chance(3)) else ""
    width = draw(st.integers(1, 3)) if width is None else width
    chosen = [draw(_columns(columns)) for _ in range(width)]
    kind = draw(st.sampled_from(["plain", "plain", "grouped", "grouped", "distinct", "window"]))
    if kind == "grouped":
        group = list(dict.fromkeys([*chosen, draw(_columns(columns))]))
        if width > 1 or draw(st.booleans()):
            chosen[-1] = f"count({draw(_columns(columns))})"
        by_number = draw(st.booleans())  # the last one is grouped by too, or is an aggregate
        if by_number:
            group = [str(chosen.index(one) + 1) if one in chosen else one for one in group]
        where += f" GROUP BY {', '.join(group)}"
    elif kind == "window":
        partition = ", ".join(draw(st.lists(_columns(columns), min_size=1, max_size=2)))
        chosen[-1] = f"sum({draw(_columns(columns))}) OVER (PARTITION BY {partition})"
    elif kind == "plain" and draw(_chance(3)):
        chosen[-1] = f"coalesce({draw(_columns(columns))}, {draw(_columns(columns))})"
    names = [f"n{number}" for number in range(width)]
    if draw(st.booleans()):  # a misleading name, or the right one
        names[0] = "k"
    listed = ", ".join(f"{sql} AS {name}" for sql, name in zip(chosen, names, strict=True))
    distinct = "DISTINCT " if kind == "distinct" else ""
    return Drawn(f"SELECT {distinct}{listed} FROM {source}{where}", names)


@st.composite
def _conditions(draw: st.DrawFn, columns: list[str], tables: dict[str, list[str]]) -> str:
    """A comparison, or one with a subquery that may be correlated."""
    column = draw(_columns(columns))
    kind = draw(st.sampled_from(["plain", "EXISTS", "NOT EXISTS", "IN", "scalar"]))
    if kind == "plain":
        return f"{column} > 0"
    table = draw(st.sampled_from(sorted(tables)))
    names = [f"s.{name}" for name in tables[table]]
    name = draw(_columns(names))
    inner = f"FROM {table} s WHERE {draw(_equalities(columns, names))}"
    match kind:
        case "IN":
            return f"{column} IN (SELECT {name} {inner})"
        case "scalar":
            return f"{column} = (SELECT max({name}) {inner})"
    return f"{kind} (SELECT * {inner})"


@st.composite
def _equalities(draw: st.DrawFn, columns: list[str], names: list[str]) -> str:
    """What a join's ON says of the columns of its sides: in most cases that keys are equal."""
    one = draw(_columns(columns))
    if len(columns) > 1 and draw(_chance(4)):
        one = f"coalesce({one}, {draw(_columns(columns))})"
    sign = draw(st.sampled_from(["=", "=", "IS NOT DISTINCT FROM"]))
    condition = f"{one} {sign} {draw(_columns(names))}"
    if draw(_chance(3)):
        connective = draw(st.sampled_from(["AND", "AND", "OR"]))
        other = f"{draw(_columns(columns))} = {draw(_columns(names))}"
        condition = f"{condition} {connective} {other}"
    return condition


def _columns(columns: list[str]) -> st.SearchStrategy[str]:
    """One of the columns; those named like a key in half of the cases."""
    keys = [column for column in columns if column.rpartition(".")[2] == "k"]
    return st.sampled_from(columns) | st.sampled_from(keys or columns)


@st.composite
def _froms(draw: st.DrawFn, *, depth: int, tables: dict[str, list[str]]) -> tuple[str, list[str]]:
    """What stands after FROM, and the columns as the other clauses can name them."""
    source, first = draw(_items(depth=depth, tables=tables, alias="a"))
    columns = [f"a.{name}" for name in first]
    for alias in "bc"[: draw(st.sampled_from([0, 0, 1, 1, 2]))]:
        item, names = draw(_items(depth=depth - 1, tables=tables, alias=alias))
        names = [f"{alias}.{name}" for name in names]
        kind = draw(st.sampled_from(["", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]))
        condition = f"ON {draw(_equalities(columns, names))}"
        if alias == "b" and draw(_chance(4)):
            common = [name for name in first if f"b.{name}" in names]
            condition = f"USING ({', '.join(common)})" if common else condition
        source += f" {kind} JOIN {item} {condition}"
        columns += [] if kind in {"SEMI", "ANTI"} else names
    return source, columns


@st.composite
def _items(
    draw: st.DrawFn, *, depth: int, tables: dict[str, list[str]], alias: str
) -> tuple[str, list[str]]:
    if draw(_chance(8)):
        return f"(VALUES (1, 1), (2, NULL)) {alias}(k, x)", ["k", "x"]
    if depth > 0 and draw(_chance(3)):
        inner = draw(_queries(depth=depth - 1, tables=tables))
        return f"({inner.sql}) {alias}", inner.names
    name = draw(st.sampled_from(sorted(tables)))
    return f"{name} {alias}", tables[name]
