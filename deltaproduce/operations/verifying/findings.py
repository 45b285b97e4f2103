"""Findings: what is wrong with the tables of a store, and what that takes to be put right.

Pure: a `Finding` is one thing that `Store.verify` has found, a `RepairAction` what a repair does
about all that was found of one stage. The invariant: rows are made again only where those that are
stored cannot be trusted, and updates begin anew only where those that are stored cannot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal

from deltaproduce.model.layouts import CONTENT, KEY_MAPPINGS, RUNS, UPDATES
from deltaproduce.shown.tabular import one_line

What = Literal[
    "columns",
    "fold",
    "foreign",
    "gone",
    "order",
    "pairs",
    "recomputed",
    "rows",
    "steps",
    "unreadable",
    "versions",
]
"""What a finding is about.

``gone``: there is no table, or another one. ``foreign``: someone else has committed to it since,
which no reader sees. ``unreadable``: files are gone or broken. ``columns``: it has others.
``rows``: not as many as the version says, or not numbered from 0. ``pairs``: key mappings are not
those of the content. ``order``: files are not sorted, or overlap. ``steps``: updates that no
version makes. ``fold``: all updates together do not give the content. ``recomputed``: the function
makes other rows of what its feeders have. ``versions``: the version log was changed.
"""

_LOST: Final = frozenset({"gone", "unreadable", "columns"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a table.

    Attributes:
        stage: the stage that has the table; empty for the version log.
        table: ``content``, ``key_mappings``, ``updates`` or ``runs``; ``_versions`` for the log.
        what: the kind of damage, in one word.
        wrong: what was found, in words.
        mend: how to fix it.
    """

    stage: str
    table: str
    what: What
    wrong: str
    mend: str = "store.repair()"

    def __repr__(self) -> str:
        return one_line(self, self.stage, self.table, self.what, self.wrong)

    def as_dict(self) -> dict[str, str]:
        """The finding as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RepairAction:
    """What a repair does to the tables of one stage.

    Attributes:
        rows: whether content and key mappings stay as they are (``kept``), are written anew with
            the rows that the content has (``content``), with those that the updates come to
            (``updates``), or with what the function makes of the feeders' rows (``feeders``).
        before: what the rows are compared with, which gives the updates of the repair: those that
            the content has, or those that the updates come to; or nobody knows what readers had.
        begins: updates are begun anew, with all rows.
        set_back: the tables that go back to the delta version that the version pins.
        remade: the tables that are gone, so that older versions of them cannot be read any more.
        runs_lost: the table of runs is written anew, without rows.
    """

    rows: Literal["kept", "content", "updates", "feeders", "none"]
    before: Literal["content", "updates", "nothing"]
    begins: bool
    set_back: tuple[str, ...]
    remade: tuple[str, ...]
    runs_lost: bool

    @staticmethod
    def of(
        findings: Iterable[Finding], *, runs: bool, is_source: bool, by_tasks: bool = False
    ) -> RepairAction:
        """What is to be done about the findings of one stage.

        Args:
            runs: whether rows of the version are in the table of runs only.
            is_source: there is no function that makes the rows; the updates may have them.
            by_tasks: only tasks make the rows, which a repair does not run; the updates may have
                them.
        """
        found: dict[str, set[str]] = {}
        for finding in findings:
            found.setdefault(finding.table, set()).add(finding.what)
        content, updates = found.get(CONTENT, set()), found.get(UPDATES, set())
        lost = {kind for kind, whats in found.items() if whats & _LOST}
        begins = UPDATES in lost or "steps" in updates
        bad = bool(content & {*_LOST, "rows", "recomputed"}) or (runs and RUNS in lost)
        differs = "fold" in updates
        moved = "order" in content or found.get(KEY_MAPPINGS, set()) - {"foreign"} or differs
        rows: Literal["kept", "content", "updates", "feeders", "none"]
        rows = "content" if moved else "kept"
        if bad:
            rows = "updates" if is_source or by_tasks else "feeders"
        elif differs and not is_source:
            rows = "none" if by_tasks else "feeders"  # nobody knows which of both is right
        before: Literal["content", "updates", "nothing"] = "content"
        if bad or differs:
            before = "nothing" if begins and bad else "content" if begins else "updates"
        return RepairAction(
            rows,
            before,
            begins,
            tuple(kind for kind, whats in found.items() if "foreign" in whats),
            tuple(kind for kind, whats in found.items() if "gone" in whats),
            RUNS in lost,
        )

    def without_updates(self) -> RepairAction:
        """The same where the updates turn out not to say all either."""
        return replace(self, before="nothing", begins=True)

    @staticmethod
    def begun_anew(found: RepairAction | None) -> RepairAction:
        """The same where tasks are to make all rows again.

        Args:
            found: None if nothing is wrong with the stage itself.
        """
        whole = RepairAction("kept", "content", False, (), (), False)
        return replace(found or whole, rows="none")
