"""Scopes: what FOR, LET and lists compute from a date."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaproduce import DefinitionError, InvalidArgumentError
from deltaproduce.operations.verbs.tasks import moment_of
from deltaproduce.shown.tasks import display_text
from deltaproduce.stages.sql.expressions.literals import literal
from deltaproduce.stages.sql.scopes.clauses import Scopes
from deltaproduce.stages.sql.scopes.coded import numbered
from deltaproduce.stages.sql.scopes.partitions import ExpectedPartitions
from deltaproduce.stages.sql.scopes.series import timeseries
from deltaproduce.times.zones import zone_of

DAY = datetime(2022, 3, 31, 17, 5, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1600, 1, 1), datetime(2600, 1, 1), timezones=st.just(UTC))


def scopes(text: str, moment: datetime = DAY) -> list[dict[str, str]]:
    found = Scopes.read(text).of(moment)
    return [{name: display_text(value.value) for name, value in scope.items()} for scope in found]


def test_two_days_of_two_stores_are_four_scopes() -> None:
    found = scopes(
        "FOR t IN timeseries('1 day', 2), LET day = date_format(t, 'yyyy-MM-dd'),\n"
        "FOR store IN array('Detroit', 'Paris')"
    )
    newest, oldest = "2022-03-31", "2022-03-30"
    assert found == [
        {"t": f"{day}T00:00:00Z", "day": day, "store": store}
        for day in (newest, oldest)
        for store in ("Detroit", "Paris")
    ]


def test_no_clauses_are_one_scope_and_an_empty_list_is_none() -> None:
    assert scopes("") == [{}]
    assert scopes("FOR t IN timeseries('1 day', 0), LET x = 1") == []
    assert list(Scopes.read("FOR t IN timeseries('1 day', 0), LET x = 1").types) == ["t", "x"]
    assert scopes("FOR x IN array()") == []


@pytest.mark.parametrize(
    ("step", "count", "wanted"),
    [
        ("1 hour", 2, ["2022-03-31T17:00:00Z", "2022-03-31T16:00:00Z"]),
        ("6 hours", 2, ["2022-03-31T17:00:00Z", "2022-03-31T11:00:00Z"]),
        ("1 week", 2, ["2022-03-28T00:00:00Z", "2022-03-21T00:00:00Z"]),
        ("1 month", 3, ["2022-03-01T00:00:00Z", "2022-02-01T00:00:00Z", "2022-01-01T00:00:00Z"]),
        ("5 MONTHS", 2, ["2022-03-01T00:00:00Z", "2021-10-01T00:00:00Z"]),
    ],
)
def test_time_series(step: str, count: int, wanted: list[str]) -> None:
    assert [display_text(one.value) for one in timeseries(step, count, DAY)] == wanted


IN_CHICAGO = "'America/Chicago'"


@pytest.mark.parametrize(
    ("text", "moment", "wanted"),
    [
        # a date is that of the place, and a time an instant
        ("'1 day', 2", datetime(2024, 3, 11), ["2024-03-11 00:00", "2024-03-10 00:00"]),
        ("'1 day', 1", datetime(2024, 3, 11, 4), ["2024-03-10 00:00"]),
        ("'1 day', 1", datetime(2024, 3, 11, 5), ["2024-03-11 00:00"]),
        ("'1 week', 2", datetime(2024, 3, 11, 4), ["2024-03-04 00:00", "2024-02-26 00:00"]),
        ("'1 month', 1", datetime(2024, 3, 1, 4), ["2024-02-01 00:00"]),
        # an hour that the clock leaves out is none, one that it shows twice is one
        ("'1 hour', 2", datetime(2024, 3, 10, 8, 30), ["2024-03-10 03:00", "2024-03-10 01:00"]),
        ("'1 hour', 2", datetime(2024, 11, 3, 7, 30), ["2024-11-03 01:00", "2024-11-03 00:00"]),
        ("'1 hour', 2", datetime(2024, 11, 3, 6, 30), ["2024-11-03 01:00", "2024-11-03 00:00"]),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_a_time_series_of_a_place_has_its_times(
    text: str, moment: datetime, wanted: list[str], zone: str
) -> None:
    """On the clock of the store, whatever its time zone is."""
    clock = zone_of(zone)
    is_day = (moment.hour, moment.minute) == (0, 0)
    at = moment.replace(tzinfo=clock if is_day else UTC).astimezone(clock)
    found = scopes(
        f"FOR t IN timeseries({text}, {IN_CHICAGO}), LET at = date_format(t, 'yyyy-MM-dd HH:mm')",
        at,
    )
    assert [one["at"] for one in found] == wanted


@given(MOMENTS, st.sampled_from(["hour", "day", "week", "month"]), st.integers(1, 9))
def test_a_time_series_ends_at_the_unit_that_the_moment_is_in(
    moment: datetime, unit: str, size: int
) -> None:
    """The newest time is the last start of a unit, and all others are whole steps before it."""
    times = [one.value for one in timeseries(f"{size} {unit}", 5, moment)]
    assert times == sorted(times, reverse=True)
    assert times[0] <= moment
    later = timeseries(f"1 {unit}", 1, times[0] + timedelta(days=32))[0].value
    steps = [one.value for one in timeseries(f"1 {unit}", 32 * 24 + 1, later)]
    assert steps[steps.index(times[0]) - 1] > moment  # the next unit has not begun
    every = [one.value for one in timeseries(f"1 {unit}", 4 * size + 1, moment)]
    assert every[::size] == times


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("FOR x IN 3", None),
        ("LET x = y", 1),
        ("LET a = 1,\nLET x = now()", 2),
        ("FOR x IN array(1, 'a')", None),
        ("FOR t IN timeseries('0 days', 2)", None),
        ("FOR t IN timeseries('1 day', -1)", None),
        ("FOR t IN timeseries('1 day', 1, 'America/Nowhere')", None),
        ("FOR t IN timeseries('1 hour', 1, 5)", None),
        ("FOR t IN timeseries('100000 hours', 1000, 'UTC')", None),
        ("FOR x IN sequence(1, 3, 0)", None),
        ("LET x = 1, LET X = 2", 1),
        ("LET x = 1,", 1),
        ("LET x = 'a", None),
        ("LET _x = 1", 1),
        ("x", 1),
    ],
)
def test_what_is_refused(text: str, line: int | None) -> None:
    with pytest.raises(DefinitionError) as caught:
        Scopes.read(text)
    assert caught.value.line == line


def test_a_list_may_have_a_name() -> None:
    found = scopes("LET stores = array('a', 'b'), FOR s IN stores, FOR n IN sequence(1, 2)")
    assert [(one["s"], one["n"]) for one in found] == [
        *(("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")),
    ]
    named = Scopes.read("LET stores = array('a', 'b')").sample["stores"]
    assert literal(named) == "CAST(array('a', 'b') AS array<string>)"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "FOR x IN CASE WHEN month(DATE '2022-03-01') = 3 THEN array('a') ELSE array('b') END",
            "a",
        ),
        (
            "LET n = 2, FOR x IN CASE n WHEN 1 THEN array('a') WHEN 2 THEN split('b,c', ',') END",
            "bc",
        ),
        ("LET n = 0, FOR x IN IF(n = 0, array(7), sequence(1, 3, n))", "7"),
        ("LET n = 1, FOR x IN CASE n WHEN 2 THEN array('a') END", ""),
        ("FOR x IN split('a,b,,c', ',')", ["a", "b", "", "c"]),
        ("FOR x IN split('a|b|c', '[|]', 2)", ["a", "b|c"]),
        ("FOR x IN split('', ',')", [""]),
        ("FOR pair IN array(array('a', 'b'), array('c')), FOR x IN pair", "abc"),
        ("LET all = array(array('a', 'b'), array('c')), FOR p IN all, FOR x IN p", "abc"),
        ("FOR x IN flatten(array(array('a', 'b'), array(), array('c')))", "abc"),
        ("FOR x IN concat(array('a'), split('b c', ' '))", "abc"),
        ("LET some = array('a', 'b'), FOR x IN some || array('b')", "abb"),
        ("FOR x IN array_union(array('a', 'b'), array('b', 'c'))", "abc"),
        ("FOR x IN array_except(array('a', 'b', 'a'), array('b'))", "a"),
        ("FOR x IN reverse(sequence(1, 3))", "321"),
        (
            "LET none = CASE WHEN 1 > 2 THEN array('x') END, FOR x IN coalesce(none, array('y'))",
            "y",
        ),
        ("FOR x IN (array('a'))", "a"),
    ],
)
def test_any_sql_array_is_a_list(text: str, wanted: str | list[str]) -> None:
    assert [one["x"] for one in scopes(text)] == list(wanted)


def test_items_of_branches_have_their_common_type() -> None:
    found = Scopes.read("LET n = 1, FOR x IN IF(n = 1, array(1), array(CAST(2 AS bigint)))")
    assert found.sample["x"].data_type.simpleString() == "bigint"
    nested = Scopes.read("LET x = array(array(1), array(), array(1.5))").sample["x"]
    assert literal(nested).endswith("AS array<array<decimal(11,1)>>)")
    assert len(nested.value) == 3


def test_a_list_in_a_branch_depends_on_the_date() -> None:
    text = "LET n = 1, FOR x IN CASE WHEN n = 1 THEN timeseries('1 day', 1) END"
    assert Scopes.read(text).timeless is None


@pytest.mark.parametrize(
    "text",
    [
        "split('a.b', '.')",
        "split('a', '')",
        "IF(1 = 1, array(1), array('a'))",
        "IF(1 = 1, array(1), 2)",
        "concat(array(1), 2)",
        "flatten(array(1))",
        "array(array(1), 2)",
        "split('a')",
        "reverse(1)",
        "array_distinct(array(1), array(1))",
    ],
)
def test_lists_that_cannot_be_computed_are_refused(text: str) -> None:
    with pytest.raises(DefinitionError):
        Scopes.read(f"FOR x IN {text}")


def test_two_scopes_of_one_partition_are_refused() -> None:
    """By the definition if they do so at any date, otherwise at the date."""
    with pytest.raises(DefinitionError, match="n=1"):
        ExpectedPartitions.read("n = 1", Scopes.read("FOR x IN sequence(1, 2)"))
    with pytest.raises(DefinitionError, match="partition n=1; let"):  # at whatever date
        ExpectedPartitions.read("n = 1", Scopes.read("FOR t IN timeseries('1 day', 2)"))
    found = ExpectedPartitions.read("n = month(t)", Scopes.read("FOR t IN timeseries('1 day', 2)"))
    planned = found.at(datetime(2022, 4, 1, tzinfo=UTC), stage="s")
    assert [planned.values(row) for row in range(len(planned))] == [(4,), (3,)]
    with pytest.raises(DefinitionError, match="n=3") as caught:
        found.at(DAY, stage="s")
    assert caught.value.stage == "s"


def test_partition_columns_are_names_or_values_of_the_scope() -> None:
    found = ExpectedPartitions.read(
        "day = date_sub(d, 1), x", Scopes.read("LET d = DATE '2022-03-01', LET x = 'a'")
    )
    assert found.at(DAY, stage="s").values(0) == (datetime(2022, 2, 28).date(), "a")
    with pytest.raises(DefinitionError):
        ExpectedPartitions.read("day", Scopes.read(""))


def test_values_are_literals_of_their_type() -> None:
    scope = Scopes.read(
        "LET d = DATE '2022-03-31', LET n = 3, LET b = TRUE, LET c = 1.50, LET a = 'x'"
    ).sample
    found = {name: literal(value) for name, value in scope.items()}
    assert found["d"] == "DATE '2022-03-31'"
    assert found["n"] == "CAST('3' AS int)"
    assert found["b"] == "TRUE"
    assert found["c"] == "CAST('1.50' AS decimal(3,2))"


@pytest.mark.parametrize("text", ["0001-01-01T00:00+05:00", "9999-12-31T23:00-05:00", "today", 3])
def test_a_date_that_is_none_in_utc_is_refused(text: object) -> None:
    with pytest.raises(InvalidArgumentError):
        moment_of(text, "UTC")


@given(st.lists(st.integers(0, 40)), st.sampled_from([41, 10**9]))
def test_codes_are_numbered_alike_whether_they_lie_close_together_or_far_apart(codes, span):
    """As NumPy's `unique` numbers them, which sorts."""
    wanted = np.unique(np.array(codes, np.int64), return_index=True, return_inverse=True)
    for found, expected in zip(numbered(np.array(codes, np.int64), span), wanted, strict=True):
        assert found.tolist() == expected.tolist()
