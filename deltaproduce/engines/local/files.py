"""Files of Delta tables in directories of this machine: which nobody needs, and their removal.

What `storage.files` finds elsewhere, and `spark.file_systems` and Delta's ``VACUUM`` remove there,
by plain Python. The invariants are the same: no file that a needed delta version has, or the newest
one, is found or removed, and none that a writer may be about to commit; nothing is found or removed
through a symbolic link; and a removal of a table that is cut off leaves one that Delta can read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from deltaproduce.engines.delta_log import LOG, commit_file
from deltaproduce.engines.local.log_actions import actions
from deltaproduce.engines.paths import is_linked

INVENTORY: Final = pa.schema(
    {"path": pa.string(), "length": pa.int64(), "isDir": pa.bool_(), "modificationTime": pa.int64()}
)
_SCHEME: Final = "file:"
_HIDDEN: Final = ("_", ".")


@dataclass(slots=True)
class _Named:
    """What a log says of the files of one name: where they are, and whether one is needed."""

    needed: bool = False
    paths: set[str] = field(default_factory=set)


def unneeded(directory: str, needed: Collection[int], unfinished_since: datetime) -> pa.Table:
    """The files of a table that no version needs; see `storage.files.unneeded`.

    Returns:
        `INVENTORY`; paths as Spark names them.

    Raises:
        BrokenLogError: the log is gone, or does not say which files there are.
    """
    named, since = _named(directory, needed), unfinished_since.timestamp()
    # Of old files a log may not say any more.
    tells_all = os.path.exists(os.path.join(directory, commit_file(0)))
    found = []
    for inside, about in _listed(directory):
        name = os.path.basename(inside)
        known = named.get(name)
        if known is None:
            goes = tells_all and inside == name and about.st_mtime < since
        else:
            goes = not known.needed and inside in known.paths
        if goes:
            path = f"{_SCHEME}{directory}/{inside}"
            found.append((path, about.st_size, False, about.st_mtime_ns // 1_000_000))
    columns = zip(*found, strict=True) if found else ((), (), (), ())
    return pa.table(
        [pa.array(c, t) for c, t in zip(columns, INVENTORY.types, strict=True)], INVENTORY
    )


def remove(directory: str, paths: Iterable[str]) -> None:
    """Remove files of a table, with their checksums; those that it has now stay.

    Args:
        paths: as `unneeded` gives them.
    """
    now = _named(directory, ())
    for named in paths:
        path = Path(named.removeprefix(_SCHEME))
        known = now.get(path.name)
        if (known is None or not known.needed) and not is_linked(directory, str(path)):
            path.unlink(missing_ok=True)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def with_file(root: str, file: str) -> tuple[str, ...]:
    """The directories two levels below another one that have a file."""
    pattern = f"*/*/{file}"
    return tuple(sorted(str(path).removesuffix(f"/{file}") for path in Path(root).glob(pattern)))


def has_others(directory: str) -> bool:
    """Whether another Delta table, and so perhaps a store, is below a table's directory."""
    below = [entry for entry in _entries(directory) if entry.is_dir() and entry.name != LOG]
    return any(os.path.exists(os.path.join(e.path, LOG)) or has_others(e.path) for e in below)


def remove_table(directory: str) -> None:
    """Remove a Delta table's directory, and the one that it is in if nothing else is.

    The data goes first, then the log, newest first: what the log says of it stays readable. Of
    symbolic links only the links go.
    """
    table = Path(directory)
    if not table.exists():
        return
    for path in removed_in_turn(directory):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    if not any(table.parent.iterdir()):
        table.parent.rmdir()


def removed_in_turn(directory: str) -> list[str]:
    """What is removed of a table's directory, and at last the directory with the first commit."""
    data = [entry.path for entry in _entries(directory) if entry.name != LOG]
    log = sorted(_entries(os.path.join(directory, LOG)), key=_place, reverse=True)
    return [*data, *(entry.path for entry in log[:-1]), directory]


def _place(entry: os.DirEntry[str]) -> tuple[str, bool]:
    """Where a file of a log is in it: a commit comes before what was made from it."""
    number, _, kind = entry.name.lstrip(".").partition(".")
    return number, kind != "json"


def _named(directory: str, needed: Collection[int]) -> dict[str, _Named]:
    """All files that a table's log tells of, by name."""
    told: dict[tuple[str, str | None], list[tuple[int, bool]]] = {}
    for action in actions(directory):
        told.setdefault((action.path, action.vector), []).append((action.commit, action.adds))
    found: dict[str, _Named] = {}
    for (path, vector), history in told.items():
        is_needed = _is_needed(sorted(history), needed)
        for name in (path, vector):
            if name is not None:
                named = found.setdefault(name.rpartition("/")[2], _Named())
                named.needed |= is_needed
                named.paths.add(name)
    return found


def _is_needed(history: list[tuple[int, bool]], needed: Collection[int]) -> bool:
    """Whether the newest delta version has a file, or one that is needed.

    Args:
        history: the delta versions that add it, or remove it, in their order.
    """
    if history[-1][1]:
        return True
    ends = [end for end, _ in history[1:]]
    spans = [(start, end) for (start, adds), end in zip(history[:-1], ends, strict=True) if adds]
    first, began = history[0]
    if not began:  # by a commit that the log does not have any more
        spans.append((0, first))
    return any(start <= version < end for start, end in spans for version in needed)


def _listed(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    """The files in a directory that are not hidden, by their paths from there; no links."""
    for entry in _entries(directory):
        if entry.name.startswith(_HIDDEN) or entry.is_symlink():
            continue
        if entry.is_dir():
            for inside, about in _listed(entry.path):
                yield f"{entry.name}/{inside}", about
        elif entry.is_file():
            try:
                yield entry.name, entry.stat()
            except FileNotFoundError:  # someone else was faster
                continue


def _entries(directory: str) -> list[os.DirEntry[str]]:
    """What is in a directory; nothing in one that is elsewhere, behind a symbolic link."""
    if os.path.islink(directory):
        return []
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
