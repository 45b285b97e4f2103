"""The errors of deltaproduce: one tree, so that one ``except`` catches them all.

    DeltaProduceError
    ├── DefinitionError       a pipeline, stage or schema that cannot work
    ├── InvalidChangesError   given changes contradict themselves or the schema
    ├── ProducerError         a function of a stage failed, or emitted what its schema refuses
    ├── ChecksFailedError     a version would break checks; nothing was written
    ├── MissingPartitionsError  partitions of a window are missing
    ├── TasksFailedError      tasks of a run failed; those that succeeded are published
    ├── ConflictError         another writer published first; nothing of this update is visible
    ├── InvalidArgumentError  an argument of a call has the wrong type, or is out of range
    ├── NotFoundError         a stage, version, store, data set or index does not exist
    ├── AlreadyExistsError    something exists where a data set or an index should be created
    ├── DescriptorMismatchError  the existing data set or index has another descriptor
    ├── CorruptStoreError     tables do not agree with the version log
    ├── CommitUnknownError    it is unknown whether a commit took effect
    ├── ClosedError           a closed store should publish something
    ├── SyncError             a copy elsewhere cannot be updated as it is
    ├── ViewError             a version is published, and a view does not show it yet
    ├── StorageError          a table cannot be written: a full disk, a missing permission
    └── SessionError          no Spark session that can work with Delta tables

Invariant: an error can be pickled with its fields, because it may cross from an executor to the
driver or between processes. For that, the message is the only positional argument, and every field
is a keyword with a default.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, Final

_NO_DIFFERENCES: Final[Mapping[str, tuple[object, object]]] = MappingProxyType({})


class DeltaProduceError(Exception):
    """The root of all errors that the library raises on purpose.

    Attributes:
        resume_from: for an error of a data set's writer with a checkpoint, the number of the first
            input row that is not durable; otherwise None.
    """

    resume_from: int | None = None


class DefinitionError(DeltaProduceError):
    """A pipeline, stage or schema cannot work as it is written.

    Attributes:
        stage: the name of the wrong stage, if it is one stage.
        column: the name of the wrong column, if it is one column.
        file: the file of a project that contains it, relative to the project's folder.
        line: the line in that file, or in the parsed text, from 1.
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
        source: the name of the source that the changes are for, or a data set's location.
        column: the name of the wrong column; of the first, if there are several.
        columns: the names of all wrong columns.
        keys: some of the wrong keys, as functions get them; perhaps not all.
        row: the number, from 0, of the first row that a data set's writer refuses.
        file: the file that cannot be read, if the changes are in files.
        line: the line in that file, from 1, at which the wrong row begins.
        rows: for a key that is there twice in a unique source, the numbers, from 0, of two of its
            rows, in the order in which they were given.
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
        file: str | None = None,
        line: int | None = None,
        rows: tuple[int, ...] = (),
    ) -> None:
        super().__init__(message)
        self.rows = rows
        self.row = row
        self.file = file
        self.line = line
        self.source = source
        self.column = column
        self.columns = columns
        self.keys = keys


class ProducerError(DeltaProduceError):
    """A function of a stage failed; if it raised an error, that is the ``__cause__``.

    A Python worker sends the cause as plain text. An error of one of Python's own classes keeps its
    class and, if they are plain values, its arguments. Any other error becomes one of the nearest
    built-in class that it is a subclass of, and its text names its own class. The worker's
    traceback is a note on this error.

    Attributes:
        stage: the name of the stage.
        key: the key that the function was called with, as it got it; None if its Python worker
            died. For an Arrow producer, the source key of the wrong row, or of the table, if that
            has only one.
        column: for an aggregate, the value column that was computed; for a surrogate that is too
            large, its column; otherwise None.
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


class ChecksFailedError(DeltaProduceError):
    """A version would break checks of severity ``error``; nothing was written.

    Attributes:
        checks: a `CheckResult` for each broken check of that severity, in order of definition.
        tasks: the `Partition` of each task that the version would have made.
    """

    def __init__(
        self, message: str, *, checks: tuple[Any, ...] = (), tasks: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(message)
        self.checks = checks
        self.tasks = tasks


class MissingPartitionsError(DeltaProduceError):
    """Partitions of a window with ``on_missing="error"`` are missing; nothing was written.

    Attributes:
        stage: the name of the stage.
        partitions: the missing ones, up to the first 1,000, by their first values: dates, or whole
            numbers.
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
    """Tasks of a run failed; the others are published, and the failed partitions are unchanged.

    Attributes:
        run: a `Run`: what was done, what failed and why, and what is left.
    """

    def __init__(self, message: str, *, run: object = None) -> None:
        super().__init__(message)
        self.run = run


