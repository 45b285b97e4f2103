"""The choice of a file system: by the scheme of an address.

The invariant: only this module decides it. For a scheme without a file system here, Spark alone
reads and writes.
"""

from __future__ import annotations

import re
from typing import Final

from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.file_systems.this_machine import ThisMachine
from deltaproduce.engines.paths import local_path

_BUCKET: Final = re.compile(r"s3a?://([^/]+(?:/.*)?)", re.DOTALL)


def directory(address: str) -> Directory | None:
    """Return the directory at an address, as Spark names it; None if only Spark knows it."""
    path = local_path(address)
    if path is not None:
        return Directory(ThisMachine(), path)
    match = _BUCKET.fullmatch(address)
    if match is None:
        return None
    from deltaproduce.engines.file_systems.object_store import ObjectStore

    return Directory(ObjectStore.of_environment(), match[1])
