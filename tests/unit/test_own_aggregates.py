"""User-defined aggregates: which objects count as one, when two differ, and their laws."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from arrow_aggregates import WeightedColumns
from own_aggregates import Least, Moments, Squares, Weighted

import deltaproduce as dp
from deltaproduce import DefinitionError, agg
from deltaproduce.model.fingerprints import fingerprint
from deltaproduce.testing import check_aggregate


class Sum:
    """The sum of whole numbers; null counts as 0."""

    state = "bigint"
    type = "bigint"

    def zero(self) -> Any:
        return 0

    def add(self, state: Any, value: Any) -> Any:
        return state + (value or 0)

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def subtract(self, a: Any, b: Any) -> Any:
        return a - b

    def result(self, state: Any) -> Any:
        return state


VALUES = [1, -1, None, 7, 2]


@pytest.mark.parametrize(
    ("aggregate", "values"),
    [
        (Sum(), VALUES),
        (Squares(), VALUES),
        (Least(2), ["a", None, "c", "b", ""]),
        (Weighted(), [(1, Decimal("0.50")), (None, Decimal(1)), (3, None), (None, None)]),
    ],
)
def test_an_aggregate_that_holds_all_laws_passes(aggregate: object, values: list[Any]) -> None:
    check_aggregate(aggregate, values)


def of_sum(**members: Any) -> object:
    """A sum with other members."""
    return type("Sum", (Sum,), members)()


def remembered(*given: Any, calls: list[Any]) -> int:
    calls.append(given)
    return len(calls)


def grown(state: list[int], value: Any) -> list[int]:
    state.append(value or 0)
    return state


BROKEN: dict[str, tuple[str, object]] = {
    "add changes its state": (
        "arguments unchanged",
        of_sum(
            state="array<bigint>",
            zero=lambda _: [],
            add=lambda _, state, value: grown(state, value),
            merge=lambda _, a, b: [*a, *b],
            subtract=None,
            result=lambda _, state: sum(state),
        ),
    ),
    "merge counts its calls": (
        "determinism",
        of_sum(merge=lambda _, a, b, calls=[]: remembered(a, b, calls=calls)),
    ),
    "a state of another type": ("types", of_sum(add=lambda _, state, value: str(state))),
    "a value of another type": ("types", of_sum(result=lambda _, state: [state])),
    "a value too large": ("types", of_sum(type="tinyint", result=lambda _, state: state + 127)),
    "an error": ("types", of_sum(result=lambda _, state: 1 // state)),
    "a state that is not what it was": (
        "round trip",
        of_sum(
            state="array<bigint>",
            zero=lambda _: (),
            add=lambda _, state, value: (*state, value or 0),
            merge=lambda _, a, b: (*a, *b),
            subtract=None,
            result=lambda _, state: sum(state) if isinstance(state, tuple) else -1,
        ),
    ),
    "a zero that counts": ("identity", of_sum(zero=lambda _: 1, subtract=None)),
    "no identity of zero": ("identity", of_sum(identity_of=lambda _, state: False)),
    "an identity that counts": ("identity", of_sum(identity_of=lambda _, state: True)),
    "the first": (
        "commutativity",
        of_sum(
            zero=lambda _: None,
            add=lambda _, state, value: value if state is None else state,
            merge=lambda _, a, b: b if a is None else a,
            subtract=None,
        ),
    ),
    "the average of averages": (
        "associativity",
        of_sum(
            zero=lambda _: None,
            add=lambda _, state, value: Sum.add(_, state or 0, value),
            merge=lambda _, a, b: a if b is None else b if a is None else (a + b) * 2,
            subtract=None,
        ),
    ),
    "the last that is added": (
        "order independence",
        of_sum(
            add=lambda _, state, value: abs(value or 0),
            merge=lambda _, a, b: max(a, b),
            subtract=None,
        ),
    ),
    "a sum of doubles": (
        "associativity",
        of_sum(state="double", type="double", zero=lambda _: 0.0, subtract=None),
    ),
    "parts that count less": (
        "parts",
        of_sum(merge=lambda _, a, b: max(a, b), add=lambda _, s, v: s + abs(v or 0), subtract=None),
    ),
    "one that takes nothing": ("subtraction", of_sum(subtract=lambda _, a, b: a)),
    "one that takes too much": ("subtraction", of_sum(subtract=lambda _, a, b: 0)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_law_is_found(name: str) -> None:
    """And is named, with values that show it."""
    law, aggregate = BROKEN[name]
    values = VALUES if name != "a sum of doubles" else [1e308, -1e308, 1.0]
    with pytest.raises(AssertionError, match=f"Sum, {law}.*values \\["):
        check_aggregate(aggregate, values)


class SumOfColumns:
    """The sum of whole numbers, of many groups at once; null counts as 0."""

    input_types = ("bigint",)
    state = "bigint"
    type = "bigint"

    def add(self, groups: Any, size: int, numbers: Any) -> Any:
        found = np.zeros(size, np.int64)
        np.add.at(found, groups.to_numpy(), numbers.fill_null(0).to_numpy())
        return pa.array(found)

    def merge(self, groups: Any, size: int, states: Any) -> Any:
        return self.add(groups, size, states)

    def subtract(self, a: Any, b: Any) -> Any:
        return pc.subtract(a, b)

    def result(self, states: Any) -> Any:
        return states


def of_columns(**members: Any) -> object:
    """A sum over columns with other members."""
    return type("SumOfColumns", (SumOfColumns,), members)()


@pytest.mark.parametrize(
    ("aggregate", "values"),
    [
        (SumOfColumns(), VALUES),
        pytest.param(
            WeightedColumns(),
            [(1, Decimal("0.50")), (None, Decimal(1)), (3, None)],
            marks=pytest.mark.long,
        ),
    ],
)
def test_an_aggregate_over_columns_that_holds_all_laws_passes(
    aggregate: object, values: list[Any]
) -> None:
    check_aggregate(aggregate, values)


BROKEN_OVER_COLUMNS: dict[str, tuple[str, object]] = {
    "it counts its calls": (
        "determinism",
        of_columns(result=lambda _, s, calls=[]: pa.repeat(remembered(calls=calls), len(s))),
    ),
    "one state for all groups": (
        "types",
        of_columns(add=lambda _, groups, size, numbers: pa.array([pc.sum(numbers).as_py() or 0])),
    ),
    "a scalar": ("types", of_columns(result=lambda _, states: pc.sum(states))),
    "an array of another type": ("types", of_columns(result=lambda _, s: s.cast(pa.string()))),
    "an error": ("types", of_columns(result=lambda _, states: pc.divide(1, states))),
    "a zero that counts": (
        "identity",
        of_columns(
            add=lambda _, g, size, n: pc.add(SumOfColumns().add(g, size, n), 1),
            merge=lambda _, g, size, n: SumOfColumns().add(g, size, n),
            subtract=None,
        ),
    ),
    "parts that count less": (
        "parts",
        of_columns(
            add=lambda _, g, size, n: SumOfColumns().add(g, size, pc.abs(n)),
            merge=lambda _, groups, size, states: pa.array(
                [max([0, *states.filter(pc.equal(groups, n)).to_pylist()]) for n in range(size)]
            ),
            subtract=None,
        ),
    ),
    "rows that go to the first group": (
        "groups",
        of_columns(
            add=lambda _, g, size, n: SumOfColumns().add(
                pa.array([0] * len(g), pa.int64()), size, n
            ),
        ),
    ),
    "values of all groups together": (
        "groups",
        of_columns(result=lambda _, states: pc.subtract(states, pc.min(states))),
    ),
    "what goes from the first group": (
        "groups",
        of_columns(subtract=lambda _, a, b: pc.subtract(a, b[0])),
    ),
    "one that takes nothing": ("subtraction", of_columns(subtract=lambda _, a, b: a)),
}


@pytest.mark.parametrize("name", BROKEN_OVER_COLUMNS)
def test_each_broken_law_over_columns_is_found(name: str) -> None:
    law, aggregate = BROKEN_OVER_COLUMNS[name]
    with pytest.raises(AssertionError, match=f"SumOfColumns, {law}.*values \\["):
        check_aggregate(aggregate, VALUES)


def test_types_of_columns_are_those_that_are_declared() -> None:
    """Where they are not, the definition is refused; no column is cast unseen."""
    assert stage(SumOfColumns(), over="CAST(n AS bigint)")
    with pytest.raises(DefinitionError, match=r"takes bigint .* is given int") as caught:
        stage(SumOfColumns())
    assert (caught.value.stage, caught.value.column) == ("it", "own")
    with pytest.raises(DefinitionError, match="2 columns"):
        agg.own(SumOfColumns(), "n", "n")


def test_no_values_test_nothing() -> None:
    with pytest.raises(AssertionError, match="no values"):
        check_aggregate(Sum(), [])


@pytest.mark.parametrize(
    "aggregate",
    [
        *(None, 1, "sum", Sum),
        *(of_sum(**{name: None}) for name in ("zero", "add", "merge", "result", "state", "type")),
        *(of_sum(subtract=1), of_sum(identity_of="x")),
        *(of_sum(state=one) for one in ("", "x", "bigint, n bigint", "bigint not null", "char(3)")),
        *(of_sum(type=one) for one in (int, 1, "struct<>", "bigint desc")),
        *(of_columns(**{name: None}) for name in ("add", "merge", "result", "state", "type")),
        *(of_columns(input_types=one) for one in ((), "bigint", 1, ("x",), ("a int, b int",))),
    ],
)
def test_what_is_no_aggregate_is_refused(aggregate: object) -> None:
    with pytest.raises(DefinitionError, match=r"agg\.own is given"):
        agg.own(aggregate, "n")
    with pytest.raises(DefinitionError):
        check_aggregate(aggregate, [1])


@pytest.mark.parametrize("columns", [(), ("",), (1,), ("n", None)])
def test_an_aggregate_is_given_columns(columns: tuple[Any, ...]) -> None:
    with pytest.raises(DefinitionError):
        agg.own(Sum(), *columns)


def stage(aggregate: object, over: str = "n", **more: Any) -> dp.Producer:
    """A stage with one own aggregate."""
    pipeline = dp.Pipeline("shop")
    days = pipeline.source("days", key="day date, id bigint", value="g string, n int")
    return pipeline.aggregate("it", days, key="g", values={"own": agg.own(aggregate, over)}, **more)


class Scaled(Sum):
    """A sum of one's own."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def result(self, state: Any) -> Any:
        """The product."""
        return self.scaled(state)

    def scaled(self, state: int) -> int:
        return self.factor * state


