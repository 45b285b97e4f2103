"""A PostgreSQL server for tests, in its own folder and behind its own socket.

`make services` installs PostgreSQL where it is missing.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DEBIAN = Path("/usr/lib/postgresql")
_SETTINGS = (
    "-c listen_addresses='' -c fsync=off -c shared_buffers=32MB -c max_wal_size=1GB "
    "-c autovacuum=off"
)


@dataclass(frozen=True)
class Server:
    """A server that is up.

    Attributes:
        folder: it has its data, and the socket.
    """

    folder: Path

    def address(self, database: str = "postgres") -> str:
        """Where a database is, as libpq takes it."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def start(self) -> None:
        """Start it, also after a crash."""
        options = f"{_SETTINGS} -c unix_socket_directories='{self.folder}'"
        _run("pg_ctl", "start", "-w", "-D", self._data, "-o", options, "-l", f"{self.folder}/log")

    def stop(self, mode: str = "fast") -> None:
        """Stop it; ``immediate`` is a crash."""
        _run("pg_ctl", "stop", "-m", mode, "-D", self._data)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")


@contextmanager
def served() -> Iterator[Server]:
    """A server that is up meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        if os.geteuid() == 0:  # as which it does not run
            shutil.chown(folder, *_owner())
        _run("initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8")
        server = Server(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder)


def _owner() -> tuple[str, int]:
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return entry.pw_name, entry.pw_gid


def _run(program: str, *arguments: str) -> None:
    user: Mapping[str, Any] = {}
    if os.geteuid() == 0:
        name, group = _owner()
        user = {"user": name, "group": group, "extra_groups": []}
    ran = subprocess.run(
        [_found(program), *arguments],
        cwd="/",
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # which a server that was started keeps open
        stderr=subprocess.DEVNULL,
        **user,
    )
    if ran.returncode:
        raise RuntimeError(f"{program} {' '.join(arguments)} failed: {ran.returncode}")


def _found(program: str) -> str:
    versions = sorted(_DEBIAN.glob("*/bin"), key=lambda path: int(path.parent.name))
    path = os.pathsep.join([*map(str, versions[::-1]), os.environ.get("PATH", "")])
    found = shutil.which(program, path=path)
    if found is None:
        raise RuntimeError(f"there is no {program}: `make services` installs PostgreSQL")
    return found
