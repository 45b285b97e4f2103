"""Random changes of two sources: few keys with some rows each, a third of them deletes."""

import random
from collections.abc import Callable
from typing import Any

from deltaproduce.testing import Delete, Upsert


def changes(
    seed: int, versions: int, values: Callable[[random.Random], tuple[Any, ...]]
) -> list[dict[str, list[Any]]]:
    """What each version is given.

    Args:
        values: draws those of one row.
    """
    chance = random.Random(seed)

    def rows(key: int) -> list[Upsert]:
        return [Upsert((key,), values(chance)) for _ in range(chance.choice([1, 1, 2, 4]))]

    return [
        {
            name: [
                change
                for key in chance.sample(range(12), chance.choice([1, 2, 5]))
                for change in ([Delete((key,))] if chance.random() < 0.35 else rows(key))
            ]
            for name in chance.choice([["events"], ["more"], ["events", "more"]])
        }
        for _ in range(versions)
    ]