def test_a_fingerprint_is_of_the_code_and_of_what_the_object_holds() -> None:
    """That of the class, its bases, and what it calls of its own; equal objects have one."""
    again = type("Scaled", (Sum,), dict(vars(Scaled)))
    other = {**vars(Scaled), "scaled": lambda self, state: state - self.factor}
    base = type("Sum", (Sum,), {"add": lambda self, state, value: state + 1})
    found = [
        fingerprint(stage(one))
        for one in (
            *(Scaled(2), Scaled(2), again(2)),
            *(Scaled(3), type("Scaled", (Sum,), other)(2)),
            type("Scaled", (base,), dict(vars(Scaled)))(2),
            type("Scaled", (Scaled,), {"type": "decimal(20,0)"})(2),
        )
    ]
    assert found[0] == found[1] == found[2]
    assert len({one.function for one in found[2:]}) == len(found) - 2


def in_slots(slots: Any, name: str, number: int) -> object:
    kind = type("Slotted", (Sum,), {"__slots__": slots})
    made = kind()
    setattr(made, name, number)
    return made


@pytest.mark.parametrize(
    ("slots", "name"), [("step", "step"), (["step"], "step"), (("__step",), "_Slotted__step")]
)
def test_a_fingerprint_is_of_what_slots_hold(slots: Any, name: str) -> None:
    one, same, other = (
        fingerprint(stage(in_slots(slots, name, number))).function for number in (1, 1, 2)
    )
    assert one == same != other


