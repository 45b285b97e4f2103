"""Actions: the log's entries for the files that a data set gains and loses.

Pure. The invariant: a file that is added to another data set of the same descriptor keeps the
values of its partition, and the statistics of all columns whose bounds can be written to the log
again unchanged.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import date
from typing import Any
from urllib.parse import quote

from deltalake.transaction import AddAction, RemoveAction

from deltaproduce.described.descriptor import Description
from deltaproduce.engines.delta.log import logged
from deltaproduce.engines.local.data_files import logged_end


def added(file: Mapping[str, Any], path: str, descriptor: Description) -> AddAction:
    """Return the action that adds a file of another data set with the same descriptor.

    Args:
        file: a row of `Snapshot.files`.
        path: its new path.
    """
    stats = {
        "numRecords": file["num_records"],
        "minValues": _kept(file.get("min")),
        "maxValues": _kept(file.get("max")),
        "nullCount": {n: count for n, count in (file.get("null_count") or {}).items() if count},
    }
    values, size = values_in_log(file, descriptor), file["size_bytes"]
    now = int(time.time() * 1000)
    return AddAction(path, size, values, now, data_change=True, stats=json.dumps(stats))


def removed(file: Mapping[str, Any], descriptor: Description) -> RemoveAction:
    """Return the action that removes a file, given as a row of `Snapshot.files`."""
    now, values = int(time.time() * 1000), values_in_log(file, descriptor)
    return RemoveAction(file["path"], True, now, file["size_bytes"], values)


def values_in_log(file: Mapping[str, Any], descriptor: Description) -> dict[str, str | None]:
    """Return the partition values of a file, in the log's form.

    Args:
        file: a row of `Snapshot.files`.
    """
    return {
        one.column.name: logged(file["partition"][one.column.name], one.column.data_type)
        for one in descriptor.partitions
    }


def _kept(ends: Mapping[str, Any] | None) -> dict[str, object]:
    """Return the column bounds that can be written to the log again unchanged."""
    return {
        name: logged_end(value)
        for name, value in (ends or {}).items()
        if isinstance(value, int | str | date) and not isinstance(value, bool)
    }


def action(file: AddAction) -> dict[str, object]:
    """Return an action ``add`` in the log's form."""
    return {
        "path": quote(file.path, safe="/="),
        "partitionValues": dict(file.partition_values),
        "size": file.size,
        "modificationTime": file.modification_time,
        "dataChange": file.data_change,
        "stats": file.stats,
    }
