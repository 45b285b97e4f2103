"""Random queries over the stages of `view_queries`: every clause that a view may have.

Any form may stand inside any other one: what is in FROM is a stage or again a query, and what a
query returns may be limited, united, joined, grouped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from random_terms import Column, Terms
from view_queries import STAGES


def columns_of(stage: str, alias: str) -> list[Column]:
    """The columns of a stage under an alias."""
    kinds = {"s": "s", "x": "f"}
    return [(f"{alias}.{name}", kinds.get(name, "n")) for name in STAGES[stage].names]


@dataclass
class Queries(Terms):
    """Writes queries.

    Attributes:
        depth: how many queries may be inside of each other.
    """

    depth: int = 2
    _linked: list[str] = field(default_factory=list)

    def query(self) -> str:
        """A query."""
        text, columns = self._query(self.depth)
        if self.chance(0.3):
            return self._with(text, columns)
        return text

    def _with(self, text: str, columns: list[Column]) -> str:
        """A query as a CTE, which is read once, or joined with itself."""
        cte, one, other = self.name("w"), self.name("v"), self.name("v")
        source, found = f"{cte} AS {one}", _qualified(columns, one)
        if self.chance(0.4):
            more = _qualified(columns, other)
            join = self._join(found, f"{cte} AS {other}", more)
            source, found = f"{source} {join}", _joined(join, found, more)
        return f"WITH {cte} AS ({text}) {self._select(source, found, 0)[0]}"

    def _query(self, depth: int) -> tuple[str, list[Column]]:
        if depth and self.chance(0.2):
            text, columns = self._set_operation(depth - 1)
        else:
            source, columns = self._from(depth)
            text, columns = self._select(source, columns, depth)
        if self.chance(0.2):
            text += f" {self.order(columns, (1, len(columns)))}"
            text += f" LIMIT {self.random.choice([0, 1, 3])}"
            text += self.random.choice(["", " OFFSET 1"])
        return text, columns

    def _set_operation(self, depth: int) -> tuple[str, list[Column]]:
        left, columns = self._query(depth)
        wanted = [t for _, t in columns]
        source, found = self._from(depth)
        where = self._where(found, 0)
        chosen = [self.of(found, t) for t in wanted]
        right = f"SELECT {', '.join(chosen)} FROM {source}{where}"
        word = self.random.choice(["UNION", "INTERSECT", "EXCEPT"])
        every = self.random.choice(["", " ALL"])
        name = self.name("q")
        named = [(self.name("c"), t) for t in wanted]
        alias = ", ".join(n for n, _ in named)
        both = f"({left}) {word}{every} {right}"
        return f"SELECT {alias} FROM ({both}) AS {name}({alias})", named

    def _from(self, depth: int) -> tuple[str, list[Column]]:
        source, columns = self._item(depth)
        for _ in range(2 if self.chance(0.15) else 1):
            if not depth or self.chance(0.45):
                break
            other, more = self._values() if self.chance(0.05) else self._item(depth - 1)
            if self.chance(0.2):
                self._linked.append(f"{self.of(columns, 'n')} = {self.of(more, 'n')}")
                source, columns = f"{source}, {other}", [*columns, *more]
                break  # what follows JOIN would not see what is before the comma
            join = self._join(columns, other, more)
            source, columns = f"{source} {join}", _joined(join, columns, more)
        if depth and self.chance(0.15):
            return self._lateral(source, columns)
        return source, columns

    def _join(self, columns: list[Column], other: str, more: list[Column]) -> str:
        kind = self.random.choice(
            ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
        )
        type_ = "f" if self.chance(0.1) else "n"
        word = "<=>" if self.chance(0.1) else "<" if self.chance(0.06) else "="
        if kind == "FULL JOIN":
            word = "="
        linked = f"{self.of(columns, type_)} {word} {self.of(more, type_)}"
        rest = f" AND {self.compared([*columns, *more])}" if self.chance(0.4) else ""
        if kind == "FULL JOIN":
            rest = ""
        return f"{kind} {other} ON {linked}{rest}"

    def _item(self, depth: int) -> tuple[str, list[Column]]:
        alias = self.name("r")
        if depth and self.chance(0.45):
            made = self.random.choice([self._nested] * 5 + [self._using, self._pivot, self._lists])
            text, columns = made(depth - 1)
            return f"({text}) AS {alias}", _qualified(columns, alias)
        stage = self.random.choice(["t", "t", "u", "u", "f"])
        return f"{stage} AS {alias}", columns_of(stage, alias)

    def _values(self) -> tuple[str, list[Column]]:
        alias, names = self.name("r"), [(self.name("c"), t) for t in "ns"]
        listed = ", ".join(n for n, _ in names)
        values = f"(VALUES (1, 'x'), (2, NULL), (NULL, 'y')) AS {alias}({listed})"
        return values, _qualified(names, alias)

    def _nested(self, depth: int) -> tuple[str, list[Column]]:
        return self._query(depth)

    def _using(self, _: int) -> tuple[str, list[Column]]:
        """Two stages joined by the columns that have the same name, or by one of them."""
        one, other = self.name("r"), self.name("r")
        stages = self.random.sample([*STAGES], 2)
        kind = self.random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        if self.chance(0.4):
            text, shared = f"{stages[0]} AS {one} NATURAL {kind} {stages[1]} AS {other}", {"k", "a"}
        else:
            text, shared = f"{stages[0]} AS {one} {kind} {stages[1]} AS {other} USING (k)", {"k"}
        found = [(name, "n") for name in sorted(shared)]
        for stage, alias in zip(stages, (one, other), strict=True):
            found += [(e, t) for e, t in columns_of(stage, alias) if e.split(".")[1] not in shared]
        named = [(self.name("c"), t) for _, t in found]
        items = ", ".join(f"{e} AS {n}" for (e, _), (n, _) in zip(found, named, strict=True))
        return f"SELECT {items} FROM {text}", named

    def _pivot(self, depth: int) -> tuple[str, list[Column]]:
        text, columns = self._query(depth)
        by = [column for column in columns if column[1] != "f"]
        if len(columns) < 2 or not by:
            return text, columns
        one = self.random.choice(by)
        rest = [column for column in columns if column is not one]
        read, calls = self.random.choice(rest), self.random.choice([1, 2])
        words = self.random.sample(["max", "min", "count"], calls)
        named = [(f"{word}({read[0]})", "n" if word == "count" else read[1]) for word in words]
        names = [self.name("m") for _ in named]
        values = [(self.name("p"), self.constant(one[1])) for _ in range(2)]
        values = list({value: (name, value) for name, value in values}.values())
        made = [
            (name if calls == 1 else f"{name}_{measure}", t)
            for name, _ in values
            for measure, (_, t) in zip(names, named, strict=True)
        ]
        called = ", ".join(f"{e} AS {n}" for (e, _), n in zip(named, names, strict=True))
        listed = ", ".join(f"{value} AS {name}" for name, value in values)
        groups = [column for column in rest if column is not read]
        pivoted = f"SELECT * FROM ({text}) PIVOT ({called} FOR {one[0]} IN ({listed}))"
        return pivoted, [*groups, *made]

    def _lists(self, _: int) -> tuple[str, list[Column]]:
        """The items of a sorted list of each group."""
        stage, alias = self.random.choice(["t", "u", "f"]), self.name("r")
        (key, kind), (item, type_) = self.random.sample(columns_of(stage, alias), 2)
        if type_ == "f":
            (key, kind), (item, type_) = (item, type_), (key, kind)
        group, items, one, place = (self.name(letter) for letter in "clcc")
        made = f"SELECT {key} AS {group}, sort_array(collect_list({item})) AS {items}"
        made = f"{made} FROM {stage} AS {alias} GROUP BY {key}"
        view = self.random.choice(["LATERAL VIEW", "LATERAL VIEW OUTER"])
        if self.chance(0.5):
            call, found = f"explode({items}) g AS {one}", [(group, kind), (one, type_)]
        else:
            call = f"posexplode({items}) g AS {place}, {one}"
            found = [(group, kind), (one, type_), (place, "n")]
        chosen = ", ".join(e for e, _ in found)
        return f"SELECT {chosen} FROM ({made}) {view} {call}", found

    def _lateral(self, source: str, columns: list[Column]) -> tuple[str, list[Column]]:
        """What is made of each row of a FROM."""
        numbers, place, item = [self.of(columns, "n") for _ in range(2)], *map(self.name, "cc")
        alias, inner = self.name("g"), self.name("x")
        array = f"array({', '.join(numbers)})"
        match self.random.choice(["view", "outer", "function", "rows", "groups", "value"]):
            case "view":
                return (
                    f"{source} LATERAL VIEW explode({array}) {alias} AS {item}",
                    [*columns, (item, "n")],
                )
            case "outer":
                call = f"posexplode({array}) {alias} AS {place}, {item}"
                return f"{source} LATERAL VIEW OUTER {call}", [
                    *columns,
                    (item, "n"),
                    (place, "n"),
                ]
            case "function":
                call = f"LATERAL explode({array}) AS {alias}({item})"
                return f"{source} JOIN {call}", [*columns, (f"{alias}.{item}", "n")]
            case kind:
                stage = self.random.choice([*STAGES])
                own = columns_of(stage, inner)
                where = f"{inner}.{self.random.choice('ka')} = {numbers[0]}"
                value, (key, type_), call = self.value(own), own[1], self.call(own)
                made, group = [(item, value[1])], ""
                chosen = f"{value[0]} AS {item}"
                if kind == "groups":
                    made, group = [(item, type_), (place, call[1])], f" GROUP BY {key}"
                    chosen = f"{key} AS {item}, {call[0]} AS {place}"
                elif kind == "value":
                    made, chosen = [(place, call[1])], f"{call[0]} AS {place}"
                elif self.chance(0.4):
                    where += f" AND {self.compared([*own, *columns])}"
                query = f"SELECT {chosen} FROM {stage} AS {inner} WHERE {where}{group}"
                word, on = self.random.choice([(",", ""), (" LEFT JOIN", " ON true")])
                lateral = f"{word} LATERAL ({query}) AS {alias}{on}"
                return f"{source}{lateral}", [*columns, *_qualified(made, alias)]

    def _select(self, source: str, columns: list[Column], depth: int) -> tuple[str, list[Column]]:
        where = self._where(columns, depth)
        rest = f" FROM {source}{where}"
        if self.chance(0.4):
            return self._grouped(rest, columns, depth)
        chosen = [self._value(columns, depth) for _ in range(self.random.choice([1, 2, 3]))]
        if self.chance(0.25):
            return self._with_windows(chosen, columns, rest)
        named = [(self.name("c"), t) for _, t in chosen]
        items = ", ".join(f"{e} AS {n}" for (e, _), (n, _) in zip(chosen, named, strict=True))
        if self.chance(0.06):
            item = self.name("c")
            array = f"array({self.of(columns, 'n')}, {self.of(columns, 'n')})"
            return f"SELECT {items}, explode({array}) AS {item}{rest}", [*named, (item, "n")]
        if self.chance(0.04):
            word, item = self.name("c"), self.name("c")
            pairs = f"'v', {self.of(columns, 'n')}, 'w', {self.of(columns, 'n')}"
            stacked = f"SELECT {items}, stack(2, {pairs}) AS ({word}, {item}){rest}"
            return stacked, [*named, (word, "s"), (item, "n")]
        distinct = "DISTINCT " if self.chance(0.2) else ""
        return f"SELECT {distinct}{items}{rest}", named

    def _grouped(self, rest: str, columns: list[Column], depth: int) -> tuple[str, list[Column]]:
        keys = [self.random.choice(columns) for _ in range(self.random.choice([0, 1, 1, 2, 2]))]
        keys = list(dict.fromkeys(keys))
        calls = [self.call(columns) for _ in range(self.random.choice([1, 2]))]
        chosen, more = [*keys, *calls], list[Column]()
        if keys:
            sets, more = self._groups(keys)
            rest += f" GROUP BY {sets}"
        if self.chance(0.4):
            word = self.random.choice([">", "<", "<>"])
            conditions = [f"count(*) {word} 1", self.compared(chosen)]
            if depth:
                conditions.append(f"count(*) {word} (SELECT min(n) FROM u)")
            rest += f" HAVING {self.random.choice(conditions)}"
        if self.chance(0.15):
            return self._with_windows([*chosen, *more], chosen, rest)
        chosen += more
        named = [(self.name("c"), t) for _, t in chosen]
        items = ", ".join(f"{e} AS {n}" for (e, _), (n, _) in zip(chosen, named, strict=True))
        return f"SELECT {items}{rest}", named

    def _groups(self, keys: Sequence[Column]) -> tuple[str, list[Column]]:
        """What groups are made by, and functions of these."""
        names = [e for e, _ in keys]
        every, first = ", ".join(names), names[0]
        if self.chance(0.65):
            return every, []
        more = [(f"grouping({first})", "n")] if self.chance(0.5) else []
        sets = [
            f"ROLLUP ({every})",
            f"CUBE ({every})",
            f"GROUPING SETS (({every}), ({first}))",
            f"GROUPING SETS (({every}), ())",
            f"GROUPING SETS (({first}), ({names[-1]}))",
        ]
        if len(names) > 1:
            sets += [f"{first}, ROLLUP ({names[1]})", f"{first}, CUBE ({names[1]})"]
        return self.random.choice(sets), more

    def _with_windows(
        self, chosen: list[Column], columns: list[Column], rest: str
    ) -> tuple[str, list[Column]]:
        """A SELECT with window functions, and perhaps a QUALIFY."""
        calls = [self.over(columns) for _ in range(self.random.choice([1, 2]))]
        named = [(self.name("c"), t) for _, t in (*chosen, *calls)]
        both = zip((*chosen, *calls), named, strict=True)
        items = ", ".join(f"{e} AS {n}" for (e, _), (n, _) in both)
        if self.chance(0.3):
            number, _ = self.over(columns, is_number=True)
            if not _is_by_place(number) or not any(_is_by_place(call) for call, _ in calls):
                rest += f" QUALIFY {number} < 3"
        return f"SELECT {items}{rest}", named

    def _where(self, columns: list[Column], depth: int) -> str:
        linked = [self._linked.pop()] if self._linked else []
        parts = []
        if self.chance(0.4):
            parts.append(self.compared(columns))
        if depth and self.chance(0.4):
            parts.append(self._subquery(columns))
        condition = self.random.choice([" AND ", " OR "]).join(parts)
        both = " AND ".join([*linked, *([f"({condition})"] if condition else [])])
        return f" WHERE {both}" if both else ""

    def _subquery(self, columns: list[Column]) -> str:
        """A condition on rows of a stage, or of a query."""
        value, inner = self.of(columns, "n"), self.name("x")
        word = self.random.choice(["IN", "NOT IN", "EXISTS", "NOT EXISTS", ">", "<="])
        if word in {">", "<="}:
            return f"{value} {word} {self._scalar(columns)}"
        before = f"{value} {word}" if word.endswith("IN") else word
        if self.chance(0.2):
            text, found = self._query(0)
            chosen = self.of(_qualified(found, inner), "n")
            return f"{before} (SELECT {chosen} FROM ({text}) AS {inner})"
        linked = self.random.choice(["", f" WHERE {inner}.k = {self.of(columns, 'n')}"])
        if linked and self.chance(0.4):
            linked += f" AND {inner}.n <> {self.of(columns, 'n')}"
        return f"{before} (SELECT {inner}.n FROM u AS {inner}{linked})"

    def _scalar(self, columns: list[Column]) -> str:
        inner = self.name("x")
        call = self.random.choice([f"max({inner}.n)", "count(*)", f"sum({inner}.a)"])
        if self.chance(0.15):
            order = f"ORDER BY {inner}.n {self.direction()}"
            return f"(SELECT {inner}.n FROM u AS {inner} {order} LIMIT 1)"
        linked = self.random.choice(["", f" WHERE {inner}.k = {self.of(columns, 'n')}"])
        return f"(SELECT {call} FROM u AS {inner}{linked})"

    def _value(self, columns: list[Column], depth: int) -> Column:
        if depth and self.chance(0.12):
            return self._scalar(columns), "n"
        if depth and self.chance(0.05):
            return f"CASE WHEN {self._subquery(columns)} THEN 1 ELSE 0 END", "n"
        return self.value(columns)


def _joined(join: str, columns: list[Column], more: list[Column]) -> list[Column]:
    """The columns of a FROM that ends with a join."""
    return columns if join.startswith(("LEFT SEMI", "LEFT ANTI")) else [*columns, *more]


def _qualified(columns: Sequence[Column], alias: str) -> list[Column]:
    return [(f"{alias}.{name}", t) for name, t in columns]


def _is_by_place(call: str) -> bool:
    """Whether rows that are equal may have different values of a window function.

    Where a query has two of these, which row has which pair is not determined. In SELECT they are
    beside all other columns of the row; but a QUALIFY takes rows by one and leaves the other.
    """
    return any(word in call for word in ("row_number(", "ntile(", "lag(", "lead(", " ROWS "))