def test_a_window_that_drops_days_needs_subtract() -> None:
    """Or an aggregate by its column before it; one with a start does not."""
    assert stage(Sum(), window=dp.window("day", last=3))
    assert stage(Moments(), window=dp.window("day", start="2013-03-01"))
    with pytest.raises(DefinitionError, match=r"last=.*agg\.own") as caught:
        stage(Moments(), window=dp.window("day", last=3))
    assert (caught.value.stage, caught.value.column) == ("it", "own")


def test_states_of_different_aggregates_are_not_merged() -> None:
    """Those of equal ones are."""
    pipeline = dp.Pipeline("shop")
    one, other, third = (
        pipeline.aggregate(
            name,
            pipeline.source(f"of_{name}", key="id bigint", value="g string, n int"),
            key="g",
            values={"own": agg.own(aggregate, "n")},
        )
        for name, aggregate in (("a", Scaled(2)), ("b", Scaled(2)), ("c", Scaled(3)))
    )
    merged = {"own": agg.merge("own")}
    assert pipeline.aggregate("both", dp.merge(one, other), key="g", values=merged)
    with pytest.raises(DefinitionError) as caught:
        pipeline.aggregate("all", dp.merge(one, third), key="g", values=merged)
    assert (caught.value.stage, caught.value.column) == ("all", "own")
