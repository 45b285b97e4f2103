"""Texts of the files of a converted project.

Pure. The invariant: what dbt says about a model is in its file as a comment, and each file can be
read by a project.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from deltaproduce.model.checks.definitions import Severity
from deltaproduce.projects.dbt.given.rows import RowSource
from deltaproduce.projects.dbt.manifest import Node
from deltaproduce.projects.dbt.snapshots import SnapshotHistory
from deltaproduce.projects.dbt.sql.naming import in_sql
from deltaproduce.projects.dbt.testing.expectations import Verdict

_KEPT: Final = "-- every row that a run has seen, by its key and its time\n"


def stage_text(node: Node, name: str, sql: str, key: Sequence[str]) -> str:
    """Return the file of a model or snapshot."""
    clauses = [*([_key(key)] if key else []), *_labels(node)]
    header = f"STAGE {in_sql(name)} ({', '.join(clauses)});\n" if clauses else ""
    return f"{_comment(node)}{header}{sql}\n"


def keyed_text(name: str, sql: str, key: Sequence[str]) -> str:
    """Return the file of a query with a key."""
    return f"STAGE {in_sql(name)} ({_key(key)});\n{sql}\n"


def _key(columns: Iterable[str]) -> str:
    return f"key ({', '.join(map(in_sql, columns))})"


def _labels(node: Node | None) -> list[str]:
    """Return the clauses of the tags and the group of a node."""
    if node is None:
        return []
    clauses = [f"tags ({', '.join(map(_label, node.tags))})"] if node.tags else []
    return [*clauses, f"group {_label(node.group)}"] if node.group else clauses


def _label(name: str) -> str:
    """Return a name as a label: a word, or text in quotes."""
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return name if in_sql(name) == name else f"'{escaped}'"


def source_text(source: RowSource, name: str) -> str:
    """Return the file of a source."""
    columns = ",\n".join(
        f"    {in_sql(column)} {kind}"
        + (" /* FILL IN: its type is not known */" if column in source.guessed else "")
        for column, kind in source.columns.items()
    )
    parts = [f"columns (\n{columns}\n  )", _key(source.key), *_labels(source.node)]
    clauses = ",\n".join(f"  {part}" for part in parts)
    kept = "" if source.mode == "snapshot" else _KEPT
    return f"{_comment(source.node)}{kept}EXTERNAL {in_sql(name)} (\n{clauses}\n);\n"


def project_text(name: str, engine: str, inputs: Iterable[tuple[str, RowSource]], dbt: str) -> str:
    """Return the project file.

    Args:
        inputs: the sources by their names.
        dbt: what it says of the dbt project; see `dbt_text`.
    """
    lines = [
        "[project]",
        f"name = {_toml(name)}",
        'location = "./lake"',
        f'engine = "{engine}"' + ("  # needs no Java" if engine == "local" else ""),
        'timezone = "UTC"  # times without a zone are in it',
    ]
    for source, one in inputs:
        said = [f"[sources.{_toml(source)}]", f"format = {_toml(one.format or 'parquet')}"]
        said += [f"path = {_toml(one.path or 'FILL IN')}", f'mode = "{one.mode}"']
        if one.delimiter != ",":
            said.append(f"delimiter = {_toml(one.delimiter)}")
        if one.optional:
            said.append(f"optional = {json.dumps(one.optional)}")
        if one.renamed:
            names = ", ".join(f"{_toml(new)} = {_toml(old)}" for new, old in one.renamed.items())
            said.append(f"names = {{ {names} }}  # column = its name in the files")
        if one.format is None:
            said = [f"# FILL IN: where the rows of {source} are", *(f"# {a}" for a in said)]
        lines += ["", *said]
    return "\n".join([*lines, "", dbt]) + "\n"


def dbt_text(project: str, stages: Mapping[str, str]) -> str:
    """Return what the project file says of the dbt project.

    Args:
        project: its folder.
        stages: the stage of a table, by dbt's unique id, where the stage has another name.
    """
    lines = [
        "[dbt]  # `deltaproduce compare` compares with its tables",
        f"project = {_toml(project)}",
    ]
    if stages:
        lines += ["", "[dbt.stages]  # of tables with other names"]
        lines += [f"{_toml(id)} = {_toml(stage)}" for id, stage in stages.items()]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class StageRule:
    """What a test expects of a stage, in the words of `expect`."""

    stage: str
    rule: Mapping[str, Any]
    severity: Severity
    at_most: int

    def keywords(self) -> dict[str, Any]:
        """Return the arguments of `expect`, without defaults."""
        said: dict[str, Any] = {**self.rule}
        said |= {"severity": self.severity} if self.severity != "error" else {}
        return said | ({"at_most": self.at_most} if self.at_most else {})


def expectations_text(rules: Iterable[StageRule]) -> str:
    """Return the module that says what tests expect."""
    lines = ["    stages = {stage.name: stage for stage in pipeline.stages}"]
    for rule in rules:
        said = ", ".join(f"{name}={value!r}" for name, value in rule.keywords().items())
        lines.append(f"    stages[{rule.stage!r}].expect({said})")
    return _module("What the tests of the dbt project expect of the rows of stages.", lines)


def history_text(histories: Iterable[SnapshotHistory]) -> str:
    """Return the module that defines histories."""
    lines = list[str]()
    for one in histories:
        lines.append("    pipeline.history(")
        lines += [f"        {name}={value!r}," for name, value in asdict(one).items()]
        lines.append("    )")
    about = "The snapshots of the dbt project: every state of a row that a run has seen."
    return _module(about, lines)


def _module(about: str, lines: Iterable[str]) -> str:
    """Return a module that defines something in a pipeline, given the lines that do."""
    first = (f'"""{about}"""', "", "from deltaproduce import Pipeline", "", "")
    return "\n".join([*first, "def define(pipeline: Pipeline) -> None:", *lines]) + "\n"


def check_text(node: Node, name: str, sql: str, verdict: Verdict) -> str:
    """Return the file of a test that is a query."""
    clauses = f"severity {verdict.severity}, at_most {verdict.at_most}"
    return f"{_comment(node)}CHECK {in_sql(name)} ({clauses});\n{sql}\n"


def _comment(node: Node | None) -> str:
    """Return what dbt says about a node, as a comment."""
    if node is None:
        return "-- one row, for models that read no table\n"
    lines = [f"{node.id}, {node.path}", *node.description.strip().splitlines()]
    lines += [
        f"{column.name}: {' '.join(column.description.split())}"
        for column in node.columns
        if column.description.strip()
    ]
    return "".join(f"-- {line.rstrip()}\n" for line in lines)


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
