"""Buckets: the number of buckets of an index, and the bucket of a key.

Pure. The invariant: a key's bucket depends only on its values, the hash function and the number of
buckets, so it changes only if the index is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from deltaproduce.engines.local.arrays import Numbers
from deltaproduce.errors import InvalidArgumentError
from deltaproduce.record_index.decisions.xxhash64 import xxhash64
from deltaproduce.types.excerpts import shown

HashFunction: TypeAlias = Callable[[pa.Table], object]
"""Maps the key columns to an Arrow or NumPy array of 64-bit integers, one for each row."""

ENTRIES_A_BUCKET: Final = 1_000_000
"""This many entries are sorted and read at once."""
_HEADROOM: Final = 1.3
"""An index is sized for this multiple of its first number of records, as Hudi advises."""

_HASHES: Final = MappingProxyType({"xxhash64": xxhash64})


def sized(records: int) -> int:
    """Return the number of buckets for an index of this many records."""
    return max(1, -(-int(records * _HEADROOM) // ENTRIES_A_BUCKET))


def hash_name(given: str | HashFunction) -> str:
    """Return the name of a hash function, or the place where the user's own is defined.

    Raises:
        InvalidArgumentError: there is no such function.
    """
    if isinstance(given, str) and given in _HASHES:
        return given
    name = getattr(given, "__qualname__", None)
    if callable(given) and name is not None:
        return f"{given.__module__}.{name}"
    message = f"hash is {shown(given)}: use {', '.join(_HASHES)!s}, or a function of an Arrow table"
    raise InvalidArgumentError(message, argument="hash")


def buckets_of(keys: pa.Table, hashed: str | HashFunction, buckets: int) -> Numbers:
    """Return the bucket of each key, from 0: ``pmod(hash(key), buckets)``.

    Raises:
        InvalidArgumentError: the user's own function does not return an integer for each key.
    """
    if not len(keys):  # the user's own function may fail to return numbers for no keys
        return np.zeros(0, np.int64)
    function = _HASHES[hashed] if isinstance(hashed, str) else hashed
    numbers = np.asarray(function(keys))
    if numbers.shape != (len(keys),) or numbers.dtype.kind != "i":
        message = f"hash {hash_name(hashed)} gives {numbers.dtype} of shape {numbers.shape} for "
        message += f"{len(keys)} keys: give a whole number for each, none of them null"
        raise InvalidArgumentError(message, argument="hash")
    return numbers.astype(np.int64) % buckets