class ConflictError(DeltaProduceError):
    """Another writer published a version first; nothing of this update is visible.

    Attributes:
        attempt: the id of the other writer's attempt; None if unknown.
        started_at: when that started, with time zone, by the other writer's clock; None if unknown.
    """

    def __init__(
        self, message: str, *, attempt: str | None = None, started_at: datetime | None = None
    ) -> None:
        super().__init__(message)
        self.attempt = attempt
        self.started_at = started_at


class InvalidArgumentError(DeltaProduceError):
    """An argument of a method does not fit, such as a key that does not match its stage's columns.

    Attributes:
        argument: the name of the wrong argument.
    """

    def __init__(self, message: str, *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class NotFoundError(DeltaProduceError):
    """A stage, version, store, data set or index does not exist."""


class AlreadyExistsError(DeltaProduceError):
    """Something exists where a data set or an index should be created; it is unchanged.

    Attributes:
        location: where it is.
    """

    def __init__(self, message: str, *, location: str | None = None) -> None:
        super().__init__(message)
        self.location = location


class DescriptorMismatchError(DeltaProduceError):
    """An existing data set or index has another descriptor than wanted; nothing was changed.

    Attributes:
        location: where it is.
        differences: each part of the descriptor that differs -> what was wanted and what was found,
            as plain values.
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
    """The tables of a store do not agree with its version log; `Store.repair` fixes that.

    Someone else has written to them or to the log, or removed a table, or files are lost.

    Attributes:
        table: the name of the wrong table, if it is one table.
    """

    def __init__(self, message: str, *, table: str | None = None) -> None:
        super().__init__(message)
        self.table = table


class CommitUnknownError(DeltaProduceError):
    """A commit failed, and its outcome could not be read back either."""


class ClosedError(DeltaProduceError):
    """The store is closed: you can read it, but it publishes nothing any more."""


class SyncError(DeltaProduceError):
    """A copy of a store's rows in another database cannot be updated; it is unchanged.

    Attributes:
        stage: the name of the stage, if it is about one.
        column: the name of the column, if it is about one.
        keys: some of the wrong keys, a tuple each; perhaps not all.
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
    """A table could not be written, or rows kept in a temporary file; nothing of it is visible.

    Attributes:
        table: the table's name; None if it is not about one.
    """

    def __init__(self, message: str, *, table: str | None = None) -> None:
        super().__init__(message)
        self.table = table


class ViewError(DeltaProduceError):
    """A version is published, but a view does not show it yet; the next update tries again.

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

    Also raised if the package PySpark is not installed, which provides the types of columns.

    Attributes:
        stage: the name of the stage that needs a session, if it is one stage.
    """

    def __init__(self, message: str, *, stage: str | None = None) -> None:
        super().__init__(message)
        self.stage = stage


@contextmanager
def packages_named() -> Iterator[None]:
    """Say which package to install if an import in the block fails for lack of PySpark.

    Raises:
        SessionError: there is no package `pyspark`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        message = (
            "PySpark is not installed, and this needs Spark: pip install 'deltaproduce[spark]'"
        )
        raise SessionError(message) from error
