"""Arguments: the columns and directories that the user names.

The invariant: an argument that does not fit is refused in one line that says what to give instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from deltaproduce.engines.file_systems.choice import directory
from deltaproduce.engines.file_systems.directory import Directory
from deltaproduce.engines.spark.delta import SparkDelta
from deltaproduce.errors import (
    DefinitionError,
    InvalidArgumentError,
    NotFoundError,
    SessionError,
)
from deltaproduce.model.limits import Limits
from deltaproduce.record_index import runs, table
from deltaproduce.storage.locations import Location, StoreTable
from deltaproduce.types.columns import Column, check_key_type, key_columns, named_columns
from deltaproduce.types.data_types import NullType
from deltaproduce.types.excerpts import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DURATION: Final = re.compile(r"([0-9]+) *(week|day|hour|minute)s?", re.IGNORECASE)
_LONGEST: Final = 50_000
"""In weeks: nearly a thousand years, which dates hold."""


def check_buckets(buckets: object) -> None:
    """Refuse a number of buckets that is not valid.

    Raises:
        InvalidArgumentError: it is not a valid number of buckets.
    """
    if not isinstance(buckets, int) or isinstance(buckets, bool) or not 1 <= buckets <= 1 << 20:
        message = f"buckets is {shown(buckets)}: use a whole number from 1 to {1 << 20}"
        raise InvalidArgumentError(message, argument="buckets")


def duration(text: object) -> timedelta:
    """Return a duration, such as ``"7 days"``.

    Raises:
        InvalidArgumentError: it is none.
    """
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is not None:
        number, unit = match.groups()
        return timedelta(**{f"{unit.lower()}s": min(int(number), _LONGEST)})
    if isinstance(text, timedelta) and text >= timedelta():
        return min(text, timedelta(minutes=_LONGEST))
    message = f"tombstones is {shown(text)}: use a duration, as '7 days' or '12 hours'"
    raise InvalidArgumentError(message, argument="tombstones")


def key_list(key: object) -> tuple[Column, ...]:
    """Return the key columns as given: their names, and their types where stated.

    Raises:
        InvalidArgumentError: they are not names, or a name occurs twice.
    """
    listed: Sequence[Column] = ()
    if isinstance(key, str) and key.strip():
        listed = (named_columns(key) or key_columns(key)).columns
    elif isinstance(key, Sequence) and all(isinstance(name, str) for name in key):
        listed = [Column(name, NullType()) for name in key]
    if not listed or len({column.name.lower() for column in listed}) < len(listed):
        message = f"key is {shown(key)}: use names of columns, each once, as 'country, id'"
        raise InvalidArgumentError(message, argument="key")
    return tuple(listed)


def key_of(
    snapshot: table.TableSnapshot, listed: Sequence[Column], own: Collection[str]
) -> tuple[Column, ...]:
    """Return the key columns with the table's names and types.

    Args:
        own: the names of the index's own columns.

    Raises:
        DefinitionError: the table lacks a column, or has it with another type than stated or a type
            that cannot identify records; or a key or partition column has a name that the index
            returns.
    """
    columns = []
    for wanted in listed:
        column = column_of(snapshot, wanted.name)
        _check_name(column.name, "key column", own)
        if wanted.is_known and wanted.data_type != column.data_type:
            raise DefinitionError(
                f"key column {column.name!r} is declared as {wanted.data_type.simpleString()} and "
                f"is {column.data_type.simpleString()} in table {snapshot.directory.path!r}; "
                "declare that, or leave the type out",
                column=column.name,
            )
        check_key_type(column.name, column.data_type)
        columns.append(column)
    for name in snapshot.partitioned_by:
        _check_name(name, "partition column", {runs.FILE})
    return tuple(columns)


def _check_name(name: str, what: str, own: Collection[str]) -> None:
    if name.lower() in own:
        message = f"{what} {name!r} is named as one of the index's own; rename it"
        raise DefinitionError(message, column=name)


def column_of(snapshot: table.TableSnapshot, name: object) -> Column:
    """Return a column of a table; case counts only where it distinguishes columns.

    Raises:
        DefinitionError: the table has no such column.
    """
    lower = name.lower() if isinstance(name, str) else None
    alike = [column for column in snapshot.columns if column.name.lower() == lower]
    match = alike[0] if len(alike) == 1 else next((c for c in alike if c.name == name), None)
    if match is None:
        names = ", ".join(column.name for column in snapshot.columns)
        raise DefinitionError(
            f"table {snapshot.directory.path!r} has no column {shown(name)}; it has {names}",
            column=name if isinstance(name, str) else None,
        )
    return match


def table_directory(spark: SparkSession | None, text: str) -> Directory:
    """Return the directory of a table.

    Raises:
        NotFoundError: there is no such table.
        InvalidArgumentError: the argument is not text.
        SessionError: a catalog names the table, and there is no session.
        DefinitionError: only Spark can read the table.
    """
    if not isinstance(text, str):
        raise InvalidArgumentError(
            f"table is {shown(text)}: use a path or a name", argument="table"
        )
    place = StoreTable.existing(text).place
    address = place.address
    if place.in_catalog:
        if spark is None:
            message = f"table {text!r} is a name in a catalog: give a session, or the table's path"
            raise SessionError(message)
        about = SparkDelta(spark, Limits()).describe(place)
        if about is None or about.format != "delta":
            raise NotFoundError(f"there is no Delta table {text!r}")
        address = about.location
    return _seen(address, f"table {text!r}")


def index_directory(text: str, table: Directory) -> Directory:
    """Return the directory of an index.

    Args:
        table: the directory of the table, whose `VACUUM` removes every file in it that is not its.

    Raises:
        InvalidArgumentError: the argument is not text.
        DefinitionError: it is not a path, not one on this machine, or inside the table.
    """
    if not isinstance(text, str):
        raise InvalidArgumentError(f"location is {shown(text)}: use a path", argument="location")
    location = Location.parse(text)
    if location.in_catalog:
        raise DefinitionError(f"location {text!r} is not a path: put a '/' in it, as './{text}'")
    home = _seen(location.address, f"location {text!r}")
    if f"{home.real.path}/".startswith(f"{table.real.path}/"):
        raise DefinitionError(
            f"location {text!r} is inside the table, whose VACUUM would remove the index: use a "
            "path of its own"
        )
    return home


def _seen(address: str, what: str) -> Directory:
    """Return a directory in which delta-rs and Spark never overwrite each other's commits.

    Raises:
        DefinitionError: it is not such a directory.
    """
    place = directory(address)
    if place is None or not place.is_taken or not place.file_system.has_safe_spark:
        raise DefinitionError(
            f"{what} is none of this machine's plain paths, which a record index takes: mount it, "
            "or rename the directory"
        )
    return place
