"""`FROM_DBT.md`: what was carried over, how it is kept, and what is left to do by hand.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from deltaproduce.model.graph import Graph
from deltaproduce.projects.dbt.carried import Conversion
from deltaproduce.projects.dbt.manifest import Node
from deltaproduce.shown.explanations import Explanation

_COMPARED: Final = ("duckdb", "postgres")
"""The adapters with whose tables `deltaproduce compare` compares."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How models are kept.

    Attributes:
        stages: all stages, with the types of their columns as far as they are known.
        explained: what `explain` says of each model, by its stage.
        needing: the stages that only Spark computes, each with the reason.
    """

    stages: Graph
    explained: Mapping[str, Explanation]
    needing: Mapping[str, str]

    @property
    def engine(self) -> str:
        """The engine that the project needs."""
        return "spark" if self.needing else "local"


def notes(conversion: Conversion, kept: Kept) -> str:
    """Return the text of the file."""
    manifest = conversion.manifest
    lines = [
        f"# {conversion.pipeline.name}, from dbt",
        "",
        f"Made from the manifest of {manifest.project or 'a dbt project'} "
        f"(dbt {manifest.dbt_version}, adapter {manifest.adapter}). Each model is a stage that is "
        "kept up to date: a change of a row changes the rows that are made from it.",
        "",
        "## What to do",
        "",
        *_to_do(conversion),
        "",
        "## Carried over",
        "",
        "| dbt | stage | file | key | how it is kept |",
        "| --- | --- | --- | --- | --- |",
        *_taken(conversion, kept.explained),
        *_tests(conversion),
        *_unit_tests(conversion),
    ]
    if kept.needing:
        lines += ["", "## Computed by Spark", ""]
        lines += [f"These need a session, so the engine is `{kept.engine}`.", ""]
        lines += [f"- `{name}`: {_line(reason)}" for name, reason in kept.needing.items()]
    lines += ["", "## Not carried over", ""]
    lines += [
        f"- `{one.what}` ({one.file}): {_line(one.reason)}" for one in conversion.left_out
    ] or ["Everything that makes tables is carried over."]
    for word, count in manifest.others.items():
        lines.append(f"- {count} {word.replace('_', ' ')}: they make no tables")
    return "\n".join(lines) + "\n"


def _to_do(conversion: Conversion) -> list[str]:
    """Return what the user has to do, as items of a list."""
    items = [
        f"- Say in `deltaproduce.toml` where the rows of `{name}` are: [sources.{name}]."
        for name, one in conversion.sources.items()
        if one.format is None
    ]
    for name, one in conversion.sources.items():
        if one.guessed:
            columns = ", ".join(f"`{column}`" for column in one.guessed)
            items.append(f"- Fill in the types of {columns} in `stages/{name}.sql`.")
    if conversion.left_out:
        items.append("- Look at what is not carried over, below. Its SQL is in `by_hand`.")
    renamed = [f"`{old}` is `{new}`" for new, old in conversion.renamed.items()]
    if renamed:
        items.append(
            "- Columns do not begin with `_` here, so it comes last: " + ", ".join(renamed) + "."
        )
    if conversion.histories:
        items.append(
            "- Snapshots begin with the first run. How they begin with what dbt has kept is in "
            "docs/from-dbt.md, under Snapshots."
        )
    run = "deltaproduce run --as-of DAY" if conversion.has_date else "deltaproduce run"
    if conversion.has_date:
        items.append("- Name the day: what is `current_date` in dbt is the date of a version here.")
    items.append(f"- Run `{run}`, and again after each change of the rows.")
    if conversion.unit_tests:
        items.append("- Run `pytest tests`: dbt's unit tests are there, and need no Spark.")
    if conversion.manifest.adapter in _COMPARED:
        items.append("- Run `deltaproduce compare`, which compares all tables with those of dbt.")
    return items


def _tests(conversion: Conversion) -> list[str]:
    """Return how many tests are carried over, and where they are."""
    queries = sum(path.startswith("checks/") for path in conversion.files)
    if not conversion.rules and not queries:
        return []
    said = (
        f"{len(conversion.rules)} tests are rules in `stages/expectations.py`, and {queries} are "
        "queries in `checks`. A version that breaks one of severity error is not published."
    )
    return ["", said]


def _unit_tests(conversion: Conversion) -> list[str]:
    """Return which unit tests are tests of pytest, as a table."""
    if not conversion.unit_tests:
        return []
    rows = [f"| `{id}` | `{test}` |" for id, test in conversion.unit_tests.items()]
    return ["", "| unit test | test of pytest |", "| --- | --- |", *rows]


def _taken(conversion: Conversion, explained: Mapping[str, Explanation]) -> Iterator[str]:
    for id, name in conversion.taken.items():
        node = conversion.manifest.node(id)
        how = _how(explained[name]) if name in explained else "its rows are given"
        key = ", ".join(
            column.name for column in conversion.pipeline.graph().stage(name).schema.key
        )
        yield f"| {_said(node, id)} | `{name}` | `stages/{name}.sql` | {key} | {how} |"


def _said(node: Node | None, id: str) -> str:
    kind = (
        "" if node is None or node.sort not in {"model", "snapshot"} else f" ({node.materialized})"
    )
    return f"`{id}`{kind}"


def _how(explained: Explanation) -> str:
    """Return whether a stage follows changes, and why not."""
    reasons = {one.reason or one.mode for one in explained.operators if one.mode != "incremental"}
    if not reasons:
        return "follows changes"
    return f"runs as a whole: {', '.join(sorted(reasons))}"


def _line(text: str) -> str:
    return " ".join(text.split())
