"""Spark's ``xxhash64`` of key columns, computed on whole Arrow columns.

The invariant: the numbers equal Spark SQL's ``xxhash64(a, b, …)``: the seed of each column is the
hash of the columns before it, 42 for the first, and a null leaves it unchanged. The algorithm is
XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md), whose steps for single words
Spark uses for values of a fixed size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaproduce.engines.local.arrays import Numbers

_Words: TypeAlias = NDArray[np.uint64]

_SEED: Final = 42
_P1: Final = np.uint64(0x9E3779B185EBCA87)
_P2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_P3: Final = np.uint64(0x165667B19E3779F9)
_P4: Final = np.uint64(0x85EBCA77C2B2AE63)
_P5: Final = np.uint64(0x27D4EB2F165667C5)
_LONG_DIGITS: Final = 18
"""A decimal of at most this many digits is hashed as a 64-bit integer."""
_ROWS_AT_A_TIME: Final = 1 << 16


def xxhash64(keys: pa.Table) -> Numbers:
    """Return the hash of each row of some columns, in the types of `arrow_type`."""
    hashes = np.full(len(keys), _SEED, np.uint64)
    for column in keys.columns:
        for first, chunk in _chunks(column):
            there = np.asarray(chunk.is_valid())
            rows = slice(first, first + len(chunk))
            hashes[rows] = np.where(there, _hashed(chunk, hashes[rows]), hashes[rows])
    return hashes.view(np.int64)


def _chunks(column: pa.ChunkedArray) -> Sequence[tuple[int, pa.Array]]:
    """Return a column's chunks, and the row that each begins with."""
    chunks, first = [], 0
    for chunk in column.chunks:
        for start in range(0, len(chunk), _ROWS_AT_A_TIME):
            part = chunk.slice(start, _ROWS_AT_A_TIME)
            chunks.append((first, part))
            first += len(part)
    return chunks


def _hashed(array: pa.Array, seeds: _Words) -> _Words:
    """Return the hashes of values; for nulls, any number."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _of_texts(array, seeds)
    if pa.types.is_decimal(kind):
        return _of_decimals(array, seeds)
    if pa.types.is_boolean(kind):
        return _of_ints(array.cast(pa.int32()), seeds)
    if pa.types.is_timestamp(kind):
        return _of_longs(_numbers(array.cast(pa.int64())), seeds)
    if pa.types.is_int64(kind):
        return _of_longs(_numbers(array), seeds)
    return _of_ints(array.cast(pa.int32()), seeds)


def _numbers(array: pa.Array) -> Numbers:
    return np.asarray(array.fill_null(0), np.int64)


def _of_ints(array: pa.Array, seeds: _Words) -> _Words:
    words = _numbers(array).astype(np.int32).view(np.uint32).astype(np.uint64)
    return _mixed(_with_half(seeds + _P5 + np.uint64(4), words))


def _of_longs(numbers: Numbers, seeds: _Words) -> _Words:
    return _mixed(_with_word(seeds + _P5 + np.uint64(8), numbers.view(np.uint64)))


def _of_decimals(array: pa.Array, seeds: _Words) -> _Words:
    """Hash short decimals as their unscaled integers, others as the shortest bytes of theirs."""
    pairs = np.frombuffer(array.buffers()[1], "<u8").reshape(-1, 2)
    pairs = pairs[array.offset : array.offset + len(array)]
    if array.type.precision <= _LONG_DIGITS:
        return _of_longs(np.ascontiguousarray(pairs[:, 0]).view(np.int64), seeds)
    digits = np.ascontiguousarray(pairs[:, ::-1]).byteswap().view(np.uint8).reshape(-1, 16)
    sign = np.where(digits[:, 0] >= 0x80, 0xFF, 0)[:, None]
    # A leading byte is redundant if it is all sign, and the next byte begins with the sign bit.
    needless = (digits[:, :-1] == sign) & ((digits[:, 1:] >= 0x80) == (sign != 0))
    skipped = np.logical_and.accumulate(needless, axis=1).sum(axis=1)
    starts = np.arange(len(array)) * 16 + skipped
    return _of_bytes(digits.reshape(-1), starts, 16 - skipped, seeds)


def _of_texts(array: pa.Array, seeds: _Words) -> _Words:
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    ends = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = array.buffers()[2]
    text = np.frombuffer(b"" if data is None else data, np.uint8)
    return _of_bytes(text, ends[:-1], np.diff(ends), seeds)


def _of_bytes(data: NDArray[np.uint8], starts: Numbers, sizes: Numbers, seeds: _Words) -> _Words:
    """Hash byte strings of equal sizes together, word by word."""
    hashes = np.empty_like(seeds)
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        block = data[starts[rows][:, None] + np.arange(size)]
        hashes[rows] = _of_block(block, seeds[rows])
    return hashes


def _of_block(block: NDArray[np.uint8], seeds: _Words) -> _Words:
    """Hash byte strings of one size, one a row."""
    size = block.shape[1]
    whole = size // 8 * 8
    words = np.ascontiguousarray(block[:, :whole]).view("<u8")
    striped = size // 32 * 4  # words
    hashes = _of_stripes(words[:, :striped], seeds) if striped else seeds + _P5
    hashes = hashes + np.uint64(size)
    for place in range(striped, words.shape[1]):
        hashes = _with_word(hashes, words[:, place])
    if size - whole >= 4:
        half = np.ascontiguousarray(block[:, whole : whole + 4]).view("<u4").reshape(-1)
        hashes = _with_half(hashes, half.astype(np.uint64))
        whole += 4
    for place in range(whole, size):
        hashes = _turned(hashes ^ (block[:, place].astype(np.uint64) * _P5), 11) * _P1
    return _mixed(hashes)


def _of_stripes(words: _Words, seeds: _Words) -> _Words:
    """Hash the part of byte strings that fills stripes of four words."""
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for place in range(words.shape[1]):
        which = place % 4
        lanes[which] = _turned(lanes[which] + words[:, place] * _P2, 31) * _P1
    hashes = np.zeros_like(seeds)
    for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True):
        hashes += _turned(lane, bits)
    for lane in lanes:
        hashes = (hashes ^ (_turned(lane * _P2, 31) * _P1)) * _P1 + _P4
    return hashes


def _with_word(hashes: _Words, words: _Words) -> _Words:
    return _turned(hashes ^ (_turned(words * _P2, 31) * _P1), 27) * _P1 + _P4


def _with_half(hashes: _Words, halves: _Words) -> _Words:
    return _turned(hashes ^ (halves * _P1), 23) * _P2 + _P3


def _mixed(hashes: _Words) -> _Words:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))


def _turned(words: _Words, bits: int) -> _Words:
    """Rotate the bits of words to the left."""
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
