"""Storage: the bytes of a store's tables, in live files and on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from deltaproduce import Version


def stored(location: Path, version: Version) -> dict[str, Any]:
    """Return the storage of a store at a path: stage -> number of content rows, and bytes by table.

    ``live`` bytes are in the ``files`` of the pinned Delta version; ``disk`` includes logs and
    former files.
    """
    return {
        name: {
            "rows": figures.rows,
            "tables": {
                table.name: _stored(table, figures.delta_versions.get(table.name))
                for table in sorted((location / name).iterdir())
                if (table / "_delta_log").is_dir()
            },
        }
        for name, figures in version.stages.items()
    }


def content_alone(after_load: dict[str, Any], rows: int) -> float:
    """Return the bytes of a stage's freshly written content: as many a row as in its first load.

    Args:
        after_load: the stage's figures after the first load.
        rows: the current number of rows.
    """
    content = after_load["tables"]["content"]["live"]
    return float(content / max(1, after_load["rows"]) * rows)


def _stored(table: Path, delta_version: int | None) -> dict[str, int]:
    actions = pa.table(DeltaTable(str(table), version=delta_version).get_add_actions())
    live = pc.sum(actions["size_bytes"]).as_py() or 0
    return {"live": live, "files": actions.num_rows, "disk": _disk(table)}


def _disk(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
