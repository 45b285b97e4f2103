"""The commit probe: whether the second of two commits to one place is refused.

Writers are kept apart only because a commit's file is put only where there is none. Many services
speak S3's protocol, and some accept the condition and overwrite the file. The invariant: no table
in an object store is committed to before its service has refused such a commit, once per process
for a store's root; and the probe removes its files.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from deltalake.exceptions import CommitFailedError

from deltaproduce.engines.delta.log import commit_file
from deltaproduce.engines.file_systems.directory import Directory

_ROOM: Final = "_commit_probe"
_SCHEMA: Final = pa.schema({"n": pa.int64()})
_FIELD: Final = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
_ACTIONS: Final[tuple[dict[str, Any], ...]] = (
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {
        "metaData": {
            "id": "probe",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": [_FIELD]}),
            "partitionColumns": [],
            "configuration": {},
        }
    },
)
_FIRST: Final = "\n".join(map(json.dumps, _ACTIONS))


@cache
def fault(root: Directory) -> str | None:
    """Return what is wrong with commits below a directory; None if the second of two is refused.

    Delta-rs creates a table there; once it has found no table, and asks for the rows, the probe
    puts another commit where delta-rs is about to put its own.

    Raises:
        Exception: delta-rs's, or the file system's, if nothing can be written at all.
    """
    table = root.at(f"{_ROOM}/{uuid.uuid4().hex}")

    def overtaken() -> Iterator[pa.RecordBatch]:
        table.write(commit_file(0), _FIRST)
        yield pa.record_batch({"n": [1]}, _SCHEMA)

    try:
        with suppress(CommitFailedError):
            write_deltalake(
                table.uri,
                pa.RecordBatchReader.from_batches(_SCHEMA, overtaken()),
                mode="error",
                storage_options=table.storage_options,
                commit_properties=CommitProperties(max_commit_retries=0),
            )
            return "of two commits to the same delta version it takes both, and loses the first"
        return None if table.read(commit_file(0)).text == _FIRST else "it loses a commit"
    finally:
        with suppress(OSError):
            table.remove()
            table.parent.remove_if_empty()
