"""User-defined aggregates: with and without subtract, of one and of several arguments."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple


class Squares:
    """The sum of squares, null of nulls alone; its state is a struct."""

    state = "struct<n: bigint, total: decimal(38,0)>"
    type = "decimal(38,0)"

    def zero(self) -> Any:
        return 0, Decimal(0)

    def add(self, state: Any, value: int | None) -> Any:
        return state if value is None else (state.n + 1, state.total + value * value)

    def merge(self, a: Any, b: Any) -> Any:
        return {"n": a.n + b.n, "total": a.total + b.total}

    def subtract(self, a: Any, b: Any) -> Any:
        return a._replace(n=a.n - b.n, total=a.total - b.total)

    def result(self, state: Any) -> Decimal | None:
        return state.total if state.n else None


@dataclass(frozen=True)
class Least:
    """The least different texts: a bounded set, from which nothing can be taken."""

    size: int
    state = "array<string>"
    type = "array<string>"

    def zero(self) -> Any:
        return []

    def add(self, state: list[str], text: str | None) -> list[str]:
        return state if text is None else self.merge(state, [text])

    def merge(self, a: list[str], b: list[str]) -> list[str]:
        return sorted({*a, *b})[: self.size]

    def result(self, state: list[str]) -> list[str]:
        return state


class Span(NamedTuple):
    least: datetime | None
    most: datetime | None


class Moments:
    """The first moment and the last one; its state is null of nothing."""

    state = "struct<least: timestamp, most: timestamp>"
    type = "struct<first: timestamp, last: timestamp>"

    def zero(self) -> None:
        return None

    def add(self, state: Any, at: datetime | None) -> Any:
        return state if at is None else self.merge(state, Span(at, at))

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return a or b
        return Span(min(a.least, b.least), max(a.most, b.most))

    def result(self, state: Any) -> Any:
        return None if state is None else {"first": state.least, "last": state.most}


class Weighted:
    """How much of prices there is by weight: of two arguments, with what of them is null."""

    state = "struct<total: decimal(38,2), nulls: array<struct<weight: boolean, price: boolean>>>"
    type = "struct<total: decimal(38,2), nulls: bigint>"

    def zero(self) -> Any:
        return Decimal("0.00"), []

    def add(self, state: Any, weight: int | None, price: Decimal | None) -> Any:
        if weight is None or price is None:
            nulls = [*state.nulls, (weight is None, price is None)]
            return state._replace(nulls=sorted(nulls))
        return state._replace(total=state.total + weight % 10 * price)

    def merge(self, a: Any, b: Any) -> Any:
        return a.total + b.total, sorted([*a.nulls, *b.nulls])

    def subtract(self, a: Any, b: Any) -> Any:
        left = Counter(a.nulls) - Counter(b.nulls)
        return a.total - b.total, sorted(left.elements())

    def identity_of(self, state: Any) -> bool:
        return not state.total and not state.nulls

    def result(self, state: Any) -> Any:
        return state.total, sum(null.weight or null.price for null in state.nulls)
