"""Storage: the bytes that a store's tables take up, as files that are live and files on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from deltaproduce import Version


def stored(location: Path, version: Version) -> dict[str, Any]:
    """What a store at a path takes up: stage -> number of content rows, and bytes a table.

    ``live`` bytes are those of the ``files`` of the pinned delta version; ``disk`` is all that is
    there, logs and former files too.
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
    """The bytes of a stage's content alone, freshly written: as many a row as in its first load.

    Args:
        after_load: the stage's figures after the first load.
        rows: how many rows there are now.
    """
    content = after_load["tables"]["content"]["live"]
    return float(content / max(1, after_load["rows"]) * rows)


def _stored(table: Path, delta_version: int | None) -> dict[str, int]:
    actions = pa.table(DeltaTable(str(table), version=delta_version).get_add_actions())
    live = pc.sum(actions["size_bytes"]).as_py() or 0
    return {"live": live, "files": actions.num_rows, "disk": _disk(table)}


def _disk(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
