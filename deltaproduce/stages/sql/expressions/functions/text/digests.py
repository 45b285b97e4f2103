"""Digests of the bytes of text."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from deltaproduce.stages.sql.expressions.functions.rules import Rule, exactly, signature, whole
from deltaproduce.stages.sql.expressions.kernels.rows import row_kernel
from deltaproduce.types.data_types import LongType, StringType

_text = exactly(StringType)
_SHA2: Final = MappingProxyType(
    {
        0: hashlib.sha256,
        224: hashlib.sha224,
        256: hashlib.sha256,
        384: hashlib.sha384,
        512: hashlib.sha512,
    }
)
"""By the bits that are asked for."""


def _sha2(value: str, bits: int) -> str | None:
    digest = _SHA2.get(bits)
    return None if digest is None else digest(value.encode()).hexdigest()


def _md5(value: str) -> str:
    return hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()


def _sha1(value: str) -> str:
    return hashlib.sha1(value.encode(), usedforsecurity=False).hexdigest()


DIGESTS: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "md5": signature(row_kernel(_md5), StringType(), _text),
        **dict.fromkeys(("sha", "sha1"), signature(row_kernel(_sha1), StringType(), _text)),
        "sha2": signature(row_kernel(_sha2), StringType(), _text, whole),
        "crc32": signature(row_kernel(lambda value: zlib.crc32(value.encode())), LongType(), _text),
    }
)
