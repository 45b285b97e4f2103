"""Hidden stages: stages that definitions add, which users neither define nor see.

A hidden stage stores what another stage needs from step to step: the sorted values of an aggregate,
the records of tasks. It is planned, computed, written and repaired like any stage, and may read
hidden stages itself. The invariant: what a stage is for is a value that it carries, and that its
figures record; only logs of releases that did not record it are read by names (`role_of_name`).
"""

import re
from dataclasses import dataclass
from typing import Final

from deltaproduce.model.arguments import name_fault

MULTISET: Final = "multiset"
"""The values of an aggregate's groups, with their counts."""
RECORDS: Final = "records"
"""The tasks of a stage that were made, or the partitions that a source had."""
DIGESTS: Final = "digests"
"""A number for each partition of a stage that tasks read."""
CHECK: Final = "check"
"""The rows that break a check."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """What a hidden stage is for.

    Attributes:
        role: what it stores, in a word; its figures record it.
        owners: the names of the stages of users whose definitions need it, or the name of the
            check. Messages about it name the first.
    """

    role: str
    owners: tuple[str, ...]

    def shared_with(self, other: "Hidden") -> "Hidden":
        """Return the same, for the owners of both."""
        return Hidden(self.role, tuple(dict.fromkeys((*self.owners, *other.owners))))


def hidden_name(word: str, number: int, stage: str) -> str:
    """Return the name of a hidden stage, which no stage of a user can have.

    Args:
        word: lower-case letters.
        number: tells hidden stages of one stage apart.
        stage: a stage that it belongs to.
    """
    return f"_{word}_{number}_{stage}"


def hidden_name_fault(name: str) -> str | None:
    """Return what is wrong with the name of a hidden stage, which becomes a directory."""
    match = _NAME.fullmatch(name)
    return "that is not a name of a hidden stage" if match is None else name_fault(match[1])


def role_of(hidden: Hidden | None) -> str:
    """Return the role that figures record of a stage; empty if users define it."""
    return "" if hidden is None else hidden.role


def role_of_name(name: str) -> str:
    """Return the role of a stage in a version that does not record it; empty if users defined it.

    Only such versions are read by names: those of releases before roles were recorded, and they had
    three kinds of hidden stages.
    """
    roles = (role for word, role in _ROLES_BEFORE.items() if re.match(word, name))
    return next(roles, "")


_NAME: Final = re.compile(r"_[a-z]+_\d+_(.*)", re.DOTALL)
_ROLES_BEFORE: Final = {r"_sorted_\d+_": MULTISET, "_tasks_1_": RECORDS, "_tasks_2_": DIGESTS}
