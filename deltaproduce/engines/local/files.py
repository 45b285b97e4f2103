"""Files of Delta tables without Spark: which files no version needs, and their removal.

Plain Python does what `storage.files` finds, and `spark.file_systems` and Delta's ``VACUUM``
remove, elsewhere. The invariants are the same: no file of a needed delta version, or of the newest,
is found or removed, and no file that a writer may be about to commit; nothing is found or removed
through a symbolic link; and an interrupted removal of a table leaves one that Delta can read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import unquote

import pyarrow as pa

from deltaproduce.engines.delta.log import LOG, beginning, is_begun, removed_in_turn
from deltaproduce.engines.file_systems.directory import Directory, Entry
from deltaproduce.engines.local.marked.log_actions import actions

INVENTORY: Final = pa.schema(
    {"path": pa.string(), "length": pa.int64(), "isDir": pa.bool_(), "modificationTime": pa.int64()}
)
_HIDDEN: Final = ("_", ".")


@dataclass(slots=True)
class _Named:
    """The files of one name in a log: where they are, and whether one is needed."""

    needed: bool = False
    paths: set[str] = field(default_factory=set)


def unneeded(directory: Directory, needed: Collection[int], unfinished_since: datetime) -> pa.Table:
    """Return the files of a table that no version needs; see `storage.files.unneeded`.

    Returns:
        `INVENTORY`; paths as Spark names them.

    Raises:
        BrokenLogError: the log is gone, or does not list the files.
    """
    named, since = _named(directory, needed), unfinished_since.timestamp()
    first = beginning(directory.names(LOG))
    # A log may no longer list the files of delta versions before its beginning.
    tells_all = first is not None and all(first <= one for one in needed)
    folders = {_folder(path) for known in named.values() for path in known.paths} | {""}
    paths = []
    for inside, entry in _listed(directory):
        known = named.get(entry.name)
        if known is None:
            is_old = entry.modified_ns < since * 1e9
            goes = tells_all and is_old and _folder(inside) in folders
        else:
            goes = not known.needed and inside in known.paths
        if goes:
            path = directory.named(inside)
            paths.append((path, entry.size, False, entry.modified_ns // 1_000_000))
    columns = zip(*paths, strict=True) if paths else ((), (), (), ())
    return pa.table(
        [pa.array(c, t) for c, t in zip(columns, INVENTORY.types, strict=True)], INVENTORY
    )


def remove(directory: Directory, paths: Iterable[str]) -> None:
    """Remove files of a table; the table's current files stay.

    Args:
        paths: as `unneeded` returns them.
    """
    now = _named(directory, ())
    for named in paths:
        inside = directory.inside(named)
        known = now.get(inside.rpartition("/")[2])
        if (known is None or not known.needed) and not directory.is_linked(inside):
            directory.remove_file(inside)


def remove_log_files(directory: Directory, names: Iterable[str]) -> None:
    """Remove files of a table's log, one after the other."""
    for name in names:
        directory.remove_file(f"{LOG}/{name}")


def tables_below(root: Directory) -> tuple[str, ...]:
    """Return the directories of Delta tables two levels below a root, by path from there."""
    two_below = (f"{one}/{two}" for one in _folders(root) for two in _folders(root.at(one)))
    return tuple(sorted(inside for inside in two_below if _has_log(root.at(inside))))


def has_others(directory: Directory) -> bool:
    """Return whether another Delta table, and so perhaps a store, is below a table's directory."""
    if directory.is_link:
        return False
    below = [directory.at(name) for name in _folders(directory) if name != LOG]
    return any(one.exists(LOG) or has_others(one) for one in below)


def remove_table(directory: Directory) -> None:
    """Remove a Delta table's directory, and its parent directory if that is then empty.

    The data goes first, then the log, newest first: the rest of the log stays readable. Of symbolic
    links, only the links are removed.
    """
    if not directory.is_there:
        return
    for one in steps_of_removal(directory):
        one.remove()
    directory.parent.remove_if_empty()


def steps_of_removal(directory: Directory) -> list[Directory]:
    """Return the paths to remove, in order; last the directory, with what the log begins with."""
    data = [directory.at(entry.name) for entry in _entries(directory) if entry.name != LOG]
    log = directory.at(LOG)
    names = removed_in_turn(entry.name for entry in _entries(log))
    return [*data, *map(log.at, names), directory]


def _has_log(directory: Directory) -> bool:
    """Return whether there is a Delta table, with a commit, in a directory."""
    try:
        return is_begun(directory.names(LOG))
    except OSError:
        return False


def _named(directory: Directory, needed: Collection[int]) -> dict[str, _Named]:
    """Return all files that a table's log names, by name."""
    files: dict[tuple[str, str, str | None], list[tuple[int, bool]]] = {}
    for action in actions(directory):
        file = action.path, action.mark, action.vector
        files.setdefault(file, []).append((action.commit, action.adds))
    by_name: dict[str, _Named] = {}
    for (path, _, vector), history in files.items():
        is_needed = _is_needed(sorted(history), needed)
        for name in (path, vector):
            if name is not None:
                named = by_name.setdefault(name.rpartition("/")[2], _Named())
                named.needed |= is_needed
                named.paths.add(unquote(name))
    return by_name


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _is_needed(history: list[tuple[int, bool]], needed: Collection[int]) -> bool:
    """Return whether the newest delta version, or a needed one, has a file.

    Args:
        history: the delta versions that add or remove it, in their order.
    """
    if history[-1][1]:
        return True
    ends = [end for end, _ in history[1:]]
    spans = [(start, end) for (start, adds), end in zip(history[:-1], ends, strict=True) if adds]
    first, began = history[0]
    if not began:  # added by a commit that the log no longer has
        spans.append((0, first))
    return any(start <= version < end for start, end in spans for version in needed)


def _listed(directory: Directory) -> Iterator[tuple[str, Entry]]:
    """Yield the files in a directory that are not hidden, by their paths from there; no links."""
    for entry in _entries(directory):
        if entry.name.startswith(_HIDDEN) or entry.is_link:
            continue
        if entry.is_directory:
            for inside, below in _listed(directory.at(entry.name)):
                yield f"{entry.name}/{inside}", below
        else:
            yield entry.name, entry


def _entries(directory: Directory) -> list[Entry]:
    """Return a directory's entries; none for a symbolic link, whose target is elsewhere."""
    return [] if directory.is_link else directory.entries()


def _folders(directory: Directory) -> list[str]:
    """Return the names of the directories in a directory."""
    return [entry.name for entry in directory.entries() if entry.is_directory]
