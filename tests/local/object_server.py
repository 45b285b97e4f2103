"""A service with the S3 protocol, for tests: moto, in a process of its own.

In this process it could not answer while delta-rs holds the interpreter.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Any

from pyarrow import fs

REGION = "us-east-1"
KEY, SECRET = "a key", "a secret"


@contextmanager
def served(kind: str = "plain") -> Iterator[str]:
    """The address of a service that is up meanwhile.

    Args:
        kind: ``plain``; or ``deaf``, which puts a file whatever the condition is.
    """
    command = [sys.executable, __file__, kind]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def variables(address: str) -> dict[str, str]:
    """What the environment says to those who use the service."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }


def opened(address: str) -> fs.S3FileSystem:
    """The service's files, as others see them, who may make buckets."""
    return fs.S3FileSystem(
        endpoint_override=address,
        region=REGION,
        access_key=KEY,
        secret_key=SECRET,
        allow_bucket_creation=True,
    )


def serve(kind: str) -> None:
    """Serve until the input ends; the port is the first line that is printed."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application, one_at_a_time = DomainDispatcherApplication(create_backend_app), Lock()

    def answer(environment: MutableMapping[str, Any], start: Any) -> Iterable[bytes]:
        if kind == "deaf":
            environment.pop("HTTP_IF_NONE_MATCH", None)
        with one_at_a_time:  # moto looks whether a file is there, and puts it afterwards
            return list(application(environment, start))

    server = make_server("127.0.0.1", 0, answer, threaded=True)
    print(server.server_port, flush=True)
    Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # until whoever has started it is gone


if __name__ == "__main__":
    serve(sys.argv[1])
