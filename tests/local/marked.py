"""Rows marked as deleted by hand, as Spark marks them: delta-rs reads marks and writes none."""

import json
import struct
from pathlib import Path
from typing import Any

from deltaproduce.engines.delta.log import Z85

_MAGIC = 1681511377
_NO_RUNS = 12346
FEATURE = ["deletionVectors"]


def mark_rows(table: Path | str, rows: list[int]) -> None:
    """Mark an even number of rows of the newest file as deleted, in one commit.

    The marks are a bitmap inside of the log, by the protocol of Delta: "deletion vector format".
    """
    log = Path(table) / "_delta_log"
    commits = sorted(log.glob("*.json"))
    lines = (json.loads(line) for path in commits for line in path.read_text().splitlines())
    *_, file = (line["add"] for line in lines if "add" in line)
    bitmap = struct.pack(f"<IIHHI{len(rows)}H", _NO_RUNS, 1, 0, len(rows) - 1, 16, *rows)
    data = struct.pack("<IQI", _MAGIC, 1, 0) + bitmap
    marks = {"storageType": "i", "pathOrInlineDv": _in_text(data), "sizeInBytes": len(data)}
    gone = {name: file[name] for name in ("path", "partitionValues", "size")}
    actions: list[dict[str, Any]] = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": FEATURE,
                "writerFeatures": FEATURE,
            }
        },
        {
            "remove": {
                **gone,
                "dataChange": True,
                "deletionTimestamp": 1,
                "extendedFileMetadata": True,
            }
        },
        {"add": {**file, "deletionVector": {**marks, "cardinality": len(rows)}}},
        {"commitInfo": {"operation": "DELETE", "timestamp": 1}},
    ]
    text = "".join(f"{json.dumps(action)}\n" for action in actions)
    (log / f"{len(commits):020}.json").write_text(text)


def _in_text(data: bytes) -> str:
    """Bytes as Delta writes them: five digits of base 85 for each four bytes."""
    words = [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]
    return "".join(Z85[word // 85**place % 85] for word in words for place in (4, 3, 2, 1, 0))
