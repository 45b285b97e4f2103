"""The data set: the user's handle on a Delta table with a descriptor.

A facade: each method documents what it does, and delegates to the module that does it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import EllipsisType, MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from deltaproduce.datasets import reading
from deltaproduce.datasets.absorbing import absorb
from deltaproduce.datasets.copying import copied
from deltaproduce.datasets.parts import narrowed
from deltaproduce.datasets.places import engines_of, table_at
from deltaproduce.datasets.tables import DatasetSnapshot, DataTable, already_there
from deltaproduce.datasets.writing.writer import DatasetWriter, WriterOptions, opened_writer
from deltaproduce.described.descriptor import Description, Descriptor
from deltaproduce.engines.choice import Engines
from deltaproduce.errors import (
    AlreadyExistsError,
    DescriptorMismatchError,
    InvalidArgumentError,
    NotFoundError,
)
from deltaproduce.shown.tabular import Word, one_line
from deltaproduce.types.columns import SchemaLike, plain_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EVERYWHERE: Final[Mapping[str, str | None]] = MappingProxyType({})


class Dataset:
    """A Delta table with a descriptor: the columns of its rows, and how its files store them.

    `create`, `find` and `find_or_create` return one.
    """

    def __init__(
        self,
        engines: Engines,
        table: DataTable,
        description: Description,
        within: Mapping[str, str | None] = _EVERYWHERE,
    ) -> None:
        self._engines = engines
        self._table = table
        self._description = description
        self._within = within

    @staticmethod
    def create(
        spark: SparkSession | None,
        location: str | os.PathLike[str],
        *,
        schema: SchemaLike,
        partition: str | None = None,
        order: str | None = None,
        compression: str = "snappy",
    ) -> Dataset:
        """Create an empty data set: a Delta table with its descriptor, in one commit.

        Args:
            spark: a session with Delta. None for a data set without Spark: it returns pyarrow
                Tables.
            location: a path on this machine or in an object store.
            schema: the columns of the rows, as DDL or StructType. Writers check ``NOT NULL``.
            partition: columns, or ``expression AS name``, separated by commas. The name of an
                expression is a column of the Delta table and not of the rows; timestamps in it are
                in UTC. "" means no partitions but allows ``writer(partitioned=True)``, which None
                does not.
            order: the columns that sort the rows of each file, such as ``"day, id desc"``.
            compression: of its files: ``snappy``, ``zstd``, ``gzip``, ``lz4`` or ``uncompressed``.

        Raises:
            DefinitionError: the descriptor cannot work; nothing is written.
            AlreadyExistsError: there is a Delta table at the location, data set or not.
            SessionError: the session cannot work with Delta tables.
            StorageError: the location cannot be written.
        """
        descriptor = Description.of(schema, partition, order, compression)
        engines = engines_of(spark)
        table = table_at(location, engines)
        if table.opened() is not None:
            raise already_there(table.address)
        table.check_commits()
        table.create(descriptor)
        return Dataset(engines, table, descriptor)

    @staticmethod
    def find(
        spark: SparkSession | None,
        location: str | os.PathLike[str],
        *,
        schema: SchemaLike | None = None,
    ) -> Dataset:
        """Find the data set at a location.

        Args:
            spark: see `create`.
            schema: the columns that it must have; not checked if None.

        Raises:
            NotFoundError: there is none, or a Delta table that is not a data set.
            DescriptorMismatchError: it has other columns.
            CorruptStoreError: its descriptor is broken.
            DefinitionError: a data set cannot be there, or ``schema`` is not valid.
        """
        columns = None if schema is None else plain_columns(schema)
        engines = engines_of(spark)
        table = table_at(location, engines)
        descriptor = _existing_snapshot(table).descriptor
        if columns is not None and columns != descriptor.columns:
            raise _mismatch(table.address, {"schema": (columns.ddl, descriptor.columns.ddl)})
        return Dataset(engines, table, descriptor)

    @staticmethod
    def find_or_create(
        spark: SparkSession | None,
        location: str | os.PathLike[str],
        *,
        schema: SchemaLike,
        partition: str | None = None,
        order: str | None = None,
        compression: str = "snappy",
    ) -> Dataset:
        """Find the data set at a location, or create it.

        Any number of processes may call this at once. Args are those of `create`.

        Raises:
            DescriptorMismatchError: the existing one has another descriptor; `differences` lists
                the parts that differ in meaning, not only in spelling.
            AlreadyExistsError: there is a Delta table that is not a data set.
            DeltaProduceError: as for `create` and `find`.
        """
        wanted = Description.of(schema, partition, order, compression)
        engines = engines_of(spark)
        table = table_at(location, engines)
        snapshot = table.snapshot()
        if snapshot is None:
            try:
                table.check_commits()
                table.create(wanted)
            except AlreadyExistsError:
                snapshot = table.snapshot()
                if snapshot is None:
                    raise
        descriptor = wanted if snapshot is None else snapshot.descriptor
        if differences := wanted.differences(descriptor):
            raise _mismatch(table.address, differences)
        return Dataset(engines, table, descriptor)

    def __repr__(self) -> str:
        within = ", ".join(f"{name}={value}" for name, value in self._within.items())
        return one_line(self, self.location, partition=Word(within) if within else None)

    @property
    def location(self) -> str:
        """The path of its Delta table."""
        return self._table.address

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor of its rows and files."""
        return self._description.descriptor

    def read(self, where: str | None = None) -> DataFrame | pa.Table:
        """Read the rows, in any order.

        Args:
            where: a condition in SQL over the columns of rows and of partitions. Files that cannot
                have such rows are skipped.

        Returns:
            The columns of rows; a DataFrame with a session, otherwise a pyarrow Table, which is in
            a temporary file if it is large.

        Raises:
            InvalidArgumentError: ``where`` is not a condition, or fails for a row.
            SessionError: only Spark can compute it, or read the files, and there is no session.
            NotFoundError: the data set does not exist any more.
            CorruptStoreError: files are gone or broken.
        """
        snapshot = _existing_snapshot(self._table)
        return reading.rows(self._engines, self._table, snapshot, self._condition(snapshot, where))

    def files(self, where: str | None = None) -> list[str]:
        """List the paths of its files, relative to the location, sorted.

        Args:
            where: as for `read`: lists files that may have such rows, by their partitions and by
                the minimum and maximum of columns.
        """
        snapshot = _existing_snapshot(self._table)
        listed = reading.files(self._table, snapshot, self._condition(snapshot, where))
        paths: list[str] = listed.column("path").to_pylist()
        return paths

    def partition(self, **values: object) -> Dataset:
        """Select a part of it: the rows with some values in some or all partition columns.

        You can read, write and copy the part like a data set; it refuses rows with other values.

        Args:
            values: by column; dates also as text in ISO 8601. None is null.

        Raises:
            InvalidArgumentError: there is no such partition column, or a value does not fit it, or
                contradicts the part that this is.
        """
        return Dataset(
            self._engines,
            self._table,
            self._description,
            narrowed(values, self._description, self._within),
        )

    def writer(
        self,
        *,
        roll_rows: int | None = None,
        checkpoint: bool | str = False,
        partitioned: bool = False,
        open_files: int = 100,
    ) -> DatasetWriter:
        """Return a writer; use it in a ``with`` block, at whose end it commits its rows.

        Args:
            roll_rows: start a new file in a partition after this many rows; without it a writer
                makes one file for each partition.
            checkpoint: commit each file when it ends, and record how much of the input is durable:
                the next writer of the same checkpoint continues from its ``resume_from``. A text
                names the input, if there are several.
            partitioned: require that the data set is partitioned, if only by nothing. All writers
                of a data set that is partitioned by columns are.
            open_files: keep rows of at most this many partitions in memory; those of others go to a
                temporary file.

        Raises:
            InvalidArgumentError: an argument has the wrong type, or there is no partition.
            NotFoundError: the data set does not exist any more.
            StorageError: someone else has given it a ``CHECK`` constraint, which only Spark checks.
        """
        options = WriterOptions.given(
            roll_rows=roll_rows,
            checkpoint=checkpoint,
            partitioned=partitioned,
            open_files=open_files,
        )
        return opened_writer(self._engines, self._table, self._description, self._within, options)

    def absorb(self, other: Dataset) -> None:
        """Move all rows of another data set into this one, in one commit; the other is then empty.

        Within one file system no data is copied. Readers of both through the library see the rows
        in exactly one of them. If it is interrupted, the next absorption, or writer of either,
        completes or undoes it. So do not start it while writers of either are at work.

        Raises:
            InvalidArgumentError: it is this data set itself, or one of the two is a part; or it is
                append-only, has deletion vectors, or files of Spark in a partition such as ``ä``.
            DescriptorMismatchError: its descriptor differs.
            ConflictError: a writer of either has undone it; the rows are where they were.
            StorageError: something cannot be written; the rows are in one of the two.
        """
        if not isinstance(other, Dataset):
            raise InvalidArgumentError(
                f"other is a {type(other).__name__}; give the Dataset", argument="other"
            )
        if self._within or other._within:
            raise InvalidArgumentError(
                "a part of a data set neither absorbs nor is absorbed; give whole data sets",
                argument="other",
            )
        if self._table.is_same_as(other._table):
            raise InvalidArgumentError(
                f"a data set cannot absorb itself: both are at {self.location}", argument="other"
            )
        if differences := _existing_snapshot(self._table).descriptor.differences(
            _existing_snapshot(other._table).descriptor
        ):
            raise _mismatch(other.location, differences, f", which {self.location} is to absorb,")
        self._table.check_commits()
        absorb(self._table, other._table)

    def copy(
        self,
        location: str | os.PathLike[str],
        *,
        partition: str | EllipsisType | None = ...,
        order: str | EllipsisType | None = ...,
        compression: str | EllipsisType = ...,
    ) -> Dataset:
        """Copy its rows into a new data set, all or nothing, with one file for each partition.

        Args:
            location: as for `create`.
            partition: see `create`; so are the others. ``...`` keeps that of this data set.

        Raises:
            AlreadyExistsError: there is a Delta table at the location.
            DefinitionError: the descriptor cannot work.
            InvalidChangesError: a row does not fit a partition there.
        """
        snapshot = _existing_snapshot(self._table)
        own = snapshot.descriptor.descriptor
        by, in_order = own.partition, ", ".join(own.order)
        descriptor = Description.of(
            own.schema,
            (None if by is None else ", ".join(by)) if partition is ... else partition,
            in_order if order is ... else order,
            own.compression if compression is ... else compression,
        )
        table = table_at(location, self._engines)
        rows = reading.parts(self._table, snapshot, self._condition(snapshot, None))
        copied(rows, table, descriptor, self._engines.limits)
        return Dataset(self._engines, table, descriptor)

    def _condition(self, snapshot: DatasetSnapshot, where: str | None) -> reading.Condition:
        return reading.Condition.of(
            where, snapshot.descriptor, self._within, self._engines.time_zone
        )


def _existing_snapshot(table: DataTable) -> DatasetSnapshot:
    snapshot = table.snapshot()
    if snapshot is None:
        what = "no data set" if table.opened() is not None else "nothing"
        raise NotFoundError(
            f"there is {what} at {table.address}: a data set is a Delta table with a descriptor; "
            "create it"
        )
    return snapshot


def _mismatch(
    address: str, differences: dict[str, tuple[object, object]], what_for: str = ""
) -> DescriptorMismatchError:
    texts = "; ".join(
        f"{part} is {current!r}, not {wanted!r}" for part, (wanted, current) in differences.items()
    )
    return DescriptorMismatchError(
        f"the data set at {address}{what_for} has another description: {texts}",
        location=address,
        differences=differences,
    )
