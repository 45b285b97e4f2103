"""Lower, upper and title case, in Unicode 17, as the ICU of Spark 4.2 has it.

Python has the same rules, and tables of Unicode 14 or later. What they may lack is here. The
invariant: a later table of Python gives the same results. A test asks Spark for each code point.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from deltaproduce.stages.sql.expressions.functions.rules import Rule, signature, text
from deltaproduce.stages.sql.expressions.kernels.rows import row_kernel
from deltaproduce.types.data_types import StringType

_NEW_PAIRS: Final[Mapping[int, int]] = MappingProxyType(
    {
        0x1C89: 0x1C8A,
        0xA7CB: 0x0264,
        0xA7CC: 0xA7CD,
        0xA7CE: 0xA7CF,
        0xA7D2: 0xA7D3,
        0xA7D4: 0xA7D5,
        0xA7DA: 0xA7DB,
        0xA7DC: 0x019B,
        **{upper: upper + 0x20 for upper in range(0x10D50, 0x10D66)},
        **{upper: upper + 0x1B for upper in range(0x16EA0, 0x16EB9)},
    }
)
"""Upper and lower letters that are pairs since Unicode 15 to 17."""

_NEW_LOWER: Final = (
    *(0x1C8A, 0xA7CD, 0xA7CF, 0xA7DB),
    *(*range(0x10D70, 0x10D86), *range(0x16EBB, 0x16ED4), *range(0x1DF25, 0x1DF2B)),
)
"""Letters that are lower case since then."""

_NEW_MARKS: Final = (
    *(0x0897, 0x0ECE, *range(0x1ACF, 0x1ADE), *range(0x1AE0, 0x1AEC), 0xA7F1, 0x10D4E),
    *(*range(0x10D69, 0x10D6E), 0x10D6F, 0x10EC5, *range(0x10EFA, 0x10F00), 0x11241),
    *(*range(0x113BB, 0x113C1), 0x113CE, 0x113D0, 0x113D2, 0x113E1, 0x113E2, 0x11B60),
    *(*range(0x11B62, 0x11B65), 0x11B66, 0x11DD9, 0x11F00, 0x11F01, *range(0x11F36, 0x11F3B)),
    *(0x11F40, 0x11F42, 0x11F5A, *range(0x13439, 0x13441), *range(0x13447, 0x13456)),
    *(*range(0x1611E, 0x1612A), *range(0x1612D, 0x16130), *range(0x16D40, 0x16D43), 0x16D6B),
    *(0x16D6C, 0x16FF2, 0x16FF3, *range(0x1E030, 0x1E06E), 0x1E08F, *range(0x1E4EB, 0x1E4F0)),
    *(0x1E5EE, 0x1E5EF, 0x1E6E3, 0x1E6E6, 0x1E6EE, 0x1E6EF, 0x1E6F5, 0x1E6FF),
)
"""Marks and the like since then, which are skipped to see whether a sigma ends a word."""

_LOWER: Final = MappingProxyType(dict(_NEW_PAIRS))
_UPPER: Final = MappingProxyType({lower: upper for upper, lower in _NEW_PAIRS.items()})
_SIGMA: Final = "\N{GREEK CAPITAL LETTER SIGMA}"
_SIGMAS: Final = "\N{GREEK SMALL LETTER SIGMA}\N{GREEK SMALL LETTER FINAL SIGMA}"
_ALIKE: Final = MappingProxyType(
    {
        **dict.fromkeys((*map(ord, _SIGMAS), *_NEW_LOWER), "a"),
        **dict.fromkeys(_NEW_MARKS, "\N{COMBINING ACUTE ACCENT}"),
        **dict.fromkeys((0x0295, 0x1171E), "1"),  # a letter and a mark before Unicode 15 or 16
    }
)
"""Characters that old tables have, and that are to a sigma what these are."""


def _lower(value: str) -> str:
    known = value.translate(_LOWER)
    if _SIGMA not in known:
        return known.lower()
    characters = iter(c for c in known.translate(_ALIKE).lower() if c in _SIGMAS)
    return "".join(next(characters) if c == _SIGMA else c for c in known).lower()


def _upper(value: str) -> str:
    return value.translate(_UPPER).upper()


def _words(value: str) -> str:
    """Return a text whose words, which a space parts, begin with a letter in title case."""
    return " ".join(
        _title(word[0]) + _after_first(word) if word else "" for word in value.split(" ")
    )


def _title(first: str) -> str:
    return first.translate(_UPPER).title()


def _after_first(word: str) -> str:
    """Return the rest of a word in lower case, which depends on its first character, too."""
    return _lower(word)[len(_lower(word[0])) :]


CASES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **dict.fromkeys(("lower", "lcase"), signature(row_kernel(_lower), StringType(), text)),
        **dict.fromkeys(("upper", "ucase"), signature(row_kernel(_upper), StringType(), text)),
        "initcap": signature(row_kernel(_words), StringType(), text),
    }
)
