"""Checkpoints: how much of an input a data set has, recorded by the commits that add the rows.

A table stores numbers by name, as actions ``txn`` of Delta
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#transaction-identifiers). For each input
it stores three things: the number of commits, which the next commit increases, so one of two
concurrent writers is refused; the first row that is not durable; and for each partition, the row
before which all of its rows are durable. The invariant: these numbers decide whether a row is
durable, whatever its partition and number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from deltaproduce.datasets.tables import DatasetSnapshot
from deltaproduce.described.partitions import Values
from deltaproduce.errors import ConflictError


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of one input, as one writer knows it.

    Attributes:
        name: the input's name, which distinguishes it from other inputs of the data set.
        commits: the number of commits so far.
        resume_from: the number of the first row that is not durable.
    """

    name: str
    commits: int = 0
    resume_from: int = 0

    @staticmethod
    def of(name: str, snapshot: DatasetSnapshot) -> Checkpoint:
        """Read the checkpoint of an input from a table."""
        commits = snapshot.position(_named(name, "commits"))
        resume_from = snapshot.position(_named(name, "rows"))
        return Checkpoint(name, commits or 0, resume_from or 0)

    def durable_before(self, partition: Values, snapshot: DatasetSnapshot) -> int:
        """Return the row number before which all rows of a partition are durable."""
        position = snapshot.position(_named(self.name, "rows", partition))
        return max(self.resume_from, position or 0)

    def check(self, snapshot: DatasetSnapshot, location: str) -> None:
        """Refuse to continue from a checkpoint that is not the newest any more.

        Raises:
            ConflictError: another writer has committed rows of the same input.
        """
        there = snapshot.position(_named(self.name, "commits")) or 0
        if there != self.commits:
            raise ConflictError(
                f"another writer of {location} has committed rows of the checkpoint "
                f"{self.name!r}: open a writer anew, and go on from its resume_from"
            )

    def positions(self, resume_from: int, durable_before: Mapping[Values, int]) -> dict[str, int]:
        """Return the numbers that the next commit sets.

        Args:
            durable_before: row numbers, by partition that the commit has rows of.
        """
        return {
            _named(self.name, "commits"): self.commits + 1,
            _named(self.name, "rows"): resume_from,
            **{
                _named(self.name, "rows", partition): number
                for partition, number in durable_before.items()
                if partition
            },
        }


def _named(name: str, what: str, partition: Values = ()) -> str:
    return f"deltaproduce.checkpoint {json.dumps([name, what, *partition])}"
