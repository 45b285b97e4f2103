"""Rendering: the Jinja of models and macros that needs no database.

It runs in Jinja's sandbox. The invariant: what asks the database, the clock or a value that nobody
gave is a `RenderingError` that names it, and never an empty text. Only a name that nobody sets is
empty, as in dbt; calling it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

from jinja2 import Template, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from deltaproduce.errors import DefinitionError
from deltaproduce.projects.dbt.jinja.tables import Adapter, JinjaRelation, KnownTables
from deltaproduce.projects.dbt.jinja.values import (
    PLAIN,
    ColumnTypes,
    Config,
    Exceptions,
    RenderingError,
    Returned,
    Target,
    Variables,
    environment_variable,
    returned,
)
from deltaproduce.projects.dbt.manifest import Manifest, Node
from deltaproduce.types.excerpts import meant, one_line, shown

_TEST: Final = re.compile(r"\{%(-?)\s*test\s+(\w+)")
_END_OF_TEST: Final = re.compile(r"\{%(-?)\s*endtest\s*(-?)%\}")
_ITSELF: Final = "dbt_macro_itself"
"""The name under which a macro is found: Jinja hides those that begin with ``_``."""
_CALL: Final = re.compile(r"\s*(ref|source|var|env_var)\s*\(.*\)\s*$", re.DOTALL)
"""An argument of a test that is Jinja without braces."""
_EXPRESSION: Final = re.compile(r"\s*\{\{(((?!\}\}).)*)\}\}\s*", re.DOTALL)
"""An argument of a test that is one expression."""
_PARENTS: Final[Mapping[str, str]] = {"databricks": "spark", "redshift": "postgres"}
"""Adapter -> the one whose macros it uses where it has none."""


class _Packages(SandboxedEnvironment):
    """A sandbox in which macros of a package may have names that begin with ``_``."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ANN401 as Jinja's
        return isinstance(obj, _Package) or super().is_safe_attribute(obj, attr, value)


class _Package(dict[str, "_Macro"]):
    """The macros of a package, as ``package.name``."""

    def __getattr__(self, name: str) -> _Macro:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(frozen=True, eq=False)
class _Macro:
    """A macro, which is compiled when it is first called for a node."""

    name: str
    template: Callable[[], Template]
    values: Mapping[str, Any]

    @cached_property
    def _callable(self) -> Callable[..., Any]:
        module = self.template().make_module(dict(self.values))
        ready: Callable[..., Any] = getattr(module, _ITSELF)
        return ready

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 what users write
        try:
            return self._callable(*args, **kwargs)
        except Returned as error:
            return error.value


@dataclass(frozen=True, slots=True)
class _Dispatch:
    """`adapter.dispatch`: finds the macro of the adapter, or the one for all.

    Attributes:
        prefixes: the beginnings of its name, the best first.
        root: the name of the project, whose macros come first.
        orders: the packages to look in for a package's macros, where the project says them.
        package: where a macro is looked for if no package is named.
    """

    prefixes: tuple[str, ...]
    root: str
    orders: Mapping[str, Sequence[str]]
    package: str
    packages: Mapping[str, _Package]
    internal: _Package

    def __call__(
        self, macro_name: str, macro_namespace: str | None = None, packages: object = None
    ) -> _Macro:
        own = macro_namespace or self.package
        named = self.orders.get(own, [self.root, own])
        known = {**self.packages, "dbt": self.internal}
        searched = [known[one] for one in named if one in known]
        searched.append(self.internal)
        if macro_namespace is None or macro_namespace not in known:
            searched.extend(self.packages.values())
        for package in searched:
            for prefix in self.prefixes:
                if f"{prefix}__{macro_name}" in package:
                    return package[f"{prefix}__{macro_name}"]
        raise RenderingError(f"there is no macro {macro_name!r} for {self.prefixes[0]}; write it")


