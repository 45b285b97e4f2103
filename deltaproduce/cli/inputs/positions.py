"""Positions: which change files a store has taken, by the ids of its updates.

Pure. A run that takes files names them in its update id, with a digest of each one's content. So
the commit that publishes the version also records them: once, even if the run is interrupted, or if
two run at once, since both ask for the same id. Ids stay known when versions are vacuumed.

The invariant: a file is new if its name is new, or if its content differs from what was last taken
under that name. Runs are numbered, so content that comes back is a new batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from deltaproduce.shown.update_ids import Digests, run_id, run_of


@dataclass(frozen=True, slots=True)
class Again:
    """A new file whose content was taken under another name.

    Attributes:
        file: its path, relative to the input.
        before: the path of the file that had the content first.
    """

    source: str
    file: str
    before: str

    @property
    def sentence(self) -> str:
        """What is noticed, in words."""
        return (
            f"{self.source}/{self.file} has the content of {self.before!r}: if it was sent again "
            "by mistake, its rows replace newer ones"
        )

    def as_dict(self) -> dict[str, str]:
        """Return it as JSON has it."""
        return {"source": self.source, "file": self.file, "before": self.before}


@dataclass(frozen=True, slots=True)
class TakenFiles:
    """The change files that a store has taken.

    Attributes:
        runs: the number of runs that took files.
        taken: the digest of each file when it was last taken.
        contents: source -> digest -> the first file that had this content.
    """

    runs: int = 0
    taken: Digests = field(default_factory=dict)
    contents: Digests = field(default_factory=dict)

    @staticmethod
    def of(update_ids: Iterable[str]) -> TakenFiles:
        """Return the position after a store's updates, given by their ids, oldest first."""
        runs, taken, contents = 0, dict[str, dict[str, str]](), dict[str, dict[str, str]]()
        for text in update_ids:
            run = run_of(text)
            if run is None:
                continue
            runs = max(runs, run[0])
            for source, files in run[1].items():
                taken.setdefault(source, {}).update(files)
                for name, digest in files.items():
                    contents.setdefault(source, {}).setdefault(digest, name)
        return TakenFiles(runs, taken, contents)

    def new(self, there: Digests) -> Digests:
        """Return the files that were not taken yet, in their order."""
        new_files = {
            source: {
                name: digest
                for name, digest in files.items()
                if self.taken.get(source, {}).get(name) != digest
            }
            for source, files in there.items()
        }
        return {source: files for source, files in new_files.items() if files}

    def again(self, new: Digests) -> tuple[Again, ...]:
        """Return the new files whose content was taken, or is new, under another name."""
        changes = list[Again]()
        for source, files in new.items():
            known = dict(self.contents.get(source, {}))
            for name, digest in files.items():
                before = known.setdefault(digest, name)
                if before != name:
                    changes.append(Again(source, name, before))
        return tuple(changes)

    def update_id(self, files: Digests, released: Iterable[str] = ()) -> str | None:
        """Return the id of the update that takes files; None if it needs none.

        Args:
            released: the sources whose snapshots were held, and are taken.
        """
        no_more: Digests = {source: {} for source in released}
        if not files and not no_more:
            return None
        return run_id(self.runs + 1, files, no_more)
