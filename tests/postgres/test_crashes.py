"""The client or server is killed at any moment: nothing is lost or duplicated."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from copies import assert_same, rows
from pages import link, site
from selecting import chosen
from server import Server

from deltaproduce import CommitUnknownError, Store, SyncError, postgres
from deltaproduce.postgres.connection import Connection

ROOT = Path(__file__).parents[2]
STAGES = ["links", "pages"]
EFFECTS = 60
"""More than a sync has."""

KILLED = """
import os, signal, sys
sys.path[:0] = {path!r}
from pages import site
from deltaproduce import Store, postgres
from deltaproduce.postgres import connection

left = {number}


def counted(do):
    def done(*given):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return do(*given)

    return done


def copied(self, statement, texts):
    def each():
        for text in texts:
            yield text[: len(text) // 2]
            counted(lambda: None)()
            yield text[len(text) // 2 :]

    return copy(self, statement, each())


copy = connection.Connection.copy
connection.Connection.copy = counted(copied)
connection.Connection.execute = counted(connection.Connection.execute)
connection.Connection.rows = counted(connection.Connection.rows)
connection._commit = counted(connection._commit)
postgres.Sync(Store(None, {location!r}, site), {address!r}, key_tables=["pages"]).run()
print("done")
counted(lambda: None)()
"""


def killed(location: str, address: str, number: int) -> bool:
    """Kill a sync before one of its effects, and say whether it had come to its end."""
    path = [str(ROOT), str(ROOT / "tests" / "postgres")]
    script = KILLED.format(path=path, location=location, address=address, number=number)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.stdout == "done\n"


@pytest.mark.parametrize("number", chosen(range(EFFECTS), 40))
def test_a_client_that_is_killed(address: str, location: str, number: int) -> None:
    """In a first load and in a sync of changes; then another one goes on."""
    with Store(None, location, site) as store:
        store.update({"links": [link(1, "a", "b"), link(2, "b", "c")]})
        sync = postgres.Sync(store, address, key_tables=["pages"])
        done = killed(location, address, number)
        again = sync.run()
        assert_same(store, site, address, STAGES)
        assert sum(table.inserted for table in again.tables) == (0 if done else 9)
        before = {table: rows(address, table) for table in (*STAGES, "pages__keys")}
        store.update({"links": [link(1), link(3, "c", "d")]})
        if not killed(location, address, number):
            assert {table: rows(address, table) for table in before} == before
        sync.run()
        assert_same(store, site, address, STAGES)


@pytest.mark.parametrize("place", ["copy", "execute", "_commit"])
def test_a_server_that_crashes(
    server: Server, address: str, location: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While rows come, between statements, and when the transaction is to end."""
    with Store(None, location, site) as store:
        store.update({"links": [link(1, "a", "b"), link(2, "b", "c")]})
        sync = postgres.Sync(store, address, key_tables=["pages"])
        sync.run()
        before = {table: rows(address, table) for table in (*STAGES, "pages__keys")}
        store.update({"links": [link(1), link(3, "c", "d")]})
        home = sys.modules[Connection.__module__] if place == "_commit" else Connection
        do = getattr(home, place)

        def crashed(*given):
            server.stop("immediate")
            return do(*given)

        with monkeypatch.context() as patched:
            patched.setattr(home, place, crashed)
            expected = CommitUnknownError if place == "_commit" else SyncError
            with pytest.raises(expected):
                sync.run()
        server.start()
        assert {table: rows(address, table) for table in before} == before
        sync.run()
        assert_same(store, site, address, STAGES)
