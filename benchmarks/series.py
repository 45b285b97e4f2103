"""A series: many small versions in a row, to compare the cost of the last with the first."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.competitor import Competitor
from benchmarks.policy import SHAPE
from benchmarks.runs import Bench, Size, cases
from benchmarks.shapes import re_key
from benchmarks.workload import Workload

KEYS: Final = 10
ENDS: Final = 10
"""The medians of the first and the last versions are of this many."""


def series(
    bench: Bench, rows: int, versions: int, peers: Mapping[str, type[Competitor]]
) -> dict[str, Any]:
    """Run this many versions of orders by customer, each with ten changed orders."""
    workload: Workload = re_key()
    result: dict[str, Any] = {}
    size = Size.of(bench, workload, rows, peers)
    effort = dict.fromkeys(peers, SHAPE.of(versions))
    for _ in cases(size, {KEYS: effort}, result):
        pass
    case = result["cases"][0]["competitors"]
    return {
        "rows": rows,
        "changed": KEYS,
        "versions": versions,
        "competitors": {name: _ends(found, result, name) for name, found in case.items()},
    }


def _ends(found: Mapping[str, Any], result: Mapping[str, Any], name: str) -> dict[str, Any]:
    if "failure" in found:
        return {"name": found["name"], "failure": found["failure"]}
    seconds = [step["seconds"] for step in found["steps"]]
    first, last = (statistics.median(some) for some in (seconds[:ENDS], seconds[-ENDS:]))
    return {
        "name": found["name"],
        "seconds": seconds,
        "first": first,
        "last": last,
        "slowest": max(seconds),
        "jobs": [step["jobs"] for step in found["steps"]],
        "commits": sum(step["commits"] for step in found["steps"]),
        "bytes_written": sum(step["bytes_written"] for step in found["steps"]),
        "files": {
            when: _files(storage[name])
            for when, storage in result["storage"].items()
            if name in storage
        },
        "storage": {when: storage.get(name) for when, storage in result["storage"].items()},
    }


def _files(stages: Mapping[str, Any]) -> int:
    tables: Sequence[Any] = [t for stage in stages.values() for t in stage["tables"].values()]
    return sum(table["files"] for table in tables)
