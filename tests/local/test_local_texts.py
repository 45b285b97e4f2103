"""Texts of definitions: a plan shows the difference from the text that made the tables."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

import deltaproduce as dp
from deltaproduce.model.fingerprints import LONGEST_TEXT
from deltaproduce.storage import version_log


@dataclass(frozen=True)
class Written:
    """A definition of the stage: its text, by which sort of stage, and a value from around it."""

    body: str
    aggregate: bool = False
    around: int = 1


FUNCTIONS = tuple(Written(f"sum(amounts) + {n} * around") for n in range(3))
AGGREGATES = tuple(Written(call, aggregate=True) for call in ("sum", "max"))
REMARKED = Written("sum(amounts) + 0 * around  # as before")
ALL = (*FUNCTIONS, *AGGREGATES, REMARKED, Written(FUNCTIONS[1].body, around=2))


def shop(written: Written, folder: Any) -> dp.Pipeline:
    pipeline = dp.Pipeline("shop")
    orders = pipeline.source("orders", key="id bigint", value="customer string, amount bigint")

    @pipeline.producer(orders, key="customer string", value="amount bigint")
    def amounts(number: int, values: Any) -> Any:
        yield from ((value.customer, value.amount) for value in values)

    if written.aggregate:
        call = getattr(dp.agg, written.body)("amount")
        pipeline.aggregate("totals", amounts, key="customer", values={"total": call})
        return pipeline
    text = (
        "def made(around):\n"
        "    def totals(customer, amounts):\n"
        f"        yield customer, {written.body}\n"
        "    return totals\n"
    )
    path = folder / f"written_{abs(hash(written))}.py"
    path.write_text(text, encoding="utf-8")
    scope: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), scope)
    function = scope["made"](written.around)
    pipeline.producer(amounts, key="customer string", value="total bigint")(function)
    return pipeline


def text_of(pipeline: dp.Pipeline) -> str:
    stage = pipeline.graph().stage("totals")
    text = stage.kind.definition.text([feeder.name for feeder in stage.merged])
    assert text is not None
    return text


@pytest.mark.parametrize("seed", range(2))
def test_a_version_knows_by_which_text_its_tables_were_made(
    seed: int, location: str, tmp_path: Any
) -> None:
    """After any series of definitions, updates, rollbacks, vacuums and compactions."""
    drawn, made = random.Random(seed), {}
    last = shop(FUNCTIONS[0], tmp_path)
    for step in range(12):
        what = drawn.choice(("update", "update", "rollback", "vacuum", "compact"))
        written = drawn.choice(ALL)
        pipeline = shop(written, tmp_path) if what == "update" else last
        with dp.Store(None, location, pipeline) as store:
            before = store.head.number
            kept = [version.number for version in store.versions()]
            if what == "update" or before == 0:
                row = {"id": drawn.randrange(5), "customer": "ann", "amount": step}
                store.update({"orders": [row]}, f"step {step}")
                made[store.head.number] = text_of(pipeline)
                last = pipeline
            elif what == "rollback":
                wanted = drawn.choice(kept)
                with suppress(dp.DefinitionError):  # it was a stage of another kind
                    if store.rollback(wanted).number > before:
                        made[store.head.number] = made[wanted]
            elif what == "vacuum":
                store.vacuum(drawn.choice((1, 2)), unfinished_hours=0)
            else:
                store.compact()
            told(store, made)
        with dp.Store(None, location, pipeline) as store:
            told(store, made)


def told(store: dp.Store, made: dict[int, str]) -> None:
    found = {v.number: v.definitions["totals"].text for v in store.versions()}
    assert found == {number: made[number] for number in found}


def planned(location: str, pipeline: dp.Pipeline) -> tuple[dp.Plan, dp.Altered]:
    with dp.Store(None, location, pipeline) as store:
        plan = store.plan()
    altered = plan[0].altered[-1]
    return plan, altered


@pytest.fixture
def first(location: str, tmp_path: Any) -> str:
    with dp.Store(None, location, shop(FUNCTIONS[0], tmp_path)) as store:
        store.update({"orders": [{"id": 1, "customer": "ann", "amount": 2}]})
    return location


def test_the_lines_that_differ_are_in_text_html_and_json(first: str, tmp_path: Any) -> None:
    plan, altered = planned(first, shop(FUNCTIONS[1], tmp_path))
    old, new = (f"    yield customer, sum(amounts) + {n} * around" for n in (0, 1))
    lines = ["--- version 1", "+++ now", "@@ -1,2 +1,2 @@"]
    lines += [" def totals(customer, amounts):", f"-{old}", f"+{new}"]
    assert altered.diff.split("\n") == lines[2:]
    assert str(plan).endswith("\n".join(["totals: function changed", *lines]))
    assert f"<pre>{'<br>'.join(lines)}</pre>" in plan._repr_html_()
    (step,) = json.loads(json.dumps(plan.as_dict()))["steps"]
    assert step["altered"] == [
        {
            "part": "function",
            "before": altered.before,
            "after": altered.after,
            "diff": altered.diff,
        }
    ]
    assert "its function changed" in str(plan)


def test_a_function_may_become_an_aggregate(first: str, tmp_path: Any) -> None:
    _, altered = planned(first, shop(AGGREGATES[0], tmp_path))
    assert altered.part == "definition"
    assert "-def totals(customer, amounts):" in altered.diff
    assert "+  sum(amount) AS total" in altered.diff


def test_a_value_from_around_a_function_is_not_kept_and_named_as_the_reason(
    location: str, tmp_path: Any
) -> None:
    secret = 73_512_099
    with dp.Store(None, location, shop(Written("sum(amounts)", around=secret), tmp_path)) as store:
        store.update({"orders": [{"id": 1, "customer": "ann", "amount": 2}]})
    closing = Written("sum(amounts) + around", around=secret)
    with dp.Store(None, location, shop(closing, tmp_path)) as store:
        store.update({})
    plan, altered = planned(location, shop(Written(closing.body, around=2), tmp_path))
    assert altered.before == altered.after
    assert altered.diff == ""
    assert "a value that it takes from around it" in str(plan)
    assert str(secret) not in str(plan.as_dict())


def test_a_function_without_source_is_said_to_be_unknown(first: str, tmp_path: Any) -> None:
    pipeline = shop(FUNCTIONS[1], tmp_path)
    for file in tmp_path.glob("written_*.py"):
        file.unlink()
    plan, altered = planned(first, pipeline)
    assert (altered.after, altered.diff) == (None, "")
    assert "the text that it has is not known" in str(plan)


def test_long_texts_are_kept_in_part_and_once(location: str, tmp_path: Any) -> None:
    long = f"sum(amounts) + len({'x' * LONGEST_TEXT!r})"
    one = Written(long)
    with dp.Store(None, location, shop(one, tmp_path)) as store:
        for number in range(3):
            store.update({"orders": [{"id": number, "customer": "ann", "amount": 2}]})
        assert len(store.head.definitions["totals"].text or "") == LONGEST_TEXT
    log = dp_rows(location)
    assert ["totals" in row and "definition" in row["totals"] for row in log] == [
        True,
        False,
        False,
    ]
    plan, _ = planned(location, shop(Written(long + " + 1"), tmp_path))
    assert f"the first {LONGEST_TEXT:,} characters of its text did not" in str(plan)


def dp_rows(location: str) -> list[dict[str, Any]]:
    import deltalake

    rows = deltalake.DeltaTable(f"{location}/_versions").to_pyarrow_table().to_pylist()
    return [json.loads(row["figures"]) for row in sorted(rows, key=lambda row: row["number"])]


def test_a_store_of_earlier_code_says_that_it_knows_no_text_and_learns_it(
    location: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_log, "_new_texts", lambda version, before: {})
    with dp.Store(None, location, shop(FUNCTIONS[0], tmp_path)) as store:
        store.update({"orders": [{"id": 1, "customer": "ann", "amount": 2}]})
    monkeypatch.undo()
    plan, altered = planned(location, shop(FUNCTIONS[1], tmp_path))
    assert (altered.before, altered.diff) == (None, "")
    assert "the text that it had is not known" in str(plan)
    with dp.Store(None, location, shop(FUNCTIONS[0], tmp_path)) as store:
        store.update({"orders": [{"id": 2, "customer": "ann", "amount": 2}]})
    assert planned(location, shop(FUNCTIONS[1], tmp_path))[1].diff
