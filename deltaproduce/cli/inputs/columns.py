"""Columns that a file lacks: which of them are null in its rows, and which are a fault.

Pure. A source may get a column that takes nulls, and files from before do not have it. A column
that files have lost, or have under another name, must not become null unnoticed. So the invariant:
a file may lack a column only if no file before it has the column, and nothing in it looks like
another name for it; or if the project says that files may lack it; or if the names of its folders
have its value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from deltaproduce.cli.inputs.reading.faults import FileFault
from deltaproduce.cli.inputs.reading.file_parts import Absence
from deltaproduce.cli.inputs.reading.folders import folders_of
from deltaproduce.model.graph import Source
from deltaproduce.types.columns import CHANGE_TYPE, ORDINAL

Names: TypeAlias = Sequence[str] | None
"""The columns of a file; None if it has no rows, and so none."""


@dataclass(frozen=True, slots=True)
class Headers:
    """The columns of the files of a source.

    Attributes:
        names: file -> its columns, in the order in which files are taken. A file is named by its
            path in the folder of the input.
        optional: the columns that any file may lack, as the project says.
        is_begun: whether the source has rows, or had some: they are older than all new files.
    """

    names: Mapping[str, Names]
    source: Source
    optional: Collection[str] = ()
    is_begun: bool = False

    def absence(self, file: str) -> Absence:
        """Return what the columns are in a file's rows that it does not have."""
        in_folders = self._in_folders(file)
        folders = {name: texts[0] for name, texts in in_folders.items() if len(texts) == 1}
        own, allowed = self._own(file), _lower(self.optional)
        values = (column for column in self.source.schema.value if column.nullable)
        lacking = [column.name for column in values if column.name.lower() not in own]
        candidates = [name for name in lacking if name.lower() in allowed]
        unsure = [name for name in lacking if name not in candidates]
        fault = _twice(in_folders) or self._fault(file, unsure)
        if fault is None and self._is_older(file, unsure):
            candidates += unsure
        return Absence(frozenset([*candidates, *folders]), folders, fault)

    def is_whole(self, file: str) -> bool:
        """Return whether a file has all columns, or has no rows."""
        names = self.names[file]
        return names is None or _lower(self.source.schema.names) <= self._own(file)

    def _own(self, file: str) -> frozenset[str]:
        """Return the columns that a file or its folders have, in lower case."""
        return _lower(self.names[file]) | _lower(self._in_folders(file))

    def _in_folders(self, file: str) -> dict[str, Sequence[str]]:
        """Return the texts of the columns that a file's folders have, and it does not."""
        own, texts = _lower(self.names[file]), folders_of(file)
        names = [name for name in self.source.schema.names if name.lower() not in own]
        return {name: texts[name.lower()] for name in names if name.lower() in texts}

    def _is_older(self, file: str, lacking: Sequence[str]) -> bool:
        """Return whether columns may be newer than a file: something else says what it should have.

        Without rows or other files, a wrong declaration is likelier.
        """
        there = frozenset[str]().union(*map(self._own, self.names))
        is_first = next(iter(self.names)) == file
        return self.is_begun or not is_first or _lower(lacking) <= there

    def _fault(self, file: str, lacking: Sequence[str]) -> FileFault | None:
        """Return why columns that a file lacks cannot be newer than it; None if they can be."""
        had = {name: self._last_before(file, name) for name in lacking}
        lost = {name: other for name, other in had.items() if other is not None}
        others = self._new_columns(file)
        if not lost and not (lacking and others):
            return None
        names = [*lost] or [*lacking]
        before = "".join(f", which {other!r} has" for other in dict.fromkeys(lost.values()))
        renamed = f". If it is {' or '.join(others)} now, rename it in the file" if others else ""
        listed = ", ".join(f'"{name}"' for name in names)
        return FileFault(
            f"it has no column {', '.join(names)}{before}; it has "
            f"{', '.join(self.names[file] or ())}{renamed}. If files may lack it, write "
            f"optional = [{listed}] under [sources.{self.source.name}]: then it is null",
            columns=names,
        )

    def _before(self, file: str) -> list[Names]:
        files = list(self.names)
        return [self.names[other] for other in files[: files.index(file)]]

    def _last_before(self, file: str, name: str) -> str | None:
        """Return the last file before another one that has a column."""
        files = list(self.names)
        before = reversed(files[: files.index(file)])
        return next((one for one in before if name.lower() in self._own(one)), None)

    def _new_columns(self, file: str) -> list[str]:
        """Return the columns of a file that nobody declares, and that the file before it lacks."""
        known = _lower(self.source.schema.names) | {CHANGE_TYPE, ORDINAL}
        before = next((names for names in reversed(self._before(file)) if names is not None), ())
        return [
            name for name in self.names[file] or () if name.lower() not in known | _lower(before)
        ]


def _twice(in_folders: Mapping[str, Sequence[str]]) -> FileFault | None:
    twice = [name for name, texts in in_folders.items() if len(texts) > 1]
    if not twice:
        return None
    finding = f"two of its folders have column {', '.join(twice)}; leave one out"
    return FileFault(finding, columns=twice)


def _lower(names: Collection[str] | None) -> frozenset[str]:
    return frozenset(name.lower() for name in names or ())
