"""Paths of this machine, and the symbolic links in them, as Python sees them.

Hadoop follows symbolic links without reporting them, and object stores have none; so a caller that
removes something asks here first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

_LOCAL: Final = re.compile(r"(?:file:(?://)?)?(/|/[^/].*)", re.DOTALL)


def local_path(address: str) -> str | None:
    """Return a path of this machine without its scheme, as Spark names it; None for other paths."""
    match = _LOCAL.fullmatch(address)
    return None if match is None else match[1]


def is_linked(root: str, address: str) -> bool:
    """Return whether the path from a directory down to an address goes through a symbolic link."""
    top, path = local_path(root), local_path(address)
    if top is None or path is None:
        return False
    straight = os.path.join(os.path.realpath(top), os.path.relpath(path, top))
    return os.path.realpath(path) != os.path.normpath(straight)


def links_below(address: str) -> tuple[str, ...]:
    """Return the symbolic links in a directory, at any depth, by their paths from there."""
    top = local_path(address)
    return () if top is None else tuple(sorted(os.path.relpath(p, top) for p in _links(top)))


def _links(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            links = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in links:
        if entry.is_symlink():
            yield entry.path
        elif entry.is_dir():
            yield from _links(entry.path)
