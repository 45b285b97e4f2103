"""Variables: the values of `vars` in the `dbt_project.yml` of a project and of its packages.

Pure. The manifest does not have them. The invariant: a value is plain data, and that of the root
project counts before that of a package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml  # noqa: TID251 dbt's projects are in YAML; safe_load makes plain values only

from deltaproduce.projects.dbt.manifest import ManifestError


def project_values(text: str, place: str) -> Mapping[str, Any]:
    """Return what a `dbt_project.yml` says.

    Args:
        place: the file, for messages.

    Raises:
        ManifestError: it is not YAML, or no mapping.
    """
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ManifestError(f"{place} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ManifestError(f"{place} is no mapping; it begins with: name: …")
    return values


def seen_by(
    package: str, root: Mapping[str, Any], own: Mapping[str, Any], given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the variables that a package sees, by name.

    Args:
        root: the values of the root project's file.
        own: those of the package's file.
        given: values that come before all others.
    """
    seen = dict[str, Any]()
    for values in (own.get("vars"), root.get("vars")):
        if isinstance(values, dict):
            seen |= values
            scoped = values.get(package)
            seen |= scoped if isinstance(scoped, dict) else {}
    return {**seen, **given}


def search_orders(root: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Return the packages in which `adapter.dispatch` looks for a package's macros, by its name."""
    said = root.get("dispatch")
    entries = [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []
    return {
        str(one.get("macro_namespace")): [str(package) for package in one.get("search_order") or ()]
        for one in entries
    }
