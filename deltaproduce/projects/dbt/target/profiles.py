"""Profiles: where a dbt project's database is, by its `profiles.yml`.

The only effect is to read the two files. The invariant: an address is what the file says, with
`env_var` rendered; whatever else is not plain is refused, and never guessed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from deltaproduce.errors import DefinitionError
from deltaproduce.projects.dbt.jinja.values import environment_variable
from deltaproduce.projects.dbt.jinja.variables import project_values
from deltaproduce.projects.dbt.manifest import ManifestError
from deltaproduce.types.excerpts import meant, one_line, shown

_PROFILES: Final = "profiles.yml"
_GIVE: Final = "name the database with --with"
_OF_LIBPQ: Final[Mapping[str, str]] = {
    "host": "host",
    "port": "port",
    "user": "user",
    "password": "password",
    "pass": "password",
    "dbname": "dbname",
    "database": "dbname",
    "sslmode": "sslmode",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslrootcert": "sslrootcert",
    "connect_timeout": "connect_timeout",
}
"""What dbt calls a setting -> what libpq calls it."""


def address_of(dbt_folder: Path, target: str | None = None) -> str:
    """Return the address of a project's database: a path, or a connection string of libpq.

    Args:
        target: the target of the profile; the one that the file names if None.

    Raises:
        ManifestError: the files do not say it, or not plainly.
    """
    profile = _values(dbt_folder / "dbt_project.yml").get("profile")
    path = _path(dbt_folder)
    outputs, chosen = _outputs(_values(path), profile, path)
    name = target or chosen
    output = outputs.get(name)
    if not isinstance(output, dict):
        raise ManifestError(f"{str(path)!r} has no target {shown(name)}; {meant(name, outputs)}")
    settings = {key: _rendered(value, f"{name}.{key}", path) for key, value in output.items()}
    match settings.get("type"):
        case "duckdb":
            return _of_file(settings, dbt_folder, path)
        case "postgres":
            return _of_libpq(settings)
    kind = shown(settings.get("type"))
    raise ManifestError(
        f"target {shown(name)} of {str(path)!r} is of type {kind}; compared are duckdb and "
        f"postgres: {_GIVE}"
    )


def _path(dbt_folder: Path) -> Path:
    folders = [os.environ.get("DBT_PROFILES_DIR"), dbt_folder, Path.home() / ".dbt"]
    paths = [Path(folder) / _PROFILES for folder in folders if folder]
    for path in paths:
        if path.is_file():
            return path
    places = ", ".join(repr(str(path.parent)) for path in paths)
    raise ManifestError(f"there is no {_PROFILES} in {places}: {_GIVE}")


def _values(path: Path) -> Mapping[str, Any]:
    try:
        return project_values(path.read_text(encoding="utf-8-sig"), repr(str(path)))
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{str(path)!r} cannot be read: {one_line(error)}; {_GIVE}") from None


def _outputs(
    values: Mapping[str, Any], profile: object, path: Path
) -> tuple[Mapping[str, Any], str]:
    """Return the targets of a profile, and the name of the one that counts."""
    targets = values.get(str(profile))
    if not isinstance(targets, dict):
        raise ManifestError(
            f"{str(path)!r} has no profile {shown(profile)}; {meant(profile, values)}; {_GIVE}"
        )
    outputs = targets.get("outputs")
    target = str(_rendered(targets.get("target", "default"), "target", path))
    return (outputs if isinstance(outputs, dict) else {}), target


def _rendered(value: object, name: str, path: Path) -> object:
    """Return a setting with its environment variables."""
    if not isinstance(value, str) or "{" not in value:
        return value
    environment = SandboxedEnvironment(undefined=StrictUndefined)
    environment.globals = {"env_var": partial(environment_variable, os.environ)}
    environment.filters |= {"as_number": str, "as_text": str, "as_bool": str, "as_native": str}
    try:
        return environment.from_string(value).render()
    except (TemplateError, DefinitionError) as error:
        raise ManifestError(
            f"{name} in {str(path)!r} is not plain: {one_line(error)}; {_GIVE}"
        ) from None


def _of_file(settings: Mapping[str, object], dbt_folder: Path, path: Path) -> str:
    place = settings.get("path")
    if not isinstance(place, str) or place == ":memory:":
        raise ManifestError(f"the target of {str(path)!r} is in memory, and not in a file: {_GIVE}")
    return place if "://" in place or place.startswith("md:") else str(dbt_folder / place)


def _of_libpq(settings: Mapping[str, object]) -> str:
    values = {_OF_LIBPQ[key]: value for key, value in settings.items() if key in _OF_LIBPQ}
    return " ".join(f"{key}={_libpq_text(str(value))}" for key, value in values.items())


def _libpq_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
