"""Deletion vectors: the numbers of the rows of a file that count as deleted, in Delta's form.

A vector is a magic number and a 64-bit Roaring bitmap in its portable form (Lemire et al., "Roaring
Bitmaps: Implementation of an Optimized Software Library", 2018). A small one is in the log, as text
in base 85; others are in a file, each with its size before it and a checksum behind it
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md, "Deletion Vectors"). The invariant: the
numbers that were encoded are decoded, in order; anything else is an error.
"""

from __future__ import annotations

import array
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID, uuid4

import numpy as np
from pyroaring import BitMap

from deltaproduce.engines.delta.log import Z85
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.local.arrays import Numbers

_MAGIC: Final = 1681511377
_HEAD: Final = struct.pack("<iQI", _MAGIC, 1, 0)
"""Before a bitmap of numbers below 2**32: the magic number, one bitmap, of numbers from 0 on."""
_MOST_IN_LOG: Final = 512
"""The most bytes of a vector in the log: each commit and checkpoint repeats it."""
_FILE_VERSION: Final = b"\x01"
_NAME_DIGITS: Final = 20
_DIGITS: Final = {digit: value for value, digit in enumerate(Z85)}


class Vector:
    """A set of row numbers, each below 2**32."""

    def __init__(self, rows: BitMap) -> None:
        self._rows = rows

    @staticmethod
    def of(rows: Numbers) -> Vector:
        """Return the vector of some row numbers."""
        return Vector(BitMap(array.array("I", np.asarray(rows, np.uint32).tobytes())))

    @staticmethod
    def decoded(data: bytes) -> Vector:
        """Return a vector from its bytes.

        Raises:
            ValueError: they are none, or it has larger numbers.
        """
        if data[: len(_HEAD)] != _HEAD:
            raise ValueError("a deletion vector does not begin with its magic number")
        return Vector(BitMap.deserialize(data[len(_HEAD) :]))

    @property
    def encoded(self) -> bytes:
        """Its bytes."""
        return _HEAD + bytes(self._rows.serialize())

    @property
    def rows(self) -> Numbers:
        """The row numbers, in order."""
        return np.frombuffer(self._rows.to_array(), np.uint32).astype(np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def __or__(self, other: Vector) -> Vector:
        """Return the numbers of both."""
        return Vector(self._rows | other._rows)


def stored(directory: Directory, of_files: Mapping[str, Vector]) -> dict[str, dict[str, Any]]:
    """Store the vectors of some files, and return what the log says of each.

    Large ones are written to one file in the table's directory, which nobody sees before a commit
    names it.

    Args:
        of_files: none of them is empty.

    Raises:
        OSError: the file cannot be written.
    """
    vectors, parts, at, name = dict[str, dict[str, Any]](), [_FILE_VERSION], 1, uuid4()
    for file, vector in of_files.items():
        data = vector.encoded
        about = {"sizeInBytes": len(data), "cardinality": len(vector)}
        if len(data) <= _MOST_IN_LOG:
            padded = data + bytes(-len(data) % 4)
            vectors[file] = {"storageType": "i", "pathOrInlineDv": in_text(padded), **about}
            continue
        parts += [struct.pack(">i", len(data)), data, struct.pack(">I", zlib.crc32(data))]
        place = {"storageType": "u", "pathOrInlineDv": in_text(name.bytes), "offset": at}
        vectors[file] = {**place, **about}
        at += len(data) + 8
    if len(parts) > 1:
        directory.write_bytes(_file_name(name), b"".join(parts))
    return vectors


def identity(descriptor: Mapping[str, Any] | None) -> str:
    """Return what distinguishes a vector from others of its file; empty for none.

    A file may be removed with one vector and added again with another: these are two files of the
    log (https://github.com/delta-io/delta/blob/master/PROTOCOL.md, "Deletion Vectors").
    """
    if descriptor is None:
        return ""
    place = f"{descriptor['storageType']}{descriptor['pathOrInlineDv']}"
    return f"{place}@{descriptor.get('offset')}"


def file_of(descriptor: Mapping[str, Any] | None) -> str | None:
    """Return the path of the file that has a vector; None if none has: it is in the log."""
    kind = None if descriptor is None else descriptor["storageType"]
    if descriptor is None or kind not in ("u", "p"):
        return None
    place = str(descriptor["pathOrInlineDv"])
    return place if kind == "p" else vector_file(place)


def read(directory: Directory, descriptor: Mapping[str, Any]) -> Vector:
    """Return the vector that the log tells of.

    Raises:
        ValueError: it is not what the log tells, or in a place that only Spark knows.
        OSError: its file cannot be read.
    """
    kind, place, size = (
        descriptor["storageType"],
        str(descriptor["pathOrInlineDv"]),
        int(descriptor["sizeInBytes"]),
    )
    if kind == "i":
        return Vector.decoded(from_text(place)[:size])
    if kind != "u":
        raise ValueError(f"deletion vectors of the storage type {kind!r} are read by Spark")
    path, at = vector_file(place), int(descriptor.get("offset") or 0)
    data = directory.read_bytes(path, at, size + 8)
    vector = data[4:-4]
    size_written, checksum_written = (
        int.from_bytes(data[:4], "big"),
        int.from_bytes(data[-4:], "big"),
    )
    if size_written != size or zlib.crc32(vector) != checksum_written:
        raise ValueError(f"the deletion vector in {path} is damaged")
    return Vector.decoded(vector)


def vector_file(place: str) -> str:
    """Return the path of a file of vectors from the table's directory, by how the log names it."""
    folder, digits = place[:-_NAME_DIGITS], place[-_NAME_DIGITS:]
    name = _file_name(UUID(bytes=from_text(digits)))
    return f"{folder}/{name}" if folder else name


def in_text(data: bytes) -> str:
    """Return bytes, a multiple of four, as text: five digits in base 85 for each four bytes."""
    words = np.frombuffer(data, ">u4").astype(np.int64)
    places = words[:, None] // np.array([85**4, 85**3, 85**2, 85, 1]) % 85
    digits: bytes = np.frombuffer(Z85.encode(), np.uint8)[places].tobytes()
    return digits.decode()


def from_text(text: str) -> bytes:
    """Return the bytes of such a text.

    Raises:
        ValueError: it is none.
    """
    if len(text) % 5 or not set(text) <= _DIGITS.keys():
        raise ValueError("a deletion vector is not a text in base 85")
    data = bytearray()
    for at in range(0, len(text), 5):
        value = 0
        for digit in text[at : at + 5]:
            value = value * 85 + _DIGITS[digit]
        data += value.to_bytes(4, "big")
    return bytes(data)


def _file_name(name: UUID) -> str:
    return f"deletion_vector_{name}.bin"
