"""The data set: what a user holds of a described Delta table.

A facade: each method says what it does, and hands on to the module that does it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import EllipsisType, MappingProxyType
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltaproduce.datasets import reading
from deltaproduce.datasets.absorbing import absorb
from deltaproduce.datasets.copying import copied
from deltaproduce.datasets.parts import narrowed
from deltaproduce.datasets.places import engines_of, table_at
from deltaproduce.datasets.tables import DataTable, Snapshot, already_there
from deltaproduce.datasets.writing.writer import DatasetWriter, opened_writer
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

_EVERYWHERE: Final[Mapping[str, str | None]] = MappingProxyType({})


class Dataset:
    """A Delta table with a descriptor: the columns of its rows, and how its files keep them.

    Made by `create`, `find` and `find_or_create`.
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
        """Make an empty data set: a Delta table with its descriptor, in one commit.

        Args:
            spark: a session with Delta. None for a data set without Spark: it gives pyarrow Tables.
            location: a path, of this machine or in an object store.
            schema: the columns of the rows, as DDL or StructType. ``NOT NULL`` is checked where
                rows are written.
            partition: what rows are kept apart by: columns, or ``expression AS name``, separated by
                commas. An expression's name is a column of the Delta table and not of the rows;
                timestamps in it are taken in UTC. "" partitions by nothing, so writers may be told
                to be partitioned; with None they may not.
            order: the columns that the rows of each file are sorted by, such as ``"day, id desc"``.
            compression: of its files: ``snappy``, ``zstd``, ``gzip``, ``lz4`` or ``uncompressed``.

        Raises:
            DefinitionError: it cannot work as it is described; nothing is written.
            AlreadyExistsError: there is a Delta table at the location, data set or not.
            SessionError: the session cannot work with Delta tables.
            StorageError: nothing can be written there.
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
        """The data set at a location.

        Args:
            spark: see `create`.
            schema: the columns that it has to have, if they are known.

        Raises:
            NotFoundError: there is none, or a Delta table that is no data set.
            DescriptorMismatchError: it has other columns.
            CorruptStoreError: its descriptor is broken.
            DefinitionError: no data set can be there, or ``schema`` is none.
        """
        columns = None if schema is None else plain_columns(schema)
        engines = engines_of(spark)
        table = table_at(location, engines)
        found = _found(table).descriptor
        if columns is not None and columns != found.columns:
            raise _mismatch(table.address, {"schema": (columns.ddl, found.columns.ddl)})
        return Dataset(engines, table, found)

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
        """The data set at a location, which is made if there is none; any number may ask at once.

        Args are those of `create`.

        Raises:
            DescriptorMismatchError: there is one of another descriptor; `differences` has the parts
                that differ by meaning, and not by spelling only.
            AlreadyExistsError: there is a Delta table that is no data set.
            DeltaProduceError: as `create` and `find` raise.
        """
        wanted = Description.of(schema, partition, order, compression)
        engines = engines_of(spark)
        table = table_at(location, engines)
        found = table.snapshot()
        if found is None:
            try:
                table.check_commits()
                table.create(wanted)
            except AlreadyExistsError:
                found = table.snapshot()
                if found is None:
                    raise
        descriptor = wanted if found is None else found.descriptor
        if differences := wanted.differences(descriptor):
            raise _mismatch(table.address, differences)
        return Dataset(engines, table, descriptor)

    def __repr__(self) -> str:
        within = ", ".join(f"{name}={value}" for name, value in self._within.items())
        return one_line(self, self.location, partition=Word(within) if within else None)

    @property
    def location(self) -> str:
        """Where it is: the path of its Delta table."""
        return self._table.address

    @property
    def descriptor(self) -> Descriptor:
        """What its rows and files are."""
        return self._description.descriptor

    def read(self, where: str | None = None) -> DataFrame | pa.Table:
        """The rows, in no order.

        Args:
            where: a condition in SQL over the columns of rows and of partitions. Files that cannot
                have such rows are not read.

        Returns:
            The columns of rows; a DataFrame with a session, else a pyarrow Table, which lies in a
            temporary file if it is large.

        Raises:
            InvalidArgumentError: ``where`` is no condition, or fails for a row.
            SessionError: only Spark computes it, or reads the files, and there is no session.
            NotFoundError: the data set is not there any more.
            CorruptStoreError: files are gone or broken.
        """
        snapshot = _found(self._table)
        return reading.rows(self._engines, self._table, snapshot, self._asked(snapshot, where))

    def files(self, where: str | None = None) -> list[str]:
        """The paths of its files from the location, sorted.

        Args:
            where: as for `read`: those that may have rows of it, by their partitions and by the
                least and greatest values of columns.
        """
        snapshot = _found(self._table)
        found = reading.files(self._table, snapshot, self._asked(snapshot, where))
        paths: list[str] = found.column("path").to_pylist()
        return paths

    def partition(self, **values: object) -> Dataset:
        """A part of it: the rows of some values in some, or all, of its partition columns.

        It is read, written and copied as a data set of its own; rows of other values are refused.

        Args:
            values: by column; dates also as text in ISO 8601. None is null.

        Raises:
            InvalidArgumentError: there is no such partition column, or a value is none of it, or is
                not that of the part that this is.
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
        """A writer, to be used in a ``with`` block, at whose end its rows are in the data set.

        Args:
            roll_rows: a file of a partition ends with so many rows; without it a writer makes one
                file of each partition.
            checkpoint: a file is committed as it ends, and with it how much of the input is
                durable: the next writer of the same checkpoint goes on from its ``resume_from``.
                A text names the input, of several.
            partitioned: the data set must be partitioned, be it by nothing. All writers of one that
                is partitioned by columns are.
            open_files: of so many partitions at most rows are in memory. Of others they are set
                aside, in a temporary file.

        Raises:
            InvalidArgumentError: an argument is not of its type, or there is no partition.
            NotFoundError: the data set is not there any more.
        """
        return opened_writer(
            self._engines,
            self._table,
            self._description,
            self._within,
            roll_rows=roll_rows,
            checkpoint=checkpoint,
            partitioned=partitioned,
            open_files=open_files,
        )

    def absorb(self, other: Dataset) -> None:
        """Move all rows of another data set into this one, by one commit; the other is then empty.

        In one file system no data is copied. Whoever reads both through the library sees the rows
        in one of them, also where it was cut off: the next absorption, or writer of either,
        completes it, or undoes it. So it must not be begun while writers of either are at work.

        Raises:
            InvalidArgumentError: it is this data set itself, or one of the two is a part, or Spark
                has marked rows of it as deleted.
            DescriptorMismatchError: it is described otherwise.
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
        if differences := _found(self._table).descriptor.differences(
            _found(other._table).descriptor
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
        """Make another data set of its rows, whole or not at all: a file of each partition.

        Args:
            location: as for `create`.
            partition: see `create`; so are the others. ``...`` is as it is here.

        Raises:
            AlreadyExistsError: there is a Delta table at the location.
            DefinitionError: it cannot work as it is described.
            InvalidChangesError: a row is of no partition there.
        """
        snapshot = _found(self._table)
        own = snapshot.descriptor.descriptor
        by, in_order = own.partition, ", ".join(own.order)
        descriptor = Description.of(
            own.schema,
            (None if by is None else ", ".join(by)) if partition is ... else partition,
            in_order if order is ... else order,
            own.compression if compression is ... else compression,
        )
        table = table_at(location, self._engines)
        rows = reading.parts(self._table, snapshot, self._asked(snapshot, None))
        copied(rows, table, descriptor, self._engines.limits)
        return Dataset(self._engines, table, descriptor)

    def _asked(self, snapshot: Snapshot, where: str | None) -> reading.Condition:
        return reading.Condition.of(
            where, snapshot.descriptor, self._within, self._engines.time_zone
        )


def _found(table: DataTable) -> Snapshot:
    found = table.snapshot()
    if found is None:
        what = "no data set" if table.opened() is not None else "nothing"
        raise NotFoundError(
            f"there is {what} at {table.address}: a data set is a Delta table with a descriptor; "
            "create it"
        )
    return found


def _mismatch(
    address: str, differences: dict[str, tuple[object, object]], what_for: str = ""
) -> DescriptorMismatchError:
    told = "; ".join(
        f"{part} is {found!r}, not {wanted!r}" for part, (wanted, found) in differences.items()
    )
    return DescriptorMismatchError(
        f"the data set at {address}{what_for} is described otherwise: {told}",
        location=address,
        differences=differences,
    )