@dataclass(frozen=True)
class Renderer:
    """Renders nodes of a manifest.

    Attributes:
        variables: the values of `var`, by package and name, as that package sees them.
        environment: the values of `env_var`.
        target: the name of dbt's target.
        orders: the packages to look in for a package's macros, where the project says them.
    """

    manifest: Manifest
    variables: Mapping[str, Mapping[str, Any]]
    environment: Mapping[str, str]
    target: str
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def rendered(self, node: Node, tables: KnownTables) -> str:
        """Return the SQL of a node.

        Args:
            tables: what is known of tables.

        Raises:
            RenderingError: it needs what is not there.
        """
        try:
            values = self._values(node, tables)
            arguments = {"_dbt_generic_test_kwargs": self._arguments(node, values)}
            return self._jinja.from_string(node.raw_code).render({**values, **arguments})
        except RenderingError:
            raise
        except (TemplateError, DefinitionError) as error:
            line = getattr(error, "lineno", None)
            message = f"its Jinja cannot be rendered: {one_line(error)}"
            raise RenderingError(message, line=line) from None
        except Exception as error:  # noqa: BLE001 macros are the user's, and may do anything
            message = f"its Jinja fails: {type(error).__name__}: {one_line(error)}"
            raise RenderingError(message) from None

    def _variable(self, text: str) -> str:
        """Return the text of a variable, which may be Jinja in `dbt_project.yml`."""
        values = {
            **PLAIN,
            "env_var": partial(environment_variable, self.environment),
            "target": Target(self.target, self.manifest.adapter, "", None),
        }
        return self._jinja.from_string(text).render(values)

    def _arguments(self, node: Node, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a generic test, of which texts may be Jinja."""
        test = node.values.get("test_metadata")
        said = test.get("kwargs") if isinstance(test, dict) else None
        arguments = dict[str, Any]()
        for name, value in (said or {}).items():
            arguments[name] = self._argument(value, values) if isinstance(value, str) else value
        return arguments

    def _argument(self, text: str, values: Mapping[str, Any]) -> object:
        """Return what an argument says, such as a table."""
        matched = _EXPRESSION.fullmatch(text)
        if matched is not None or _CALL.match(text):
            expression = text if matched is None else matched[1]
            return self._jinja.compile_expression(expression)(**values)
        return self._jinja.from_string(text).render(values) if "{{" in text else text

    @cached_property
    def _jinja(self) -> SandboxedEnvironment:
        ready = _Packages(extensions=["jinja2.ext.do"])
        ready.filters |= {"as_text": str, "as_bool": bool, "as_native": _same, "as_number": _same}
        return ready

    @cached_property
    def _templates(self) -> Mapping[str, Callable[[], Template]]:
        """How the macros are compiled, by their ids; each is compiled once."""

        def compiling(text: str, name: str) -> Callable[[], Template]:
            ready = list[Template]()

            def compiled() -> Template:
                if not ready:
                    exported = f"{{% set {_ITSELF} = {name} %}}"
                    ready.append(self._jinja.from_string(_as_macro(text) + exported))
                return ready[0]

            return compiled

        macros = self.manifest.macros.items()
        return {
            id: compiling(str(one.get("macro_sql") or ""), str(one["name"])) for id, one in macros
        }

    def _values(self, node: Node, tables: KnownTables) -> Mapping[str, Any]:
        """Return what a node's Jinja may name."""
        by_package = dict[str, _Package]()
        values_of = dict[str, dict[str, Any]]()
        for id, one in self.manifest.macros.items():
            package, name = str(one["package_name"]), str(one["name"])
            values = values_of.setdefault(package, {})
            macro = _Macro(name, self._templates[id], values)
            by_package.setdefault(package, _Package())[name] = macro
        internal = _Package(by_package.get("dbt", {}))
        for package in self._own_packages:
            internal |= by_package.get(package, {})
        root = by_package.setdefault(self.manifest.project, _Package())
        own = self._of_node(node, tables, by_package, internal)
        for package in {*by_package, node.package}:
            macros = by_package.get(package, _Package())
            said = {**internal, **by_package, "dbt": internal, **own, **root, **macros}
            values_of.setdefault(package, {}).update(said)
        return values_of[node.package]

    @cached_property
    def _graph(self) -> Mapping[str, Any]:
        """`graph`, as far as macros read it."""
        manifest = self.manifest
        return {
            "nodes": {id: dict(one.values) for id, one in manifest.nodes.items()},
            "sources": {id: dict(one.values) for id, one in manifest.sources.items()},
        }

    @cached_property
    def _own_packages(self) -> tuple[str, ...]:
        """The packages of the adapter's macros, those that come first last."""
        adapter = self.manifest.adapter
        chain = [_PARENTS[adapter], adapter] if adapter in _PARENTS else [adapter]
        return tuple(f"dbt_{one}" for one in chain)

    def _of_node(
        self,
        node: Node,
        tables: KnownTables,
        packages: Mapping[str, _Package],
        internal: _Package,
    ) -> dict[str, Any]:
        adapter, config = self.manifest.adapter, Config(node.config)
        prefixes = tuple(one for one in (adapter, _PARENTS.get(adapter), "default") if one)
        ref = partial(self._ref, node)
        builtins = {"ref": ref, "source": self._source, "config": config}
        return {
            **PLAIN,
            **builtins,
            "builtins": builtins,
            "var": Variables(self.variables.get(node.package, {}), self._variable),
            "env_var": partial(environment_variable, self.environment),
            "this": JinjaRelation.of(node),
            "is_incremental": lambda: False,
            "should_full_refresh": lambda: True,
            "execute": True,
            "flags": {"FULL_REFRESH": True, "STORE_FAILURES": False, "WHICH": "compile"},
            "model": dict(node.values),
            "graph": self._graph,
            "target": Target(self.target, adapter, node.schema, node.values.get("database")),
            "database": node.values.get("database"),
            "schema": node.schema,
            "adapter": Adapter(
                adapter,
                _Dispatch(
                    prefixes,
                    self.manifest.project,
                    self.orders,
                    node.package,
                    packages,
                    internal,
                ),
                tables,
            ),
            "api": {"Column": ColumnTypes()},
            "exceptions": Exceptions(),
            "return": returned,
            "project_name": self.manifest.project,
            "dbt_version": self.manifest.dbt_version,
        }

    def _ref(
        self, node: Node, *names: str, v: object = None, version: object = None
    ) -> JinjaRelation:
        """Return the table that `ref` names, as dbt finds it: of this package first."""
        *packages, name = names
        wanted = version if v is None else v
        candidates = [
            one
            for one in self.manifest.nodes.values()
            if one.sort in {"model", "seed", "snapshot"}
            and one.name == name
            and (not packages or one.package == packages[0])
            and _is_version(one, wanted)
        ]
        candidates.sort(
            key=lambda one: (one.id not in node.depends_on, one.package != node.package)
        )
        if not candidates:
            known = (one.name for one in self.manifest.nodes.values() if one.sort != "test")
            raise RenderingError(f"ref({shown(name)}) names no model; {meant(name, known)}")
        return JinjaRelation.of(candidates[0])

    def _source(self, group: str, name: str) -> JinjaRelation:
        for one in self.manifest.sources.values():
            if one.values.get("source_name") == group and one.name == name:
                return JinjaRelation.of(one)
        raise RenderingError(f"source({shown(group)}, {shown(name)}) is none of the project")


def _is_version(node: Node, version: object) -> bool:
    """Return whether a node is the version of a model that is asked for; by default its latest."""
    own = node.values.get("version")
    wanted = node.values.get("latest_version") if version is None else version
    return own is None or str(own) == str(wanted)


def _as_macro(text: str) -> str:
    """Return the text of a macro; a generic test is one."""
    return _END_OF_TEST.sub(r"{%\1 endmacro \2%}", _TEST.sub(r"{%\1 macro test_\2", text))


def _same(value: object) -> object:
    return value
