"""Buckets: how many an index has, and which one a key is in.

Pure. The invariant: a key's bucket depends on its values, the hash function and the number of
buckets alone, so it never changes unless the index is built anew.
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
"""Of the key columns, a whole number of 64 bits for each row: an Arrow or a NumPy array."""

ENTRIES_A_BUCKET: Final = 1_000_000
"""So many are sorted and read at once."""
_HEADROOM: Final = 1.3
"""An index is made for so many times the records that it begins with, as Hudi advises."""

_HASHES: Final = MappingProxyType({"xxhash64": xxhash64})


def sized(records: int) -> int:
    """How many buckets an index of so many records is to have."""
    return max(1, -(-int(records * _HEADROOM) // ENTRIES_A_BUCKET))


def hash_name(given: str | HashFunction) -> str:
    """What a hash function is called: its name, or where a function of one's own is defined.

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
    """The bucket of each key, from 0: ``pmod(hash(key), buckets)``.

    Raises:
        InvalidArgumentError: a function of one's own does not give a whole number for each key.
    """
    if not len(keys):  # of which a function of one's own need not make an array of numbers
        return np.zeros(0, np.int64)
    function = _HASHES[hashed] if isinstance(hashed, str) else hashed
    found = np.asarray(function(keys))
    if found.shape != (len(keys),) or found.dtype.kind != "i":
        message = f"hash {hash_name(hashed)} gives {found.dtype} of shape {found.shape} for "
        message += f"{len(keys)} keys: give a whole number for each, none of them null"
        raise InvalidArgumentError(message, argument="hash")
    return found.astype(np.int64) % buckets
