"""Findings: the damage of a store's tables, and the repair that it needs.

Pure: a `Finding` is one kind of damage that `Store.verify` has found; a `RepairAction` is the
repair for all findings of one stage. The invariant: rows are rebuilt only if the stored rows cannot
be trusted, and updates begin again only if the stored updates cannot be trusted.
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
"""The kinds of damage.

``gone``: the table does not exist, or is another one. ``foreign``: someone else has committed to it
since, which no reader sees. ``unreadable``: files are gone or broken. ``columns``: the table has
other columns. ``rows``: their number differs from the version's, or they are not numbered from 0.
``pairs``: key mappings do not match the content. ``order``: files are not sorted, or overlap.
``steps``: updates that no version makes. ``fold``: all updates together do not give the content.
``recomputed``: the function makes other rows from its feeders. ``versions``: the version log was
changed.
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
    """The repair of one stage's tables.

    Attributes:
        rows: whether content and key mappings stay unchanged (``kept``) or are rewritten: with the
            rows of the content (``content``), with the rows folded from the updates (``updates``),
            with the rows that the function makes from the feeders (``feeders``), or without rows,
            because tasks make them again (``none``).
        before: what the rows are compared with to get the updates of the repair: the rows of the
            content (``content``), those folded from the updates (``updates``), or none, because the
            rows that readers had are unknown (``nothing``).
        begins: whether updates begin again, with all rows.
        set_back: the tables that are restored to the delta version that the version pins.
        remade: the tables that are gone, so that their older versions cannot be read any more.
        runs_lost: whether the table of runs is rewritten without rows.
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
        """Return the repair for the findings of one stage.

        Args:
            runs: whether only the table of runs has some rows of the version.
            is_source: whether no function makes the rows; the updates may have them.
            by_tasks: whether only tasks make the rows, which a repair does not run; the updates may
                have them.
        """
        columns: dict[str, set[str]] = {}
        for finding in findings:
            columns.setdefault(finding.table, set()).add(finding.what)
        content, updates = columns.get(CONTENT, set()), columns.get(UPDATES, set())
        lost = {kind for kind, whats in columns.items() if whats & _LOST}
        begins = UPDATES in lost or "steps" in updates
        bad = bool(content & {*_LOST, "rows", "recomputed"}) or (runs and RUNS in lost)
        differs = "fold" in updates
        moved = "order" in content or columns.get(KEY_MAPPINGS, set()) - {"foreign"} or differs
        rows: Literal["kept", "content", "updates", "feeders", "none"]
        rows = "content" if moved else "kept"
        if bad:
            rows = "updates" if is_source or by_tasks else "feeders"
        elif differs and not is_source:
            rows = "none" if by_tasks else "feeders"  # it is unknown which of the two is right
        before: Literal["content", "updates", "nothing"] = "content"
        if bad or differs:
            before = "nothing" if begins and bad else "content" if begins else "updates"
        return RepairAction(
            rows,
            before,
            begins,
            tuple(kind for kind, whats in columns.items() if "foreign" in whats),
            tuple(kind for kind, whats in columns.items() if "gone" in whats),
            RUNS in lost,
        )

    def without_updates(self) -> RepairAction:
        """Return the same action for updates that turn out to be incomplete, too."""
        return replace(self, before="nothing", begins=True)

    @staticmethod
    def rebuild(action: RepairAction | None) -> RepairAction:
        """Return the same action, for tasks that make all rows again.

        Args:
            action: None if the stage itself is not damaged.
        """
        whole = RepairAction("kept", "content", False, (), (), False)
        return replace(action or whole, rows="none")
