"""The errors of deltaproduce: one tree, so that one ``except`` catches them all.

    DeltaProduceError
    ├── DefinitionError       a pipeline, stage or schema that cannot work
    ├── InvalidChangesError   changes given to an update that contradict themselves or the schema
    ├── ProducerError         a produce function failed, or emitted what its schema does not allow
    ├── MissingPartitionsError  partitions of a window are missing
    ├── TasksFailedError      tasks of a run failed; what others made is published
    ├── ConflictError         another writer published first; nothing of this update is visible
    ├── InvalidArgumentError  an argument of a call is not of its type, or out of its range
    ├── NotFoundError         a stage, version, store, data set or index that does not exist
    ├── AlreadyExistsError    something is where a data set or an index is to be made
    ├── DescriptorMismatchError  what is there is described otherwise than what is wanted
    ├── CorruptStoreError     tables that do not agree with the version log
    ├── CommitUnknownError    whether a version was published could not be found out
    ├── ClosedError           a store that was closed, and is to publish something
    ├── SyncError             a copy elsewhere that cannot be brought up to date as it is
    ├── ViewError             a version that is published, and a view that does not show it yet
    ├── StorageError          a table that cannot be written: a full disk, a missing right
    └── SessionError          no Spark session that can work with Delta tables

Invariant: an error can be pickled with its fields, because it may cross from an executor to the
driver or between processes. For that, the message is the only positional argument, and every field
is a keyword with a default.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from types import MappingProxyType
from typing import Final

_NO_DIFFERENCES: Final[Mapping[str, tuple[object, object]]] = MappingProxyType({})


class DeltaProduceError(Exception):
    """The root of all errors that the library raises on purpose.

    Attributes:
        resume_from: of an error from a data set's writer with a checkpoint, the number of the first
            input row that is not durable; otherwise None.
    """

    resume_from: int | None = None


class DefinitionError(DeltaProduceError):
    """A pipeline, stage or schema cannot work as it is written.

    Attributes:
        stage: the name of the stage that is wrong, if it is one stage.
        column: the name of the column that is wrong, if it is one column.
        file: the file of a project in which it is written, relative to the project's folder.
        line: the line in that file, or in the text that was read, from 1.
    """

    def __init__(
        self,
        message: str,
        *,
        stage: str | None = None,
        column: str | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.column = column
        self.file = file
        self.line = line


class InvalidChangesError(DeltaProduceError):
    """Changes contradict themselves or the schema of their source; nothing was written.

    Attributes:
        source: the name of the source the changes were meant for, or a data set's location.
        column: the name of the column that is wrong; of the first, if there are several.
        columns: the names of all columns that are wrong.
        keys: some of the keys that are wrong, as produce functions get them; maybe not all.
        row: the number, from 0, of the first row that a data set's writer does not take.
    """

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        column: str | None = None,
        columns: tuple[str, ...] = (),
        keys: tuple[object, ...] = (),
        row: int | None = None,
    ) -> None:
        super().__init__(message)
        self.row = row
        self.source = source
        self.column = column
        self.columns = columns
        self.keys = keys


class ProducerError(DeltaProduceError):
    """A produce function failed; where it raised an error itself, that one is the ``__cause__``.

    From a Python worker the cause comes as plain text: an error of one of Python's own classes has
    its class and, if they are plain values, its arguments; of any other, the nearest of Python's
    own that it is a subclass of, and its class is said in the text. The worker's traceback is a
    note on this error.

    Attributes:
        stage: the name of the stage.
        key: the key it was called with, as it got it; None if its Python worker died. Of an Arrow
            producer the source key of the row at fault, or of the table, if that has only one.
        column: of an aggregate the value column that was computed, otherwise None.
    """

    def __init__(
        self,
        message: str,
        *,
        stage: str | None = None,
        key: object = None,
        column: str | None = None,
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.key = key
        self.column = column


class MissingPartitionsError(DeltaProduceError):
    """Partitions of a window are missing that has ``on_missing="error"``; nothing was written.

    Attributes:
        stage: the name of the stage.
        partitions: those that are missing, the first 1,000 of them, by their first values: dates,
            or whole numbers.
    """

    def __init__(
        self,
        message: str,
        *,
        stage: str | None = None,
        partitions: tuple[date | int, ...] = (),
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.partitions = partitions


class TasksFailedError(DeltaProduceError):
    """Tasks of a run failed; what the others made is published, and theirs is as it was.

    Attributes:
        run: a `Run`: what was done, what failed and why, and what is left.
    """

    def __init__(self, message: str, *, run: object = None) -> None:
        super().__init__(message)
        self.run = run


class ConflictError(DeltaProduceError):
    """Another writer published a version first; nothing of this update is visible.

    Attributes:
        attempt: the id of the other's attempt; None if it is not known.
        started_at: when that began, with time zone, by the other's clock; None if it is not known.
    """

    def __init__(
        self, message: str, *, attempt: str | None = None, started_at: datetime | None = None
    ) -> None:
        super().__init__(message)
        self.attempt = attempt
        self.started_at = started_at


class InvalidArgumentError(DeltaProduceError):
    """An argument of a method does not fit, such as a key of another shape than its stage's.

    Attributes:
        argument: the name of the argument that is wrong.
    """

    def __init__(self, message: str, *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class NotFoundError(DeltaProduceError):
    """A stage, version, store, data set or index that was asked for does not exist."""


class AlreadyExistsError(DeltaProduceError):
    """Something is already where a data set or an index is to be made; it is as it was.

    Attributes:
        location: where.
    """

    def __init__(self, message: str, *, location: str | None = None) -> None:
        super().__init__(message)
        self.location = location


class DescriptorMismatchError(DeltaProduceError):
    """What is there is described otherwise than what is wanted; nothing was changed.

    Attributes:
        location: where it is.
        differences: each part of the descriptor that differs, and what was wanted of it and what
            was found, as plain values.
    """

    def __init__(
        self,
        message: str,
        *,
        location: str | None = None,
        differences: Mapping[str, tuple[object, object]] = _NO_DIFFERENCES,
    ) -> None:
        super().__init__(message)
        self.location = location
        self.differences = dict(differences)


class CorruptStoreError(DeltaProduceError):
    """The tables of a store do not agree with its version log; `Store.repair` puts that right.

    Someone else has written to them or to the log, or removed a table, or files are lost.

    Attributes:
        table: the name of the table that is wrong, if it is one table.
    """

    def __init__(self, message: str, *, table: str | None = None) -> None:
        super().__init__(message)
        self.table = table


class CommitUnknownError(DeltaProduceError):
    """The commit of a version failed such that its outcome could not be read back either."""


class ClosedError(DeltaProduceError):
    """A store was closed, so it can be read, and publishes nothing any more."""


class SyncError(DeltaProduceError):
    """A copy of a store's rows in another database cannot be brought up to date; it is as it was.

    Attributes:
        stage: the name of the stage, if it is about one.
        column: the name of the column, if it is about one.
        keys: some of the keys that are wrong, a tuple each; maybe not all.
    """

    def __init__(
        self,
        message: str,
        *,
        stage: str | None = None,
        column: str | None = None,
        keys: tuple[object, ...] = (),
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.column = column
        self.keys = keys


class StorageError(DeltaProduceError):
    """A table could not be written; nothing of the update is visible.

    Attributes:
        table: its name.
    """

    def __init__(self, message: str, *, table: str | None = None) -> None:
        super().__init__(message)
        self.table = table


class ViewError(DeltaProduceError):
    """A version is published, and a view could not be brought to it; the next update tries again.

    Attributes:
        view: its name.
        version: the number of the version.
    """

    def __init__(
        self, message: str, *, view: str | None = None, version: int | None = None
    ) -> None:
        super().__init__(message)
        self.view = view
        self.version = version


class SessionError(DeltaProduceError):
    """There is no Spark session that can work: no Java, no Delta jars, or no Delta extension.

    Also: PySpark's package is not installed, whose types are those of columns.
    """


@contextmanager
def packages_named() -> Iterator[None]:
    """Says of an import in the block that lacks PySpark which package to install.

    Raises:
        SessionError: there is no package `pyspark`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        message = (
            "PySpark is not installed, whose types are those of columns: "
            "pip install 'deltaproduce[local]' for stores without Spark, or 'deltaproduce[spark]'"
        )
        raise SessionError(message) from error
