"""Values that the Jinja of a dbt project may name: the configuration, variables, functions.

The invariant: what only a run of dbt knows is a `RenderingError` that says so.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NoReturn

import yaml  # noqa: TID251 a function of dbt's; safe_load makes plain values only

from deltaproduce.errors import DefinitionError
from deltaproduce.projects.dbt.jinja.times import MODULES, STARTED


class RenderingError(DefinitionError):
    """Jinja that cannot be rendered without dbt."""


class Returned(Exception):  # noqa: N818 it is how a macro ends, as in dbt
    """What a macro returns with `return`."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


def returned(value: object = "") -> NoReturn:
    """End the macro with a value."""
    raise Returned(value)


@dataclass(frozen=True)
class Target:
    """The target of dbt's profile, as far as it is known."""

    name: str
    type: str
    schema: str
    database: str | None
    threads: int = 1

    @property
    def dbname(self) -> str | None:
        """The database."""
        return self.database


@dataclass(frozen=True)
class Config:
    """The configuration of a node, which its file may say again."""

    values: Mapping[str, Any]

    def __call__(self, *args: object, **kwargs: object) -> str:
        """Say the configuration, which the manifest has already."""
        return ""

    def get(self, name: str, default: object = None, validator: object = None) -> object:
        """Return a value; the default if there is none."""
        value = self.values.get(name)
        return default if value is None else value

    def require(self, name: str, validator: object = None) -> object:
        """Return a value.

        Raises:
            RenderingError: there is none.
        """
        if self.values.get(name) is None:
            raise RenderingError(f"config has no {name!r}")
        return self.values[name]


_REQUIRED: Final = object()


@dataclass(frozen=True)
class Variables:
    """`var`: the variables of a project, as one of its packages sees them.

    Attributes:
        rendered: returns what a text with Jinja is.
    """

    values: Mapping[str, Any]
    rendered: Callable[[str], str]

    def __call__(self, name: str, default: object = _REQUIRED) -> object:
        """Return a variable's value; the default if it has none.

        Raises:
            RenderingError: it has neither.
        """
        if name not in self.values and default is _REQUIRED:
            raise RenderingError(
                f"variable {name!r} has no value: add it to vars in dbt_project.yml, or run "
                "dbt compile"
            )
        value = self.values.get(name, default)
        is_jinja = isinstance(value, str) and ("{{" in value or "{%" in value)
        return self.rendered(value) if is_jinja else value

    def has_var(self, name: str) -> bool:
        """Return whether a variable has a value."""
        return name in self.values


def environment_variable(values: Mapping[str, str], name: str, default: str | None = None) -> str:
    """Return a variable of the environment, as `env_var` does.

    Raises:
        RenderingError: it is not set, and there is no default.
    """
    value = values.get(name, default)
    if value is None:
        raise RenderingError(f"environment variable {name!r} is not set; set it")
    return value


@dataclass(frozen=True)
class Refused:
    """A value that is not there; whatever is done with it says why."""

    why: str

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise RenderingError(self.why)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RenderingError(self.why)

    __call__ = __str__ = __iter__ = __getitem__ = __bool__ = _refuse


class ColumnTypes:
    """`api.Column`: the names of types."""

    _NAMES: Final = MappingProxyType({"STRING": "TEXT", "INTEGER": "INT"})

    def translate_type(self, kind: str) -> str:
        """Return the name of a type in the database."""
        return self._NAMES.get(kind.upper(), kind)

    def numeric_type(self, kind: str, precision: object, scale: object) -> str:
        """Return a decimal type."""
        return kind if precision is None or scale is None else f"{kind}({precision},{scale})"

    def string_type(self, size: int) -> str:
        """Return a type of text."""
        return f"varchar({size})"


class Exceptions:
    """`exceptions`: errors and warnings of macros."""

    def raise_compiler_error(self, message: str, node: object = None) -> NoReturn:
        """Raise an error of a macro."""
        raise RenderingError(f"a macro says: {message}")

    raise_not_implemented = raise_compiler_error

    def warn(self, message: str, node: object = None) -> str:
        """Leave out a warning."""
        return ""

    warn_if_not = warn


def _hidden(*args: object, **kwargs: object) -> str:
    """Leave out what dbt logs."""
    return ""


def _md5(value: str) -> str:
    return hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()


_ITERTOOLS: Final = ("accumulate", "chain", "combinations", "permutations", "product", "repeat")

PLAIN: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "log": _hidden,
        "print": _hidden,
        "set": set,
        "zip": zip,
        "set_strict": set,
        "zip_strict": partial(zip, strict=False),
        "toyaml": yaml.safe_dump,
        "fromyaml": yaml.safe_load,
        "tojson": json.dumps,
        "fromjson": json.loads,
        "local_md5": _md5,
        "modules": {
            "re": {name: getattr(re, name) for name in re.__all__},
            "itertools": {name: getattr(itertools, name) for name in _ITERTOOLS},
            **MODULES,
        },
        "run_started_at": STARTED,
        "invocation_id": Refused("invocation_id is of a run of dbt"),
    }
)
"""What is the same for all nodes."""
