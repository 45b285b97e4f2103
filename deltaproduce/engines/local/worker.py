"""A worker process on the driver: what it runs, and its protocol with the driver.

Both talk over a socket of their own in frames: the kind, the length, and the bytes. The driver
sends a function, then rows of whole keys, repeatedly; the worker responds to each with the
function's output, as the function emits it. Standard output is the user's, and goes to the driver's
standard error, as with Spark's workers.

A worker says that it is ready once it has imported what functions need; then one over a few rows
takes milliseconds.

Invariants: a worker ends when its driver does, even in the middle of a function. It unpickles only
functions from the driver; it sends back only rows in Arrow, and text.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import pickle  # noqa: TID251 the driver sends the user's functions
import select
import socket
import struct
import sys
import threading
import time
import traceback
from contextlib import suppress
from importlib import import_module
from importlib.machinery import FileFinder
from typing import Any, BinaryIO, Final

import pyarrow as pa

HEADER: Final = struct.Struct("<cQ")
PLACE: Final = b"P"  # to the worker: the import path, and the directory
FUNCTION: Final = b"F"
ROWS: Final = b"R"
READY: Final = b"H"  # to the driver: ready for work
OUTPUT: Final = b"O"
DONE: Final = b"E"
FAILED: Final = b"X"
UNFIT: Final = b"U"  # the function cannot be unpickled here

START: Final = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "  # Ctrl-C is the driver's
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from deltaproduce.engines.local.worker import main; main(*map(json.loads, sys.argv[2:]))"
)
"""The interpreter's code; its arguments in JSON: import path, and those of `main`."""

_PIECE: Final = 1 << 18
_GRACE_SECONDS: Final = 0.2


def main(channel: int, driver: int, modules: list[str]) -> None:
    """Serve the driver at the other end of a socket, until the driver closes it.

    Args:
        channel: the socket's file number.
        driver: the driver's process id.
        modules: those of this library to import before.
    """
    with socket.socket(fileno=channel) as to_driver:
        threading.Thread(target=_end_with, args=(to_driver, driver), daemon=True).start()
        for module in modules:
            import_module(module)
        with suppress(ConnectionError):
            to_driver.sendall(HEADER.pack(READY, 0))
            _serve(to_driver)
    atexit._run_exitfuncs()
    os._exit(0)  # nobody waits for what is in memory to be freed


def _end_with(channel: socket.socket, driver: int) -> None:
    """End this process when the driver has closed its end, or is gone."""
    poll = select.poll()
    poll.register(channel, 0)  # reports only the end
    while not poll.poll(1_000) and os.getppid() == driver:
        pass
    time.sleep(_GRACE_SECONDS)  # an idle worker ends by itself
    os._exit(1)


def _serve(channel: socket.socket) -> None:
    function: Any = None
    with channel.makefile("rb") as frames:
        while (header := frames.read(HEADER.size)) and len(header) == HEADER.size:
            kind, size = HEADER.unpack(header)
            if kind == ROWS:
                rows = _exactly(frames, size)
                if function is not None:
                    _answer(channel, function, rows)
            elif kind == FUNCTION:
                function = None  # frees the previous function before the next comes
                function = _unpickled(channel, _exactly(frames, size))
            else:
                _go_to(json.loads(_exactly(frames, size)))


def _exactly(frames: BinaryIO, size: int) -> bytes:
    data = frames.read(size)
    if len(data) < size:
        raise ConnectionResetError
    return data


def _go_to(place: dict[str, Any]) -> None:
    sys.path[:] = place["path"]
    with suppress(OSError):
        os.chdir(place["directory"])


def _unpickled(channel: socket.socket, function: bytes) -> object:
    """Unpickle the function for each call of the driver, so it starts as in a task of Spark."""
    for finder in [*sys.path_importer_cache.values()]:  # a module may have been written since
        if isinstance(finder, FileFinder):  # others would reread all jars of the session
            finder.invalidate_caches()
    try:
        return pickle.loads(function)  # noqa: S301 see above
    except BaseException as error:  # noqa: BLE001 Spark will report it
        _tell(channel, UNFIT, _text(error))
        return None


def _answer(channel: socket.socket, function: Any, rows: bytes) -> None:  # noqa: ANN401
    output, writer = _Output(channel), None
    try:
        for batch in function(iter(pa.ipc.open_stream(rows))):
            if writer is None:
                writer = pa.ipc.new_stream(output, batch.schema)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()
        output.send()
    except BaseException as error:  # noqa: BLE001 all errors are reported
        _tell(channel, FAILED, _text(error))
    else:
        _tell(channel, DONE, b"")


def _text(error: BaseException) -> bytes:
    return "".join(traceback.format_exception(error)).encode(errors="backslashreplace")


def _tell(channel: socket.socket, kind: bytes, payload: bytes | bytearray) -> None:
    channel.sendall(HEADER.pack(kind, len(payload)))
    channel.sendall(payload)


class _Output(io.RawIOBase):
    """A file whose bytes go to the driver in frames, on request, or when it holds many."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._held = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:  # noqa: ANN401 any buffer
        self._held += data
        if len(self._held) >= _PIECE:
            self.send()
        return len(data)

    def send(self) -> None:
        """Send the held bytes."""
        if self._held:
            _tell(self._channel, OUTPUT, self._held)
            self._held = bytearray()
