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
from deltaproduce.types.excerpts import shown

_LIMIT: Final = re.compile(r"(!=|>=|>)\s*([0-9]+)")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a broken test does.

    Attributes:
        at_most: how many rows may break it.
    """

    severity: Literal["error", "warn"]
    at_most: int

    @staticmethod
    def of(node: Node) -> Verdict:
        """Return the verdict of a test.

        Raises:
            DefinitionError: it counts something else than rows, or by another condition.
        """
        calculation = str(node.config.get("fail_calc") or "count(*)")
        if "".join(calculation.lower().split()) != "count(*)":
            raise DefinitionError(f"its fail_calc is {shown(calculation)}, and checks count rows")
        is_warning = str(node.config.get("severity") or "error").lower() == "warn"
        condition = str(node.config.get("warn_if" if is_warning else "error_if") or "!= 0")
        matched = _LIMIT.fullmatch(condition.strip())
        if matched is None or (matched[1] == "!=" and matched[2] != "0") or matched[0] == ">= 0":
            raise DefinitionError(f"it fails if {condition!r}, and checks have a limit of rows")
        limit = int(matched[2]) - (matched[1] == ">=")
        return Verdict("warn" if is_warning else "error", limit)


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
