"""Expectations: what dbt's tests become, as a rule of a stage or as a query of its own.

Pure. The invariant: a test has the severity and the limit that it has in dbt, or is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from deltaproduce.errors import DefinitionError
from deltaproduce.projects.dbt.manifest import Node
from deltaproduce.projects.dbt.sql.naming import in_sql

_CONDITION: Final = re.compile(r"(!=|<>|==|>=|<=|=|>|<)\s*([0-9]+(?:\.[0-9]+)?)")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a broken test does.

    Attributes:
        at_most: how many rows may break it.
        condition: the query of its failures and when they break it, such as ``sum(n) > 10``; empty
            if it is a limit of rows.
    """

    severity: Literal["error", "warn"]
    at_most: int
    condition: str = ""

    @staticmethod
    def of(node: Node) -> Verdict:
        """Return the verdict of a test.

        Raises:
            DefinitionError: it fails by a condition that is no comparison with a number.
        """
        counted = str(node.config.get("fail_calc") or "count(*)")
        severity: Literal["error", "warn"] = "error"
        if str(node.config.get("severity") or "error").lower() == "warn":
            severity = "warn"
        said = str(node.config.get(f"{severity}_if") or "!= 0").strip()
        matched = _CONDITION.fullmatch(said)
        if matched is None:
            raise DefinitionError(f"it fails if {said!r}: compare with a number")
        counts_rows = "".join(counted.lower().split()) == "count(*)"
        limit = _limit(matched[1], matched[2])
        if counts_rows and limit is not None:
            return Verdict(severity, limit)
        return Verdict(severity, 0, f"{counted} {matched[1].replace('==', '=')} {matched[2]}")

    def broken_rows(self, text: str) -> str:
        """Return the query of a test so that each of its rows breaks it."""
        if not self.condition:
            return text
        return f"select 1 as failed from (\n{text}\n) dbt_internal_test having {self.condition}"


def _limit(operator: str, number: str) -> int | None:
    """Return how many rows a condition lets pass; None if that is no limit."""
    if not number.isdecimal():
        return None
    match operator:
        case ">":
            return int(number)
        case ">=" if int(number) > 0:
            return int(number) - 1
        case "!=" | "<>" if int(number) == 0:
            return 0
    return None


def rule_of(node: Node, names: Mapping[str, str]) -> tuple[str, dict[str, Any]] | None:
    """Return the stage and the keyword of `expect` that a test is; None if it is a query.

    Args:
        names: the name of the stage of each node, by its id.
    """
    test = node.values.get("test_metadata")
    stage = names.get(str(node.values.get("attached_node")))
    is_filtered = bool(node.config.get("where"))
    if not isinstance(test, dict) or test.get("namespace") or is_filtered or stage is None:
        return None
    kwargs = test.get("kwargs") or {}
    column = kwargs.get("column_name")
    if not isinstance(column, str) or not column.isidentifier():
        return None
    rule = _rule(str(test.get("name")), column, kwargs, _other(node, names))
    return None if rule is None else (stage, rule)


def _rule(
    name: str, column: str, kwargs: Mapping[str, Any], other: str | None
) -> dict[str, Any] | None:
    match name:
        case "not_null" | "unique":
            return {name: in_sql(column)}
        case "accepted_values":
            return {"among": {column: kwargs.get("values") or []}}
        case "relationships" if other is not None:
            return {"refers": {column: f"{other}.{kwargs.get('field')}"}}
    return None


def _other(node: Node, names: Mapping[str, str]) -> str | None:
    """Return the stage that a test reads besides its own; its own if it reads no other."""
    attached = str(node.values.get("attached_node"))
    others = [id for id in node.depends_on if id != attached] or [attached]
    return names.get(others[0]) if len(others) == 1 else None
