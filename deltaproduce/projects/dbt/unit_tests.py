"""Unit tests: which of dbt's become tests of pytest, and why the others do not.

Pure. The invariant: a test that is taken says of the stage what it says of the model in dbt; each
other one is in `left_out` with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from deltaproduce.errors import DefinitionError
from deltaproduce.model.graph import Graph, read_by
from deltaproduce.projects.dbt.carried import ONE_ROW, Conversion, LeftOut
from deltaproduce.projects.dbt.jinja.rendering import Renderer
from deltaproduce.projects.dbt.manifest import Node
from deltaproduce.projects.dbt.sql.naming import free_name
from deltaproduce.projects.dbt.testing.fixtures import fixture_rows
from deltaproduce.projects.dbt.testing.pytest_text import UnitTest, module_text
from deltaproduce.types.excerpts import shown

Rows: TypeAlias = list[dict[str, Any]]


def take(
    conversion: Conversion, renderer: Renderer, stages: Graph, needing: Collection[str]
) -> None:
    """Write unit tests as modules of pytest, one for each stage, or note why not.

    Args:
        stages: what is carried over, with the types of columns.
        needing: the stages that only Spark computes.
    """
    modules = dict[str, list[UnitTest]]()
    for id, values in conversion.manifest.unit_tests.items():
        unit = _Unit(conversion, renderer, stages, values)
        try:
            test = unit.test(needing)
        except DefinitionError as error:
            path = str(values.get("original_file_path"))
            conversion.left_out.append(LeftOut(id, path, str(error)))
            continue
        others = modules.setdefault(test.stage, [])
        test = replace(test, name=free_name(test.name, (one.name for one in others)))
        others.append(test)
        conversion.unit_tests[id] = f"{_path(test.stage)}::{test.name}"
    for stage, tests in modules.items():
        conversion.files[_path(stage)] = module_text(stage, tests)


def _path(stage: str) -> str:
    return f"tests/test_{stage}.py"


@dataclass(frozen=True, slots=True)
class _Unit:
    """A unit test of dbt.

    Attributes:
        stages: what is carried over, with the types of columns.
        values: all that the manifest says of it.
    """

    conversion: Conversion
    renderer: Renderer
    stages: Graph
    values: Mapping[str, Any]

    def test(self, needing: Collection[str]) -> UnitTest:
        """Return it as a test of a stage.

        Args:
            needing: the stages that only Spark computes.

        Raises:
            DefinitionError: it is not carried over.
        """
        node = self._model()
        name = self.conversion.taken.get(node.id)
        if name is None:
            raise DefinitionError(f"its model {node.id} is not carried over")
        by_spark = [one for one in self.stages.upstream_of([name]) if one in needing]
        if by_spark:
            raise DefinitionError(
                f"Spark computes {', '.join(by_spark)}: call check_stage with a session"
            )
        if self.stages.stage(name).kind.upkeep.by_date:
            raise DefinitionError("its model reads the day: call check_stage with as_of")
        self._check_overrides(node)
        function = re.sub(r"\W", "_", str(self.values["name"])).removeprefix("test_")
        return UnitTest(
            f"test_{function}",
            str(self.values.get("description") or ""),
            name,
            self._given(node, name),
            self._rows("expect", self.values.get("expect") or {}, name),
        )

    def _model(self) -> Node:
        """Return the model that it tests."""
        depends = self.values.get("depends_on") or {}
        for id in depends.get("nodes") or ():
            if id in self.conversion.manifest.nodes:
                return self.conversion.manifest.nodes[id]
        raise DefinitionError(f"its model {shown(self.values.get('model'))} is none of the project")

    def _check_overrides(self, node: Node) -> None:
        """Refuse a test of another query than the stage has."""
        overrides = self.values.get("overrides") or {}
        macros = dict(overrides.get("macros") or {})
        if macros.pop("is_incremental", False):
            raise DefinitionError(
                "it is of an incremental run, and a stage has what is made of all rows: test that"
            )
        if macros:
            raise DefinitionError(
                f"it overrides {', '.join(macros)}, and the SQL of the stage has no macros"
            )
        variables = overrides.get("vars") or {}
        environment = {
            name: str(value) for name, value in (overrides.get("env_vars") or {}).items()
        }
        if not variables and not environment:
            return
        own, tables = self.renderer, self.conversion.jinja_tables()
        overriding = replace(
            own,
            variables={name: {**one, **variables} for name, one in own.variables.items()},
            environment={**own.environment, **environment},
        )
        if overriding.rendered(node, tables) != own.rendered(node, tables):
            names = ", ".join([*variables, *environment])
            raise DefinitionError(
                f"with its values of {names} the query is another one: the SQL of the stage has "
                "those of the project"
            )

    def _given(self, node: Node, stage: str) -> dict[str, Rows]:
        """Return the rows of each stage that the tested one reads."""
        reads = [one.name for one in read_by(self.conversion.pipeline.graph().stage(stage))]
        given = dict[str, Rows]()
        for fixture in self.values.get("given") or ():
            said = str(fixture.get("input")).strip()
            name = self._stage_of(node, said)
            if name in given:
                raise DefinitionError(f"{said} and another input are one stage here, {name!r}")
            given[name] = self._rows(said, fixture, name)
        if ONE_ROW in reads:
            given[ONE_ROW] = [{"row": 1}]
        if lacking := [one for one in reads if one not in given]:
            raise DefinitionError(
                f"it gives no rows of {', '.join(lacking)}, which the stage reads"
            )
        return {name: given[name] for name in reads}

    def _stage_of(self, node: Node, said: str) -> str:
        """Return the stage of an input, such as ``ref('orders')``."""
        code = replace(node, raw_code=f"{{{{ ({said}).id }}}}")
        id = self.renderer.rendered(code, self.conversion.jinja_tables())
        if id == node.id:
            raise DefinitionError(
                "it gives rows of the model's own table, and a stage is made of others alone"
            )
        input_node = self.conversion.manifest.node(id)
        if input_node is not None and input_node.materialized == "ephemeral":
            raise DefinitionError(
                f"it gives rows of {said}, an ephemeral model: its query is a part of the stage's"
            )
        name = self.conversion.taken.get(self.conversion.tables.get(id, id))
        if name is None:
            raise DefinitionError(f"its input {id} is not carried over")
        return name

    def _rows(self, said: str, fixture: Mapping[str, Any], stage: str) -> Rows:
        """Return the rows of a fixture, which are those of a stage.

        Raises:
            DefinitionError: they do not fit; with what the test calls them.
        """
        schema = self.stages.stage(stage).schema
        columns = [column for column in (*schema.key, *schema.value) if not column.is_hidden]
        try:
            return fixture_rows(fixture, columns, self.conversion.dialect)
        except DefinitionError as error:
            raise DefinitionError(f"{said}: {error}") from None
