"""What is wrong with a file, and where: in a line, or in a value of a column.

Pure. A converter of values knows only a value's place among those that it was given; what read the
file knows its line. The invariant: an error names the file, and as far as they are known the line,
the column and the value.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltaproduce.errors import InvalidChangesError
from deltaproduce.types.excerpts import escaped, shown


class Unfit(ValueError):  # noqa: N818 it becomes a FileFault
    """A value that does not fit its type.

    Attributes:
        place: its row, from 0, among those that were converted.
        finding: the value, and what is wrong with it.
    """

    def __init__(self, place: int, finding: str) -> None:
        super().__init__(finding)
        self.place = place
        self.finding = finding


class FileFault(ValueError):  # noqa: N818 it becomes an InvalidChangesError
    """What makes a file unreadable.

    Attributes:
        finding: what is wrong; it follows the file and the place.
        line: the line, from 1, at which the row begins.
        column: the declared name of the column of the value.
        columns: the declared names of all wrong columns, if the finding is about columns.
    """

    def __init__(
        self,
        finding: str,
        *,
        line: int | None = None,
        column: str | None = None,
        columns: Sequence[str] = (),
    ) -> None:
        super().__init__(finding)
        self.finding = finding
        self.line = line
        self.column = column
        self.columns = tuple(columns) if column is None else (column,)

    def error(self, path: str, source: str) -> InvalidChangesError:
        """Return the error of a run."""
        line = "" if self.line is None else f", line {self.line}"
        column = "" if self.column is None else f", column {self.column!r}"
        return InvalidChangesError(
            f"{path!r} of source {source!r}{line}{column}: {escaped(self.finding)}",
            source=source,
            file=path,
            line=self.line,
            column=next(iter(self.columns), None),
            columns=self.columns,
        )


def no_value(value: object, kind: str, why: str = "") -> str:
    """Say that a value is none of a type."""
    return f"{shown(value)} is not {kind}{why and f': {why}'}"
