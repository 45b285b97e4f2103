"""An empty PostgreSQL server for all tests of a process."""

from collections.abc import Iterator

import psycopg
import pytest
from server import Server, served


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with served() as server:
        yield server


@pytest.fixture
def address(server: Server) -> str:
    """A database without tables, which tests have one after the other."""
    with psycopg.connect(server.address()) as connection:
        schemas = connection.execute(
            "SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname !~ '^(pg_|information_)'"
        )
        for (schema,) in schemas.fetchall():
            connection.execute(f"DROP SCHEMA {schema} CASCADE")
        connection.execute("CREATE SCHEMA public")
    return server.address()
