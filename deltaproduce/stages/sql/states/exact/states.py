"""The stored form of exact numbers: bytes, equal for equal numbers.

A number is stored as whole numbers of 32 bits, least significant byte first: twice the place of its
lowest limb, plus one if it is negative; then its limbs. Zero has no bytes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltaproduce.stages.sql.states.exact.numbers import ExactNumbers

_BYTES = 4


def to_binary(numbers: ExactNumbers) -> pa.BinaryArray:
    """Return the stored form of numbers."""
    lengths = numbers.lengths
    is_present = lengths > 0
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths + is_present)])
    words = np.empty(ends[-1], "<u4")
    heads = ends[:-1][is_present]
    is_head = np.zeros(len(words), bool)
    is_head[heads] = True
    words[heads] = (2 * numbers.lowest + numbers.negative)[is_present].astype("<i4").view("<u4")
    words[~is_head] = numbers.limbs
    offsets = pa.array((ends * _BYTES).astype(np.int32)).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(numbers), [None, offsets, pa.py_buffer(words)])


def from_binary(states: pa.BinaryArray) -> ExactNumbers:
    """Return the numbers that `to_binary` stored."""
    _, offsets, data = states.buffers()
    bounds = np.frombuffer(offsets, np.int32)[states.offset : states.offset + len(states) + 1]
    words = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]].view("<u4")
    ends = (bounds - bounds[0]).astype(np.int64) // _BYTES
    is_present = np.diff(ends) > 0
    heads = ends[:-1][is_present]
    is_head = np.zeros(len(words), bool)
    is_head[heads] = True
    head = np.zeros(len(states), np.int64)
    head[is_present] = words[heads].view("<i4")
    limbs = words[~is_head].astype(np.int64)
    kept = ends - np.concatenate([np.zeros(1, np.int64), np.cumsum(is_present)])
    return ExactNumbers((head & 1).astype(bool), head >> 1, kept, limbs)
