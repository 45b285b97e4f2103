"""Merging: decides which files of a table are written again, and which together.

Pure, from the sizes of the files. A step that marks rows as replaced adds a small file for the new
ones. Files of a similar size are merged once there are several of them, so that each row is
written again a few times at most, however many versions there are: size-tiered compaction, as
log-structured merge trees have it (O'Neil et al., "The log-structured merge-tree", 1996). A file
that has lost a tenth of its rows is written without them. The invariant: the rows of the table stay
the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from deltaproduce.storage.parquet.files import DataFile

PURGED_SHARE: Final = 0.1
"""The share of a file's rows from which on the marked ones are purged."""
_TIER: Final = 8
"""How many times more rows the files of the next tier have."""


def merges(
    files: Iterable[DataFile], *, most: int, full: int, at_once: bool = False
) -> tuple[tuple[int, ...], ...]:
    """Return the files to write again, by number: those of a group become one run of sorted rows.

    Args:
        most: how many files of one tier may be there.
        full: the number of rows from which on a file is not merged with others.
        at_once: whether all small files are merged, and all marked rows purged.
    """
    of_partition = defaultdict[int, list[DataFile]](list)
    for file in files:
        of_partition[file.partition].append(file)
    groups = list[tuple[int, ...]]()
    for in_partition in of_partition.values():
        small = [file for file in in_partition if file.alive < full]
        together = small if at_once else _tiered(small, most)
        if len(together) > 1:
            groups.append(tuple(sorted(file.number for file in together)))
        else:
            together = []
        share = 0.0 if at_once else PURGED_SHARE
        groups += [
            (file.number,)
            for file in in_partition
            if file not in together and file.marked and file.marked >= share * file.rows
        ]
    return tuple(groups)


def _tiered(files: list[DataFile], most: int) -> list[DataFile]:
    """Return the files of the largest tier that has too many, and all smaller ones."""
    tiers = defaultdict[int, list[DataFile]](list)
    for file in files:
        tiers[int(math.log(max(file.alive, 1), _TIER))].append(file)
    too_many = [tier for tier, in_tier in tiers.items() if len(in_tier) >= most]
    if not too_many:
        return []
    return [file for tier, in_tier in tiers.items() if tier <= max(too_many) for file in in_tier]
