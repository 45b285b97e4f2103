"""Reading: the rows of a data set, or of some of its partitions, and the files that have them.

The invariant: a read sees one snapshot of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltaproduce.datasets.absorbing import visible
from deltaproduce.datasets.actions import values_in_log
from deltaproduce.datasets.pruning import may_have
from deltaproduce.datasets.tables import DatasetSnapshot, DataTable
from deltaproduce.described.descriptor import Description
from deltaproduce.described.partitions import read_values
from deltaproduce.engines.choice import Engines, needs_spark
from deltaproduce.engines.delta.tables import Place
from deltaproduce.engines.local.arrays import empty
from deltaproduce.engines.spark.columns import col, cols
from deltaproduce.engines.spark.data_types import in_spark
from deltaproduce.engines.spark.delta import SparkDelta
from deltaproduce.engines.spark.sessions.on_demand import functions as f
from deltaproduce.errors import CorruptStoreError, DefinitionError, InvalidArgumentError
from deltaproduce.stages.sql.expressions.analysis import analysed
from deltaproduce.stages.sql.expressions.evaluation import holds
from deltaproduce.stages.sql.expressions.expression import Expression
from deltaproduce.stages.sql.expressions.kernels.failures import EvaluationError
from deltaproduce.stages.sql.expressions.terms import Term
from deltaproduce.types.atoms import arrow_type
from deltaproduce.types.conversions import in_arrow_types
from deltaproduce.types.data_types import BooleanType, NullType
from deltaproduce.types.excerpts import described, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Condition:
    """Which rows to read.

    Attributes:
        expression: the condition as it is written; None for all rows.
        term: the expression with its types; None if only Spark can compute it.
        within: the values, in the log's form, that partition columns must have.
    """

    expression: Expression | None
    term: Term | None
    within: Mapping[str, str | None]

    @staticmethod
    def of(
        where: str | None,
        descriptor: Description,
        within: Mapping[str, str | None],
        time_zone: str,
    ) -> Condition:
        """Read a condition over the columns of rows and of partitions.

        Raises:
            InvalidArgumentError: the text is not such a condition.
        """
        if where is None:
            return Condition(None, None, within)
        if not isinstance(where, str):
            raise _refused(f"{shown(where)} is not a str")
        types = {c.name: c.data_type for c in descriptor.all_columns}
        try:
            expression = Expression.read(where, list(types))
            term = analysed(expression, types, time_zone)
        except DefinitionError as error:
            raise _refused(str(error)) from error
        if term is not None and not isinstance(term.data_type, BooleanType | NullType):
            raise _refused(f"it is of type {term.data_type.simpleString()}")
        return Condition(expression, term, within)


def files(table: DataTable, snapshot: DatasetSnapshot, condition: Condition) -> pa.Table:
    """Return the files that may have matching rows, as `DatasetSnapshot.files`."""
    return chosen(visible(table, snapshot), condition, snapshot.descriptor)


def chosen(files: pa.Table, condition: Condition, descriptor: Description) -> pa.Table:
    """Keep the files that may have matching rows.

    Args:
        files: as `DatasetSnapshot.files`.
    """
    if condition.within:
        values = [
            values_in_log(file, descriptor) for file in files.select(["partition"]).to_pylist()
        ]
        within = condition.within.items()
        files = files.filter(
            pa.array(
                [all(one[name] == text for name, text in within) for one in values], pa.bool_()
            )
        )
    if condition.term is None or not len(files):
        return files
    return files.filter(pa.array(may_have(condition.term, files, descriptor)))


def rows(
    engines: Engines, table: DataTable, snapshot: DatasetSnapshot, condition: Condition
) -> DataFrame | pa.Table:
    """Return the matching rows, in the columns of rows; a DataFrame with a session."""
    if engines.session is not None:
        return _in_spark(engines, table, snapshot, condition)
    spill = engines.spill()
    spill.add(empty(snapshot.descriptor.stored))
    for part in parts(table, snapshot, condition):
        spill.add(part)
    return spill.table()


def parts(table: DataTable, snapshot: DatasetSnapshot, condition: Condition) -> Iterator[pa.Table]:
    """Return the matching rows without Spark, row group by row group.

    Raises:
        SessionError: only Spark can read them, or compute the condition.
        InvalidArgumentError: the condition fails for a row.
        CorruptStoreError: a file is gone or broken.
    """
    descriptor = snapshot.descriptor
    if condition.expression is not None and condition.term is None:
        raise needs_spark()
    if snapshot.has_marked_rows:
        raise needs_spark()
    names = list(descriptor.columns.names)
    for file in files(table, snapshot, condition).to_pylist():
        values = read_values(tuple(values_in_log(file, descriptor).values()), descriptor.partitions)
        for group in _groups(table, descriptor, file["path"]):
            whole = _true(_beside(group, values), condition)
            yield in_arrow_types(whole.select(names), descriptor.stored)


def holding(rows: pa.Table, condition: Condition, descriptor: Description) -> pa.Table:
    """Keep the matching rows.

    Args:
        rows: a table that has the partition columns.

    Raises:
        InvalidArgumentError: the condition fails for a row.
    """
    types = {one.column.name: one for one in descriptor.partitions}
    for name, text in condition.within.items():
        (value,) = read_values((text,), [types[name]]).values()
        column = rows.column(name)
        same = pc.equal(column, value) if value.is_valid else pc.is_null(column)
        rows = rows.filter(pc.fill_null(same, fill_value=False))
    return _true(rows, condition)


def _true(rows: pa.Table, condition: Condition) -> pa.Table:
    """Keep the rows for which a condition is true."""
    if condition.term is None:
        return rows
    try:
        return rows.filter(pa.array(holds(condition.term, rows)))
    except EvaluationError as error:
        raise _refused(f"it fails for a row: {error}") from error


def _groups(table: DataTable, descriptor: Description, path: str) -> Iterator[pa.Table]:
    """Return the row groups of a file; Delta lets a file lack columns, whose values are null."""
    wanted = descriptor.in_files
    try:
        with table.directory.parquet(path) as file:
            there = file.schema_arrow.names
            lacking = [c for c in wanted if c.nullable and c.name not in there]
            names = [c.name for c in wanted if c not in lacking]
            for number in range(file.num_row_groups):
                group = file.read_row_group(number, columns=names)
                count = file.metadata.row_group(number).num_rows
                for column in lacking:
                    nulls = pa.nulls(count, arrow_type(column.data_type))
                    group = group.append_column(column.name, nulls)
                yield in_arrow_types(group, wanted)
    except (OSError, pa.ArrowException, KeyError) as error:
        raise CorruptStoreError(
            f"the file {path!r} of the data set at {table.address} cannot be read: "
            f"{described(error)}",
            table=table.address,
        ) from error


def _beside(group: pa.Table, values: Mapping[str, pa.Scalar]) -> pa.Table:
    """Return rows with the values of their partition."""
    for name, value in values.items():
        group = group.append_column(name, pa.repeat(value, len(group)))
    return group


def _in_spark(
    engines: Engines, table: DataTable, snapshot: DatasetSnapshot, condition: Condition
) -> DataFrame:
    descriptor = snapshot.descriptor
    rows = SparkDelta(engines.spark).read(
        Place(table.address, in_catalog=False), snapshot.delta_version
    )
    there = visible(table, snapshot)
    if len(there) < len(snapshot.files):  # another data set absorbed some files
        names = [path.rpartition("/")[2] for path in there.column("path").to_pylist()]
        rows = rows.where(f.col("_metadata.file_name").isin(names) if names else f.lit(False))
    types = {one.column.name: one.column.data_type for one in descriptor.partitions}
    for name, value in condition.within.items():
        rows = rows.where(col(name).eqNullSafe(f.lit(value).cast(in_spark(types[name]))))
    if condition.expression is not None:
        rows = rows.where(f.expr(condition.expression.text))
    return rows.select(*cols(descriptor.columns))


def _refused(finding: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"where is not a condition over the columns of the data set: {finding}", argument="where"
    )
