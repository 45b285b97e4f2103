"""Folders: reads a dbt project, and writes the project that it becomes.

The only effects of the conversion. The invariant: nothing of the dbt project is changed, and
nothing is written before all of it is converted.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from deltaproduce.errors import InvalidArgumentError
from deltaproduce.projects.dbt import texts, unit_tests
from deltaproduce.projects.dbt.carried import Conversion, LeftOut
from deltaproduce.projects.dbt.conversion import converted
from deltaproduce.projects.dbt.given.rows import SeedFiles
from deltaproduce.projects.dbt.jinja.rendering import Renderer
from deltaproduce.projects.dbt.jinja.variables import project_values, search_orders, seen_by
from deltaproduce.projects.dbt.manifest import Manifest, ManifestError, parsed
from deltaproduce.projects.dbt.notes import Kept, notes
from deltaproduce.projects.file import FILE_NAME
from deltaproduce.projects.stores import ProjectStore
from deltaproduce.reading.opened import opened_by
from deltaproduce.types.excerpts import one_line

MANIFEST: Final = "target/manifest.json"
_LONGEST: Final = 150
NOTES: Final = "FROM_DBT.md"


@dataclass(frozen=True, slots=True)
class CarriedOver:
    """A project that was written.

    Attributes:
        files: its files, relative to its folder.
        stages: how many stages it has.
        left_out: what is not carried over.
    """

    files: tuple[str, ...]
    stages: int
    left_out: tuple[LeftOut, ...]


def write(folder: Path, dbt_folder: Path, target: str | None = None) -> CarriedOver:
    """Write the project that a dbt project becomes.

    Args:
        folder: the new project's.
        target: the name of dbt's target, as Jinja sees it.

    Raises:
        InvalidArgumentError: the folder exists, and is not empty.
        ManifestError: there is no manifest, or it cannot be read.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidArgumentError(
            f"{str(folder)!r} is there, and not an empty folder: give another name", argument="name"
        )
    manifest = manifest_in(dbt_folder)
    renderer = renderer_of(manifest, dbt_folder, target or "dev")
    conversion = converted(
        manifest, _given(manifest, dbt_folder, folder), renderer, folder.absolute().name
    )
    kept = _kept(conversion)
    unit_tests.take(conversion, renderer, kept.stages, kept.needing)
    files = dict(conversion.files)
    files |= {by_hand_path(one): _by_hand(one) for one in conversion.left_out if one.text}
    project = texts.project_text(
        conversion.pipeline.name,
        kept.engine,
        conversion.sources.items(),
        texts.dbt_text(_relative(dbt_folder, folder), _renamed(conversion)),
    )
    files |= {FILE_NAME: project, NOTES: notes(conversion, kept), ".gitignore": "lake/\n"}
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return CarriedOver(
        tuple(sorted(files)), len({*conversion.taken.values()}), tuple(conversion.left_out)
    )


def manifest_in(dbt_folder: Path) -> Manifest:
    """Read the manifest of a dbt project.

    Raises:
        ManifestError: there is none, or it cannot be read.
    """
    return parsed(_text(dbt_folder))


def _text(dbt_folder: Path) -> str:
    path = dbt_folder / MANIFEST
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise ManifestError(
            f"there is no {MANIFEST} in {str(dbt_folder)!r}: run dbt compile there, or dbt parse"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{str(path)!r} cannot be read: {one_line(error)}") from None


def renderer_of(manifest: Manifest, dbt_folder: Path, target: str) -> Renderer:
    """Return what renders the Jinja of a project.

    Args:
        target: the name of dbt's target, as Jinja sees it.

    Raises:
        ManifestError: a `dbt_project.yml` cannot be read.
    """
    root = _project(dbt_folder)
    variables = _variables(manifest, dbt_folder, root)
    return Renderer(manifest, variables, dict(os.environ), target, search_orders(root))


def _variables(
    manifest: Manifest, dbt_folder: Path, root: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Return the variables that each package sees."""
    installed = str(root.get("packages-install-path") or "dbt_packages")
    values = dict[str, Mapping[str, Any]]()
    for package in {node.package for node in manifest.nodes.values()} | {manifest.project}:
        own = {} if package == manifest.project else _project(dbt_folder / installed / package)
        values[package] = seen_by(package, root, own, {})
    return values


def _project(folder: Path) -> Mapping[str, Any]:
    """Return what a folder's `dbt_project.yml` says; nothing if there is none."""
    path = folder / "dbt_project.yml"
    if not path.is_file():
        return {}
    try:
        return project_values(path.read_text(encoding="utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{str(path)!r} cannot be read: {one_line(error)}") from None


def _given(manifest: Manifest, dbt_folder: Path, folder: Path) -> SeedFiles:
    """Read the files of seeds, and what dbt's catalog says of columns."""
    values, places = dict[str, str](), dict[str, str]()
    for node in manifest.of("seed"):
        for root in (dbt_folder, Path(node.root)):
            path = root / node.path
            if path.is_file():
                values[node.id] = path.read_text(encoding="utf-8-sig")
                places[node.id] = _relative(path, folder)
                break
    return SeedFiles(values, places, _catalog(dbt_folder))


def _relative(path: Path, folder: Path) -> str:
    """Return a path as seen from the new project, so that both can be moved together."""
    try:
        return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
    except ValueError:  # on another drive
        return path.absolute().as_posix()


def _catalog(dbt_folder: Path) -> dict[str, dict[str, str]]:
    """Return the types of columns in the database, from `dbt docs generate`, if it ran."""
    path = dbt_folder / "target/catalog.json"
    if not path.is_file():
        return {}
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ManifestError(f"{str(path)!r} cannot be read: {one_line(error)}") from None
    entries = {**values.get("nodes", {}), **values.get("sources", {})}
    return {
        id: {name: str(column["type"]) for name, column in one.get("columns", {}).items()}
        for id, one in entries.items()
    }


def _renamed(conversion: Conversion) -> dict[str, str]:
    """Return the stages of tables that have other names, by the ids of their nodes."""
    nodes = conversion.manifest.nodes
    return {
        id: stage
        for id, stage in conversion.taken.items()
        if id in nodes and nodes[id].alias != stage
    }


def _kept(conversion: Conversion) -> Kept:
    """Return how models are kept, as a store without a session finds it."""
    with (
        tempfile.TemporaryDirectory() as place,
        ProjectStore(None, place, conversion.pipeline, time_zone="UTC") as store,
    ):
        opened = opened_by(store)
        needing = {name: str(error) for name, error in opened.needing.items()}
        explained = {name: store.explain(name) for name in conversion.computed()}
        return Kept(opened.graph, explained, needing)


def by_hand_path(one: LeftOut) -> str:
    """Return the file of what is left to the user; names of tests may be too long for a file."""
    name = one.what
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}_{sha256(name.encode()).hexdigest()[:8]}"
    return f"by_hand/{name}.sql"


def _by_hand(one: LeftOut) -> str:
    return f"-- {one.what}, {one.file}\n-- {' '.join(one.reason.split())}\n{one.text}\n"
